"""What a host cannot do with the names that it may use: load libraries, change constants, take memory, crash the master."""

from __future__ import annotations

import collections
import ctypes
import enum
import gc
import importlib
import os
import pickle
import re
import signal
import subprocess
import sys
import types
from pathlib import Path
from typing import Any, Dict, Iterator, List

import hostile
import numpy as np
import pytest
from events import HANG_S, wait_until
from hostile import Code, Guarded, Mode, build, call, code, look_up, name, new, text

import qjam
from qjam import Master
from qjam._reading import Reader, read_exception


def strict() -> Reader:
    """As of a master with hosts."""
    reader = Reader()
    reader.use_hosts()
    return reader


def refused(*values: Any) -> None:
    """None of them is read, neither as a result nor as an exception."""
    for value in values:
        stream = value if type(value) is bytes else hostile.stream(value)
        with pytest.raises(qjam.RefusedResult):
            strict().load(("P", stream, []))
        assert read_exception(stream) is None


# ---- values that are false ---------------------------------------------------------------------------------------


def outcomes(*known: str) -> Dict[str, str]:
    """What became of pickles in a process of their own, which may have little memory."""
    command = [sys.executable, hostile.__file__, *known]
    folder = str(Path(hostile.__file__).parent)
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=4 * HANG_S)
    lines = dict(line.split("\t", 1) for line in ran.stdout.splitlines() if "\t" in line)
    assert ran.returncode == 0, f"it ended with {ran.returncode} at {list(lines)[-1:]}: {ran.stderr[-2000:]}"
    return lines


def test_values_that_are_false_are_refused_before_anything_is_made_of_them() -> None:
    found = outcomes()
    for what in hostile.PICKLES:
        assert found[what].startswith("refused: a worker sent"), (what, found[what])
    for what in hostile.HONEST:
        assert found[what] == "read", (what, found[what])
    assert len(hostile.PICKLES) > 140 and len(hostile.HONEST) > 30
    assert np.dtype("f8").isnative, "the types of this process are not those of the other"


def test_element_types_of_this_process_are_not_changed() -> None:
    before = np.dtype("f8").__reduce__()
    for copy in (False, True):
        made = build(call(hostile.dtype, "f8", False, copy), (3, ">", None, None, None, -1, -1, 0))
        if copy:
            assert strict().load(("P", hostile.stream(made), [])) == np.dtype(">f8")
        else:
            refused(made)
        assert np.dtype("f8").__reduce__() == before and np.array([1.0]).tobytes() == np.ones(1).tobytes()


def test_buffers_beside_a_pickle_are_as_long_as_what_is_in_them() -> None:
    buffers: List[Any] = []
    stream = pickle.dumps(np.arange(1000.0), protocol=5, buffer_callback=buffers.append)
    whole = bytearray(buffers[0].raw())
    np.testing.assert_array_equal(strict().load(("P", stream, [whole])), np.arange(1000.0))
    for wrong in (b"", whole[:-8], whole + b"\0" * 8, whole * 2):
        with pytest.raises(qjam.RefusedResult):
            strict().load(("P", stream, [wrong]))
    with pytest.raises(pickle.UnpicklingError):
        strict().load(("P", stream, []))


# ---- names that are looked up ------------------------------------------------------------------------------------


def test_no_library_is_loaded_for_a_host(tmp_path: Path) -> None:
    library = tmp_path / "library.so"
    # Any library will do.
    found = importlib.import_module("_ctypes").__file__
    assert found is not None
    library.write_bytes(Path(found).read_bytes())

    def is_loaded() -> bool:
        return str(library) in Path("/proc/self/maps").read_text()

    libraries = name("ctypes", "cdll")
    asked = look_up(libraries, str(library))
    values = [
        # What is looked up is dropped, or is the value, or is called.
        Code(asked + b"0N"),
        asked,
        call(asked),
        Code(libraries + b"0N"),
        Code(look_up(libraries, "LoadLibrary") + code((str(library),)) + b"R"),
        Code(text("ctypes") + text("cdll.LoadLibrary") + b"\x93" + code((str(library),)) + b"R"),
        call(name("ctypes", "CDLL"), str(library)),
    ]
    for value in values:
        refused(value)
        assert not is_loaded()
    # The library that is looked for can be loaded.
    ctypes.CDLL(str(library))
    assert is_loaded()


def test_what_is_named_and_not_used_is_not_imported() -> None:
    module = "antigravity"
    assert module not in sys.modules
    for named in (name(module, "x"), name(module, "x.y"), look_up(name(module, "x"), "y")):
        refused(Code(named + b"0N"), Code(named + b"\x940h\x00"), Code(named + b"\x85"))
        assert module not in sys.modules


def test_only_the_attributes_that_pickles_have_are_looked_up() -> None:
    for kind, attribute in (("Mode", "__class__"), ("Mode", "mro"), ("Kind", "from_arrays"), ("Guarded", "path")):
        refused(look_up(name("hostile", kind), attribute), Code(look_up(name("hostile", kind), attribute) + b"0N"))
    refused(look_up(name("zoneinfo", "ZoneInfo"), "clear_cache"), look_up(name("sys", "modules"), "clear"))
    assert strict().load(("P", hostile.stream(look_up(name("hostile", "Mode"), "SAFE")), [])) is Mode.SAFE


# ---- what is changed ---------------------------------------------------------------------------------------------


def test_constants_are_not_changed_by_a_host() -> None:
    own, flags = name("hostile", "Mode"), name("signal", "Signals")
    assert isinstance(signal.SIGTERM, enum.Enum)
    for made in (call(own, "safe"), call(flags, int(signal.SIGTERM)), new(own, "safe"), new(own)):
        refused(build(made, {"_value_": "dangerous"}), build(made, (None, {"_value_": "dangerous"})))
    refused(Code(call(own, "safe") + b"K\x01a"), build(own, {"x": 1}))
    assert Mode.SAFE.value == "safe" and Mode("safe") is Mode.SAFE and signal.SIGTERM.value == 15
    assert strict().load(("P", pickle.dumps([Mode.SAFE, signal.SIGTERM], 5), [])) == [Mode.SAFE, signal.SIGTERM]


def test_attributes_are_set_without_what_a_class_does_when_they_are(tmp_path: Path) -> None:
    mark = tmp_path / "owned"
    made = new(name("hostile", "Guarded"))
    refused(build(made, (None, {"file": str(mark)})), build(made, ({}, {"__dict__": {"a": 1}})))
    assert not mark.exists()
    # Its slot is set without `__setattr__`, and so are other attributes.
    read = strict().load(("P", hostile.stream(build(made, ({"b": 2}, {"a": str(mark)}))), []))
    assert type(read) is Guarded and getattr(read, "a") == str(mark) and vars(read) == {"b": 2}
    assert not mark.exists()
    pickle.loads(hostile.stream(build(made, (None, {"file": str(mark)}))))
    assert mark.exists()


def test_nothing_is_done_at_the_end_of_what_a_host_has_made(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.touch()
    for kind in ("Removes", "RemovesToo"):
        for made in (new(name("hostile", kind)), call(name("hostile", kind))):
            refused(build(made, {"path": str(kept)}), Code(build(made, {"path": str(kept)}) + b"0N"))
            gc.collect()
            assert kept.exists(), kind
    # The class itself is a value.
    assert strict().load(("P", pickle.dumps(hostile.Removes, 5), [])) is hostile.Removes
    trusting = Reader([hostile.Removes])
    trusting.use_hosts()
    assert trusting.load(("P", pickle.dumps(hostile.Removes(), 5), [])).path == ""


INSTALLED = """
import dataclasses, pathlib

@dataclasses.dataclass
class Plain:
    a: str

@dataclasses.dataclass(frozen=True)
class Frozen:
    a: str

class Touching:
    def __set__(self, obj, value):
        pathlib.Path(value).touch()

    def __get__(self, obj, kind=None):
        return "x"

@dataclasses.dataclass
class Setting:
    a: str

    def __setattr__(self, name, value):
        pathlib.Path(value).touch()

@dataclasses.dataclass
class Getting:
    a: str

    def __getattr__(self, name):
        pathlib.Path("PATH").touch()
        raise AttributeError(name)

@dataclasses.dataclass
class Described:
    a: str
    b = Touching()

@dataclasses.dataclass
class Derived(Described):
    pass

@dataclasses.dataclass
class Property:
    a: str

    @property
    def b(self):
        return ""

    @b.setter
    def b(self, value):
        pathlib.Path(value).touch()

class Meta(type):
    pass

@dataclasses.dataclass
class Classy(metaclass=Meta):
    a: str
"""


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Any]:
    """A module that is not the user's."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "installed_elsewhere.py").write_text(INSTALLED.replace("PATH", str(tmp_path / "owned")))
    sys.path.append(str(folder))
    importlib.invalidate_caches()
    yield importlib.import_module("installed_elsewhere")
    sys.path.remove(str(folder))
    del sys.modules["installed_elsewhere"]


def test_of_dataclasses_of_others_only_those_are_read_that_run_nothing(installed: Any, tmp_path: Path) -> None:
    mark = tmp_path / "owned"
    for plain in (installed.Plain("x"), installed.Frozen("x")):
        assert strict().load(("P", pickle.dumps(plain, 5), [])) == plain
    for kind in ("Setting", "Getting", "Described", "Derived", "Property", "Classy"):
        made = new(name("installed_elsewhere", kind))
        refused(build(made, {"a": str(mark)}), build(made, (None, {"a": str(mark), "b": str(mark)})))
        assert not mark.exists(), kind
    # What is left has nothing that could be run by a state of slots.
    refused(build(new(name("installed_elsewhere", "Plain")), (None, {"b": str(mark)})))
    assert not mark.exists()


# ---- exceptions --------------------------------------------------------------------------------------------------


def test_printing_an_exception_of_a_host_imports_nothing() -> None:
    # Python looks into the module that an ImportError names, to say what else could have been meant.
    made = build(call(name("builtins", "ImportError"), "x"), {"name": "antigravity", "name_from": "y", "path": None})
    error = read_exception(hostile.stream(made))
    assert isinstance(error, ImportError) and error.name == "antigravity"
    assert getattr(error, "name_from", None) is None
    import traceback

    assert "ImportError" in "".join(traceback.format_exception(type(error), error, None))
    assert "antigravity" not in sys.modules


def test_exceptions_get_no_attributes_that_native_code_believes() -> None:
    decode = call(name("builtins", "UnicodeDecodeError"), "a", b"x", 0, 1, "why")
    for state in ({"object": 5}, {"start": 1 << 40}, {"__cause__": call(name("builtins", "ValueError"))}, [1], {1: 2}):
        refused(build(decode, state))
    for error in (KeyError("k"), UnicodeDecodeError("a", b"x", 0, 1, "why"), ModuleNotFoundError("m", name="n", path="p")):
        read = read_exception(pickle.dumps(error, 5))
        assert type(read) is type(error) and read is not None and read.args == error.args and vars(read) == vars(error)
    noted = ValueError("a")
    noted.extra = [1]  # type: ignore[attr-defined]
    read = read_exception(pickle.dumps(noted, 5))
    assert read is not None and getattr(read, "extra") == [1]


def test_a_regular_expression_prints_nothing(capfd: Any) -> None:
    function = name("re", "_compile")
    refused(call(function, "\x1b]0;owned\x07", int(re.DEBUG)))
    assert capfd.readouterr().out == ""
    assert strict().load(("P", pickle.dumps(re.compile("a+", re.I), 5), [])) == re.compile("a+", re.I)


# ---- guards and plain pickle -------------------------------------------------------------------------------------


def test_mutated_pickles_do_not_end_the_process() -> None:
    program = Path(__file__).with_name("mutated_pickles.py")
    ran = subprocess.run([sys.executable, str(program), "1500"], capture_output=True, text=True, timeout=4 * HANG_S)
    assert ran.returncode == 0, ran.stdout[-500:] + ran.stderr[-2000:]
    counts = dict(re.findall(r"(\w+)=(\d+)", ran.stdout))
    assert int(counts["refused"]) > 300 and int(counts["read"]) > 100, ran.stdout


# ---- states ------------------------------------------------------------------------------------------------------


class Lies:
    """A state that is pickled as a call with arguments that no pickler writes: harmless to whoever reads it plainly."""

    def __reduce__(self) -> Any:
        return collections.deque, (range(5),)


def moved(m: Master, held: Any) -> None:
    """The first worker leaves, and what it has goes to the others by way of the master."""
    first = m.workers[0].name
    assert m.remove_worker(first)
    assert first not in [worker.name for worker in m.workers]


@pytest.mark.parametrize("is_strict", [True, False])
def test_states_from_hosts_are_read_with_guards_by_the_workers_that_get_them(is_strict: bool) -> None:
    # Sent as functions of a script, since workers do not have this module.
    def init(chunk: Any) -> Any:
        return {"n": 0}

    def lie(params: Any, chunk: Any, state: Any) -> int:
        state["x"] = Lies()
        return 1

    def count(params: Any, chunk: Any, state: Any) -> int:
        state["n"] += 1
        return len(state.get("x", ()))

    data = qjam.DataSet([1, 2, 3, 4], slice_size=1)
    with Master("proc:2", run_folder=False, progress=False) as m:
        if is_strict:
            m._reader.use_hosts()
        held: Any = m.hold(init, data)
        assert held.run(lie) == 4
        # By its names it is in order, so it is kept.
        held.checkpoint()
        moved(m, held)
        if is_strict:
            with pytest.raises(qjam.RefusedResult, match="the state of this chunk is not used: another host sent a false deque"):
                held.run(count)
            with pytest.raises(qjam.RefusedResult, match="a false deque"):
                held.collect()
        else:
            assert held.run(count) == 20


def test_honest_states_move_to_other_workers_with_guards() -> None:
    pd = pytest.importorskip("pandas")

    class Own:
        def __init__(self) -> None:
            self.values = np.arange(3.0)
            self.seen: List[int] = []

    def init(chunk: Any) -> Any:
        return {
            "own": Own(),
            "rng": np.random.default_rng(5),
            "table": pd.DataFrame({"a": [1.0], "b": ["x"]}),
            "big": np.zeros(5000),
        }

    def step(params: Any, chunk: Any, state: Any) -> float:
        state["own"].seen.append(chunk[0])
        state["own"].values += 1
        state["big"][chunk[0]] += 1
        state["table"].loc[0, "a"] += state["rng"].random()
        return float(state["table"]["a"][0])

    def totals(moves: bool) -> List[float]:
        data = qjam.DataSet([1, 2, 3, 4], slice_size=1)
        with Master("proc:2", run_folder=False, progress=False) as m:
            m._reader.use_hosts()
            held: Any = m.hold(init, data)
            found = [held.run(step)]
            if moves:
                moved(m, held)
            found += [held.run(step), held.run(step)]
            states = held.collect()
            assert [state["own"].seen for state in states] == [[n] * 3 for n in (1, 2, 3, 4)]
            assert [state["big"][n] for n, state in enumerate(states, 1)] == [3.0] * 4
            return found

    assert totals(True) == totals(False)


def test_states_of_a_worker_that_was_killed_are_read_with_guards() -> None:
    def init(chunk: Any) -> Any:
        return {"n": 0}

    def lie(params: Any, chunk: Any, state: Any) -> int:
        state["x"] = Lies()
        return 1

    def count(params: Any, chunk: Any, state: Any) -> int:
        return len(state["x"])

    with Master("proc:2", run_folder=False, progress=False) as m:
        m._reader.use_hosts()
        held: Any = m.hold(init, qjam.DataSet([1, 2, 3, 4], slice_size=1))
        assert held.run(lie) == 4
        held.checkpoint()
        pids = [worker.pid for worker in m.workers]
        assert all(pids)
        os.kill(pids[0], signal.SIGKILL)  # type: ignore[arg-type]
        wait_until(lambda: [worker.pid for worker in m.workers] != pids, "another worker in its place")
        with pytest.raises(qjam.RefusedResult, match="a false deque"):
            held.run(count)


def test_what_the_user_trusts_has_no_guards() -> None:
    assert Reader().guards_states and Reader([types.SimpleNamespace]).guards_states
    assert not Reader(["numpy"]).guards_states
    trusting = Reader(["collections"])
    trusting.use_hosts()
    assert trusting.load(("P", pickle.dumps(Lies(), 5), [])) == collections.deque(range(5))
    refused(pickle.dumps(Lies(), 5))
