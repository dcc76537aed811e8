"""Gaussian mixtures."""

from __future__ import annotations

import os
import warnings
from typing import Any, Dict, Tuple, TypeVar, Union

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from .. import _native
from .._workers import WorkersLike
from ._input import as_matrix, as_rows, fitted, is_data, of_data
from ._masters import kept, shares
from ._models import answered, asked, fit_of, loaded, saved
from ._tables import documented, fitted_numbers, options_of, seed_of

__all__ = ["GaussianMixture"]

Self = TypeVar("Self", bound="GaussianMixture")

#: Arrays that a fit may begin from.
_STARTS = ("weights_init", "means_init", "precisions_init")


@documented("gaussian-mixture")
class GaussianMixture(DensityMixin, BaseEstimator):
    """A stand-in for ``sklearn.mixture.GaussianMixture``.

    ``fit`` leaves ``weights_``, ``means_``, ``covariances_``, ``precisions_``, ``precisions_cholesky_``, ``converged_``, ``n_iter_``,
    ``lower_bound_``, ``lower_bounds_``, ``n_features_in_`` and, of tables, ``feature_names_in_``. From the same start these are
    scikit-learn's numbers; starts by chance are drawn otherwise.

    >>> import numpy as np
    >>> from qjam.learn import GaussianMixture
    >>> X = np.array([[1.0, 2.0], [1.0, 4.0], [1.0, 0.0], [10.0, 2.0], [10.0, 4.0], [10.0, 0.0]])
    >>> model = GaussianMixture(n_components=2, random_state=0).fit(X)
    >>> sorted(model.means_.round(3).tolist())
    [[1.0, 2.0], [10.0, 2.0]]
    >>> near, far = model.predict([[0.0, 0.0], [12.0, 3.0]])
    >>> bool(near != far)
    True
    """

    _learner = "gaussian-mixture"

    weights_: Any
    means_: Any
    covariances_: Any
    precisions_: Any
    precisions_cholesky_: Any
    converged_: bool
    n_iter_: int
    lower_bound_: float
    lower_bounds_: Any
    n_features_in_: int
    feature_names_in_: Any

    def __init__(
        self,
        n_components: int = 1,
        *,
        covariance_type: str = "full",
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
        max_iter: int = 100,
        n_init: int = 1,
        init_params: str = "kmeans",
        weights_init: Any = None,
        means_init: Any = None,
        precisions_init: Any = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
        workers: WorkersLike = None,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.workers = workers

    def fit(self: Self, X: Any, y: Any = None) -> Self:
        """Finds the components; ``y`` is ignored. Not converging is a ``ConvergenceWarning``."""
        self._fit(X, answers=False)
        return self

    def fit_predict(self, X: Any, y: Any = None) -> Any:
        """Finds the components, and gives the likeliest one of every row."""
        return self._fit(X, answers=True).astype(np.int64)

    def predict(self, X: Any) -> Any:
        """The index of the likeliest component of every row."""
        return self._answer(X, "predict").astype(np.int64)

    def predict_proba(self, X: Any) -> Any:
        """How likely each component is to have made a row."""
        return self._answer(X, "probabilities")

    def score_samples(self, X: Any) -> Any:
        """The logarithm of the density at every row."""
        joint = self._answer(X, "joint-log-probabilities")
        most = joint.max(axis=1)
        return most + np.log(np.exp(joint - most[:, None]).sum(axis=1))

    def score(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, X: Any, y: Any = None
    ) -> float:
        """The mean of :meth:`score_samples`."""
        return float(self._answer(X, "score"))

    def bic(self, X: Any) -> float:
        """The Bayesian information criterion of the model on these rows; lower is better."""
        rows = self._rows(X, reset=False)
        return self._n_parameters() * float(np.log(rows.rows)) - 2 * rows.rows * float(self._asked(rows, "score"))

    def aic(self, X: Any) -> float:
        """Akaike's information criterion of the model on these rows; lower is better."""
        rows = self._rows(X, reset=False)
        return 2 * self._n_parameters() - 2 * rows.rows * float(self._asked(rows, "score"))

    def sample(self, n_samples: int = 1) -> Tuple[Any, Any]:
        """Draws rows from the mixture: rows, and the component of each. By ``random_state``, as scikit-learn draws them."""
        fitted(self)
        if n_samples < 1:
            raise ValueError(
                f"Invalid value for 'n_samples': {n_samples} . The sampling requires at least one sample."
            )
        random = check_random_state(self.random_state)
        counts = random.multinomial(n_samples, self.weights_ / self.weights_.sum())
        width, parts = self.means_.shape[1], []
        for at, (mean, count) in enumerate(zip(self.means_, counts)):
            if self.covariance_type in ("full", "tied"):
                covariance = self.covariances_[at] if self.covariance_type == "full" else self.covariances_
                parts.append(random.multivariate_normal(mean, covariance, int(count)))
            else:
                parts.append(mean + random.standard_normal(size=(count, width)) * np.sqrt(self.covariances_[at]))
        return np.vstack(parts), np.repeat(np.arange(len(counts)), counts)

    # ---- files --------------------------------------------------------------------------------------------------

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the model to a file that the command ``qjam`` and programs in Rust read, too."""
        fitted(self)
        numbers = fitted_numbers(self, {"lower_bound": "lower_bound_", "iterations": "n_iter_"})
        saved(self, path, self._tensors(), numbers, self._attributes())

    @classmethod
    def load(cls: type[Self], path: Union[str, os.PathLike[str]], *, workers: WorkersLike = None) -> Self:
        """An estimator with the model of a file that :meth:`save` or ``qjam fit`` wrote."""
        found = _native.model_load(os.fspath(path), cls._learner)
        tensors = found["tensors"]
        known = {"n_components": len(tensors["weights"]), **found["attributes"]}
        made = loaded(cls, cls._learner, found, tensors["means"].shape[1], workers, **known)
        for name in _STARTS:
            setattr(made, name, None)
        made._keep(tensors)
        return made

    # ---- inside -------------------------------------------------------------------------------------------------

    def _rows(self, X: Any, *, reset: bool) -> _native.Rows:
        if not reset:
            fitted(self)
        if is_data(X):
            return of_data(self, X, shares(self.workers), reset=reset)[0]
        matrix = as_matrix(self, X, reset=reset, sparse=False)
        return kept(self.workers, as_rows(matrix, shares(self.workers)))

    def _answer(self, X: Any, question: _native.Question) -> Any:
        fitted(self)
        return asked(self, X, question, workers=self.workers, attributes=self._attributes(), sparse=False)

    def _asked(self, rows: _native.Rows, question: _native.Question) -> Any:
        return answered(self.workers, rows, self._learner, self._tensors(), question, self._attributes())

    def _fit(self, X: Any, *, answers: bool) -> Any:
        goes_on = self.warm_start and hasattr(self, "converged_")
        rows = self._rows(X, reset=True)
        options = options_of(self, self._learner, leave=("random_state", *_STARTS))
        options["random_state"] = seed_of(self.random_state)
        if isinstance(self.n_components, int) and rows.rows < self.n_components and rows.rows > 1:
            raise ValueError(
                f"Expected n_samples >= n_components but got n_components = {self.n_components}, n_samples = {rows.rows}"
            )
        start: Dict[str, Any] = {}
        if goes_on and self.means_.shape == (self.n_components, rows.cols):
            start = {**self._tensors(), "lower_bound": np.array([self.lower_bound_])}
        else:
            for name, shape in self._shapes(rows.cols).items():
                if getattr(self, name) is not None:
                    start[name] = _given(name, getattr(self, name), shape)
        fit = fit_of(self.workers, rows, self._learner, options, start=start or None, answers=answers)
        self._keep(fit["tensors"])
        facts = fit["facts"]
        self.converged_, self.n_iter_ = bool(facts["converged"]), int(facts["iterations"])
        self.lower_bounds_ = fit["lists"]["lower_bounds"].tolist()
        self.lower_bound_ = self.lower_bounds_[-1] if self.lower_bounds_ else -np.inf
        if not self.converged_ and self.max_iter > 0:
            warnings.warn(
                f"no start has converged in {self.max_iter} rounds. Give more with max_iter, accept less with tol, begin "
                "otherwise with init_params, or look for rows that coincide.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return fit["answer"]

    def _shapes(self, columns: int) -> Dict[str, Tuple[int, ...]]:
        """The shapes of arrays to begin from."""
        k = self.n_components
        covariances = {
            "full": (k, columns, columns),
            "tied": (columns, columns),
            "diag": (k, columns),
            "spherical": (k,),
        }
        shape = covariances.get(self.covariance_type, ())
        return {"weights_init": (k,), "means_init": (k, columns), "precisions_init": shape}

    def _n_parameters(self) -> int:
        k, columns = self.means_.shape
        half = columns * (columns + 1) // 2
        free = {"full": k * half, "tied": half, "diag": k * columns, "spherical": k}[self.covariance_type]
        return int(free + k * columns + k - 1)

    def _tensors(self) -> Dict[str, Any]:
        tensors = {
            "weights": self.weights_,
            "means": self.means_,
            "covariances": self.covariances_,
            "precisions_cholesky": self.precisions_cholesky_,
        }
        return {name: np.ascontiguousarray(part, np.float64) for name, part in tensors.items()}

    def _attributes(self) -> Dict[str, Any]:
        return {"covariance_type": self.covariance_type}

    def _keep(self, tensors: Dict[str, Any]) -> None:
        self.weights_, self.means_ = tensors["weights"], tensors["means"]
        self.covariances_, self.precisions_cholesky_ = tensors["covariances"], tensors["precisions_cholesky"]
        factors = self.precisions_cholesky_
        if self.covariance_type in ("full", "tied"):
            self.precisions_ = factors @ np.swapaxes(factors, -1, -2)
        else:
            self.precisions_ = factors**2


def _given(name: str, value: Any, shape: Tuple[int, ...]) -> Any:
    """An array to begin from, in its shape."""
    array = np.ascontiguousarray(value, np.float64)
    if array.shape != shape:
        raise ValueError(f"The parameter {name!r} should have the shape of {shape}, but got {array.shape}")
    return array
