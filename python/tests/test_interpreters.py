"""Interpreters that end: they are told of, and nothing that they started is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest
from events import HANG_S, wait_until
from test_states import has_ended

from qjam import Master
from qjam._find import worker


def shared_memory(interpreter: int) -> List[str]:
    """What an interpreter has in shared memory under a name: libraries name it by the process."""
    return [name for name in os.listdir("/dev/shm") if re.search(rf"(^|\D){interpreter}(\D|$)", name)]


@pytest.mark.parametrize("workers", ["local:1", "proc:1"])
def test_an_interpreter_that_is_killed_is_in_the_report_the_journal_and_the_run_file(
    workers: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    killed = str(tmp_path / "killed")

    def dies_once(params: Any, chunk: Any) -> Any:
        if not os.path.exists(killed):
            open(killed, "w").close()
            print("goodbye", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        return [os.getpid()]

    with Master(workers, run_folder=str(tmp_path / "runs"), progress=False) as m:
        (pid,) = m.run(dies_once, None, [1])
        assert m.last_round is not None and m.last_round.lost == 1
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: has_ended(pid), "the end of an interpreter that has nothing to do")
        assert m.run(dies_once, None, [1]) != [pid]
        assert m.last_round.lost == 1
        assert m.run(dies_once, None, [1]) and m.last_round.lost == 0
        losses = [entry.text for entry in m.journal if entry.kind == "interpreter lost"]
        name = m.workers[0].name
    assert [text.startswith(f"{name} killed by signal 9") for text in losses] == [True, True], losses
    assert "goodbye" in losses[0]
    assert caplog.text.count(f"lost an interpreter of {name} killed by signal 9") == 2, caplog.text
    env = {**os.environ, "QJAM_RUNS": str(tmp_path / "runs")}
    shown = subprocess.run([worker(), "show", "last"], env=env, capture_output=True, text=True, timeout=HANG_S)
    assert shown.stdout.count("its interpreter: killed by signal 9") == 2, shown.stdout


def starts_others(params: Any, chunk: Any) -> List[Any]:
    """Starts processes that leave their family: with a session of their own, without their parents, without their environment; and
    processes of joblib that share an array."""
    import numpy
    from joblib import Parallel, delayed

    pids = []
    environments: List[Optional[Dict[str, str]]] = [None, {}]
    for env in environments:
        own = subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True, env=env)
        script = "setsid sleep 1000 >/dev/null 2>&1 & echo $!"
        orphan = subprocess.run(["/bin/sh", "-c", script], stdout=subprocess.PIPE, text=True, check=True, env=env)
        pids += [own.pid, int(orphan.stdout)]
    array = numpy.ones((1000, 300))
    assert Parallel(n_jobs=2)(delayed(numpy.sum)(array) for _ in range(3)) == [300_000.0] * 3
    folder = os.environ["JOBLIB_TEMP_FOLDER"]
    assert os.path.exists(folder)
    return [folder, *pids, os.getpid()]


def nothing_is_left(started: List[Any]) -> bool:
    folder, *pids = started
    return all(map(has_ended, pids)) and not shared_memory(pids[-1]) and not os.path.exists(folder)


@pytest.mark.parametrize("workers", ["local:1", "proc:1"])
def test_what_an_interpreter_started_ends_with_the_master(workers: str) -> None:
    with Master(workers, run_folder=False) as m:
        started = m.run(starts_others, None, [1])
        assert not any(map(has_ended, started[1:])) and shared_memory(started[-1])
    wait_until(lambda: nothing_is_left(started), "the end of what the interpreter has started")


@pytest.mark.parametrize("workers", ["local:1", "proc:1"])
def test_what_an_interpreter_started_ends_with_it(workers: str) -> None:
    with Master(workers, run_folder=False) as m:
        started = m.run(starts_others, None, [1])
        os.kill(started[-1], signal.SIGKILL)
        m.run(lambda params, chunk: 1, None, [1])
        wait_until(lambda: nothing_is_left(started), "the end of what the interpreter has started")


def test_what_an_interpreter_started_ends_with_its_executor() -> None:
    with Master("proc:1", run_folder=False) as m:
        started = m.run(starts_others, None, [1])
        executor = m.workers[0].pid
        assert executor is not None
        os.kill(executor, signal.SIGKILL)
        m.run(lambda params, chunk: 1, None, [1])
        wait_until(lambda: nothing_is_left(started), "the end of what the executor has left")


PROGRAM = """
import sys, time
sys.path[:0] = [{tests!r}]
from test_interpreters import starts_others
from qjam import Master
m = Master({workers!r}, run_folder=False)
print(*m.run(starts_others, None, [1]), flush=True)
{then}
"""


def program(workers: str, then: str, folder: Path) -> "subprocess.Popen[str]":
    """A program with a master whose function has started others."""
    script = PROGRAM.format(tests=str(Path(__file__).parent), workers=workers, then=then)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=env, cwd=str(folder))


def started_by(running: "subprocess.Popen[str]") -> List[Any]:
    assert running.stdout is not None
    folder, *pids = running.stdout.readline().split()
    assert len(pids) == 5, (folder, pids)
    return [folder, *map(int, pids)]


def test_what_an_interpreter_started_ends_with_a_program_that_closes_nothing(tmp_path: Path) -> None:
    with program("local:2", "", tmp_path) as running:
        started = started_by(running)
        assert running.wait(HANG_S) == 0
    wait_until(lambda: nothing_is_left(started), "the end of what the program has left")


@pytest.mark.parametrize("workers", ["local:2", "proc:2"])
def test_what_an_interpreter_started_ends_with_a_program_that_is_killed(workers: str, tmp_path: Path) -> None:
    with program(workers, "time.sleep(1000)", tmp_path) as running:
        started = started_by(running)
        assert not any(map(has_ended, started[1:]))
        running.kill()
    wait_until(lambda: nothing_is_left(started), "the end of what the program has left")
