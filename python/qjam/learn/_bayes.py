"""Naive Bayes."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional, TypeVar, Union

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from .. import _native
from .._workers import WorkersLike
from ._input import as_matrix, as_rows, fitted, is_data, memory_of, of_data, row_weights
from ._masters import kept, shares
from ._models import answered, fit_of, loaded, saved
from ._tables import documented, options_of

__all__ = ["GaussianNB"]

Self = TypeVar("Self", bound="GaussianNB")

#: What model files call the name of a class that is no number.
_CLASS = "class "


@documented("gaussian-nb")
class GaussianNB(ClassifierMixin, BaseEstimator):
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
    """

    #: What the command calls it.
    _learner = "gaussian-nb"

    theta_: Any
    var_: Any
    class_count_: Any
    class_prior_: Any
    classes_: Any
    epsilon_: float
    n_features_in_: int
    feature_names_in_: Any

    def __init__(
        self, *, priors: Any = None, var_smoothing: float = 1e-9, workers: WorkersLike = None
    ) -> None:
        self.priors = priors
        self.var_smoothing = var_smoothing
        self.workers = workers

    def fit(self: Self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Finds mean and variance of each column in each class. ``y`` has the class of each row: numbers, words, whatever can
        be compared. ``sample_weight`` says how much each row counts.
        """
        rows, y = self._read(X, y, reset=True)
        self.classes_ = np.unique(y)
        return self._learn(rows, y, sample_weight, {})

    def partial_fit(self: Self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learns from one more batch. The first call needs ``classes``: all that any batch will have.

        >>> import numpy as np
        >>> from qjam.learn import GaussianNB
        >>> model = GaussianNB().partial_fit([[0.0], [1.0]], [0, 0], classes=[0, 1])
        >>> model.partial_fit([[8.0], [9.0]], [1, 1]).predict([[0.3], [8.7]]).tolist()
        [0, 1]
        """
        is_first = _check_partial_fit_first_call(self, classes)
        rows, y = self._read(X, y, reset=is_first)
        strange = np.setdiff1d(y, self.classes_)
        if len(strange):
            raise ValueError(
                f"The target label(s) {strange} in y do not exist in the initial classes {self.classes_}"
            )
        start = {} if is_first else {name: part for name, part in self._tensors().items() if name != "classes"}
        return self._learn(rows, y, sample_weight, {**start, "classes": self._numbers()}, batch=True)

    def predict(self, X: Any) -> Any:
        """The class of every row."""
        joint = self._answer(X, "joint-log-probabilities")
        return self.classes_[joint.argmax(axis=1)]

    def predict_proba(self, X: Any) -> Any:
        """How likely each class is, for every row."""
        return self._answer(X, "probabilities")

    def predict_log_proba(self, X: Any) -> Any:
        """The logarithm of how likely each class is, for every row."""
        return self._answer(X, "log-probabilities")

    def predict_joint_log_proba(self, X: Any) -> Any:
        """The logarithm of the joint probability of every row and each class."""
        return self._answer(X, "joint-log-probabilities")

    # ---- files --------------------------------------------------------------------------------------------------

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the model to a file that the command ``qjam`` and programs in Rust read, too."""
        fitted(self)
        names = {f"{_CLASS}{n}": str(name) for n, name in enumerate(self.classes_)}
        is_number = self.classes_.dtype.kind in "biuf"
        saved(self, path, self._tensors(), {} if is_number else names)

    @classmethod
    def load(cls: type[Self], path: Union[str, os.PathLike[str]], *, workers: WorkersLike = None) -> Self:
        """An estimator with the model of a file that :meth:`save` or ``qjam fit`` wrote.

        >>> import os, tempfile
        >>> from qjam.learn import GaussianNB
        >>> model = GaussianNB().fit([[0.0], [1.0], [8.0], [9.0]], [0, 0, 1, 1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(os.path.join(folder, "two.model"))
        ...     again = GaussianNB.load(os.path.join(folder, "two.model"))
        >>> bool((again.var_ == model.var_).all()), again.classes_.tolist()
        (True, [0, 1])
        """
        found = _native.model_load(os.fspath(path), cls._learner)
        tensors = found["tensors"]
        made = loaded(cls, cls._learner, found, tensors["theta"].shape[1], workers)
        names = [found["fitted"].get(f"{_CLASS}{n}") for n in range(len(tensors["classes"]))]
        classes = np.asarray(tensors["classes"] if None in names else names)
        if classes.dtype.kind == "f" and (classes == np.rint(classes)).all():
            classes = classes.astype(np.int64)
        made.classes_, made.priors = classes, None
        made._keep(tensors)
        return made

    # ---- inside -------------------------------------------------------------------------------------------------

    def _read(self, X: Any, y: Any, *, reset: bool) -> Any:
        """The rows, and the class of each."""
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None"
            )
        if is_data(X):
            rows = of_data(self, X, shares(self.workers), reset=reset)[0]
        else:
            matrix = as_matrix(self, X, reset=reset, sparse=False)
            check_consistent_length(matrix, y)
            rows = kept(self.workers, as_rows(matrix, shares(self.workers)))
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if len(y) != rows.rows:
            raise ValueError(f"y has {len(y)} classes for {rows.rows} rows; give one for each")
        return rows, y

    def _learn(
        self: Self, rows: _native.Rows, y: Any, sample_weight: Any, start: Dict[str, Any], *, batch: bool = False
    ) -> Self:
        options = options_of(self, self._learner, leave=("priors",))
        if self.priors is not None and not (isinstance(self.priors, str) and self.priors == "none"):
            start = {**start, "priors": np.ravel(np.asarray(self.priors, np.float64))}
        weights = None if sample_weight is None else row_weights(sample_weight, rows.rows)
        indices = self._numbers()[np.searchsorted(self.classes_, y)]
        fit = fit_of(
            self.workers,
            rows,
            self._learner,
            options,
            targets=memory_of(np.ascontiguousarray(indices)),
            weights=None if weights is None else memory_of(weights),
            start=start or None,
            batch=batch,
        )
        self._keep(fit["tensors"])
        return self

    def _answer(self, X: Any, question: _native.Question) -> Any:
        fitted(self)
        workers: Optional[WorkersLike] = self.workers
        if is_data(X):
            rows = of_data(self, X, shares(workers), reset=False)[0]
        else:
            matrix = as_matrix(self, X, reset=False, sparse=False)
            rows = kept(workers, as_rows(matrix, shares(workers)))
        return answered(workers, rows, self._learner, self._tensors(), question)

    def _numbers(self) -> Any:
        """Numbers for the classes, in order: themselves where they are numbers."""
        if self.classes_.dtype.kind in "biuf":
            return self.classes_.astype(np.float64)
        return np.arange(len(self.classes_), dtype=np.float64)

    def _tensors(self) -> Dict[str, Any]:
        tensors = {
            "theta": self.theta_,
            "var": self.var_,
            "class_count": self.class_count_,
            "class_prior": self.class_prior_,
            "epsilon": np.array([self.epsilon_]),
            "classes": self._numbers(),
        }
        return {name: np.ascontiguousarray(part, np.float64) for name, part in tensors.items()}

    def _keep(self, tensors: Dict[str, Any]) -> None:
        self.theta_, self.var_ = tensors["theta"], tensors["var"]
        self.class_count_, self.class_prior_ = tensors["class_count"], tensors["class_prior"]
        self.epsilon_ = float(tensors["epsilon"][0])
