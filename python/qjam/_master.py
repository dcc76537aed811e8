"""The master: what users hold in their hands.

Everything with a decision in it is native. Here functions and objects are made ready to travel, values are put together
again, and what there is to tell is told.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections import OrderedDict
from math import isnan
from typing import Any, Callable, Dict, Generic, List, Optional, Tuple, TypeVar, Union

from . import _native
from ._code import pickle_params, prepare, support
from ._host import enter, leave
from ._progress import Line, Progress, deliver, line_for, warn
from ._report import Entry, RoundReport, Worker
from ._worker.values import load
from ._workers import WorkersLike, remote_python, worker_string
from .dataset import as_dataset
from .errors import Cancelled, DataError, TimedOut

__all__ = ["Held", "Master", "Pending"]

OnRound = Callable[[RoundReport], object]
S = TypeVar("S")

#: Masters that have not been closed, so that nothing is left when the interpreter ends.
_open: weakref.WeakSet[Master] = weakref.WeakSet()
#: Functions whose code the native part knows, the latest last.
_codes: OrderedDict[int, Tuple[Any, _native.Code, bytes]] = OrderedDict()
_codes_lock = threading.Lock()
_CODES_MAX = 64
_CODE_BYTES_MAX = 1 << 20


def _code_of(prepared: Any) -> Tuple[Any, _native.Code, bytes]:
    """A prepared function with its code and the name of that."""
    found = _codes.get(id(prepared))
    if found is not None and found[0] is prepared:
        return found
    code = _native.Code(prepared.blob, prepared.name)
    entry = (prepared, code, code.id)
    if len(prepared.blob) > _CODE_BYTES_MAX:
        return entry  # data came along, which is not kept here
    with _codes_lock:
        _codes[id(prepared)] = entry
        while len(_codes) > _CODES_MAX:
            _codes.popitem(last=False)
    return entry


def _seconds(timeout: Optional[float]) -> Optional[float]:
    if timeout is None:
        return None
    seconds = float(timeout)
    if isnan(seconds) or seconds < 0:
        raise ValueError(f"a timeout is a number of seconds, 0 or more; not {timeout!r}")
    return seconds


class Master:
    """Runs functions over data sets on workers, and combines the results.

    ``workers`` is a string: ``"local:4"`` (four interpreters on this machine), ``"proc:4"``, ``"ann@big*8,small"`` (over
    ssh), ``"@hosts.txt"``, ``"auto"`` (as many as pay), ``"inproc:4"`` (threads of this process, for functions that
    release the interpreter); or a list of :class:`RemoteWorker`. Without it there is a worker for every core.

    >>> from qjam import Master
    >>> def squares(params, chunk):
    ...     return sum(params * x * x for x in chunk)
    >>> with Master("local:2") as m:
    ...     m.run(squares, 3, [1, 2, 3, 4])
    90

    Results have the same bits whatever the workers are. ``close``, or the end of the ``with`` block or of the program, ends
    all workers. Several threads may use one master; a forked process may not.

    :param seed: what ``qjam.context().rng()`` is keyed by, with round and chunk.
    :param memory_limit: most bytes that one worker may take.
    :param cache_limit: most bytes of opened chunks that one worker keeps.
    :param disk_limit: most bytes of the cache on a host's disk.
    :param min_workers: go on with this many if others cannot be had.
    :param round_timeout: most seconds that any round may take.
    :param resume: go on from an earlier run: its name, ``"last"`` or ``True`` for the last run of this program.
    :param resume_anyway: … although the program has changed since.
    :param run_folder: where the run file goes; ``False`` for none.
    :param progress: a line with rounds and workers: ``None`` where somebody looks, ``True``, ``False``, or something with
        ``update(1)``.
    :param on_round: called with the :class:`RoundReport` of every round.
    :param balance: whether slow workers are helped.
    :param blocks_per_slot: into how many pieces the work of a slot is cut.
    :param deliver_after: most seconds that a worker keeps finished work to itself.
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
            "round_timeout": _seconds(round_timeout),
            "balance": bool(balance),
            "blocks_per_slot": blocks_per_slot,
            "deliver_after": _seconds(deliver_after),
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
        options["program"] = (sys.executable or "python3", _arguments(), _native.__file__)
        if has_processes or has_hosts:
            options.update(_for_processes(path, modules))
        options = {name: value for name, value in options.items() if value is not None}
        self._line = line_for(progress, self._count)
        self._tick = _ticking(self._line)
        self._on_round = on_round
        self._in_process = in_process
        self._lost = 0
        self._text = workers if isinstance(workers, str) else text
        # Other processes on this machine must be able to map the data.
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

        ``function`` is a function, a lambda, or a module with ``mapfunc`` and, if it likes, ``reduce``. Without a ``reduce``
        numbers and arrays are added, lists and tuples element by element. Without a data set it is called once for every
        slot of every worker, with ``[]``.

        What it raises is raised here, from a :class:`RemoteError` that says where it happened. ``timeout`` is in seconds;
        the round is cancelled and :class:`TimedOut` raised. So it is on Ctrl-C, and the master can be used again.

        >>> import numpy as np
        >>> from qjam import Master
        >>> with Master("local:2") as m:
        ...     m.run(lambda params, chunk: chunk.sum(axis=0), None, np.arange(10.0).reshape(5, 2))
        ...     m.run(lambda params, chunk: 42)
        array([20., 25.])
        84
        """
        # Parameters and data first: with them it is known which modules must go along.
        stream, buffers = pickle_params(params)
        made = None if dataset is None else as_dataset(dataset)
        data = None if made is None else made._native_data()
        prepared, code, name = _code_of(prepare(function))
        line, tick = self._line, self._tick
        if progress is not None:
            line = line_for(progress, self._count)
            tick = _ticking(line)
        if line is not None:
            line.begin()
        if self._has_hosts:
            self._native.python_ready(list(prepared.needs), tick)
        enter(name, prepared)
        try:
            parts = self._native.run(
                code, stream, buffers, data, self._shares, None if timeout is None else _seconds(timeout), tick
            )
        finally:
            leave(name)
            deliver(line)
        self._told(line, on_round)
        if progress is not None and line is not None:
            line.close()
        return load(parts)

    def submit(self, function: Any, params: Any = None, dataset: Any = None) -> Pending:
        """Begins a round and returns at once; the :class:`Pending` gives its value.

        >>> from qjam import Master
        >>> with Master("local:2") as m:
        ...     rounds = [m.submit(lambda p, chunk: p * sum(chunk), p, range(10)) for p in (1, 2, 3)]
        ...     [r.result() for r in rounds]
        [45, 90, 135]
        """
        stream, buffers = pickle_params(params)
        made = None if dataset is None else as_dataset(dataset)
        data = None if made is None else made._native_data()
        entry = _code_of(prepare(function))
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
        """Has workers make a state for every chunk with ``init(chunk)`` and keep it between rounds.

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
            raise TypeError(f"init is a function of a chunk; not {type(init).__name__}")
        made = as_dataset(dataset)
        data = None if made is None else made._native_data()
        return Held(self, init, made, data, self._native.hold(data, self._shares, self._tick))

    def _told(self, line: Optional[Line], on_round: Optional[OnRound]) -> None:
        """A round is over."""
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
        """Who works for this master now."""
        return [Worker(name, slots, pid, remote) for name, pid, remote, slots in self._native.workers()]

    def _count(self) -> int:
        if not hasattr(self, "_native"):
            # Still being made, and somebody looks on.
            return 0
        return sum(slots for _, _, _, slots in self._native.workers())

    def add_workers(self, workers: WorkersLike) -> None:
        """Takes on more workers, which the next rounds use; the results are the same."""
        text, in_process = worker_string(workers)
        if in_process != self._in_process:
            raise ValueError("whether functions run in this process is said when a master is made")
        _, has_processes, has_hosts = _native.worker_kinds(text)
        self._shares = self._shares or has_processes
        self._has_hosts = self._has_hosts or has_hosts
        try:
            self._native.add_workers(text, self._tick)
        finally:
            deliver(self._line)

    def remove_worker(self, name: str) -> bool:
        """Sends a worker away, by its name. Says whether there was one."""
        return self._native.remove_worker(name, self._tick)

    # ---- what is known ------------------------------------------------------------------------------------------

    @property
    def last_round(self) -> Optional[RoundReport]:
        """Where the time of the last finished round went."""
        parts = self._native.last_round()
        return None if parts is None else RoundReport._of(parts)

    @property
    def journal(self) -> List[Entry]:
        """What happened so far: workers that came and went, rounds, retries."""
        return [Entry(*entry) for entry in self._native.journal()]

    def explain(self) -> str:
        """With ``auto`` workers: what is known of each kind of work, and how many workers follow from it."""
        return "\n".join(self._native.explain())

    # ---- the end ------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether its workers have been ended."""
        return self._native.closed

    def close(self) -> None:
        """Ends all workers. Rounds that are not over are cancelled. A second time does nothing."""
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


def _arguments() -> List[str]:
    """How this program is started again, without the interpreter."""
    original: Optional[List[str]] = getattr(sys, "orig_argv", None)
    return list(original[1:]) if original else list(sys.argv)


def _for_processes(path: List[str], modules: bytes) -> Dict[str, Any]:
    """What workers outside of this process need."""
    from ._find import worker

    return {
        "worker_executable": worker(),
        "support": modules,
        "interpreter": (sys.executable or "python3", path),
    }


def _ticking(line: Optional[Line]) -> Callable[[], None]:
    """What is done now and then while somebody waits."""
    if line is None:
        return deliver

    def tick() -> None:
        deliver(line)
        line.tick()

    return tick


class Pending:
    """A round that was submitted. Dropping it without waiting cancels it."""

    __slots__ = ("_error", "_left", "_master", "_name", "_native", "_parts", "_value")

    def __init__(self, native: _native.Pending, name: bytes, master: Master) -> None:
        self._native = native
        self._name = name
        self._master = master
        self._left = False
        self._parts: Optional[Tuple[Any, ...]] = None
        self._value: List[Any] = []
        self._error: Optional[BaseException] = None

    def _leave(self) -> None:
        if not self._left:
            self._left = True
            leave(self._name)

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until the round is over, at most so many seconds; says whether it is."""
        if self._parts is not None or self._value or self._error is not None:
            return True
        try:
            parts = self._native.wait(_seconds(timeout), self._master._tick)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self._error = error
            self._leave()
            return True
        finally:
            deliver(self._master._line)
        if parts is None:
            return False
        self._parts = parts
        self._leave()
        self._master._told(self._master._line, None)
        return True

    def result(self, timeout: Optional[float] = None) -> Any:
        """Waits for the value. When time is up, :class:`TimedOut` is raised and the round goes on."""
        if not self.wait(timeout):
            raise TimedOut(f"the round is not over after {timeout} s; it goes on")
        if self._error is not None:
            raise self._error
        if not self._value:
            self._value.append(load(self._parts))
            self._parts = None
        return self._value[0]

    def done(self) -> bool:
        """Whether a value or an error is there."""
        return self._left or self._native.done()

    def cancel(self) -> None:
        """Gives the round up, unless it is over."""
        if not self._left:
            self._native.cancel()
            self._error = Cancelled("the round was cancelled")
            self._leave()

    @property
    def report(self) -> Optional[RoundReport]:
        """Where the time went, once the round was waited for."""
        parts = self._native.report()
        return None if parts is None else RoundReport._of(parts)

    def __del__(self) -> None:
        if hasattr(self, "_left"):
            self._leave()

    def __repr__(self) -> str:
        return f"<Pending, {'done' if self.done() else 'running'}>"


class Held(Generic[S]):
    """States that stay with the chunks of a data set, on the workers that have them. Made by :meth:`Master.hold`.

    A state that is lost with its worker is made again elsewhere, with the same bits. What a step changed counts only if
    its round has a value.
    """

    __slots__ = ("_data", "_init", "_master", "_native", "_set")

    def __init__(
        self, master: Master, init: Callable[[Any], S], made: Any, data: Any, native: _native.Held
    ) -> None:
        self._master = master
        self._init = init
        self._set = made  # keeps the user's memory alive
        self._data = data
        self._native = native

    def _must_be_unchanged(self) -> None:
        if self._data is not None and self._data.changed():
            raise DataError("the data set was changed after `hold`: the states belong to what it was; hold it again")

    def run(self, step: Any, params: Any = None, *, timeout: Optional[float] = None) -> Any:
        """Runs ``step(params, chunk, state)`` on every chunk, which changes the state in place, and combines the results."""
        master = self._master
        stream, buffers = pickle_params(params)
        prepared, code, name = _code_of(prepare(step, init=self._init))
        self._must_be_unchanged()
        line = master._line
        if line is not None:
            line.begin()
        if master._has_hosts:
            master._native.python_ready(list(prepared.needs), master._tick)
        enter(name, prepared)
        try:
            parts = self._native.run(code, stream, buffers, _seconds(timeout), master._tick)
        finally:
            leave(name)
            deliver(line)
        master._told(line, None)
        return load(parts)

    def submit(self, step: Any, params: Any = None) -> Pending:
        """Begins a round and returns at once. The next one can begin when it is over."""
        stream, buffers = pickle_params(params)
        prepared, code, name = _code_of(prepare(step, init=self._init))
        self._must_be_unchanged()
        if self._master._has_hosts:
            self._master._native.python_ready(list(prepared.needs), self._master._tick)
        enter(name, prepared)
        try:
            return Pending(self._native.submit(code, stream, buffers), name, self._master)
        except BaseException:
            leave(name)
            raise

    def collect(self) -> List[S]:
        """Brings all states home, in the order of the chunks."""
        import pickle

        states = self._native.collect(self._master._tick)
        if None in states:
            self.run(_nothing)  # nobody has asked for some of them yet: now they are made
            states = self._native.collect(self._master._tick)
        return [pickle.loads(state[0], buffers=state[1]) for state in states if state is not None]

    def checkpoint(self) -> None:
        """Makes a checkpoint now, besides those that are made when it is time."""
        self._native.checkpoint(self._master._tick)

    def release(self) -> None:
        """Has the workers drop the states."""
        self._native.release()

    def __len__(self) -> int:
        return len(self._native)

    def __enter__(self) -> Held[S]:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<Held, {len(self)} states>"


def _nothing(params: Any, chunk: Any, state: Any) -> int:
    return 0


# Hosts need not have qjam: it travels as if it were the user's.
_nothing.__module__ = "__main__"


@atexit.register
def _close_all() -> None:
    for master in list(_open):
        master.close()
