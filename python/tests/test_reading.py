"""What a master reads of what hosts send back, and what it refuses."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import io
import ipaddress
import os
import pathlib
import pickle
import random
import re
import subprocess
import sys
import time
import types
import uuid
import zoneinfo
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import numpy as np
import pandas as pd
import pyarrow
import pytest
import scipy.sparse
import scipy.stats

import qjam
from qjam import Master, _native
from qjam._plain import BUILD, CALL, FILL, NEW
from qjam._reading import Reader, read_exception


def strict(more: Any = ()) -> Reader:
    """As of a master with hosts."""
    reader = Reader(more)
    reader.use_hosts()
    return reader


def parts(obj: Any) -> Any:
    buffers: List[pickle.PickleBuffer] = []
    stream = pickle.dumps(obj, protocol=5, buffer_callback=buffers.append)
    return "P", stream, [bytearray(buffer.raw()) for buffer in buffers]


# ---- what is read ------------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = 1


class Bits(enum.Flag):
    ONE = 1
    TWO = 2


class Moments(NamedTuple):
    rows: int
    total: Any


@dataclasses.dataclass
class Loss:
    value: float
    parts: dict[str, float]

    @dataclasses.dataclass(frozen=True)
    class Inner:
        name: str


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a: int) -> None:
        self.a = a

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slotted) and self.a == other.a


class Ordinary:
    def __init__(self, a: int) -> None:
        self.a = a

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ordinary) and self.a == other.a


class Rebuilt:
    """Says itself how it is pickled."""

    def __init__(self, a: int) -> None:
        self.a = a

    def __reduce__(self) -> Any:
        return Rebuilt, (self.a,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rebuilt) and self.a == other.a


class Many(list):  # type: ignore[type-arg]
    """A container of the user's."""


class Name(str):
    """A text of the user's."""


class Point(complex):
    """A number of the user's."""


class Names(set):  # type: ignore[type-arg]
    """A set of the user's, which is called when it is read."""


class Counts(collections.defaultdict):  # type: ignore[type-arg]
    """A dictionary of the user's, which is called with a class when it is read."""


class Rows(list):  # type: ignore[type-arg]
    """A list of the user's that is called with an array."""

    def __reduce__(self) -> Any:
        return Rows, (np.array(self),)


class Coded(Exception):
    """An exception of the user's with a state of its own."""

    code = 7

    def __reduce__(self) -> Any:
        return Coded, (), (7,)

    def __setstate__(self, state: Any) -> None:
        self.code = state[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Coded) and "code" in vars(self) and self.code == other.code


class Weights(dict):  # type: ignore[type-arg]
    """A dictionary of the user's that says itself how it is pickled."""

    def __init__(self, values: Any) -> None:
        super().__init__(enumerate(values))

    def __reduce__(self) -> Any:
        return Weights, (np.array(list(self.values())),)


class Level(enum.IntEnum):
    LOW = 1


class Unit(np.ndarray[Any, Any]):
    """An array of the user's, pickled as NumPy's documentation has it."""

    unit = ""

    def __reduce__(self) -> Any:
        made: Any = super().__reduce__()
        return made[0], made[1], (*made[2], self.unit)

    def __setstate__(self, state: Any) -> None:
        self.unit = state[-1]
        super().__setstate__(state[:-1])


class Node:
    """Refers to what refers to it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.others: List[Any] = [self]
        self.array = np.array([self, None], dtype=object)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.name == other.name and other.others[0] is other and other.array[0] is other


PLAIN: List[Any] = [
    *(None, True, 1, -(2**80), 1.5, 1j, "text", b"bytes", bytearray(b"x"), [1, [2]], (1, "a"), {"a": {1: 2}}, {1, 2}),
    *(frozenset([1]), ..., range(3), slice(1, 2), int, float, np.float64),
    *(collections.OrderedDict(a=1), collections.defaultdict(int, a=1), collections.defaultdict(list)),
    *(collections.deque([1], 3), collections.Counter("aab"), collections.ChainMap({"a": 1}), collections.UserDict(a=1)),
    *(datetime.datetime.now(datetime.timezone.utc), datetime.date.today(), datetime.time(1), datetime.timedelta(1)),
    datetime.datetime(2026, 1, 1, tzinfo=zoneinfo.ZoneInfo("UTC")),
    *(decimal.Decimal("1.5"), fractions.Fraction(1, 3), uuid.uuid4(), pathlib.Path("/x"), re.compile("a+")),
    *(types.SimpleNamespace(a=1), Colour.RED, Bits.ONE | Bits.TWO, Moments(1, 2.0)),
    *(Loss(1.0, {"a": 2.0}), Loss.Inner("x"), Slotted(3), Ordinary(4), Rebuilt(5), Many([1, 2]), Node("a")),
    *(Name("a"), Point(1, 2), Names([1, 2]), Weights([1.0, 2.0]), Counts(int, a=1), Rows([1]), Coded(), Level.LOW, Moments(1, range(3))),
    *(collections.deque([1, 2]), collections.UserString("a"), collections.UserList([1]), array.array("d", [1.0])),
    *(ipaddress.ip_address("1.2.3.4"), ipaddress.ip_network("1.2.3.0/24"), time.localtime(0), re.compile(b"a", re.S)),
    *(datetime.timezone(datetime.timedelta(hours=1), "x"), datetime.time(1, fold=1), ValueError, Colour, (((1,),),)),
    *(np.float32(1.5), np.bool_(True), np.int64(3), np.datetime64("2020-01-01"), np.dtype("f4"), np.dtype([("a", "i4")])),
]

ARRAYS: List[Any] = [
    *(np.arange(6.0).reshape(2, 3), np.eye(4)[::2], np.asfortranarray(np.eye(2)), np.array(1.0), np.zeros((0, 3))),
    *(np.array(["a", "bc"]), np.array([None, "x"], dtype=object), np.array(["2020"], dtype="M8[D]"), np.matrix([[1.0]])),
    *(np.zeros(2, dtype=[("a", "f4"), ("b", "O")]), np.zeros(2, dtype=[("a", "f4"), ("b", "i8", (2,))])),
    *(np.arange(6).astype(kind).reshape(2, 3) for kind in "?bBhHiIlLqQefdgFDG"),
    *(np.arange(3, dtype=">f8"), np.zeros((2, 3, 4)).transpose(1, 2, 0), np.array(["a"], dtype=">U2"), np.array([b"a"])),
    *(np.zeros(2, "V5"), np.array(["2020"], dtype="M8[25s]"), np.array([1], dtype="m8[ns]"), np.array(["NaT"], dtype="M8")),
    *(np.zeros(2, np.dtype([("a", "i1"), ("b", "f8")], align=True)), np.zeros(2, [(("title", "a"), "f4"), ("b", "M8[D]")])),
    *(np.zeros(2, [("a", [("x", "f4"), ("y", "O")]), ("b", "U3")]), np.zeros(3, [("a", "f4"), ("b", "i8")])[["b"]]),
    *(np.zeros(2, np.dtype([("a", "f4")], metadata={"k": 1})), np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])),
    *(np.zeros(2, []), np.zeros(1, [("a", "f4"), ("b", "O")])[0], np.zeros(1, [("a", "f4")])[0], np.array(None, dtype=object)),
]


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: f"{type(value).__name__}")
def test_plain_values_and_own_classes_are_read(value: Any) -> None:
    read = strict().load(parts({"value": [value]}))["value"][0]
    assert type(read) is type(value) and read == value


@pytest.mark.parametrize("value", ARRAYS, ids=lambda value: f"{value.dtype}")
def test_arrays_are_read(value: Any) -> None:
    read = strict().load(parts([value]))[0]
    assert type(read) is type(value) and read.dtype == value.dtype
    np.testing.assert_array_equal(read, value)


def test_arrays_of_the_user_and_masked_ones_are_read() -> None:
    unit = np.arange(3.0).view(Unit)
    unit.unit = "m"
    read = strict().load(parts(unit))
    assert type(read) is Unit and read.unit == "m" and read.tolist() == [0.0, 1.0, 2.0]
    masks: List[Any] = [[0, 1, 0], False, [(0, 1)]]
    for value in (
        np.ma.array([1.0, 2, 3], mask=masks[0]),
        np.ma.array([1, 2, 3], mask=masks[0], fill_value=7),
        np.ma.array([1.0, 2, 3], mask=masks[1]),
        np.ma.array([(1, 2.0)], mask=masks[2], dtype=[("a", "i4"), ("b", "f8")]),
        np.ma.array([None, "a", 1], mask=masks[0], dtype=object),
    ):
        found = strict().load(parts({"a": value}))["a"]
        assert type(found) is type(value) and found.fill_value == value.fill_value
        assert found.tolist() == value.tolist() and np.array_equal(np.ma.getmaskarray(found), np.ma.getmaskarray(value))


def test_generators_of_random_numbers_are_read() -> None:
    for make in (np.random.default_rng, np.random.RandomState, random.Random):
        read = strict().load(parts(make(7)))
        assert read.random() == make(7).random()
    for bits in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64):
        used = np.random.Generator(bits(7))
        used.integers(5, dtype="i4")
        read = strict().load(parts(used))
        assert read.random(5).tolist() == used.random(5).tolist()
        assert strict().load(parts(bits(7))).state["bit_generator"] == bits.__name__
    spawned = np.random.SeedSequence(7).spawn(2)[1]
    assert strict().load(parts(spawned)).generate_state(4).tolist() == spawned.generate_state(4).tolist()


def test_tables_and_sparse_matrices_are_read() -> None:
    table = pd.DataFrame(
        {"a": [1.0, 2], "b": ["x", "y"], "c": pd.to_datetime(["2020-01-01", "2021-01-01"]), "d": pd.Categorical(["u", "v"])}
    )
    table["z"] = table["c"].dt.tz_localize("Europe/Berlin")
    days = pd.DataFrame({"a": [1.0, 2]}, index=pd.date_range("2020-01-01", periods=2, freq="D"))
    for frame in (table, table.set_index("c"), table.set_index(["a", "b"]), days):
        pd.testing.assert_frame_equal(strict().load(parts(frame)), frame)
    pd.testing.assert_series_equal(strict().load(parts(table["b"])), table["b"])
    columns = pyarrow.table({"a": [1, 2], "b": ["x", None]})
    assert strict().load(parts(columns)).equals(columns)
    for kind in ("bsr", "coo", "csc", "csr", "dia", "lil"):
        for made in (getattr(scipy.sparse, kind + "_matrix"), getattr(scipy.sparse, kind + "_array")):
            for values in (np.eye(3), np.zeros((2, 3)), np.arange(6.0).reshape(3, 2)):
                matrix = made(values)
                read = strict().load(parts(matrix))
                assert type(read) is type(matrix) and np.array_equal(read.toarray(), values)
    batch = pyarrow.table({"a": [1, None, 3], "b": ["x", None, "z"], "c": [True, None, False], "d": [1.5, 2, 3]})
    batch = batch.append_column("e", pyarrow.array([1, 2, 3], pyarrow.date32())).replace_schema_metadata({"k": "v"})
    for value in (batch, batch.slice(1, 1), batch["b"], batch["a"].chunk(0), pyarrow.array([], pyarrow.int64()), pyarrow.nulls(2)):
        assert strict().load(parts(value)).equals(value)


def test_columns_and_indices_of_all_kinds_are_read() -> None:
    kinds = ("Int8", "Int64", "UInt16", "Float64", "boolean", "category")
    for kind in kinds:
        column = pd.Series([1, 0, None], dtype=kind)
        pd.testing.assert_series_equal(strict().load(parts(column)), column)
    days = pd.to_datetime(["2020-01-01", "2021-01-01"])
    for column in (
        pd.Series(["a", None], dtype="string[python]"),
        pd.Series([1, "a", None], dtype=object, name="n"),
        pd.Series(days - days[0]),
        pd.Series(pd.Categorical(["a", "b"], categories=["b", "a"], ordered=True)),
        pd.Series([1.0, 2], index=pd.Index(["a", "b"], name="i")),
    ):
        pd.testing.assert_series_equal(strict().load(parts(column)), column)
    indices = [pd.Index([1, 2]), pd.Index(["a"]), pd.Index([1.5]), pd.RangeIndex(3), pd.Index([None, 1], dtype=object)]
    indices += [pd.date_range("2020", periods=3, freq="D"), days, pd.timedelta_range("1D", periods=3), pd.CategoricalIndex(["a"])]
    indices += [pd.MultiIndex.from_product([[1, 2], ["a", "b"]], names=["x", "y"]), pd.Index([], dtype="f8")]
    for index in indices:
        pd.testing.assert_index_equal(strict().load(parts(index)), index)
    moments = [pd.Timestamp("2020"), pd.Timestamp("2020", tz="UTC"), pd.Timedelta("1D"), pd.NaT, pd.NA]
    assert repr(strict().load(parts(moments))) == repr(moments)


def test_exceptions_are_rebuilt_from_their_names_and_arguments() -> None:
    import json

    for error in (ValueError("a", 1), FileNotFoundError(2, "no", "f"), json.JSONDecodeError("a", "b", 0), qjam.TimedOut("x")):
        read = read_exception(pickle.dumps(error, 5))
        assert type(read) is type(error) and read is not None and read.args == error.args
    assert read_exception(pickle.dumps(SystemExit(3), 5)) is None


# ---- what is refused ---------------------------------------------------------------------------------------------


class Does:
    """An object whose pickle calls something when it is read."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.what: Any = (function, arguments)

    def __reduce__(self) -> Any:
        return self.what


def harmful(path: str) -> None:
    """A function of the user's own module."""
    Path(path).touch()


class Harmful:
    """A class of the user's that does something when it is made."""

    def __init__(self, path: str) -> None:
        Path(path).touch()


def text(value: str) -> bytes:
    return b"\x8c" + bytes([len(value)]) + value.encode()


def exploits(path: str) -> List[bytes]:
    """Pickles that make a file when they are read."""
    touch = f"touch {path}"
    calls = [
        Does(os.system, touch),
        Does(subprocess.Popen, ["touch", path]),
        Does(eval, f"open({path!r}, 'w')"),
        Does(open, path, "w"),
        Does(io.FileIO, path, "w"),
        Does(np.memmap, path, "u1", "w+", 0, (1,)),
        Does(harmful, path),
        Does(Harmful, path),
        Does(Path(path).touch),
        Does(getattr(os, "system"), touch),
    ]
    pickles = [pickle.dumps({"result": [call]}, 5) for call in calls]
    # A distribution of SciPy executes a text of its state.
    gadget = b"\x80\x05" + text("scipy.stats._distn_infrastructure") + text("rv_continuous") + b"\x93)\x81"
    state = {"_parse_arg_template": f"open({path!r}, 'w')", "_updated_ctor_param": {}}
    pickles.append(gadget + pickle.dumps(state, 5)[2:-1].replace(b"\x94", b"") + b"b.")
    # By attributes of attributes, and by the result of a call.
    system = b"\x80\x05" + text("pathlib") + text("os.system") + b"\x93" + text(touch) + b"\x85R."
    by_getattr = b"\x80\x05" + text("builtins") + text("getattr") + b"\x93" + text("os") + text("path") + b"\x93"
    pickles += [system, by_getattr + text("os.system") + b"\x86R" + text(touch) + b"\x85R."]
    # What is called by something harmless that is given it.
    generator = text("numpy.random._pickle") + text("__generator_ctor") + b"\x93"
    own = text(__name__) + text("Harmful") + b"\x93"
    pickles.append(b"\x80\x05" + generator + text(path) + own + b"\x86R.")
    # Older instructions and other protocols, which name things in other ways.
    pickles += [pickle.dumps(Does(os.system, touch), protocol) for protocol in range(5)]
    return pickles


def test_nothing_that_a_host_chooses_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "owned"
    for number, stream in enumerate(exploits(str(mark))):
        with pytest.raises(qjam.RefusedResult):
            strict().load(("P", stream, []))
        assert read_exception(stream) is None
        assert not mark.exists(), f"pickle {number} was run"
    # They do harm where they are read by pickle itself.
    pickle.loads(exploits(str(mark))[0])
    assert mark.exists()


def test_a_refusal_says_what_was_named_and_what_can_be_done() -> None:
    with pytest.raises(qjam.RefusedResult) as told:
        strict().load(("P", pickle.dumps(Does(os.system, "true"), 5), []))
    message = str(told.value)
    assert "posix.system" in message and "nothing was run" in message
    assert "result_classes=[...]" in message and "hosts_may_run_code_here=True" in message
    assert isinstance(told.value, TypeError)


def test_modules_are_not_imported_for_a_host() -> None:
    name = "this"
    assert name not in sys.modules
    named = b"\x80\x05" + text(name) + text("s") + b"\x93"
    # As the value, and where it is dropped again.
    for rest in (b".", b"0N.", b")R.", b")\x81."):
        with pytest.raises(qjam.RefusedResult):
            strict().load(("P", named + rest, []))
        assert name not in sys.modules


def test_classes_of_the_user_are_not_changed_by_a_host() -> None:
    name = b"\x80\x05" + text(__name__) + text("Ordinary") + b"\x93"
    change = b"N}" + text("a") + b"K\x07s\x86b."
    with pytest.raises(qjam.RefusedResult):
        strict().load(("P", name + change, []))
    assert not hasattr(Ordinary, "a")


def test_false_element_types_of_arrays_are_refused() -> None:
    # NumPy itself crashes when it is given one of these, so they are never made here.
    objects = {"a": (np.dtype("O"), 0), "b": (np.dtype("i8"), 8)}
    beyond = {"a": (np.dtype("i8"), 0), "b": (np.dtype("i8"), 1 << 20)}
    honest = {"a": (np.dtype("i8"), 0), "b": (np.dtype("i8"), 8)}
    zeros: Any = np.zeros(2)
    for fields, is_false in ((objects, True), (beyond, True), (honest, False)):
        dtype = Does(np.dtype, "V16", False, True)
        dtype.what = (*dtype.what, (3, "|", None, ("a", "b"), fields, 16, 1, 0))  # it says that it has no objects
        made = Does(*zeros.__reduce__()[:1], *zeros.__reduce__()[1])
        made.what = (*made.what, (1, (2,), dtype, False, bytes(32)))
        scalar = np.float32(1).__reduce__()[0]
        from_buffer = zeros.__reduce_ex__(5)[0]
        for value in (dtype, made, Does(from_buffer, bytes(32), dtype, (2,), "C"), [Does(scalar, dtype, bytes(16))]):
            if is_false:
                with pytest.raises(qjam.RefusedResult, match="element type"):
                    strict().load(parts(value))
            else:
                strict().load(parts(value))
    assert strict().load(("N", b"A<f8;2;", [("d", bytearray(16))])).tolist() == [0.0, 0.0]
    for shape in (b"A|O;2;", b"S|O;", b"A<f8,O;2;"):
        with pytest.raises(ValueError, match="element type"):
            strict().load(("N", shape, [("d", bytearray(16))]))


class Probe(type):
    """A class of which is recorded what reading a pickle does with it."""

    uses: Dict[Tuple[str, str], int]
    key: Tuple[str, str]

    def __call__(cls, *args: Any, **options: Any) -> Any:
        cls.uses[cls.key] |= CALL
        made: Any = cls
        return object.__new__(made)


def probe(module: str, name: str, uses: Dict[Tuple[str, str], int]) -> Any:
    def note(use: int) -> Callable[..., Any]:
        def called(self: Any, *_: Any) -> None:
            uses[module, name] |= use

        return called

    def new(cls: Any, *_: Any, **__: Any) -> Any:
        uses[module, name] |= NEW
        return object.__new__(cls)

    fills = dict.fromkeys(("append", "extend", "add", "__setitem__"), note(FILL))
    uses.setdefault((module, name), 0)
    return Probe("Probed", (), {"__new__": new, "__setstate__": note(BUILD), "uses": uses, "key": (module, name), **fills})


class Recording(pickle.Unpickler):
    """Reads a pickle and runs nothing of it."""

    def __init__(self, stream: bytes) -> None:
        super().__init__(io.BytesIO(stream), buffers=[b""] * 8)
        self.uses: Dict[Tuple[str, str], int] = {}

    def find_class(self, module: str, name: str) -> Any:
        return probe(module, name, self.uses)

    def persistent_load(self, pid: Any) -> Any:
        """Does what a guarded pickle asks for, as pickle would."""
        if len(pid) == 2:
            (kind, arguments, keywords), _ = pid
            return kind.__new__(kind, *arguments, **keywords)
        what, given, how = pid
        if how == 2:
            what.__setstate__(given)
            return what
        return what(*given) if how == 0 else what.__new__(what, *given)


def recorded(stream: bytes) -> Tuple[Dict[Tuple[str, str], int], bool]:
    """What reading a pickle does with each name, and whether it comes to its end."""
    recording = Recording(stream)
    try:
        recording.load()
    except Exception:
        return recording.uses, False  # what was found until then counts
    return recording.uses, True


def test_names_and_uses_are_those_that_the_unpickler_finds() -> None:
    draw = random.Random(1)
    seeds = [pickle.dumps([value, value], 5) for value in [*PLAIN, *ARRAYS] if not isinstance(value, datetime.datetime)]
    seeds += [pickle.dumps(Does(os.path.join, "a", [Does(dict, ((1, 2),))]), 5), pickle.dumps({"a": (Many, [Many([1])])}, 4)]
    accepted = read = changed = 0
    for _ in range(30_000):
        stream = bytearray(draw.choice(seeds))
        for _ in range(draw.randrange(4)):
            at = draw.randrange(2, len(stream))
            kind = draw.randrange(4)
            if kind == 0:
                stream[at] = draw.randrange(256)
            elif kind == 1:
                stream[at] = draw.choice(b"().0123NK]}abesutRh\x81\x85\x86\x87\x8c\x8f\x90\x91\x92\x93\x94")
            elif kind == 2:
                del stream[at : at + draw.randrange(1, 4)]
            else:
                other = draw.choice(seeds)
                cut = draw.randrange(len(other))
                stream[at:at] = other[cut : cut + draw.randrange(1, 12)]
            if len(stream) < 4:
                break
        try:
            listed = {(module, name): uses for module, name, uses in _native.names_in(bytes(stream))}
        except ValueError:
            continue
        accepted += 1
        found, is_whole = recorded(bytes(stream))
        read += is_whole
        for key, uses in found.items():
            assert key in listed and not uses & ~listed[key], (bytes(stream), key, uses, listed)
        # With guards it is the same pickle.
        names, guarded = _native.guarded(bytes(stream))
        assert {(module, name): uses for module, name, uses in names} == listed
        if guarded is not None and is_whole:
            assert recorded(guarded) == (found, True), (bytes(stream), guarded)
            changed += 1
    assert accepted > 3000 and read > 1000 and changed > 1000, (accepted, read, changed)


def test_what_the_user_names_is_read() -> None:
    value = Does(os.path.join, "a", "b")
    with pytest.raises(qjam.RefusedResult):
        strict().load(parts(value))
    assert strict({os.path.join}).load(parts(value)) == "a/b"
    assert strict({"posixpath"}).load(parts(value)) == "a/b"
    trusting = Reader(allows_code=True)
    trusting.use_hosts()
    assert trusting.load(parts(value)) == "a/b"
    with pytest.raises(TypeError, match="result_classes"):
        Master("inproc:1", result_classes=[3], run_folder=False)


# ---- with a master -----------------------------------------------------------------------------------------------


@pytest.fixture(params=["local:2", "inproc:2"])
def wary(request: Any) -> Any:
    """A master that trusts its workers as if they were elsewhere."""
    with Master(request.param, run_folder=False) as m:
        m._reader.use_hosts()
        yield m


def test_classes_of_a_script_come_back_as_themselves(wary: Master) -> None:
    class Local:
        def __init__(self, n: int) -> None:
            self.n = n

        def __add__(self, other: Local) -> Local:
            return Local(self.n + other.n)

    class Own(ValueError):
        pass

    data = qjam.DataSet([1, 2, 3, 4], slice_size=1)
    result = wary.run(lambda params, chunk: Local(chunk[0]), None, data)
    assert type(result) is Local and result.n == 10

    def fails(params: Any, chunk: Any) -> None:
        raise Own("so", 3)

    with pytest.raises(Own) as told:
        wary.run(fails, None, data)
    assert told.value.args == ("so", 3)
    held = wary.hold(lambda chunk: Local(0), data)

    def step(params: Any, chunk: Any, state: Local) -> int:
        state.n += chunk[0]
        return 1

    assert held.run(step) == 4
    held.checkpoint()
    assert [state.n for state in held.collect()] == [1, 2, 3, 4]


def test_a_hostile_worker_gets_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "owned"
    # Whatever a worker does to itself is its own affair.
    code = f"__import__('os').getpid() == {os.getpid()} and open({str(mark)!r}, 'w')"

    def evil(params: Any, chunk: Any) -> Any:
        return {"result": Does(eval, params)}

    def fails(params: Any, chunk: Any) -> None:
        raise ValueError(Does(eval, params))

    def step(params: Any, chunk: Any, state: Any) -> int:
        state["x"] = Does(eval, params)
        return 1

    def combine(left: Any, right: Any) -> Any:
        return {"result": Does(eval, code)}

    data = qjam.DataSet([1, 2, 3, 4], slice_size=1)
    with Master("local:2", run_folder=False) as m:
        m._reader.use_hosts()
        with pytest.raises(qjam.RefusedResult, match="builtins.eval"):
            m.run(evil, code, data, reduce=combine)
        with pytest.raises(qjam.RefusedResult, match="builtins.eval"):
            m.run(evil, code, [1])
        with pytest.raises(qjam.RefusedResult, match="builtins.eval"):
            m.submit(evil, code, [1]).result()
        with pytest.raises(qjam.RemoteError):
            m.run(fails, code, data)
        held: Any = m.hold(lambda chunk: {}, data)
        assert held.run(step, code) == 4
        with pytest.raises(qjam.RefusedResult, match="partition 0.*builtins.eval"):
            held.checkpoint()
        with pytest.raises(qjam.RefusedResult, match="builtins.eval"):
            held.collect()
        assert m.run(lambda params, chunk: sum(chunk), None, [1, 2, 3]) == 6
    assert not mark.exists()


def test_texts_of_workers_cannot_move_the_cursor(capfd: Any) -> None:
    def noisy(params: Any, chunk: Any) -> None:
        print("printed \x1b[2J\x9b2J\rover")
        raise RuntimeError("raised \x1b]0;owned\x07") from None

    with Master("local:1", run_folder=False, progress=False) as m:
        with pytest.raises(RuntimeError) as told:
            m.run(noisy, None, [1])
    cause = str(told.value.__cause__)
    assert "raised" in cause and "printed" in cause
    said = cause + capfd.readouterr().err
    assert "\\u{1b}[2J" in said and not re.search("[\x1b\x07\x9b\r]", said)
