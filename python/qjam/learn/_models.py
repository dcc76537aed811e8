"""Models as the native part knows them: tensors by name. What estimators share of fitting, asking, saving and loading.

An estimator with ``_learner`` (the learner's name) and ``_tensors()`` (its fitted arrays by the names that model files have) gets
the rest from here.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Optional, TypeVar, Union

import numpy as np

from .. import _native
from .._workers import WorkersLike
from ._input import as_matrix, as_rows, is_data, memory_of, of_data
from ._masters import doing, kept, shares
from ._tables import made_from, to_be_kept

__all__ = ["answered", "as_given", "asked", "fit_of", "loaded", "saved"]

#: Rows times numbers of the model up to which the calling thread answers by itself: a round would take longer.
_SMALL_WORK = 1 << 20

E = TypeVar("E")


def fit_of(workers: WorkersLike, rows: _native.Rows, learner: str, options: Dict[str, Any], **more: Any) -> Dict[str, Any]:
    """Has a learner fit, or learn from one more batch."""

    def work(master: _native.Master, tick: Callable[[], object]) -> Dict[str, Any]:
        return _native.learner_fit(master, rows, learner, options, tick, **more)

    return doing(workers, work)


def answered(
    workers: WorkersLike,
    rows: _native.Rows,
    learner: str,
    tensors: Dict[str, Any],
    question: _native.Question,
    attributes: Optional[Dict[str, Any]] = None,
) -> Any:
    """What a model answers about rows."""

    def work(master: _native.Master, tick: Callable[[], object]) -> Any:
        return _native.model_answer(master, rows, learner, tensors, question, tick, attributes=attributes)

    return doing(workers, work)


def asked(
    estimator: Any,
    X: Any,
    question: _native.Question,
    *,
    workers: WorkersLike,
    attributes: Optional[Dict[str, Any]] = None,
    sparse: bool = True,
) -> Any:
    """What the model of an estimator answers about rows.

    A few dense rows of 64-bit numbers are neither named nor sent: this thread answers, with the same bits. One number about all
    rows together is a round's business.
    """
    learner, tensors = estimator._learner, estimator._tensors()
    if is_data(X):
        return answered(workers, of_data(estimator, X, shares(workers), reset=False)[0], learner, tensors, question, attributes)
    matrix = as_matrix(estimator, X, reset=False, sparse=sparse)
    if question != "score" and isinstance(matrix, np.ndarray) and matrix.dtype == np.float64:
        if matrix.shape[0] * sum(part.size for part in tensors.values()) <= _SMALL_WORK:
            memory = memory_of(np.asarray(matrix))
            return _native.model_answer_here(memory, learner, tensors, question, attributes=attributes)
    rows = kept(workers, as_rows(matrix, shares(workers)))
    return answered(workers, rows, learner, tensors, question, attributes)


def as_given(found: Any, X: Any) -> Any:
    """Numbers in 32 bits if the rows were."""
    return found.astype(np.float32) if getattr(X, "dtype", None) == np.float32 else found


def saved(
    estimator: Any,
    path: Union[str, os.PathLike[str]],
    tensors: Dict[str, Any],
    fitted: Dict[str, Any],
    attributes: Optional[Dict[str, Any]] = None,
    **as_kept: Any,
) -> None:
    """Writes a model file: the tensors, the options that are set, and the names of the columns.

    ``as_kept`` has the options that a file has in another form than the estimator.
    """
    names = [str(name) for name in getattr(estimator, "feature_names_in_", ())]
    learner = estimator._learner
    options = {**to_be_kept(estimator, learner), **as_kept}
    _native.model_save(os.fspath(path), learner, tensors, options, names, fitted, attributes=attributes)


def loaded(
    cls: Callable[..., E], learner: str, found: Dict[str, Any], features: int, workers: WorkersLike, **more: Any
) -> E:
    """An estimator with the options and columns that were found in a model file; some options follow from its tensors."""
    made = made_from(cls, learner, {**found["options"], **more}, workers)
    setattr(made, "n_features_in_", features)
    if len(found["columns"]) == features:
        setattr(made, "feature_names_in_", np.asarray(found["columns"], dtype=object))
    return made
