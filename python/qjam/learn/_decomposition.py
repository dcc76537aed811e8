"""Truncated singular value decomposition and independent component analysis."""

from __future__ import annotations

import os
import warnings
from numbers import Integral
from typing import Any, ClassVar, Dict, TypeVar, Union

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array

from .. import _native
from .._workers import WorkersLike
from ._input import as_matrix, as_rows, fitted, float_kinds, is_data, of_data
from ._masters import kept, shares
from ._models import answered, as_given, asked, fit_of, loaded, saved
from ._tables import documented, options_of, seed_of

__all__ = ["FastICA", "TruncatedSVD"]

Self = TypeVar("Self", bound="_Turned")


class _Turned(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What both share: rows have coordinates along components."""

    _learner: ClassVar[str]
    _sparse: ClassVar[bool]

    workers: WorkersLike
    components_: Any
    n_features_in_: int
    feature_names_in_: Any

    def fit(self: Self, X: Any, y: Any = None) -> Self:
        """Finds the components of all rows; ``y`` is ignored."""
        self._fit(self._rows(X, reset=True))
        return self

    def fit_transform(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, X: Any, y: Any = None
    ) -> Any:
        """Finds the components, and the coordinates of all rows along these."""
        rows = self._rows(X, reset=True)
        self._fit(rows)
        return self._coordinates(rows, X)

    def transform(self, X: Any) -> Any:
        """The coordinates of rows along the components."""
        fitted(self)
        return as_given(asked(self, X, "transform", workers=self.workers, sparse=self._sparse), X)

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
        made = loaded(cls, cls._learner, found, tensors["components"].shape[1], workers)
        made._loaded()
        made._keep(tensors)
        return made

    # ---- inside -------------------------------------------------------------------------------------------------

    def _rows(self, X: Any, *, reset: bool) -> _native.Rows:
        if is_data(X):
            return of_data(self, X, shares(self.workers), reset=reset)[0]
        matrix = as_matrix(self, X, reset=reset, sparse=self._sparse)
        return kept(self.workers, as_rows(matrix, shares(self.workers)))

    def _coordinates(self, rows: _native.Rows, X: Any) -> Any:
        return as_given(answered(self.workers, rows, self._learner, self._tensors(), "transform"), X)

    def _points(self, X: Any) -> Any:
        """Coordinates along the components, checked."""
        fitted(self)
        X = check_array(X, dtype=float_kinds)
        if X.shape[1] != len(self.components_):
            raise ValueError(f"X has {X.shape[1]} columns; there are {len(self.components_)} components")
        return X

    def _loaded(self) -> None:
        """Words of the command that Python has other values for."""

    def _fit(self, rows: _native.Rows) -> None:
        raise NotImplementedError

    def _tensors(self) -> Dict[str, Any]:
        raise NotImplementedError

    def _keep(self, tensors: Dict[str, Any]) -> None:
        raise NotImplementedError

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = self._sparse
        return tags


@documented("svd")
class TruncatedSVD(_Turned):
    """A stand-in for ``sklearn.decomposition.TruncatedSVD``.

    ``fit`` leaves ``components_`` (a row each, of length 1), ``singular_values_``, ``explained_variance_``,
    ``explained_variance_ratio_``, ``n_features_in_`` and, of tables, ``feature_names_in_``.

    >>> import numpy as np
    >>> from qjam.learn import TruncatedSVD
    >>> X = np.array([[3.0, 4.0], [6.0, 8.0], [0.0, 0.0]])
    >>> model = TruncatedSVD(n_components=1).fit(X)
    >>> model.components_.round(2).tolist(), round(float(model.singular_values_[0]) ** 2)
    ([[0.6, 0.8]], 125)
    """

    _learner = "svd"
    _sparse = True

    singular_values_: Any
    explained_variance_: Any
    explained_variance_ratio_: Any

    def __init__(
        self,
        n_components: int = 2,
        *,
        algorithm: str = "randomized",
        n_iter: int = 5,
        n_oversamples: int = 10,
        power_iteration_normalizer: str = "auto",
        random_state: Any = None,
        tol: float = 0.0,
        workers: WorkersLike = None,
    ) -> None:
        self.n_components = n_components
        self.algorithm = algorithm
        self.n_iter = n_iter
        self.n_oversamples = n_oversamples
        self.power_iteration_normalizer = power_iteration_normalizer
        self.random_state = random_state
        self.tol = tol
        self.workers = workers

    def inverse_transform(self, X: Any) -> Any:
        """The rows that have these coordinates."""
        return self._points(X) @ self.components_

    def _fit(self, rows: _native.Rows) -> None:
        options = options_of(self, self._learner, leave=("random_state",))
        options["random_state"] = seed_of(self.random_state)
        if isinstance(self.n_components, Integral) and int(self.n_components) > rows.cols:
            raise ValueError(f"n_components={self.n_components} must be at most n_features={rows.cols}")
        self._keep(fit_of(self.workers, rows, self._learner, options)["tensors"])

    def _tensors(self) -> Dict[str, Any]:
        tensors = {
            "components": self.components_,
            "singular_values": self.singular_values_,
            "explained_variance": self.explained_variance_,
            "explained_variance_ratio": self.explained_variance_ratio_,
        }
        return {name: np.ascontiguousarray(part, np.float64) for name, part in tensors.items()}

    def _keep(self, tensors: Dict[str, Any]) -> None:
        self.components_, self.singular_values_ = tensors["components"], tensors["singular_values"]
        self.explained_variance_ = tensors["explained_variance"]
        self.explained_variance_ratio_ = tensors["explained_variance_ratio"]


@documented("ica")
class FastICA(_Turned):
    """A stand-in for ``sklearn.decomposition.FastICA``.

    ``fit`` leaves ``components_``, ``mixing_``, ``mean_`` and ``whitening_`` (unless ``whiten=False``), ``n_iter_``,
    ``n_features_in_`` and, of tables, ``feature_names_in_``. From the same ``w_init`` these are scikit-learn's numbers up to signs.
    ``fun`` is a word: functions of your own are not taken.

    >>> import numpy as np
    >>> from qjam.learn import FastICA
    >>> at = np.arange(400)
    >>> sources = np.column_stack([at % 7 - 3.0, at % 20 // 10 - 0.5])
    >>> X = sources @ [[1.0, 1.0], [1.0, -2.0]]
    >>> found = FastICA(random_state=0).fit_transform(X)
    >>> np.abs(np.corrcoef(sources.T, found.T)[:2, 2:]).max(axis=1).round(2).tolist()
    [1.0, 1.0]
    """

    _learner = "ica"
    _sparse = False

    mixing_: Any
    mean_: Any
    whitening_: Any
    n_iter_: int

    def __init__(
        self,
        n_components: Any = None,
        *,
        algorithm: str = "parallel",
        whiten: Any = "unit-variance",
        fun: str = "logcosh",
        fun_args: Any = None,
        max_iter: int = 200,
        tol: float = 1e-4,
        w_init: Any = None,
        whiten_solver: str = "svd",
        random_state: Any = None,
        workers: WorkersLike = None,
    ) -> None:
        self.n_components = n_components
        self.algorithm = algorithm
        self.whiten = whiten
        self.fun = fun
        self.fun_args = fun_args
        self.max_iter = max_iter
        self.tol = tol
        self.w_init = w_init
        self.whiten_solver = whiten_solver
        self.random_state = random_state
        self.workers = workers

    def inverse_transform(self, X: Any, copy: bool = True) -> Any:
        """The rows that have these sources; ``copy`` is taken for scikit-learn's sake."""
        rows = self._points(X) @ self.mixing_.T
        return rows + self.mean_ if self.whiten else rows

    def _fit(self, rows: _native.Rows) -> None:
        options = options_of(self, self._learner, leave=("random_state", "w_init", "fun_args"))
        options["random_state"] = seed_of(self.random_state)
        if not isinstance(self.fun, str):
            raise ValueError("fun must be 'logcosh', 'exp' or 'cube': functions of your own do not travel to workers")
        alpha = (self.fun_args or {}).get("alpha", 1.0)
        if not 1 <= alpha <= 2:
            raise ValueError("alpha must be in [1,2]")
        options["fun_args"] = float(alpha)
        most = min(rows.rows, rows.cols)
        if self.whiten is False:
            options["n_components"] = "none"
            if self.n_components is not None:
                warnings.warn("Ignoring n_components with whiten=False.", UserWarning, stacklevel=4)
        elif isinstance(self.n_components, Integral) and int(self.n_components) > most > 1:
            warnings.warn(
                f"n_components is too large: it will be set to {most}", UserWarning, stacklevel=4
            )
            # Centred rows may have fewer directions than that.
            options["n_components"] = "none"
        start = None
        if self.w_init is not None:
            start = {"w_init": np.ascontiguousarray(np.atleast_2d(np.asarray(self.w_init, np.float64)))}
        fit = fit_of(self.workers, rows, self._learner, options, start=start)
        self._keep(fit["tensors"])
        self.n_iter_ = int(fit["facts"]["iterations"])
        if not fit["facts"]["converged"]:
            warnings.warn(
                "FastICA did not converge. Give more rounds with max_iter, or accept less with tol.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _tensors(self) -> Dict[str, Any]:
        width = self.components_.shape[1]
        tensors = {
            "components": self.components_,
            "mixing": self.mixing_,
            "mean": self.mean_ if self.whiten else np.zeros(width),
            "whitening": self.whitening_ if self.whiten else np.zeros((0, width)),
        }
        return {name: np.ascontiguousarray(part, np.float64) for name, part in tensors.items()}

    def _loaded(self) -> None:
        self.whiten = False if self.whiten == "none" else self.whiten
        self.n_components = None if self.n_components == "none" else self.n_components
        self.fun_args = {"alpha": self.fun_args} if isinstance(self.fun_args, float) else None
        self.w_init = None

    def _keep(self, tensors: Dict[str, Any]) -> None:
        self.components_, self.mixing_ = tensors["components"], tensors["mixing"]
        if self.whiten:
            self.mean_, self.whitening_ = tensors["mean"], tensors["whitening"]
