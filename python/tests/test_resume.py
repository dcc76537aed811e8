"""Programs in Python that were stopped go on from their run files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

from events import RECORDED

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
        command, env=environment(folder, mode), cwd=str(folder), capture_output=True, text=True, timeout=60
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
