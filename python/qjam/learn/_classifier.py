"""What classifiers share that know the joint probability of a row and each class: reading, asking, and their files."""

from __future__ import annotations

import os
from typing import Any, Dict, Tuple, TypeVar, Union

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from .. import _native
from .._workers import WorkersLike
from ._input import as_matrix, as_rows, fitted, is_data, memory_of, of_data, row_weights
from ._masters import kept, shares
from ._models import asked, fit_of, loaded, saved
from ._shown import ShownEstimator
from ._tables import options_of

__all__ = ["BatchClassifier", "JointClassifier"]

Self = TypeVar("Self", bound="JointClassifier")
Batches = TypeVar("Batches", bound="BatchClassifier")

#: What model files call the name of a class that is no number.
_CLASS = "class "


class JointClassifier(ClassifierMixin, ShownEstimator):
    """A classifier whose native model answers joint probabilities.

    A class has ``_learner`` (what the command calls it), ``_arrays`` (options that may be arrays, which go beside the rows),
    ``_sparse`` (whether sparse rows are taken), ``_wide`` (a tensor with a column for each column of the rows), and
    ``_attributes``: its fitted arrays, by the names that model files have.
    """

    _learner: str
    _arrays: Tuple[str, ...] = ()
    _sparse = False
    _wide: str
    _attributes: Dict[str, str] = {}

    workers: WorkersLike
    classes_: Any
    n_features_in_: int
    feature_names_in_: Any

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

    # ---- files --------------------------------------------------------------------------------------------------

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the model to a file that the command ``qjam`` and programs in Rust read, too."""
        fitted(self)
        names = {f"{_CLASS}{n}": str(name) for n, name in enumerate(self.classes_)}
        is_number = self.classes_.dtype.kind in "biuf"
        saved(self, path, self._tensors(), {} if is_number else names)

    @classmethod
    def load(cls: type[Self], path: Union[str, os.PathLike[str]], *, workers: WorkersLike = None) -> Self:
        """An estimator with the model of a file that :meth:`save` or ``qjam fit`` wrote."""
        found = _native.model_load(os.fspath(path), cls._learner)
        tensors = found["tensors"]
        made = loaded(cls, cls._learner, found, tensors[cls._wide].shape[1], workers)
        names = [found["fitted"].get(f"{_CLASS}{n}") for n in range(len(tensors["classes"]))]
        classes = np.asarray(tensors["classes"] if None in names else names)
        if classes.dtype.kind == "f" and (classes == np.rint(classes)).all():
            classes = classes.astype(np.int64)
        made.classes_ = classes
        made._loaded()
        made._keep(tensors)
        return made

    # ---- inside -------------------------------------------------------------------------------------------------

    def _loaded(self) -> None:
        """Words of the command that Python has other values for."""
        for name in self._arrays:
            if getattr(self, name) == "none":
                setattr(self, name, None)

    def _read(self, X: Any, y: Any, *, reset: bool) -> Any:
        """The rows, and the class of each."""
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None")
        if is_data(X):
            rows = of_data(self, X, shares(self.workers), reset=reset)[0]
        else:
            matrix = as_matrix(self, X, reset=reset, sparse=self._sparse)
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
        arrays = {name: array for name, array in self._array_values().items() if array is not None}
        options = options_of(self, self._learner, leave=tuple(arrays))
        weights = None if sample_weight is None else row_weights(sample_weight, rows.rows)
        indices = self._numbers()[np.searchsorted(self.classes_, y)]
        fit = fit_of(
            self.workers,
            rows,
            self._learner,
            options,
            targets=memory_of(np.ascontiguousarray(indices)),
            weights=None if weights is None else memory_of(weights),
            start={**start, **arrays} or None,
            batch=batch,
        )
        self._keep(fit["tensors"])
        return self

    def _array_values(self) -> Dict[str, Any]:
        """Options that are arrays, as numbers; those that are words or single numbers are None."""
        given = {name: getattr(self, name) for name in self._arrays}
        return {
            name: None if value is None or np.ndim(value) == 0 else np.ravel(np.asarray(value, np.float64))
            for name, value in given.items()
        }

    def _answer(self, X: Any, question: _native.Question) -> Any:
        fitted(self)
        return asked(self, X, question, workers=self.workers, sparse=self._sparse)

    def _numbers(self) -> Any:
        """Numbers for the classes, in order: themselves where they are numbers."""
        if self.classes_.dtype.kind in "biuf":
            return self.classes_.astype(np.float64)
        return np.arange(len(self.classes_), dtype=np.float64)

    def _tensors(self) -> Dict[str, Any]:
        tensors = {name: getattr(self, attribute) for name, attribute in self._attributes.items()}
        tensors["classes"] = self._numbers()
        return {name: np.ascontiguousarray(np.atleast_1d(part), np.float64) for name, part in tensors.items()}

    def _keep(self, tensors: Dict[str, Any]) -> None:
        for name, attribute in self._attributes.items():
            setattr(self, attribute, tensors[name])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._sparse
        return tags


class BatchClassifier(JointClassifier):
    """One that can learn from one batch after the other, with weights: the naive Bayes learners."""

    def fit(self: Batches, X: Any, y: Any, sample_weight: Any = None) -> Batches:
        """Learns from all rows at once. ``y`` has the class of each row: numbers, words, whatever can be compared.
        ``sample_weight`` says how much each row counts.
        """
        rows, y = self._read(X, y, reset=True)
        self.classes_ = np.unique(y)
        return self._learn(rows, y, sample_weight, {})

    def partial_fit(self: Batches, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Batches:
        """Learns from one more batch. The first call needs ``classes``: all that any batch will have."""
        is_first = _check_partial_fit_first_call(self, classes)
        rows, y = self._read(X, y, reset=is_first)
        strange = np.setdiff1d(y, self.classes_)
        if len(strange):
            raise ValueError(
                f"The target label(s) {strange} in y do not exist in the initial classes {self.classes_}"
            )
        start = {} if is_first else self._tensors()
        return self._learn(rows, y, sample_weight, {**start, "classes": self._numbers()}, batch=True)

    def predict_joint_log_proba(self, X: Any) -> Any:
        """The logarithm of the joint probability of every row and each class."""
        return self._answer(X, "joint-log-probabilities")
