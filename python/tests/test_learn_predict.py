"""`qjam predict`: answers of many numbers for each row, made by several threads; Parquet files."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pyarrow.parquet
import pytest

from qjam import _find


def run(words: List[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([_find.worker(), *words], capture_output=True, text=True)


def done(words: List[str]) -> None:
    ended = run(words)
    assert ended.returncode == 0, ended.stderr


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of many chunks, and a model of each kind that is asked for many numbers."""
    folder = tmp_path_factory.mktemp("models")
    x = np.random.default_rng(0).normal(size=(70_000, 40))
    np.save(folder / "x.npy", x)
    np.save(folder / "few.npy", x[:500])
    x[69_321, 7] = np.nan
    np.save(folder / "nan.npy", x)
    options: Dict[str, List[str]] = {"kmeans": ["--k", "5"], "pca": ["--components", "3"]}
    for learner, more in options.items():
        done(["fit", learner, str(folder / "few.npy"), *more, "--out", str(folder / f"{learner}.model")])
    return folder


@pytest.mark.parametrize("learner", ["kmeans", "pca"])
def test_threads_write_the_same_answers_in_order(models: Path, tmp_path: Path, learner: str) -> None:
    written: List[Any] = []
    for threads in (1, 3):
        out = tmp_path / f"{threads}.npy"
        words = ["predict", str(models / f"{learner}.model"), str(models / "x.npy"), "--transform"]
        done([*words, "--workers", f"local:{threads}", "--out", str(out)])
        written.append(out.read_bytes())
    assert written[0] == written[1]
    answers = np.load(tmp_path / "3.npy")
    assert answers.shape == (70_000, 5 if learner == "kmeans" else 3)
    few = tmp_path / "few.npy"
    done(
        [
            "predict",
            str(models / f"{learner}.model"),
            str(models / "few.npy"),
            "--transform",
            "--out",
            str(few),
        ]
    )
    np.testing.assert_allclose(answers[:500], np.load(few), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("more", [[], ["--transform"]])
def test_parquet_files_have_the_numbers_of_npy_files(models: Path, tmp_path: Path, more: List[str]) -> None:
    table, array = tmp_path / "answers.parquet", tmp_path / "answers.npy"
    for out in (table, array):
        done(["predict", str(models / "kmeans.model"), str(models / "x.npy"), *more, "--out", str(out)])
    found, expected = pyarrow.parquet.read_table(table), np.load(array)
    names = [f"answer_{at}" for at in range(5)] if more else ["answer"]
    assert found.column_names == names
    columns = expected.T if more else [expected]
    for name, column in zip(names, columns):
        assert np.array_equal(found[name].to_numpy(), column)


@pytest.mark.parametrize("more", [[], ["--transform"]])
def test_a_number_that_is_not_finite_is_named_by_its_row_in_the_file(
    models: Path, tmp_path: Path, more: List[str]
) -> None:
    out = tmp_path / "answers.npy"
    ended = run(["predict", str(models / "kmeans.model"), str(models / "nan.npy"), *more, "--out", str(out)])
    assert ended.returncode == 1 and "row 69321, column 7 (counted from 0) is NaN" in ended.stderr, (
        ended.stderr
    )
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_number_of_threads_is_told(models: Path, tmp_path: Path) -> None:
    words = ["predict", str(models / "kmeans.model"), str(models / "few.npy"), "--transform"]
    ended = run([*words, "--workers", "local:x", "--out", str(tmp_path / "answers.npy")])
    assert ended.returncode == 1 and "local:x" in ended.stderr, ended.stderr


def test_other_endings_are_refused(models: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "answers.xlsx")
    ended = run(["predict", str(models / "kmeans.model"), str(models / "few.npy"), "--out", out])
    assert ended.returncode == 1 and ".npy or .csv or .parquet; let the name end so" in ended.stderr
