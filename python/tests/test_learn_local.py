"""Locally weighted regression against least squares of NumPy's, one fit for each row that is asked about."""

from __future__ import annotations

import json
import pickle
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from qjam import _find
from qjam.learn import LocallyWeightedRegression, StandardScaler

KERNELS = {
    "gaussian": lambda d: np.exp(-0.5 * (d**2 - (d**2).min())),
    "epanechnikov": lambda d: np.maximum(1 - d**2, 0),
    "tricube": lambda d: np.maximum(1 - np.minimum(d, 1) ** 3, 0) ** 3,
}


def data(count: int = 400, columns: int = 3, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (count, columns)) + 5.0
    return X, np.sin(X[:, 0] - 5) + 0.3 * (X**2).sum(axis=1) + rng.normal(0, 0.05, count)


def oracle(X: Any, y: Any, Q: Any, h: float, kernel: str, *, degree: int = 1, alpha: float = 0.0, weights: Any = None) -> Any:
    found = []
    for q in Q:
        w = KERNELS[kernel](np.linalg.norm(X - q, axis=1) / h)
        w = w if weights is None else w * weights
        if not w.any():
            found.append(np.nan)
            continue
        w = w / w.sum()
        mean, target = w @ X, w @ y
        slopes = np.zeros(X.shape[1])
        if degree:
            centred = X - mean
            gram = (centred.T * w) @ centred + alpha * np.eye(X.shape[1])
            slopes = np.linalg.lstsq(gram, (centred.T * w) @ (y - target), rcond=1e-10)[0]
        found.append(target + slopes @ (q - mean))
    return np.array(found)


@pytest.mark.parametrize("kernel", list(KERNELS))
@pytest.mark.parametrize("degree", [0, 1])
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_every_prediction_is_its_own_least_squares(kernel: str, degree: int, alpha: float) -> None:
    X, y = data()
    Q = data(150, seed=5)[0]
    weights = np.random.default_rng(2).integers(0, 3, len(X)).astype(float)
    h = 0.7 if kernel == "gaussian" else 2.5
    model = LocallyWeightedRegression(h, kernel=kernel, degree=degree, alpha=alpha)
    for given in (None, weights):
        found = model.fit(X, y, sample_weight=given).predict(Q)
        expected = oracle(X, y, Q, h, kernel, degree=degree, alpha=alpha, weights=given)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def test_one_result_on_all_workers_and_however_many_are_asked_about_together() -> None:
    X, y = data(3000, 4)
    Q = data(700, 4, seed=8)[0]
    every = ("local:1", "local:2", "local:5", "proc:2")
    models = [LocallyWeightedRegression(0.8, workers=workers).fit(X, y) for workers in every]
    expected = models[0].predict(Q)
    for model in models[1:]:
        assert np.array_equal(model.predict(Q), expected)
    # A few rows are predicted by the calling thread.
    assert np.array_equal(np.concatenate([models[0].predict(Q[n : n + 9]) for n in range(0, 90, 9)]), expected[:90])
    assert np.array_equal(models[0].predict(Q.astype(np.float32)), models[1].predict(Q.astype(np.float32)))


def test_far_from_all_rows_the_nearest_ones_decide() -> None:
    X = np.array([[0.0], [1.0], [2.0]])
    model = LocallyWeightedRegression(0.01, degree=0).fit(X, [5.0, 6.0, 7.0])
    assert model.predict([[1e6], [-1e6]]).tolist() == [7.0, 5.0]
    with pytest.warns(UserWarning, match="1 row.s. have no learnt row within"):
        found = LocallyWeightedRegression(0.5, kernel="tricube").fit(X, [5.0, 6.0, 7.0]).predict([[0.1], [9.0]])
    assert np.isfinite(found[0]) and np.isnan(found[1])


def test_there_are_no_slopes_where_rows_do_not_vary() -> None:
    X, y = data(200, 2)
    doubled = np.column_stack([X, X[:, 0], np.full(len(X), 1e6)])
    model = LocallyWeightedRegression(0.5)
    np.testing.assert_allclose(
        model.fit(doubled, y).predict(doubled[:40]),
        oracle(doubled, y, doubled[:40], 0.5, "gaussian"),
        rtol=1e-6,
    )
    assert model.fit([[3.0, 3.0]], [8.0]).predict([[4.0, 5.0]]).tolist() == [8.0]


def test_the_bandwidth_follows_from_the_rows_and_from_a_search() -> None:
    X, y = data(300, 2)
    model = LocallyWeightedRegression().fit(X, y)
    np.testing.assert_allclose(model.bandwidth_, np.sqrt(X.var(axis=0).sum()) * len(X) ** (-1 / 6), rtol=1e-12)
    search = GridSearchCV(LocallyWeightedRegression(), {"bandwidth": [0.02, 0.3, 100.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"bandwidth": 0.3} and search.best_score_ > 0.98


def test_models_come_back_from_files_and_pickles(tmp_path: Path) -> None:
    X, y = data(120)
    model = LocallyWeightedRegression(1.5, kernel="tricube", alpha=0.01).fit(X, y)
    model.save(tmp_path / "x.model")
    again = LocallyWeightedRegression.load(tmp_path / "x.model")
    assert (again.kernel, again.bandwidth, again.alpha) == ("tricube", 1.5, 0.01)
    for copy in (again, pickle.loads(pickle.dumps(model))):
        assert np.array_equal(copy.predict(X), model.predict(X))


def test_what_cannot_be_learnt_from_is_refused() -> None:
    X, y = data(30)
    bad = X.copy()
    bad[7, 1] = np.nan
    with pytest.raises(ValueError, match=r"row 7, column 1 \(counted from 0\) is NaN"):
        LocallyWeightedRegression().fit(bad, y)
    with pytest.raises(ValueError, match=r"row 7, column 1 \(counted from 0\) is NaN"):
        LocallyWeightedRegression().fit(X, y).predict(bad)
    with pytest.raises(ValueError, match="NaN"):
        LocallyWeightedRegression().fit(X, np.where(np.arange(30) == 3, np.nan, y))
    for wrong in ({"bandwidth": 0.0}, {"kernel": "magic"}, {"degree": 2}, {"alpha": -1.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            LocallyWeightedRegression(**wrong).fit(X, y)
    with pytest.raises(ValueError, match="X has 2 features"):
        LocallyWeightedRegression().fit(X, y).predict(X[:, :2])


def test_the_command_fits_the_same_model_also_behind_a_scaling(tmp_path: Path) -> None:
    X, y = data(250)
    X = X * [1.0, 1000.0, 1e-3]
    for name, array in (("x", X), ("y", y)):
        np.save(tmp_path / f"{name}.npy", array)
    qjam = _find.worker()
    x, targets, model, out = (str(tmp_path / name) for name in ("x.npy", "y.npy", "m.model", "out.npy"))
    for scale in ((), ("--standardize",)):
        fit = [qjam, "fit", "lwr", x, "--labels", targets, "--bandwidth", "0.6", *scale, "--cv", "3", "--out", model, "--json"]
        told = json.loads(subprocess.run(fit, check=True, capture_output=True).stdout)
        assert told["bandwidth"] == 0.6
        subprocess.run([qjam, "predict", model, x, "--out", out], check=True, capture_output=True)
        ours: Any = LocallyWeightedRegression(0.6)
        ours = make_pipeline(StandardScaler(), ours) if scale else ours
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert np.array_equal(np.load(out), ours.fit(X, y).predict(X)), scale
