"""The estimators are what scikit-learn calls estimators: all of its own checks, none excused that its own are not."""

from __future__ import annotations

from typing import Any, Callable, Dict
from unittest import SkipTest

import pytest
from sklearn.utils._test_common.instance_generator import PER_ESTIMATOR_XFAIL_CHECKS
from sklearn.utils.estimator_checks import estimator_checks_generator

from qjam.learn import (
    PCA,
    BernoulliNB,
    ComplementNB,
    ElasticNet,
    FastICA,
    GaussianMixture,
    GaussianNB,
    KMeans,
    Lasso,
    LinearDiscriminantAnalysis,
    LinearSVC,
    LocallyWeightedRegression,
    LogisticRegression,
    MaxAbsScaler,
    MiniBatchKMeans,
    MinMaxScaler,
    MLPClassifier,
    MLPRegressor,
    MultinomialNB,
    QuadraticDiscriminantAnalysis,
    Ridge,
    SparseAutoencoder,
    StandardScaler,
    TruncatedSVD,
)

# Small, as scikit-learn checks its own.
ESTIMATORS = [
    KMeans(2, n_init=2, max_iter=5),
    KMeans(2, n_init=2, max_iter=5, algorithm="lloyd", init="parallel"),
    MiniBatchKMeans(2, batch_size=10, max_iter=5),
    SparseAutoencoder(2, max_evaluations=10),
    Ridge(),
    Lasso(),
    ElasticNet(),
    LogisticRegression(),
    LinearSVC(),
    GaussianNB(),
    MultinomialNB(),
    BernoulliNB(),
    ComplementNB(),
    LocallyWeightedRegression(),
    LocallyWeightedRegression(bandwidth=20.0, kernel="tricube", alpha=0.01),
    StandardScaler(),
    StandardScaler(with_mean=False),
    MinMaxScaler(clip=True),
    MaxAbsScaler(),
    LinearDiscriminantAnalysis(),
    LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto"),
    QuadraticDiscriminantAnalysis(),
    PCA(),
    PCA(2, svd_solver="randomized", whiten=True),
    MLPClassifier(max_iter=100),
    MLPClassifier(solver="lbfgs", max_iter=100),
    MLPRegressor(max_iter=100),
    TruncatedSVD(2),
    TruncatedSVD(2, n_iter=3, n_oversamples=1),
    FastICA(2),
    FastICA(2, algorithm="deflation", fun="cube"),
    GaussianMixture(n_init=2, max_iter=5),
    GaussianMixture(2, covariance_type="tied", init_params="random_from_data", max_iter=5),
]

#: Rows are shuffled between two fits that must be equal, and random starts depend on the order of rows: scikit-learn's do
#: as well. That weights count as they should is checked without random starts in test_learn_kmeans.py.
BY_CHANCE = {
    "check_sample_weight_equivalence_on_dense_data": "random starts",
    "check_sample_weight_equivalence_on_sparse_data": "random starts",
}


def excused(estimator: Any) -> Dict[str, str]:
    return BY_CHANCE if isinstance(estimator, (KMeans, MiniBatchKMeans)) else {}


CHECKS = [
    pytest.param(estimator, check, id=f"{estimator}-{check.func.__name__}".replace(" ", ""))
    for one in ESTIMATORS
    for estimator, check in estimator_checks_generator(one)
    if check.func.__name__ not in excused(one)
]


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learns_own_check(estimator: Any, check: Callable[[Any], None]) -> None:
    try:
        check(estimator)
    except SkipTest as skipped:
        # Arrays of other libraries, which scikit-learn's own estimators are checked with only where that is set up.
        assert "SCIPY_ARRAY_API" in str(skipped)


def test_nothing_is_excused_that_scikit_learns_own_estimators_are_not() -> None:
    theirs = {kind.__name__: set(checks) for kind, checks in PER_ESTIMATOR_XFAIL_CHECKS.items()}
    for estimator in ESTIMATORS:
        assert set(excused(estimator)) <= theirs.get(type(estimator).__name__, set()), estimator
