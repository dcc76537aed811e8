"""Naive Bayes."""

from __future__ import annotations

import warnings
from typing import Any, Dict, Tuple

import numpy as np

from .._workers import WorkersLike
from ._classifier import BatchClassifier
from ._tables import documented

__all__ = ["BernoulliNB", "ComplementNB", "GaussianNB", "MultinomialNB"]


@documented("gaussian-nb")
class GaussianNB(BatchClassifier):
    """A stand-in for ``sklearn.naive_bayes.GaussianNB``.

    ``fit`` leaves ``theta_`` and ``var_`` (mean and variance of each column in each class), ``class_count_``,
    ``class_prior_``, ``classes_``, ``epsilon_`` (what was added to all variances), ``n_features_in_`` and, of tables,
    ``feature_names_in_``.

    >>> import numpy as np
    >>> from qjam.learn import GaussianNB
    >>> X = np.array([[-1.0, -1.0], [-2.0, -1.0], [1.0, 1.0], [2.0, 1.0]])
    >>> model = GaussianNB().fit(X, ["a", "a", "b", "b"])
    >>> model.predict([[-0.8, -1.0]]).tolist(), model.theta_.tolist()
    (['a'], [[-1.5, -1.0], [1.5, 1.0]])

    Batches, and a file:

    >>> import os, tempfile
    >>> model = GaussianNB().partial_fit([[0.0], [1.0]], [0, 0], classes=[0, 1])
    >>> model.partial_fit([[8.0], [9.0]], [1, 1]).predict([[0.3], [8.7]]).tolist()
    [0, 1]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(os.path.join(folder, "two.model"))
    ...     again = GaussianNB.load(os.path.join(folder, "two.model"))
    >>> bool((again.var_ == model.var_).all()), again.classes_.tolist()
    (True, [0, 1])
    """

    _learner = "gaussian-nb"
    _arrays = ("priors",)
    _wide = "theta"
    _attributes = {
        "theta": "theta_",
        "var": "var_",
        "class_count": "class_count_",
        "class_prior": "class_prior_",
        "epsilon": "epsilon_",
    }

    theta_: Any
    var_: Any
    class_count_: Any
    class_prior_: Any
    epsilon_: float

    def __init__(self, *, priors: Any = None, var_smoothing: float = 1e-9, workers: WorkersLike = None) -> None:
        self.priors = priors
        self.var_smoothing = var_smoothing
        self.workers = workers

    def _keep(self, tensors: Dict[str, Any]) -> None:
        super()._keep(tensors)
        self.epsilon_ = float(tensors["epsilon"][0])


class _Counting(BatchClassifier):
    """What the three learners of counts share."""

    _arrays: Tuple[str, ...] = ("class_prior", "alpha")
    _sparse = True
    _wide = "feature_count"
    _attributes = {
        "feature_count": "feature_count_",
        "feature_log_prob": "feature_log_prob_",
        "class_count": "class_count_",
        "class_log_prior": "class_log_prior_",
        "binarize": "_binarize",
    }

    alpha: Any
    force_alpha: bool
    feature_count_: Any
    feature_log_prob_: Any
    class_count_: Any
    class_log_prior_: Any
    _binarize: Any

    def _array_values(self) -> Dict[str, Any]:
        if not self.force_alpha and np.min(self.alpha) < 1e-10:
            warnings.warn(
                "alpha too small will result in numeric errors, setting alpha = 1.0e-10. Use `force_alpha=True` to keep "
                "alpha unchanged.",
                stacklevel=4,
            )
        return super()._array_values()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


class _OfCounts(_Counting):
    """Those for which negative numbers make no sense."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


@documented("multinomial-nb")
class MultinomialNB(_OfCounts):
    """A stand-in for ``sklearn.naive_bayes.MultinomialNB``.

    ``fit`` leaves ``feature_count_`` (sums of the columns by class), ``feature_log_prob_``, ``class_count_``,
    ``class_log_prior_``, ``classes_``, ``n_features_in_`` and, of tables, ``feature_names_in_``.

    >>> import numpy as np
    >>> from qjam.learn import MultinomialNB
    >>> words = np.array([[3.0, 0.0], [2.0, 1.0], [0.0, 4.0], [1.0, 3.0]])
    >>> model = MultinomialNB().fit(words, ["sport", "sport", "news", "news"])
    >>> model.predict([[4.0, 1.0]]).tolist(), model.feature_count_.tolist()
    (['sport'], [[1.0, 7.0], [5.0, 1.0]])
    """

    _learner = "multinomial-nb"

    def __init__(
        self,
        *,
        alpha: Any = 1.0,
        force_alpha: bool = True,
        fit_prior: bool = True,
        class_prior: Any = None,
        workers: WorkersLike = None,
    ) -> None:
        self.alpha = alpha
        self.force_alpha = force_alpha
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.workers = workers


@documented("bernoulli-nb")
class BernoulliNB(_Counting):
    """A stand-in for ``sklearn.naive_bayes.BernoulliNB``.

    ``fit`` leaves what :class:`MultinomialNB` leaves; ``feature_count_`` says in how many rows of a class a column is there.

    >>> import numpy as np
    >>> from qjam.learn import BernoulliNB
    >>> model = BernoulliNB(binarize=0.5).fit([[0.9, 0.1], [0.8, 0.7], [0.2, 0.6], [0.1, 0.9]], [0, 0, 1, 1])
    >>> model.predict([[1.0, 0.0]]).tolist(), model.feature_count_.tolist()
    ([0], [[2.0, 1.0], [0.0, 2.0]])
    """

    _learner = "bernoulli-nb"
    _arrays = ("class_prior", "alpha", "binarize")

    def __init__(
        self,
        *,
        alpha: Any = 1.0,
        force_alpha: bool = True,
        binarize: Any = 0.0,
        fit_prior: bool = True,
        class_prior: Any = None,
        workers: WorkersLike = None,
    ) -> None:
        self.alpha = alpha
        self.force_alpha = force_alpha
        self.binarize = binarize
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.workers = workers


@documented("complement-nb")
class ComplementNB(_OfCounts):
    """A stand-in for ``sklearn.naive_bayes.ComplementNB``.

    ``fit`` leaves what :class:`MultinomialNB` leaves, and ``feature_all_``, the sums of the columns; ``feature_log_prob_`` has
    the weights of the classes.

    >>> import numpy as np
    >>> from qjam.learn import ComplementNB
    >>> words = np.array([[3.0, 0.0], [2.0, 1.0], [0.0, 4.0], [1.0, 3.0]])
    >>> ComplementNB().fit(words, [0, 0, 1, 1]).predict([[4.0, 1.0], [0.0, 1.0]]).tolist()
    [0, 1]
    """

    _learner = "complement-nb"

    feature_all_: Any

    def __init__(
        self,
        *,
        alpha: Any = 1.0,
        force_alpha: bool = True,
        fit_prior: bool = True,
        class_prior: Any = None,
        norm: bool = False,
        workers: WorkersLike = None,
    ) -> None:
        self.alpha = alpha
        self.force_alpha = force_alpha
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.norm = norm
        self.workers = workers

    def _keep(self, tensors: Dict[str, Any]) -> None:
        super()._keep(tensors)
        self.feature_all_ = self.feature_count_.sum(axis=0)
