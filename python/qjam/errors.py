"""The exceptions of qjam.

Everything that qjam itself raises is a :class:`QjamError`. An exception that your own function raises on a worker is raised here
with the same class and arguments, with a :class:`RemoteError` as its cause that says where it happened.

    QjamError
    ├── RemoteError             your function failed on a worker: host, chunk, remote traceback, last printed lines
    │   └── WorkerDied          … by ending its interpreter: killed, os._exit, a segmentation fault, out of memory
    ├── RemoteWorkerError       workers could not be started or were lost
    │   ├── ConnectError        hosts could not be reached, each with the reason
    │   └── MissingPackages     hosts lack the interpreter or the packages that the code needs
    ├── TimedOut                (also a TimeoutError)
    ├── Cancelled
    ├── WorkerStringError       (also a ValueError)
    ├── DataError               (also a ValueError)
    ├── PicklingError           (also a TypeError): something cannot be sent
    ├── RefusedResult           (also a TypeError): a host sent back something that could run code here
    ├── DoesNotFit              (also a MemoryError)
    ├── MasterClosed            (also a RuntimeError)
    ├── Released                (also a RuntimeError)
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
    "RefusedResult",
    "Released",
    "RemoteError",
    "RemoteWorkerError",
    "ResumeError",
    "TimedOut",
    "WorkerDied",
    "WorkerStringError",
]


class QjamError(Exception):
    """The base class of all errors of qjam."""


class RemoteError(QjamError):
    """Your function failed on a worker.

    If its exception can be rebuilt here, that exception is raised, and this one is its ``__cause__``. The text contains the
    remote traceback with the lines of your code.

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
    #: The index of the chunk, if the error belongs to one.
    chunk: Optional[int]
    #: Its content hash.
    chunk_hash: Optional[str]
    #: The traceback on the worker, as text.
    remote_traceback: str
    #: The last lines that the worker printed.
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
    """Your function ended its interpreter: killed, ``os._exit``, a segmentation fault, out of memory.

    The chunk was tried three times before this was raised. The master has started new interpreters and can be used.
    """


class RemoteWorkerError(QjamError):
    """Workers could not be started, or all of them were lost."""


class ConnectError(RemoteWorkerError):
    """Hosts could not be reached, or cannot be workers.

    ``failures`` contains the reason for each host.
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
    """A round took longer than its time limit."""


class Cancelled(QjamError):
    """A round was cancelled."""


class WorkerStringError(QjamError, ValueError):
    """A worker string is invalid. The message names the part, and what to write instead."""


class DataError(QjamError, ValueError):
    """A data set could not be created or read."""


class PicklingError(QjamError, TypeError):
    """Something cannot be sent to a worker. The message names the attribute."""


class RefusedResult(QjamError, TypeError):
    """A host sent back something that is neither a plain value nor an object of your classes. It was not read.

    See ``result_classes`` and ``hosts_may_run_code_here`` of :class:`Master`.
    """


class DoesNotFit(QjamError, MemoryError):
    """A round, or the states that workers keep, would not fit into memory. Nothing was started."""


class MasterClosed(QjamError, RuntimeError):
    """The master has been closed, or belongs to the process that this one was forked from."""


class Released(QjamError, RuntimeError):
    """States were used after :meth:`Held.release`. The master can be used."""


class Busy(QjamError, RuntimeError):
    """A round over held states was requested while another one was running."""


class ResumeError(QjamError):
    """The run to resume cannot be used."""


_BY_KIND: Dict[str, type] = {
    "worker string": WorkerStringError,
    "data": DataError,
    "start": RemoteWorkerError,
    "no workers": RemoteWorkerError,
    "missing": MissingPackages,
    "refused": RefusedResult,
    "cancelled": Cancelled,
    "timed out": TimedOut,
    "does not fit": DoesNotFit,
    "closed": MasterClosed,
    "released": Released,
    "busy": Busy,
    "resume": ResumeError,
}


def _from_native(kind: str, message: str, facts: Dict[str, Any]) -> BaseException:
    """The exception for an error of the native part, which calls this. Its texts can be shown on a terminal."""
    from ._native import printable

    message = printable(message)
    for name in ("host", "remote_traceback", "function"):
        if facts.get(name):
            facts[name] = printable(facts[name])
    if facts.get("last_lines"):
        facts["last_lines"] = tuple(printable(line) for line in facts["last_lines"])
    if kind == "hosts":
        return ConnectError(message, facts.get("failures"))
    if kind == "system":
        return QjamError(message)
    if kind not in ("fault", "poison"):
        return _instance(_BY_KIND.get(kind, QjamError), message)
    if kind == "poison" or facts.get("died"):
        return WorkerDied(message, **_where(facts))
    remote = RemoteError(message, **_where(facts))
    from ._reading import read_exception

    original = read_exception(facts.get("pickled") or b"")
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

