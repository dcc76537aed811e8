"""Gaussian mixtures against scikit-learn's, and against themselves on other workers and from files."""

from __future__ import annotations

import pickle
import subprocess
import warnings
from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as Theirs

from qjam import _find
from qjam.learn import GaussianMixture

ALL = ("full", "tied", "diag", "spherical")
ATTRIBUTES = ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_")


def groups(rows: int = 900, columns: int = 6, classes: int = 3, seed: int = 0) -> Any:
    """Normal groups that overlap, each with covariances of its own, off the origin."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    turns = rng.normal(size=(classes, columns, columns)) / 3 + np.eye(columns)
    X = np.einsum("ri,rij->rj", rng.normal(size=(rows, columns)), turns[y])
    return X + rng.normal(0, 2, (classes, columns))[y] + 5.0


def start(X: Any, kind: str, k: int = 3, seed: int = 1) -> Dict[str, Any]:
    """All that a mixture may begin from."""
    rng = np.random.default_rng(seed)
    columns = X.shape[1]
    root = rng.normal(size=(k, columns, columns)) / 4 + np.eye(columns)
    full = root @ np.swapaxes(root, 1, 2) / X.var()
    diagonal = rng.uniform(0.5, 1.5, (k, columns)) / X.var()
    precisions = {"full": full, "tied": full[0], "diag": diagonal, "spherical": diagonal[:, 0]}
    return {
        "weights_init": np.arange(1.0, k + 1) / sum(range(k + 1)),
        "means_init": X[rng.choice(len(X), k, replace=False)],
        "precisions_init": precisions[kind],
    }


def quiet(model: Any, X: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X)


def equal(ours: Any, theirs: Any, X: Any, within: float = 1e-7) -> None:
    assert (ours.n_iter_, ours.converged_) == (theirs.n_iter_, theirs.converged_)
    np.testing.assert_allclose(ours.lower_bound_, theirs.lower_bound_, rtol=1e-8)
    for name in ATTRIBUTES:
        expected = getattr(theirs, name)
        assert getattr(ours, name).shape == expected.shape
        np.testing.assert_allclose(getattr(ours, name), expected, rtol=within, atol=within, err_msg=name)
    assert (ours.predict(X) == theirs.predict(X)).all()
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-7, atol=1e-7)
    for name in ("score", "bic", "aic"):
        np.testing.assert_allclose(getattr(ours, name)(X), getattr(theirs, name)(X), rtol=1e-8)


@pytest.mark.parametrize("rounds", [1, 5, 200])
@pytest.mark.parametrize("kind", ALL)
def test_everything_is_scikit_learns_from_the_same_start(kind: Any, rounds: int) -> None:
    X = groups()
    options: Any = {"covariance_type": kind, "max_iter": rounds, "tol": 1e-6, **start(X, kind)}
    equal(quiet(GaussianMixture(3, **options), X), quiet(Theirs(3, **options), X), X)


@pytest.mark.parametrize("given", [("means_init",), ("weights_init", "precisions_init"), ()])
@pytest.mark.parametrize("kind", ALL)
def test_what_is_not_given_comes_from_k_means(kind: Any, given: Any) -> None:
    # So far apart that k-means has one answer.
    X = np.vstack([groups(300, 4, 1, seed) + 40 * np.eye(4)[seed] for seed in range(3)])
    some = {name: array for name, array in start(X, kind).items() if name in given}
    if "means_init" in some:
        some["means_init"] = np.array([X[:300].mean(0), X[300:600].mean(0), X[600:].mean(0)])
    ours = quiet(GaussianMixture(3, covariance_type=kind, random_state=0, **some), X)
    theirs = quiet(Theirs(3, covariance_type=kind, random_state=0, **some), X)
    np.testing.assert_allclose(ours.lower_bound_, theirs.lower_bound_, rtol=1e-4)
    if not given:
        order = [np.argmin(np.linalg.norm(ours.means_ - mean, axis=1)) for mean in theirs.means_]
        np.testing.assert_allclose(ours.means_[order], theirs.means_, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(ours.lower_bound_, theirs.lower_bound_, rtol=1e-8)


@pytest.mark.parametrize("kind", ALL)
def test_shipped_sets_are_as_likely_as_scikit_learn_finds_them(kind: Any) -> None:
    for X, k, regular in ((load_iris().data, 3, 1e-6), (load_digits().data, 10, 1e-2)):
        options: Any = {"covariance_type": kind, "reg_covar": regular, "max_iter": 30, "tol": 1e-9, **start(X, kind, k)}
        ours, theirs = quiet(GaussianMixture(k, **options), X), quiet(Theirs(k, **options), X)
        np.testing.assert_allclose(ours.lower_bound_, theirs.lower_bound_, rtol=1e-4)
        assert (ours.predict(X) == theirs.predict(X)).mean() > 0.99


@pytest.mark.parametrize("kind", ALL)
def test_rows_of_32_bits_are_scikit_learns(kind: Any) -> None:
    X = groups().astype(np.float32)
    options: Any = {"covariance_type": kind, "max_iter": 20, "tol": 0.0, **start(X, kind)}
    ours = quiet(GaussianMixture(3, **options), X)
    theirs = quiet(Theirs(3, **options), X.astype(np.float64))
    np.testing.assert_allclose(ours.lower_bound_, theirs.lower_bound_, rtol=1e-8)
    assert (ours.predict(X) == theirs.predict(X)).all()


@pytest.mark.parametrize("init", ["kmeans", "k-means++", "random", "random_from_data"])
@pytest.mark.parametrize("kind", ALL)
def test_one_result_on_all_workers(kind: Any, init: Any) -> None:
    X = groups(5000)
    options: Any = {"covariance_type": kind, "init_params": init, "n_init": 2, "max_iter": 8, "random_state": 3}
    every = ("local:1", "local:2", "local:5", "proc:2")
    models = [quiet(GaussianMixture(4, workers=workers, **options), X) for workers in every]
    for model in models[1:]:
        for name in (*ATTRIBUTES, "lower_bounds_"):
            assert np.array_equal(getattr(model, name), getattr(models[0], name)), (model, name)
        assert np.array_equal(model.predict_proba(X), models[0].predict_proba(X))


def test_planted_components_are_found_and_criteria_choose_their_number() -> None:
    X = np.vstack([groups(700, 3, 1, seed) + 12 * np.eye(3)[seed] for seed in range(3)])
    models = [quiet(GaussianMixture(k, n_init=3, random_state=0, max_iter=300), X) for k in (1, 2, 3, 4, 5)]
    assert int(np.argmin([model.bic(X) for model in models])) == 2
    best = models[2]
    assert sorted(np.bincount(best.fit_predict(X)).tolist()) == [700, 700, 700]
    assert (np.diff(best.lower_bounds_) > -1e-9).all()


@pytest.mark.parametrize("kind", ALL)
def test_samples_are_scikit_learns(kind: Any) -> None:
    X = groups()
    options: Any = {"covariance_type": kind, "max_iter": 3, "random_state": 7, **start(X, kind)}
    ours, theirs = quiet(GaussianMixture(3, **options), X), quiet(Theirs(3, **options), X)
    for found, expected in zip(ours.sample(50), theirs.sample(50)):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    with pytest.raises(ValueError, match="at least one sample"):
        ours.sample(0)


def test_a_warm_start_goes_on_where_the_last_fit_ended() -> None:
    X = groups()
    options: Any = {"max_iter": 3, "tol": 0.0, "warm_start": True, **start(X, "full")}
    ours, theirs = GaussianMixture(3, **options), Theirs(3, **options)
    for _ in range(3):
        equal(quiet(ours, X), quiet(theirs, X), X)
    once = quiet(GaussianMixture(3, max_iter=9, tol=0.0, **start(X, "full")), X)
    assert np.array_equal(ours.means_, once.means_)


def test_no_rounds_leave_the_start() -> None:
    X = groups()
    model = GaussianMixture(3, max_iter=0, **start(X, "full")).fit(X)
    np.testing.assert_allclose(model.precisions_, start(X, "full")["precisions_init"], rtol=1e-9)
    assert (model.n_iter_, model.converged_) == (0, False)


def test_what_cannot_be_fitted_is_refused() -> None:
    X = groups(60, 4)
    bad = X.copy()
    bad[7, 3] = np.nan
    with pytest.raises(ValueError, match=r"row 7, column 3 \(counted from 0\) is NaN"):
        GaussianMixture(2).fit(bad)
    with pytest.raises(ValueError, match=r"row 7, column 3 \(counted from 0\) is NaN"):
        GaussianMixture(2).fit(X).predict(bad)
    with pytest.raises(TypeError, match="[Ss]parse"):
        GaussianMixture(2).fit(sparse.csr_matrix(X))
    with pytest.raises(ValueError, match="n_components = 61, n_samples = 60"):
        GaussianMixture(61).fit(X)
    with pytest.raises(ValueError, match="1 sample"):
        GaussianMixture().fit(X[:1])
    with pytest.raises(ValueError, match="X has 2 features, but GaussianMixture is expecting 4"):
        GaussianMixture(2).fit(X).predict(X[:, :2])
    for wrong in ({"n_components": 0}, {"covariance_type": "round"}, {"tol": -1.0}, {"reg_covar": -1.0}, {"init_params": "x"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            GaussianMixture(**wrong).fit(X)
    with pytest.raises(ValueError, match=r"'means_init' should have the shape of \(2, 4\), but got \(3, 4\)"):
        GaussianMixture(2, means_init=X[:3]).fit(X)
    with pytest.raises(ValueError, match="add up to 0.9"):
        GaussianMixture(2, weights_init=[0.5, 0.4]).fit(X)
    with pytest.raises(ValueError, match="precision 1 to begin from is not symmetric and positive definite"):
        GaussianMixture(2, precisions_init=np.array([np.eye(4), -np.eye(4)])).fit(X)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        GaussianMixture(3, max_iter=1).fit(X)


@pytest.mark.parametrize("kind", ALL)
def test_columns_without_variance_are_regularised(kind: Any) -> None:
    X = np.column_stack([groups(200, 3), np.ones(200), groups(200, 3)[:, 0]])
    options: Any = {"covariance_type": kind, "max_iter": 4, "tol": 0.0, **start(X, kind)}
    ours, theirs = quiet(GaussianMixture(3, **options), X), quiet(Theirs(3, **options), X)
    np.testing.assert_allclose(ours.lower_bound_, theirs.lower_bound_, rtol=1e-4)
    if kind == "diag":
        with pytest.raises(ValueError, match="component 0 are singular.*fewer components"):
            GaussianMixture(2, covariance_type=kind, reg_covar=0.0).fit(X)


@pytest.mark.parametrize("kind", ALL)
def test_models_come_back_from_files_and_pickles(kind: Any, tmp_path: Path) -> None:
    X = groups(columns=3)
    model = quiet(GaussianMixture(3, covariance_type=kind, random_state=1, means_init=X[:3]), X)
    model.save(tmp_path / "x.model")
    again = GaussianMixture.load(tmp_path / "x.model")
    assert (again.n_components, again.covariance_type, again.n_features_in_) == (3, kind, 3)
    for copy in (again, pickle.loads(pickle.dumps(model))):
        assert np.array_equal(copy.predict_proba(X), model.predict_proba(X))
        assert np.array_equal(copy.precisions_, model.precisions_)


def test_the_command_fits_the_same_model(tmp_path: Path) -> None:
    X = groups()
    begin = start(X, "diag")
    np.save(tmp_path / "x.npy", X)
    for name, array in begin.items():
        np.save(tmp_path / f"{name}.npy", array)
    qjam = _find.worker()
    data, model, out = (str(tmp_path / name) for name in ("x.npy", "x.model", "shares.npy"))
    words = ["--components", "3", "--covariance", "diag", "--start-weights", str(tmp_path / "weights_init.npy")]
    words += ["--start-means", str(tmp_path / "means_init.npy")]
    words += ["--start-precisions", str(tmp_path / "precisions_init.npy")]
    subprocess.run([qjam, "fit", "gaussian-mixture", data, *words, "--out", model], check=True, capture_output=True)
    ours = quiet(GaussianMixture(3, covariance_type="diag", **begin), X)
    assert np.array_equal(GaussianMixture.load(model).means_, ours.means_)
    said = subprocess.run([qjam, "predict", model, data], check=True, capture_output=True, text=True).stdout
    assert np.array_equal(np.array(said.split(), int), ours.predict(X))
    subprocess.run([qjam, "predict", model, data, "--probabilities", "--out", out], check=True, capture_output=True)
    assert np.array_equal(np.load(out), ours.predict_proba(X))
    # Files are read chunk by chunk: the same model without an array in memory.
    assert np.array_equal(quiet(GaussianMixture(3, covariance_type="diag", **begin), data).means_, ours.means_)
