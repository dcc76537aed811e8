"""Linear models in Python: their coefficients are scikit-learn's, on any workers, and wrong input is told what is wrong."""

from __future__ import annotations

import functools
import pickle
import warnings
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.linear_model
import sklearn.svm
from events import ctrl_c_when, some_rounds
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from qjam.dataset import FileDataSet
from qjam.learn import ElasticNet, Lasso, LinearSVC, LogisticRegression, Ridge

REGRESSORS = [Ridge, Lasso, ElasticNet]
CLASSIFIERS = [LogisticRegression, LinearSVC]


def rows(count: int = 70, columns: int = 9, seed: int = 0, kind: Any = np.float64) -> Any:
    """Rows of which a third is 0, as numbers that 32 bits hold, and a column that is 0 throughout."""
    random = np.random.default_rng(seed)
    X = random.normal(0.3, 1, (count, columns)) * (random.uniform(size=(count, columns)) < 0.6)
    X[:, columns // 2] = 0
    return X.astype(np.float32).astype(kind)


def targets(X: Any, seed: int = 1) -> Any:
    """Numbers that depend on a few columns."""
    random = np.random.default_rng(seed)
    return X[:, :3] @ [2.0, -1.0, 0.5] + 0.7 + random.normal(0, 0.5, len(X))


def classes(X: Any, count: int = 2) -> Any:
    """Classes, not to be told apart without mistakes."""
    cuts = np.quantile(targets(X), np.arange(1, count) / count)
    return np.array(["c", "a", "d", "b"])[np.digitize(targets(X), cuts)]


def row_weights(X: Any) -> Any:
    return np.random.default_rng(2).integers(0, 4, len(X)) / 2


#: How scikit-learn says that there is no l2 penalty, before and after it changed its mind.
L1: Dict[str, Any] = {"l1_ratio": 1.0}
if getattr(sklearn.linear_model.LogisticRegression(), "penalty", "deprecated") != "deprecated":
    L1 = {"penalty": "l1"}
#: Ours, and scikit-learn's of the same model, run to the end.
PAIRS: Dict[str, Any] = {
    "ridge": (
        Ridge(alpha=0.7),
        sklearn.linear_model.Ridge(alpha=0.7, solver="sparse_cg", tol=1e-14, max_iter=10_000),
    ),
    "lasso": (Lasso(alpha=0.05), sklearn.linear_model.Lasso(alpha=0.05, tol=1e-14, max_iter=100_000)),
    "elastic net": (
        ElasticNet(alpha=0.1, l1_ratio=0.3),
        sklearn.linear_model.ElasticNet(alpha=0.1, l1_ratio=0.3, tol=1e-14, max_iter=100_000),
    ),
    "logistic l2": (
        LogisticRegression(C=0.8),
        sklearn.linear_model.LogisticRegression(C=0.8, solver="newton-cg", tol=1e-12, max_iter=10_000),
    ),
    "logistic l1": (
        LogisticRegression(C=0.8, l1_ratio=1.0),
        sklearn.linear_model.LogisticRegression(C=0.8, solver="saga", tol=1e-13, max_iter=20_000, **L1),
    ),
    "svm": (LinearSVC(C=0.4), sklearn.svm.LinearSVC(C=0.4, dual=False, tol=1e-13, max_iter=100_000)),
    "svm hinge": (
        LinearSVC("hinge", C=0.04),
        sklearn.svm.LinearSVC(loss="hinge", C=0.04, tol=1e-11, max_iter=2_000_000),
    ),
}


@functools.lru_cache(maxsize=None)
def expected(model: str, intercept: bool, weighted: bool) -> Any:
    """What scikit-learn finds, computed once."""
    X = rows()
    theirs = clone(PAIRS[model][1]).set_params(fit_intercept=intercept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return theirs.fit(X, answers(PAIRS[model][0], X), sample_weight=row_weights(X) if weighted else None)


def answers(learner: Any, X: Any) -> Any:
    """Numbers for regressions, classes for classifiers."""
    return targets(X) if isinstance(learner, (Ridge, Lasso, ElasticNet)) else classes(X)


@pytest.mark.parametrize("solver", ["auto", "cocoa"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("model", PAIRS)
def test_coefficients_are_scikit_learns(model: str, make: Any, intercept: bool, weighted: bool, solver: str) -> None:
    X, theirs = rows(), expected(model, intercept, weighted)
    ours = clone(PAIRS[model][0]).set_params(solver=solver, tol=1e-13, fit_intercept=intercept)
    ours.fit(make(X), answers(ours, X), sample_weight=row_weights(X) if weighted else None)
    assert ours.coef_.shape == theirs.coef_.shape and np.shape(ours.intercept_) == np.shape(theirs.intercept_)
    assert np.abs(ours.coef_ - theirs.coef_).max() < 1e-6
    assert np.abs(ours.intercept_ - theirs.intercept_).max() < 1e-6
    assert 0 <= ours.dual_gap_ + 1e-12 <= 1e-6 * ours.objective_ and ours.rounds_ >= 1
    assert ours.solver_ == ("cocoa" if solver == "cocoa" or model == "svm hinge" else "direct")


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.coo_array])
@pytest.mark.parametrize("learner", [*REGRESSORS, *CLASSIFIERS])
def test_every_kind_of_sparse_matrix_gives_the_same_bits(learner: Any, make: Any) -> None:
    X = rows()
    y = targets(X) if learner in REGRESSORS else classes(X)
    assert same_bits(learner().fit(make(X), y).coef_, learner().fit(sp.csr_matrix(X), y).coef_)
    assert np.allclose(learner(tol=1e-10).fit(make(X), y).coef_, learner(tol=1e-10).fit(X, y).coef_, atol=1e-5)
    doubled = sp.coo_matrix((np.r_[X.ravel(), X.ravel()] / 2, np.tile(np.indices(X.shape).reshape(2, -1), 2)))
    assert same_bits(learner().fit(doubled, y).coef_, learner().fit(sp.csr_matrix(X), y).coef_)


def same_bits(a: Any, b: Any) -> bool:
    return bool(a.dtype == b.dtype and a.tobytes() == b.tobytes())


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("learner", REGRESSORS)
def test_shapes_and_types_of_regressions_are_scikit_learns(learner: Any, intercept: bool, kind: Any) -> None:
    X = rows(kind=kind)
    y = targets(X)
    theirs = getattr(sklearn.linear_model, learner.__name__)
    for one in (y, y[:, None], np.column_stack((y, -y, y**2))):
        a = learner(0.05, fit_intercept=intercept, tol=1e-9).fit(X, one)
        b = theirs(0.05, fit_intercept=intercept, tol=1e-6).fit(X, one)
        assert (a.coef_.shape, a.coef_.dtype) == (b.coef_.shape, b.coef_.dtype)
        assert np.shape(a.intercept_) == np.shape(b.intercept_)
        found, expected = a.predict(X), b.predict(X)
        assert found.shape == expected.shape and found.dtype == expected.dtype
        assert np.allclose(found, expected, atol=1e-3) and a.score(X, one) == pytest.approx(b.score(X, one), abs=1e-4)
        assert np.shape(a.objective_) == np.shape(a.dual_gap_) == (() if a.coef_.ndim == 1 else (3,))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("learner", CLASSIFIERS)
def test_shapes_and_types_of_classifiers_are_scikit_learns(
    learner: Any, count: int, intercept: bool, kind: Any
) -> None:
    X = rows(kind=kind)
    y = classes(X, count)
    theirs = getattr(sklearn.linear_model, learner.__name__, None) or getattr(sklearn.svm, learner.__name__)
    a = learner(fit_intercept=intercept, tol=1e-9).fit(X, y)
    b = theirs(fit_intercept=intercept, max_iter=10_000).fit(X, y)
    for name in ("coef_", "intercept_", "n_iter_"):
        assert np.shape(getattr(a, name)) == np.shape(getattr(b, name)), name
    assert a.coef_.dtype == b.coef_.dtype
    assert a.classes_.tolist() == b.classes_.tolist() == sorted(set(y))
    for name in ("decision_function", "predict", "predict_proba", "predict_log_proba"):
        if hasattr(b, name):
            found, expected = getattr(a, name)(X), getattr(b, name)(X)
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype), name
    assert np.mean(a.predict(X) == b.predict(X)) > 0.95
    dense = a.predict(X)
    assert sp.issparse(a.sparsify().coef_) and (a.predict(X) == dense).all()
    assert isinstance(a.densify().coef_, np.ndarray)


@pytest.mark.parametrize("weight", [None, "balanced", {"a": 2.0, "c": 0.5}])
@pytest.mark.parametrize("count", [2, 3])
def test_weights_of_classes_are_scikit_learns(count: int, weight: Any) -> None:
    X = rows()
    y = classes(X, count)
    y[:15] = "a"
    weights = row_weights(X) + 0.5
    ours = LinearSVC(C=0.3, class_weight=weight, tol=1e-13).fit(X, y, sample_weight=weights)
    theirs = sklearn.svm.LinearSVC(C=0.3, class_weight=weight, dual=False, tol=1e-13, max_iter=100_000)
    assert np.abs(ours.coef_ - theirs.fit(X, y, sample_weight=weights).coef_).max() < 1e-6
    single = sklearn.linear_model.LogisticRegression(C=0.3, class_weight=weight, solver="newton-cg", tol=1e-12)
    ours = LogisticRegression(C=0.3, class_weight=weight, tol=1e-13).fit(X, y, sample_weight=weights)
    assert np.abs(ours.coef_ - single.fit(X, y, sample_weight=weights).coef_).max() < 1e-6


@functools.lru_cache(maxsize=None)
def together(l1_ratio: float, intercept: bool, weighted: bool) -> Any:
    """What scikit-learn finds for three classes, computed once."""
    X = rows()
    how: Dict[str, Any] = {"solver": "newton-cg", "tol": 1e-12, "max_iter": 10_000}
    if l1_ratio > 0:
        how = {"solver": "saga", "tol": 1e-12, "max_iter": 20_000}
        how.update(L1 if l1_ratio == 1 else {**{name: "elasticnet" for name in L1}, "l1_ratio": l1_ratio})
    theirs = sklearn.linear_model.LogisticRegression(C=0.8, fit_intercept=intercept, **how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return theirs.fit(X, classes(X, 3), sample_weight=row_weights(X) if weighted else None)


@pytest.mark.parametrize("solver", ["direct", "lbfgs"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
def test_more_than_two_classes_are_told_apart_as_scikit_learn_does(
    l1_ratio: float, make: Any, intercept: bool, weighted: bool, solver: str
) -> None:
    X = rows()
    theirs = together(l1_ratio, intercept, weighted)
    ours = LogisticRegression(C=0.8, l1_ratio=l1_ratio, fit_intercept=intercept, tol=1e-15, solver=solver)
    ours.fit(make(X), classes(X, 3), sample_weight=row_weights(X) if weighted else None)
    assert np.abs(ours.coef_ - theirs.coef_).max() < 1e-6
    assert np.abs(ours.intercept_ - theirs.intercept_).max() < 1e-6
    assert np.abs(ours.predict_proba(X) - theirs.predict_proba(X)).max() < 1e-6
    assert (ours.predict(X) == theirs.predict(X)).all() and ours.solver_ == solver
    assert 0 <= ours.dual_gap_ <= 1e-6 * ours.objective_


def test_slopes_find_what_coordinates_find_for_two_classes() -> None:
    X = rows()
    y = classes(X)
    for l1_ratio in (0.0, 1.0):
        a = LogisticRegression(l1_ratio=l1_ratio, tol=1e-14).fit(X, y)
        b = LogisticRegression(l1_ratio=l1_ratio, tol=1e-14, solver="lbfgs").fit(X, y)
        assert b.coef_.shape == (1, 9) and b.solver_ == "lbfgs"
        assert np.abs(a.coef_ - b.coef_).max() < 1e-6 and np.abs(a.intercept_ - b.intercept_).max() < 1e-6


def test_more_than_two_classes_can_be_told_apart_one_against_the_rest() -> None:
    X = rows()
    y = classes(X, 4)
    ours = LogisticRegression(C=2, tol=1e-13, multi_class="ovr").fit(X, y)
    single = sklearn.linear_model.LogisticRegression(C=2, solver="newton-cg", tol=1e-12, max_iter=1000)
    theirs = OneVsRestClassifier(single).fit(X, y)
    for n, one in enumerate(theirs.estimators_):
        assert np.abs(ours.coef_[n] - one.coef_[0]).max() < 1e-6
    assert np.allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    assert (ours.predict(X) == theirs.predict(X)).all()


def test_probabilities_are_numbers_wherever_a_row_lies() -> None:
    X = rows()
    for count in (2, 4):
        for how in ("softmax", "ovr"):
            model = LogisticRegression(C=100, multi_class=how).fit(X, classes(X, count))
            likely = model.predict_proba(np.array([[1.0], [-1.0], [0.0]]) * np.full(X.shape[1], 1e6))
            assert np.isfinite(likely).all() and np.allclose(likely.sum(axis=1), 1)


@pytest.mark.parametrize("learner", [*REGRESSORS, *CLASSIFIERS])
def test_fits_have_the_same_bits_on_all_workers(learner: Any) -> None:
    X = rows(400, 12)
    y = targets(X) if learner in REGRESSORS else classes(X, 3)
    cocoa: Dict[str, Any] = {"solver": "cocoa", "h": 1.0, "sigma": 2.0, "partitions": 2}
    ways: List[Dict[str, Any]] = [{}, cocoa]
    if learner is LogisticRegression:
        ways = [{}, {"solver": "lbfgs"}, {**cocoa, "multi_class": "ovr"}]
    for more in ways:
        fits = [
            learner(workers=workers, **more).fit(X, y, sample_weight=row_weights(X))
            for workers in ("local:1", "local:3", "proc:2")
        ]
        for fit in fits[1:]:
            assert same_bits(fit.coef_, fits[0].coef_)
            assert (fit.objective_, fit.dual_gap_, fit.rounds_) == (
                fits[0].objective_,
                fits[0].dual_gap_,
                fits[0].rounds_,
            )


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("learner", [*REGRESSORS, *CLASSIFIERS])
def test_numbers_of_32_bits_give_what_those_of_64_give(learner: Any, make: Any) -> None:
    X = rows()
    for count in (2, 3):
        y = targets(X) if learner in REGRESSORS else classes(X, count)
        ways: List[Dict[str, Any]] = [{}, {"solver": "cocoa", "h": 1.0, "sigma": 1.0}]
        if learner is LogisticRegression and count == 3:
            ways = [{}, {"solver": "lbfgs"}]
        for more in ways:
            wide = learner(tol=1e-12, **more).fit(make(X), y)
            narrow = learner(tol=1e-12, **more).fit(make(X.astype(np.float32)), y)
            # Only what is told is rounded to 32 bits.
            size = np.abs(wide.coef_).max()
            assert np.abs(narrow.coef_ - wide.coef_).max() <= 1e-6 * size and narrow.rounds_ == wide.rounds_
            assert np.abs(narrow.intercept_ - wide.intercept_).max() <= 1e-6 * max(1.0, size)
            assert narrow.objective_ == pytest.approx(wide.objective_, rel=1e-9)
            assert (narrow.predict(make(X[:5])) == wide.predict(make(X[:5]))).all() or learner in REGRESSORS


def test_what_was_chosen_is_told() -> None:
    X = rows(300, 40)
    model = Lasso(0.05, solver="cocoa").fit(X, targets(X))
    assert model.converged_ and model.outcome_ == "converged" and "cocoa" in model.solver_
    assert model.dual_gap_ <= model.tol * model.objective_
    first = model.choices_[0]
    assert set(first) == {"round", "work", "sigma", "reason"} and first["round"] == 1 and first["work"] > 0
    direct = Lasso(0.05).fit(X, targets(X))
    assert "direct" in direct.solver_ and direct.choices_ == []


SMOOTH = ["ridge", "logistic l2", "svm"]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("model", SMOOTH)
def test_conjugate_gradients_find_scikit_learns_coefficients(model: str, make: Any, weighted: bool) -> None:
    X, theirs = rows(), expected(model, True, weighted)
    ours = clone(PAIRS[model][0]).set_params(solver="newton-cg", tol=1e-13)
    ours.fit(make(X), answers(ours, X), sample_weight=row_weights(X) if weighted else None)
    assert np.abs(ours.coef_ - theirs.coef_).max() < 1e-6
    assert np.abs(ours.intercept_ - theirs.intercept_).max() < 1e-6
    assert ours.solver_ == "newton-cg" and 0 <= ours.dual_gap_ + 1e-12 <= 1e-6 * ours.objective_


def test_more_columns_than_rows_are_no_trouble_at_the_default_penalty() -> None:
    random = np.random.default_rng(4)
    X = random.normal(size=(150, 2500))
    y = X @ random.normal(size=2500)
    ours = Ridge(tol=1e-13).fit(X, y)
    theirs = sklearn.linear_model.Ridge().fit(X, y)
    assert ours.solver_ == "newton-cg" and ours.converged_ and ours.rounds_ < 200
    assert np.abs(ours.coef_ - theirs.coef_).max() < 1e-6 and ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-6)
    # What is told of a gap holds for the optimum.
    rough = Ridge(tol=1e-3).fit(X, y)
    assert ours.objective_ <= rough.objective_ <= ours.objective_ + rough.dual_gap_ * (1 + 1e-9)


def test_without_a_penalty_ridge_is_least_squares_and_of_many_optima_finds_the_shortest() -> None:
    X = rows()
    plain = sklearn.linear_model.LinearRegression()
    for made in (X, sp.csr_matrix(X)):
        ours = Ridge(alpha=0, tol=1e-12).fit(made, targets(X))
        assert np.abs(ours.coef_ - plain.fit(X, targets(X)).coef_).max() < 1e-6
        assert ours.intercept_ == pytest.approx(plain.intercept_, abs=1e-6)
    twice = np.column_stack((X, X))
    ours, theirs = Ridge(alpha=0).fit(twice, targets(X)), plain.fit(twice, targets(X))
    assert np.abs(ours.coef_ - theirs.coef_).max() < 1e-6
    with pytest.raises(ValueError, match="cocoa needs an alpha over 0"):
        Ridge(alpha=0, solver="cocoa").fit(X, targets(X))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("model", ["ridge", "lasso", "elastic net"])
def test_positive_coefficients_are_scikit_learns(model: str, make: Any) -> None:
    X = rows()
    y = targets(X)
    ours = clone(PAIRS[model][0]).set_params(positive=True, tol=1e-12).fit(make(X), y)
    theirs = clone(PAIRS[model][1]).set_params(positive=True)
    if model == "ridge":
        theirs.set_params(solver="lbfgs", max_iter=100_000)
    theirs.fit(X, y)
    assert (ours.coef_ >= 0).all() and (ours.coef_ > 0).any()
    assert np.abs(ours.coef_ - theirs.coef_).max() < 1e-6 and ours.converged_
    with pytest.raises(ValueError, match="cocoa finds coefficients of any sign"):
        ours.set_params(solver="cocoa").fit(make(X), y)


#: Every model with the solvers that begin where they are told; a dual has other variables.
WARM = [(model, "auto") for model in PAIRS if model != "svm hinge"]
WARM += [(model, "newton-cg") for model in SMOOTH]
WARM += [(model, "cocoa") for model in PAIRS if "svm" not in model]
WARM += [(model, "lbfgs") for model in PAIRS if "logistic" in model]


@pytest.mark.parametrize("model,solver", WARM)
def test_a_warm_start_at_the_optimum_only_finds_that_out(model: str, solver: str) -> None:
    X = rows(300, 12)
    ours = clone(PAIRS[model][0]).set_params(solver=solver, tol=1e-10, warm_start=True)
    ours.fit(X, answers(ours, X))
    cold = ours.coef_.copy()
    ours.set_params(tol=1e-6).fit(X, answers(ours, X))
    assert ours.converged_ and ours.rounds_ <= 4
    assert np.abs(ours.coef_ - cold).max() < 1e-5


def test_an_objective_is_that_of_scikit_learns_documentation() -> None:
    X = rows()
    y, weights = targets(X), row_weights(X)
    ridge = Ridge(0.7, tol=1e-12).fit(X, y, sample_weight=weights)
    squares = weights @ (ridge.predict(X) - y) ** 2
    assert ridge.objective_ == pytest.approx(squares + 0.7 * ridge.coef_ @ ridge.coef_, rel=1e-9)
    lasso = Lasso(0.05, tol=1e-12).fit(X, y, sample_weight=weights)
    squares = weights @ (lasso.predict(X) - y) ** 2 / (2 * weights.sum())
    assert lasso.objective_ == pytest.approx(squares + 0.05 * np.abs(lasso.coef_).sum(), rel=1e-9)
    c = classes(X)
    model = LogisticRegression(C=0.5, tol=1e-12).fit(X, c, sample_weight=weights)
    losses = np.logaddexp(0, -np.where(c == "c", 1, -1) * model.decision_function(X))
    assert model.objective_ == pytest.approx(0.5 * weights @ losses + model.coef_[0] @ model.coef_[0] / 2, rel=1e-9)


@pytest.mark.parametrize("learner", [Lasso, ElasticNet, LogisticRegression])
def test_a_warm_start_begins_where_the_last_fit_ended(learner: Any) -> None:
    X = rows(300, 40)
    y = targets(X) if learner in REGRESSORS else classes(X)
    given = {"alpha": 0.02} if learner in REGRESSORS else {"l1_ratio": 0.5}
    model = learner(warm_start=True, solver="cocoa", tol=1e-8, h=1.0, **given).fit(X, y)
    cold = model.rounds_
    assert model.fit(X, y).rounds_ < cold / 2
    # Another shape is another beginning.
    assert model.fit(X[:, :5], y).coef_.shape[-1] == 5


def test_a_fit_that_ends_too_early_warns_and_is_there() -> None:
    X = rows(300, 40)
    model = Lasso(0.01, solver="cocoa", max_iter=1, h=0.1, tol=1e-12)
    with pytest.warns(ConvergenceWarning, match="after 1 round .* larger max_iter") as caught:
        model.fit(X, targets(X))
    assert caught[0].filename == __file__
    assert not model.converged_ and model.outcome_ == "rounds used up" and np.isfinite(model.predict(X)).all()


def test_a_gap_that_the_last_certificate_closes_is_convergence() -> None:
    X = rows(300, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # At such a price nothing is learnt, and one round says so.
        model = Lasso(1e6, solver="cocoa", max_iter=1).fit(X, targets(X))
    assert model.converged_ and not model.coef_.any()


def test_more_partitions_than_columns_are_fewer_and_that_is_said() -> None:
    X = rows(60, 3)
    with pytest.warns(UserWarning, match="Ridge: 3 partitions, not 7") as caught:
        Ridge(solver="cocoa", partitions=7).fit(X, targets(X))
    assert caught[0].filename == __file__


@pytest.mark.parametrize("learner", [*REGRESSORS, *CLASSIFIERS])
def test_wrong_input_is_told_what_is_wrong(learner: Any) -> None:
    X = rows()
    y = targets(X) if learner in REGRESSORS else classes(X)
    bad = X.copy()
    bad[17, 3] = np.nan
    for make in (np.asarray, sp.csr_matrix):
        with pytest.raises(ValueError, match=r"row 17, column 3 \(counted from 0\) is NaN"):
            learner().fit(make(bad), y)
    with pytest.raises(ValueError, match="NaN"):
        learner().fit(X, y).predict(bad)
    with pytest.raises(ValueError, match="requires y to be passed"):
        learner().fit(X, None)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        learner().fit(X, y[:-1])
    with pytest.raises(ValueError, match=r"weight of row 3 \(counted from 0\) is -1"):
        learner().fit(X, y, sample_weight=np.where(np.arange(len(X)) == 3, -1.0, 1.0))
    with pytest.raises(ValueError, match="sample_weight"):
        learner().fit(X, y, sample_weight=np.ones(3))
    with pytest.raises(ValueError, match="non-zero"):
        learner().fit(X, y, sample_weight=np.zeros(len(X)))
    price = "alpha" if learner in REGRESSORS else "C"
    # Ridge alone does without a penalty.
    least = "that is not negative" if learner is Ridge else "over 0"
    for value in (-1, -1.0, np.inf, np.nan, *([] if learner is Ridge else [0])):
        with pytest.raises(ValueError, match=f"{price} is .*; give a finite number {least}"):
            learner(**{price: value}).fit(X, y)
    for more, words in (
        ({"solver": "sag"}, "solver is .*sag.*; give auto, "),
        ({"tol": -1}, "tol is -1"),
        ({"max_iter": 0}, "max_iter is 0"),
        ({"partitions": 0}, "partitions is 0"),
        ({"sigma": 0.5}, "sigma is 0.5"),
        ({"random_state": -1}, "Seed must be"),
    ):
        with pytest.raises(ValueError, match=words):
            learner(**more).fit(X, y)


def test_wrong_classes_and_shares_are_told_what_is_wrong() -> None:
    X = rows()
    for learner in CLASSIFIERS:
        with pytest.raises(ValueError, match="one class"):
            learner().fit(X, np.ones(len(X)))
        with pytest.raises(ValueError, match="Unknown label type"):
            learner().fit(X, targets(X))
        with pytest.raises(ValueError, match="class_weight is 'even'"):
            learner(class_weight="even").fit(X, classes(X))
    with pytest.raises(ValueError, match="l1_ratio is 1.5"):
        ElasticNet(l1_ratio=1.5).fit(X, targets(X))
    with pytest.raises(ValueError, match="large C"):
        LogisticRegression(penalty=None).fit(X, classes(X))  # type: ignore[arg-type]
    for solver in ("cocoa", "minibatch-scd", "minibatch-sgd"):
        with pytest.raises(ValueError, match=f"{solver} tells one class from the rest .* or multi_class ovr"):
            LogisticRegression(solver=solver).fit(X, classes(X, 3))
    with pytest.raises(ValueError, match="lbfgs tells classes apart together"):
        LogisticRegression(solver="lbfgs", multi_class="ovr").fit(X, classes(X, 3))
    with pytest.raises(ValueError, match="multi_class is .*multinomial.*; give softmax or ovr"):
        LogisticRegression(multi_class="multinomial").fit(X, classes(X, 3))
    with pytest.raises(ValueError, match="penalty is l2 and l1_ratio is 0.3"):
        LogisticRegression("l2", l1_ratio=0.3).fit(X, classes(X))
    with pytest.raises(ValueError, match="alpha has 2 numbers and y 3 columns"):
        Ridge([1.0, 2.0]).fit(X, np.column_stack([targets(X)] * 3))
    with pytest.raises(ValueError, match="loss is .*; give squared_hinge or hinge"):
        LinearSVC("square").fit(X, classes(X))


def test_old_and_new_ways_to_ask_for_a_penalty_mean_the_same() -> None:
    X = rows()
    y = classes(X)
    for old, new in (("l1", 1.0), ("l2", 0.0)):
        a = LogisticRegression(old, l1_ratio=None).fit(X, y)
        assert same_bits(a.coef_, LogisticRegression(l1_ratio=new).fit(X, y).coef_)
    a = LogisticRegression("elasticnet", l1_ratio=0.4).fit(X, y)
    assert same_bits(a.coef_, LogisticRegression(l1_ratio=0.4).fit(X, y).coef_)


def test_every_output_of_a_ridge_may_have_its_own_price() -> None:
    X = rows()
    Y = np.column_stack((targets(X), targets(X, 5)))
    both = Ridge([0.1, 10.0]).fit(X, Y)
    for n, alpha in enumerate((0.1, 10.0)):
        assert same_bits(both.coef_[n], Ridge(alpha).fit(X, Y[:, n]).coef_)


def test_empty_columns_and_data_of_zeros_are_no_trouble() -> None:
    X = np.zeros((12, 4))
    y = np.arange(12.0)
    for solver in ("auto", "cocoa"):
        for learner in REGRESSORS:
            model = learner(solver=solver).fit(X, y)
            assert (model.coef_ == 0).all() and model.intercept_ == pytest.approx(5.5)
            assert model.fit(X, np.full(12, 3.0)).predict(X[:2]).tolist() == pytest.approx([3.0, 3.0])
        for kind in CLASSIFIERS:
            assert (kind(solver=solver).fit(X, y > 7).coef_ == 0).all()


def test_names_of_columns_and_files_are_taken(tmp_path: Path) -> None:
    X = rows()
    table = pd.DataFrame(X, columns=[f"c{n}" for n in range(X.shape[1])])
    y = targets(X)
    model = Ridge().fit(table, y)
    assert model.feature_names_in_.tolist() == table.columns.tolist() and model.n_features_in_ == X.shape[1]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(table[table.columns[::-1]])
    np.save(str(tmp_path / "x.npy"), X)
    for data in (str(tmp_path / "x.npy"), FileDataSet(str(tmp_path / "x.npy"))):
        again = Ridge().fit(data, y)
        assert same_bits(again.coef_, model.coef_)
        assert np.allclose(again.predict(data), model.predict(table), atol=1e-12)
    with pytest.raises(ValueError, match="70"):
        Ridge().fit(str(tmp_path / "x.npy"), y[:-1])


def test_they_go_where_estimators_go() -> None:
    X = rows(200, 8)
    y = classes(X)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(l1_ratio=1.0))
    search = GridSearchCV(pipeline, {"logisticregression__C": [0.01, 1.0]}, cv=3, scoring="roc_auc").fit(X, y)
    assert search.best_params_ == {"logisticregression__C": 1.0} and search.best_score_ > 0.8
    model = LinearSVC(C=0.3).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(X) == model.predict(X)).all() and again.get_params() == model.get_params()
    copied = clone(model).set_params(C=0.1, workers="local:1")
    assert not hasattr(copied, "coef_") and copied.fit(X, y).coef_.shape == (1, 8)


@pytest.mark.parametrize("learner", [*REGRESSORS, *CLASSIFIERS])
def test_files_keep_models(learner: Any, tmp_path: Path) -> None:
    X = pd.DataFrame(rows(), columns=list("abcdefghi"))
    words = classes(X.to_numpy(), 3)
    numbers = np.searchsorted(np.unique(words), words) * 2
    path = tmp_path / "a.model"
    for y in [targets(X.to_numpy())] if learner in REGRESSORS else [words, numbers, numbers == 2]:
        model = learner(max_iter=1234).fit(X, y)
        model.save(path)
        again = learner.load(path)
        assert (again.max_iter, again.n_features_in_) == (1234, 9)
        assert same_bits(again.coef_, model.coef_) and np.shape(again.intercept_) == np.shape(model.intercept_)
        assert again.feature_names_in_.tolist() == list("abcdefghi")
        assert np.array_equal(again.predict(X), model.predict(X))
    if learner is LogisticRegression:
        for how in ("softmax", "ovr"):
            model = learner(multi_class=how).fit(X, words)
            model.save(path)
            again = learner.load(path)
            assert again.multi_class == how and np.array_equal(again.predict_proba(X), model.predict_proba(X))
    other = Ridge if learner is not Ridge else Lasso
    with pytest.raises(ValueError, match=f"a model of {learner._learner}, and {other.__name__} loads"):
        other.load(path)


def test_a_model_of_several_outputs_goes_into_no_file(tmp_path: Path) -> None:
    X = rows()
    model = Ridge().fit(X, np.column_stack((targets(X), targets(X))))
    with pytest.raises(ValueError, match="one output, and this Ridge has 2; pickle it"):
        model.save(tmp_path / "a.model")


@pytest.mark.parametrize("workers", ["local:2", "proc:2"])
def test_ctrl_c_ends_a_fit_and_the_workers_can_be_used_again(workers: str) -> None:
    # Many more columns than rows, and next to no penalty: some hundred thousand rounds to go.
    random = np.random.default_rng(0)
    X, y = random.normal(size=(300, 6000)), random.normal(size=300)
    model = Lasso(1e-9, tol=0, solver="cocoa", h=0.001, sigma=2.0, max_iter=10**9, workers=workers)
    with pytest.raises(KeyboardInterrupt), ctrl_c_when(some_rounds(workers)):
        model.fit(X, y)
    assert Ridge(workers=workers).fit(X[:50, :20], y[:50]).converged_


# ---- the same bits -----------------------------------------------------------------------------------------------

#: More than 2^18 entries: columns are divided into several partitions without anybody saying so.
MANY_ROWS, MANY_COLUMNS = 11_000, 24


@functools.lru_cache(maxsize=None)
def many_rows() -> Any:
    return rows(MANY_ROWS, MANY_COLUMNS, seed=5)


@pytest.mark.parametrize("solver", ["auto", "cocoa"])
@pytest.mark.parametrize("kind", [*REGRESSORS, *CLASSIFIERS])
def test_linear_models_without_options_have_the_same_bits_on_all_workers_and_in_every_fit(
    kind: Any, solver: str
) -> None:
    X = many_rows()
    assert X.size > 2**18
    # So large that the usual penalty leaves some coefficients.
    y = 20 * targets(X) if kind in REGRESSORS else classes(X)
    options = {} if solver == "auto" else {"solver": solver}

    def bits(workers: str, **more: Any) -> Any:
        fitted = kind(workers=workers, **options, **more).fit(X, y)
        assert np.count_nonzero(fitted.coef_) > 1
        return fitted.coef_.tobytes(), np.asarray(fitted.intercept_).tobytes()

    expected = bits("local:1")
    for workers in ("local:1", "local:1", "local:2", "proc:2", "inproc:2"):
        assert bits(workers) == expected, workers
    # The rows of a support vector machine are one partition up to 2^25 entries.
    if solver == "cocoa" and kind is not LinearSVC:
        assert bits("local:2", partitions=2) == expected != bits("local:2", partitions=1)
