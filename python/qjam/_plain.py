"""The closed list: what a pickle from another machine may use here without being a class of the user.

Each entry was looked at with hostile arguments in mind: with those that its guard lets pass (`_worker.guards`) it makes a value, and
does nothing else. Names of older versions of Python and NumPy are kept, since run files have them.
"""

from __future__ import annotations

from typing import Dict, Tuple

#: Uses, as `_native.names_in` tells them.
VALUE, CALL, NEW, FILL, BUILD, LOOKUP = 1, 2, 4, 8, 16, 32

PLAIN: Dict[Tuple[str, str], int] = {}
#: The same for packages that the program has imported.
PACKAGES: Dict[str, Dict[Tuple[str, str], int]] = {"pandas": {}, "pyarrow": {}, "pytz": {}, "scipy": {}}


def _add(uses: int, modules: str, names: str, to: Dict[Tuple[str, str], int] = PLAIN) -> None:
    for module in modules.split():
        for name in names.split():
            to[module, name] = to.get((module, name), 0) | uses


_add(VALUE, "builtins", "int float complex bool str bytes bytearray list tuple dict set frozenset object")
_add(VALUE, "builtins", "Ellipsis NotImplemented range slice")
_add(CALL, "builtins", "complex range slice")
# It only finds a class of the user's script.
_add(CALL, "qjam._worker.scripts", "script_class")
# Used only for a class and the name of its method, which is looked up in this list again.
_add(CALL, "builtins", "getattr")

_add(CALL | VALUE | FILL | BUILD, "collections", "OrderedDict defaultdict deque Counter")
_add(NEW | BUILD, "collections", "ChainMap UserDict UserList UserString")
_add(CALL, "datetime", "date time datetime timedelta timezone")
_add(LOOKUP, "zoneinfo", "ZoneInfo")
_add(CALL, "zoneinfo", "ZoneInfo._unpickle")
_add(CALL, "decimal", "Decimal")
_add(CALL, "fractions", "Fraction")
_add(NEW | BUILD, "uuid", "UUID")
_add(CALL, "pathlib pathlib._local", "PurePosixPath PosixPath PureWindowsPath PurePath Path")
_add(CALL, "ipaddress", "IPv4Address IPv6Address IPv4Network IPv6Network IPv4Interface IPv6Interface")
_add(CALL | BUILD, "types", "SimpleNamespace")
_add(CALL, "array", "_array_reconstructor")
_add(VALUE, "array", "array")
_add(CALL, "re", "_compile")
_add(CALL, "time", "struct_time")
_add(CALL | BUILD, "random", "Random")
_add(NEW | BUILD, "_io", "BytesIO StringIO")

_CORES = "numpy._core numpy.core"


def _under(suffix: str) -> str:
    return " ".join(core + suffix for core in _CORES.split())


_add(CALL | BUILD, _under(".multiarray"), "_reconstruct")
_add(CALL, _under(".multiarray"), "scalar")
_add(CALL, _under(".numeric"), "_frombuffer")
_add(CALL | BUILD, "numpy", "dtype")
_add(VALUE, "numpy", "ndarray matrix record bool bool_ str_ bytes_ object_ void datetime64 timedelta64")
_add(VALUE, "numpy", "float16 float32 float64 longdouble complex64 complex128 clongdouble")
_add(VALUE, "numpy", "int8 int16 int32 int64 uint8 uint16 uint32 uint64")
_add(VALUE, "numpy numpy.matrixlib.defmatrix", "matrix")
_add(VALUE, "numpy.rec numpy " + _under(".records"), "recarray record")
_add(CALL | BUILD, "numpy.ma.core", "_mareconstruct")
_add(VALUE, "numpy.ma numpy.ma.core", "MaskedArray")
_add(CALL | BUILD, "numpy.random._pickle", "__generator_ctor __bit_generator_ctor __randomstate_ctor")
# An argument of the others, in older versions.
_add(VALUE, "numpy.random._pickle", "__bit_generator_ctor")
_add(CALL | BUILD, "numpy.random.bit_generator numpy.random._bit_generator", "__pyx_unpickle_SeedSequence")
_add(VALUE, "numpy.random.bit_generator numpy.random._bit_generator", "SeedSequence")
for _name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"):
    _add(VALUE, "numpy.random._pcg64 numpy.random._mt19937 numpy.random._philox numpy.random._sfc64", _name)
_add(
    NEW | BUILD,
    "numpy.polynomial.polynomial numpy.polynomial.chebyshev numpy.polynomial.legendre",
    "Polynomial Chebyshev Legendre",
)

for _format in ("bsr", "coo", "csc", "csr", "dia", "lil"):
    _add(NEW | BUILD, f"scipy.sparse._{_format}", f"{_format}_matrix {_format}_array", PACKAGES["scipy"])
    _add(NEW | BUILD, "scipy.sparse._arrays", f"{_format}_array", PACKAGES["scipy"])

_PANDAS = PACKAGES["pandas"]
_add(NEW | BUILD | VALUE, "pandas pandas.core.frame pandas.core.series", "DataFrame Series", _PANDAS)
_add(CALL, "pandas.core.internals.managers", "BlockManager", _PANDAS)
_add(NEW | BUILD, "pandas.core.internals.managers", "SingleBlockManager", _PANDAS)
_add(CALL, "pandas._libs.internals", "_unpickle_block", _PANDAS)
_add(CALL | BUILD, "pandas._libs.arrays", "__pyx_unpickle_NDArrayBacked", _PANDAS)
_add(CALL, "pandas.core.indexes.base", "_new_Index", _PANDAS)
_add(CALL, "pandas.core.indexes.datetimes", "_new_DatetimeIndex", _PANDAS)
_add(CALL, "pandas.core.indexes.timedeltas", "_new_TimedeltaIndex", _PANDAS)
_add(CALL, "pandas.core.indexes.interval", "_new_IntervalIndex", _PANDAS)
_add(
    VALUE,
    "pandas pandas.core.indexes.base pandas.core.indexes.range pandas.core.indexes.multi pandas.core.indexes.datetimes "
    "pandas.core.indexes.timedeltas pandas.core.indexes.category",
    "Index RangeIndex MultiIndex DatetimeIndex TimedeltaIndex CategoricalIndex PeriodIndex IntervalIndex",
    _PANDAS,
)
_add(
    VALUE,
    "pandas pandas.arrays pandas.core.arrays.datetimes pandas.core.arrays.timedeltas pandas.core.arrays.string_ "
    "pandas.core.arrays.numpy_ pandas.core.arrays.categorical",
    "PeriodArray DatetimeArray TimedeltaArray StringArray PandasArray NumpyExtensionArray Categorical",
    _PANDAS,
)
_add(
    NEW | BUILD,
    "pandas.arrays pandas.core.arrays.integer pandas.core.arrays.floating pandas.core.arrays.boolean",
    "ArrowStringArray IntegerArray FloatingArray BooleanArray",
    _PANDAS,
)
_add(
    NEW | BUILD,
    "pandas pandas.core.dtypes.dtypes pandas.core.arrays.string_ pandas.core.arrays.integer pandas.core.arrays.floating "
    "pandas.core.arrays.boolean",
    "CategoricalDtype DatetimeTZDtype StringDtype Int8Dtype Int16Dtype Int32Dtype Int64Dtype Float32Dtype Float64Dtype "
    "BooleanDtype UInt8Dtype UInt16Dtype UInt32Dtype UInt64Dtype",
    _PANDAS,
)
_add(CALL, "pandas", "PeriodDtype StringDtype", _PANDAS)
_add(CALL, "pandas.core.dtypes.dtypes", "PeriodDtype", _PANDAS)
_add(
    CALL,
    "pandas._libs.tslibs.offsets",
    "Day Hour Minute Second Milli Micro Nano Week BusinessDay MonthEnd MonthBegin QuarterEnd QuarterBegin YearEnd YearBegin",
    _PANDAS,
)
_add(CALL, "pandas._libs.tslibs.timestamps", "_unpickle_timestamp", _PANDAS)
_add(CALL, "pandas._libs.tslibs.timedeltas", "_timedelta_unpickle", _PANDAS)
_add(VALUE, "pandas pandas._libs.missing", "NA", _PANDAS)
_add(CALL, "pandas._libs.tslibs.nattype", "_nat_unpickle", _PANDAS)

# Time zones of pandas 2.
_add(CALL, "pytz", "_p _UTC", PACKAGES["pytz"])

# Also columns of texts in pandas.
_add(CALL, "pyarrow.lib", "_restore_array type_for_alias py_buffer chunked_array", PACKAGES["pyarrow"])
_add(CALL, "pyarrow.lib", "_reconstruct_table schema field", PACKAGES["pyarrow"])
