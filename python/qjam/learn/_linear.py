"""What all linear models have in common: reading what they are given, having it trained, telling how that went, and files."""

from __future__ import annotations

import os
import warnings
from typing import Any, Dict, List, Optional, Tuple, TypeVar, Union

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import assert_all_finite, check_consistent_length

from .. import _native
from .._workers import WorkersLike
from ._input import as_matrix, as_rows, fitted, is_data, memory_of, of_data, row_weights
from ._masters import kept, shares
from ._models import answered, fit_of, loaded, saved
from ._shown import ShownEstimator
from ._tables import fitted_numbers, options_of, seed_of

__all__ = ["Linear"]

Self = TypeVar("Self", bound="Linear")


#: What model files call the name of a class that is no number.
_CLASS = "class "


def _is_softmax(attributes: Dict[str, Any]) -> bool:
    return attributes.get("multi_class") == "softmax"


def _regression_of(coefficients: Any, intercept: Any) -> Dict[str, Any]:
    """The tensors of a regression."""
    one = np.ascontiguousarray(coefficients, np.float64)[np.newaxis]
    return {"coefficients": one, "intercepts": np.array([intercept], np.float64), "classes": np.empty(0)}


class Linear(ShownEstimator):
    """An estimator with ``coef_`` and ``intercept_``."""

    #: What the command calls it.
    _learner = ""
    #: Whether more than two classes were learnt together; what was pickled before there was such a thing was not.
    _softmax = False

    workers: WorkersLike
    random_state: Any
    tol: float
    max_iter: int
    coef_: Any
    intercept_: Any
    n_iter_: Any
    objective_: Any
    dual_gap_: Any
    rounds_: int
    outcome_: str
    converged_: bool
    solver_: str
    choices_: List[Dict[str, Any]]
    n_features_in_: int
    feature_names_in_: Any

    # ---- fitting ------------------------------------------------------------------------------------------------

    def _read(self, X: Any, y: Any) -> Tuple[_native.Rows, Any]:
        """The rows, and the kind of numbers that the coefficients will have. ``y`` is there, that is all."""
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None"
            )
        if is_data(X):
            rows, _ = of_data(self, X, shares(self.workers), reset=True)
            return rows, np.dtype(np.float64 if rows.doubles else np.float32)
        matrix = as_matrix(self, X, reset=True)
        check_consistent_length(matrix, y)
        return kept(self.workers, as_rows(matrix, shares(self.workers))), matrix.dtype

    def _weights(self, sample_weight: Any, rows: _native.Rows) -> Optional[Any]:
        """A weight for each row, or None if all count the same."""
        return None if sample_weight is None else row_weights(sample_weight, rows.rows)

    def _options(self) -> Dict[str, Any]:
        """Parameters as the native part takes them."""
        options = options_of(self, self._learner, leave=("random_state", "class_weight"))
        # The minimum does not depend on it: without a seed, fits are the same every time.
        options["random_state"] = 0 if self.random_state is None else seed_of(self.random_state)
        return options

    def _train(
        self,
        rows: _native.Rows,
        targets: Any,
        weights: Optional[Any],
        options: Dict[str, Any],
        start: Optional[Any] = None,
    ) -> Dict[str, Any]:
        """Has one model trained: one number for each row is its target, or the index of its class. ``start`` is a pair of
        coefficients and intercepts to begin with.
        """
        first = None
        if start is not None:
            coefficients, intercepts = (np.asarray(part, np.float64) for part in start)
            first = {
                "coefficients": np.ascontiguousarray(np.atleast_2d(coefficients)),
                "intercepts": np.ascontiguousarray(np.ravel(intercepts)),
            }
        fit = fit_of(
            self.workers,
            rows,
            self._learner,
            options,
            targets=memory_of(np.ascontiguousarray(targets, np.float64)),
            weights=None if weights is None else memory_of(weights),
            start=first,
        )
        how = {"choices": fit["choices"], "remarks": fit["remarks"], "softmax": _is_softmax(fit["attributes"])}
        return {**fit["facts"], **fit["tensors"], **how}

    def _tell(self, trained: List[Dict[str, Any]], stacklevel: int = 4) -> None:
        """Notes how the fits went, and warns of those that ended too early."""
        first, several = trained[0], len(trained) > 1
        worst = next((one for one in trained if not one["converged"]), first)
        self.converged_ = all(one["converged"] for one in trained)
        self.outcome_ = worst["outcome"]
        self.solver_ = first["solver"]
        self.rounds_ = sum(one["rounds"] for one in trained)
        self.choices_ = [choice for one in trained for choice in one["choices"]]
        self.objective_ = np.array([one["objective"] for one in trained]) if several else first["objective"]
        self.dual_gap_ = np.array([one["gap"] for one in trained]) if several else first["gap"]
        for remark in dict.fromkeys(remark for one in trained for remark in one["remarks"]):
            warnings.warn(f"{type(self).__name__}: {remark}", UserWarning, stacklevel=stacklevel)
        for one in trained:
            if one["outcome"] == "rounds used up":
                share = one["gap"] / abs(one["objective"]) if one["objective"] else np.inf
                rounds = "1 round" if one["rounds"] == 1 else f"{one['rounds']} rounds"
                above = f"may be {share:.1e} of itself above its minimum, and tol is {self.tol:.1e}"
                known = above if np.isfinite(share) else "has no certificate yet"
                warnings.warn(
                    f"{type(self).__name__} did not converge: after {rounds} the objective {known}. Give a larger "
                    "max_iter or a larger tol, or scale the columns alike",
                    ConvergenceWarning,
                    stacklevel=stacklevel,
                )
                break

    # ---- predicting ---------------------------------------------------------------------------------------------

    def _decide(self, X: Any) -> Any:
        """``X @ coef_.T + intercept_``."""
        fitted(self)
        if is_data(X):
            return self._decide_data(X)
        matrix = as_matrix(self, X, reset=False)
        assert_all_finite(matrix, input_name="X")
        return safe_sparse_dot(matrix, self.coef_.T, dense_output=True) + self.intercept_

    def _decide_data(self, X: Any) -> Any:
        rows, _ = of_data(self, X, shares(self.workers), reset=False)
        dense = self.coef_.toarray() if hasattr(self.coef_, "toarray") else np.asarray(self.coef_)
        coefficients = np.atleast_2d(dense).astype(np.float64)
        intercepts = np.broadcast_to(np.asarray(self.intercept_, np.float64), (len(coefficients),))
        found = [
            # Each output by itself is what a regression expects.
            answered(self.workers, rows, "ridge", _regression_of(one, intercept), "predict", {"learner": "ridge"})
            for one, intercept in zip(coefficients, intercepts)
        ]
        return found[0] if dense.ndim == 1 else np.column_stack(found)

    # ---- files --------------------------------------------------------------------------------------------------

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the model to a file that the command ``qjam`` and programs in Rust read, too.

        Only what ``predict`` needs is in it. A pickle has all of the estimator, for Python alone.
        """
        fitted(self)
        dense = self.coef_.toarray() if hasattr(self.coef_, "toarray") else np.asarray(self.coef_)
        coefficients = np.atleast_2d(dense).astype(np.float64)
        intercepts = np.ascontiguousarray(np.broadcast_to(np.ravel(self.intercept_), (len(coefficients),)), np.float64)
        classes, names = self._kept_classes()
        tensors = {"coefficients": np.ascontiguousarray(coefficients), "intercepts": intercepts}
        tensors["classes"] = np.asarray([] if classes is None else classes, np.float64)
        attributes = {"learner": self._learner, **({"multi_class": "softmax"} if self._softmax else {})}
        fitted_to: Dict[str, Any] = dict(
            fitted_numbers(self, {"objective": "objective_", "gap": "dual_gap_", "rounds": "rounds_"})
        )
        fitted_to.update({f"{_CLASS}{n}": name for n, name in enumerate(names)})
        saved(self, path, tensors, fitted_to, attributes)

    @classmethod
    def load(cls: type[Self], path: Union[str, os.PathLike[str]], *, workers: WorkersLike = None) -> Self:
        """An estimator with the model of a file that :meth:`save` or ``qjam fit`` wrote.

        >>> import os, tempfile
        >>> from qjam.learn import Ridge
        >>> model = Ridge().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(os.path.join(folder, "line.model"))
        ...     again = Ridge.load(os.path.join(folder, "line.model"))
        >>> bool((again.coef_ == model.coef_).all())
        True
        """
        found = _native.model_load(os.fspath(path), cls._learner)
        tensors, attributes, fitted_to = found["tensors"], found["attributes"], found["fitted"]
        if attributes["learner"] != cls._learner:
            raise ValueError(
                f"model file {os.fspath(path)}: it has a model of {attributes['learner']}, and {cls.__name__} loads "
                f"those of {cls._learner}"
            )
        made = loaded(cls, cls._learner, found, tensors["coefficients"].shape[1], workers)
        names = [fitted_to.get(f"{_CLASS}{n}") for n in range(len(tensors["classes"]))]
        made._take({**tensors, "names": [] if None in names else names, "softmax": _is_softmax(attributes)})
        return made

    def _kept_classes(self) -> Tuple[Optional[List[float]], List[str]]:
        """Numbers for the classes, or None if there are no classes; and their names, if they are not numbers."""
        return None, []

    def _take(self, found: Dict[str, Any]) -> None:
        """Takes over the coefficients that were found in a file."""
        raise NotImplementedError

    # ---- what scikit-learn asks ---------------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
