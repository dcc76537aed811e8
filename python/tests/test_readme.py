"""What the README says about Python is true."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def test_the_code_in_the_readme_runs(tmp_path: Path) -> None:
    words = [sys.executable, str(HERE / "book.py"), str(HERE.parents[1] / "README.md")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ran 1 blocks\n"
