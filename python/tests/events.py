"""Waiting for something to happen, and pressing Ctrl-C when it has.

No test's verdict hangs on a clock: a test waits for an event, and what it then sees decides. The one limit in here turns a
wait without end into a failure; nothing is measured with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import Callable, Iterator, Union

#: Whoever waits longer waits for ever.
HANG_S = 180.0


def wait_until(happened: Callable[[], object], what: str) -> None:
    """Returns when something has happened."""
    ends_by = time.monotonic() + HANG_S
    while not happened():
        assert time.monotonic() < ends_by, f"{what} has not happened in {HANG_S:.0f} s"
        time.sleep(0.002)


@contextlib.contextmanager
def ctrl_c_when(happened: Callable[[], object]) -> Iterator[None]:
    """Presses Ctrl-C once something has happened, and not at all if the block is over by then.

    What is interrupted must not be able to end by itself: between the look and the key it would leave the interrupt to
    whoever comes next.
    """
    is_over = threading.Event()

    def press() -> None:
        while not is_over.is_set():
            if happened():
                os.kill(os.getpid(), signal.SIGINT)
                return
            is_over.wait(0.002)

    thread = threading.Thread(target=press)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


#: The same for programs that a test starts: `ctrl_c_when_there(path)` presses once there is a file.
PRESSING = """
import os, signal, threading, time
def ctrl_c_when_there(path):
    def press():
        while not os.path.exists(path):
            time.sleep(0.002)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=press, daemon=True).start()
"""


def is_there(path: Union[str, Path]) -> Callable[[], bool]:
    """Whether there is a file: what functions on workers tell that they have begun by."""
    return lambda: os.path.exists(path)


def some_rounds(workers: str) -> Callable[[], bool]:
    """Whether the master that estimators with these workers share, a new one, has done a few rounds."""
    from qjam.learn import _masters, close_workers

    close_workers()
    master = _masters.master_for(workers)
    return lambda: sum(entry.kind == "report" for entry in master.journal) >= 3


#: For programs that are to end with a file of their run: `wait_until_recorded(folder, n)` returns when the last run's file
#: has so many rounds.
RECORDED = """
import json, os, subprocess, time
from qjam._find import worker
def wait_until_recorded(folder, rounds):
    while True:
        env = {**os.environ, "QJAM_RUNS": folder}
        said = subprocess.run([worker(), "show", "last", "--json"], env=env, capture_output=True, text=True)
        if said.returncode == 0 and json.loads(said.stdout)["rounds"] >= rounds:
            return
        time.sleep(0.01)
"""
