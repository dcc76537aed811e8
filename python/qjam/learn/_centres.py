"""What all k-means have in common once they have centres: predict, transform, score, and a file to keep them in."""

from __future__ import annotations

import os
from typing import Any, Optional, Tuple, TypeVar, Union

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_array

from .. import _native
from .._workers import WorkersLike
from ._input import as_matrix, as_rows, fitted, is_data, memory_of, of_data, weights_for
from ._masters import kept, shares
from ._models import answered, loaded, saved
from ._shown import ShownEstimator
from ._tables import fitted_numbers

__all__ = ["HasCentres"]

Self = TypeVar("Self", bound="HasCentres")

#: Below so many multiplications, this machine is done before another one has been told.
_SMALL_WORK = 1 << 24


class HasCentres(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, ShownEstimator):
    """An estimator with ``cluster_centers_``."""

    #: What the command calls it.
    _learner = "kmeans"

    n_clusters: int
    workers: WorkersLike
    cluster_centers_: Any
    labels_: Any
    inertia_: float
    n_iter_: int
    n_features_in_: int
    feature_names_in_: Any

    def fit(self: Self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Finds the centres."""
        raise NotImplementedError

    def fit_predict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, X: Any, y: Any = None, sample_weight: Any = None
    ) -> Any:
        """Finds the centres, and gives the nearest centre of every row: ``fit(X).labels_``."""
        return self.fit(X, sample_weight=sample_weight).labels_

    def fit_transform(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, X: Any, y: Any = None, sample_weight: Any = None
    ) -> Any:
        """Finds the centres, and gives the distances of every row to them: ``fit(X).transform(X)``."""
        return self.fit(X, sample_weight=sample_weight)._transform(X)

    def predict(self, X: Any) -> Any:
        """The index of the nearest centre of every row; of equally near ones the first.

        >>> import numpy as np
        >>> from qjam.learn import KMeans
        >>> model = KMeans(2, random_state=0).fit(np.array([[0.0], [1.0], [9.0], [10.0]]))
        >>> near, far = model.predict([[0.4], [9.6]])
        >>> bool(near != far)
        True
        """
        fitted(self)
        return self._ask(X, "predict")

    def transform(self, X: Any) -> Any:
        """The distance of every row to every centre."""
        fitted(self)
        return self._transform(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the sum of the squared distances of all rows to their nearest centres; higher is better."""
        fitted(self)
        rows, centres, workers = self._rows(X, sample_weight)
        return -float(answered(workers, rows, self._learner, {"centres": centres}, "score"))

    def _transform(self, X: Any) -> Any:
        return self._ask(X, "transform")

    def _ask(self, X: Any, question: _native.Question) -> Any:
        """What the centres say about rows. Naming little work as a data set would take longer than the answer."""
        centres = np.asarray(self.cluster_centers_)
        if isinstance(X, np.ndarray) and centres.dtype == np.float64:
            X = as_matrix(self, X, reset=False)
            if X.dtype == np.float64 and X.shape[0] * centres.size <= _SMALL_WORK:
                tensors = {"centres": np.ascontiguousarray(centres)}
                return _native.model_answer_here(memory_of(X), self._learner, tensors, question)
        rows, centres, workers = self._rows(X)
        return answered(workers, rows, self._learner, {"centres": centres}, question)

    def _rows(self, X: Any, sample_weight: Any = None) -> Tuple[_native.Rows, Any, WorkersLike]:
        """Rows to compare with the centres, the centres in the same kind of numbers, and who does it."""
        centres = np.asarray(self.cluster_centers_)
        if is_data(X):
            if sample_weight is not None:
                raise ValueError("weights of the rows of a data set cannot be given; hand over arrays")
            rows, _ = of_data(self, X, shares(self.workers), reset=False)
            kind: Any = np.float64 if rows.doubles else np.float32
            return rows, np.ascontiguousarray(centres, kind), self.workers
        matrix = as_matrix(self, X, reset=False)
        kind = np.result_type(matrix.dtype, centres.dtype)
        matrix = matrix.astype(kind, copy=False)
        is_small = matrix.shape[0] * centres.size <= _SMALL_WORK
        workers = None if is_small else self.workers
        weights = weights_for(sample_weight, matrix, kind)
        rows = kept(workers, as_rows(matrix, shares(workers), weights))
        return rows, np.ascontiguousarray(centres, kind), workers

    # ---- files --------------------------------------------------------------------------------------------------

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the centres to a file that the command ``qjam`` and programs in Rust read, too.

        Only what ``predict`` needs is in it. A pickle has all of the estimator, for Python alone.
        """
        fitted(self)
        fit = fitted_numbers(self, {"inertia": "inertia_", "iterations": "n_iter_"})
        saved(self, path, {"centres": np.ascontiguousarray(self.cluster_centers_)}, fit)

    @classmethod
    def load(cls: type[Self], path: Union[str, os.PathLike[str]], *, workers: WorkersLike = None) -> Self:
        """An estimator with the centres of a file that :meth:`save` or ``qjam fit`` wrote.

        >>> import os, tempfile
        >>> import numpy as np
        >>> from qjam.learn import KMeans
        >>> model = KMeans(2, random_state=0).fit(np.array([[0.0], [1.0], [9.0], [10.0]]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(os.path.join(folder, "four.model"))
        ...     again = KMeans.load(os.path.join(folder, "four.model"))
        >>> bool((again.cluster_centers_ == model.cluster_centers_).all())
        True
        """
        found = _native.model_load(os.fspath(path), cls._learner)
        centres = found["tensors"]["centres"]
        made = loaded(cls, cls._learner, found, centres.shape[1], workers, n_clusters=len(centres))
        made.cluster_centers_ = centres
        return made

    # ---- what scikit-learn asks ---------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_centers_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def first_centres(init: Any, X: Any, n_clusters: int, random_state: Any, kind: Any) -> Optional[Any]:
    """Centres that were given, or that a function gives; None if ``init`` is a word."""
    if isinstance(init, str):
        return None
    if callable(init):
        init = init(X, n_clusters, random_state=random_state)
    return check_array(init, dtype=kind, order="C", ensure_all_finite=False, input_name="init")
