"""Columns brought to one scale."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Dict, Optional, Tuple, TypeVar, Union

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_array

from .. import _native
from .._workers import WorkersLike
from ._input import as_matrix, as_rows, fitted, float_kinds, is_data, must_be_finite, of_data, row_weights
from ._masters import kept, shares
from ._models import answered, fit_of, loaded, saved
from ._shown import ShownEstimator
from ._tables import documented, options_of

__all__ = ["MaxAbsScaler", "MinMaxScaler", "StandardScaler"]

Self = TypeVar("Self", bound="Scaler")


class Scaler(OneToOneFeatureMixin, TransformerMixin, ShownEstimator):
    """What scalers share. Rows in memory are scaled here; of files and data sets each chunk by the native part, with the same bits."""

    _learner: ClassVar[str]
    _sparse: ClassVar[bool]
    #: A tensor with a number for each column.
    _wide: ClassVar[str]

    workers: WorkersLike
    scale_: Any
    n_samples_seen_: Any
    n_features_in_: int
    feature_names_in_: Any

    def fit(self: Self, X: Any, y: Any = None) -> Self:
        """Finds out about the columns of all rows, in one round; ``y`` is ignored."""
        return self._learn(X, None, reset=True)

    def partial_fit(self: Self, X: Any, y: Any = None) -> Self:
        """Adds a batch of rows to those that were seen; ``y`` is ignored."""
        return self._learn(X, None, reset=not hasattr(self, "n_samples_seen_"))

    def transform(self, X: Any) -> Any:
        """The rows with scaled columns; sparse rows stay sparse."""
        fitted(self)
        if is_data(X):
            rows = of_data(self, X, shares(self.workers), reset=False)[0]
            return answered(self.workers, rows, self._learner, self._tensors(), "transform")
        X = as_matrix(self, X, reset=False, sparse=self._sparse)
        shift, factor, offset, clip = self._affine()

        def moved(values: Any, at: Any) -> Any:
            scaled = values.astype(np.float64, copy=False)
            if shift is not None:
                scaled = scaled - shift
            scaled = scaled * factor[at]
            if offset:
                scaled = scaled + offset
            return scaled if clip is None else np.clip(scaled, *clip)

        return _mapped(X, shift, moved)

    def inverse_transform(self, X: Any) -> Any:
        """The rows that were scaled to these."""
        fitted(self)
        sparse: Any = "csr" if self._sparse else False
        X = check_array(X, accept_sparse=sparse, dtype=float_kinds, ensure_all_finite=False)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} columns; {type(self).__name__} was fitted to {self.n_features_in_}")
        shift, factor, offset, _ = self._affine()

        def back(values: Any, at: Any) -> Any:
            found = (values.astype(np.float64, copy=False) - offset) / factor[at]
            return found if shift is None else found + shift

        return _mapped(X, shift, back)

    # ---- files --------------------------------------------------------------------------------------------------

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the model to a file that the command ``qjam`` and programs in Rust read, too."""
        fitted(self)
        saved(self, path, self._tensors(), {})

    @classmethod
    def load(cls: type[Self], path: Union[str, os.PathLike[str]], *, workers: WorkersLike = None) -> Self:
        """An estimator with the model of a file that :meth:`save` or ``qjam fit`` wrote."""
        found = _native.model_load(os.fspath(path), cls._learner)
        tensors = found["tensors"]
        made = loaded(cls, cls._learner, found, len(tensors[cls._wide]), workers)
        made._loaded(tensors)
        made._keep(tensors)
        return made

    # ---- inside -------------------------------------------------------------------------------------------------

    def _learn(self: Self, X: Any, sample_weight: Any, *, reset: bool) -> Self:
        self._check()
        if is_data(X):
            if sample_weight is not None:
                raise ValueError("sample_weight needs rows in memory; weights of files are columns of them: qjam fit --weights")
            rows = of_data(self, X, shares(self.workers), reset=reset)[0]
        else:
            matrix = as_matrix(self, X, reset=reset, sparse=self._sparse)
            weights = None if sample_weight is None else row_weights(sample_weight, matrix.shape[0])
            weights = None if weights is None else weights.astype(matrix.dtype)
            rows = kept(self.workers, as_rows(matrix, shares(self.workers), weights))
        if rows.sparse and self._centres():
            raise ValueError(
                "Cannot center sparse matrices: pass `with_mean=False` instead. Their zeros would be other numbers."
            )
        start = None if reset else self._tensors()
        options = options_of(self, self._learner)
        self._keep(fit_of(self.workers, rows, self._learner, options, start=start, batch=not reset)["tensors"])
        return self

    def _seen(self, tensors: Dict[str, Any]) -> None:
        samples = float(tensors["samples"][0])
        self.n_samples_seen_ = int(samples) if samples == int(samples) else samples

    def _tensors(self) -> Dict[str, Any]:
        tensors = {**self._parts(), "samples": [self.n_samples_seen_]}
        return {name: np.ascontiguousarray(part, np.float64) for name, part in tensors.items()}

    def _check(self) -> None:
        """Refuses parameters that the table does not know."""

    def _loaded(self, tensors: Dict[str, Any]) -> None:
        """Parameters that the table does not know."""

    def _centres(self) -> bool:
        return False

    def _affine(self) -> Tuple[Optional[Any], Any, float, Optional[Tuple[float, float]]]:
        """What is taken off columns (of sparse ones nothing), multiplied with and added, and bounds."""
        raise NotImplementedError

    def _parts(self) -> Dict[str, Any]:
        raise NotImplementedError

    def _keep(self, tensors: Dict[str, Any]) -> None:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = self._sparse and not self._centres()
        return tags


def _mapped(X: Any, shift: Optional[Any], change: Any) -> Any:
    """A matrix with changed numbers, of the same type; of a sparse one those that are stored."""
    if isinstance(X, np.ndarray):
        must_be_finite(X)
        return change(X, slice(None)).astype(X.dtype, copy=False)
    if shift is not None:
        raise ValueError("Cannot center sparse matrices: pass `with_mean=False` instead. Their zeros would be other numbers.")
    if not np.isfinite(X.data).all():
        bad = int(np.flatnonzero(~np.isfinite(X.data))[0])
        row = int(np.searchsorted(X.indptr, bad, side="right")) - 1
        raise ValueError(f"row {row}, column {X.indices[bad]} (counted from 0) is NaN or inf; fill such numbers in")
    changed = X.copy()
    changed.data = change(X.data, X.indices).astype(X.dtype, copy=False)
    return changed


def _or_one(extent: Any) -> Any:
    """What is divided by: 1 where there is nothing."""
    return np.where(extent < 10 * np.finfo(np.float64).eps, 1.0, extent)


@documented("standard-scaler")
class StandardScaler(Scaler):
    """A stand-in for ``sklearn.preprocessing.StandardScaler``.

    ``fit`` leaves ``mean_``, ``var_``, ``scale_``, ``n_samples_seen_``, ``n_features_in_`` and, of tables, ``feature_names_in_``.
    NaN is refused, and not passed over.

    >>> import numpy as np
    >>> from qjam.learn import StandardScaler
    >>> scaler = StandardScaler().fit(np.array([[0.0, 7.0], [2.0, 7.0]]))
    >>> scaler.mean_.tolist(), scaler.transform([[4.0, 7.0]]).tolist()
    ([1.0, 7.0], [[3.0, 0.0]])
    """

    _learner = "standard-scaler"
    _sparse = True
    _wide = "mean"

    mean_: Any
    var_: Any
    _variance: Any
    _mean: Any

    def __init__(
        self, *, copy: bool = True, with_mean: bool = True, with_std: bool = True, workers: WorkersLike = None
    ) -> None:
        self.copy = copy
        self.with_mean = with_mean
        self.with_std = with_std
        self.workers = workers

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> StandardScaler:
        """Finds mean and variance of the columns of all rows, in one round; ``y`` is ignored. ``sample_weight`` says how much each row
        counts.
        """
        return self._learn(X, sample_weight, reset=True)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> StandardScaler:
        """Adds a batch of rows to those that were seen; ``y`` is ignored."""
        return self._learn(X, sample_weight, reset=not hasattr(self, "n_samples_seen_"))

    def _centres(self) -> bool:
        return bool(self.with_mean)

    def _affine(self) -> Tuple[Optional[Any], Any, float, Optional[Tuple[float, float]]]:
        scale = np.ones(len(self._mean)) if self.scale_ is None else self.scale_
        return (self._mean if self.with_mean else None), 1.0 / scale, 0.0, None

    def _parts(self) -> Dict[str, Any]:
        return {"mean": self._mean, "variance": self._variance, "center": [self.with_mean], "scale": [self.with_std]}

    def _keep(self, tensors: Dict[str, Any]) -> None:
        self._mean, self._variance = tensors["mean"], tensors["variance"]
        self._seen(tensors)
        # As scikit-learn tells columns in which all is the same.
        n, eps = float(self.n_samples_seen_), np.finfo(np.float64).eps
        constant = self._variance <= n * eps * self._variance + (n * self._mean * eps) ** 2
        self.mean_ = self._mean if self.with_mean or self.with_std else None
        self.var_ = self._variance if self.with_std else None
        self.scale_ = np.where(constant, 1.0, np.sqrt(self._variance)) if self.with_std else None


@documented("minmax-scaler")
class MinMaxScaler(Scaler):
    """A stand-in for ``sklearn.preprocessing.MinMaxScaler``.

    ``fit`` leaves ``data_min_``, ``data_max_``, ``data_range_``, ``scale_``, ``min_``, ``n_samples_seen_``, ``n_features_in_`` and, of
    tables, ``feature_names_in_``. NaN is refused, and not passed over.

    >>> from qjam.learn import MinMaxScaler
    >>> scaler = MinMaxScaler(feature_range=(-1, 1)).fit([[0.0], [4.0]])
    >>> scaler.transform([[1.0], [2.0], [6.0]]).tolist()
    [[-0.5], [0.0], [2.0]]
    """

    _learner = "minmax-scaler"
    _sparse = False
    _wide = "least"

    data_min_: Any
    data_max_: Any
    data_range_: Any
    min_: Any

    def __init__(
        self, feature_range: Any = (0, 1), *, copy: bool = True, clip: bool = False, workers: WorkersLike = None
    ) -> None:
        self.feature_range = feature_range
        self.copy = copy
        self.clip = clip
        self.workers = workers

    def _check(self) -> None:
        low, high = self.feature_range
        if not low < high:
            raise ValueError(
                f"Minimum of desired feature range must be smaller than maximum. Got {self.feature_range}."
            )

    def _loaded(self, tensors: Dict[str, Any]) -> None:
        low, high = (float(bound) for bound in tensors["range"])
        self.feature_range = (low, high)

    def _affine(self) -> Tuple[Optional[Any], Any, float, Optional[Tuple[float, float]]]:
        low, high = (float(bound) for bound in self.feature_range)
        return self.data_min_, self.scale_, low, ((low, high) if self.clip else None)

    def _parts(self) -> Dict[str, Any]:
        return {"least": self.data_min_, "most": self.data_max_, "range": self.feature_range, "clip": [self.clip]}

    def _keep(self, tensors: Dict[str, Any]) -> None:
        low, high = (float(bound) for bound in self.feature_range)
        self.data_min_, self.data_max_ = tensors["least"], tensors["most"]
        self.data_range_ = self.data_max_ - self.data_min_
        self.scale_ = (high - low) / _or_one(self.data_range_)
        self.min_ = low - self.data_min_ * self.scale_
        self._seen(tensors)


@documented("maxabs-scaler")
class MaxAbsScaler(Scaler):
    """A stand-in for ``sklearn.preprocessing.MaxAbsScaler``.

    ``fit`` leaves ``max_abs_``, ``scale_``, ``n_samples_seen_``, ``n_features_in_`` and, of tables, ``feature_names_in_``. NaN is
    refused, and not passed over.

    >>> from qjam.learn import MaxAbsScaler
    >>> MaxAbsScaler().fit_transform([[1.0], [-4.0]]).tolist()
    [[0.25], [-1.0]]
    """

    _learner = "maxabs-scaler"
    _sparse = True
    _wide = "largest"

    max_abs_: Any

    def __init__(self, *, copy: bool = True, clip: bool = False, workers: WorkersLike = None) -> None:
        self.copy = copy
        self.clip = clip
        self.workers = workers

    def _affine(self) -> Tuple[Optional[Any], Any, float, Optional[Tuple[float, float]]]:
        return None, 1.0 / self.scale_, 0.0, ((-1.0, 1.0) if self.clip else None)

    def _parts(self) -> Dict[str, Any]:
        return {"largest": self.max_abs_, "clip": [self.clip]}

    def _keep(self, tensors: Dict[str, Any]) -> None:
        self.max_abs_ = tensors["largest"]
        self.scale_ = _or_one(self.max_abs_)
        self._seen(tensors)
