"""Pickles that no worker would write, put together instruction by instruction; and a process to read them in.

Run as a program it reads what :data:`PICKLES` has, one after the other, with little memory, and prints what became of each. A
pickle that crashes it, or makes it take memory without end, ends it before its line.
"""

from __future__ import annotations

import ctypes
import dataclasses
import datetime
import enum
import resource
import struct
import sys
from collections import deque
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse

#: What the process may have: more than it needs for honest values, and less than hostile ones claim.
MEMORY_BYTES = 3 << 30


# ---- instructions ------------------------------------------------------------------------------------------------


class Code(bytes):
    """Instructions that leave one object on the stack."""


def code(value: Any) -> Code:
    """The instructions that make a plain value, in which there may be other instructions."""
    if isinstance(value, Code):
        return value
    if value is None or isinstance(value, bool):
        return Code({None: b"N", True: b"\x88", False: b"\x89"}[value])
    if isinstance(value, int):
        digits = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        return Code(b"\x8a" + bytes([len(digits)]) + digits)
    if isinstance(value, float):
        return Code(b"G" + struct.pack(">d", value))
    if isinstance(value, str):
        return Code(b"X" + struct.pack("<I", len(value.encode())) + value.encode())
    if isinstance(value, bytes):
        return Code(b"B" + struct.pack("<I", len(value)) + value)
    if isinstance(value, dict):
        return Code(b"}(" + b"".join(code(part) for pair in value.items() for part in pair) + b"u")
    inside = b"(" + b"".join(map(code, value))
    return Code(b"]" + inside + b"e" if isinstance(value, list) else inside + b"t")


def text(value: str) -> Code:
    """A short text."""
    return Code(b"\x8c" + bytes([len(value)]) + value.encode())


def name(module: str, attribute: str) -> Code:
    return Code(text(module) + text(attribute) + b"\x93")


def call(function: bytes, *arguments: Any) -> Code:
    return Code(function + code(arguments) + b"R")


def new(kind: bytes, *arguments: Any) -> Code:
    return Code(kind + (code(arguments) if arguments else b")") + b"\x81")


def build(made: bytes, state: Any) -> Code:
    return Code(made + code(state) + b"b")


def look_up(kind: bytes, attribute: str) -> Code:
    """As picklers write it."""
    return Code(name("builtins", "getattr") + kind + text(attribute) + b"\x86R")


def kept(made: bytes) -> Code:
    """Puts an object into the memo, under the next number."""
    return Code(made + b"\x94")


def get(number: int) -> Code:
    return Code(b"h" + bytes([number]))


def dropped(made: bytes, then: bytes = b"N") -> Code:
    return Code(made + b"0" + then)


def stream(value: Any) -> bytes:
    return b"\x80\x05" + code(value) + b"."


# ---- classes of the user -----------------------------------------------------------------------------------------


class Mode(enum.Enum):
    SAFE = "safe"
    DANGEROUS = "dangerous"


class Row(tuple):  # type: ignore[type-arg]
    """A value."""


class Blob(bytes):
    """A value."""


class Queue(deque):  # type: ignore[type-arg]
    """A container that is called when it is read."""


class Day(datetime.date):
    """A date."""


class Vector(np.ndarray[Any, Any]):
    """An array."""


class Removes:
    """Does something when it ends."""

    path = ""

    def __del__(self) -> None:
        if self.path:
            Path(self.path).unlink()


class RemovesToo(ValueError):
    """An exception that does something when it ends."""

    __del__ = Removes.__del__
    path = ""


class Address(ctypes.Structure):
    """Has an address in it, of which native code reads."""

    _fields_ = [("text", ctypes.c_char_p)]


class Kind:
    """Has what a table looks for."""

    @classmethod
    def from_arrays(cls, **parts: Any) -> None:
        Path(parts["path"]).touch()


class Guarded:
    """Does something when an attribute of it is set."""

    __slots__ = ("a", "__dict__")
    path = ""

    @property
    def file(self) -> str:
        return self.path

    @file.setter
    def file(self, path: str) -> None:
        Path(path).touch()

    def __setattr__(self, attribute: str, value: Any) -> None:
        Path(str(value)).touch()
        object.__setattr__(self, attribute, value)


@dataclasses.dataclass
class Loss:
    value: float


# ---- pickles -----------------------------------------------------------------------------------------------------

CORE = "numpy._core" if int(np.__version__.split(".")[0]) > 1 else "numpy.core"
#: Its length is believed.
LONG = call(name("builtins", "range"), 1 << 62)
dtype = name("numpy", "dtype")
ndarray = name("numpy", "ndarray")
reconstruct = name(CORE + ".multiarray", "_reconstruct")
scalar = name(CORE + ".multiarray", "scalar")
from_buffer = name(CORE + ".numeric", "_frombuffer")
RAW = b"\x01" * 16


def type_of(kind: str, *state: Any) -> Code:
    made = call(dtype, kind, False, True)
    return build(made, state) if state else made


def simple(kind: str) -> Code:
    """The type of a number, or of objects."""
    order = "|" if kind == "O8" else "<"
    return type_of(kind, 3, order, None, None, None, -1, -1, 63 if kind == "O8" else 0)


def structure(fields: Dict[str, Tuple[Any, int]], itemsize: int, flags: int = 0) -> Code:
    return type_of(f"V{itemsize}", 3, "|", None, tuple(fields), fields, itemsize, 1, flags)


def array(*state: Any, kind: Code = ndarray) -> Code:
    return build(call(reconstruct, kind, (0,), b"b"), (1, *state))


def numbers(values: Any, kind: str = "i4") -> Code:
    """An honest array."""
    found = np.asarray(values, dtype=kind)
    return array(found.shape, simple(kind), False, found.tobytes())


OBJECTS = {"a": (simple("O8"), 0), "b": (simple("O8"), 8)}

PICKLES: Dict[str, bytes] = {}
#: The same with nothing false in them, so that it is seen that they are refused for what is.
HONEST: Dict[str, bytes] = {}


def add(what: str, value: Any) -> None:
    PICKLES[what] = stream(value)


def add_honest(what: str, value: Any) -> None:
    HONEST["true: " + what] = stream(value)


def element_types() -> None:
    """Bytes of the host's choice as addresses of objects, and elements beyond the end."""
    made = type_of("V16")
    again = code((3, "|", None, ("a", "b"), OBJECTS, 16, 1, 27))
    used = array((1,), kept(made), False, RAW)
    add("a type that is changed after an array has it", [used, Code(get(0) + again + b"b")])
    add("a type that is changed after it was taken", [kept(made), Code(b"h\x000N"), build(get(0), again)])
    add("a type that is changed twice", build(build(made, (3, "|", None, None, None, 16, 1, 0)), again))
    changed = Code(get(0) + again + b"b")
    add("a type that is changed after a scalar has it", [call(scalar, kept(made), RAW), changed])
    add("a type that is changed after a buffer has it", [call(from_buffer, RAW, kept(made), (1,), "C"), changed])
    late = Code(b"}" + b"\x94" + code(array((1,), structure_of(get(0)), False, RAW)) + b"0")
    add("fields that are filled later", Code(late + b"(" + code("a") + code((simple("O8"), 0)) + b"u"))
    for flags in (0, 27):
        add(f"objects in bytes, with flags {flags}", array((1,), structure(OBJECTS, 16, flags), False, RAW))
        add(f"objects in a scalar, with flags {flags}", call(scalar, structure(OBJECTS, 16, flags), RAW))
        add(f"objects in a buffer, with flags {flags}", call(from_buffer, RAW, structure(OBJECTS, 16, flags), (1,), "C"))
    key = {call(scalar, structure(OBJECTS, 16), RAW): 1}
    add("objects in a scalar that is a key", key)
    add("objects without their flag", array((2,), type_of("O8", 3, "|", None, None, None, -1, -1, 0), False, RAW))
    add("numbers with the flag of objects", array((2,), type_of("f8", 3, "<", None, None, None, -1, -1, 63), False, [1.0, 2.0]))
    fields = {"a": (simple("O8"), 0)}
    add("numbers with fields", array((2,), type_of("f8", 3, "<", None, ("a",), fields, 8, 8, 27), False, RAW))
    add("numbers that are many", array((2,), type_of("f8", 3, "<", (simple("O8"), (1,)), None, None, 8, 8, 27), False, RAW))
    add("a field beyond the end", array((1,), structure({"a": (simple("i8"), 1 << 20)}, 16), False, RAW))
    add("a field before the beginning", array((1,), structure({"a": (simple("i8"), -(1 << 20))}, 16), False, RAW))
    add("fields that overlap an object", structure({"a": (simple("O8"), 0), "b": (simple("i8"), 0)}, 8, 27))
    add("a part that is too long", type_of("V16", 3, "|", (simple("i8"), (1 << 20,)), None, None, 16, 1, 0))
    deep = simple("i8")
    for _ in range(60):
        deep = structure({"a": (deep, 0)}, 8)
    add("types in types", deep)
    add("a type that others have", build(call(dtype, "f8", False, False), (3, ">", None, None, None, -1, -1, 0)))
    add_honest("objects", array((1,), structure(OBJECTS, 16, 27), False, [(1, 2)]))
    add_honest("fields", array((1,), structure({"a": (simple("i8"), 0), "b": (simple("i8"), 8)}, 16), False, RAW))
    add_honest("a field of many", type_of("V16", 3, "|", (simple("i8"), (2,)), None, None, 16, 8, 0))
    add_honest("a scalar", call(scalar, simple("f8"), b"\0" * 8))
    add_honest("a buffer", call(from_buffer, RAW, simple("f8"), (2,), "C"))
    add("a type of a class", call(dtype, name(__name__, "Kind"), False, True))


def structure_of(fields: Code) -> Code:
    return type_of("V16", 3, "|", None, ("a",), fields, 16, 1, 27)


def arrays() -> None:
    """Shapes that are believed before there is anything in them."""
    masked = name("numpy.ma.core", "_mareconstruct")
    kind = name("numpy.ma.core" if hasattr(np.ma.core, "MaskedArray") else "numpy.ma", "MaskedArray")
    add("a shape of an empty array", call(reconstruct, ndarray, (1 << 33,), b"b"))
    add("a type of an empty array", call(reconstruct, ndarray, (4,), "O"))
    add("an array that is none", call(reconstruct, name(__name__, "Kind"), (0,), b"b"))
    add("a shape of objects", array((1 << 33,), simple("O8"), False, []))
    add("a shape of numbers", array((1 << 33,), simple("f8"), False, b""))
    add("a shape that is negative", array((-1,), simple("f8"), False, b""))
    add("a shape that is a range", array(LONG, simple("f8"), False, b""))
    add("a buffer that is too short", call(from_buffer, b"\0" * 8, simple("f8"), (2,), "C"))
    add("a scalar without a value", call(scalar, type_of("V2147483647")))
    add("a scalar that is too short", call(scalar, simple("f8"), b"\0"))
    empty = array((0,), structure(OBJECTS, 16, 27), False, [])
    add("a scalar of an empty array", call(scalar, structure(OBJECTS, 16, 27), empty))
    whole = call(masked, kind, ndarray, (0,), "b")
    objects = structure(OBJECTS, 16)
    value = array((), objects, False, RAW)
    add("a masked array with a false type", build(whole, (1, (1,), objects, False, RAW, b"\0\0", None)))
    add("a masked array with a false fill value", build(whole, (1, (1,), simple("f8"), False, b"\0" * 8, b"\0", value)))
    add("a masked array with a short mask", build(whole, (1, (8,), simple("f8"), False, b"\0" * 64, b"\0", None)))
    add_honest("a masked array", build(whole, (1, (8,), simple("f8"), False, b"\0" * 64, b"\0" * 8, None)))
    add_honest("an array of the user's", array((2,), simple("f8"), False, RAW, kind=name(__name__, "Vector")))
    add("a masked array of a shape", call(masked, kind, ndarray, (1 << 33,), "b"))
    vector = name(__name__, "Vector")
    add("an array of the user's of a shape", new(vector, (1 << 33,)))
    add("an array of the user's that is called", call(vector, (1 << 33,)))
    add("an array of the user's of objects", array((2,), structure(OBJECTS, 16), False, RAW * 2, kind=vector))
    nested = Code(
        b"".join(
            reconstruct + code((ndarray, (0,), b"b")) + b"R(K\x01" + code(()) + simple("O8") + b"\x89](" for _ in range(3000)
        )
    )
    add("arrays in arrays", Code(nested + b"N" + b"etb" * 3000))


def random_numbers() -> None:
    pickle = "numpy.random._pickle"
    bits = name(pickle, "__bit_generator_ctor")
    is_newer = CORE == "numpy._core"
    older = call(bits, "MT19937")
    twister = call(bits, name("numpy.random._mt19937", "MT19937")) if is_newer else older
    philox = call(bits, name("numpy.random._philox", "Philox") if is_newer else "Philox")
    for made in (twister, older):
        for place in (-1, 5, 1 << 20, 1 << 31):
            state = {"bit_generator": "MT19937", "state": {"key": numbers(range(624), "u4"), "pos": place}}
            put = add_honest if place == 5 else add
            put(f"a place among random numbers, {place}, {made is older}", build(made, state))
    inside = {"counter": numbers([0] * 4, "u8"), "key": numbers([0] * 2, "u8")}
    rest = {"buffer": numbers([0] * 4, "u8"), "has_uint32": 0, "uinteger": 0}
    for place in (-1, 4, 1 << 20):
        whole = {"bit_generator": "Philox", "state": inside, "buffer_pos": place, **rest}
        put = add_honest if place == 4 else add
        put(f"a place in a buffer, {place}", build(philox, whole))
    for function in ("__generator_ctor", "__randomstate_ctor", "__bit_generator_ctor"):
        made = name(pickle, function)
        for arguments in ((name(__name__, "Kind"),), ("MT19937", name(__name__, "Kind")), (LONG,), (twister, twister)):
            add(f"{function} with {arguments[-1][-20:]!r}", call(made, *arguments))
    seeds = name("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence")
    kind = name("numpy.random.bit_generator", "SeedSequence")
    made = call(seeds, kind, checksum(), None)
    add("seeds of a length", build(made, (1, 0, numbers([0] * 4, "u4"), 1 << 30, ())))
    maker = name(pickle, "__generator_ctor")
    numbers_of = {"state": {"state": 1, "inc": 3}, "has_uint32": 0, "uinteger": 0, "bit_generator": "PCG64"}
    # As NumPy 1.24 to 1.26 write it.
    add_honest("a generator", build(call(maker, "PCG64", bits), numbers_of))
    add_honest("seeds", build(made, (1, 0, numbers([0] * 4, "u4"), 4, ())))


def checksum() -> int:
    made = np.random.SeedSequence(1).__reduce__()
    assert isinstance(made, tuple)
    return int(made[1][1])


def values() -> None:
    """Python's own types."""
    for kind in ("deque", "Counter", "OrderedDict"):
        add(f"a {kind} of a range", call(name("collections", kind), LONG))
    add("a defaultdict of a range", call(name("collections", "defaultdict"), name("builtins", "int"), LONG))
    add("arguments that are a range", Code(name("builtins", "slice") + LONG + b"R"))
    add("a fraction with an exponent", call(name("fractions", "Fraction"), "1e9999999999"))
    add("a value of the user's of a range", new(name(__name__, "Row"), LONG))
    add("bytes of the user's of a length", new(name(__name__, "Blob"), 1 << 40))
    add("a queue of the user's of a range", call(name(__name__, "Queue"), LONG))
    add("a time of a range", call(name("time", "struct_time"), LONG))
    add("a syntax error of a range", call(name("builtins", "SyntaxError"), "why", LONG))
    if sys.version_info >= (3, 11):
        add("exceptions of a range", call(name("builtins", "ExceptionGroup"), "why", LONG))
    add_honest("an exception of a range", call(name("builtins", "ValueError"), call(name("builtins", "range"), 3)))
    add_honest("a syntax error", call(name("builtins", "SyntaxError"), "why", ("file", 1, 2, "text")))
    add("a year before all", call(name("datetime", "date"), b"\0\0\1\1"))
    add("a date of the user's", new(name(__name__, "Day"), b"\0\0\1\1"))
    add("a date of the user's that is called", call(name(__name__, "Day"), b"\0\0\1\1"))
    add_honest("a date of the user's", call(name(__name__, "Day"), b"\x07\xe4\1\1"))
    index = call(
        name("pandas.core.indexes.base", "_new_Index"),
        name(pd.RangeIndex.__module__, "RangeIndex"),
        {"name": None, "start": 0, "stop": 1 << 60, "step": 1},
    )
    add("a syntax error of an index", call(name("builtins", "SyntaxError"), "why", index))
    add("a queue of the user's of an index", call(name(__name__, "Queue"), index))
    add("a moment that is none", call(name("datetime", "datetime"), b"\x07\xe4\x01\xff\xff\xff\xff\xff\xff\xff"))
    add("a time that is none", call(name("datetime", "time"), b"\x17\xff\xff\xff\xff\xff"))
    zone = look_up(name("zoneinfo", "ZoneInfo"), "_unpickle")
    add("a time zone outside", call(zone, "../../../etc/passwd", 1))
    add_honest("a time zone", call(zone, "Europe/Berlin", 1))
    add_honest("a member of an enumeration", look_up(name(__name__, "Mode"), "SAFE"))
    for kind in ("deque", "Counter", "OrderedDict"):
        add_honest(f"a {kind}", call(name("collections", kind)))
    add_honest("a fraction", call(name("fractions", "Fraction"), "-1/3"))
    add_honest("a value of the user's", new(name(__name__, "Row"), (1, 2)))
    add_honest("bytes of the user's", new(name(__name__, "Blob"), b"ab"))
    add_honest("a date", call(name("datetime", "date"), b"\x07\xe4\1\1"))
    decode = call(name("builtins", "UnicodeDecodeError"), "a", b"x", 0, 1, "why")
    add("an exception that is something else", build(decode, {"object": 5}))
    add("an exception of another class", build(call(name("builtins", "ValueError")), {"__class__": name(__name__, "Kind")}))
    add("tuples in tuples", {Code(b")" + b"\x85" * 1_000_000): 1})
    twice = Code(kept(code(())) + b"0" + b"".join(get(n) + get(n) + b"\x86\x940" for n in range(60)))
    add("tuples of tuples", {Code(twice + get(60)): 1})
    add("slices in slices", Code(name("builtins", "slice") + b"\x940" + b"h\x00" * 3000 + b"N" + b"\x85R" * 3000))


def tables() -> None:
    index = name("pandas.core.indexes.base", "_new_Index")
    pandas = "pandas" if int(pd.__version__.split(".")[0]) > 2 else "pandas.core.indexes."
    kinds = {kind: name(getattr(pd, kind).__module__, kind) for kind in ("Index", "RangeIndex", "MultiIndex", "IntervalIndex")}
    add(f"an index that is an array ({pandas})", call(index, ndarray, {"shape": (2,), "dtype": "O", "buffer": RAW}))
    interval = name("pandas.core.indexes.interval", "_new_IntervalIndex")
    add("an index of the user's class", call(interval, name(__name__, "Kind"), {"path": "/dev/null"}))
    add("an index of a range", call(index, kinds["Index"], {"data": LONG, "name": None}))
    plain = call(index, kinds["Index"], {"data": numbers([1, 2], "i8"), "name": None})
    for number in (5, 1, -3):
        parts = {"levels": [plain], "codes": [numbers([0, number], "i1")], "sortorder": None, "names": [None]}
        put = add_honest if number == 1 else add
        put(f"codes of an index, {number}", call(index, kinds["MultiIndex"], parts))
    backed = name("pandas._libs.arrays", "__pyx_unpickle_NDArrayBacked")
    number = int(pd.Categorical(["a"]).__reduce__()[1][1])
    kind = {one: name(getattr(pd.arrays, one, pd.Categorical).__module__, one) for one in ("Categorical", "DatetimeArray")}
    types = name(pd.CategoricalDtype.__module__, "CategoricalDtype")
    categories = build(new(types), {"categories": plain, "ordered": False})
    for place in (7, 1, -9):
        empty = call(backed, kind["Categorical"], number, None)
        put = add_honest if place == 1 else add
        put(f"codes of categories, {place}", build(empty, (categories, numbers([place], "i1"), {})))
    add("an array without its parts", call(backed, kind["DatetimeArray"], number, None))
    add(
        "an array with other parts",
        build(call(backed, kind["DatetimeArray"], number, None), (simple("i8"), numbers([1], "i8"), {})),
    )
    masked = name(pd.arrays.IntegerArray.__module__, "IntegerArray")
    add("a mask that is too short", build(new(masked), {"_data": numbers(range(100), "i8"), "_mask": numbers([0], "b1")}))
    add_honest("a mask", build(new(masked), {"_data": numbers(range(3), "i8"), "_mask": numbers([0] * 3, "b1")}))
    block = name("pandas._libs.internals", "_unpickle_block")
    manager = name("pandas.core.internals.managers", "BlockManager")
    cells = array((1, 2), simple("f8"), False, RAW)
    wide = call(name("builtins", "slice"), 0, 1 << 30, 1)
    add("columns that are not there", call(block, cells, wide, 2))
    nothing = array((1 << 30, 0), simple("f8"), False, b"")
    axes = [call(index, kinds["RangeIndex"], {"name": None, "start": 0, "stop": stop, "step": 1}) for stop in (1 << 30, 0)]
    add("columns without rows", call(manager, (call(block, nothing, wide, 2),), axes))
    away = call(name("builtins", "slice"), 5, 6, 1)
    axes = [call(index, kinds["RangeIndex"], {"name": None, "start": 0, "stop": stop, "step": 1}) for stop in (1, 2)]
    add("a column somewhere else", call(manager, (call(block, cells, away, 2),), axes))
    first = call(name("builtins", "slice"), 0, 1, 1)
    columns = call(manager, (call(block, cells, first, 2),), axes)
    table = name(pd.DataFrame.__module__, "DataFrame")
    add_honest(
        "a column",
        build(
            new(table),
            {"_mgr": columns, "_typ": "dataframe", "_metadata": [], "attrs": {}, "_flags": {"allows_duplicate_labels": True}},
        ),
    )
    single = name("pandas.core.internals.managers", "SingleBlockManager")
    inside = {"0.14.1": {"axes": [plain], "blocks": [{"values": numbers([1], "i8"), "mgr_locs": away}]}}
    add("a series that is too short", build(new(single), ([], [], [], inside)))
    add("a table that is none", build(new(name(pd.DataFrame.__module__, "DataFrame")), {"_mgr": 1, "_typ": "dataframe"}))
    moment = name("pandas._libs.tslibs.timestamps", "_unpickle_timestamp")
    add("a moment of a unit", call(moment, 1, None, None, 1 << 20))
    add("a span of a unit", call(name("pandas._libs.tslibs.timedeltas", "_timedelta_unpickle"), 1, 99))


def arrow() -> None:
    restore = name("pyarrow.lib", "_restore_array")
    kind = {one: call(name("pyarrow.lib", "type_for_alias"), one) for one in ("int64", "string", "bool", "null")}

    def buffer(data: bytes) -> Code:
        return call(name("pyarrow.lib", "py_buffer"), data)

    add("an Arrow array without buffers", call(restore, (kind["int64"], 5, 0, 0, [], [], None)))
    add("an Arrow array without values", call(restore, (kind["int64"], 5, 0, 0, [None, None], [], None)))
    add("an Arrow array that is short", call(restore, (kind["int64"], 1 << 20, 0, 0, [None, buffer(RAW)], [], None)))
    add("an Arrow array of a length", call(restore, (kind["int64"], 1 << 62, 0, 1 << 62, [None, buffer(RAW)], [], None)))
    add("an Arrow array of no length", call(restore, (kind["int64"], -1, 0, 0, [None, buffer(RAW)], [], None)))
    offsets = np.array([0, 1 << 20], dtype="i4").tobytes()
    add("Arrow texts beyond the end", call(restore, (kind["string"], 1, 0, 0, [None, buffer(offsets), buffer(b"a")], [], None)))
    add("Arrow nulls that are none", call(restore, (kind["bool"], 8, 3, 0, [buffer(b"\xff"), buffer(b"\xff")], [], None)))
    add_honest("an Arrow array", call(restore, (kind["int64"], 2, 0, 0, [None, buffer(RAW)], [], None)))
    add_honest("an Arrow array of nothing", call(restore, (kind["null"], 2, 2, 0, [None], [], None)))
    add(
        "an Arrow array in another",
        call(restore, (kind["int64"], 1, 0, 0, [None, buffer(RAW)], [(kind["int64"], 1, 0, 0, [], [], None)], None)),
    )
    for one in ("string_view",) if hasattr(pa, "string_view") else ():
        view = call(name("pyarrow.lib", "type_for_alias"), one)
        far = np.array([20, 0, 9, 1 << 20], dtype="i4").tobytes()
        add("Arrow views beyond the end", call(restore, (view, 1, 0, 0, [None, buffer(far), buffer(b"a")], [], None)))


def matrices() -> None:
    def matrix(kind: str, **state: Any) -> Code:
        known = getattr(scipy.sparse, kind)
        return build(new(name(known.__module__, kind)), {"_shape": (2, 2), "maxprint": 50, **state})

    def coordinates(places: Code) -> Dict[str, Any]:
        is_newer = "coords" in vars(scipy.sparse.coo_matrix((2, 2)))
        return {"coords": (places, places)} if is_newer else {"row": places, "col": places}

    ones = numbers([1.0, 1.0], "f8")
    for kind in ("csr_matrix", "csc_array"):
        good = numbers([0, 1, 2])
        add_honest(f"a {kind}", matrix(kind, data=ones, indices=numbers([0, 1]), indptr=good))
        for indices in ([0, 1 << 20], [-(1 << 20), 0]):
            add(f"a {kind} with {indices}", matrix(kind, data=ones, indices=numbers(indices), indptr=good))
        for begin in ([0, 1 << 20, 2], [0, 2, 1], [1, 1, 2], [0, 2], [0, 1, 1 << 20], [-(1 << 20), 0, 2]):
            add(f"a {kind} that begins at {begin}", matrix(kind, data=ones, indices=numbers([0, 1]), indptr=numbers(begin)))
        add(f"a {kind} that is short", matrix(kind, data=numbers([1.0], "f8"), indices=numbers([0, 1]), indptr=good))
        add(
            f"a {kind} with its own check",
            matrix(kind, data=ones, indices=numbers([0, 9]), indptr=good, check_format=name("builtins", "dict")),
        )
    cube = array((1, 2, 2), simple("f8"), False, RAW * 2)
    add_honest("a bsr_matrix", matrix("bsr_matrix", data=cube, indices=numbers([0]), indptr=numbers([0, 1])))
    add("a bsr_matrix", matrix("bsr_matrix", data=cube, indices=numbers([1 << 20]), indptr=numbers([0, 1])))
    far = numbers([0, 1 << 20])
    add("a coo_matrix", matrix("coo_matrix", **coordinates(far), data=ones, has_canonical_format=True))
    near = numbers([0, 1])
    add_honest("a coo_matrix", matrix("coo_matrix", **coordinates(near), data=ones, has_canonical_format=True))
    add_honest("a dia_matrix", matrix("dia_matrix", data=array((1, 2), simple("f8"), False, RAW), offsets=numbers([0])))
    add("a dia_matrix", matrix("dia_matrix", data=array((1, 2), simple("f8"), False, RAW), offsets=numbers(range(9))))
    lists = array((2,), simple("O8"), False, [[0], [1 << 20]])
    cells = array((2,), simple("O8"), False, [[1.0], [1.0]])
    good = array((2,), simple("O8"), False, [[0], [1]])
    add_honest("a lil_matrix", matrix("lil_matrix", dtype=simple("f8"), rows=good, data=cells))
    add("a lil_matrix", matrix("lil_matrix", dtype=simple("f8"), rows=lists, data=cells))


def odd() -> None:
    """Instructions and orders of them that no pickler writes."""
    own = name(__name__, "Loss")
    plain = {
        "a call by a name for persistent objects": b"P1\n.",
        "a call that looks like a guard": own + b")K\x00\x87Q.",
        "a number of an extension": b"\x82\x01.",
        "a name of numbers": b"K\x01K\x02\x93.",
        "a state of a class": own + b"}b.",
        "a state of a function": name("json", "dumps") + b"}b.",
        "a state of a list": b"]}b.",
        "a call of a result": own + b")R)R.",
        "a buffer that is a list": b"]\x98.",
        "a list that is filled by a reference": b"]\x940h\x00K\x01a.",
        "a method of a list": name("builtins", "getattr") + b"]" + text("append") + b"\x86R.",
        "a method of the user's class": name("builtins", "getattr") + own + text("__init__") + b"\x86R.",
        "a class that is named and dropped": own + b"0N.",
        "an address": build(new(name(__name__, "Address")), ({}, RAW[:8])) + b".",
        "keywords that are none": own + b")]\x92.",
        "arguments that are a list": own + b"]\x81.",
    }
    for what, instructions in plain.items():
        PICKLES[what] = b"\x80\x05" + instructions


for part in (element_types, arrays, random_numbers, values, tables, arrow, matrices, odd):
    part()


def use(value: Any) -> None:
    """Looks at a value as a program would that got it."""
    import pickle

    repr(value)
    if isinstance(value, np.ndarray):
        value.tolist()
    if scipy.sparse.issparse(value):
        value.tocsc().tocsr().toarray()
    if isinstance(value, np.random.MT19937) or isinstance(value, np.random.Philox):
        np.random.Generator(value).random(1000)
    pickle.dumps(value)


def main(known: List[str]) -> None:
    import qjam
    from qjam._reading import Reader

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for what, pickle in [*PICKLES.items(), *HONEST.items()]:
        if known and what not in known:
            continue
        print(f"{what}\t", end="", flush=True)
        reader = Reader()
        reader.use_hosts()
        try:
            value = reader.load(("P", pickle, []))
            use(value)
            del value
            print("read", flush=True)
        except qjam.RefusedResult as error:
            print(f"refused: {error}", flush=True)
        except BaseException as error:
            print(f"failed: {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    # Its classes are known by the name of the module.
    import hostile

    hostile.main(sys.argv[1:])
