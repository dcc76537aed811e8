"""What a master does with workers of every kind on this machine."""

from __future__ import annotations

import io
import logging
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Iterator, List

import numpy as np
import pytest
from events import HANG_S, PRESSING, RECORDED, is_there, wait_until

import qjam
from qjam import Master, MasterClosed, Released, RemoteError, RemoteWorker, RoundReport

KINDS = ["local:2", "inproc:2"]


@pytest.fixture(scope="module", params=KINDS)
def master(request: pytest.FixtureRequest) -> Iterator[Master]:
    with Master(request.param, run_folder=False) as m:
        yield m


def total(params: Any, chunk: Any) -> Any:
    return sum(chunk)


def running(script: str, *, seconds: float = HANG_S, **more: Any) -> subprocess.CompletedProcess[str]:
    """A program of its own."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "QJAM_RUNS": "off"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=seconds, env=env, **more)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


# ---- who may work ------------------------------------------------------------------------------------------------


def test_workers_are_a_string_or_a_list_and_nothing_else() -> None:
    for wrong in [7, ("local:2",), {"local:2"}, RemoteWorker("big")]:
        with pytest.raises(TypeError, match="string such as 'local:4'"):
            Master(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="empty"):
        Master([])
    with pytest.raises(TypeError, match=r"workers\[1\] is not a RemoteWorker but str"):
        Master([RemoteWorker("big"), "small"])  # type: ignore[list-item]


def test_a_worker_string_without_sense_is_a_value_error_that_says_what_to_write() -> None:
    with pytest.raises(qjam.WorkerStringError, match="at `two`: not a number; write for example `proc:4`") as told:
        Master("proc:two")
    assert isinstance(told.value, ValueError) and isinstance(told.value, qjam.QjamError)
    with pytest.raises(ValueError, match="functions run in this process or on workers, not both"):
        Master("inproc:2,proc:2")
    with pytest.raises(ValueError, match="zero"):
        Master("inproc:0")


def test_remote_workers_say_what_is_wrong_with_them() -> None:
    with pytest.raises(TypeError, match="a host is a string"):
        RemoteWorker(7)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="empty"):
        RemoteWorker(" ")
    with pytest.raises(ValueError, match="at least one slot"):
        RemoteWorker("big", slots=0)


def test_several_remote_workers_on_a_host_are_slots_of_it() -> None:
    from qjam._workers import worker_string

    workers = [RemoteWorker("big"), RemoteWorker("ann@small"), RemoteWorker("big"), RemoteWorker("proc")]
    assert worker_string(workers) == ("big*2,ann@small*1,ssh://proc*1", False)
    assert worker_string("auto:inproc:3") == ("auto:local:3", True)
    assert worker_string(None) == ("local", False)


def test_the_module_paths_of_the_original_are_there() -> None:
    from qjam.master.master import Master as OldMaster
    from qjam.master.remote_worker import RemoteWorker as OldWorker
    from qjam.master.remote_worker import RemoteWorkerError

    assert OldMaster is Master and OldWorker is RemoteWorker
    assert issubclass(qjam.ConnectError, RemoteWorkerError)


def test_modules_that_import_a_master_load_where_the_native_part_is_not(tmp_path: Path) -> None:
    import shutil

    package = Path(qjam.__file__).parent
    shutil.copytree(package, tmp_path / "qjam", ignore=shutil.ignore_patterns("_native*.so", "__pycache__"))
    script = """
from qjam import DataSet, Master, RemoteWorker, TimedOut
from qjam.master.master import Master as Old
assert Old is Master
try:
    Master("local:2")
except RuntimeError as error:
    print(error)
"""
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=HANG_S, env=env, cwd=tmp_path
    )
    assert done.stdout == "qjam.Master is for the master: qjam is not installed where this runs\n", done.stderr


def test_without_workers_there_is_one_for_every_core() -> None:
    with Master(run_folder=False) as m:
        assert sum(w.slots for w in m.workers) >= 1
        assert m.run(total, None, [1, 2, 3]) == 6


def test_hosts_that_cannot_be_reached_are_told_one_by_one() -> None:
    with pytest.raises(qjam.ConnectError) as told:
        Master([RemoteWorker("no-such-host.invalid")], run_folder=False)
    assert list(told.value.failures) == ["no-such-host.invalid"]
    assert "no-such-host.invalid" in str(told.value)


# ---- rounds ------------------------------------------------------------------------------------------------------


def test_without_data_every_slot_runs_once(master: Master) -> None:
    assert master.run(lambda params, chunk: 42 if chunk == [] else 0) == 84
    assert master.run(lambda params, chunk: 42, None, None) == 84


def test_forgotten_parameters_and_empty_data_are_errors_that_say_so(master: Master) -> None:
    for start in (master.run, master.submit):
        with pytest.raises(TypeError, match=r"no data set.*\(ndarray\) is the data.*\(function, None, data\)"):
            start(lambda params, chunk: 42, np.ones(3))
        with pytest.raises(ValueError, match="empty.*dataset=None"):
            start(lambda params, chunk: 42, None, [])


def test_features_and_labels_are_cut_at_the_same_rows(master: Master) -> None:
    x, y = np.arange(600.0).reshape(300, 2), np.arange(300.0)

    def fit(w: Any, chunk: Any) -> Any:
        rows, labels = chunk
        return len(rows), rows.T @ labels

    count, sums = master.run(fit, None, qjam.ZippedDataSet(x, y, slice_size=7))
    assert count == 300 and sums.tolist() == (x.T @ y).tolist()


def test_results_are_added_and_parts_of_them_too(master: Master) -> None:
    rows = np.arange(12.0).reshape(6, 2)
    count, sums = master.run(lambda params, chunk: (len(chunk), chunk.sum(axis=0)), None, rows)
    assert count == 6
    np.testing.assert_array_equal(sums, [30.0, 36.0])


def test_parameters_arrive_as_they_are(master: Master) -> None:
    given = {"scale": 3, "names": ["a"], "array": np.arange(5000.0), "big": 1 << 80}
    seen = master.run(lambda params, chunk: [(pickle.dumps(params["array"].sum()), params["big"])], given, [1])
    assert pickle.loads(seen[0][0]) == np.arange(5000.0).sum() and seen[0][1] == 1 << 80


def test_arrays_in_parameters_keep_their_type_and_are_not_to_be_written(master: Master) -> None:
    def look(params: Any, chunk: Any) -> Any:
        rate, short, long = params
        seen = [(type(a).__name__, a.dtype.str, a.shape, a.flags.writeable, a.tolist()) for a in (short, long)]
        return [repr((type(rate).__name__, rate, seen))]

    short, long = np.arange(3, dtype="f4"), np.arange(600.0).reshape(2, 300)
    arrays = [("ndarray", a.dtype.str, a.shape, False, a.tolist()) for a in (short, long)]
    assert master.run(look, (0.25, short, long), [[0]]) == [repr(("float", 0.25, arrays))]


def test_parameters_that_a_function_keeps_stay_what_they_were() -> None:
    def keep(params: Any, chunk: Any) -> Any:
        import sys

        kept: List[Any] = sys.__dict__.setdefault("_kept_parameters", [])
        kept.append(params)
        return [float(array.sum()) for array in kept]

    # With a chunk that is short, and with one that is too long for a message and lies in no shared memory.
    for chunk in (np.zeros((1, 2)), np.zeros((1, 9000))):
        with Master("local:1", run_folder=False) as m:
            for n in range(1, 8):
                got = m.run(keep, np.full(8, float(n)), chunk)
            assert got == [8.0 * n for n in range(1, 8)]


def test_long_results_come_back_whole_and_may_be_written_to(master: Master) -> None:
    value = master.run(lambda params, chunk: np.full(200_000, 0.5), None, [1, 2])
    assert value.shape == (200_000,) and value.sum() == 200_000
    value += 1
    assert value[0] == 2


def test_short_results_may_be_written_to_as_well(master: Master) -> None:
    value = master.run(lambda params, chunk: np.zeros(3))
    value[0] = 7
    assert list(value) == [7, 0, 0]


def test_objects_are_combined_by_their_own_plus(master: Master) -> None:
    from collections import Counter

    words = ["a b", "b c", "c", "a"]
    counted = master.run(lambda params, chunk: Counter(w for line in chunk for w in line.split()), None, words)
    assert counted == Counter("abbcca")


def test_the_report_adds_up(master: Master) -> None:
    master.run(total, None, list(range(100)))
    report = master.last_round
    assert isinstance(report, RoundReport)
    assert report.total > 0 and abs(report.total - report.worker - report.master - report.overhead) < 1e-9
    assert f"round {report.round}: " in repr(report)


def test_on_round_is_told_of_every_round(master: Master) -> None:
    told: List[RoundReport] = []
    for _ in range(3):
        master.run(total, None, [1, 2], on_round=told.append)
    assert [r.round for r in told] == list(range(told[0].round, told[0].round + 3))


def test_several_threads_may_use_one_master(master: Master) -> None:
    values: List[Any] = []

    def use(n: int) -> None:
        for _ in range(10):
            values.append(master.run(lambda params, chunk: params * sum(chunk), n, [1, 2, 3]) / n)

    threads = [threading.Thread(target=use, args=(n,)) for n in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert values == [6.0] * 40


def test_workers_come_and_go(master: Master) -> None:
    kind = repr(master)
    name = master.workers[0].name
    assert name == "local" and master.remove_worker("nobody") is False
    with pytest.raises(ValueError):
        master.add_workers("inproc:1" if "local" in kind else "local:1")


def test_the_journal_tells_what_happened(master: Master) -> None:
    master.run(total, None, [1])
    kinds = {entry.kind for entry in master.journal}
    assert {"worker joined", "round started", "round over"} <= kinds


@pytest.mark.parametrize("workers", ["auto:inproc:2", "auto:local:2"])
def test_auto_explains_its_choice_for_every_function(workers: str) -> None:
    def count(params: Any, chunk: Any) -> int:
        return len(chunk)

    with Master(workers, run_folder=False) as m:
        data = qjam.DataSet([1, 2, 3])
        for _ in range(3):
            assert m.run(total, None, data) == 6 and m.run(count, None, data) == 3
        told = m.explain()
        assert "test_master.total over" in told and "count over" in told and told.count("in 3 chunks, 3 rounds\n") == 2


# ---- limits ------------------------------------------------------------------------------------------------------


def test_a_round_that_takes_too_long_is_cancelled_and_the_next_one_works(master: Master) -> None:
    def slow(params: Any, chunk: Any) -> int:

        for _ in range(6000):
            time.sleep(0.01)
        return 1

    with pytest.raises(qjam.TimedOut, match="longer than 0.3 s.*waited for local") as told:
        master.run(slow, None, [1], timeout=0.3)
    assert isinstance(told.value, TimeoutError)
    assert master.run(total, None, [1, 2, 3], timeout=HANG_S) == 6


@pytest.mark.parametrize("wrong", [-1, float("nan")])
def test_a_timeout_without_sense_is_refused(master: Master, wrong: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        master.run(total, None, [1], timeout=wrong)


@pytest.mark.parametrize("workers", [*KINDS, "auto:local:2", "auto:inproc:2"])
def test_ctrl_c_gives_the_prompt_back_and_the_next_round_works(workers: str, tmp_path: Path) -> None:
    script = f"""
{PRESSING}
from qjam import Master
began = {str(tmp_path / "began")!r}
def slow(params, chunk):
    import time
    open(began, "w").close()
    for _ in range(18000):
        time.sleep(0.01)
    return 1
m = Master({workers!r})
m.run(lambda p, c: 1)
ctrl_c_when_there(began)
try:
    m.run(slow, None, [1, 2])
except KeyboardInterrupt:
    print("interrupted")
print(m.run(lambda p, c: sum(c), None, [20, 22]))
m.close()
"""
    done = running(script)
    assert done.stdout.splitlines() == ["interrupted", "42"], done.stderr


# ---- the end -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", KINDS)
def test_a_closed_master_says_so(workers: str) -> None:
    m = Master(workers, run_folder=False)
    pending = m.submit(total, None, [1, 2])
    m.close()
    m.close()
    assert m.closed and "closed" in repr(m)
    for use in (lambda: m.run(total, None, [1]), lambda: m.workers, lambda: m.submit(total)):
        with pytest.raises(qjam.MasterClosed):
            use()
    try:
        assert pending.result(10) == 3  # it may have been over before
    except (qjam.MasterClosed, qjam.Cancelled):
        pass


def test_closing_ends_the_wait_of_other_threads(tmp_path: Path) -> None:
    m = Master("local:1", run_folder=False)
    ended: List[Any] = []
    began = str(tmp_path / "began")

    def slow(params: Any, chunk: Any) -> Any:

        open(began, "w").close()
        time.sleep(600)

    def wait() -> None:
        try:
            m.run(slow, None, [1])
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(is_there(began), "the round")
    m.close()
    thread.join(HANG_S)
    assert not thread.is_alive() and isinstance(ended[0], qjam.MasterClosed)


def children_of(pid: int) -> List[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            state, parent = stat.rpartition(")")[2].split()[:2]
            if int(parent) == pid and state != "Z":
                found.append(int(entry.name))
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("end", ["pass", "raise RuntimeError('no')", "import sys; sys.exit(3)", "os.kill(os.getpid(), 9)"])
def test_no_process_is_left_however_the_program_ends(end: str) -> None:
    script = f"""
import os
from qjam import Master
m = Master("local:2")
print(*m.run(lambda p, c: [[__import__("os").getpid()]], None, [1, 2]) and [1], flush=True)
for entry in os.listdir("/proc"):
    if entry.isdigit():
        try:
            stat = open(f"/proc/{{entry}}/stat").read()
        except OSError:
            continue
        if int(stat.rpartition(")")[2].split()[1]) == os.getpid():
            print(entry, flush=True)
{end}
"""
    done = running(script)
    pids = [int(line) for line in done.stdout.splitlines()[1:]]
    assert pids, done.stderr
    wait_until(lambda: not any(map(is_alive, pids)), "the end of all processes")


def test_a_thread_that_waits_does_not_keep_the_program_from_ending(tmp_path: Path) -> None:
    script = f"""
import os, threading, time
from qjam import Master
began = {str(tmp_path / "began")!r}
def slow(params, chunk):
    import time
    open(began, "w").close()
    time.sleep(600)
m = Master("local:1")
threading.Thread(target=lambda: m.run(slow, None, [1]), daemon=True).start()
while not os.path.exists(began):
    time.sleep(0.002)
"""
    done = running(script)
    assert done.returncode == 0, done.stderr


def test_a_forked_process_may_not_use_the_master_and_can_end() -> None:
    script = """
import os
from qjam import Master
m = Master("local:1")
m.run(lambda p, c: 1)
pid = os.fork()
if pid == 0:
    try:
        m.run(lambda p, c: 1)
    except RuntimeError as e:
        print("forked from it" in str(e), flush=True)
else:
    os.waitpid(pid, 0)
    print(m.run(lambda p, c: 2))
"""
    done = running(script)
    assert done.stdout.split() == ["True", "2"], done.stderr


def test_a_master_that_nobody_has_any_more_ends_its_workers() -> None:
    m = Master("local:1", run_folder=False)
    m.run(total, None, [1])
    before = children_of(os.getpid())
    assert before
    del m
    wait_until(lambda: set(before) - set(children_of(os.getpid())), "the end of its workers")


def test_a_master_cannot_be_pickled(master: Master) -> None:
    with pytest.raises(TypeError, match="stays in the process"):
        pickle.dumps(master)


# ---- what is told ------------------------------------------------------------------------------------------------


def test_what_functions_print_is_seen_with_the_workers_name() -> None:
    script = """
from qjam import Master
with Master("local:1") as m:
    m.run(lambda p, c: print("hello from there") or 1, None, [1])
"""
    done = running(script)
    assert "] hello from there" in done.stderr and "local" in done.stderr, done.stderr


def test_what_functions_print_goes_through_logging_if_that_is_set_up() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))
    logger = logging.getLogger("qjam")
    logger.addHandler(handler)
    try:
        with Master("local:1", run_folder=False) as m:
            m.run(lambda p, c: print("seven") or 1, None, [1])
    finally:
        logger.removeHandler(handler)
    lines = [line for line in stream.getvalue().splitlines() if "seven" in line]
    assert len(lines) == 1 and lines[0].startswith("qjam.worker INFO [local")


@pytest.mark.parametrize("workers", ["local:1", "proc:1"])
def test_what_functions_log_keeps_its_level(workers: str) -> None:
    records: List[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    def speak(params: Any, chunk: Any) -> int:
        import logging
        import warnings

        logging.getLogger("mine").warning("late\nand slow")
        logging.getLogger("mine").error("wrong")
        logging.basicConfig(format="%(levelname)s:%(message)s", level=logging.DEBUG)
        logging.getLogger("mine").debug("detail")
        logging.getLogger("mine").warning("careful")
        warnings.warn("old", stacklevel=1)
        print("said")
        raise ValueError("no")

    logger, handler = logging.getLogger("qjam.worker"), Keep()
    logger.addHandler(handler)
    try:
        with Master(workers, run_folder=False) as m, pytest.raises(ValueError) as raised:
            m.run(speak, None, [1])
    finally:
        logger.removeHandler(handler)
    said = {record.getMessage().partition("] ")[2]: record.levelname for record in records}
    assert [said[line] for line in ("late", "and slow", "wrong", "DEBUG:detail", "WARNING:careful", "said")] == [
        "WARNING",
        "WARNING",
        "ERROR",
        "INFO",
        "WARNING",
        "INFO",
    ]
    assert [said[line] for line in said if "UserWarning: old" in line] == ["WARNING"]
    assert isinstance(raised.value.__cause__, RemoteError)
    assert raised.value.__cause__.last_lines[:3] == ["late", "and slow", "wrong"]


def test_nothing_is_printed_for_short_loops_or_where_nobody_looks() -> None:
    script = """
from qjam import Master
with Master("inproc:1") as m:
    for _ in range(20):
        m.run(lambda p, c: 1)
"""
    done = running(script)
    assert (done.stdout, done.stderr) == ("", "")


def test_the_line_says_how_rounds_are_coming_along() -> None:
    script = """
import time
from qjam import Master
with Master("inproc:2", progress=True) as m:
    for _ in range(5):
        m.run(lambda p, c: __import__("time").sleep(0.2) or 1)
"""
    done = running(script)
    # How many rounds it counts hangs on how long the machine takes between them; the next test says which.
    assert re.search(r"\d rounds?, ", done.stderr) and "2 workers" in done.stderr and "\r" in done.stderr
    assert done.stderr.endswith("\n")


def test_the_line_counts_the_time_of_rounds_and_not_the_time_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from qjam import _progress

    now = [100.0]
    monkeypatch.setattr("qjam._progress.time.monotonic", lambda: now[0])
    line = _progress.Line(lambda: 2, 0.0)
    shown: List[str] = []
    monkeypatch.setattr(line, "_write", shown.append)
    for _ in range(4):
        line.begin()
        now[0] += 0.5
        line.pause()
        line.end()
        now[0] += 3.0  # what the program does with the value
    assert shown[-1].strip() == "4 rounds, 2 s, 2.0 rounds/s, 2 workers"
    # Two threads that wait at the same time wait once.
    line.begin()
    line.begin()
    now[0] += 2.0
    line.pause()
    line.pause()
    line.end()
    line.end()
    line.close()
    assert shown[-1].strip() == "6 rounds, 4 s, 1.5 rounds/s, 2 workers"


def test_a_round_that_fails_or_is_left_waiting_does_not_count_the_time_after_it() -> None:
    from qjam import _progress

    with Master("local:1", progress=True, run_folder=False) as m:
        line = m._line
        assert isinstance(line, _progress.Line)
        with pytest.raises(ZeroDivisionError):
            m.run(lambda p, c: 1 // 0, None, [1])
        assert line._waiting == 0
        pending = m.submit(total, None, [1])
        pending.result()
        assert (line._waiting, line.rounds) == (0, 1)
        held = m.hold(lambda chunk: [0], [1])
        held.run(lambda p, c, s: 1)
        assert (line._waiting, line.rounds) == (0, 2)


def test_any_bar_with_update_is_told_of_rounds(master: Master) -> None:
    class Bar:
        seen = 0

        def update(self, n: int) -> None:
            self.seen += n

    bar = Bar()
    for _ in range(3):
        master.run(total, None, [1], progress=bar)
    assert bar.seen == 3
    with pytest.raises(TypeError, match=r"update\(1\)"):
        master.run(total, None, [1], progress="yes")


@pytest.mark.parametrize(
    "body",
    [
        "pass",
        "time.sleep(0.001)",
        """
        try:
            time.sleep(0.001)
        except BaseException:
            pass""",
    ],
    ids=["computes", "sleeps", "swallows"],
)
def test_ctrl_c_never_aborts_a_program_with_functions_of_its_own_process(body: str, tmp_path: Path) -> None:
    script = """
import sys, time
{PRESSING}
from qjam import Master
def endless(params, chunk):
    open(sys.argv[1], "a").close()
    while True:
        {body}
ctrl_c_when_there(sys.argv[1])
Master("inproc:2", run_folder=False).run(endless, None, [1, 2, 3, 4])
"""
    program = tmp_path / "program.py"
    program.write_text(script.format(PRESSING=PRESSING, body=body))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    ends = []
    for n in range(20):
        command = [sys.executable, str(program), str(tmp_path / f"begun {n}")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, env=env)
        ends.append(done.returncode)
        assert "KeyboardInterrupt" in done.stderr
    assert ends == [-signal.SIGINT] * 20


def test_released_states_say_so() -> None:
    with Master("local:1", run_folder=False) as m:
        held = m.hold(lambda chunk: [0], [1])
        held.run(lambda p, c, s: 1)
        held.release()
        for use in (
            lambda: held.run(lambda p, c, s: 1),
            lambda: held.submit(lambda p, c, s: 1),
            held.collect,
            held.checkpoint,
        ):
            with pytest.raises(Released, match="released.*hold the data set again"):
                use()
        held.release()
        assert m.run(total, None, [1, 2]) == 3
    with pytest.raises(MasterClosed):
        held.collect()


# ---- resuming ----------------------------------------------------------------------------------------------------


def test_a_run_goes_on_from_what_is_known(tmp_path: Path) -> None:
    script = f"""
{RECORDED}
from qjam import Master
def count(params, chunk):
    print("computed")
    return params + sum(chunk)
m = Master("local:1", run_folder={str(tmp_path)!r}, resume="last")
print(m.run(count, 5, [1, 2]), flush=True)
wait_until_recorded({str(tmp_path)!r}, 1)
os.kill(os.getpid(), 9)
"""
    path = tmp_path / "program.py"
    path.write_text(script)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    outcome = []
    for _ in range(2):
        done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=HANG_S, env=env)
        assert done.stdout.split() == ["13"], done.stderr
        assert done.returncode == -signal.SIGKILL
        outcome.append(done.stderr.count("computed"))
    assert outcome == [2, 0]
