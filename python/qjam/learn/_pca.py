"""Principal component analysis."""

from __future__ import annotations

import os
from numbers import Integral
from typing import Any, Dict, TypeVar, Union

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array

from .. import _native
from .._workers import WorkersLike
from ._input import as_matrix, as_rows, fitted, float_kinds, is_data, of_data
from ._masters import kept, shares
from ._models import answered, as_given, asked, fit_of, loaded, saved
from ._shown import ShownEstimator
from ._tables import documented, options_of, seed_of

__all__ = ["PCA"]

Self = TypeVar("Self", bound="PCA")


@documented("pca")
class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ShownEstimator):
    """A stand-in for ``sklearn.decomposition.PCA``.

    ``fit`` leaves ``components_`` (a row each, of length 1), ``mean_``, ``explained_variance_``,
    ``explained_variance_ratio_``, ``singular_values_``, ``noise_variance_``, ``n_components_``, ``n_samples_``,
    ``n_features_in_`` and, of tables, ``feature_names_in_``. ``n_components="mle"`` is not there.

    >>> import numpy as np
    >>> from qjam.learn import PCA
    >>> X = np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0], [3.0, 6.0], [1.6, 2.9]])
    >>> model = PCA(n_components=1).fit(X)
    >>> model.transform(X).shape, model.components_.round(2).tolist()
    ((5, 1), [[0.45, 0.89]])
    >>> bool(abs(model.inverse_transform(model.transform(X)) - X).max() < 0.3)
    True
    """

    _learner = "pca"

    components_: Any
    mean_: Any
    explained_variance_: Any
    explained_variance_ratio_: Any
    singular_values_: Any
    noise_variance_: float
    n_components_: int
    n_samples_: int
    n_features_in_: int
    feature_names_in_: Any
    _products: Any

    def __init__(
        self,
        n_components: Any = None,
        *,
        copy: bool = True,
        whiten: bool = False,
        svd_solver: str = "auto",
        tol: float = 0.0,
        iterated_power: Any = "auto",
        n_oversamples: int = 10,
        power_iteration_normalizer: str = "auto",
        random_state: Any = None,
        workers: WorkersLike = None,
    ) -> None:
        self.n_components = n_components
        self.copy = copy
        self.whiten = whiten
        self.svd_solver = svd_solver
        self.tol = tol
        self.iterated_power = iterated_power
        self.n_oversamples = n_oversamples
        self.power_iteration_normalizer = power_iteration_normalizer
        self.random_state = random_state
        self.workers = workers

    def fit(self: Self, X: Any, y: Any = None) -> Self:
        """Finds the components of all rows; ``y`` is ignored."""
        self._fit(self._rows(X, reset=True))
        return self

    def partial_fit(self: Self, X: Any, y: Any = None) -> Self:
        """Adds a batch of rows to those that were seen, or begins with it; ``y`` is ignored.

        The components are those of all rows at once, up to rounding: the products of all pairs of columns are kept, which
        ``sklearn.decomposition.IncrementalPCA`` does not do. After ``fit`` it goes on from the components alone.

        >>> import numpy as np
        >>> from qjam.learn import PCA
        >>> X = np.random.default_rng(0).normal(size=(90, 3)) * [3.0, 1.0, 0.1]
        >>> model = PCA(2)
        >>> for batch in np.array_split(X, 4):
        ...     model = model.partial_fit(batch)
        >>> bool(abs(model.components_ - PCA(2).fit(X).components_).max() < 1e-9)
        True
        """
        begins = not hasattr(self, "components_")
        if not begins and getattr(self, "_products", None) is None:
            # As IncrementalPCA goes on: what lies beyond the components that are kept is lost.
            spread = self.explained_variance_ * (self.n_samples_ - 1)
            self._products = (self.components_.T * spread) @ self.components_
        self._fit(self._rows(X, reset=begins), batch=True)
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
        return as_given(asked(self, X, "transform", workers=self.workers), X)

    def inverse_transform(self, X: Any) -> Any:
        """The rows that have these coordinates."""
        fitted(self)
        X = check_array(X, dtype=float_kinds)
        if X.shape[1] != self.n_components_:
            raise ValueError(f"X has {X.shape[1]} columns; there are {self.n_components_} components")
        return (X * self._scales()) @ self.components_ + self.mean_

    def get_covariance(self) -> Any:
        """The covariances of the columns as the components and the noise beside them explain them."""
        fitted(self)
        beyond = np.maximum(self.explained_variance_ - self.noise_variance_, 0.0)
        # With whitening as scikit-learn has it, in which components are as long as rows deviate along them.
        components = self.components_ * np.sqrt(self.explained_variance_)[:, None] if self.whiten else self.components_
        covariance = (components.T * beyond) @ components
        covariance.flat[:: len(covariance) + 1] += self.noise_variance_
        return covariance

    def get_precision(self) -> Any:
        """The inverse of :meth:`get_covariance`."""
        return np.linalg.inv(self.get_covariance())

    def score_samples(self, X: Any) -> Any:
        """The logarithm of the probability density of every row."""
        fitted(self)
        matrix = as_matrix(self, X, reset=False, sparse=False) - self.mean_
        precision = self.get_precision()
        distances = np.sum(matrix * (matrix @ precision), axis=1)
        logs = matrix.shape[1] * np.log(2 * np.pi) - np.linalg.slogdet(precision)[1]
        return -0.5 * (distances + logs)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of :meth:`score_samples`."""
        return float(np.mean(self.score_samples(X)))

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
        count = made.n_components
        if count == "none":
            made.n_components = None
        elif isinstance(count, float) and count >= 1:
            made.n_components = int(count)
        made._keep(tensors)
        return made

    # ---- inside -------------------------------------------------------------------------------------------------

    def _rows(self, X: Any, *, reset: bool) -> _native.Rows:
        if is_data(X):
            return of_data(self, X, shares(self.workers), reset=reset)[0]
        matrix = as_matrix(self, X, reset=reset)
        return kept(self.workers, as_rows(matrix, shares(self.workers)))

    def _fit(self, rows: _native.Rows, batch: bool = False) -> None:
        options = options_of(self, self._learner, leave=("random_state",))
        options["random_state"] = seed_of(self.random_state)
        count = self.n_components
        if isinstance(count, float) and count >= 1:
            raise ValueError(f"n_components is {count}; give a whole number, or a share of the variance under 1")
        start = self._tensors() if batch and getattr(self, "_products", None) is not None else None
        seen = rows.rows + (self.n_samples_ if start else 0)
        if isinstance(count, Integral) and int(count) > min(seen, rows.cols):
            raise ValueError(
                f"n_components={count} must be between 1 and min(n_samples, n_features)={min(seen, rows.cols)}"
            )
        self._keep(fit_of(self.workers, rows, self._learner, options, start=start, batch=batch)["tensors"])

    def _coordinates(self, rows: _native.Rows, X: Any) -> Any:
        return as_given(answered(self.workers, rows, self._learner, self._tensors(), "transform"), X)

    def _scales(self) -> Any:
        """What coordinates are divided by."""
        return np.maximum(np.sqrt(self.explained_variance_), np.finfo(float).eps) if self.whiten else 1.0

    def _tensors(self) -> Dict[str, Any]:
        tensors = {
            "components": self.components_,
            "mean": self.mean_,
            "explained_variance": self.explained_variance_,
            "explained_variance_ratio": self.explained_variance_ratio_,
            "noise_variance": np.array([self.noise_variance_]),
            "samples": np.array([self.n_samples_]),
            "whiten": np.array([bool(self.whiten)]),
        }
        if getattr(self, "_products", None) is not None:
            tensors["products"] = self._products
        return {name: np.ascontiguousarray(part, np.float64) for name, part in tensors.items()}

    def _keep(self, tensors: Dict[str, Any]) -> None:
        self.components_, self.mean_ = tensors["components"], tensors["mean"]
        self._products = tensors.get("products")
        self.explained_variance_ = tensors["explained_variance"]
        self.explained_variance_ratio_ = tensors["explained_variance_ratio"]
        self.noise_variance_ = float(tensors["noise_variance"][0])
        self.n_samples_, self.n_components_ = int(tensors["samples"][0]), len(self.components_)
        self.singular_values_ = np.sqrt(self.explained_variance_ * (self.n_samples_ - 1))

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = True
        return tags
