"""Masters whose workers are processes of their own: they come, go, die, and print."""

from __future__ import annotations

import io
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest
from events import HANG_S, PRESSING, wait_until

import qjam
from qjam import Master


@pytest.fixture(scope="module")
def processes() -> Iterator[Master]:
    with Master("proc:2", run_folder=False) as m:
        yield m


def total(params: Any, chunk: Any) -> Any:
    return sum(chunk)


def test_every_process_runs_functions(processes: Master) -> None:
    assert [w.name for w in processes.workers] == ["proc:0", "proc:1"]
    assert all(w.pid for w in processes.workers)
    assert processes.run(lambda params, chunk: 42) == 84


def test_arrays_are_shared_with_processes_and_give_the_same_bits(processes: Master) -> None:
    rows = np.random.default_rng(7).normal(size=(5000, 7))

    def moments(params: Any, chunk: Any) -> Any:
        return chunk.sum(axis=0), (chunk * params).sum(axis=0)

    there = processes.run(moments, 0.1, rows)
    with Master("local:1", run_folder=False) as m:
        here = m.run(moments, 0.1, rows)
    for a, b in zip(there, here):
        assert a.tobytes() == b.tobytes()


def test_a_worker_that_is_killed_is_replaced_and_told_of(tmp_path: Path) -> None:
    folder = str(tmp_path)

    def held_up(params: Any, chunk: Any) -> Any:
        import os

        open(os.path.join(folder, f"began-{chunk[0]}"), "w").close()
        while not os.path.exists(os.path.join(folder, "go")):
            time.sleep(0.002)
        return sum(chunk)

    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("qjam")
    logger.addHandler(handler)
    try:
        with Master("proc:2", run_folder=False) as m:
            m.run(total, None, [1, 2, 3])
            pending = m.submit(held_up, None, [1, 2, 3, 4])
            wait_until(lambda: len(os.listdir(folder)) >= 2, "a chunk for each of the workers")
            victim = m.workers[0].pid
            assert victim is not None
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda: any(e.kind == "worker lost" for e in m.journal), "the loss")
            (tmp_path / "go").touch()
            assert pending.result(HANG_S) == 10
            report = pending.report
            assert report is not None and report.lost == 1
            assert [e.text for e in m.journal if e.kind == "worker lost"][0].startswith("proc:0 killed by signal 9")
    finally:
        logger.removeHandler(handler)
    assert "lost worker proc:0 killed by signal 9" in stream.getvalue()


def test_workers_can_be_added_and_sent_away() -> None:
    with Master("proc:1", run_folder=False) as m:
        m.add_workers("proc:1")
        assert [w.name for w in m.workers] == ["proc:0", "proc:1"]
        assert m.run(lambda params, chunk: 1) == 2
        assert m.remove_worker("proc:0") is True
        assert m.run(total, None, [1, 2, 3]) == 6
        assert m.remove_worker("proc:0") is False
        with pytest.raises(qjam.WorkerStringError):
            m.add_workers("proc:none")


def test_what_processes_print_comes_with_their_names(processes: Master, caplog: pytest.LogCaptureFixture) -> None:
    processes.run(lambda params, chunk: print("seven") or 1, None, [1])
    wait_until(lambda: processes.run(total, None, [1]) and "seven" in caplog.text, "the line")
    told = [record for record in caplog.records if "seven" in record.getMessage()]
    assert [record.name for record in told] == ["qjam.worker"]
    assert told[0].getMessage().startswith("[proc:")


def test_exceptions_of_processes_say_which_one(processes: Master) -> None:
    with pytest.raises(KeyError) as told:
        processes.run(lambda params, chunk: params["nothing"], {}, [1])
    cause = told.value.__cause__
    assert isinstance(cause, qjam.RemoteError) and cause.host is not None and cause.host.startswith("proc:")


def test_states_survive_the_end_of_their_worker() -> None:
    def begin(chunk: Any) -> Any:
        return {"sum": sum(chunk)}

    def step(params: Any, chunk: Any, state: Any) -> Any:
        state["sum"] = state["sum"] * 2 + params
        return state["sum"]

    values = []
    for kill in (False, True):
        with Master("proc:2", run_folder=False) as m:
            held = m.hold(begin, [1, 2, 3, 4])
            run = [held.run(step, 1), held.run(step, 2)]
            if kill:
                victim = m.workers[0].pid
                assert victim is not None
                os.kill(victim, signal.SIGKILL)
            run.append(held.run(step, 3))
            values.append((run, held.collect()))
    assert values[0] == values[1]


def test_a_host_that_does_not_answer_can_be_given_up_with_ctrl_c(tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\n: > "$0.began"\nexec sleep 600\n')
    ssh.chmod(0o755)
    script = f"""
{PRESSING}
from qjam import Master
ctrl_c_when_there({str(ssh) + ".began"!r})
try:
    Master("nowhere*2")
except KeyboardInterrupt:
    print("interrupted")
with Master("inproc:1") as m:
    print(m.run(lambda p, c: 7))
"""
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "QJAM_RUNS": "off",
        "QJAM_SSH": str(ssh),
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=HANG_S, env=env)
    assert done.stdout.split() == ["interrupted", "7"], done.stderr
