"""Wrong calls of the command with the learners of sums: each is refused in a sentence that says what to do."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest

from qjam import _find

CASES: List[Any] = [
    (["multinomial-nb"], "negative", "row 3, column 1 (counted from 0) is -2; counts are not negative"),
    (["complement-nb"], "negative", "row 3, column 1 (counted from 0) is -2; counts are not negative"),
    (["multinomial-nb", "--alpha", "-1"], "good", "give a finite number that is not negative"),
    (["bernoulli-nb", "--binarize", "half"], "good", "give none or a finite number"),
    (["complement-nb", "--norm", "yes"], "good", "yes"),
    (["bernoulli-nb"], "nan", "row 5, column 2 (counted from 0) is NaN"),
    (["lda", "--shrinkage", "0.5"], "good", "the solver svd has no shrinkage"),
    (["lda", "--components", "9"], "good", "n_components cannot be larger than min(n_features, n_classes - 1) = 1"),
    (["lda"], "nan", "row 5, column 2 (counted from 0) is NaN"),
    (["qda"], "singular", "is not full rank"),
    (["qda", "--regularization", "2"], "good", "give a number from 0 to 1"),
    (["qda", "--solver", "lsqr"], "good", "lsqr"),
    (["pca", "--components", "9"], "good", "9 components are asked for; there may be as many as rows or columns, 3"),
    (["pca", "--components", "2.5"], "good", "give a whole number, or a share of the variance between 0 and 1"),
    (["gaussian-mixture", "--components", "61"], "good", "61 components of 60 rows"),
    (["gaussian-mixture", "--components", "2", "--covariance", "round"], "good", "give full, tied, diag or spherical"),
    (["gaussian-mixture", "--components", "2"], "nan", "row 5, column 2 (counted from 0) is NaN"),
    (["svd", "--components", "4"], "good", "4 components are asked for; there may be as many as columns, 3"),
    (["ica", "--components", "4"], "singular", "4 components are asked for and 3 directions have variance"),
    (["ica", "--alpha", "3"], "good", "give none or a number from 1 to 2"),
    (["pca"], "nan", "row 5, column 2 (counted from 0) is NaN"),
]


#: Learners without a target.
UNLABELLED = ("pca", "svd", "ica", "gaussian-mixture")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calls")
    rng = np.random.default_rng(0)
    good = rng.uniform(0, 5, (60, 3))
    for name, at, value in (("good", (0, 0), 1.0), ("negative", (3, 1), -2.0), ("nan", (5, 2), np.nan)):
        rows = good.copy()
        rows[at] = value
        np.save(folder / f"{name}.npy", rows)
    np.save(folder / "singular.npy", np.column_stack([good, good[:, 0]]))
    np.save(folder / "y.npy", (np.arange(60) % 2).astype(float))
    return folder


def run(words: List[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([_find.worker(), *words], capture_output=True, text=True)


@pytest.mark.parametrize(("words", "data", "said"), CASES)
def test_a_wrong_fit_is_explained(folder: Path, words: List[str], data: str, said: str) -> None:
    labels = [] if words[0] in UNLABELLED else ["--labels", str(folder / "y.npy")]
    call = ["fit", words[0], str(folder / f"{data}.npy"), *labels, *words[1:], "--out", str(folder / "none.model")]
    done = run(call)
    assert done.returncode != 0 and said in done.stderr, done.stderr
    assert not (folder / "none.model").exists() and "panicked" not in done.stderr


@pytest.mark.parametrize("learner", ["multinomial-nb", "bernoulli-nb", "complement-nb", "lda", "qda", "pca", "svd", "ica", "gaussian-mixture"])
def test_models_are_inspected_and_refuse_rows_of_another_width(folder: Path, learner: str) -> None:
    labels = [] if learner in UNLABELLED else ["--labels", str(folder / "y.npy")]
    model = str(folder / f"{learner}.model")
    more = ["--components", "2"] if learner == "gaussian-mixture" else []
    done = run(["fit", learner, str(folder / "good.npy"), *labels, *more, "--out", model])
    assert done.returncode == 0, done.stderr
    said = run(["inspect", model]).stdout
    assert f"of kind {learner}" in said and "of F64" in said
    done = run(["predict", model, str(folder / "singular.npy")])
    assert done.returncode != 0 and "4" in done.stderr and "3" in done.stderr and "columns" in done.stderr
    done = run(["predict", model, str(folder / "nan.npy")])
    assert done.returncode != 0 and "row 5, column 2 (counted from 0) is NaN" in done.stderr, done.stderr
