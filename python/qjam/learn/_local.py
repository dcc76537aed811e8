"""Locally weighted regression."""

from __future__ import annotations

import os
import warnings
from typing import Any, Dict, TypeVar, Union

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from .. import _native
from .._workers import WorkersLike
from ._input import as_matrix, as_rows, fitted, is_data, memory_of, of_data, row_weights
from ._masters import kept, shares
from ._models import answered, fit_of, loaded, saved
from ._shown import ShownEstimator
from ._tables import documented, fitted_numbers, options_of

__all__ = ["LocallyWeightedRegression"]

Self = TypeVar("Self", bound="LocallyWeightedRegression")

#: Weights of rows by queries up to which the calling thread is done before workers have begun.
_LITTLE = 200_000
#: What targets are computed with.
_doubles: Any = np.float64


@documented("lwr")
class LocallyWeightedRegression(RegressorMixin, ShownEstimator):
    """Each prediction is a weighted least-squares fit to the learnt rows, in which near ones count more.

    ``fit`` leaves ``bandwidth_``, ``n_features_in_`` and, of tables, ``feature_names_in_``; and it keeps the rows, which are the
    model. scikit-learn has no counterpart.

    >>> import numpy as np
    >>> from qjam.learn import LocallyWeightedRegression
    >>> X = np.linspace(-2, 2, 41)[:, None]
    >>> model = LocallyWeightedRegression(bandwidth=0.2).fit(X, np.abs(X[:, 0]))
    >>> model.predict([[-1.5], [1.0]]).round(3).tolist()
    [1.5, 1.0]
    """

    _learner = "lwr"

    bandwidth_: float
    n_features_in_: int
    feature_names_in_: Any
    _learnt: Dict[str, Any]

    def __init__(
        self,
        bandwidth: Any = "auto",
        *,
        kernel: str = "gaussian",
        degree: int = 1,
        alpha: float = 0.0,
        workers: WorkersLike = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.degree = degree
        self.alpha = alpha
        self.workers = workers

    def fit(self: Self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Finds the bandwidth, and keeps the rows. ``y`` has a number for each row; ``sample_weight`` says how much each counts."""
        if y is None:
            raise ValueError("This LocallyWeightedRegression estimator requires y to be passed, but the target y is None")
        rows = self._rows(X, reset=True, beside=y)
        y = check_array(y, ensure_2d=False, dtype=_doubles, input_name="y", estimator=self)
        y = column_or_1d(y, warn=True)
        if len(y) != rows.rows:
            raise ValueError(f"y has {len(y)} numbers for {rows.rows} rows; give one for each")
        weights = None if sample_weight is None else row_weights(sample_weight, rows.rows)
        found = fit_of(
            self.workers,
            rows,
            self._learner,
            options_of(self, self._learner),
            targets=memory_of(np.ascontiguousarray(y)),
            weights=None if weights is None else memory_of(weights),
        )
        self._keep(found["tensors"])
        return self

    def predict(self, X: Any) -> Any:
        """What is expected of every row: one pass over the learnt rows for thousands of them."""
        fitted(self)
        attributes = {"kernel": self.kernel}
        if not is_data(X):
            X = as_matrix(self, X, reset=False, sparse=False)
            if len(X) * len(self._learnt["rows"]) <= _LITTLE and X.dtype == np.float64:
                here = _native.model_answer_here(memory_of(X), self._learner, self._learnt, "predict", attributes=attributes)
                return self._told(here)
            X = kept(self.workers, as_rows(X, shares(self.workers)))
        else:
            X = self._rows(X, reset=False)
        return self._told(answered(self.workers, X, self._learner, self._learnt, "predict", attributes))

    # ---- files --------------------------------------------------------------------------------------------------

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the model, which has all rows, to a file that the command ``qjam`` and programs in Rust read, too."""
        fitted(self)
        notes = fitted_numbers(self, {"bandwidth": "bandwidth_"})
        saved(self, path, self._learnt, notes, {"kernel": self.kernel})

    @classmethod
    def load(cls: type[Self], path: Union[str, os.PathLike[str]], *, workers: WorkersLike = None) -> Self:
        """An estimator with the model of a file that :meth:`save` or ``qjam fit`` wrote."""
        found = _native.model_load(os.fspath(path), cls._learner)
        made = loaded(cls, cls._learner, found, found["tensors"]["rows"].shape[1], workers)
        made.kernel = found["attributes"]["kernel"]
        made._keep(found["tensors"])
        return made

    # ---- inside -------------------------------------------------------------------------------------------------

    def _rows(self, X: Any, *, reset: bool, beside: Any = None) -> _native.Rows:
        if is_data(X):
            return of_data(self, X, shares(self.workers), reset=reset)[0]
        matrix = as_matrix(self, X, reset=reset, sparse=False)
        if beside is not None:
            check_consistent_length(matrix, beside)
        return kept(self.workers, as_rows(matrix, shares(self.workers)))

    def _keep(self, tensors: Dict[str, Any]) -> None:
        self._learnt = {name: np.ascontiguousarray(part, np.float64) for name, part in tensors.items()}
        self.bandwidth_ = float(tensors["bandwidth"][0])

    def _told(self, values: Any) -> Any:
        lost = int(np.isnan(values).sum())
        if lost:
            warnings.warn(
                f"{lost} row(s) have no learnt row within the bandwidth of {self.bandwidth_:.3g}, and are predicted as NaN; "
                "give a larger one, or the Gaussian kernel",
                UserWarning,
                stacklevel=3,
            )
        return values
