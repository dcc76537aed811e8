"""The estimators are what scikit-learn calls estimators: all of its own checks, none excused."""

from __future__ import annotations

from typing import Any, Callable

from sklearn.utils.estimator_checks import parametrize_with_checks

from qjam.learn import KMeans, MiniBatchKMeans, SparseAutoencoder

# Small, as scikit-learn checks its own.
ESTIMATORS = [
    KMeans(2, n_init=2, max_iter=5),
    KMeans(2, n_init=2, max_iter=5, algorithm="lloyd", init="parallel"),
    MiniBatchKMeans(2, batch_size=10, max_iter=5),
    SparseAutoencoder(2, max_evaluations=10),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learns_own_check(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
