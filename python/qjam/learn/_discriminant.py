"""Discriminant analysis."""

from __future__ import annotations

import warnings
from typing import Any, Dict, TypeVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from .._workers import WorkersLike
from ._classifier import JointClassifier
from ._input import fitted
from ._tables import documented

__all__ = ["LinearDiscriminantAnalysis", "QuadraticDiscriminantAnalysis"]

Self = TypeVar("Self", bound="_Discriminant")


class _Discriminant(JointClassifier):
    """What both analyses share."""

    _arrays = ("priors",)
    _wide = "means"

    covariance_estimator: Any
    store_covariance: bool
    means_: Any
    priors_: Any
    _covariances: Any

    def fit(self: Self, X: Any, y: Any) -> Self:
        """Finds means and covariances of the classes, and the rule that follows from them. ``y`` has the class of each row:
        numbers, words, whatever can be compared.
        """
        if self.covariance_estimator is not None:
            raise ValueError("covariance_estimator is not supported: the rows are not in one place; use shrinkage")
        rows, y = self._read(X, y, reset=True)
        self.classes_ = np.unique(y)
        return self._learn(rows, y, None, {})

    def decision_function(self, X: Any) -> Any:
        """What decides: the logarithm of the probability of each class, up to a constant of the row; of two classes the
        difference.
        """
        return self._answer(X, "decisions")


@documented("lda")
class LinearDiscriminantAnalysis(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _Discriminant):
    """A stand-in for ``sklearn.discriminant_analysis.LinearDiscriminantAnalysis``.

    ``fit`` leaves ``coef_``, ``intercept_``, ``means_``, ``priors_``, ``classes_``, ``explained_variance_ratio_`` and
    ``scalings_`` (the directions that are kept, a column each; not with ``solver="lsqr"``), ``xbar_``, ``covariance_`` (with
    ``store_covariance`` or a solver other than ``"svd"``), ``n_features_in_`` and, of tables, ``feature_names_in_``.

    >>> import numpy as np
    >>> from qjam.learn import LinearDiscriminantAnalysis
    >>> X = np.array([[-1.0, -1.0], [-2.0, -1.0], [-3.0, -2.0], [1.0, 1.0], [2.0, 1.0], [3.0, 2.0]])
    >>> model = LinearDiscriminantAnalysis().fit(X, ["a", "a", "a", "b", "b", "b"])
    >>> model.predict([[-0.8, -1.0]]).tolist(), model.transform(X).shape
    (['a'], (6, 1))
    """

    _learner = "lda"
    _attributes = {
        "means": "means_",
        "priors": "priors_",
        "coefficients": "_coefficients",
        "intercepts": "_intercepts",
        "directions": "_directions",
        "centre": "_centre",
        "ratios": "explained_variance_ratio_",
        "covariances": "_covariances",
    }

    coef_: Any
    intercept_: Any
    xbar_: Any
    scalings_: Any
    covariance_: Any
    explained_variance_ratio_: Any
    _coefficients: Any
    _intercepts: Any
    _directions: Any
    _centre: Any

    def __init__(
        self,
        solver: str = "svd",
        shrinkage: Any = None,
        priors: Any = None,
        n_components: Any = None,
        store_covariance: bool = False,
        tol: float = 1e-4,
        covariance_estimator: Any = None,
        workers: WorkersLike = None,
    ) -> None:
        self.solver = solver
        self.shrinkage = shrinkage
        self.priors = priors
        self.n_components = n_components
        self.store_covariance = store_covariance
        self.tol = tol
        self.covariance_estimator = covariance_estimator
        self.workers = workers

    def transform(self, X: Any) -> Any:
        """The coordinates of rows along the directions that tell classes apart best."""
        fitted(self)
        if not len(self._directions):
            raise NotImplementedError("there are no directions with solver='lsqr'; use 'svd' or 'eigen'")
        found = self._answer(X, "transform")
        return found.astype(np.float32) if getattr(X, "dtype", None) == np.float32 else found

    def _array_values(self) -> Dict[str, Any]:
        arrays = super()._array_values()
        priors = arrays["priors"]
        if priors is not None and (priors >= 0).all() and abs(priors.sum() - 1) > 1e-5 and priors.sum() > 0:
            warnings.warn("The priors do not sum to 1. Renormalizing", UserWarning, stacklevel=4)
            arrays["priors"] = priors / priors.sum()
        return arrays

    def _loaded(self) -> None:
        super()._loaded()
        self.shrinkage = None if self.shrinkage == "none" else self.shrinkage
        self.n_components = None if self.n_components == "none" else self.n_components

    def _keep(self, tensors: Dict[str, Any]) -> None:
        super()._keep(tensors)
        self.coef_, self.intercept_ = self._coefficients, self._intercepts
        if len(self.classes_) == 2:
            self.coef_ = self.coef_[1:] - self.coef_[:1]
            self.intercept_ = self.intercept_[1:] - self.intercept_[:1]
        self.scalings_, self.xbar_ = self._directions.T, self._centre
        if len(self._covariances):
            self.covariance_ = self._covariances

    @property
    def _n_features_out(self) -> int:
        return len(self._directions)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@documented("qda")
class QuadraticDiscriminantAnalysis(_Discriminant):
    """A stand-in for ``sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis``.

    ``fit`` leaves ``means_``, ``priors_``, ``classes_``, ``rotations_`` (for each class its axes, a column each), ``scalings_``
    (the variances along these), ``covariance_`` (with ``store_covariance``), ``n_features_in_`` and, of tables,
    ``feature_names_in_``.

    >>> import numpy as np
    >>> from qjam.learn import QuadraticDiscriminantAnalysis
    >>> X = np.array([[-1.0, -1.0], [-2.0, -1.0], [-3.0, -2.0], [1.0, 1.0], [2.0, 1.0], [3.0, 2.0]])
    >>> QuadraticDiscriminantAnalysis().fit(X, [1, 1, 1, 2, 2, 2]).predict([[-0.8, -1.0]]).tolist()
    [1]
    """

    _learner = "qda"
    _attributes = {
        "means": "means_",
        "priors": "priors_",
        "axes": "_axes",
        "spreads": "_spreads",
        "covariances": "_covariances",
    }

    rotations_: Any
    scalings_: Any
    covariance_: Any
    _axes: Any
    _spreads: Any

    def __init__(
        self,
        *,
        solver: str = "svd",
        shrinkage: Any = None,
        priors: Any = None,
        reg_param: float = 0.0,
        store_covariance: bool = False,
        tol: float = 1e-4,
        covariance_estimator: Any = None,
        workers: WorkersLike = None,
    ) -> None:
        self.solver = solver
        self.shrinkage = shrinkage
        self.priors = priors
        self.reg_param = reg_param
        self.store_covariance = store_covariance
        self.tol = tol
        self.covariance_estimator = covariance_estimator
        self.workers = workers

    def _loaded(self) -> None:
        super()._loaded()
        self.shrinkage = None if self.shrinkage == "none" else self.shrinkage

    def _keep(self, tensors: Dict[str, Any]) -> None:
        super()._keep(tensors)
        width = self.means_.shape[1]
        self.rotations_ = [axes.T for axes in self._axes.reshape(-1, width, width)]
        self.scalings_ = list(self._spreads)
        if len(self._covariances):
            self.covariance_ = list(self._covariances.reshape(-1, width, width))
