"""The pages of the book about Python say what is true: their code runs, on real workers, and prints what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
BOOK = HERE.parent.parent / "docs" / "book"
PAGES = [
    *sorted(BOOK.glob("python-*.md")),
    BOOK / "bucket.md",
    BOOK / "k-means-start-to-finish.md",
    BOOK / "discriminant-analysis.md",
    BOOK / "gaussian-mixtures.md",
    BOOK / "independent-components.md",
    BOOK / "naive-bayes.md",
    BOOK / "neural-networks.md",
    BOOK / "optimize.md",
    BOOK / "pca.md",
    BOOK / "running-on-your-hosts.md",
    BOOK / "runs.md",
    BOOK / "security.md",
    BOOK.parent.parent / "README.md",
]


def run_page(page: Path, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(HERE / "book.py"), str(page)],
        cwd=str(folder),
        env={**os.environ, "QJAM_RUNS": str(folder / "runs")},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_and_prints_what_it_says(page: Path, tmp_path: Path) -> None:
    done = run_page(page, tmp_path)
    assert done.returncode == 0, done.stderr


def test_there_are_pages_for_the_first_steps() -> None:
    names = {page.stem for page in PAGES}
    assert {"python-first-ten-minutes", "python-moving-a-numpy-loop", "python-what-travels"} <= names


def test_a_page_that_says_something_else_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)\n```\n\n```text\n2\n```\n")
    done = run_page(page, tmp_path)
    assert done.returncode != 0 and "prints\n1\nwhere the page says\n2" in done.stderr


def test_commands_of_a_page_run_and_those_that_fail_are_told(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh run\necho one >file\ncat file\n```\n\n```text\none\n```\n\n```sh run\ncat none\n```\n")
    done = run_page(page, tmp_path)
    assert done.returncode != 0 and "line 11: ended with 1" in done.stderr and "none" in done.stderr
