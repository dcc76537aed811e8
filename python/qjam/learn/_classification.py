"""Linear models of classes."""

from __future__ import annotations

import inspect
from typing import Any, Dict, List, Optional, Tuple, TypeVar, Union

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from .. import _native
from .._workers import WorkersLike
from ._input import fitted
from ._linear import Linear
from ._tables import documented

__all__ = ["LinearSVC", "LogisticRegression"]

Self = TypeVar("Self", bound="Classification")

#: Newer versions of scikit-learn weigh the rows when they balance classes.
_BALANCES_WEIGHTS = "sample_weight" in inspect.signature(compute_class_weight).parameters


class Classification(ClassifierMixin, Linear):
    """An estimator whose predictions are classes."""

    class_weight: Any
    classes_: Any

    def fit(self: Self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Finds the coefficients. ``y`` has the class of each row: numbers, words, whatever can be compared.
        ``sample_weight`` says how much each row counts.

        Not getting there in ``max_iter`` rounds is no error: a ``ConvergenceWarning`` says how far it came, and so
        do ``outcome_`` and ``dual_gap_``. Ctrl-C calls it off, and the workers can be used again.
        """
        options = self._options()
        rows, kind = self._read(X, y)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if len(y) != rows.rows:
            raise ValueError(f"y has {len(y)} classes for {rows.rows} rows; give one for each")
        weights = self._weights(sample_weight, rows)
        # Rows that count nothing are as if they were not there, with their classes.
        classes = np.unique(y if weights is None else y[weights > 0])
        if len(classes) < 2:
            raise ValueError(
                f"y has one class only, {classes[0]!r}; there must be at least 2 classes to tell apart"
            )
        indices = np.searchsorted(classes, y).clip(0, len(classes) - 1)
        of_classes = self._class_weights(classes, y, weights)
        before = self._start(classes)
        self.classes_ = classes
        self._learn(rows, indices, weights, of_classes, options, before, kind)
        return self

    def _class_weights(self, classes: Any, y: Any, weights: Optional[Any]) -> Optional[Any]:
        """A weight for each class, or None if all count the same."""
        if self.class_weight is None:
            return None
        if not isinstance(self.class_weight, dict) and self.class_weight != "balanced":
            raise ValueError(
                f"class_weight is {self.class_weight!r}; give a dictionary of classes and their weights, "
                "'balanced', or None"
            )
        if weights is None:
            return compute_class_weight(self.class_weight, classes=classes, y=y)
        counts = weights > 0
        more = {"sample_weight": weights[counts]} if _BALANCES_WEIGHTS else {}
        return compute_class_weight(self.class_weight, classes=classes, y=y[counts], **more)

    def _start(self, classes: Any) -> Optional[Any]:
        """Where a fit begins: where the last one ended, if that was asked for and it was of the same shape."""
        if not getattr(self, "warm_start", False) or not hasattr(self, "coef_"):
            return None
        self.densify()
        shape = (1 if len(classes) == 2 else len(classes), self.n_features_in_)
        if self.coef_.shape != shape:
            return None
        return self.coef_, np.broadcast_to(np.ravel(self.intercept_), shape[:1])

    def _learn(
        self,
        rows: _native.Rows,
        indices: Any,
        weights: Optional[Any],
        of_classes: Optional[Any],
        options: Dict[str, Any],
        start: Optional[Any],
        kind: Any,
    ) -> None:
        """Trains, given the index of each row's class, and keeps what comes of it."""
        raise NotImplementedError

    def decision_function(self, X: Any) -> Any:
        """How sure it is: a number for each row and class; for two classes one for each row, positive if it is the
        second.
        """
        scores = self._decide(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Any:
        """The class of every row."""
        scores = self.decision_function(X)
        indices = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[indices]

    def _kept_classes(self) -> Tuple[Optional[List[float]], List[str]]:
        if self.classes_.dtype.kind in "biuf":
            return [float(name) for name in self.classes_], []
        return [float(n) for n in range(len(self.classes_))], [str(name) for name in self.classes_]

    def _take(self, found: Dict[str, Any]) -> None:
        self.coef_, self.intercept_ = found["coefficients"], found["intercepts"]
        self._softmax = found["softmax"]
        self.classes_ = np.asarray(found["names"] or found["classes"])
        if self.classes_.dtype.kind == "f" and (self.classes_ == np.rint(self.classes_)).all():
            self.classes_ = self.classes_.astype(np.int64)

    def sparsify(self: Self) -> Self:
        """Keeps ``coef_`` as a sparse matrix, which saves memory where most are 0."""
        from scipy import sparse

        fitted(self)
        self.coef_ = sparse.csr_matrix(self.coef_)
        return self

    def densify(self: Self) -> Self:
        """Keeps ``coef_`` as an array again."""
        fitted(self)
        if hasattr(self.coef_, "toarray"):
            self.coef_ = self.coef_.toarray()
        return self


def _expit(scores: Any) -> Any:
    """``1 / (1 + exp(-score))``, without a warning for large ones."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-scores))


def times(weights: Optional[Any], of_classes: Optional[Any], indices: Any) -> Optional[Any]:
    """Weights of rows, with those of their classes."""
    if of_classes is None:
        return weights
    of_rows = np.asarray(of_classes, np.float64)[indices]
    return of_rows if weights is None else weights * of_rows


@documented("logistic")
class LogisticRegression(Classification):
    """A stand-in for ``sklearn.linear_model.LogisticRegression``.

    ``fit`` leaves ``classes_``, ``coef_`` (one row for two classes, otherwise one for each class), ``intercept_``,
    ``n_iter_`` (rounds), ``n_features_in_`` and, of tables, ``feature_names_in_``; and of its own ``objective_``,
    ``dual_gap_`` (how far that is above the minimum at most), ``converged_``, ``outcome_``, ``solver_``, ``rounds_`` and
    ``choices_``.

    >>> import numpy as np
    >>> from qjam.learn import LogisticRegression
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = LogisticRegression().fit(X, ["no", "no", "yes", "yes"])
    >>> model.predict([[0.2], [2.8]]).tolist()
    ['no', 'yes']
    >>> model.predict_proba([[1.5]]).round(3).tolist()
    [[0.5, 0.5]]

    More than two classes are told apart by one model of all of them, as scikit-learn has it, or by
    ``multi_class="ovr"`` each from the rest.

    >>> three = LogisticRegression().fit(X, ["low", "low", "middle", "high"])
    >>> three.coef_.shape, three.predict_proba(X).sum(axis=1).round(9).tolist()
    ((3, 1), [1.0, 1.0, 1.0, 1.0])
    """

    _learner = "logistic"

    def __init__(
        self,
        penalty: str = "auto",
        *,
        C: float = 1.0,
        l1_ratio: Optional[float] = 0.0,
        multi_class: str = "softmax",
        tol: float = 1e-4,
        fit_intercept: bool = True,
        class_weight: Any = None,
        random_state: Any = None,
        solver: str = "auto",
        max_iter: int = 10_000,
        standardize: bool = False,
        scaling: str = "scikit-learn",
        partitions: Union[str, int] = "auto",
        h: Union[str, float] = "auto",
        sigma: Union[str, float] = "auto",
        tuning: str = "counted",
        combine: str = "searched",
        verbose: int = 0,
        warm_start: bool = False,
        n_jobs: Any = None,
        workers: WorkersLike = None,
    ) -> None:
        self.penalty = penalty
        self.C = C
        self.l1_ratio = l1_ratio
        self.multi_class = multi_class
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.random_state = random_state
        self.solver = solver
        self.max_iter = max_iter
        self.standardize = standardize
        self.scaling = scaling
        self.partitions = partitions
        self.h = h
        self.sigma = sigma
        self.tuning = tuning
        self.combine = combine
        self.verbose = verbose
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.workers = workers

    def _options(self) -> Dict[str, Any]:
        options = super()._options()
        if options["penalty"] is None:
            raise ValueError("penalty is None; there is no fit without a penalty: give a large C instead")
        if options["l1_ratio"] is None:
            # As scikit-learn had it where the penalty alone says it.
            del options["l1_ratio"]
        return options

    def _learn(
        self,
        rows: _native.Rows,
        indices: Any,
        weights: Optional[Any],
        of_classes: Optional[Any],
        options: Dict[str, Any],
        start: Optional[Any],
        kind: Any,
    ) -> None:
        found = self._train(rows, indices, times(weights, of_classes, indices), options, start)
        self._tell([found], stacklevel=4)
        self._softmax = found["softmax"]
        self.coef_ = found["coefficients"].astype(kind, copy=False)
        self.intercept_ = found["intercepts"].astype(kind, copy=False)
        self.n_iter_ = np.array([found["rounds"]], np.int32)

    def _take(self, found: Dict[str, Any]) -> None:
        super()._take(found)
        if len(self.classes_) > 2:
            # A file that was written before there was a choice says nothing of it among its options.
            self.multi_class = "softmax" if self._softmax else "ovr"

    def predict_proba(self, X: Any) -> Any:
        """How likely each class is, for every row. With ``multi_class="ovr"`` each of more than two classes was told from
        the rest alone, and what these models say is scaled to add up to 1.
        """
        scores = self._decide(X)
        if self._softmax:
            likely = np.exp(scores - scores.max(axis=1, keepdims=True))
            return likely / likely.sum(axis=1, keepdims=True)
        likely = _expit(scores)
        if likely.shape[1] == 1:
            return np.hstack((1 - likely, likely))
        total = likely.sum(axis=1, keepdims=True)
        # All may be too unlikely to be told from 0: then nothing is known.
        return np.where(total > 0, likely / np.where(total > 0, total, 1), 1 / likely.shape[1])

    def predict_log_proba(self, X: Any) -> Any:
        """The logarithm of how likely each class is, for every row."""
        return np.log(self.predict_proba(X))


@documented("svm")
class LinearSVC(Classification):
    """A stand-in for ``sklearn.svm.LinearSVC``.

    ``fit`` leaves what :class:`LogisticRegression` leaves. With more than two classes, each is told from all others.

    >>> import numpy as np
    >>> from qjam.learn import LinearSVC
    >>> X = np.array([[0.0, 0.0], [1.0, 0.5], [4.0, 4.0], [5.0, 4.5]])
    >>> model = LinearSVC(C=10.0).fit(X, [0, 0, 1, 1])
    >>> model.predict([[0.5, 0.5], [4.5, 4.0]]).tolist(), model.coef_.shape
    ([0, 1], (1, 2))
    """

    _learner = "svm"

    def __init__(
        self,
        loss: str = "squared_hinge",
        *,
        dual: Any = "auto",
        tol: float = 1e-4,
        C: float = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        verbose: int = 0,
        random_state: Any = None,
        max_iter: int = 10_000,
        warm_start: bool = False,
        solver: str = "auto",
        standardize: bool = False,
        scaling: str = "scikit-learn",
        partitions: Union[str, int] = "auto",
        h: Union[str, float] = "auto",
        sigma: Union[str, float] = "auto",
        tuning: str = "counted",
        combine: str = "searched",
        workers: WorkersLike = None,
    ) -> None:
        self.loss = loss
        self.dual = dual
        self.tol = tol
        self.C = C
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.solver = solver
        self.standardize = standardize
        self.scaling = scaling
        self.partitions = partitions
        self.h = h
        self.sigma = sigma
        self.tuning = tuning
        self.combine = combine
        self.workers = workers

    def _learn(
        self,
        rows: _native.Rows,
        indices: Any,
        weights: Optional[Any],
        of_classes: Optional[Any],
        options: Dict[str, Any],
        start: Optional[Any],
        kind: Any,
    ) -> None:
        if len(self.classes_) == 2 or of_classes is None:
            trained = [self._train(rows, indices, times(weights, of_classes, indices), options, start)]
        else:
            # The weight of a class counts where it is told from the others, and not where it is one of the others: so liblinear.
            trained = []
            for one, weight in enumerate(of_classes):
                is_it = indices == one
                of_rows = times(weights, [1.0, weight], is_it.astype(int))
                begin = None if start is None else (start[0][one], start[1][one])
                trained.append(self._train(rows, is_it, of_rows, options, begin))
        self._tell(trained, stacklevel=4)
        # 64-bit numbers in any case, as scikit-learn has it here.
        self.coef_ = np.concatenate([one["coefficients"] for one in trained])
        self.intercept_ = np.concatenate([one["intercepts"] for one in trained]) if self.fit_intercept else 0.0
        self.n_iter_ = max(one["rounds"] for one in trained)
