"""The class :class:`Master`.

Comes in: functions, parameters and data sets of the user. Goes out: their serialised forms to the native master, and values,
progress and log lines back to the user. Decides nothing: scheduling, retries and limits are native.
"""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar, Union

from . import _native
from ._code import pack_params, prepare, support
from ._held import Held
from ._interpreter import enter, leave
from ._pending import Pending
from ._progress import Line, Progress, deliver, line_for, warn
from ._ready import arguments, code_of, for_processes, seconds
from ._report import Entry, RoundReport, Worker
from ._worker.values import load
from ._workers import WorkersLike, remote_python, worker_string
from .dataset import as_dataset

__all__ = ["Master"]

OnRound = Callable[[RoundReport], object]
S = TypeVar("S")

#: Masters that have not been closed. They are closed when the interpreter ends.
_open: weakref.WeakSet[Master] = weakref.WeakSet()
class Master:
    """Runs functions over data sets on workers, and combines the results.

    ``workers`` is a worker string: ``"local:4"`` (four interpreters on this machine), ``"proc:4"``, ``"ann@big*8,small"``
    (over ssh), ``"@hosts.txt"``, ``"auto"`` (as many as pay off), ``"inproc:4"`` (threads of this process, for functions that
    release the interpreter lock); or a list of :class:`RemoteWorker`. The default is one worker per core.

    >>> from qjam import Master
    >>> def squares(params, chunk):
    ...     return sum(params * x * x for x in chunk)
    >>> with Master("local:2") as m:
    ...     m.run(squares, 3, [1, 2, 3, 4])
    90

    Results have the same bits on all workers. ``close``, or the end of the ``with`` block or of the program, ends all workers.
    Several threads may use one master; a forked process may not.

    :param seed: seed of the random numbers of ``qjam.context().rng()``, together with round and chunk.
    :param memory_limit: maximum bytes of memory of one worker.
    :param cache_limit: maximum bytes of opened chunks that one worker keeps.
    :param disk_limit: maximum bytes of the cache on a host's disk.
    :param min_workers: start with this many workers if others cannot be reached.
    :param round_timeout: maximum duration of any round in seconds.
    :param resume: continue an earlier run: its name, or ``"last"`` or ``True`` for the last run of this program.
    :param resume_anyway: resume even if the program has changed since.
    :param run_folder: folder for the run file; ``False`` writes none.
    :param progress: show a line with rounds and workers: ``True``, ``False``, ``None`` for only on a terminal or in a notebook,
        or an object with a method ``update(1)``.
    :param on_round: called with the :class:`RoundReport` of every round.
    :param balance: whether idle workers take over work of slow ones.
    :param blocks_per_slot: number of blocks into which the work of a slot is divided.
    :param deliver_after: maximum time in seconds that a worker keeps finished results before sending them.
    """

    __slots__ = (
        "__weakref__",
        "_has_hosts",
        "_in_process",
        "_line",
        "_lost",
        "_native",
        "_on_round",
        "_shares",
        "_text",
        "_tick",
    )

    def __init__(
        self,
        workers: WorkersLike = None,
        *,
        seed: int = 0,
        memory_limit: Optional[int] = None,
        cache_limit: Optional[int] = None,
        disk_limit: Optional[int] = None,
        min_workers: Optional[int] = None,
        round_timeout: Optional[float] = None,
        resume: Union[None, bool, str] = None,
        resume_anyway: bool = False,
        run_folder: Union[None, bool, str, os.PathLike[str]] = None,
        progress: Progress = None,
        on_round: Optional[OnRound] = None,
        balance: bool = True,
        blocks_per_slot: Optional[int] = None,
        deliver_after: Optional[float] = None,
    ) -> None:
        text, in_process = worker_string(workers)
        options: Dict[str, Any] = {
            "seed": seed,
            "memory_limit": memory_limit,
            "cache_limit": cache_limit,
            "disk_limit": disk_limit,
            "min_workers": min_workers,
            "round_timeout": seconds(round_timeout),
            "balance": bool(balance),
            "blocks_per_slot": blocks_per_slot,
            "deliver_after": seconds(deliver_after),
            "remote_python": remote_python(),
        }
        if resume:
            options["resume"] = "last" if resume is True else resume
        if resume_anyway:
            options["resume_anyway"] = True
        if run_folder is False:
            options["no_run_file"] = True
        elif run_folder is not None and run_folder is not True:
            options["run_folder"] = os.fspath(run_folder)
        _, has_processes, has_hosts = _native.worker_kinds(text)
        modules = support()
        path = [folder for folder in sys.path if folder]
        _native.set_up(sys.executable or "", path, modules)
        options["program"] = (sys.executable or "python3", arguments(), _native.__file__)
        if has_processes or has_hosts:
            options.update(for_processes(path, modules))
        options = {name: value for name, value in options.items() if value is not None}
        self._line = line_for(progress, _counting(self))
        self._tick = _ticking(self._line)
        self._on_round = on_round
        self._in_process = in_process
        self._lost = 0
        self._text = workers if isinstance(workers, str) else text
        # Worker processes on this machine must be able to map the data.
        self._shares = has_processes
        self._has_hosts = has_hosts
        try:
            self._native = _native.Master(text, in_process, options, self._tick)
        finally:
            deliver()
        _open.add(self)

    # ---- rounds -------------------------------------------------------------------------------------------------

    def run(
        self,
        function: Any,
        params: Any = None,
        dataset: Any = None,
        *,
        timeout: Optional[float] = None,
        on_round: Optional[OnRound] = None,
        progress: Progress = None,
    ) -> Any:
        """Runs ``function(params, chunk)`` on every chunk of a data set and combines the results.

        ``function`` is a function, a lambda, or a module with ``mapfunc`` and optionally ``reduce``. Without a ``reduce``,
        numbers and arrays are added, lists and tuples element by element. Without a data set, the function is called once for
        every slot of every worker, with ``[]``.

        An exception in the function is raised here, with a :class:`RemoteError` as its cause that says where it happened.
        After ``timeout`` seconds the round is cancelled and :class:`TimedOut` is raised. Ctrl-C also cancels the round. The
        master can be used again afterwards.

        >>> import numpy as np
        >>> from qjam import Master
        >>> with Master("local:2") as m:
        ...     m.run(lambda params, chunk: chunk.sum(axis=0), None, np.arange(10.0).reshape(5, 2))
        ...     m.run(lambda params, chunk: 42)
        array([20., 25.])
        84
        """
        # Parameters and data first: they determine which modules must be sent.
        stream, buffers = pack_params(params)
        made = None if dataset is None else as_dataset(dataset)
        data = None if made is None else made._native_data()
        prepared, code, name = code_of(prepare(function))
        line, tick = self._line, self._tick
        if progress is not None:
            line = line_for(progress, _counting(self))
            tick = _ticking(line)
        if line is not None:
            line.begin()
        if self._has_hosts:
            self._native.python_ready(list(prepared.needs), tick)
        enter(name, prepared)
        try:
            parts = self._native.run(
                code, stream, buffers, data, self._shares, None if timeout is None else seconds(timeout), tick
            )
        finally:
            leave(name)
            deliver(line)
        self._told(line, on_round)
        if progress is not None and line is not None:
            line.close()
        return load(parts)

    def submit(self, function: Any, params: Any = None, dataset: Any = None) -> Pending:
        """Starts a round and returns immediately; the :class:`Pending` gives its value.

        >>> from qjam import Master
        >>> with Master("local:2") as m:
        ...     rounds = [m.submit(lambda p, chunk: p * sum(chunk), p, range(10)) for p in (1, 2, 3)]
        ...     [r.result() for r in rounds]
        [45, 90, 135]
        """
        stream, buffers = pack_params(params)
        made = None if dataset is None else as_dataset(dataset)
        data = None if made is None else made._native_data()
        entry = code_of(prepare(function))
        if self._has_hosts:
            self._native.python_ready(list(entry[0].needs), self._tick)
        enter(entry[2], entry[0])
        try:
            pending = self._native.submit(entry[1], stream, buffers, data, self._shares)
        except BaseException:
            leave(entry[2])
            raise
        return Pending(pending, entry[2], self)

    def hold(self, init: Callable[[Any], S], dataset: Any) -> Held[S]:
        """Creates a state for every chunk with ``init(chunk)`` on the workers, which keep it between rounds.

        >>> from qjam import Master
        >>> def count(params, chunk, state):
        ...     state["rounds"] += params
        ...     return state["rounds"]
        >>> with Master("local:2") as m:
        ...     held = m.hold(lambda chunk: {"rounds": 0}, ["a", "b"])
        ...     held.run(count, 5), held.run(count, 1)
        ...     held.collect()
        (10, 12)
        [{'rounds': 6}, {'rounds': 6}]
        """
        if not callable(init):
            raise TypeError(f"init must be a function of a chunk, not {type(init).__name__}")
        made = as_dataset(dataset)
        data = None if made is None else made._native_data()
        return Held(self, init, made, data, self._native.hold(data, self._shares, self._tick))

    def _told(self, line: Optional[Line], on_round: Optional[OnRound]) -> None:
        """Reports the end of a round: losses, progress, callbacks."""
        lost = self._native.lost
        if lost != self._lost:
            self._tell_losses(lost)
        if line is not None:
            line.lost = lost
            line.end()
        if on_round is not None or self._on_round is not None:
            report = self.last_round
            assert report is not None
            for tell in (self._on_round, on_round):
                if tell is not None:
                    tell(report)

    def _tell_losses(self, lost: int) -> None:
        losses = [entry.text for entry in self.journal if entry.kind == "worker lost"]
        for text in losses[self._lost :]:
            warn(f"lost worker {text}")
        self._lost = max(lost, len(losses))

    # ---- workers ------------------------------------------------------------------------------------------------

    @property
    def workers(self) -> List[Worker]:
        """The workers that this master has now."""
        return [Worker(name, slots, pid, remote) for name, pid, remote, slots in self._native.workers()]

    def _count(self) -> int:
        if not hasattr(self, "_native"):
            # Called while the master is still being created.
            return 0
        return sum(slots for _, _, _, slots in self._native.workers())

    def add_workers(self, workers: WorkersLike) -> None:
        """Adds workers for the next rounds. Results do not change."""
        text, in_process = worker_string(workers)
        if in_process != self._in_process:
            raise ValueError("whether functions run in this process is decided when a master is created")
        _, has_processes, has_hosts = _native.worker_kinds(text)
        self._shares = self._shares or has_processes
        self._has_hosts = self._has_hosts or has_hosts
        try:
            self._native.add_workers(text, self._tick)
        finally:
            deliver(self._line)

    def remove_worker(self, name: str) -> bool:
        """Removes a worker by its name. Returns whether it existed."""
        return self._native.remove_worker(name, self._tick)

    # ---- reports -----------------------------------------------------------------------------------------------

    @property
    def last_round(self) -> Optional[RoundReport]:
        """Where the time of the last finished round went."""
        parts = self._native.last_round()
        return None if parts is None else RoundReport._of(parts)

    @property
    def journal(self) -> List[Entry]:
        """The events so far: workers added and lost, rounds, retries."""
        return [Entry(*entry) for entry in self._native.journal()]

    def explain(self) -> str:
        """With ``auto`` workers: the measurements of each kind of work, and the number of workers chosen."""
        return "\n".join(self._native.explain())

    # ---- the end ------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether its workers have been ended."""
        return self._native.closed

    def close(self) -> None:
        """Ends all workers and cancels pending rounds. Calling it again does nothing."""
        _open.discard(self)
        if self._native.closed:
            return
        if self._line is not None and not self._native.elsewhere:
            self._line.close()
        self._native.close()
        deliver()

    def __enter__(self) -> Master:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Master({self._text!r}{', closed' if self.closed else ''})"

    def __reduce__(self) -> Tuple[Any, ...]:
        raise TypeError("a master cannot be pickled: it stays in the process that made it")


def _counting(master: Master) -> Callable[[], int]:
    """A function that returns the number of workers, without keeping the master alive."""
    known = weakref.ref(master)

    def count() -> int:
        alive = known()
        return 0 if alive is None else alive._count()

    return count


def _ticking(line: Optional[Line]) -> Callable[[], None]:
    """The function that is called periodically while the caller waits."""
    if line is None:
        return deliver

    def tick() -> None:
        deliver(line)
        line.tick()

    return tick


@atexit.register
def _close_all() -> None:
    for master in list(_open):
        master.close()
