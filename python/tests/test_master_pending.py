"""Rounds that are submitted, and states that stay with the data."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Dict, Iterator

import pytest
from events import HANG_S, is_there, wait_until

import qjam
from qjam import Master

KINDS = ["local:2", "inproc:2"]


@pytest.fixture(scope="module", params=KINDS)
def master(request: pytest.FixtureRequest) -> Iterator[Master]:
    with Master(request.param, run_folder=False) as m:
        yield m


def scaled(params: Any, chunk: Any) -> Any:
    return params * sum(chunk)


def naps(params: Any, chunk: Any) -> int:
    import time

    for _ in range(int(params * 100)):
        time.sleep(0.01)
    return 1


def test_submitted_rounds_run_beside_each_other_and_keep_their_values(master: Master) -> None:
    rounds = [master.submit(scaled, p, range(10)) for p in (1, 2, 3)]
    assert [r.result() for r in rounds] == [45, 90, 135]
    assert [r.result() for r in rounds] == [45, 90, 135]
    assert all(r.done() for r in rounds)
    report = rounds[0].report
    assert report is not None and report.total > 0


def test_parameters_of_a_submitted_round_may_be_changed_at_once(master: Master) -> None:
    import numpy as np

    params = np.ones(100_000)
    pending = master.submit(lambda p, chunk: float(p.sum()), params, [1])
    params[:] = 7
    assert pending.result() == 100_000


def test_waiting_can_be_limited_and_the_round_goes_on(master: Master, tmp_path: Path) -> None:
    go = str(tmp_path / "go")

    def held_up(params: Any, chunk: Any) -> int:
        import os
        import time

        while not os.path.exists(go):
            time.sleep(0.002)
        return 1

    pending = master.submit(held_up, None, [1])
    assert pending.report is None
    assert pending.wait(0.05) is False
    with pytest.raises(qjam.TimedOut, match="it continues"):
        pending.result(0.05)
    (tmp_path / "go").touch()
    assert pending.wait() is True and pending.result() == 1


def test_a_cancelled_round_says_so(master: Master) -> None:
    pending = master.submit(naps, HANG_S, [1, 2])
    pending.cancel()
    assert pending.done()
    with pytest.raises(qjam.Cancelled):
        pending.result()
    assert master.run(scaled, 2, [1, 2], timeout=HANG_S) == 6


def test_cancelling_what_is_over_changes_nothing(master: Master) -> None:
    pending = master.submit(scaled, 1, [1])
    assert pending.result() == 1
    pending.cancel()
    assert pending.result() == 1


def test_a_failed_round_raises_whenever_it_is_asked(master: Master) -> None:
    pending = master.submit(lambda p, chunk: chunk[7], None, [1])
    for _ in range(2):
        with pytest.raises(IndexError) as told:
            pending.result()
        assert isinstance(told.value.__cause__, qjam.RemoteError)
    assert pending.done()


# ---- states ------------------------------------------------------------------------------------------------------


def begin(chunk: Any) -> Dict[str, Any]:
    return {"sum": sum(chunk), "rounds": 0}


def step(params: Any, chunk: Any, state: Dict[str, Any]) -> int:
    state["rounds"] += 1
    state["sum"] += params
    result: int = state["sum"]
    return result


def test_states_stay_with_their_chunks(master: Master) -> None:
    data = qjam.DataSet(list(range(10)), slice_size=5)
    held = master.hold(begin, data)
    assert len(held) == 2
    assert held.run(step, 1) == 45 + 2
    assert held.run(step, 10) == 45 + 22
    held.checkpoint()
    assert held.submit(step, 0).result() == 45 + 22
    assert held.collect() == [{"sum": 21, "rounds": 3}, {"sum": 46, "rounds": 3}]


def test_states_are_there_before_the_first_step(master: Master) -> None:
    held = master.hold(begin, [1, 2])
    assert held.collect() == [{"sum": 1, "rounds": 0}, {"sum": 2, "rounds": 0}]


def test_a_step_that_fails_changes_nothing(master: Master) -> None:
    def fails(params: Any, chunk: Any, state: Dict[str, Any]) -> int:
        state["sum"] = -1
        raise ValueError("no")

    held = master.hold(begin, [1, 2, 3])
    held.run(step, 1)
    with pytest.raises(ValueError, match="no"):
        held.run(fails)
    assert held.run(step, 1) == 12


def test_init_must_be_a_function(master: Master) -> None:
    with pytest.raises(TypeError, match="init must be a function of a chunk, not dict"):
        master.hold({}, [1])  # type: ignore[arg-type]


def test_data_that_changed_after_hold_is_noticed(master: Master) -> None:
    import numpy as np

    rows = np.ones((4, 2))
    held = master.hold(lambda chunk: float(chunk.sum()), rows)
    assert held.run(lambda params, chunk, state: state) == 8.0
    rows[0, 0] = 5
    with pytest.raises(qjam.DataError, match="changed since `hold`"):
        held.run(lambda params, chunk, state: state)


def test_an_import_that_was_called_off_leaves_no_half_of_a_module(tmp_path: Path) -> None:
    package = tmp_path / "slow_to_come"
    package.mkdir()
    began, go = str(tmp_path / "began"), str(tmp_path / "go")
    (package / "__init__.py").write_text(
        "import os, time\n"
        "import slow_to_come.part\n"
        f"open({began!r}, 'w').close()\n"
        f"while not os.path.exists({go!r}):\n    time.sleep(0.002)\n"
    )
    (package / "part.py").write_text("value = 7\n")
    where = str(tmp_path)

    def imports(params: Any, chunk: Any) -> int:
        import sys

        sys.path.append(where)
        import slow_to_come  # type: ignore[import-not-found]

        return int(slow_to_come.part.value)

    with Master("local:1", run_folder=False) as m:
        m.run(lambda params, chunk: 0)
        pending = m.submit(imports, None, [1])
        wait_until(is_there(began), "the import")
        pending.cancel()
        (tmp_path / "go").touch()
        assert m.run(imports, None, [1]) == 7


def test_long_results_that_nobody_has_looked_at_stay_as_they_are() -> None:
    """Workers use the memory of a result again, and once did so before the value had been taken out of it."""

    def long(p: int, _: list[int]) -> dict[str, bytes]:
        return {"bytes": bytes([p]) * 200_000}

    with Master("proc:1", run_folder=False) as m:
        rounds = []
        for p in range(6):
            rounds.append(m.submit(long, p, [1]))
            while not rounds[-1].done():
                time.sleep(0.01)
        for p, pending in enumerate(rounds):
            assert pending.result()["bytes"] == bytes([p]) * 200_000
