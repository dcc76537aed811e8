"""Guards of pandas, pyarrow and SciPy's sparse matrices.

Their native code takes for granted that places of columns, codes of categories, offsets of texts and indices of matrices are in
range, and that parts which belong together are equally long. These parts are compared before they are put together. Caches that
pandas pickles along are left out: they are computed again.
"""

from __future__ import annotations

import datetime
import sys
from typing import Any, Callable, Dict, Optional, Tuple

from qjam._worker.guards import CallGuard, Refused, exactly, need, set_state, takes

_FALSE_TABLE = "a false table"
_FALSE_INDEX = "a false index of a table"
_FALSE_COLUMN = "a false column of a table"
_FALSE_MOMENT = "a false time"
_FALSE_ARROW = "a false Arrow array"
_FALSE_MATRIX = "a false sparse matrix"
_NONE = type(None)
_INT_MAX = 2**63 - 1


def _kind(module: str, *names: str) -> Any:
    """A class of a package that is imported, under the first of its names that there is."""
    found: Any = sys.modules.get(module)
    for name in names:
        if hasattr(found, name):
            return getattr(found, name)
    # No object is an instance of it.
    return _Missing


class _Missing:
    pass


def _is_kind(given: Any, base: Any) -> bool:
    return isinstance(given, type) and issubclass(given, base)


def _is_number(value: Any) -> bool:
    return exactly(value, int) and -_INT_MAX - 1 <= value <= _INT_MAX


def _is_array(value: Any) -> bool:
    import numpy

    return isinstance(value, numpy.ndarray)


def _is_column(value: Any) -> bool:
    """An array of NumPy's or of pandas'."""
    return _is_array(value) or isinstance(value, _kind("pandas.api.extensions", "ExtensionArray"))


def _is_index(value: Any) -> bool:
    return isinstance(value, _kind("pandas", "Index"))


# ---- indices of pandas -------------------------------------------------------------------------------------------


def _parts(given: Any, allowed: str) -> Dict[str, Any]:
    """A copy of the arguments of an index, which are a dictionary."""
    need(exactly(given, dict) and set(given) <= set(allowed.split()), _FALSE_INDEX)
    return dict(given)


def _index(function: Any, arguments: Tuple[Any, ...]) -> Any:
    need(len(arguments) == 2 and _is_kind(arguments[0], _kind("pandas", "Index")), _FALSE_INDEX)
    kind, given = arguments
    if issubclass(kind, _kind("pandas", "RangeIndex")):
        parts = _parts(given, "name start stop step")
        need(all(_is_number(parts.get(name)) for name in ("start", "stop", "step")), _FALSE_INDEX)
        return function(kind, parts)
    if issubclass(kind, _kind("pandas", "MultiIndex")):
        parts = _parts(given, "levels codes sortorder names")
        need(exactly(parts.get("levels"), list) and all(map(_is_index, parts["levels"])), _FALSE_INDEX)
        need(exactly(parts.get("codes"), list) and all(map(_is_codes, parts["codes"])), _FALSE_INDEX)
        need(len(parts["levels"]) == len(parts["codes"]) > 0, _FALSE_INDEX)
        for level, codes in zip(parts["levels"], parts["codes"]):
            need(len(codes) == len(parts["codes"][0]) and _are_below(codes, len(level)), _FALSE_INDEX)
        return function(kind, parts)
    parts = _parts(given, "data name freq")
    need(_is_column(parts.get("data")) and parts["data"].ndim == 1, _FALSE_INDEX)
    return function(kind, parts)


def _is_codes(value: Any) -> bool:
    return _is_array(value) and value.ndim == 1 and value.dtype.kind == "i"


def _are_below(codes: Any, length: int) -> bool:
    return len(codes) == 0 or bool(codes.min() >= -1 and codes.max() < length)


def _index_of(name: str, array: str) -> CallGuard:
    """A guard for the indices of moments and of spans of time."""

    def guard(function: Any, arguments: Tuple[Any, ...]) -> Any:
        need(len(arguments) == 2 and _is_kind(arguments[0], _kind("pandas", name)), _FALSE_INDEX)
        parts = _parts(arguments[1], "data name freq")
        data: Any = parts.get("data")
        need(isinstance(data, _kind("pandas.arrays", array)) and data.ndim == 1, _FALSE_INDEX)
        return function(arguments[0], parts)

    return guard


def _interval_index(function: Any, arguments: Tuple[Any, ...]) -> Any:
    need(len(arguments) == 2 and _is_kind(arguments[0], _kind("pandas", "IntervalIndex")), _FALSE_INDEX)
    parts = _parts(arguments[1], "left right closed name")
    need(_is_index(parts.get("left")) and _is_index(parts.get("right")), _FALSE_INDEX)
    need(exactly(parts.get("closed"), str), _FALSE_INDEX)
    return function(arguments[0], parts)


# ---- columns of pandas -------------------------------------------------------------------------------------------


def _backed(function: Any, arguments: Tuple[Any, ...]) -> Any:
    need(len(arguments) == 3 and _is_kind(arguments[0], _kind("pandas._libs.arrays", "NDArrayBacked")), _FALSE_COLUMN)
    need(exactly(arguments[1], int) and arguments[2] is None, _FALSE_COLUMN)
    return function(*arguments)


#: Kinds of elements, and what the type of such a column is called.
_ELEMENTS = {
    "DatetimeArray": "M",
    "TimedeltaArray": "m",
    "PeriodArray": "i",
    "Categorical": "i",
    "StringArray": "O",
}


def _build_backed(made: Any, state: Any) -> None:
    """Elements, their type and attributes."""
    if exactly(state, tuple) and len(state) == 1:
        state = state[0]
    if exactly(state, dict):
        # Of older versions.
        rest = dict(state)
        data = rest.pop("_ndarray", rest.pop("_codes", None))
        parts = [rest.pop("_dtype", None), data, rest]
    else:
        need(exactly(state, tuple) and len(state) in (2, 3), _FALSE_COLUMN)
        parts = [*state, {}][:3]
    if _is_array(parts[0]):
        parts[:2] = parts[1::-1]
    dtype, data, rest = parts
    need(_is_array(data) and exactly(rest, dict), _FALSE_COLUMN)
    names = [kind.__name__ for kind in type(made).__mro__]
    expected = next((_ELEMENTS[name] for name in names if name in _ELEMENTS), None)
    need(expected is None or data.dtype.kind == expected, _FALSE_COLUMN)
    if "Categorical" in names:
        categories: Any = getattr(dtype, "categories", None)
        need(isinstance(dtype, _kind("pandas", "CategoricalDtype")) and _is_index(categories), _FALSE_COLUMN)
        need(data.size == 0 or (data.min() >= -1 and data.max() < len(categories)), _FALSE_COLUMN)
    elif expected in ("M", "m") and _is_numpy_type(dtype):
        need(dtype == data.dtype, _FALSE_COLUMN)
    else:
        need(isinstance(dtype, _kind("pandas.api.extensions", "ExtensionDtype")) or _is_numpy_type(dtype), _FALSE_COLUMN)
    attributes = {name: rest[name] for name in ("_freq", "_readonly") if name in rest}
    made.__setstate__((dtype, data, attributes))


def _is_numpy_type(dtype: Any) -> bool:
    import numpy

    return isinstance(dtype, numpy.dtype)


def _build_masked(made: Any, state: Any) -> None:
    """Numbers, and which of them are missing."""
    import numpy

    need(exactly(state, dict), _FALSE_COLUMN)
    rest = _without_caches(state)
    data: Any = rest.get("_data")
    mask: Any = rest.get("_mask")
    need(_is_array(data) and _is_array(mask) and data.shape == mask.shape and mask.dtype == numpy.bool_, _FALSE_COLUMN)
    need(data.dtype.kind in "iufb" and set(rest) <= {"_data", "_mask", "_dtype", "_readonly"}, _FALSE_COLUMN)
    made.__dict__.update(rest)


def _without_caches(state: Dict[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in state.items() if name != "_cache"}


def _build_arrow(made: Any, state: Any) -> None:
    need(exactly(state, dict), _FALSE_COLUMN)
    rest = _without_caches(state)
    data: Any = rest.get("_pa_array", rest.get("_data"))
    need(isinstance(data, (_kind("pyarrow", "Array"), _kind("pyarrow", "ChunkedArray"))), _FALSE_COLUMN)
    need(str(data.type) in ("string", "large_string"), _FALSE_COLUMN)
    need(set(rest) <= {"_pa_array", "_data", "_dtype", "_readonly"}, _FALSE_COLUMN)
    set_state(made, rest)


#: Types of columns, and what is in their state.
_TYPES = {"CategoricalDtype": "categories ordered", "DatetimeTZDtype": "tz unit", "StringDtype": "storage _storage _na_value"}


def _build_type(made: Any, state: Any) -> None:
    """The type of a column."""
    need(exactly(state, dict), _FALSE_COLUMN)
    rest = _without_caches(state)
    if "categories" in rest:
        need(_is_index(rest["categories"]) or rest["categories"] is None, _FALSE_COLUMN)
    if "tz" in rest:
        need(isinstance(rest["tz"], datetime.tzinfo) and rest.get("unit") in ("s", "ms", "us", "ns"), _FALSE_COLUMN)
    need(set(rest) <= set(_TYPES.get(type(made).__name__, "").split()), _FALSE_COLUMN)
    set_state(made, rest)


def _period_type(function: Any, arguments: Tuple[Any, ...]) -> Any:
    offset = _kind("pandas.tseries.offsets", "BaseOffset")
    need(len(arguments) == 1 and (exactly(arguments[0], str) or isinstance(arguments[0], offset)), _FALSE_COLUMN)
    return function(*arguments)


# ---- tables of pandas --------------------------------------------------------------------------------------------


# Columns take memory also if they have no rows.
_COLUMNS_MAX = 1 << 22


def _place_count(given: Any) -> int:
    """How many columns of a table a block has."""
    if isinstance(given, slice):
        ends = (given.start, given.stop, 1 if given.step is None else given.step)
        need(all(_is_number(end) for end in ends) and ends[2] != 0, _FALSE_TABLE)
        places = range(*ends)
        need(places.start >= 0 and not places[_COLUMNS_MAX:], _FALSE_TABLE)
        return len(places)
    need(_is_array(given) and given.ndim == 1 and given.dtype.kind == "i", _FALSE_TABLE)
    return len(given)


def _block(function: Any, arguments: Tuple[Any, ...]) -> Any:
    need(len(arguments) == 3 and _is_column(arguments[0]) and exactly(arguments[2], int), _FALSE_TABLE)
    values, placement, ndim = arguments
    need(ndim in (1, 2) and 1 <= values.ndim <= ndim, _FALSE_TABLE)
    # Arrays of pandas' with one dimension are one column.
    columns = 1 if values.ndim < ndim else len(values)
    need(_place_count(placement) == columns, _FALSE_TABLE)
    return function(values, placement, ndim)


def _blocks(function: Any, arguments: Tuple[Any, ...]) -> Any:
    """A table: each of its columns is in one block."""
    import numpy

    need(len(arguments) == 2 and exactly(arguments[0], tuple, list) and exactly(arguments[1], list), _FALSE_TABLE)
    blocks, axes = tuple(arguments[0]), list(arguments[1])
    kind = _kind("pandas.core.internals.blocks", "Block")
    need(all(isinstance(block, kind) for block in blocks) and len(axes) == 2 and all(map(_is_index, axes)), _FALSE_TABLE)
    need(sum(len(block.mgr_locs) for block in blocks) == len(axes[0]) <= _COLUMNS_MAX, _FALSE_TABLE)
    places = [block.mgr_locs.as_array for block in blocks]
    need(not places or (numpy.sort(numpy.concatenate(places)) == numpy.arange(len(axes[0]))).all(), _FALSE_TABLE)
    for block in blocks:
        need(block.shape[1:] == (len(axes[1]),), _FALSE_TABLE)
    return function(blocks, axes)


def _build_single(made: Any, state: Any) -> None:
    """The values of a series."""
    need(exactly(state, tuple) and len(state) == 4 and exactly(state[3], dict), _FALSE_TABLE)
    inside = state[3].get("0.14.1")
    need(exactly(inside, dict) and exactly(inside.get("axes"), list) and exactly(inside.get("blocks"), list), _FALSE_TABLE)
    axes, blocks = list(inside["axes"]), list(inside["blocks"])
    need(len(axes) == 1 and _is_index(axes[0]) and len(blocks) == 1 and exactly(blocks[0], dict), _FALSE_TABLE)
    values = blocks[0].get("values")
    need(_is_column(values) and values.ndim == 1 and len(values) == len(axes[0]), _FALSE_TABLE)
    blocks = [{"values": values, "mgr_locs": slice(0, len(values), 1)}]
    made.__setstate__((*state[:3], {"0.14.1": {"axes": axes, "blocks": blocks}}))


def _build_table(made: Any, state: Any) -> None:
    need(exactly(state, dict) and set(state) <= set("_mgr _typ _metadata attrs _attrs _flags _name name".split()), _FALSE_TABLE)
    managers = sys.modules.get("pandas.core.internals.managers")
    name = "SingleBlockManager" if isinstance(made, _kind("pandas", "Series")) else "BlockManager"
    need(type(state.get("_mgr")) is getattr(managers, name, _Missing), _FALSE_TABLE)
    need(all(exactly(state.get(name, {}), dict) for name in ("attrs", "_attrs", "_flags")), _FALSE_TABLE)
    made.__setstate__(dict(state))


# ---- moments of pandas -------------------------------------------------------------------------------------------


def _moment(function: Any, arguments: Tuple[Any, ...]) -> Any:
    """A number, a frequency, a time zone, and a unit."""
    need(3 <= len(arguments) <= 4 and _is_number(arguments[0]), _FALSE_MOMENT)
    need(arguments[2] is None or isinstance(arguments[2], datetime.tzinfo), _FALSE_MOMENT)
    need(len(arguments) == 3 or _is_unit(arguments[3]), _FALSE_MOMENT)
    return function(*arguments)


def _span(function: Any, arguments: Tuple[Any, ...]) -> Any:
    need(len(arguments) == 2 and _is_number(arguments[0]) and _is_unit(arguments[1]), _FALSE_MOMENT)
    return function(*arguments)


def _is_unit(value: Any) -> bool:
    """Seconds, milliseconds, microseconds, nanoseconds."""
    return exactly(value, int) and 7 <= value <= 10


# ---- Arrow -------------------------------------------------------------------------------------------------------


def _arrow_array(function: Any, arguments: Tuple[Any, ...]) -> Any:
    """By the public constructor, which counts the buffers; then Arrow's own check of all that is in them."""
    pyarrow: Any = sys.modules["pyarrow"]

    need(len(arguments) == 1 and exactly(arguments[0], tuple) and len(arguments[0]) == 7, _FALSE_ARROW)
    kind, length, nulls, offset, buffers, children, dictionary = arguments[0]
    need(isinstance(kind, pyarrow.DataType) and kind.num_fields == 0, _FALSE_ARROW)
    need(_is_number(length) and _is_number(offset) and _is_number(nulls), _FALSE_ARROW)
    need(length >= 0 and offset >= 0 and nulls >= -1 and length + offset <= _INT_MAX >> 8, _FALSE_ARROW)
    need(exactly(buffers, list) and exactly(children, list) and not children and dictionary is None, _FALSE_ARROW)
    need(all(buffer is None or isinstance(buffer, pyarrow.Buffer) for buffer in buffers), _FALSE_ARROW)
    # All but the first, which says what is missing, are needed.
    need(str(kind) == "null" or length == 0 or all(buffer is not None for buffer in buffers[1:]), _FALSE_ARROW)
    is_view = str(kind) in ("string_view", "binary_view")
    need(not is_view or len(buffers) >= 2, _FALSE_ARROW)
    try:
        # Views have any number of buffers, which only the check counts.
        made = function(*arguments) if is_view else pyarrow.Array.from_buffers(kind, length, list(buffers), nulls, offset)
        made.validate(full=True)
    except (pyarrow.ArrowException, ValueError, TypeError) as error:
        raise Refused(_FALSE_ARROW) from error
    return made


def _arrow_chunks(function: Any, arguments: Tuple[Any, ...]) -> Any:
    pyarrow: Any = sys.modules["pyarrow"]

    need(len(arguments) == 2 and exactly(arguments[0], list) and isinstance(arguments[1], pyarrow.DataType), _FALSE_ARROW)
    need(all(isinstance(chunk, pyarrow.Array) for chunk in arguments[0]), _FALSE_ARROW)
    return _validated(function, arguments)


def _arrow_table(function: Any, arguments: Tuple[Any, ...]) -> Any:
    pyarrow: Any = sys.modules["pyarrow"]

    need(len(arguments) == 2 and exactly(arguments[0], list) and isinstance(arguments[1], pyarrow.Schema), _FALSE_ARROW)
    need(all(isinstance(column, (pyarrow.Array, pyarrow.ChunkedArray)) for column in arguments[0]), _FALSE_ARROW)
    return _validated(function, arguments)


def _validated(function: Any, arguments: Tuple[Any, ...]) -> Any:
    pyarrow: Any = sys.modules["pyarrow"]

    try:
        made = function(*arguments)
        made.validate()
    except (pyarrow.ArrowException, ValueError, TypeError) as error:
        raise Refused(_FALSE_ARROW) from error
    return made


def _arrow_field(function: Any, arguments: Tuple[Any, ...]) -> Any:
    pyarrow: Any = sys.modules["pyarrow"]

    need(len(arguments) == 4 and exactly(arguments[0], str) and isinstance(arguments[1], pyarrow.DataType), _FALSE_ARROW)
    need(exactly(arguments[2], bool) and _is_metadata(arguments[3]), _FALSE_ARROW)
    return function(*arguments)


def _arrow_schema(function: Any, arguments: Tuple[Any, ...]) -> Any:
    pyarrow: Any = sys.modules["pyarrow"]

    need(len(arguments) == 2 and exactly(arguments[0], list) and _is_metadata(arguments[1]), _FALSE_ARROW)
    need(all(isinstance(field, pyarrow.Field) for field in arguments[0]), _FALSE_ARROW)
    return function(*arguments)


def _is_metadata(given: Any) -> bool:
    if given is None:
        return True
    return exactly(given, dict) and all(exactly(word, bytes) for pair in given.items() for word in pair)


def _arrow_buffer(function: Any, arguments: Tuple[Any, ...]) -> Any:
    need(len(arguments) == 1, _FALSE_ARROW)
    try:
        memoryview(arguments[0])
    except TypeError:
        raise Refused(_FALSE_ARROW) from None
    return function(*arguments)


# ---- sparse matrices of SciPy ------------------------------------------------------------------------------------


def _build_matrix(made: Any, state: Any) -> None:
    kind = type(made)
    need(exactly(state, dict) and all(exactly(name, str) for name in state), _FALSE_MATRIX)
    # A method of the matrix, seen from the matrix, is one of its class.
    need(not any(callable(getattr(kind, name, None)) for name in state), _FALSE_MATRIX)
    shape = state.get("_shape")
    need(exactly(shape, tuple) and len(shape) <= 64 and all(_is_number(dim) and dim >= 0 for dim in shape), _FALSE_MATRIX)
    parts = dict(state)
    _FORMATS[_format_of(kind)](shape, parts)
    made.__dict__.update(parts)


def _format_of(kind: type) -> str:
    return kind.__name__.partition("_")[0]


def _numbers(parts: Dict[str, Any], name: str, ndim: int) -> Any:
    found: Any = parts.get(name)
    need(_is_array(found) and found.ndim == ndim and not found.dtype.hasobject, _FALSE_MATRIX)
    return found


def _places_of(found: Any, length: int) -> Any:
    """Indices of rows or columns, if they are in range."""
    need(_is_array(found) and found.ndim == 1 and found.dtype.kind == "i" and found.dtype.isnative, _FALSE_MATRIX)
    need(len(found) == 0 or (found.min() >= 0 and found.max() < length), _FALSE_MATRIX)
    return found


def _check_rows(parts: Dict[str, Any], data: Any, rows: int, columns: int) -> None:
    """Where the rows of a matrix begin, and the columns of their elements."""
    indices = _places_of(parts.get("indices"), columns)
    begin = _places_of(parts.get("indptr"), len(indices) + 1)
    need(len(begin) == rows + 1 and begin[0] == 0 and bool((begin[1:] >= begin[:-1]).all()), _FALSE_MATRIX)
    need(len(indices) == len(data), _FALSE_MATRIX)
    if begin.dtype != indices.dtype:
        parts["indptr"], parts["indices"] = begin.astype("i8"), indices.astype("i8")
    # They are found out again.
    for name in ("_has_sorted_indices", "_has_canonical_format"):
        parts.pop(name, None)


def _compressed(is_by_row: bool) -> Callable[[Tuple[int, ...], Dict[str, Any]], None]:
    def check(shape: Tuple[int, ...], parts: Dict[str, Any]) -> None:
        # Arrays of one dimension are one row.
        need(1 <= len(shape) <= 2, _FALSE_MATRIX)
        rows, columns = (1, shape[0]) if len(shape) == 1 else shape
        if not is_by_row:
            rows, columns = columns, rows
        _check_rows(parts, _numbers(parts, "data", 1), rows, columns)

    return check


def _check_blocks(shape: Tuple[int, ...], parts: Dict[str, Any]) -> None:
    data = _numbers(parts, "data", 3)
    need(len(shape) == 2, _FALSE_MATRIX)
    high, wide = data.shape[1:]
    need(high > 0 and wide > 0 and shape[0] % high == 0 and shape[1] % wide == 0, _FALSE_MATRIX)
    _check_rows(parts, data, shape[0] // high, shape[1] // wide)


def _check_coordinates(shape: Tuple[int, ...], parts: Dict[str, Any]) -> None:
    data = _numbers(parts, "data", 1)
    coordinates = parts.get("coords", (parts.get("row"), parts.get("col")))
    need(exactly(coordinates, tuple) and len(coordinates) == len(shape), _FALSE_MATRIX)
    for found, length in zip(coordinates, shape):
        need(len(_places_of(found, length)) == len(data), _FALSE_MATRIX)


def _check_diagonals(shape: Tuple[int, ...], parts: Dict[str, Any]) -> None:
    data = _numbers(parts, "data", 2)
    offsets = _numbers(parts, "offsets", 1)
    need(len(shape) == 2 and offsets.dtype.kind == "i" and offsets.dtype.isnative, _FALSE_MATRIX)
    need(len(offsets) == len(data) == len(set(offsets.tolist())), _FALSE_MATRIX)
    need(all(-shape[0] <= offset <= shape[1] for offset in offsets.tolist()), _FALSE_MATRIX)


def _check_lists(shape: Tuple[int, ...], parts: Dict[str, Any]) -> None:
    """Rows as lists of their columns, and lists of their elements."""
    rows: Any = parts.get("rows")
    data: Any = parts.get("data")
    for found in (rows, data):
        need(_is_array(found) and found.dtype.kind == "O" and len(shape) == 2, _FALSE_MATRIX)
        need(found.shape == (shape[0],), _FALSE_MATRIX)
    need(_is_numpy_type(parts.get("dtype")) and not parts["dtype"].hasobject, _FALSE_MATRIX)
    # What follows in the pickle may have the same lists.
    parts["rows"], parts["data"] = rows, data = rows.copy(), data.copy()
    for at in range(shape[0]):
        need(exactly(rows[at], list) and exactly(data[at], list), _FALSE_MATRIX)
        row = rows[at] = list(rows[at])
        data[at] = list(data[at])
        need(len(row) == len(data[at]), _FALSE_MATRIX)
        need(all(exactly(column, int) and 0 <= column < shape[1] for column in row), _FALSE_MATRIX)
        need(all(one < next_ for one, next_ in zip(row, row[1:])), _FALSE_MATRIX)


_FORMATS: Dict[str, Callable[[Tuple[int, ...], Dict[str, Any]], None]] = {
    "csr": _compressed(True),
    "csc": _compressed(False),
    "bsr": _check_blocks,
    "coo": _check_coordinates,
    "dia": _check_diagonals,
    "lil": _check_lists,
}


# ---- all of them -------------------------------------------------------------------------------------------------

_NUMBER_TYPES = "Int8 Int16 Int32 Int64 UInt8 UInt16 UInt32 UInt64 Float32 Float64 Boolean"
_OFFSETS = (
    "Day Hour Minute Second Milli Micro Nano Week BusinessDay MonthEnd MonthBegin QuarterEnd QuarterBegin YearEnd YearBegin"
)
_offset = takes(int, bool, (int, _NONE, datetime.timedelta), (int, _NONE, datetime.timedelta))

CALLS: Dict[Tuple[str, str], CallGuard] = {
    ("pandas", "_new_Index"): _index,
    ("pandas", "_new_DatetimeIndex"): _index_of("DatetimeIndex", "DatetimeArray"),
    ("pandas", "_new_TimedeltaIndex"): _index_of("TimedeltaIndex", "TimedeltaArray"),
    ("pandas", "_new_IntervalIndex"): _interval_index,
    ("pandas", "__pyx_unpickle_NDArrayBacked"): _backed,
    ("pandas", "_unpickle_block"): _block,
    ("pandas", "BlockManager"): _blocks,
    ("pandas", "_unpickle_timestamp"): _moment,
    ("pandas", "_timedelta_unpickle"): _span,
    ("pandas", "PeriodDtype"): _period_type,
    ("pyarrow", "_restore_array"): _arrow_array,
    ("pyarrow", "chunked_array"): _arrow_chunks,
    ("pyarrow", "_reconstruct_table"): _arrow_table,
    ("pyarrow", "field"): _arrow_field,
    ("pyarrow", "schema"): _arrow_schema,
    ("pyarrow", "py_buffer"): _arrow_buffer,
    ("pyarrow", "type_for_alias"): takes(str, at_least=1),
    **{("pandas", name): _offset for name in _OFFSETS.split()},
}


def build_guard(kind: type) -> Optional[Callable[[Any, Any], None]]:
    """The guard of the state of objects of a class of these packages."""
    package = kind.__module__.partition(".")[0]
    if package == "scipy":
        return _build_matrix if issubclass(kind, _sparse()) and _format_of(kind) in _FORMATS else None
    if package != "pandas":
        return None
    if kind.__name__ in _TYPES or kind.__name__.removesuffix("Dtype") in _NUMBER_TYPES.split():
        return _build_type
    for base, guard in (
        (_kind("pandas._libs.arrays", "NDArrayBacked"), _build_backed),
        (_kind("pandas.core.arrays.masked", "BaseMaskedArray"), _build_masked),
        (_kind("pandas.arrays", "ArrowStringArray"), _build_arrow),
        (_kind("pandas.core.internals.managers", "SingleBlockManager"), _build_single),
        (_kind("pandas", "DataFrame"), _build_table),
        (_kind("pandas", "Series"), _build_table),
    ):
        if issubclass(kind, base):
            return guard
    return None


def _sparse() -> Any:
    base = sys.modules.get("scipy.sparse._base") or sys.modules.get("scipy.sparse.base")
    return getattr(base, "_spbase", getattr(base, "spmatrix", _Missing))
