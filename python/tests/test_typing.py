"""The types of the package: right uses pass `mypy --strict` and pyright, wrong ones fail in both."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Set

import pytest

import qjam

HERE = Path(__file__).resolve().parent / "typing"
# Where the package lies, unless it is installed and found anyway.
FOLDER = Path(qjam.__file__).resolve().parent.parent
EXTRA = [] if FOLDER.name in ("site-packages", "dist-packages") else [str(FOLDER)]


def complaints(checker: str, name: str, folder: Path) -> Set[int]:
    """Lines of a file that a checker complains about."""
    path = HERE / name
    if checker == "mypy":
        command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--config-file="]
        env = {**os.environ, "MYPYPATH": os.pathsep.join(EXTRA)}
        done = subprocess.run(
            [*command, str(path)], env=env, cwd=str(folder), capture_output=True, text=True, timeout=300
        )
        lines = [line.split(":") for line in done.stdout.splitlines() if ": error:" in line]
        assert done.returncode in (0, 1), done.stdout + done.stderr
        assert all(Path(line[0]).name == name for line in lines), done.stdout
        return {int(line[1]) for line in lines}
    shutil.copy(str(path), str(folder / name))
    settings = {"include": [name], "extraPaths": EXTRA, "typeCheckingMode": "standard"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--pythonpath",
        sys.executable,
        "--outputjson",
        "-p",
        str(folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["summary"]["filesAnalyzed"] == 1
    found = told["generalDiagnostics"]
    return {entry["range"]["start"]["line"] + 1 for entry in found if entry["severity"] == "error"}


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_right_uses_pass(checker: str, tmp_path: Path) -> None:
    assert complaints(checker, "good.py", tmp_path) == set()


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_every_wrong_use_is_found(checker: str, tmp_path: Path) -> None:
    lines = (HERE / "wrong.py").read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert len(marked) > 10 and complaints(checker, "wrong.py", tmp_path) == marked
