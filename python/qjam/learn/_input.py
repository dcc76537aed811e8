"""What users hand to ``fit`` and ``predict``, as rows for the native part.

NumPy arrays and mappings whose rows lie one after the other are not copied here. What scikit-learn takes is taken as
scikit-learn takes it, by its own functions; Arrow tables, files and the data sets of this package come on top. Whether all numbers
are finite is not asked here: the native part looks at all of them anyway, and says which row and column is to blame.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Optional, Tuple

import numpy as np
from sklearn.utils.validation import _check_sample_weight, check_array, check_is_fitted, validate_data

from .. import _native
from ..dataset import BaseDataSet, FileDataSet

__all__ = ["as_matrix", "as_rows", "float_kinds", "fitted", "is_data", "memory_of", "must_be_finite", "of_data"]
__all__ += ["row_weights", "weights_for"]

#: Numbers are computed with as they come if they are of these kinds, and else as the first.
float_kinds: Any = [np.float64, np.float32]


def _is_arrow(X: Any) -> bool:
    """Whether it is a table of Arrow's, without importing what nobody uses."""
    arrow = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(X, (arrow.Table, arrow.RecordBatch))


def _of_arrow(table: Any) -> Any:
    """The columns of a table beside each other. What is missing is NaN, and refused by its row and column."""
    columns = [np.asarray(table.column(n).to_numpy(zero_copy_only=False)) for n in range(table.num_columns)]
    single = bool(columns) and all(column.dtype == np.float32 for column in columns)
    rows = np.empty((table.num_rows, len(columns)), np.float32 if single else np.float64)
    for n, column in enumerate(columns):
        rows[:, n] = column
    return rows


def as_matrix(estimator: Any, X: Any, *, reset: bool, sparse: bool = True, kinds: Any = float_kinds) -> Any:
    """An array with rows one after the other, or a CSR matrix. Names and number of columns are noted or compared."""
    rows = X
    if _is_arrow(X):
        # Names of the columns are scikit-learn's business, the numbers ours.
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        rows = _of_arrow(X)
        checked = check_array(rows, dtype=kinds, order="C", ensure_all_finite=False, estimator=estimator)
    else:
        checked = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr" if sparse else False,
            dtype=kinds,
            order="C",
            ensure_all_finite=False,
        )
    return checked


def weights_for(sample_weight: Any, X: Any, kind: Any) -> Optional[Any]:
    """Weights that are not all 1, checked for their shape; None if nothing is weighted."""
    if sample_weight is None:
        return None
    weights = _check_sample_weight(sample_weight, X, dtype=kind)
    return None if bool(np.all(weights == 1)) else weights


def row_weights(sample_weight: Any, rows: int) -> Optional[Any]:
    """Weights as 64-bit numbers, one for each row; None if they are all 1."""
    weights = _check_sample_weight(sample_weight, np.empty((rows, 1)), dtype=np.float64)
    wrong = np.flatnonzero(~(weights >= 0))
    if len(wrong):
        row = wrong[0]
        raise ValueError(f"the weight of row {row} (counted from 0) is {weights[row]}; give numbers that are not negative")
    if not weights.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return None if bool(np.all(weights == 1)) else np.ascontiguousarray(weights)


def as_rows(X: Any, shares: bool, weights: Optional[Any] = None) -> _native.Rows:
    """The rows of what `as_matrix` gave, with their weights."""
    doubles = X.dtype == np.float64
    if isinstance(X, np.ndarray):
        if weights is not None:
            X = np.column_stack((X, weights))
        memory, weighted = memory_of(np.asarray(X)), weights is not None
        return _native.Rows.dense(memory, doubles, X.shape[0], X.shape[1], weighted, shares)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    starts = np.ascontiguousarray(X.indptr, np.uint64)
    columns = np.ascontiguousarray(X.indices, np.uint32)
    if X.shape[1] > 2**32:
        raise ValueError(f"a sparse matrix of {X.shape[1]} columns; there may be 4294967296")
    values = np.ascontiguousarray(X.data)
    given = None if weights is None else memory_of(weights)
    return _native.Rows.csr(memory_of(starts), memory_of(columns), memory_of(values), doubles, X.shape[1], given)


def memory_of(array: Any) -> Any:
    """The bytes of an array, row after row, as an object with a buffer."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8) if array.nbytes else b""


def must_be_finite(X: Any) -> None:
    """Refuses NaN and infinities, and says where the first is."""
    # A sum is finite only if all of it is; the other way round one has to look.
    with np.errstate(all="ignore"):
        if np.isfinite(X.sum(dtype=np.float64)):
            return
    bad = np.argwhere(~np.isfinite(X))
    if len(bad):
        row, column = bad[0]
        value = "NaN" if np.isnan(X[row, column]) else "inf"
        raise ValueError(
            f"row {row}, column {column} (counted from 0) is {value}; remove such rows or fill them in before fitting"
        )


def is_data(X: Any) -> bool:
    """Whether it is a data set of this package, or a file that can be one."""
    return isinstance(X, (BaseDataSet, str, os.PathLike))


def of_data(estimator: Any, X: Any, shares: bool, *, reset: bool) -> Tuple[_native.Rows, int]:
    """The rows of a data set of this package, and its number of columns, which is noted or compared."""
    data = X if isinstance(X, BaseDataSet) else FileDataSet(X)
    rows = _native.Rows.data(data._native_data(), shares)
    names = [str(name) for name in getattr(data, "columns", ())]
    if reset:
        estimator.n_features_in_ = rows.cols
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        if len(names) == rows.cols:
            estimator.feature_names_in_ = np.asarray(names, dtype=object)
    elif rows.cols != estimator.n_features_in_:
        raise ValueError(
            f"X has {rows.cols} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )
    return rows, rows.cols


def fitted(estimator: Any) -> None:
    """Refuses estimators that have not been fitted."""
    check_is_fitted(estimator)
