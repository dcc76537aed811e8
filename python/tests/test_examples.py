"""The example programs, as a user starts them, on local workers and worker processes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples" / "python"


def run(path: str, arguments: List[str], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / path), *arguments],
        cwd=str(folder),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_program_of_the_poster_sums_its_matrix(tmp_path: Path) -> None:
    assert "Result is: 78" in run("report/examples/sum_matrix_example.py", [], tmp_path)


def test_the_programs_of_the_report_give_its_numbers(tmp_path: Path) -> None:
    printed = run("report/examples/all_examples.py", [], tmp_path)
    results = [line.rpartition(": ")[2] for line in printed.splitlines()]
    assert results == ["207900", "165", "14850", "5050", "170.0", "1.414213562373095", "84", "3 4 2"]


@pytest.mark.parametrize("workers", ["local:1", "proc:2"])
def test_the_autoencoder_learns_the_same_on_all_workers(workers: str, tmp_path: Path) -> None:
    printed = run("autoencoder.py", [workers, "500", "40"], tmp_path)
    told = re.match(r"cost (\S+) -> (\S+) in (\d+) evaluations", printed)
    assert told is not None, printed
    again = re.match(
        r"cost (\S+) -> (\S+) in (\d+) evaluations", run("autoencoder.py", ["local:3", "500", "40"], tmp_path)
    )
    assert again is not None and told.groups() == again.groups()
    assert float(told.group(2)) < float(told.group(1)) / 5


def test_logistic_regression_finds_the_labels(tmp_path: Path) -> None:
    printed = run("logistic_regression.py", ["local:2"], tmp_path)
    assert "round 50: loss 0.21" in printed and "90.7% of the labels are right" in printed


def test_k_means_finds_the_digits_and_draws_the_same_picture_on_all_workers(tmp_path: Path) -> None:
    said = [run("kmeans_digits.py", [workers, f"{workers[0]}.png"], tmp_path) for workers in ("local:2", "proc:2")]
    match = re.match(r"inertia (\S+) after \d+ iterations; agreement with the digits (\S+)", said[0])
    assert match is not None and float(match.group(2)) > 0.5, said[0]
    assert said[0].splitlines()[0] == said[1].splitlines()[0]
    assert (tmp_path / "l.png").read_bytes() == (tmp_path / "p.png").read_bytes()
