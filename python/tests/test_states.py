"""States that stay with the data: objects of their interpreter, which steps change or return."""

from __future__ import annotations

import os
import pickle
import signal
import textwrap
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
from events import wait_until

import qjam
from qjam import Master
from qjam._worker.states import can_stay, lost

WORKERS = ["local:1", "local:3", "proc:2", "inproc:2"]

COUNTED = """
    import os

    unpicklings = 0

    class Log:
        def __init__(self):
            self.entries = []

    class Counted:
        # Not a plain class: it is pickled in every round.
        def __init__(self):
            self.n = 0
        def __setstate__(self, attributes):
            global unpicklings
            unpicklings += 1
            self.__dict__.update(attributes)

    def visit(params, chunk, log):
        log.entries.append((os.getpid(), id(log)))
        return 1

    def count(params, chunk, state):
        state.n += 1
        return unpicklings
"""


@pytest.mark.parametrize("workers", ["local:1", "local:3", "proc:2"])
def test_a_state_is_one_object_in_all_rounds(
    workers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "counted.py").write_text(textwrap.dedent(COUNTED))
    monkeypatch.syspath_prepend(str(tmp_path))
    import counted  # type: ignore[import-not-found]

    with Master(workers, run_folder=False) as m:
        with m.hold(lambda chunk: counted.Log(), list("abcdef")) as held:
            for _ in range(70):  # more than the slot keeps to make a state again
                assert held.run(counted.visit) == 6
            states = held.collect()
        assert [len(state.entries) for state in states] == [70] * 6
        assert [len(set(state.entries)) for state in states] == [1] * 6
        if workers == "local:1":
            with m.hold(lambda chunk: counted.Counted(), ["a"]) as held:
                assert [held.run(counted.count) for _ in range(4)] == [0, 1, 2, 3], "objects of other classes are pickled"


def test_a_state_that_shares_memory_or_has_no_order_does_not_stay() -> None:
    own = np.arange(6.0)
    assert can_stay({"a": own, "b": [1, "x", (2.5, None)], "c": np.random.default_rng(1), "d": np.float32(1)})
    assert can_stay(own.reshape(2, 3)) and can_stay(np.zeros((2, 3)).T) and can_stay([own, own])
    parts: List[Any] = []
    stream = pickle.dumps([np.ones(2), {"m": np.eye(3).T}], protocol=5, buffer_callback=parts.append)
    assert can_stay(pickle.loads(stream, buffers=[bytearray(part) for part in parts])), "what was unpickled"
    assert not can_stay(pickle.loads(stream, buffers=[bytes(part) for part in parts]))
    read_only = own.copy()
    read_only.flags.writeable = False
    for wrong in (own[::2], own[:3], [own, own.reshape(2, 3)], {1, 2}, read_only, np.frombuffer(b"12345678")):
        assert not can_stay(wrong), wrong
    assert not can_stay(np.array([object()])) and not can_stay(can_stay) and not can_stay([np.ma.masked_array([1.0])])


@pytest.mark.parametrize("workers", WORKERS)
def test_states_that_keep_parameters_do_not_share_them(workers: str) -> None:
    def keep(params: Any, chunk: Any, state: Any) -> int:
        if params is not None:
            state["mine"] = params
        state["mine"]["list"].append(chunk[0])
        state["mine"]["array"] = state["mine"]["array"] + 1
        return len(state["mine"]["list"])

    def empty(chunk: Any) -> Any:
        return {}

    with Master(workers, run_folder=False) as m, m.hold(empty, list("abcd")) as held:
        assert held.run(keep, {"list": [], "array": np.zeros(3)}) == 4
        assert [held.run(keep) for _ in range(3)] == [8, 12, 16]
        assert [state["mine"]["list"] for state in held.collect()] == [[name] * 4 for name in "abcd"]
        assert [state["mine"]["array"].tolist() for state in held.collect()] == [[4.0] * 3] * 4


@pytest.mark.parametrize("workers", WORKERS)
def test_a_step_that_fails_changes_no_state(workers: str) -> None:
    def add(params: Any, chunk: Any, state: Any) -> Any:
        state["sum"] += params
        state["array"] *= 2
        if params < 0 and chunk == ["c"]:
            raise ValueError("negative")
        return state["array"] + state["sum"]

    def begin(chunk: Any) -> Any:
        return {"sum": 0, "array": np.ones(2)}

    with Master(workers, run_folder=False) as m, m.hold(begin, list("abcd")) as held:
        for n in range(1, 4):
            held.run(add, n)
        for _ in range(2):
            with pytest.raises(ValueError, match="negative"):
                held.run(add, -5)
        assert held.run(add, 4).tolist() == [4 * (16 + 10)] * 2
        assert [state["sum"] for state in held.collect()] == [10] * 4


def test_a_state_whose_interpreter_is_killed_is_made_again_with_the_same_bits(tmp_path: Path) -> None:
    def draw(params: Any, chunk: Any, state: Any) -> Any:
        state["x"] = state["x"] * 0.9 + qjam.context().rng().normal(size=3)
        state["pid"] = os.getpid()
        return state["x"]

    def zeros(chunk: Any) -> Any:
        return {"x": np.zeros(3)}

    values: List[Any] = []
    for kills in (False, True):
        with Master("local:2", run_folder=False) as m, m.hold(zeros, list("abcd")) as held:
            run = [held.run(draw).tobytes() for _ in range(5)]
            if kills:
                victim = held.collect()[0]["pid"]
                run.append(held.run(draw).tobytes())  # steps since the checkpoint
                os.kill(victim, signal.SIGKILL)
                wait_until(lambda: has_ended(victim), "the end of the interpreter")
            else:
                run.append(held.run(draw).tobytes())
            run += [held.run(draw).tobytes() for _ in range(3)]
            values.append(run)
            lost_ones = [entry for entry in m.journal if entry.kind == "interpreter lost"]
            assert len(lost_ones) == int(kills)
    assert values[0] == values[1]


def has_ended(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"


@pytest.mark.parametrize("workers", WORKERS)
def test_a_step_may_return_its_state(workers: str) -> None:
    def count(params: Any, chunk: Any, state: Any) -> Any:
        return qjam.StepResult(state, state + params)

    with Master(workers, run_folder=False) as m, m.hold(lambda chunk: 10, ["a", "b"]) as held:
        assert [held.run(count, n) for n in (1, 2, 3)] == [20, 22, 26]
        assert held.collect() == [16, 16]


@pytest.mark.parametrize("workers", WORKERS)
def test_a_state_that_cannot_have_changed_is_refused(workers: str) -> None:
    def count(params: Any, chunk: Any, state: Any) -> Any:
        state += 1
        return state

    def look(params: Any, chunk: Any, state: Any) -> Any:
        return state

    with Master(workers, run_folder=False) as m, m.hold(lambda chunk: 10, ["a", "b"]) as held:
        with pytest.raises(TypeError, match=r"count assigns state.*type int: return qjam\.StepResult\(result, state\)"):
            held.run(count)
        assert held.run(look) == 20, "a step that only looks is fine"


def test_what_is_assigned_is_lost_only_if_it_cannot_be_changed_in_place() -> None:
    def assigns(params: Any, chunk: Any, state: Any) -> Any:
        state = state + state
        return 1

    def adds(params: Any, chunk: Any, state: Any) -> Any:
        state += state
        return 1

    for state in (1, 1.5, "text", None, (1, "a"), np.float64(2), frozenset([1])):
        assert "StepResult" in (lost(assigns, state) or ""), state
    assert lost(adds, [1]) is None and lost(adds, np.zeros(2)) is None, "changed in place"


def test_a_step_that_only_reads_its_state_is_not_taken_for_one_that_assigns_it() -> None:
    def reads(params: Any, chunk: Any, state: Any) -> Any:
        total = 0
        for row in chunk:
            total = state + row
            other = state
            total += other
        return [state for _ in chunk], total

    def shadows(params: Any, chunk: Any, state: Any) -> Any:
        return state, [state for state in chunk], (lambda state: state)(1)

    class Steps:
        def step(self, params: Any, chunk: Any, state: Any) -> Any:
            chunk = list(chunk)
            return state

        def assigns(self, params: Any, chunk: Any, state: Any) -> Any:
            state = 1
            return state

    def inner(params: Any, chunk: Any, state: Any) -> Any:
        state = state + 1
        return lambda: state

    assert lost(reads, 1) is None and lost(shadows, 1) is None and lost(Steps().step, 1) is None
    assert lost(Steps().assigns, 1) is not None and lost(inner, 1) is not None
    assert lost(max, 1) is None, "nobody can look into it"


def test_a_state_that_a_later_step_makes_unfit_to_stay_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    def add(params: Any, chunk: Any, state: Any) -> int:
        state["n"] += 1
        if params is not None:
            state["kinds"] = {params}
        return int(state["n"])

    def begin(chunk: Any) -> Any:
        return {"n": 0}

    with Master("local:1", run_folder=False) as m:
        with m.hold(begin, ["a"]) as held:
            assert [held.run(add, kind) for kind in (7, None, None, None, None)] == [1, 2, 3, 4, 5]
            assert held.collect() == [{"n": 5, "kinds": {7}}]
            assert "may compute differently" not in caplog.text, "it was pickled in every round"
        with m.hold(begin, ["a"]) as held:
            assert [held.run(add, kind) for kind in (None, None, None, None, 7)] == [1, 2, 3, 4, 5]
            assert held.collect() == [{"n": 5, "kinds": {7}}]
            assert held.run(add) == 6
    assert caplog.text.count("may compute differently") == 1, caplog.text
