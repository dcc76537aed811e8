"""Discriminant analyses against scikit-learn's, and against themselves on other workers and from files."""

from __future__ import annotations

import pickle
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
import pytest
import sklearn.discriminant_analysis as theirs_of
from scipy import sparse

from qjam import _find
from qjam.learn import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

BOTH: List[Any] = [LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis]
LDA: List[Any] = [
    {},
    {"n_components": 1},
    {"store_covariance": True, "priors": [0.2, 0.3, 0.5]},
    {"solver": "lsqr"},
    {"solver": "lsqr", "shrinkage": 0.3},
    {"solver": "lsqr", "shrinkage": "auto"},
    {"solver": "eigen"},
    {"solver": "eigen", "shrinkage": 0.3, "priors": [0.2, 0.3, 0.5]},
    {"solver": "eigen", "shrinkage": "auto"},
]
QDA: List[Any] = [
    {},
    {"reg_param": 0.2, "store_covariance": True},
    {"priors": [0.2, 0.3, 0.5]},
    {"solver": "eigen"},
    {"solver": "eigen", "shrinkage": 0.3},
    {"solver": "eigen", "shrinkage": "auto", "store_covariance": True},
]
CASES: List[Any] = [(LinearDiscriminantAnalysis, o) for o in LDA] + [(QuadraticDiscriminantAnalysis, o) for o in QDA]


def groups(rows: int = 900, columns: int = 7, classes: int = 3, seed: int = 0) -> Tuple[Any, Any]:
    """Normal classes, each with covariances of its own, far from the origin."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    turns = rng.normal(size=(classes, columns, columns)) / 2 + 2 * np.eye(columns)
    X = np.einsum("ri,rij->rj", rng.normal(size=(rows, columns)), turns[y])
    return X + rng.normal(0, 1.5, (classes, columns))[y] + 20.0, y


def theirs(kind: Any, **options: Any) -> Any:
    return getattr(theirs_of, kind.__name__)(**options)


def equal(ours: Any, other: Any, X: Any) -> None:
    close: Dict[str, Any] = {"rtol": 1e-7, "atol": 1e-8}
    names = ["means_", "priors_"]
    if isinstance(ours, LinearDiscriminantAnalysis):
        names += ["coef_", "intercept_"]
        if other.solver != "lsqr":
            names.append("explained_variance_ratio_")
            found, expected = ours.transform(X), other.transform(X)
            # Directions have no sign of their own.
            signs = np.sign((found * expected).sum(axis=0))
            np.testing.assert_allclose(found * signs, expected, rtol=1e-6, atol=1e-6)
    else:
        for mine, expected in zip(ours.scalings_, other.scalings_):
            np.testing.assert_allclose(mine, expected, **close)
    if hasattr(other, "covariance_"):
        names.append("covariance_")
    for name in names:
        np.testing.assert_allclose(getattr(ours, name), getattr(other, name), err_msg=name, **close)
    assert (ours.predict(X) == other.predict(X)).all()
    np.testing.assert_allclose(ours.decision_function(X), other.decision_function(X), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(ours.predict_proba(X), other.predict_proba(X), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("kind", "options"), CASES)
def test_everything_is_scikit_learns(kind: Any, options: Any) -> None:
    X, y = groups()
    equal(kind(**options).fit(X, y), theirs(kind, **options).fit(X, y), X)


@pytest.mark.parametrize("kind", BOTH)
def test_two_classes_and_names_are_scikit_learns(kind: Any) -> None:
    X, y = groups(classes=2)
    names = np.array(["no", "yes"])[y]
    ours, other = kind().fit(X, names), theirs(kind).fit(X, names)
    equal(ours, other, X)
    assert ours.decision_function(X).shape == (len(X),)
    single = kind().fit(X.astype(np.float32), names)
    assert (single.predict(X) == other.predict(X)).mean() > 0.995


def test_columns_that_depend_on_each_other_are_left_out_by_the_linear_analysis() -> None:
    X, y = groups()
    X = np.column_stack([X, X[:, 0] + X[:, 1], np.ones(len(X))])
    ours, other = LinearDiscriminantAnalysis().fit(X, y), theirs(LinearDiscriminantAnalysis).fit(X, y)
    assert (ours.predict(X) == other.predict(X)).all()
    np.testing.assert_allclose(ours.predict_proba(X), other.predict_proba(X), rtol=1e-5, atol=1e-8)
    with pytest.raises(ValueError, match="not positive definite.*shrinkage"):
        LinearDiscriminantAnalysis(solver="eigen").fit(X, y)
    with pytest.raises(ValueError, match="not full rank"):
        QuadraticDiscriminantAnalysis().fit(X, y)


@pytest.mark.parametrize(("kind", "options"), [CASES[0], CASES[8], CASES[9], CASES[14]])
def test_one_result_on_all_workers(kind: Any, options: Any) -> None:
    X, y = groups(4000)
    every = ("local:1", "local:2", "local:5", "proc:2")
    models = [kind(workers=workers, **options).fit(X, y) for workers in every]
    for model in models[1:]:
        for name, part in model._tensors().items():
            assert np.array_equal(part, models[0]._tensors()[name]), (model, name)
        assert np.array_equal(model.predict_proba(X), models[0].predict_proba(X))


@pytest.mark.parametrize("kind", BOTH)
def test_large_means_cost_no_digits(kind: Any) -> None:
    X, y = groups()
    near, far = kind().fit(X, y), kind().fit(X + 1e7, y)
    np.testing.assert_allclose(near.predict_proba(X), far.predict_proba(X + 1e7), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", BOTH)
def test_what_cannot_be_learnt_from_is_refused(kind: Any) -> None:
    X, y = groups(60)
    bad = X.copy()
    bad[7, 3] = np.nan
    with pytest.raises(ValueError, match=r"row 7, column 3 \(counted from 0\) is NaN"):
        kind().fit(bad, y)
    with pytest.raises(ValueError, match=r"row 7, column 3 \(counted from 0\) is NaN"):
        kind().fit(X, y).predict(bad)
    with pytest.raises(TypeError, match="[Ss]parse"):
        kind().fit(sparse.csr_matrix(X), y)
    with pytest.raises(ValueError, match="Got 1 class"):
        kind().fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="number of priors must match"):
        kind(priors=[0.5, 0.5]).fit(X, y)
    with pytest.raises(ValueError, match="solver svd has no shrinkage"):
        kind(shrinkage=0.5).fit(X, y)
    with pytest.raises(ValueError, match="shrinkage"):
        kind(solver="eigen", shrinkage=1.5).fit(X, y)
    with pytest.raises(ValueError, match="covariance_estimator"):
        kind(covariance_estimator=object()).fit(X, y)
    with pytest.raises(ValueError, match="X has 2 features, but .* is expecting 7"):
        kind().fit(X, y).predict(X[:, :2])
    if kind is LinearDiscriminantAnalysis:
        with pytest.raises(ValueError, match="n_components cannot be larger"):
            kind(n_components=3).fit(X, y)
        with pytest.raises(NotImplementedError, match="lsqr"):
            kind(solver="lsqr").fit(X, y).transform(X)
        with pytest.warns(UserWarning, match="Renormalizing"):
            kind(priors=[1, 1, 2]).fit(X, y)
    else:
        with pytest.raises(ValueError, match="only 1 sample in class 9"):
            kind().fit(np.vstack([X, X[:1]]), np.append(y, 9))


@pytest.mark.parametrize(("kind", "options"), [CASES[0], CASES[7], CASES[10]])
def test_models_come_back_from_files_and_pickles(kind: Any, options: Any, tmp_path: Path) -> None:
    X, y = groups()
    for classes in (y, np.array(["a", "b", "c"])[y]):
        options = {name: value for name, value in options.items() if name != "priors"}
        model = kind(**options).fit(X, classes)
        model.save(tmp_path / "x.model")
        again = kind.load(tmp_path / "x.model")
        assert again.get_params() == model.get_params() and again.n_features_in_ == 7
        for copy in (again, pickle.loads(pickle.dumps(model))):
            assert (copy.predict(X) == model.predict(X)).all()
            assert np.array_equal(copy.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("kind", BOTH)
def test_the_command_fits_the_same_model(kind: Any, tmp_path: Path) -> None:
    X, y = groups()
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", y.astype(float))
    qjam = _find.worker()
    data, model, out = (str(tmp_path / name) for name in ("x.npy", "x.model", "turned.npy"))
    fit = [qjam, "fit", kind._learner, data, "--labels", str(tmp_path / "y.npy"), "--out", model]
    subprocess.run(fit, check=True, capture_output=True)
    ours = kind().fit(X, y)
    assert np.array_equal(kind.load(model).predict_proba(X), ours.predict_proba(X))
    said = subprocess.run([qjam, "predict", model, data], check=True, capture_output=True, text=True).stdout
    assert np.array_equal(np.array(said.split(), float), ours.predict(X))
    if kind is LinearDiscriminantAnalysis:
        subprocess.run([qjam, "predict", model, data, "--transform", "--out", out], check=True, capture_output=True)
        assert np.array_equal(np.load(out), ours.transform(X))
    # Files are read chunk by chunk: the same model without an array in memory.
    assert np.array_equal(kind().fit(data, y).means_, ours.means_)
