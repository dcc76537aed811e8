"""Linear models of numbers: least squares with a penalty."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, TypeVar, Union

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_array

from .. import _native
from .._workers import WorkersLike
from ._linear import Linear
from ._tables import documented

__all__ = ["ElasticNet", "Lasso", "Ridge"]

Self = TypeVar("Self", bound="Regression")

#: What targets are computed with.
_doubles: Any = np.float64


class Regression(MultiOutputMixin, RegressorMixin, Linear):
    """An estimator whose predictions are numbers, one or several for each row."""

    alpha: Any
    fit_intercept: bool

    def fit(self: Self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Finds the coefficients. ``y`` has a number for each row, or a row of numbers: then every column of it gets
        coefficients of its own. ``sample_weight`` says how much each row counts.

        Not getting there in ``max_iter`` rounds is no error: a ``ConvergenceWarning`` says how far it came, and so
        do ``outcome_`` and ``dual_gap_``. Ctrl-C calls it off, and the workers can be used again.
        """
        options = self._options()
        rows, kind = self._read(X, y)
        y = check_array(y, ensure_2d=False, dtype=_doubles, input_name="y", estimator=self)
        self._one_for_each(y, rows)
        weights = self._weights(sample_weight, rows)
        outputs = y.reshape(len(y), -1).T
        alphas = self._alphas(len(outputs))
        starts = self._starts(len(outputs))
        trained = [
            self._train(rows, target, weights, {**options, "alpha": alpha}, start)
            for target, alpha, start in zip(outputs, alphas, starts)
        ]
        self._tell(trained, stacklevel=3)
        self._keep(trained, y, kind)
        return self

    def predict(self, X: Any) -> Any:
        """What is expected for every row: ``X @ coef_.T + intercept_``."""
        return self._decide(X)

    def _one_for_each(self, y: Any, rows: _native.Rows) -> None:
        if y.ndim not in (1, 2):
            raise ValueError(f"y has {y.ndim} dimensions; give a number for each row, or a row of numbers")
        if len(y) != rows.rows:
            raise ValueError(f"y has {len(y)} numbers for {rows.rows} rows; give one for each")

    def _alphas(self, outputs: int) -> List[Any]:
        return [float(self.alpha) if isinstance(self.alpha, np.generic) else self.alpha] * outputs

    def _starts(self, outputs: int) -> List[Optional[Any]]:
        """Where fits begin: where the last one ended, if that was asked for and it had as many coefficients."""
        shape = (outputs, self.n_features_in_)
        before = np.atleast_2d(getattr(self, "coef_", np.empty((0, 0))))
        if not getattr(self, "warm_start", False) or before.shape != shape:
            return [None] * outputs
        return list(zip(before, np.broadcast_to(np.ravel(self.intercept_), (outputs,))))

    def _keep(self, trained: List[Dict[str, Any]], y: Any, kind: Any) -> None:
        coefficients = np.concatenate([one["coefficients"] for one in trained]).astype(kind, copy=False)
        intercepts = np.concatenate([one["intercepts"] for one in trained]).astype(kind, copy=False)
        one = len(trained) == 1
        self.coef_ = coefficients[0] if one else coefficients
        self.intercept_ = 0.0 if not self.fit_intercept else intercepts[0] if y.ndim == 1 else intercepts
        self.n_iter_ = trained[0]["rounds"] if one else [each["rounds"] for each in trained]

    def _kept_classes(self) -> Tuple[Optional[List[float]], List[str]]:
        if self.coef_.ndim == 2:
            raise ValueError(
                f"a model file has one output, and this {type(self).__name__} has {len(self.coef_)}; pickle it, or fit "
                "the columns of y one by one"
            )
        return None, []

    def _take(self, found: Dict[str, Any]) -> None:
        self.coef_, self.intercept_ = found["coefficients"][0], found["intercepts"][0]


@documented("ridge")
class Ridge(Regression):
    """A stand-in for ``sklearn.linear_model.Ridge``.

    ``fit`` leaves ``coef_``, ``intercept_``, ``n_iter_`` (rounds), ``n_features_in_`` and, of tables,
    ``feature_names_in_``; and of its own ``objective_``, ``dual_gap_`` (how far that is above the minimum at most),
    ``converged_``, ``outcome_``, ``solver_``, ``rounds_`` and ``choices_`` (how the work between two exchanges was
    chosen, and why).

    >>> import numpy as np
    >>> from qjam.learn import Ridge
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [3.0, 1.0]])
    >>> model = Ridge(alpha=1e-6).fit(X, X @ [2.0, -1.0] + 3.0)
    >>> [round(float(c), 3) for c in model.coef_], round(float(model.intercept_), 3)
    ([2.0, -1.0], 3.0)

    ``alpha`` may be an array with a number for each column of ``y``.
    """

    _learner = "ridge"

    def __init__(
        self,
        alpha: Any = 1.0,
        *,
        fit_intercept: bool = True,
        copy_X: bool = True,
        max_iter: int = 10_000,
        tol: float = 1e-4,
        warm_start: bool = False,
        positive: bool = False,
        solver: str = "auto",
        standardize: bool = False,
        scaling: str = "scikit-learn",
        partitions: Union[str, int] = "auto",
        h: Union[str, float] = "auto",
        sigma: Union[str, float] = "auto",
        tuning: str = "counted",
        combine: str = "searched",
        random_state: Any = None,
        workers: WorkersLike = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.copy_X = copy_X
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.positive = positive
        self.solver = solver
        self.standardize = standardize
        self.scaling = scaling
        self.partitions = partitions
        self.h = h
        self.sigma = sigma
        self.tuning = tuning
        self.combine = combine
        self.random_state = random_state
        self.workers = workers

    def _options(self) -> Dict[str, Any]:
        return {name: value for name, value in super()._options().items() if name != "alpha"}

    def _alphas(self, outputs: int) -> List[Any]:
        if np.ndim(self.alpha) == 0:
            return super()._alphas(outputs)
        alphas: List[Any] = np.ravel(np.asarray(self.alpha, np.float64)).tolist()
        if len(alphas) not in (1, outputs):
            raise ValueError(
                f"alpha has {len(alphas)} numbers and y {outputs} columns; give one, or one for each column"
            )
        return alphas * outputs if len(alphas) == 1 else alphas

    def _keep(self, trained: List[Dict[str, Any]], y: Any, kind: Any) -> None:
        super()._keep(trained, y, kind)
        self.n_iter_ = np.array([one["rounds"] for one in trained], np.int32)


class Sparsest(Regression):
    """What lasso and elastic net have in common."""

    @property
    def sparse_coef_(self) -> Any:
        """``coef_`` as a sparse matrix of one row for each column of ``y``."""
        from scipy import sparse

        return sparse.csr_matrix(self.coef_)


@documented("lasso")
class Lasso(Sparsest):
    """A stand-in for ``sklearn.linear_model.Lasso``.

    ``fit`` leaves what :class:`Ridge` leaves, and ``sparse_coef_``.

    >>> import numpy as np
    >>> from qjam.learn import Lasso
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [3.0, 1.0]])
    >>> model = Lasso(alpha=0.5, tol=1e-9).fit(X, [1.0, 2.0, 3.0, 4.0])
    >>> [round(float(c), 3) for c in model.coef_]
    [0.6, 0.0]
    """

    _learner = "lasso"

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        copy_X: bool = True,
        max_iter: int = 10_000,
        tol: float = 1e-4,
        warm_start: bool = False,
        positive: bool = False,
        solver: str = "auto",
        standardize: bool = False,
        scaling: str = "scikit-learn",
        partitions: Union[str, int] = "auto",
        h: Union[str, float] = "auto",
        sigma: Union[str, float] = "auto",
        tuning: str = "counted",
        combine: str = "searched",
        random_state: Any = None,
        workers: WorkersLike = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.copy_X = copy_X
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.positive = positive
        self.solver = solver
        self.standardize = standardize
        self.scaling = scaling
        self.partitions = partitions
        self.h = h
        self.sigma = sigma
        self.tuning = tuning
        self.combine = combine
        self.random_state = random_state
        self.workers = workers


@documented("elasticnet")
class ElasticNet(Sparsest):
    """A stand-in for ``sklearn.linear_model.ElasticNet``.

    ``fit`` leaves what :class:`Ridge` leaves, and ``sparse_coef_``.

    >>> import numpy as np
    >>> from qjam.learn import ElasticNet
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [3.0, 1.0]])
    >>> model = ElasticNet(alpha=0.5, l1_ratio=0.5).fit(X, [1.0, 2.0, 3.0, 4.0])
    >>> model.predict(X[:2]).shape, model.converged_
    ((2,), True)
    """

    _learner = "elasticnet"

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        l1_ratio: float = 0.5,
        fit_intercept: bool = True,
        copy_X: bool = True,
        max_iter: int = 10_000,
        tol: float = 1e-4,
        warm_start: bool = False,
        positive: bool = False,
        solver: str = "auto",
        standardize: bool = False,
        scaling: str = "scikit-learn",
        partitions: Union[str, int] = "auto",
        h: Union[str, float] = "auto",
        sigma: Union[str, float] = "auto",
        tuning: str = "counted",
        combine: str = "searched",
        random_state: Any = None,
        workers: WorkersLike = None,
    ) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.copy_X = copy_X
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.positive = positive
        self.solver = solver
        self.standardize = standardize
        self.scaling = scaling
        self.partitions = partitions
        self.h = h
        self.sigma = sigma
        self.tuning = tuning
        self.combine = combine
        self.random_state = random_state
        self.workers = workers
