"""Python functions on workers that share a folder and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

import numpy as np
import pytest
from events import HANG_S, wait_until

import qjam
from qjam._find import worker


def command(*args: str, key: Optional[Path] = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(worker()), *args], env=environment(key), capture_output=True, text=True, timeout=HANG_S
    )


def environment(key: Optional[Path]) -> Dict[str, str]:
    path = os.pathsep.join(part for part in sys.path if part)
    more = {"QJAM_PYTHON": sys.executable, "QJAM_RUNS": "off", "PYTHONPATH": path}
    return {**os.environ, **more, "QJAM_STORE_KEY": str(key) if key else ""}


class Bucket:
    """A folder, or a bucket that was made elsewhere, and a key."""

    def __init__(self, path: Path, url: Optional[str] = None) -> None:
        folder = path / "bucket"
        folder.mkdir()
        self.url = url or f"file://{folder}"
        self.workers = f"store:{self.url}"
        self.key = path / "key"
        assert command("store", "key", str(self.key)).returncode == 0

    def messages(self) -> List[Path]:
        """The messages that wait, of a folder."""
        return sorted(Path(self.url[len("file://") :]).glob("queues/*/ready/*"))

    def status(self) -> Any:
        return json.loads(command("store", "status", self.url, "--json", key=self.key).stdout)

    @contextlib.contextmanager
    def served(self, count: int, *, signed: bool = True) -> Iterator[List[subprocess.Popen[bytes]]]:
        key = self.key if signed else None
        args = [str(worker()), "store", "serve", self.url, "--slots", "1", "--name"]
        processes = [
            subprocess.Popen([*args, f"w{n}"], env=environment(key), stdout=subprocess.DEVNULL)
            for n in range(count)
        ]
        try:
            yield processes
        finally:
            for process in processes:
                process.kill()
                process.wait()
            wait_until(lambda: not self.status()["workers"], "that workers leave")


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    made = Bucket(tmp_path)
    monkeypatch.setenv("QJAM_STORE_KEY", str(made.key))
    monkeypatch.setenv("QJAM_RUNS", "off")
    return made


def moments(power: float, chunk: Any) -> Any:
    return (np.abs(chunk) ** power).sum(axis=0)


def words(_: Any, chunk: Any) -> Dict[str, int]:
    counts: Dict[str, int] = {}
    for word in chunk:
        counts[word] = counts.get(word, 0) + 1
    return counts


def together(left: Dict[str, int], right: Dict[str, int]) -> Dict[str, int]:
    return {word: left.get(word, 0) + right.get(word, 0) for word in sorted({*left, *right})}


def test_python_functions_have_the_bits_of_other_workers(bucket: Bucket) -> None:
    x = np.sin(np.arange(3000.0) * 0.37).reshape(1000, 3) * 1e3
    text = [f"word{n % 17}" for n in range(400)]
    with qjam.Master("local:2", progress=False) as m:
        wanted = [m.run(moments, power, x) for power in (1.0, 2.5, 3.0)]
        counted = m.run(words, None, text, reduce=together)
    with bucket.served(3), qjam.Master(bucket.workers, progress=False) as m:
        for power, expected in zip((1.0, 2.5, 3.0), wanted):
            assert m.run(moments, power, x).tobytes() == expected.tobytes()
        assert m.run(words, None, text, reduce=together) == counted


def fatal_moments(params: Any, chunk: Any) -> Any:
    """Kills the process that runs it, the first two times that it is called at all."""
    power, folder = params
    for mark in ("first", "second"):
        with contextlib.suppress(FileExistsError):
            os.close(os.open(os.path.join(folder, mark), os.O_CREAT | os.O_EXCL))
            os.kill(os.getppid(), signal.SIGKILL)
            signal.pause()
    return (np.abs(chunk) ** power).sum(axis=0)


def test_python_functions_have_the_same_bits_when_workers_die_and_messages_come_twice(
    bucket: Bucket, tmp_path: Path
) -> None:
    x = np.sin(np.arange(300_000.0) * 0.37).reshape(100_000, 3) * 1e3
    with qjam.Master("local:2", progress=False) as m:
        wanted = m.run(moments, 2.5, x)
    marks = tmp_path / "marks"
    marks.mkdir()
    with qjam.Master(bucket.workers, progress=False) as m:
        pending = m.submit(fatal_moments, (2.5, str(marks)), x)
        wait_until(lambda: bool(bucket.messages()), "that there are tasks")
        tasks = bucket.messages()
        # A message's name is its place in the queue and how often it was delivered.
        for path in tasks:
            place, _, count = path.name.rpartition(".")
            shutil.copy(path, path.with_name(f"{place}-again.{count}"))
        assert len(bucket.messages()) >= 2 * len(tasks) > 2
        with bucket.served(2):
            assert pending.result().tobytes() == wanted.tobytes()
    assert sorted(path.name for path in marks.iterdir()) == ["first", "second"]


def test_exceptions_come_home(bucket: Bucket) -> None:
    def fails(_: Any, chunk: Any) -> Any:
        raise KeyError("missing")

    with bucket.served(1), qjam.Master(bucket.workers, progress=False) as m:
        with pytest.raises(KeyError, match="missing"):
            m.run(fails, None, [1, 2, 3])
        assert m.run(lambda _, chunk: sum(chunk), None, [1, 2, 3]) == 6


def test_states_stay_in_the_bucket_when_workers_go(bucket: Bucket) -> None:
    def add(by: float, chunk: Any, state: Any) -> Any:
        state["total"] = state.get("total", 0.0) + by * float(np.sum(chunk))
        return state["total"]

    def story(m: qjam.Master, between: Any) -> List[float]:
        held: Any = m.hold(lambda chunk: {}, np.arange(12.0))
        values = []
        for by in (1.0, 2.0, 5.0):
            values.append(held.run(add, by))
            between()
        return values

    with qjam.Master("local:2", progress=False) as m:
        wanted = story(m, lambda: None)
    with contextlib.ExitStack() as served:
        served.enter_context(bucket.served(1))

        def replace_workers() -> None:
            served.close()
            served.enter_context(bucket.served(1))

        with qjam.Master(bucket.workers, progress=False) as m:
            assert story(m, replace_workers) == wanted


def test_without_a_key_nothing_is_unpickled(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QJAM_STORE_KEY")
    with bucket.served(1, signed=False), qjam.Master(bucket.workers, progress=False) as m:
        with pytest.raises(qjam.errors.QjamError, match="only if submitter and workers share a key"):
            m.run(lambda _, chunk: sum(chunk), None, [1, 2, 3])


def test_a_learner_runs_without_a_key(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    from qjam.learn import KMeans, close_workers

    monkeypatch.delenv("QJAM_STORE_KEY")
    x = np.sin(np.arange(900.0) * 0.37).reshape(300, 3)
    wanted = KMeans(3, random_state=1, workers="local:2").fit(x).cluster_centers_
    with bucket.served(2, signed=False):
        found = KMeans(3, random_state=1, workers=bucket.workers).fit(x).cluster_centers_
        close_workers(bucket.workers)
    assert found.tobytes() == wanted.tobytes()


PROGRAM = """
import os, sys
import qjam

def total(params, chunk):
    return params + sum(chunk)

with qjam.Master(sys.argv[1], progress=False) as m:
    value = 1
    for n in range(6):
        value = m.run(total, value % 1000, list(range(n, 40)))
        if n == 3 and os.environ.get("STOPS"):
            os.kill(os.getpid(), 9)
    print("value", value, flush=True)
"""


def test_a_program_that_was_killed_is_resumed(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(*args: str, stops: str = "") -> subprocess.CompletedProcess[str]:
        more = {**environment(bucket.key), "STOPS": stops}
        return subprocess.run(
            args, env=more, cwd=str(tmp_path), capture_output=True, text=True, timeout=HANG_S
        )

    script = [sys.executable, "program.py"]
    wanted = run(*script, "local:2").stdout
    assert wanted.startswith("value ")
    with bucket.served(2):
        assert run(*script, f"{bucket.workers}?job=night", stops="1").returncode == -9
        assert [job["name"] for job in bucket.status()["jobs"]] == ["night"]
        assert bucket.status()["jobs"][0]["rounds"] == 4
        again = run(str(worker()), "store", "resume", bucket.url, "night")
        assert (again.returncode, again.stdout) == (0, wanted), again.stderr
        assert bucket.status()["jobs"] == []
