"""The argument ``workers`` of a master, and its conversion to a worker string."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple, Union

from . import _native
from .errors import WorkerStringError

if TYPE_CHECKING:
    from ._master import Master

__all__ = ["RemoteWorker", "WorkersLike", "worker_string"]


class RemoteWorker:
    """A worker on another host, reached by ``ssh``.

    ``host`` is written as for ``ssh``: ``big``, ``ann@big``, ``big:2222``. Without a user's name the environment variable
    ``QJAM_USER`` counts, then what ``ssh`` is set up for. Several of them may share a host. Nothing is connected before a
    master is made of them.

    >>> from qjam import RemoteWorker
    >>> RemoteWorker("ann@big")
    RemoteWorker('ann@big')
    """

    __slots__ = ("host", "slots")

    def __init__(self, host: str, *, slots: int = 1) -> None:
        if not isinstance(host, str):
            raise TypeError(f"a host is a string such as 'ann@big'; not {type(host).__name__}")
        if not host.strip():
            raise ValueError("the host is empty; write for example RemoteWorker('ann@big')")
        if isinstance(slots, bool) or not isinstance(slots, int):
            raise TypeError(f"slots is a number; not {type(slots).__name__}")
        if slots < 1:
            raise ValueError(f"a worker has at least one slot; not {slots}")
        self.host = host.strip()
        self.slots = slots

    def __repr__(self) -> str:
        return f"RemoteWorker({self.host!r})" if self.slots == 1 else f"RemoteWorker({self.host!r}, slots={self.slots})"


#: What ``Master(workers)`` may be given, and estimators: these may also be given a master.
WorkersLike = Union[None, str, List[RemoteWorker], "Master"]

_ENGINES = ("local", "proc", "auto", "inproc", "spark", "store")


def worker_string(workers: Any) -> Tuple[str, bool]:
    """The worker string as the native part reads it, and whether functions run in this process."""
    if workers is None:
        return "local", False
    if isinstance(workers, str):
        return _in_process(_without_names(workers))
    if not isinstance(workers, list):
        raise TypeError(
            "workers are a string such as 'local:4' or 'ann@big*8', or a list of RemoteWorker; "
            f"not {type(workers).__name__}"
        )
    if not workers:
        raise ValueError("the list of workers is empty; a master needs at least one")
    slots: Dict[str, int] = {}
    for n, worker in enumerate(workers):
        if not isinstance(worker, RemoteWorker):
            raise TypeError(f"workers[{n}] is not a RemoteWorker but {type(worker).__name__}")
        if "," in worker.host or "*" in worker.host:
            raise WorkerStringError(f"RemoteWorker({worker.host!r}): one host each, and slots apart from its name")
        slots[worker.host] = slots.get(worker.host, 0) + worker.slots
    return ",".join(f"{_as_host(host)}*{count}" for host, count in slots.items()), False


def _as_host(host: str) -> str:
    """The host as an item of a worker string; a host may have the name of an engine."""
    name = host.partition(":")[0]
    return f"ssh://{host}" if name in _ENGINES else host


def _without_names(text: str) -> str:
    """Names of clusters, which the user's configuration file has, stand for their workers."""
    found, wrong = _native.named_workers(text)
    if found is None:
        raise WorkerStringError(wrong or "the configuration file is wrong")
    return found


def _in_process(text: str) -> Tuple[str, bool]:
    """``inproc:4`` is ``local:4`` without child interpreters."""
    before, _, rest = text.strip().partition("auto:")
    chosen = before == "" and rest != ""
    items = [item.strip() for item in (rest if chosen else text).split(",")]
    inproc = [item for item in items if item == "inproc" or item.startswith("inproc:")]
    if not inproc:
        return text, False
    if len(items) > 1:
        raise WorkerStringError(
            f"worker string `{text}`, at `{inproc[0]}`: functions run in this process or on workers, not both; "
            "write for example `inproc:4` or `local:4`"
        )
    local = "local" + inproc[0][len("inproc") :]
    local = "auto:" + local if chosen else local
    try:
        _native.worker_kinds(local)
    except WorkerStringError as error:
        # In the user's words.
        said = str(error).replace(f"`{local}`", f"`{text.strip()}`").replace("local", "inproc")
        raise WorkerStringError(said) from None
    return local, True


def remote_python() -> Optional[str]:
    """What ``QJAM_REMOTE_PYTHON`` says."""
    return os.environ.get("QJAM_REMOTE_PYTHON") or None
