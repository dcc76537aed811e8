"""The driver's side of Spark as workers: runs the jobs of a master.

Comes in: from the native part, tasks with what each is told and given, and the order of their round. Goes out: jobs over an RDD that
has the numbers of the tasks and nothing else; the order is a broadcast variable, and what a task is given is in it or, where that
is much, in one of its own, which travels to the executor that runs the task and to no other. Answers go back as they came. All
calls of Spark for jobs are made by one thread, and each job has a group of its own, by which it alone is cancelled.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import itertools
import logging
import os
import queue
import shutil
import tempfile
import threading
import uuid
import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from ..errors import Busy
from .context import Trouble, context_of, in_words

__all__ = ["Cluster"]

#: Number, request, supply, and where it ran before.
Task = Tuple[int, bytes, bytes, Optional[str]]
Answer = Tuple[int, str, str, int, bytes]

_log = logging.getLogger("qjam")

#: What all tasks of a job are given together is in the order's variable up to so many bytes.
_SMALL_BYTES = 8 << 20
#: Stands beside the number of a task. Spark gives an element to its Python worker through a socket on the loopback interface, where a
#: message below 65 483 bytes (what a packet there holds) waits 40 ms for an acknowledgement.
_PADDING = bytes(72 << 10)
#: How long ending the processes on executors may take.
_ENDS_WITHIN_S = 20.0

#: The cluster of each context that a master works on.
_used: Dict[str, weakref.ref[Cluster]] = {}
_lock = threading.Lock()


class _Job:
    """A job under way, as the native part sees it."""

    def __init__(self, context: Any, group: str) -> None:
        self.group = group
        self._context = context
        self._done = threading.Event()
        self._answers: Optional[List[Answer]] = None
        self._trouble: Optional[Trouble] = None
        self._lock = threading.Lock()
        self._is_begun = False
        self._is_cancelled = False

    def begin(self) -> bool:
        """Whether it is to be run. One that was cancelled before is not."""
        with self._lock:
            self._is_begun = not self._is_cancelled
            return self._is_begun

    def finish(self, answers: Optional[List[Answer]], trouble: Optional[Trouble]) -> None:
        self._answers, self._trouble = answers, trouble
        self._done.set()

    def wait(self, seconds: float) -> Optional[List[Answer]]:
        """The answers; None if there are none yet after so many seconds. Raises if there will be none."""
        if not self._done.wait(seconds):
            return None
        if self._trouble is not None:
            raise self._trouble
        return self._answers

    def cancel(self) -> None:
        """Calls it off. What Spark runs already is over some time later; Spark may not know of it yet, so it may be said again."""
        with self._lock:
            self._is_cancelled = True
            is_begun = self._is_begun
        if is_begun:
            _cancel(self._context, self.group)
        else:
            self.finish(None, Trouble("the job was cancelled before it began"))


class Cluster:
    """Spark, for one master."""

    def __init__(self, spark: Any, worker: str) -> None:
        self._context, self._is_own = context_of(spark)
        try:
            self._begin(worker)
        except BaseException:
            if self._is_own:
                _stop(self._context)
            raise

    def _begin(self, worker: str) -> None:
        self.name = str(self._context.applicationId)
        self._master = uuid.uuid4().hex
        # The group of the job that runs, and the numbers of the next.
        self._group = ""
        self._numbers_of_jobs = itertools.count()
        self._is_closed = False
        self._is_used = False
        self._can_place = True
        # The last RDD of numbers, and what it was made for.
        self._last: Optional[Tuple[List[Tuple[int, Optional[str]]], Any]] = None
        with _lock:
            other = _used.get(self.name)
            if other is not None and other() is not None:
                raise Busy(
                    f"another master works on this SparkContext ({self.name}) already; use that one, or close it first: each "
                    "worker process on the executors works for one"
                )
            _used[self.name] = weakref.ref(self)
        try:
            self._executable = _shipped(self._context, worker)
        except BaseException:
            self._leave()
            raise
        self._setup: Any = None
        self._calls: queue.SimpleQueue[Optional[Callable[[], None]]] = queue.SimpleQueue()
        # A master that nobody closes leaves no thread behind.
        weakref.finalize(self, self._calls.put, None)
        threading.Thread(target=_serve, args=(self._calls,), name="qjam-spark", daemon=True).start()

    # ---- what the native part calls -----------------------------------------------------------------------------

    def set_up(self, setup: bytes) -> None:
        """Keeps what every worker process is told first."""
        self._checked()
        self._setup = self._context.broadcast(setup)

    def slots(self) -> int:
        """How many tasks run at once."""
        self._checked()
        try:
            return max(1, int(self._context.defaultParallelism))
        except Exception as error:
            raise in_words(self._context, error) from None

    def start(self, number: int, order: bytes, tasks: List[Task]) -> _Job:
        """Starts a job of a round."""
        job = _Job(self._context, self._new_group())

        def call() -> None:
            if not job.begin():
                return
            answers: Optional[List[Answer]] = None
            trouble: Optional[Trouble] = Trouble("Spark gave a job up")
            try:
                answers, trouble = self._run(job.group, number, order, tasks), None
            except BaseException as error:
                trouble = in_words(self._context, error)
            finally:
                # Somebody waits for it, whatever has happened.
                job.finish(answers, trouble)

        self._calls.put(call)
        return job

    # ---- jobs ---------------------------------------------------------------------------------------------------

    def _checked(self) -> None:
        if self._context._jsc is None:
            raise in_words(self._context, RuntimeError())

    def _new_group(self) -> str:
        return f"qjam-{self._master}-{next(self._numbers_of_jobs)}"

    def _set_group(self, group: str, description: str) -> None:
        self._group = group
        self._context.setJobGroup(group, description, False)

    def _run(self, group: str, number: int, order: bytes, tasks: List[Task]) -> List[Answer]:
        self._checked()
        self._is_used = True
        self._set_group(group, f"qjam round {number}")
        own = sum(len(task[2]) for task in tasks) > _SMALL_BYTES
        requests = {task[0]: (task[1], b"" if own else task[2]) for task in tasks}
        made = [self._context.broadcast((order, requests))]
        try:
            if not own:
                found = self._numbers(tasks).mapPartitions(self._function(number, made[0], None))
            else:
                parts = []
                for task in tasks:
                    supply = None
                    if task[2]:
                        supply = self._context.broadcast(task[2])
                        made.append(supply)
                    parts.append(self._numbers([task]).mapPartitions(self._function(number, made[0], supply)))
                found = parts[0] if len(parts) == 1 else self._context.union(parts)
            return list(found.collect())
        finally:
            for variable in made:
                try:
                    variable.destroy()
                except Exception:
                    # The context is gone, and they with it.
                    pass

    def _numbers(self, tasks: List[Task]) -> Any:
        """The numbers of tasks as an RDD with a partition for each, placed where they ran before. Most rounds have that of the last."""
        wanted: List[Tuple[int, Optional[str]]] = [(task[0], None) for task in tasks]
        if self._can_place and any(task[3] for task in tasks):
            try:
                places = _balanced([task[3] for task in tasks], _executors(self._context))
                wanted = [(number, place) for (number, _), place in zip(wanted, places)]
                if self._last is None or self._last[0] != wanted:
                    self._last = (wanted, _placed(self._context, wanted))
            except Exception as error:
                # That is Spark's own affair, and other versions may do it otherwise. Tasks run anywhere as well.
                self._can_place = False
                _log.debug("tasks of Spark cannot be placed: %s", error)
        if self._last is None or self._last[0] != wanted:
            self._last = (wanted, self._context.parallelize([(number, _PADDING) for number, _ in wanted], len(wanted)))
        return self._last[1]

    def _function(self, number: int, order: Any, supply: Any) -> Callable[[Iterable[Tuple[int, bytes]]], Iterable[Answer]]:
        return _function(self._master, number, self._executable, self._setup, order, supply)

    # ---- the end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the processes on executors, and the context if it was made here."""
        with _lock:
            if self._is_closed:
                return
            self._is_closed = True
        ended = threading.Event()

        def call() -> None:
            try:
                if self._context._jsc is not None and self._is_used and not self._is_own:
                    self._set_group(self._new_group(), "qjam: end of a master")
                    tasks = 2 * max(1, int(self._context.defaultParallelism))
                    self._context.parallelize(range(tasks), tasks).foreachPartition(_ending())
                if self._setup is not None and self._context._jsc is not None:
                    self._setup.destroy()
            except BaseException:
                # They end with Spark's Python workers, at the latest.
                pass
            finally:
                ended.set()

        self._calls.put(call)
        self._calls.put(None)
        if not ended.wait(_ENDS_WITHIN_S):
            _cancel(self._context, self._group)
        self._leave()
        if self._is_own:
            self._context.stop()

    def _leave(self) -> None:
        with _lock:
            known = _used.get(self.name)
            if known is not None and known() in (None, self):
                del _used[self.name]


def _serve(calls: queue.SimpleQueue[Optional[Callable[[], None]]]) -> None:
    while True:
        call = calls.get()
        if call is None:
            return
        try:
            call()
        except BaseException as error:
            # The next calls are other jobs.
            _log.debug("a call of Spark failed: %r", error)
        # It has the master's cluster, which nobody else may have any more.
        del call


def _cancel(context: Any, group: str) -> None:
    """Cancels the jobs of a group that Spark runs now."""
    try:
        context.cancelJobGroup(group)
    except Exception:
        # Then there is no job any more.
        pass


def _stop(context: Any) -> None:
    """Ends a context that nobody will use, as far as that goes."""
    try:
        context.stop()
    except Exception as error:
        _log.debug("a SparkContext could not be stopped: %r", error)


def _text() -> str:
    """The source of what runs in Spark's Python workers."""
    return importlib.resources.files("qjam._spark").joinpath("task.py").read_text("utf-8")


def _function(
    master: str, number: int, executable: str, setup: Any, order: Any, supply: Any
) -> Callable[[Iterable[Tuple[int, bytes]]], Iterable[Answer]]:
    """What a task does. It travels by value, and takes nothing of this module along."""
    text = _text()
    name = "_qjam_spark_" + hashlib.sha256(text.encode()).hexdigest()[:16]

    def run(numbers: Iterable[Tuple[int, bytes]]) -> Iterable[Answer]:
        import sys
        import types

        module: Any = sys.modules.get(name)
        if module is None:
            module = types.ModuleType(name)
            sys.modules[name] = module
            exec(compile(text, name, "exec"), module.__dict__)
        answers: Iterable[Answer] = module.answers(numbers, master, number, executable, setup, order, supply)
        return answers

    return run


def _ending() -> Callable[[Iterable[int]], None]:
    """A task that ends the processes of its Python worker."""
    name = "_qjam_spark_" + hashlib.sha256(_text().encode()).hexdigest()[:16]

    def run(numbers: Iterable[int]) -> None:
        import sys
        import time

        list(numbers)
        module: Any = sys.modules.get(name)
        if module is not None:
            module.end()
        # Long enough that another Python worker takes the next one.
        time.sleep(0.05)

    return run


def _shipped(context: Any, worker: str) -> str:
    """Has Spark bring the worker executable to every executor; returns its name there, which tells its content."""
    with open(worker, "rb") as file:
        content = file.read()
    name = "qjam-worker-" + hashlib.sha256(content).hexdigest()[:16]
    if name not in [os.path.basename(str(path)) for path in context.listFiles]:
        folder = tempfile.mkdtemp(prefix="qjam-spark-", dir=context._temp_dir)
        copy = os.path.join(folder, name)
        shutil.copyfile(worker, copy)
        os.chmod(copy, 0o755)
        context.addFile(copy)
    return name


def _executors(context: Any) -> int:
    """How many executors there are."""
    # The driver is counted, too.
    return max(1, int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1)


def _balanced(places: List[Optional[str]], executors: int) -> List[Optional[str]]:
    """Where tasks should run: where they ran before, but no executor has more than its share."""
    share = -(-len(places) // executors)
    taken: Dict[str, int] = {}
    found: List[Optional[str]] = []
    for place in places:
        count = taken.get(place, 0) if place else share
        found.append(place if count < share else None)
        if place:
            taken[place] = count + 1
    return found


def _placed(context: Any, wanted: List[Tuple[int, Optional[str]]]) -> Any:
    """Numbers as an RDD with a partition for each, which prefers an executor."""
    from pyspark import RDD  # pyright: ignore[reportMissingImports]
    from pyspark.serializers import CPickleSerializer  # pyright: ignore[reportMissingImports]

    jvm, serializer = context._jvm, CPickleSerializer()
    pairs = jvm.java.util.ArrayList()
    for number, place in wanted:
        places = jvm.java.util.ArrayList()
        if place:
            places.add(place)
        pairs.add(jvm.scala.Tuple2(serializer.dumps((number, _PADDING)), jvm.PythonUtils.toSeq(places)))
    tag = context.parallelize([], 1)._jrdd.classTag()
    made = context._jsc.sc().makeRDD(jvm.PythonUtils.toSeq(pairs), tag)
    return RDD(made.toJavaRDD(), context, serializer)
