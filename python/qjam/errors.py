"""What can go wrong, as a small tree of exceptions.

Everything that qjam itself raises is a :class:`QjamError`. What your own function raises on a worker comes back as what
it was: the same class with the same arguments, raised *from* a :class:`RemoteError` that says where it happened.

    QjamError
    ├── RemoteError             your function failed on a worker: host, chunk, remote traceback, last printed lines
    │   └── WorkerDied          … by ending its interpreter: killed, os._exit, a segmentation fault, out of memory
    ├── RemoteWorkerError       workers could not be had or were lost
    │   ├── ConnectError        hosts could not be reached, each with the reason
    │   └── MissingPackages     … or have not got the interpreter or the packages that the code needs
    ├── TimedOut                (also a TimeoutError)
    ├── Cancelled
    ├── WorkerStringError       (also a ValueError)
    ├── DataError               (also a ValueError)
    ├── PicklingError           (also a TypeError): something cannot travel
    ├── DoesNotFit              (also a MemoryError)
    ├── MasterClosed            (also a RuntimeError)
    ├── Busy                    (also a RuntimeError)
    └── ResumeError

>>> from qjam import Master, WorkerStringError
>>> try:
...     Master("proc:two")
... except WorkerStringError as e:
...     print(e)
worker string `proc:two`, at `two`: not a number; write for example `proc:4`
"""

from __future__ import annotations

import pickle
from typing import Any, Dict, List, Mapping, Optional, Tuple

__all__ = [
    "Busy",
    "Cancelled",
    "ConnectError",
    "DataError",
    "DoesNotFit",
    "MasterClosed",
    "MissingPackages",
    "PicklingError",
    "QjamError",
    "RemoteError",
    "RemoteWorkerError",
    "ResumeError",
    "TimedOut",
    "WorkerDied",
    "WorkerStringError",
]


class QjamError(Exception):
    """What all errors of qjam have in common."""


class RemoteError(QjamError):
    """Your function failed on a worker.

    If its exception could be rebuilt here, that is what is raised, and this is its ``__cause__``. The text has the lines
    of your code as the worker saw them.

    >>> from qjam import Master
    >>> def inverse(params, chunk):
    ...     return 1 / 0
    >>> with Master("inproc:1") as m:
    ...     try:
    ...         m.run(inverse, None, [1])
    ...     except ZeroDivisionError as e:
    ...         print(e.__cause__.host, e.__cause__.chunk)
    local 0
    """

    #: The worker, by its name: ``big``, ``proc:3``; None if results were being combined on the master.
    host: Optional[str]
    #: The index of the chunk, where one is to blame.
    chunk: Optional[int]
    #: Its content hash.
    chunk_hash: Optional[str]
    #: The traceback there, as text.
    remote_traceback: str
    #: What the worker had printed last.
    last_lines: List[str]
    #: The name of the function.
    function: Optional[str]

    def __init__(
        self,
        message: str,
        host: Optional[str] = None,
        chunk: Optional[int] = None,
        chunk_hash: Optional[str] = None,
        remote_traceback: str = "",
        last_lines: Tuple[str, ...] = (),
        function: Optional[str] = None,
    ) -> None:
        super().__init__(message, host, chunk, chunk_hash, remote_traceback, tuple(last_lines), function)
        self.message = message
        self.host = host
        self.chunk = chunk
        self.chunk_hash = chunk_hash
        self.remote_traceback = remote_traceback
        self.last_lines = list(last_lines)
        self.function = function

    def __str__(self) -> str:
        where = f" on {self.host}" if self.host else " while the master combined results"
        if self.chunk is not None:
            where += f", chunk {self.chunk}"
            if self.chunk_hash:
                where += f" ({self.chunk_hash})"
        text = f"{self.function or 'the function'}{where}: {self.message}"
        if self.remote_traceback:
            text += "\n" + self.remote_traceback.rstrip("\n")
        if self.last_lines:
            text += "\nit had printed last:\n" + "\n".join(f"  | {line}" for line in self.last_lines)
        return text


class WorkerDied(RemoteError):
    """Your function ended the interpreter it ran in: killed, ``os._exit``, a segmentation fault, out of memory.

    The chunk was tried three times before this was raised. The master has started new interpreters and can be used.
    """


class RemoteWorkerError(QjamError):
    """Workers could not be started, or all of them were lost."""


class ConnectError(RemoteWorkerError):
    """Hosts could not be reached, or would not work.

    ``failures`` has the reason of each host.
    """

    failures: Dict[str, str]

    def __init__(self, message: str, failures: Optional[Mapping[str, str]] = None) -> None:
        super().__init__(message)
        self.failures = dict(failures or {})

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (str(self), self.failures)


class MissingPackages(RemoteWorkerError, ImportError):
    """Hosts lack a fitting interpreter, or packages that the function imports; the text is a table by host."""


class TimedOut(QjamError, TimeoutError):
    """A round took longer than it was allowed, and was cancelled."""


class Cancelled(QjamError):
    """A round was cancelled."""


class WorkerStringError(QjamError, ValueError):
    """A worker string makes no sense; says which part, and what to write instead."""


class DataError(QjamError, ValueError):
    """A data set could not be made or read."""


class PicklingError(QjamError, TypeError):
    """Something cannot travel to a worker; names the attribute that is to blame."""


class DoesNotFit(QjamError, MemoryError):
    """A round, or the states that workers keep, would not fit into memory; nothing of it was begun."""


class MasterClosed(QjamError, RuntimeError):
    """The master has been closed, or belongs to the process that this one was forked from."""


class Busy(QjamError, RuntimeError):
    """A round over held states was asked for while another one was not over."""


class ResumeError(QjamError):
    """The run to go on from cannot be used."""


_BY_KIND: Dict[str, type] = {
    "worker string": WorkerStringError,
    "data": DataError,
    "start": RemoteWorkerError,
    "no workers": RemoteWorkerError,
    "missing": MissingPackages,
    "cancelled": Cancelled,
    "timed out": TimedOut,
    "does not fit": DoesNotFit,
    "closed": MasterClosed,
    "busy": Busy,
    "resume": ResumeError,
}


def _from_native(kind: str, message: str, facts: Dict[str, Any]) -> BaseException:
    """The exception for an error of the native part, which calls this."""
    if kind == "hosts":
        return ConnectError(message, facts.get("failures"))
    if kind == "system":
        return QjamError(message)
    if kind not in ("fault", "poison"):
        return _instance(_BY_KIND.get(kind, QjamError), message)
    if kind == "poison" or facts.get("died"):
        return WorkerDied(message, **_where(facts))
    remote = RemoteError(message, **_where(facts))
    original = _rebuilt(facts.get("pickled") or b"")
    if original is None:
        return remote
    original.__cause__ = remote
    return original


def _instance(kind: type, message: str) -> BaseException:
    made = kind(message)
    assert isinstance(made, BaseException)
    return made


def _where(facts: Dict[str, Any]) -> Dict[str, Any]:
    names = ("host", "chunk", "chunk_hash", "remote_traceback", "last_lines", "function")
    return {name: facts[name] for name in names if name in facts}


def _rebuilt(pickled: bytes) -> Optional[Exception]:
    """The exception as the worker had it, if that is possible.

    What is no ordinary exception, ``SystemExit`` above all, must not end the program that asked for a result.
    """
    if not pickled:
        return None
    try:
        found = pickle.loads(pickled)
    except Exception:  # a class that cannot be imported or built here: the RemoteError says all there is to say
        return None
    return found if isinstance(found, Exception) else None
