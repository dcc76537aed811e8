"""Programs in Python that were stopped go on from their run files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest
from events import HANG_S, PRESSING, RECORDED

from qjam._find import worker

PROGRAM = (
    RECORDED
    + """
import sys
import qjam

def total(params, chunk):
    return params * sum(chunk)

resume = True if "--resume" in os.environ.get("MODE", "") else None
with qjam.Master("local:1", resume=resume, progress=False) as m:
    value = 1
    for n in range(5):
        if n == 3 and "--stop" in os.environ.get("MODE", ""):
            wait_until_recorded(os.environ["QJAM_RUNS"], n)
            os._exit(9)
        value = m.run(total, value, [1, 2, n])
    recalled = sum(entry.kind == "round recalled" for entry in m.journal)
    print(sys.argv[1:], value, recalled, flush=True)
"""
)


def environment(folder: Path, mode: str = "") -> Dict[str, str]:
    path = os.pathsep.join(part for part in sys.path if part)
    more = {"PYTHONPATH": path, "QJAM_RUNS": str(folder / "runs"), "MODE": mode, "QJAM_RECORD_COST": "inf"}
    return {**os.environ, **more}


def run(folder: Path, command: List[str], mode: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=environment(folder, mode),
        cwd=str(folder),
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )


def test_a_script_goes_on_from_where_it_was_stopped(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    script = [sys.executable, "program.py", "7"]
    whole = run(tmp_path, script)
    assert whole.returncode == 0, whole.stderr
    expected = whole.stdout.replace(" 0\n", "")
    assert run(tmp_path, script, "--stop").returncode == 9
    again = run(tmp_path, script, "--resume")
    assert again.returncode == 0, again.stderr
    assert again.stdout == f"{expected} 3\n", (again.stdout, again.stderr)
    other = run(tmp_path, [sys.executable, "program.py", "8"], "--resume")
    assert other.stdout.endswith(" 0\n"), "other arguments make another run"


def test_the_command_starts_the_script_again(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    assert run(tmp_path, [sys.executable, "program.py", "a b"], "--stop").returncode == 9
    again = run(tmp_path, [worker(), "resume", "last"])
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("['a b'] ") and again.stdout.endswith(" 3\n"), (again.stdout, again.stderr)
    shown = run(tmp_path, [worker(), "replay", "last"])
    assert shown.returncode == 0 and "equal" in shown.stdout, (shown.stdout, shown.stderr)


ENDING = (
    PRESSING
    + """
import sys
import qjam

def total(params, chunk):
    return params * sum(chunk)

def waits(params, chunk):
    open("waiting", "w").close()
    while True:
        time.sleep(0.01)

def work(m):
    value = 1
    for n in range(3):
        value = m.run(total, value, [1, 2, n])
    if "QJAM_RESUME" not in os.environ:
        how = sys.argv[1]
        if how == "ctrl-c":
            ctrl_c_when_there("waiting")
            m.run(waits, None, [1])
        if how == "exception":
            raise ValueError("no such column")
        if how == "round":
            m.run(lambda params, chunk: params["nothing"], {}, [1])
        if how == "exit":
            sys.exit(3)
    recalled = sum(entry.kind == "round recalled" for entry in m.journal)
    print(value, recalled, flush=True)

if "closed" in sys.argv:
    with qjam.Master("local:1", progress=False) as m:
        work(m)
else:
    work(qjam.Master("local:1", progress=False))
"""
)


def last_run(folder: Path) -> Dict[str, Any]:
    shown = run(folder, [worker(), "runs", "--json"])
    assert shown.returncode == 0, shown.stderr
    found: Dict[str, Any] = json.loads(shown.stdout)["runs"][0]
    return found


WHYS = {
    "ctrl-c": "KeyboardInterrupt: interrupted by Ctrl-C",
    "exception": "ValueError: no such column",
    "round": "KeyError: 'nothing'",
    "exit": "SystemExit: 3",
}


@pytest.mark.parametrize(
    "how, closes",
    # An interpreter that ends keeps no trace of sys.exit, so that is seen only by masters that are closed.
    [
        (how, closes)
        for how in WHYS
        for closes in ("closed", "left open")
        if (how, closes) != ("exit", "left open")
    ],
)
def test_a_run_that_an_exception_ended_has_failed_says_why_and_goes_on(
    how: str, closes: str, tmp_path: Path
) -> None:
    why = WHYS[how]
    (tmp_path / "program.py").write_text(ENDING)
    ended = run(tmp_path, [sys.executable, "program.py", how, closes])
    assert ended.returncode != 0 and ended.stdout == "", ended.stderr
    listed = last_run(tmp_path)
    assert (listed["state"], listed["error"], listed["rounds"]) == ("failed", why, 3)
    assert f"failed: {why}"[:48] in run(tmp_path, [worker(), "runs"]).stdout
    assert why in run(tmp_path, [worker(), "show", "last"]).stdout
    again = run(tmp_path, [worker(), "resume", "last"])
    assert (again.returncode, again.stdout) == (0, "60 3\n"), (again.stdout, again.stderr)
    assert last_run(tmp_path)["state"] == "finished"


def test_a_run_whose_exception_was_caught_has_finished(tmp_path: Path) -> None:
    program = ENDING.replace(
        "        work(m)",
        "        try:\n            work(m)\n        except ValueError:\n            m.run(total, 1, [1])",
    )
    (tmp_path / "program.py").write_text(program)
    assert run(tmp_path, [sys.executable, "program.py", "exception", "closed"]).returncode == 0
    listed = last_run(tmp_path)
    assert (listed["state"], listed["rounds"], listed.get("error")) == ("finished", 4, None)


def test_metrics_are_in_the_page_of_the_run(tmp_path: Path) -> None:
    program = """
import qjam
with qjam.Master("local:1", progress=False) as m:
    for loss in (4.0, 2.0, float("nan")):
        m.run(lambda _, chunk: sum(chunk), None, [1, 2, 3])
        m.record_metric("loss", loss)
"""
    ended = run(tmp_path, [sys.executable, "-c", program])
    assert ended.returncode == 0, ended.stderr
    page = run(tmp_path, [str(worker()), "report", "--out", "-"])
    assert page.returncode == 0, page.stderr
    data = json.loads(page.stdout.split('id="data">')[1].split("</script>")[0])
    [loss] = data["series"]
    assert (loss["name"], loss["rounds"], loss["values"]) == ("loss", [1, 2, 3], [4.0, 2.0, None])


FIT_BY_THE_CLOCK = """
import numpy as np
import qjam
from qjam.learn import Ridge

x = np.sin(np.arange(40_000.0) * 0.7).reshape(200, 200)
y = x @ np.cos(np.arange(200.0)) + np.sin(np.arange(200.0) * 13.0)
with qjam.Master("local:2", progress=False) as m:
    fit = Ridge(alpha=1e-3, solver="cocoa", partitions=3, tuning="clock", tol=1e-9, max_iter=60, workers=m)
    model = fit.fit(x, y)
    recalled = sum(entry.kind == "round recalled" for entry in m.journal)
    print(model.n_iter_, recalled, flush=True)
"""


def test_a_fit_by_the_clock_goes_on_and_is_repeated_with_the_same_choices(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(FIT_BY_THE_CLOCK)
    whole = run(tmp_path, [sys.executable, "program.py"])
    assert whole.returncode == 0, whole.stderr
    assert whole.stdout.split()[-1] == "0"
    (file,) = (tmp_path / "runs").glob("*.run")
    replayed = run(tmp_path, [str(worker()), "replay", file.stem])
    assert replayed.returncode == 0 and "equal" in replayed.stdout, replayed.stdout + replayed.stderr
    # What a run leaves that is killed in the middle: the beginning of its file. From there on the clock chooses again.
    os.truncate(file, file.stat().st_size * 6 // 10)
    resumed = run(tmp_path, [str(worker()), "resume", file.stem])
    assert resumed.returncode == 0 and int(resumed.stdout.split()[-1]) > 0, resumed.stdout + resumed.stderr
    replayed = run(tmp_path, [str(worker()), "replay", "last"])
    assert replayed.returncode == 0 and "equal" in replayed.stdout, replayed.stdout + replayed.stderr
