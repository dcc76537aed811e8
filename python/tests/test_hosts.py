"""Python functions on other hosts, over a real ssh: the test hosts of ``cargo xtask hosts up``.

Two of them have Python with NumPy (``py``, ``py2``), one has Python alone (``nonp``), the others have none (``d``). None has
qjam. Where they are is said by ``QJAM_TEST_HOSTS``, how they are reached by ``QJAM_SSH``:

    export QJAM_TEST_HOSTS=$PWD/target/hosts QJAM_SSH="ssh -F $PWD/target/hosts/ssh_config"
    python -m pytest python/tests/test_hosts.py
"""

from __future__ import annotations

import collections
import fcntl
import hashlib
import importlib
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List

import numpy as np
import pytest
from events import HANG_S, wait_until
from far import Tally, moments, numerics, slowly, tally

import qjam
from qjam import Master, RemoteWorker

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples" / "python" / "report" / "examples"


def folder() -> Path:
    """Where the hosts are."""
    named = os.environ.get("QJAM_TEST_HOSTS")
    if not named or not os.environ.get("QJAM_SSH"):
        pytest.fail("these tests need hosts, named by QJAM_TEST_HOSTS and QJAM_SSH; `cargo xtask test` makes them")
    return Path(named)


def facts() -> Dict[str, str]:
    """What ``hosts.txt`` says."""
    lines = (folder() / "hosts.txt").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def processes(host: str) -> Dict[int, str]:
    """What runs on a host, by the numbers of our machine; the server's own processes aside."""
    uid = facts()[host + ".uid"]
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            status = (entry / "status").read_text()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"\nUid:\t{uid}\t" in status and "\nState:\tZ" not in status and not command.startswith("sshd"):
            found[int(entry.name)] = command
    return found


@pytest.fixture(autouse=True)
def hosts() -> Iterator[None]:
    """Nobody else uses the hosts meanwhile, and nothing is left on them afterwards."""
    names = ["d", "nonp", "py", "py2"]
    claims = []
    for name in names:
        claim = open(folder() / f"claim-{name}", "w")
        fcntl.flock(claim, fcntl.LOCK_EX)
        claims.append(claim)
    yield
    wait_until(lambda: not any(processes(name) for name in names), "the end of all processes on hosts")
    for claim in claims:
        claim.close()


def master(workers: Any, **options: Any) -> Master:
    """One that leaves no run file."""
    return Master(workers, run_folder=False, progress=False, **options)


def cached(host: str) -> List[str]:
    """The files of chunks that a host keeps."""
    cache = Path(facts()[host + ".home"]) / ".cache" / "qjam" / "cache"
    return sorted(f"{path.name} {path.stat().st_size}" for path in cache.glob("*.pack"))


def rows(seed: int = 1) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal((2000, 8))


def digest(value: Any) -> str:
    parts = [np.asarray(part).tobytes() for part in value]
    return hashlib.sha256(b"".join(parts)).hexdigest()


# ---- what hosts compute with -------------------------------------------------------------------------------------


def test_hosts_that_compute_with_something_else_are_told_once(caplog: Any, monkeypatch: Any) -> None:
    name = "numpy._core._multiarray_umath"
    core = importlib.import_module(name if int(np.__version__.split(".")[0]) > 1 else name.replace("_core", "core"))
    used = [name for name in core.__cpu_dispatch__ if core.__cpu_features__.get(name)]
    assert used, "this processor has nothing that NumPy could do without"

    def told() -> List[str]:
        caplog.clear()
        with master("py*1,py2*1") as m:
            assert [m.run(moments, 1.0, rows())[2] for _ in range(2)] == [2000, 2000]
        return [record.getMessage() for record in caplog.records if "interpreters differ" in record.getMessage()]

    assert told() == [], "all of them use one processor and one NumPy"
    # As if hosts had older processors.
    name = "python-of-an-older-processor"
    for host in ("py", "py2"):
        bin_ = Path(facts()[host + ".home"]) / ".local" / "bin"
        bin_.mkdir(parents=True, exist_ok=True)
        less = f"NPY_DISABLE_CPU_FEATURES='{' '.join(used)}' OPENBLAS_CORETYPE=Prescott"
        (bin_ / name).write_text(f'#!/bin/sh\n{less} exec /usr/bin/python3 "$@"\n')
        (bin_ / name).chmod(0o755)
    monkeypatch.setenv("QJAM_REMOTE_PYTHON", name)
    said = told()
    assert len(said) == 1 and "different CPU features: this machine; py and py2." in said[0], said
    # OpenBLAS has its own names for kernels: they are told, whatever they are.
    assert re.search(r"different libraries for linear algebra \(BLAS\): [^;]* with kernels for \w+ \(py, py2\)", said[0]), said
    caplog.clear()
    with master("local:1") as m:
        m.add_workers("py*1")
        m.run(moments, 1.0, rows())
    assert "different CPU features: this machine; py." in caplog.text, "hosts that are added are compared, too"


def test_how_libraries_compute_is_chosen_here_for_all_hosts(monkeypatch: Any) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("UNRELATED", "stays here")
    monkeypatch.delenv("NPY_DISABLE_CPU_FEATURES", raising=False)
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    with master("py*1") as m:
        assert m.run(numerics, None, ["a"]) == [("Prescott", "", "3", "1", "")]


# ---- what runs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program, expected",
    [
        ("sum_matrix_example.py", ["Result is: 78"]),
        (
            "all_examples.py",
            ["207900", "165", "14850", "5050", "170.0", "1.414213562373095", "84", "3 4 2"],
        ),
    ],
)
def test_the_programs_of_the_report_run_as_printed_on_localhost(
    program: str, expected: List[str], tmp_path: Path
) -> None:
    known = facts()
    config = tmp_path / "ssh_config"
    config.write_text(
        f"Host localhost\n    HostName {known['py.ip']}\n    User {known['py.user']}\n"
        f"Include {folder() / 'ssh_config'}\n"
    )
    environment = {**os.environ, "QJAM_SSH": f"ssh -F {config}", "QJAM_RUNS": "off"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / program), "localhost", "localhost"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert done.returncode == 0, done.stderr
    for result in expected:
        assert any(line.endswith(result) for line in done.stdout.splitlines()), (result, done.stdout)


def test_the_bits_do_not_depend_on_where_it_runs() -> None:
    data = qjam.DataSet(rows(), slice_size=37)
    seen = {}
    for workers in ["local:1", "local:2", "proc:2", "py*1", "py*2,py2*3", "py2*1,proc:1,local:1"]:
        with master(workers) as m:
            seen[workers] = digest(m.run(moments, 0.3, data))
    assert len(set(seen.values())) == 1, seen


def test_interpreters_on_hosts_that_are_killed_change_nothing() -> None:
    data = qjam.DataSet(rows(), slice_size=37)

    with master("local:1") as m:
        expected = digest(m.run(moments, 0.3, data))
    with master([RemoteWorker("py", slots=2), RemoteWorker("py2")]) as m:
        m.run(slowly, 0.3, data)
        for host in ["py", "py2", "py"]:
            victims = [pid for pid, command in processes(host).items() if "python" in command]
            assert victims, processes(host)
            pending = m.submit(slowly, 0.3, data)
            os.kill(victims[0], signal.SIGKILL)
            assert digest(pending.result(HANG_S)) == expected


def test_data_goes_to_a_host_once() -> None:
    data = rows(int(time.time()))  # new in every run of this test
    with master([RemoteWorker("py")]) as m:
        m.run(moments, 1.0, data)
        first = m.last_round
        m.run(moments, 2.0, data)
        second = m.last_round
    assert first is not None and first.chunks_sent > 0 and first.bytes_out > data.nbytes
    assert second is not None and second.chunks_sent == 0 and second.bytes_out < 20_000


def test_closures_and_classes_travel_to_hosts_without_qjam() -> None:
    weight = 3

    def weighed(params: Any, chunk: Any) -> Any:
        return weight * sum(chunk)

    with master("py*1,py2*1") as m:
        found = m.run(tally, 3, list(range(100)))
        assert isinstance(found, Tally) and found.count == 300
        assert m.run(weighed, None, [1, 2, 3]) == 18
        assert m.run(lambda params, chunk: params[0] * sum(chunk), (2,), [1, 2, 3]) == 12


def test_an_exception_on_a_host_is_the_users_own() -> None:
    def wrong(params: Any, chunk: Any) -> Any:
        print("looking at", len(chunk))
        raise KeyError("no such row")

    with master("py*1") as m:
        with pytest.raises(KeyError, match="no such row") as told:
            m.run(wrong, None, [1, 2, 3])
        cause = told.value.__cause__
        assert isinstance(cause, qjam.RemoteError) and cause.host == "py" and cause.chunk == 0
        assert 'raise KeyError("no such row")' in cause.remote_traceback
        assert m.run(moments, 1.0, rows())[2] == 2000


def test_state_stays_on_hosts() -> None:
    def begin(chunk: Any) -> Dict[str, float]:
        return {"sum": float(np.sum(chunk))}

    def step(params: float, chunk: Any, state: Dict[str, float]) -> float:
        state["sum"] += params
        return state["sum"]

    data = rows()
    sums = {}
    for workers in ["local:2", "py*1,py2*1"]:
        with master(workers) as m, m.hold(begin, data) as held:
            held.run(step, 1.0)
            sums[workers] = held.run(step, 2.0)
    assert sums["local:2"] == sums["py*1,py2*1"]


# ---- what is missing ---------------------------------------------------------------------------------------------


def test_what_hosts_lack_is_one_table_before_any_data_moves() -> None:
    names = ["d", "nonp", "py"]
    before = [cached(name) for name in names]
    data = rows(int(time.time()) + 1)
    with master("py*1,nonp*1,d*1") as m:
        with pytest.raises(qjam.MissingPackages) as told:
            m.run(moments, 1.0, data)
        assert isinstance(told.value, ImportError) and isinstance(told.value, qjam.RemoteWorkerError)
        assert not [entry for entry in m.journal if entry.kind.startswith("round")], m.journal
        assert m.last_round is None
    text = str(told.value)
    version = facts()["python_version"]
    assert text.startswith(f"2 of 3 hosts cannot run this function, which needs Python {version} and numpy:")
    lines = {line.split()[0]: line for line in text.splitlines()[1:]}
    assert list(lines) == ["host", "py", "nonp", "d"]
    assert lines["py"].endswith("nothing")
    assert f"/usr/bin/python{version} -m pip install numpy" in lines["nonp"]
    assert f"no Python {version}" in lines["d"] and "QJAM_REMOTE_PYTHON" in lines["d"]
    assert [cached(name) for name in names] == before


def test_a_package_that_a_host_lacks_is_named_before_any_data_moves() -> None:
    def solved(params: Any, chunk: Any) -> Any:
        import scipy.linalg

        return scipy.linalg.norm(chunk)

    before = cached("py")
    with master("py*1") as m:
        with pytest.raises(qjam.MissingPackages, match="-m pip install scipy"):
            m.run(solved, None, rows(int(time.time()) + 2))
        assert not [entry for entry in m.journal if entry.kind.startswith("round")], m.journal
        assert cached("py") == before
        assert m.run(moments, 1.0, rows())[2] == 2000, "the master stays usable"


def test_an_interpreter_that_was_named_is_used_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QJAM_REMOTE_PYTHON", "/opt/no/python")
    with master("py*1") as m:
        with pytest.raises(
            qjam.MissingPackages,
            match="QJAM_REMOTE_PYTHON says /opt/no/python, which is not there: name another one, or unset it",
        ):
            m.run(moments, 1.0, rows())
    monkeypatch.setenv("QJAM_REMOTE_PYTHON", "/usr/bin/python3")
    with master("py*1") as m:
        assert m.run(lambda params, chunk: {sys.executable}, None, [1]) == {"/usr/bin/python3"}


# ---- the end -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_on_hosts_when_the_program_is_ended(how: signal.Signals) -> None:
    script = (
        "import time, qjam\n"
        "def slow(params, chunk):\n    print('began', flush=True)\n    time.sleep(1000)\n"
        "m = qjam.Master('py*1,py2*1', run_folder=False)\n"
        "print(m.run(lambda params, chunk: sum(chunk), None, [1, 2]), flush=True)\n"
        "m.run(slow, None, [1, 2])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    program = subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert program.stdout is not None and program.stdout.readline().strip() == b"3"
        # What functions print on hosts is told on standard error.
        assert program.stderr is not None and any(b"began" in line for line in program.stderr)
        assert any("python" in command for command in processes("py").values()), processes("py")
        program.send_signal(how)
        program.wait(timeout=HANG_S)
    finally:
        program.kill()
        program.wait()
        for pipe in (program.stdout, program.stderr):
            if pipe is not None:
                pipe.close()
    wait_until(lambda: not processes("py") and not processes("py2"), "the end of all processes on hosts")


# ---- learners ----------------------------------------------------------------------------------------------------


def test_learners_run_on_hosts_without_python_with_the_same_bits_and_rows_are_sent_once() -> None:
    from qjam.learn import KMeans, _masters, close_workers

    def sent() -> int:
        reports = [entry.text for entry in _masters.master_for("d,py").journal if entry.kind == "report"]
        return sum(int(re.findall(r"(\d+) sent to hosts", text)[0]) for text in reports)

    expected = KMeans(5, random_state=0, workers="local:1").fit(rows(7))
    fit = KMeans(5, random_state=0, workers="d,py").fit(rows(7))
    assert fit.cluster_centers_.tobytes() == expected.cluster_centers_.tobytes()
    assert fit.labels_.tobytes() == expected.labels_.tobytes()
    first = sent()
    for tol in (1e-3, 1e-2, 1e-1):
        KMeans(5, random_state=0, tol=tol, workers="d,py").fit(rows(7))
    # Eight chunks on two hosts: each has had each once at most.
    assert 8 <= first and sent() <= 16
    close_workers()


# ---- hosts that mean harm ----------------------------------------------------------------------------------------


def test_a_hostile_host_gets_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "owned"
    # The host's own interpreter may run it, and has no such folder.
    harm = f"open({str(mark)!r}, 'w') if __import__('os').path.isdir({str(tmp_path)!r}) else None"

    def taken_over(params: Any, chunk: Any) -> Any:
        """What whoever has taken over a host does to its interpreter: all pickles are another one."""
        import pickle

        text = params["harm"].encode()
        call = b"\x80\x05\x8c\x08builtins\x8c\x04eval\x93X" + len(text).to_bytes(4, "little") + text + b"\x85R."
        pickle.dumps = lambda *_, **__: call
        if params["raises"]:
            # It is read again there before it is sent.
            pickle.loads = lambda *_, **__: ValueError("any")
            raise ValueError("any")
        return {"any": "value"}

    def step(params: Any, chunk: Any, state: Any) -> Any:
        taken_over(params, chunk)
        return 1

    for raises, refused in ((False, qjam.RefusedResult), (True, qjam.RemoteError)):
        with master("py*1") as m:
            with pytest.raises(refused):
                m.run(taken_over, {"harm": harm, "raises": raises}, [1])
    with master("py*1,py2*1") as m:
        held: Any = m.hold(lambda chunk: {}, qjam.DataSet([1, 2, 3, 4], slice_size=1))
        assert held.run(step, {"harm": harm, "raises": False}) == 4
        with pytest.raises(qjam.RefusedResult):
            held.checkpoint()
        with pytest.raises(qjam.RefusedResult):
            held.collect()
    assert not mark.exists(), "a host has run code on this machine"
    # With the switch that says so, it does.
    with master("py*1", hosts_may_run_code_here=True) as m:
        m.run(taken_over, {"harm": harm, "raises": False}, [1])
    assert mark.exists()


@pytest.mark.parametrize("elsewhere", ["local:1", "py2*1"])
def test_what_a_hostile_host_puts_into_a_state_is_refused_by_the_next_worker(elsewhere: str) -> None:
    class Lies:
        """By its names in order, and made of arguments that no pickler writes."""

        def __reduce__(self) -> Any:
            return collections.deque, (range(5),)

    stream = pickle.dumps({"x": Lies()}, 5)

    def taken_over(params: Any, chunk: Any, state: Any) -> int:
        import pickle

        pickle.dumps = lambda *_, **__: params
        return 1

    def use(params: Any, chunk: Any, state: Any) -> int:
        return len(state["x"])

    with master("py*1") as m:
        host = m.workers[0].name
        held: Any = m.hold(lambda chunk: {}, qjam.DataSet([1, 2, 3, 4], slice_size=1))
        assert held.run(taken_over, stream) == 4
        held.checkpoint()
        m.add_workers(elsewhere)
        assert m.remove_worker(host)
        with pytest.raises(qjam.RefusedResult, match="another host sent a false deque"):
            held.run(use)


@pytest.mark.parametrize("elsewhere", ["local:1", "py2*1"])
def test_states_of_a_host_that_leaves_go_on_elsewhere(elsewhere: str) -> None:
    class Own:
        def __init__(self) -> None:
            self.values = np.zeros(1000)

    def step(params: Any, chunk: Any, state: Any) -> float:
        state["own"].values[chunk[0]] += state["rng"].integers(1, 10)
        return float(state["own"].values.sum())

    def begin(chunk: Any) -> Any:
        return {"own": Own(), "rng": np.random.default_rng(chunk[0])}

    def sums(leaves: bool) -> List[float]:
        with master("py*1") as m:
            host = m.workers[0].name
            held: Any = m.hold(begin, qjam.DataSet([1, 2, 3, 4], slice_size=1))
            found = [held.run(step)]
            if leaves:
                m.add_workers(elsewhere)
                assert m.remove_worker(host)
            return [*found, held.run(step), held.run(step)]

    assert sums(True) == sums(False)


def test_own_classes_and_tables_come_back_from_hosts() -> None:
    class Local:
        def __init__(self, n: int) -> None:
            self.n = n

        def __add__(self, other: Local) -> Local:
            return Local(self.n + other.n)

    data = qjam.DataSet([1, 2, 3, 4], slice_size=1)
    with master("py*1,py2*1") as m:
        result = m.run(lambda params, chunk: Local(chunk[0]), None, data)
        assert type(result) is Local and result.n == 10
        assert type(m.run(tally, 2, data)) is Tally
        assert m.run(lambda params, chunk: {"a": np.ones(3), "b": {str(chunk[0])}}, None, data)["a"].tolist() == [4, 4, 4]
        with pytest.raises(KeyError) as told:
            m.run(lambda params, chunk: dict(a=1)["missing"], None, data)
        assert told.value.args == ("missing",)
