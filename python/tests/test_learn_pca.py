"""PCA against scikit-learn's, and against itself on other workers and from its files."""

from __future__ import annotations

import pickle
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA as Theirs
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from qjam import _find
from qjam.learn import PCA

ATTRIBUTES = (
    "components_",
    "mean_",
    "explained_variance_",
    "explained_variance_ratio_",
    "singular_values_",
    "noise_variance_",
    "n_components_",
    "n_samples_",
)


def spread(rows: int = 700, columns: int = 12, seed: int = 0) -> Any:
    """Rows whose variances along their components are far enough apart for these to be certain, off the origin."""
    rng = np.random.default_rng(seed)
    turned, _ = np.linalg.qr(rng.normal(size=(columns, columns)))
    return (rng.normal(size=(rows, columns)) * 0.7 ** np.arange(columns)) @ turned + rng.uniform(-5, 5, columns)


def equal(ours: PCA, theirs: Theirs, X: Any, within: float = 1e-8) -> None:
    for name in ATTRIBUTES:
        expected = getattr(theirs, name)
        np.testing.assert_allclose(getattr(ours, name), expected, rtol=within, atol=within, err_msg=name)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), rtol=within, atol=10 * within)
    back = theirs.inverse_transform(theirs.transform(X))
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(X)), back, rtol=within, atol=10 * within)
    np.testing.assert_allclose(ours.get_covariance(), theirs.get_covariance(), rtol=within, atol=within)
    np.testing.assert_allclose(ours.score(X), theirs.score(X), rtol=within)


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("components", [None, 1, 5, 12, 0.5, 0.95])
def test_everything_is_scikit_learns(components: Any, whiten: bool) -> None:
    X = spread()
    options: Any = {"n_components": components, "whiten": whiten, "svd_solver": "full"}
    equal(PCA(**options).fit(X), Theirs(**options).fit(X), X)
    np.testing.assert_allclose(PCA(**options).fit_transform(X), Theirs(**options).fit_transform(X), atol=1e-7)


def test_digits_with_columns_that_are_constant_are_scikit_learns() -> None:
    X = load_digits().data
    ours, theirs = PCA(20).fit(X), Theirs(20, svd_solver="full").fit(X)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-10)
    np.testing.assert_allclose(ours.components_, theirs.components_, atol=1e-6)
    assert PCA(0.9).fit(X).n_components_ == Theirs(0.9, svd_solver="full").fit(X).n_components_


def test_more_columns_than_rows_are_scikit_learns() -> None:
    X = spread(20, 50)
    ours, theirs = PCA().fit(X), Theirs(svd_solver="full").fit(X)
    assert ours.components_.shape == theirs.components_.shape == (20, 50)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.components_[:10], theirs.components_[:10], atol=1e-7)


@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("number", [np.float64, np.float32])
@pytest.mark.parametrize("solver", ["covariance_eigh", "randomized"])
def test_ways_to_store_rows_and_to_solve_agree(stored: Any, number: Any, solver: Any) -> None:
    X = spread(900, 40, seed=3)
    X[np.abs(X) < 1] = 0
    X = X.astype(number)
    theirs = Theirs(4, svd_solver="full").fit(X.astype(np.float64))
    ours = PCA(4, svd_solver=solver, iterated_power=20, random_state=1).fit(stored(X))
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-6)
    np.testing.assert_allclose(ours.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=1e-6)
    np.testing.assert_allclose(ours.components_, theirs.components_, atol=1e-4)
    assert ours.transform(stored(X)).dtype == number


def test_wide_rows_have_their_first_components_found_without_covariances() -> None:
    rng = np.random.default_rng(5)
    parts = rng.normal(size=(300, 3)) * [30.0, 20.0, 10.0]
    X = parts @ np.linalg.qr(rng.normal(size=(2500, 3)))[0].T + rng.normal(0, 0.01, (300, 2500))
    ours, theirs = PCA(3, random_state=0).fit(X), Theirs(3, svd_solver="full").fit(X)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(ours.components_, theirs.components_, atol=1e-5)
    np.testing.assert_allclose(ours.noise_variance_, theirs.noise_variance_, rtol=1e-4)


@pytest.mark.parametrize("solver", ["covariance_eigh", "randomized"])
def test_one_result_on_all_workers(solver: Any) -> None:
    X = spread(3000, 30)
    every = ("local:1", "local:2", "local:5", "proc:2")
    models = [PCA(5, svd_solver=solver, random_state=2, workers=workers).fit(X) for workers in every]
    for model in models[1:]:
        for name in ATTRIBUTES:
            assert np.array_equal(getattr(model, name), getattr(models[0], name)), (model, name)
        assert np.array_equal(model.transform(X), models[0].transform(X))


def test_large_means_cost_no_digits() -> None:
    X = spread(500, 6)
    near, far = PCA().fit(X), PCA().fit(X + 1e8)
    np.testing.assert_allclose(near.explained_variance_, far.explained_variance_, rtol=1e-6)


def test_what_cannot_be_decomposed_is_refused() -> None:
    X = spread(50, 6)
    bad = X.copy()
    bad[7, 3] = np.inf
    with pytest.raises(ValueError, match=r"row 7, column 3 \(counted from 0\) is inf"):
        PCA().fit(bad)
    with pytest.raises(ValueError, match=r"row 7, column 3 \(counted from 0\) is inf"):
        PCA().fit(X).transform(bad)
    with pytest.raises(ValueError, match="min.n_samples, n_features.=6"):
        PCA(7).fit(X)
    for wrong in (0, -1, 2.5, "mle"):
        with pytest.raises(ValueError, match="n_components"):
            PCA(wrong).fit(X)
    with pytest.raises(ValueError, match="svd_solver"):
        PCA(svd_solver="magic").fit(X)
    with pytest.raises(ValueError, match="share of the variance"):
        PCA(0.5, svd_solver="randomized").fit(X)
    with pytest.raises(ValueError, match="1 sample"):
        PCA().fit(X[:1])
    with pytest.raises(ValueError, match="X has 2 features, but PCA is expecting 6"):
        PCA().fit(X).transform(X[:, :2])


@pytest.mark.parametrize("options", [{}, {"n_components": 3, "whiten": True}, {"n_components": 0.9}])
def test_batches_come_to_the_components_of_all_rows(options: Any, tmp_path: Path) -> None:
    X = spread() + 1e5
    model = PCA(**options)
    for n, batch in enumerate(np.array_split(X, 9)):
        model.partial_fit(batch)
        if n == 4:
            model.save(tmp_path / "half.model")
            model = PCA.load(tmp_path / "half.model")
    equal(model, Theirs(**options, svd_solver="full").fit(X), X, within=1e-6)
    for workers in ("local:5", "proc:2"):
        again = PCA(**options, workers=workers)
        for batch in np.array_split(X, 9):
            again.partial_fit(batch)
        assert np.array_equal(again.components_, model.components_)
    one = PCA(1).partial_fit(X[:2])
    assert one.partial_fit(X[2:3]).n_samples_ == 3
    # All components are all there is to know of the rows before.
    equal(PCA(svd_solver="full").fit(X[:400]).partial_fit(X[400:]), Theirs(svd_solver="full").fit(X), X, within=1e-6)
    with pytest.raises(ValueError, match="X has 2 features"):
        one.partial_fit(X[:, :2])
    with pytest.raises(ValueError, match="1 sample"):
        PCA().partial_fit(X[:1])


def test_constant_columns_have_no_variance_to_share_out() -> None:
    model = PCA().fit(np.ones((5, 3)))
    assert (model.explained_variance_ == 0).all() and np.isnan(model.explained_variance_ratio_).all()


def test_components_go_into_pipelines() -> None:
    X, y = load_digits(return_X_y=True)
    model = make_pipeline(PCA(20), LogisticRegression(max_iter=2000)).fit(X, y)
    assert model.score(X, y) > 0.95
    assert list(model[0].get_feature_names_out()[:2]) == ["pca0", "pca1"]


@pytest.mark.parametrize("options", [{"n_components": 3, "whiten": True}, {"n_components": 0.9}, {}])
def test_models_come_back_from_files_and_pickles(options: Any, tmp_path: Path) -> None:
    X = spread()
    model = PCA(**options).fit(X)
    model.save(tmp_path / "x.model")
    again = PCA.load(tmp_path / "x.model")
    assert (again.n_components, again.whiten) == (model.n_components, model.whiten)
    for copy in (again, pickle.loads(pickle.dumps(model))):
        assert np.array_equal(copy.transform(X), model.transform(X))


def test_the_command_fits_the_same_model(tmp_path: Path) -> None:
    X = spread()
    np.save(tmp_path / "x.npy", X)
    qjam = _find.worker()
    data, model, out = (str(tmp_path / name) for name in ("x.npy", "x.model", "coordinates.npy"))
    fit = [qjam, "fit", "pca", data, "--components", "3", "--out", model]
    subprocess.run(fit, check=True, capture_output=True)
    ours = PCA(3).fit(X)
    assert np.array_equal(PCA.load(model).components_, ours.components_)
    subprocess.run([qjam, "predict", model, data, "--out", out], check=True, capture_output=True)
    assert np.array_equal(np.load(out), ours.transform(X))
    # Files are read chunk by chunk: the same model without an array in memory.
    assert np.array_equal(PCA(3).fit(data).components_, ours.components_)
