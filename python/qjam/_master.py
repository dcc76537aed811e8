"""The class :class:`Master`.

Comes in: functions, parameters and data sets of the user. Goes out: their serialised forms to the native master, and values,
progress and log lines back to the user. Decides nothing: scheduling, retries and limits are native.
"""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from types import TracebackType
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple, Type, TypeVar, Union

from . import _native
from ._code import pack_params, prepare, support
from ._ending import failure, uncaught
from ._held import Held
from ._interpreter import enter, leave
from ._pending import Pending
from ._progress import Line, Progress, deliver, line_for, warn
from ._reading import Reader, extra_classes
from ._ready import NOT_GIVEN, arguments, byte_count, code_of, for_processes, given, seconds, thread_count
from ._report import Entry, RoundReport, Worker
from ._steps import Loop, Steps
from ._workers import WorkersLike, remote_python, worker_string
from .dataset import as_dataset
from .dataset.derived import data_of, over
from .errors import RemoteWorkerError

__all__ = ["Master"]

OnRound = Callable[[RoundReport], object]
#: Combines two results.
Reduce = Callable[[Any, Any], Any]
S = TypeVar("S")

#: Who reads the data of a round: whoever gets it from this process, its interpreters alone, or workers that are processes of this
#: machine. Defined in ``crates/py/src/data.rs``.
_ANYBODY, _INTERPRETERS, _PROCESSES = 0, 1, 2

#: Masters that have not been closed. They are closed when the interpreter ends.
_open: weakref.WeakSet[Master] = weakref.WeakSet()


class Master:
    """Runs functions over data sets on workers, and combines the results.

    ``workers`` is a worker string: ``"local:4"`` (four interpreters on this machine), ``"proc:4"``, ``"ann@big*8,small"``
    (over ssh), ``"@hosts.txt"``, ``"store:file:///mnt/share"`` (whoever serves that folder), ``"auto"`` (as many as pay off),
    ``"inproc:4"`` (threads of this process, for functions that release the interpreter lock); a name of a cluster in your
    configuration file (``qjam config set clusters.lab 'big*8,small'``, then ``"lab"``); or a list of
    :class:`RemoteWorker`. The default is one worker per core.

    >>> from qjam import Master
    >>> def squares(params, chunk):
    ...     return sum(params * x * x for x in chunk)
    >>> with Master("local:2") as m:
    ...     m.run(squares, 3, [1, 2, 3, 4])
    90

    Results have the same bits on all workers. ``close``, or the end of the ``with`` block or of the program, ends all workers.
    Several threads may use one master; a forked process may not.

    :param seed: seed of the random numbers of ``qjam.context().rng()``, together with step and chunk: see :meth:`loop`.
    :param library_threads: threads that NumPy's linear algebra and other libraries use in each interpreter: a number, or
        ``"share"`` for the slot's share of the cores, with which bits may depend on the number of workers. Environment
        variables such as ``OMP_NUM_THREADS`` that are set where a worker runs come first. ``inproc`` workers use the
        threads of this process.
    :param memory_limit: maximum bytes of memory of one worker; this and the other limits may be texts such as ``"500M"``.
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
    :param dashboard: serve a page about the run while it goes on, for a browser on this machine; :attr:`dashboard` is its link.
    :param balance: whether idle workers take over work of slow ones.
    :param blocks_per_slot: number of blocks into which the work of a slot is divided.
    :param deliver_after: maximum time in seconds that a worker keeps finished results before sending them.
    :param result_classes: classes of installed packages that hosts may send back, or functions that rebuild such objects, or names
        of packages. Numbers, arrays, texts, containers, tables and objects of your own classes need not be named.
    :param spark: a SparkContext, a SparkSession, or the address of a cluster (``"spark://host:7077"``, ``"local[2]"``), instead of
        ``workers``: rounds are jobs of Spark, and nothing is installed on its executors. PySpark is only needed for this.
    :param hosts_may_run_code_here: read whatever hosts send back. Then each of them can run any program on this machine, as
        you. Without it, what is not known as plain data raises :class:`RefusedResult`.
    """

    __slots__ = (
        "__weakref__",
        "_dashboard",
        "_has_hosts",
        "_in_process",
        "_line",
        "_lost",
        "_native",
        "_on_round",
        "_compared",
        "_reader",
        "_reads",
        "_spark",
        "_steps",
        "_text",
        "_tick",
    )

    def __init__(
        self,
        workers: WorkersLike = None,
        *,
        spark: Any = None,
        seed: int = 0,
        library_threads: Union[int, str] = 1,
        memory_limit: Union[None, int, str] = None,
        cache_limit: Union[None, int, str] = None,
        disk_limit: Union[None, int, str] = None,
        min_workers: Optional[int] = None,
        round_timeout: Optional[float] = None,
        resume: Union[None, bool, str] = None,
        resume_anyway: bool = False,
        run_folder: Union[None, bool, str, os.PathLike[str]] = None,
        progress: Progress = None,
        on_round: Optional[OnRound] = None,
        dashboard: bool = False,
        balance: bool = True,
        blocks_per_slot: Optional[int] = None,
        deliver_after: Optional[float] = None,
        result_classes: Optional[Iterable[Any]] = None,
        hosts_may_run_code_here: bool = False,
    ) -> None:
        if spark is not None and workers is not None:
            raise TypeError(f"a master works on Spark or on workers, not both; workers is {workers!r}, and spark is given")
        text, in_process = worker_string(workers if spark is None else "spark:driver")
        options: Dict[str, Any] = {
            "seed": seed,
            "library_threads": thread_count(library_threads),
            "memory_limit": byte_count(memory_limit, "memory_limit"),
            "cache_limit": byte_count(cache_limit, "cache_limit"),
            "disk_limit": byte_count(disk_limit, "disk_limit"),
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
        _, has_processes, has_hosts, has_others = _native.worker_kinds(text)
        modules = support()
        path = [folder for folder in sys.path if folder]
        _native.set_up(sys.executable or "", path, modules)
        options["program"] = (sys.executable or "python3", arguments(), _native.__file__)
        try:
            options.update(for_processes(path, modules))
        except RemoteWorkerError:
            # Threads do not need the executable; workers that are added later may.
            if has_processes or has_hosts or has_others:
                raise
        options = {name: value for name, value in options.items() if value is not None}
        self._line = line_for(progress, _counting(self))
        self._tick = _ticking(self._line)
        self._on_round = on_round
        self._in_process = in_process
        self._lost = 0
        self._text = workers if isinstance(workers, str) else text
        self._reads = _who_reads(in_process, has_processes, has_hosts or has_others)
        self._has_hosts = has_hosts
        # Whether the interpreters of hosts have been compared.
        self._compared = not has_hosts
        self._steps = Steps()
        self._reader = Reader(extra_classes(result_classes), bool(hosts_may_run_code_here))
        # What an earlier run has recorded may have come from hosts.
        if has_hosts or has_others or resume or os.environ.get("QJAM_RESUME"):
            self._reader.use_hosts()
        options["state_reader"] = self._reader
        self._spark: Optional[Any] = None
        if spark is not None:
            from ._spark.driver import Cluster

            self._spark = Cluster(spark, options["worker_executable"])
            text = self._text = f"spark:{self._spark.name}"
            _native.offer_cluster(self._spark.name, self._spark)
        try:
            self._native = _native.Master(text, in_process, options, self._tick)
        except BaseException:
            if self._spark is not None:
                self._spark.close()
            raise
        finally:
            deliver()
        _open.add(self)
        self._dashboard: Optional[str] = None
        if dashboard:
            try:
                self._dashboard = self._native.start_dashboard()
            except BaseException as error:
                self._close(failure(error))
                raise
            warn(f"dashboard: {self._dashboard}")

    # ---- rounds -------------------------------------------------------------------------------------------------

    def run(
        self,
        function: Any,
        params: Any = NOT_GIVEN,
        dataset: Any = NOT_GIVEN,
        *,
        reduce: Optional[Reduce] = None,
        step: Optional[int] = None,
        timeout: Optional[float] = None,
        on_round: Optional[OnRound] = None,
        progress: Progress = None,
    ) -> Any:
        """Runs ``function(params, chunk)`` on every chunk of a data set and combines the results.

        ``function`` is a function, a lambda, or a module with ``mapfunc``. ``reduce(left, right)`` combines two neighbouring
        results; without it, the function ``reduce`` of the module is used, also if one of the module's functions is passed
        instead of the module. If there is none, results are added: see :func:`qjam.common.reducing.default_reduce`, which can be
        passed to have them added in any case.

        With ``dataset=None``, or if only the function is passed, it is called once for every slot of every worker, with ``[]``.
        An empty data set, and parameters without a data set, are errors.

        ``step`` is what random numbers of ``qjam.context().rng()`` are keyed by, such as the number of the iteration: see
        :meth:`loop`.

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
        params, dataset = given(params, dataset, "run")
        # Parameters and data first: they determine which modules must be sent.
        stream, buffers = pack_params(params)
        made = None if dataset is None else as_dataset(dataset)
        data = data_of(made)
        function, reduce = over(made, function, reduce)
        prepared, code, name = code_of(prepare(function, reduce=reduce))
        number = self._steps.next(step)
        line, tick = self._line, self._tick
        if progress is not None:
            line = line_for(progress, _counting(self))
            tick = _ticking(line)
        if line is not None:
            line.begin()
        try:
            if self._has_hosts:
                self._ready(prepared.needs, tick)
            enter(name, prepared, self._reader)
            try:
                limit = None if timeout is None else seconds(timeout)
                parts = self._native.run(code, stream, buffers, data, self._reads, limit, tick, number)
            finally:
                leave(name)
        finally:
            if line is not None:
                line.pause()
            deliver(line)
        self._told(line, on_round)
        if progress is not None and line is not None:
            line.close()
        return self._reader.load(parts)

    def submit(
        self,
        function: Any,
        params: Any = NOT_GIVEN,
        dataset: Any = NOT_GIVEN,
        *,
        reduce: Optional[Reduce] = None,
        step: Optional[int] = None,
    ) -> Pending:
        """Starts a round like :meth:`run` and returns immediately; the :class:`Pending` gives its value.

        >>> from qjam import Master
        >>> with Master("local:2") as m:
        ...     rounds = [m.submit(lambda p, chunk: p * sum(chunk), p, range(10)) for p in (1, 2, 3)]
        ...     [r.result() for r in rounds]
        [45, 90, 135]
        """
        params, dataset = given(params, dataset, "submit")
        stream, buffers = pack_params(params)
        made = None if dataset is None else as_dataset(dataset)
        data = data_of(made)
        function, reduce = over(made, function, reduce)
        entry = code_of(prepare(function, reduce=reduce))
        number = self._steps.next(step)
        if self._has_hosts:
            self._ready(entry[0].needs, self._tick)
        enter(entry[2], entry[0], self._reader)
        try:
            pending = self._native.submit(entry[1], stream, buffers, data, self._reads, number)
        except BaseException:
            leave(entry[2])
            raise
        return Pending(pending, entry[2], self)

    def loop(self) -> Loop:
        """Counts the rounds of a ``with`` block from 0, so that a training gets the same random numbers every time.

        ``qjam.context().rng()`` is keyed by seed, step and chunk. Inside the block, the step of a round is its number in the
        block; ``run(..., step=n)`` sets it. States have their own count: see :meth:`hold`. Other rounds are keyed by their
        number among all rounds of the master, so repeating them gives other numbers.

        >>> import qjam
        >>> def draw(params, chunk):
        ...     return int(qjam.context().rng().integers(1000))
        >>> def train(m):
        ...     with m.loop():
        ...         return [m.run(draw, None, ["a", "b"]) for _ in range(3)]
        >>> with qjam.Master("local:2") as m:
        ...     train(m) == train(m), m.run(draw, None, ["a"], step=7) == m.run(draw, None, ["a"], step=7)
        (True, True)

        One loop is meant for a whole training. A loop inside of another counts from 0 again. Each thread has its own.
        """
        return Loop(self._steps)

    def _ready(self, needs: Iterable[str], tick: Callable[[], None]) -> None:
        """Waits until all hosts are known to have what a function needs; compares their interpreters, once."""
        self._native.python_ready(list(needs), tick)
        if not self._compared:
            from ._numbers import warning

            self._compared = True
            text = warning(self._native.interpreters(sys.executable or ""))
            if text:
                warn(text)

    def hold(self, init: Callable[[Any], S], dataset: Any) -> Held[S]:
        """Creates a state for every chunk with ``init(chunk)`` on the workers, which keep it between rounds.

        The rounds of these states are counted from 0 for the random numbers of ``qjam.context().rng()``: see :meth:`loop`.

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
        data = data_of(made)
        init, _ = over(made, init, None)
        return Held(self, init, made, data, self._native.hold(data, self._reads, self._tick))

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
        whose = {"worker lost": "worker", "interpreter lost": "an interpreter of"}
        losses = [f"lost {whose[entry.kind]} {entry.text}" for entry in self.journal if entry.kind in whose]
        for text in losses[self._lost :]:
            warn(text)
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
        _, has_processes, has_hosts, has_others = _native.worker_kinds(text)
        if self._reads != _PROCESSES:
            self._reads = _who_reads(in_process, has_processes, self._reads == _ANYBODY or has_hosts or has_others)
        self._has_hosts = self._has_hosts or has_hosts
        # New hosts are compared, too.
        self._compared = self._compared and not has_hosts
        if has_hosts:
            self._reader.use_hosts()
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

    def record_metric(self, name: str, value: float) -> None:
        """Records a number that tells how far the program is, such as a loss, in the run file.

        ``qjam report`` draws it over the rounds. It changes nothing else.
        """
        self._native.record_metric(str(name), float(value))

    @property
    def dashboard(self) -> Optional[str]:
        """The link of the page about this run; ``None`` unless it was asked for with ``Master(dashboard=True)``.

        The page is served on the loopback interface until the master is closed. Whoever has the link can see the run. Environment
        variable ``QJAM_DASHBOARD_LINK`` names the address of a proxy: see the page on runs in the book.

        >>> from qjam import Master
        >>> with Master("local:1") as m:
        ...     print(m.dashboard)
        None
        """
        return None if self.closed else self._dashboard

    def _repr_html_(self) -> str:
        from ._html import master

        return master(self)

    def explain(self) -> str:
        """With ``auto`` workers: the measurements of each kind of work, and the number of workers chosen.

        With all workers: functions whose results are so long that fewer and larger slices would be cheaper.
        """
        return "\n".join(self._native.explain())

    # ---- the end ------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether its workers have been ended."""
        return self._native.closed

    def close(self) -> None:
        """Ends all workers and cancels pending rounds. Calling it again does nothing."""
        self._close(None)

    def _close(self, why: Optional[str]) -> None:
        """Ends all workers; `why` goes into the run file as the reason of a run that failed."""
        _open.discard(self)
        if self._native.closed:
            return
        if self._line is not None and not self._native.elsewhere:
            self._line.close()
        self._native.close(why)
        deliver()
        if self._spark is not None and not self._native.elsewhere:
            self._spark.close()

    def __enter__(self) -> Master:
        return self

    def __exit__(
        self, _kind: Optional[Type[BaseException]], error: Optional[BaseException], _trace: Optional[TracebackType]
    ) -> None:
        self._close(failure(error))

    def __repr__(self) -> str:
        return f"Master({self._text!r}{', closed' if self.closed else ''})"

    def __deepcopy__(self, _memo: Dict[int, Any]) -> Master:
        """Itself: estimators that are cloned go on with the same workers."""
        return self

    def __reduce__(self) -> Tuple[Any, ...]:
        raise TypeError("a master cannot be pickled: it stays in the process that made it")


def _who_reads(in_process: bool, has_processes: bool, has_others: bool) -> int:
    """Who must be able to map a round's data."""
    if has_processes:
        return _PROCESSES
    return _ANYBODY if in_process or has_others else _INTERPRETERS


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
    why = failure(uncaught())
    for master in list(_open):
        master._close(why)
