"""TruncatedSVD and FastICA against scikit-learn's, and against themselves on other workers and from files."""

from __future__ import annotations

import pickle
import subprocess
import warnings
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
import sklearn.decomposition as theirs_of
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from qjam import _find
from qjam.learn import FastICA, TruncatedSVD

EVERY = ("local:1", "local:2", "local:5", "proc:2")


def spread(rows: int = 700, columns: int = 12, seed: int = 0) -> Any:
    """Rows whose lengths along their components are far enough apart for these to be certain."""
    rng = np.random.default_rng(seed)
    turned, _ = np.linalg.qr(rng.normal(size=(columns, columns)))
    return (rng.normal(size=(rows, columns)) * 0.7 ** np.arange(columns)) @ turned + rng.uniform(-1, 1, columns)


def signals(rows: int = 2000, columns: int = 5, seed: int = 0) -> Any:
    """Sources that are not normal, and rows in which they are mixed."""
    rng = np.random.default_rng(seed)
    at = np.arange(rows)
    sources = np.column_stack([np.sin(at / 8), np.sign(np.sin(at / 3)), at % 37 / 18 - 1, rng.laplace(size=rows)])
    return sources, sources @ rng.normal(size=(4, columns)) + 10.0


def quiet(model: Any, X: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X)


@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("number", [np.float64, np.float32])
@pytest.mark.parametrize("algorithm", ["arpack", "randomized"])
def test_singular_values_and_components_are_scikit_learns(algorithm: Any, number: Any, stored: Any) -> None:
    X = spread()
    X[np.abs(X) < 0.3] = 0
    X = X.astype(number)
    ours = TruncatedSVD(4, algorithm=algorithm, random_state=0).fit(stored(X))
    theirs = theirs_of.TruncatedSVD(4, algorithm="arpack", random_state=0).fit(X.astype(np.float64))
    for name in ("singular_values_", "explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-7, err_msg=name)
    np.testing.assert_allclose(ours.components_, theirs.components_, atol=1e-7)
    found = ours.transform(stored(X))
    assert found.dtype == number
    np.testing.assert_allclose(found, theirs.transform(X), atol=1e-4 if number == np.float32 else 1e-8)
    np.testing.assert_allclose(ours.inverse_transform(found), theirs.inverse_transform(theirs.transform(X)), atol=1e-4)


def test_many_columns_have_their_first_components_found_by_directions() -> None:
    rng = np.random.default_rng(5)
    parts = rng.normal(size=(300, 3)) * [30.0, 20.0, 10.0]
    X = parts @ np.linalg.qr(rng.normal(size=(2500, 3)))[0].T + rng.normal(0, 0.01, (300, 2500))
    ours = TruncatedSVD(3, random_state=0).fit(sparse.csr_matrix(X))
    theirs = theirs_of.TruncatedSVD(3, algorithm="arpack", random_state=0).fit(X)
    np.testing.assert_allclose(ours.singular_values_, theirs.singular_values_, rtol=1e-9)
    np.testing.assert_allclose(ours.components_, theirs.components_, atol=1e-6)


@pytest.mark.parametrize("columns", [12, 700])
def test_one_decomposition_on_all_workers(columns: int) -> None:
    X = spread(1500, columns)
    models = [TruncatedSVD(2, random_state=2, workers=workers).fit(X) for workers in EVERY]
    for model in models[1:]:
        assert np.array_equal(model.components_, models[0].components_)
        assert np.array_equal(model.transform(X), models[0].transform(X))


def test_digits_are_decomposed_as_by_scikit_learn() -> None:
    X = load_digits().data
    ours, theirs = TruncatedSVD(10).fit(X), theirs_of.TruncatedSVD(10, algorithm="arpack").fit(X)
    np.testing.assert_allclose(ours.singular_values_, theirs.singular_values_, rtol=1e-10)
    np.testing.assert_allclose(ours.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=1e-8)
    assert list(ours.get_feature_names_out()[:2]) == ["truncatedsvd0", "truncatedsvd1"]


CASES: List[Any] = [
    (algorithm, fun, whiten)
    for algorithm in ("parallel", "deflation")
    for fun in ("logcosh", "exp", "cube")
    for whiten in ("unit-variance", "arbitrary-variance")
]


@pytest.mark.parametrize(("algorithm", "fun", "whiten"), CASES)
def test_sources_are_scikit_learns_from_the_same_start(algorithm: Any, fun: Any, whiten: Any) -> None:
    sources, X = signals()
    start = np.random.default_rng(1).normal(size=(4, 4))
    options: Any = {"algorithm": algorithm, "fun": fun, "whiten": whiten, "w_init": start, "tol": 1e-10, "max_iter": 500}
    ours, theirs = quiet(FastICA(4, **options), X), quiet(theirs_of.FastICA(4, **options), X)
    # The whitening's directions have no sign of their own, so a start may be mirrored: components come in another order.
    found, expected = ours.transform(X), theirs.transform(X)
    likeness = np.abs(np.corrcoef(found.T, expected.T)[:4, 4:])
    order = likeness.argmax(axis=1)
    assert sorted(order) == [0, 1, 2, 3] and (likeness.max(axis=1) > 1 - 1e-8).all(), likeness
    signs = np.sign((found * expected[:, order]).sum(axis=0))
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found * signs, expected[:, order], atol=1e-5 * scale)
    np.testing.assert_allclose(ours.components_ * signs[:, None], theirs.components_[order], rtol=1e-3, atol=1e-4 * scale)
    np.testing.assert_allclose(ours.mean_, theirs.mean_, rtol=1e-10)
    np.testing.assert_allclose(ours.inverse_transform(found), X, atol=1e-8)
    assert ours.mixing_.shape == theirs.mixing_.shape and ours.whitening_.shape == theirs.whitening_.shape
    likeness = np.abs(np.corrcoef(sources.T, found.T)[:4, 4:]).max(axis=1)
    assert (likeness > 0.95).all(), likeness


def test_white_rows_are_taken_as_they_are() -> None:
    _, X = signals(columns=4)
    white = theirs_of.PCA(whiten=True).fit_transform(X)
    start = np.random.default_rng(1).normal(size=(4, 4))
    options: Any = {"whiten": False, "w_init": start, "tol": 1e-10, "fun_args": {"alpha": 1.5}}
    ours, theirs = quiet(FastICA(**options), white), quiet(theirs_of.FastICA(**options), white)
    np.testing.assert_allclose(ours.components_, theirs.components_, atol=1e-6)
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(white)), white, atol=1e-8)


@pytest.mark.parametrize("algorithm", ["parallel", "deflation"])
def test_one_set_of_sources_on_all_workers(algorithm: Any) -> None:
    _, X = signals(4000)
    models = [quiet(FastICA(3, algorithm=algorithm, random_state=2, workers=workers), X) for workers in EVERY]
    for model in models[1:]:
        assert np.array_equal(model.components_, models[0].components_) and model.n_iter_ == models[0].n_iter_
        assert np.array_equal(model.transform(X), models[0].transform(X))


def test_what_cannot_be_decomposed_is_refused() -> None:
    X = spread(50, 6)
    bad = X.copy()
    bad[7, 3] = np.nan
    for kind in (TruncatedSVD, FastICA):
        with pytest.raises(ValueError, match=r"row 7, column 3 \(counted from 0\) is NaN"):
            kind(2).fit(bad)
        with pytest.raises(ValueError, match=r"row 7, column 3 \(counted from 0\) is NaN"):
            kind(2).fit(X).transform(bad)
        with pytest.raises(ValueError, match="X has 2 features, but .* is expecting 6"):
            kind(2).fit(X).transform(X[:, :2])
        with pytest.raises(ValueError, match="algorithm"):
            kind(2, algorithm="magic").fit(X)
    with pytest.raises(ValueError, match="n_components=7 must be at most n_features=6"):
        TruncatedSVD(7).fit(X)
    with pytest.raises(TypeError, match="[Ss]parse"):
        FastICA(2).fit(sparse.csr_matrix(X))
    with pytest.warns(UserWarning, match="it will be set to 6"):
        quiet(FastICA(7), X)
    with pytest.raises(ValueError, match="2 components are asked for and 1 directions have variance"):
        FastICA(2).fit(np.outer(np.arange(50.0), np.ones(3)))
    with pytest.raises(ValueError, match="1 numbers for 2 components"):
        FastICA(2, w_init=[[1.0]]).fit(X)
    with pytest.raises(ValueError, match="functions of your own"):
        FastICA(2, fun=np.tanh).fit(X)  # type: ignore[arg-type]
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        FastICA(2, max_iter=1, tol=1e-12).fit(X)


@pytest.mark.parametrize("model", [TruncatedSVD(3), FastICA(3, fun_args={"alpha": 1.5}, random_state=0), FastICA(whiten=False)])
def test_models_come_back_from_files_and_pickles(model: Any, tmp_path: Path) -> None:
    X = spread(columns=4)
    quiet(model, X).save(tmp_path / "x.model")
    again = type(model).load(tmp_path / "x.model")
    assert again.get_params()["n_components"] == model.n_components
    for copy in (again, pickle.loads(pickle.dumps(model))):
        assert np.array_equal(copy.transform(X), model.transform(X))
        assert np.array_equal(copy.inverse_transform(copy.transform(X)), model.inverse_transform(model.transform(X)))


@pytest.mark.parametrize("kind", [TruncatedSVD, FastICA])
def test_the_command_fits_the_same_model(kind: Any, tmp_path: Path) -> None:
    X = signals()[1]
    np.save(tmp_path / "x.npy", X)
    qjam = _find.worker()
    data, model, out = (str(tmp_path / name) for name in ("x.npy", "x.model", "coordinates.npy"))
    fit = [qjam, "fit", kind._learner, data, "--components", "3", "--out", model]
    subprocess.run(fit, check=True, capture_output=True)
    ours = quiet(kind(3, random_state=0), X)
    assert np.array_equal(kind.load(model).components_, ours.components_)
    subprocess.run([qjam, "predict", model, data, "--out", out], check=True, capture_output=True)
    assert np.array_equal(np.load(out), ours.transform(X))


def test_more_components_than_rows_are_as_many_as_centred_rows_have() -> None:
    rows = np.random.default_rng(3).laplace(size=(6, 10))
    model = FastICA(8, random_state=0, max_iter=500, tol=0.01)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        sources = model.fit_transform(rows)
    assert any("n_components is too large" in str(one.message) for one in told)
    assert sources.shape == (6, 5) and np.allclose(model.inverse_transform(sources), rows)
