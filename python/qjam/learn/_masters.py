"""Masters that estimators share.

A grid search makes hundreds of estimators; each with workers of its own would spend its time starting them, and would
send the data to each. So estimators with the same ``workers`` share one master as long as this process lives. Its workers
know data by its content: what was sent for one candidate is not sent for the next.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from functools import lru_cache
from typing import Any, Callable, Dict, Optional, TypeVar

from .. import _native
from .._master import Master
from .._progress import deliver
from .._workers import WorkersLike, worker_string

__all__ = ["close_workers", "doing", "kept", "master_for", "shares", "soonest"]

R = TypeVar("R")

_masters: Dict[str, Master] = {}
#: Rows that processes of this machine have seen, by content, those used last at the end.
_rows: OrderedDict[str, _native.Rows] = OrderedDict()
_lock = threading.Lock()

#: Rows of more bytes lie in the user's own memory, which is not ours to keep.
_KEPT_BYTES_MAX = 64 << 20
_KEPT_TOTAL_BYTES_MAX = 512 << 20


def _forget() -> None:
    """A forked process begins with none: what it has are copies of its parent's, which cannot be used here."""
    global _masters, _lock
    _masters, _lock = {}, threading.Lock()
    _rows.clear()


os.register_at_fork(after_in_child=_forget)


def _cores() -> int:
    """As many as there are for this process, or fewer where ``OMP_NUM_THREADS`` says so, as joblib does in its processes."""
    cores = len(os.sched_getaffinity(0))
    try:
        wanted = int(os.environ.get("OMP_NUM_THREADS", ""))
    except ValueError:
        return cores
    return max(1, min(cores, wanted))


def _text(workers: Any) -> str:
    if isinstance(workers, Master):
        workers = workers._text
    if workers is None:
        return f"local:{_cores()}"
    # Learners are native: what runs in this process and what runs in interpreters is the same to them.
    return worker_string(workers)[0]


def master_for(workers: WorkersLike) -> Master:
    """The master of all estimators with these workers, made when first asked for; or the one that was passed as workers."""
    if isinstance(workers, Master):
        return workers
    text = _text(workers)
    with _lock:
        master = _masters.get(text)
        if master is None or master.closed:
            master = Master(text, progress=False, run_folder=False)
            _masters[text] = master
        return master


def soonest(workers: WorkersLike) -> WorkersLike:
    """Who computes where rounds are short and many: the calling thread itself as long as that is sooner, unless workers are named."""
    return f"auto:local:{_cores()}" if workers is None else workers


def doing(workers: WorkersLike, work: Callable[[_native.Master, Callable[[], object]], R]) -> R:
    """Has something done by the master of these workers, and tells what there is to tell."""
    master = master_for(workers)
    try:
        return work(master._native, master._tick)
    finally:
        deliver()


def kept(workers: WorkersLike, rows: _native.Rows) -> _native.Rows:
    """The same rows in memory that worker processes have open already, if there are any.

    A grid search fits a fold again and again, each time as a new array with the same content.
    """
    if not shares(workers) or rows.nbytes > _KEPT_BYTES_MAX:
        return rows
    with _lock:
        known = _rows.setdefault(rows.id, rows)
        _rows.move_to_end(rows.id)
        total = sum(one.nbytes for one in _rows.values())
        while total > _KEPT_TOTAL_BYTES_MAX:
            total -= _rows.popitem(last=False)[1].nbytes
        return known


def shares(workers: WorkersLike) -> bool:
    """Whether data must be where other processes of this machine can see it."""
    return _shares(_text(workers))


@lru_cache(maxsize=64)
def _shares(text: str) -> bool:
    return _native.worker_kinds(text)[1]


def close_workers(workers: Optional[WorkersLike] = None) -> None:
    """Ends the workers that estimators share: all of them, or those of one worker string or of one master.

    They end with the program anyway; until then, workers on other machines stay connected. An estimator that is used
    again starts them again.

    >>> from qjam.learn import close_workers
    >>> close_workers()
    """
    if isinstance(workers, Master):
        workers.close()
        return
    with _lock:
        names = list(_masters) if workers is None else [_text(workers)]
        closing = [_masters.pop(name) for name in names if name in _masters]
        _rows.clear()
    for master in closing:
        master.close()
