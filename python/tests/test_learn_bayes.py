"""GaussianNB against scikit-learn's, and against itself on other workers and from its files."""

from __future__ import annotations

import pickle
import subprocess
from pathlib import Path
from typing import Any, Tuple

import numpy as np
import pytest
from scipy import sparse
from sklearn.naive_bayes import GaussianNB as Theirs

from qjam import _find
from qjam.learn import GaussianNB

ATTRIBUTES = ("theta_", "var_", "class_prior_", "class_count_", "epsilon_")
#: All that a model can be asked.
QUESTIONS = ("predict_proba", "predict_log_proba", "predict_joint_log_proba")


def digits(rows: int = 900, seed: int = 0) -> Tuple[Any, Any, Any]:
    """Rows like those of digits: whole numbers, columns that are constant; ten classes; weights."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 10, rows)
    centres = rng.integers(0, 17, (10, 64)).astype(float)
    X = np.clip(np.round(centres[y] + rng.normal(0, 2, (rows, 64))), 0, 16)
    X[:, [0, 32]] = 0.0
    return X, y, rng.uniform(0, 3, rows)


def equal(ours: GaussianNB, theirs: Theirs, X: Any) -> None:
    for name in ATTRIBUTES:
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-10, atol=1e-10, err_msg=name)
    assert (ours.classes_ == theirs.classes_).all()
    assert (ours.predict(X) == theirs.predict(X)).all()
    for question in QUESTIONS:
        expected = getattr(theirs, question)(X)
        # Variances of constant columns are tiny, and what is divided by them huge.
        np.testing.assert_allclose(getattr(ours, question)(X), expected, rtol=1e-8, atol=1e-10, err_msg=question)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("priors", [None, "given"])
def test_everything_is_scikit_learns(weighted: bool, priors: Any) -> None:
    X, y, weights = digits()
    options: Any = {"priors": None if priors is None else np.arange(1, 11) / 55, "var_smoothing": 1e-6}
    weight = weights if weighted else None
    equal(GaussianNB(**options).fit(X, y, weight), Theirs(**options).fit(X, y, weight), X)


def test_names_of_classes_and_other_types_are_kept() -> None:
    X, y, _ = digits(200)
    names = np.array([f"digit {n}" for n in range(10)])[y]
    equal(GaussianNB().fit(X, names), Theirs().fit(X, names), X)
    single = GaussianNB().fit(X.astype(np.float32), y)
    assert (single.predict(X) == Theirs().fit(X, y).predict(X)).all()


def test_batches_are_scikit_learns() -> None:
    X, y, weights = digits()
    ours, theirs = GaussianNB(), Theirs()
    for part in np.array_split(np.arange(len(X)), 7):
        for model in (ours, theirs):
            model.partial_fit(X[part], y[part], classes=np.arange(10), sample_weight=weights[part])
    equal(ours, theirs, X)
    # A class that comes late, and one that never comes.
    ours, theirs = GaussianNB(), Theirs()
    for part in (y < 4, (y >= 4) & (y < 9)):
        for model in (ours, theirs):
            model.partial_fit(X[part], y[part], classes=np.arange(10))
    np.testing.assert_allclose(ours.theta_, theirs.theta_, rtol=1e-10)
    np.testing.assert_allclose(ours.var_, theirs.var_, rtol=1e-10)
    assert (ours.predict(X) == theirs.predict(X)).all()


def test_one_result_on_all_workers() -> None:
    X, y, weights = digits(3000)
    models = [GaussianNB(workers=workers).fit(X, y, weights) for workers in ("local:1", "local:2", "local:5", "proc:2")]
    for model in models[1:]:
        for name in ATTRIBUTES:
            assert np.array_equal(getattr(model, name), getattr(models[0], name)), (model, name)
        for question in QUESTIONS:
            assert np.array_equal(getattr(model, question)(X), getattr(models[0], question)(X)), (model, question)


def test_large_means_cost_no_digits() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(0, 1, (500, 3)), np.arange(500) % 2
    near, far = GaussianNB(var_smoothing=0).fit(X, y), GaussianNB(var_smoothing=0).fit(X + 1e8, y)
    np.testing.assert_allclose(near.var_, far.var_, rtol=1e-6)


def test_what_cannot_be_learnt_from_is_refused() -> None:
    X, y, weights = digits(50)
    with pytest.raises(TypeError, match="[Ss]parse"):
        GaussianNB().fit(sparse.csr_matrix(X), y)
    bad = X.copy()
    bad[7, 3] = np.nan
    with pytest.raises(ValueError, match=r"row 7, column 3 \(counted from 0\) is NaN"):
        GaussianNB().fit(bad, y)
    with pytest.raises(ValueError, match="number of priors must match"):
        GaussianNB(priors=[0.5, 0.5]).fit(X, y)
    with pytest.raises(ValueError, match="sum of the priors"):
        GaussianNB(priors=np.full(len(np.unique(y)), 0.2)).fit(X, y)
    with pytest.raises(ValueError, match="not negative"):
        GaussianNB(var_smoothing=-1.0).fit(X, y)
    with pytest.raises(ValueError, match="weight"):
        GaussianNB().fit(X, y, -weights)
    with pytest.raises(ValueError, match="do not exist in the initial classes"):
        GaussianNB().partial_fit(X, y, classes=[0, 1])


def test_models_come_back_from_files_and_pickles(tmp_path: Path) -> None:
    X, y, _ = digits(300)
    for classes in (y, np.array([f"c{n}" for n in range(10)])[y]):
        model = GaussianNB(var_smoothing=1e-7).fit(X, classes)
        model.save(tmp_path / "digits.model")
        again = GaussianNB.load(tmp_path / "digits.model")
        assert again.var_smoothing == 1e-7 and again.n_features_in_ == 64
        for copy in (again, pickle.loads(pickle.dumps(model))):
            assert (copy.predict(X) == model.predict(X)).all()
            assert np.array_equal(copy.predict_proba(X), model.predict_proba(X))
        more = again.partial_fit(X, classes)
        assert np.array_equal(more.class_count_, 2 * model.class_count_)


def test_the_command_fits_the_same_model(tmp_path: Path) -> None:
    X, y, _ = digits(300)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", y.astype(float))
    qjam = _find.worker()
    data, model = str(tmp_path / "x.npy"), str(tmp_path / "nb.model")
    fit = [qjam, "fit", "gaussian-nb", data, "--labels", str(tmp_path / "y.npy"), "--out", model]
    subprocess.run(fit, check=True, capture_output=True)
    ours = GaussianNB().fit(X, y)
    theirs = GaussianNB.load(model)
    assert np.array_equal(theirs.var_, ours.var_) and np.array_equal(theirs.theta_, ours.theta_)
    said = subprocess.run([qjam, "predict", model, data], check=True, capture_output=True, text=True).stdout
    assert np.array_equal(np.array(said.split(), float), ours.predict(X))
