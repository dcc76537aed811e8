"""Runs in Spark's Python workers: hands tasks to the worker process of qjam that is beside each of them.

The driver sends this file's text with every task, so nothing of qjam is installed on executors, and this file imports nothing of it.
The process is the executable that Spark has copied here by ``addFile``. It keeps data and states between tasks, and ends
with the Python worker that started it. What is said between master and process passes through unread. The kinds of frames are in
``crates/spark/src/serve.rs``.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

#: How a task ended: the process has answered, has died, or cannot be had here.
ANSWERED, DIED, UNUSABLE = 0, 1, 2

#: How long a process that has closed its pipes may take to be gone.
_GONE_WITHIN_S = 10.0

#: A task's number, what messages call its worker, where it ran, how it ended, and what was said.
Answer = Tuple[int, str, str, int, bytes]


class _Unusable(Exception):
    """There can be no process here; says why."""


class _Process:
    """The process beside this Python worker that works for one master."""

    def __init__(self, executable: str, setup: bytes, folder: str) -> None:
        environment = dict(os.environ)
        environment["QJAM_SPARK_WORKER"] = "%d:%s" % (os.getpid(), folder)
        # Functions in Python run where Spark's own do.
        environment["QJAM_PYTHON"] = sys.executable
        environment["PYTHONPATH"] = os.pathsep.join(part for part in sys.path if part)
        self.round: Optional[int] = None
        try:
            os.makedirs(folder, exist_ok=True)
            self.child = subprocess.Popen(
                [executable], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
            )
        except OSError as error:
            here = os.uname().machine
            raise _Unusable(
                f"the worker of qjam cannot be started on {socket.gethostname()} ({here}): {error}; executors must have the kind of "
                "processor that the driver has, and folders (spark.local.dir) in which programs may run"
            ) from None
        try:
            self._frame(b"S", setup)
        except OSError:
            raise _Unusable(
                f"the worker of qjam {self.death()} on {socket.gethostname()} before it had a task; what it said is in the log of "
                "its executor"
            ) from None

    def _frame(self, letter: bytes, *parts: bytes) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(letter + struct.pack("<Q", sum(map(len, parts))))
        for part in parts:
            self.child.stdin.write(part)
        self.child.stdin.flush()

    def _read(self, count: int) -> bytes:
        assert self.child.stdout is not None
        read = self.child.stdout.read(count)
        if len(read) != count:
            raise EOFError
        return read

    def ask(self, number: int, order: bytes, request: bytes, supply: bytes) -> bytes:
        """What the process says to a task of a round."""
        if self.round != number:
            self._frame(b"O", order)
            self.round = number
        self._frame(b"T", struct.pack("<Q", len(request)), request, supply)
        return self._read(struct.unpack("<Q", self._read(8))[0])

    def end(self) -> None:
        """Ends the process."""
        self.child.kill()
        self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout):
            try:
                assert pipe is not None
                pipe.close()
            except OSError:
                pass

    def death(self) -> str:
        """How it died that has closed its pipes."""
        ends_by = time.monotonic() + _GONE_WITHIN_S
        while self.child.poll() is None and time.monotonic() < ends_by:
            time.sleep(0.01)
        code = self.child.poll()
        self.end()
        if code is None:
            return "closed its pipes"
        if code < 0:
            try:
                return f"was killed by signal {-code} ({signal.Signals(-code).name})"
            except ValueError:
                return f"was killed by signal {-code}"
        return f"ended with exit code {code}"


#: The process of this Python worker, by its master.
_processes: Dict[str, _Process] = {}


def answers(
    numbers: Iterable[Tuple[int, bytes]], master: str, round_number: int, executable: str, setup: Any, order: Any, supply: Any
) -> Iterator[Answer]:
    """Runs tasks; ``setup``, ``order`` and ``supply`` are broadcast variables, the last one perhaps None."""
    worker, place = _here()
    body, requests = order.value
    for number, _ in numbers:
        request, own = requests[number]
        how, said = _answer(master, round_number, executable, setup, body, request, own if supply is None else supply.value)
        yield number, worker, place, how, said


def _answer(
    master: str, round_number: int, executable: str, setup: Any, order: bytes, request: bytes, supply: bytes
) -> Tuple[int, bytes]:
    from pyspark import SparkFiles  # pyright: ignore[reportMissingImports]

    end(master)
    process = _processes.get(master)
    if process is not None and process.child.poll() is not None:
        # Something else has ended it meanwhile.
        del _processes[master]
        process.end()
        process = None
    try:
        if process is None:
            folder = os.path.join(os.path.abspath(SparkFiles.getRootDirectory()), "qjam-chunks")
            process = _Process(os.path.abspath(SparkFiles.get(executable)), setup.value, folder)
            _processes[master] = process
        return ANSWERED, process.ask(round_number, order, request, supply)
    except _Unusable as error:
        return UNUSABLE, str(error).encode("utf-8", "replace")
    except (EOFError, OSError):
        gone = _processes.pop(master, process)
        return DIED, (gone.death() if gone is not None else "was not started").encode("utf-8", "replace")
    except BaseException:
        # What it would say next belongs to a task that nobody waits for.
        gone = _processes.pop(master, None)
        if gone is not None:
            gone.end()
        raise


def end(keep: Optional[str] = None) -> None:
    """Ends the processes of this Python worker, but for those of one master."""
    for master in [master for master in _processes if master != keep]:
        _processes.pop(master).end()


def _here() -> Tuple[str, str]:
    """What messages call this worker, and what Spark calls its executor when tasks are placed; empty where it is not known."""
    pid = os.getppid()
    for _ in range(6):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words: List[bytes] = file.read().split(b"\0")
            with open(f"/proc/{pid}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
        if b"--executor-id" in words and b"--hostname" in words:
            number = words[words.index(b"--executor-id") + 1].decode()
            host = words[words.index(b"--hostname") + 1].decode()
            return f"{host}/{number}", f"executor_{host}_{number}"
        pid = parent
    return socket.gethostname(), ""
