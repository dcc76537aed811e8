"""Spark as workers, with PySpark itself: in one process of Java, and on a standalone cluster with two executors.

`cargo xtask test --only spark` installs what it needs. There is one SparkContext at a time, and a new one takes seconds, so tests that use
the same stand together.
"""

from __future__ import annotations

import gc
import os
import queue
import signal
import sys
import threading
import weakref
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional

import numpy as np
import pytest
import spark_cluster
import test_book
from events import ctrl_c_when, is_there, wait_until

import qjam
from qjam._spark import driver, task
from qjam._spark.context import Trouble, in_words
from qjam.learn import KMeans, Ridge

X = np.sin(np.arange(6000.0) * 0.37).reshape(2000, 3) * 1e3


class Contexts:
    """The SparkContext of the tests: one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.standalone: Optional[spark_cluster.Standalone] = None
        self.current: Any = None

    def _is(self, master: str) -> bool:
        current = self.current
        return current is not None and current._jsc is not None and current.master == master

    def _of(self, master: str) -> Any:
        if not self._is(master):
            self.stop()
            self.current = spark_cluster.context(master)
        return self.current

    def local(self) -> Any:
        return self._of("local[2]")

    def cluster(self) -> Any:
        if self.standalone is None:
            self.standalone = spark_cluster.Standalone(self.folder)
        context = self._of(self.standalone.url)
        wait_until(lambda: len(spark_cluster.executors(context.applicationId)) == 2, "that there are two executors")
        wait_until(lambda: context.defaultParallelism == 2, "that both are known to the driver")
        return context

    def stop(self) -> None:
        if self.current is not None and self.current._jsc is not None:
            self.current.stop()
        self.current = None


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contexts]:
    before = {name: os.environ.get(name) for name in ("QJAM_RUNS", *spark_cluster.ENVIRONMENT)}
    os.environ["QJAM_RUNS"] = "off"
    contexts = Contexts(tmp_path_factory.mktemp("spark"))
    try:
        yield contexts
    finally:
        contexts.stop()
        if contexts.standalone is not None:
            contexts.standalone.stop()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def master(context: Any) -> qjam.Master:
    return qjam.Master(spark=context, progress=False)


def moments(power: float, chunk: Any) -> Any:
    return (np.abs(chunk) ** power).sum(axis=0)


def rows() -> Any:
    """In eight chunks, whatever the workers."""
    return qjam.NumpyMatrixDataSet(X, slice_size=250)


def words(_: Any, chunk: Any) -> Dict[str, int]:
    return {word: chunk.count(word) for word in sorted(set(chunk))}


def together(left: Dict[str, int], right: Dict[str, int]) -> Dict[str, int]:
    return {word: left.get(word, 0) + right.get(word, 0) for word in sorted({*left, *right})}


def count(params: int, chunk: Any, state: Dict[str, Any]) -> Any:
    state["sum"] = state["sum"] * 1.5 + params * chunk.sum()
    return state["sum"]


def start(_: Any) -> Dict[str, Any]:
    return {"sum": 0.1}


def steps(m: qjam.Master, between: Callable[[int], None] = lambda _: None) -> List[bytes]:
    """Rounds over states; something may happen before each."""
    found = []
    with m.hold(start, rows()) as held:
        for n in range(4):
            between(n)
            found.append(np.float64(held.run(count, n + 1)).tobytes())
    return found


def on_threads(work: Callable[[qjam.Master], Any]) -> Any:
    with qjam.Master("local:2", progress=False) as m:
        return work(m)


# ---- in one process of Java ---------------------------------------------------------------------------------------


def test_spark_functions_have_the_bits_of_other_workers(spark: Contexts) -> None:
    def work(m: qjam.Master) -> List[Any]:
        powers = [m.run(moments, power, rows()).tobytes() for power in (1.0, 2.5, 3.0)]
        return [powers, m.run(words, None, [f"word{n % 17}" for n in range(400)], reduce=together)]

    wanted = on_threads(work)
    with master(spark.local()) as m:
        assert work(m) == wanted
        assert m.run(lambda _, chunk: len(chunk), None, [[1]]) == 1, "fewer chunks than slots"
        report = m.last_round
        assert report is not None and report.chunks_sent == 1


def test_states_and_their_random_numbers_have_the_bits_of_other_workers(spark: Contexts) -> None:
    wanted = on_threads(steps)
    with master(spark.local()) as m:
        assert steps(m) == wanted
        assert steps(m) == wanted, "states of the first hold are not those of the second"


def test_data_travels_once_to_spark(spark: Contexts) -> None:
    with master(spark.local()) as m:
        sent = []
        for _ in range(3):
            m.run(moments, 2.0, rows())
            report = m.last_round
            assert report is not None
            sent.append(report.chunks_sent)
        assert sent == [8, 0, 0]


def test_a_session_and_its_tables_are_used_beside_a_master(spark: Contexts) -> None:
    from pyspark.sql import SparkSession

    session = SparkSession(spark.local())
    with qjam.Master(spark=session, progress=False) as m:
        table = session.range(10)
        assert m.run(lambda p, chunk: p * sum(chunk), table.count(), [1, 2, 3]) == 60


def test_exceptions_come_home_and_the_master_goes_on(spark: Contexts) -> None:
    def fails(_: Any, chunk: Any) -> Any:
        raise KeyError("missing")

    def ends(_: Any, chunk: Any) -> Any:
        os._exit(3)

    with master(spark.local()) as m:
        with pytest.raises(KeyError, match="missing") as raised:
            m.run(fails, None, [1, 2, 3])
        assert isinstance(raised.value.__cause__, qjam.RemoteError)
        with pytest.raises(qjam.WorkerDied, match="exit code 3"):
            m.run(ends, None, [1, 2, 3])
        assert m.run(lambda _, chunk: sum(chunk), None, [1, 2, 3]) == 6


def test_a_process_that_dies_is_replaced_and_its_blocks_count_once(spark: Contexts, tmp_path: Path) -> None:
    wanted = on_threads(lambda m: m.run(moments, 2.5, rows()).tobytes())
    for generation in (1, 2):
        # The worker process, then Spark's Python worker.
        mark = str(tmp_path / f"killed-{generation}")

        def kills(power: float, chunk: Any, mark: str = mark, generation: int = generation) -> Any:
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return (np.abs(chunk) ** power).sum(axis=0)
            pid = os.getppid()
            for _ in range(generation - 1):
                with open(f"/proc/{pid}/stat") as file:
                    pid = int(file.read().rpartition(")")[2].split()[1])
            os.kill(pid, signal.SIGKILL)
            while True:
                pass

        with master(spark.local()) as m:
            assert m.run(kills, 2.5, rows()).tobytes() == wanted
        assert os.path.exists(mark)


def test_a_function_that_always_kills_its_process_is_told(spark: Contexts) -> None:
    def kills(_: Any, chunk: Any) -> Any:
        os.kill(os.getppid(), signal.SIGKILL)

    with master(spark.local()) as m:
        with pytest.raises(qjam.QjamError, match=r"ended 3 times on chunks 0 to .* killed by signal 9"):
            m.run(kills, None, [1])
        assert m.run(lambda _, chunk: sum(chunk), None, [1, 2, 3]) == 6


def endless(mark: str, chunk: Any) -> Any:
    with open(mark, "w") as file:
        file.write(str(os.getpid()))
    while True:
        pass


def is_gone(pid: int) -> bool:
    try:
        return b"Z" in Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[:1]
    except OSError:
        return True


def test_a_cancelled_round_ends_also_on_the_executors(spark: Contexts, tmp_path: Path) -> None:
    mark = tmp_path / "began"
    with master(spark.local()) as m:
        pending = m.submit(endless, str(mark), [1])
        wait_until(lambda: mark.exists() and mark.read_text(), "that the function runs")
        pid = int(mark.read_text())
        pending.cancel()
        wait_until(lambda: is_gone(pid), "that its process is gone")
        assert m.run(lambda _, chunk: sum(chunk), None, [1, 2, 3]) == 6
        mark.unlink()
        with pytest.raises(KeyboardInterrupt), ctrl_c_when(is_there(mark)):
            m.run(endless, str(mark), [1])
        assert m.run(lambda _, chunk: sum(chunk), None, [1, 2, 3]) == 6


def test_a_cancelled_job_leaves_the_others_alone(spark: Contexts, tmp_path: Path) -> None:
    mark, may_go = tmp_path / "began", tmp_path / "go"

    def waits(_: Any, chunk: Any, mark: str = str(mark), may_go: str = str(may_go)) -> Any:
        import time

        open(mark, "w").close()
        while not os.path.exists(may_go):
            time.sleep(0.002)
        return sum(chunk)

    with master(spark.local()) as m:
        first = m.submit(waits, None, [1, 2, 3])
        assert m._spark is not None
        wait_until(mark.exists, "that the function runs")
        # Not by Ctrl-C, at which PySpark itself cancels all jobs of its context.
        other = m._spark.start(99, b"", [(0, b"", b"", None)])
        other.cancel()
        with pytest.raises(Trouble, match="before it began"):
            other.wait(0)
        may_go.touch()
        assert first.result() == 6


def test_a_time_limit_ends_a_round(spark: Contexts, tmp_path: Path) -> None:
    with master(spark.local()) as m:
        with pytest.raises(qjam.TimedOut, match="longer than 0.5 s"):
            m.run(endless, str(tmp_path / "began"), [1], timeout=0.5)
        assert m.run(lambda _, chunk: sum(chunk), None, [1, 2, 3]) == 6


def test_spark_processes_end_with_their_master(spark: Contexts) -> None:
    context = spark.local()
    with master(context) as m:
        assert m.run(lambda _, chunk: sum(chunk), None, [1, 2, 3]) == 6
        assert spark_cluster.workers()
    wait_until(lambda: not spark_cluster.workers(), "that the worker processes are gone")
    assert context.parallelize([1, 2]).sum() == 3, "the context is the user's"


# ---- what is refused ----------------------------------------------------------------------------------------------


def test_two_masters_on_one_context_are_refused(spark: Contexts) -> None:
    context = spark.local()
    with master(context):
        with pytest.raises(qjam.Busy, match="close it first"):
            master(context)
    with master(context) as m:
        assert m.run(lambda _, chunk: sum(chunk), None, [1]) == 1


def test_what_is_no_spark_is_refused(spark: Contexts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="spark is a SparkContext, a SparkSession, or the address"):
        qjam.Master(spark=3)
    with pytest.raises(TypeError, match="not both"):
        qjam.Master("local:2", spark=spark.local())
    with pytest.raises(qjam.RemoteWorkerError, match="there is one in this process already"):
        qjam.Master(spark="local[2]")
    with pytest.raises(qjam.QjamError, match=r"Master\(spark=sc\)"):
        qjam.Master("spark:somewhere")
    with monkeypatch.context() as patch:
        patch.setenv("JAVA_HOME", str(tmp_path))
        with pytest.raises(qjam.RemoteWorkerError, match="Spark needs Java, and JAVA_HOME says"):
            qjam.Master(spark="local[2]")
        patch.delenv("JAVA_HOME")
        patch.setenv("PATH", str(tmp_path))
        with pytest.raises(qjam.RemoteWorkerError, match="Spark needs Java, and there is none on PATH"):
            qjam.Master(spark="local[2]")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyspark", None)
        with pytest.raises(qjam.RemoteWorkerError, match="pip install pyspark"):
            qjam.Master(spark="local[2]")


def test_executors_with_another_python_or_none_are_told(spark: Contexts, monkeypatch: pytest.MonkeyPatch) -> None:
    context = spark.local()
    with master(context) as m:
        with monkeypatch.context() as patch:
            # As if this were a driver of an older Python.
            patch.setattr(context, "pythonVer", "3.8")
            with pytest.raises(qjam.QjamError, match=r"another version than the driver's.*PYSPARK_PYTHON"):
                m.run(lambda _, chunk: sum(chunk), None, [1])
        with monkeypatch.context() as patch:
            patch.setattr(context, "pythonExec", "/nonexistent/python")
            with pytest.raises(qjam.QjamError, match="no Python where PYSPARK_PYTHON"):
                m.run(lambda _, chunk: sum(chunk), None, [1])
        assert m.run(lambda _, chunk: sum(chunk), None, [1]) == 1


def test_executors_that_cannot_run_the_worker_are_told(
    spark: Contexts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrong = tmp_path / "qjam"
    # What an executable for another kind of processor is to the system.
    wrong.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(200))
    wrong.chmod(0o755)
    monkeypatch.setenv("QJAM_WORKER", str(wrong))
    with master(spark.local()) as m:
        with pytest.raises(qjam.QjamError, match="cannot be started on .*the kind of processor"):
            m.run(lambda _, chunk: sum(chunk), None, [1])


def test_a_context_that_is_stopped_in_mid_round_is_told(spark: Contexts, tmp_path: Path) -> None:
    context = spark.local()
    mark = tmp_path / "began"

    def stop() -> None:
        wait_until(mark.exists, "that the function runs")
        context.stop()

    with master(context) as m:
        stopping = threading.Thread(target=stop)
        stopping.start()
        with pytest.raises(qjam.QjamError, match="the SparkContext was stopped"):
            m.run(endless, str(mark), [1])
        stopping.join()
        with pytest.raises(qjam.QjamError, match="the SparkContext was stopped"):
            m.run(lambda _, chunk: sum(chunk), None, [1])
    with pytest.raises(qjam.RemoteWorkerError, match="has been stopped"):
        master(context)


def test_the_code_of_the_page_about_spark_runs_and_prints_what_it_says(spark: Contexts, tmp_path: Path) -> None:
    spark.stop()
    done = test_book.run_page(test_book.BOOK / "running-on-spark.md", tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_master_makes_a_context_of_an_address_and_ends_it(spark: Contexts) -> None:
    from pyspark import SparkContext

    spark.stop()
    with qjam.Master(spark="local[1]", progress=False) as m:
        assert m.run(lambda _, chunk: sum(chunk), None, [1, 2, 3]) == 6
    assert SparkContext._active_spark_context is None
    with pytest.raises(FileNotFoundError):
        driver.Cluster("local[1]", "/nonexistent/worker")
    assert SparkContext._active_spark_context is None, "what was made for a cluster that cannot be is ended, too"


# ---- on a cluster -------------------------------------------------------------------------------------------------


def test_functions_and_learners_have_the_bits_of_threads_on_a_cluster(spark: Contexts) -> None:
    def work(workers: Any) -> List[bytes]:
        centres = KMeans(3, random_state=1, max_iter=3, workers=workers).fit(X).cluster_centers_
        weights = Ridge(1.0, solver="cocoa", max_iter=2, workers=workers).fit(X[:, :2], X[:, 2]).coef_
        return [centres.tobytes(), weights.tobytes()]

    wanted = on_threads(lambda m: [m.run(moments, 2.5, rows()).tobytes(), steps(m), work(m)])
    with master(spark.cluster()) as m:
        assert [m.run(moments, 2.5, rows()).tobytes(), steps(m), work(m)] == wanted
        # Both executors have had their share.
        assert len(m.workers) == 3, m.workers


def test_tasks_prefer_the_executors_that_have_their_data(spark: Contexts) -> None:
    context = spark.cluster()
    with master(context) as m:
        for _ in range(3):
            m.run(moments, 2.0, rows())
        assert m._spark is not None
        wanted, numbers = m._spark._last
    assert [number for number, _ in wanted] == [0, 1] and any(place for _, place in wanted), wanted
    placed = numbers._jrdd.rdd()
    for partition, (_, place) in zip(placed.partitions(), wanted):
        preferred = placed.preferredLocations(partition)
        assert preferred.mkString(",") == (place or "")
    assert sorted(number for number, _ in numbers.collect()) == [0, 1]


def test_no_executor_is_preferred_by_more_than_its_share_of_the_tasks() -> None:
    assert driver._balanced(["a", "a", "b", None], 2) == ["a", "a", "b", None]
    assert driver._balanced(["a", "a", "a", "b"], 2) == ["a", "a", None, "b"]
    assert driver._balanced(["a", "a"], 1) == ["a", "a"]
    assert driver._balanced(["a", "a"], 2) == ["a", None]


class Groups:
    """Keeps the groups that were cancelled."""

    def __init__(self) -> None:
        self.cancelled: List[str] = []
        self._jsc = object()

    def cancelJobGroup(self, group: str) -> None:
        self.cancelled.append(group)


def test_a_job_is_cancelled_by_its_own_group_and_not_begun_afterwards() -> None:
    groups = Groups()
    running, waiting = driver._Job(groups, "qjam-a-1"), driver._Job(groups, "qjam-a-2")
    assert running.begin()
    waiting.cancel()
    with pytest.raises(Trouble, match="before it began"):
        waiting.wait(0)
    assert not waiting.begin() and groups.cancelled == []
    assert running.wait(0) is None, "the other one goes on"
    running.cancel()
    assert groups.cancelled == ["qjam-a-1"]


def test_an_exception_of_a_java_that_is_gone_has_a_sentence() -> None:
    from py4j.java_gateway import GatewayParameters, JavaGateway, JavaObject
    from py4j.protocol import Py4JJavaError

    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=spark_cluster.free_port()))
    error = Py4JJavaError("a call failed", JavaObject("o1", gateway._gateway_client))
    with pytest.raises(Exception):
        str(error)
    assert "Java process of the driver has ended" in str(in_words(Groups(), error))


def test_the_thread_of_jobs_goes_on_after_a_failure_and_keeps_no_call() -> None:
    calls: queue.SimpleQueue[Optional[Callable[[], None]]] = queue.SimpleQueue()
    serving = threading.Thread(target=driver._serve, args=(calls,), daemon=True)
    serving.start()

    def fails() -> None:
        raise RuntimeError("something else than Spark")

    class Call:
        def __init__(self) -> None:
            self.ran = threading.Event()

        def __call__(self) -> None:
            self.ran.set()

    calls.put(fails)
    call = Call()
    ran, gone = call.ran, weakref.ref(call)
    calls.put(call)
    del call
    assert ran.wait(60), "the thread has ended"
    wait_until(lambda: gc.collect() >= 0 and gone() is None, "that nobody has the call any more")
    calls.put(None)
    serving.join(60)
    assert not serving.is_alive()


def test_a_worker_that_ends_before_its_first_task_cannot_be_used(tmp_path: Path) -> None:
    program = tmp_path / "worker"
    program.write_text("#!/bin/sh\nexit 7\n")
    program.chmod(0o755)
    # More than a pipe takes in.
    with pytest.raises(task._Unusable, match="ended with exit code 7 on .* before it had a task"):
        task._Process(str(program), bytes(1 << 20), str(tmp_path / "chunks"))


def test_an_executor_killed_in_mid_round_leaves_the_bits_alone(spark: Contexts, tmp_path: Path) -> None:
    context = spark.cluster()
    began, may_go = tmp_path / "began", tmp_path / "go"

    def waits(power: float, chunk: Any, began: str = str(began), may_go: str = str(may_go)) -> Any:
        import time

        open(began, "w").close()
        while not os.path.exists(may_go):
            time.sleep(0.002)
        return (np.abs(chunk) ** power).sum(axis=0)

    def kill() -> None:
        wait_until(began.exists, "that the function runs")
        os.kill(spark_cluster.executors(context.applicationId)[0], signal.SIGKILL)
        may_go.touch()

    wanted = on_threads(lambda m: m.run(moments, 2.5, rows()).tobytes())
    with master(context) as m:
        killing = threading.Thread(target=kill)
        killing.start()
        assert m.run(waits, 2.5, rows()).tobytes() == wanted
        killing.join()


def test_states_of_killed_executors_are_made_again(spark: Contexts) -> None:
    context = spark.cluster()

    def kill(step: int) -> None:
        if step in (2, 3):
            pid = spark_cluster.executors(context.applicationId)[0]
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: is_gone(pid), "that the executor is gone")

    wanted = on_threads(steps)
    with master(context) as m:
        assert steps(m, kill) == wanted


def test_what_spark_gives_a_task_fills_a_packet_and_is_not_held_back() -> None:
    assert len(driver._PADDING) > int(Path("/sys/class/net/lo/mtu").read_text())
