"""The reference in the book is made from the docstrings, and is what they say now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from events import HANG_S

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_reference_is_up_to_date() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "python" / "tools" / "api_reference.py")],
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert made.returncode == 0, made.stderr
    assert (ROOT / "docs" / "book" / "python-api.md").read_text(encoding="utf-8") == made.stdout, (
        "run: python python/tools/api_reference.py > docs/book/python-api.md"
    )


def test_everything_public_has_a_docstring_with_an_example_or_a_reason() -> None:
    import inspect

    import qjam

    for name in qjam.__all__:
        value = getattr(qjam, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), name
