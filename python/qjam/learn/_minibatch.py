"""K-means on a few rows at a time."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from .._workers import WorkersLike
from ._centres import HasCentres
from ._input import as_matrix, as_rows, weights_for
from ._kmeans import begun_from, plain_options, prepared, warn_of_empty
from ._masters import shares
from ._models import fit_of
from ._tables import documented

__all__ = ["MiniBatchKMeans"]


@documented("minibatch-kmeans")
class MiniBatchKMeans(HasCentres):
    """A stand-in for ``sklearn.cluster.MiniBatchKMeans``.

    >>> import numpy as np
    >>> from qjam.learn import MiniBatchKMeans
    >>> X = np.repeat([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]], 200, axis=0)
    >>> model = MiniBatchKMeans(3, batch_size=64, random_state=0).fit(X)
    >>> len(set(model.labels_))
    3

    ``partial_fit`` takes batches as they come. ``counts_`` has the weight of all rows that each centre was given.
    """

    _learner = "minibatch-kmeans"

    counts_: Any
    n_steps_: int

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        batch_size: int = 1024,
        max_iter: int = 100,
        max_no_improvement: Optional[int] = 10,
        tol: float = 0.0,
        verbose: int = 0,
        compute_labels: bool = True,
        random_state: Any = None,
        skip_bad_rows: bool = False,
        workers: WorkersLike = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.max_no_improvement = max_no_improvement
        self.tol = tol
        self.verbose = verbose
        self.compute_labels = compute_labels
        self.random_state = random_state
        self.skip_bad_rows = skip_bad_rows
        self.workers = workers

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> MiniBatchKMeans:
        """Finds the centres. ``sample_weight`` says how often each row counts; ``y`` is ignored."""
        rows, given, options = prepared(self, X, sample_weight)
        labels = bool(self.compute_labels)
        fit = fit_of(self.workers, rows, self._learner, options, start=begun_from(given), answers=labels)
        facts = fit["facts"]
        self.cluster_centers_, self.counts_ = fit["tensors"]["centres"], fit["lists"]["sizes"]
        self.inertia_, self.n_iter_ = facts["inertia"], facts["iterations"]
        self.n_steps_ = self.n_iter_
        self._keep_labels(fit["answer"], facts["empty"])
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> MiniBatchKMeans:
        """Learns from one more batch, of any number of rows; the first must have as many as there are clusters.

        >>> import numpy as np
        >>> from qjam.learn import MiniBatchKMeans
        >>> model = MiniBatchKMeans(2, random_state=0)
        >>> for batch in np.array_split(np.tile([[0.0], [10.0]], (50, 1)), 5):
        ...     model = model.partial_fit(batch)
        >>> sorted(model.cluster_centers_.ravel().tolist()), model.n_steps_
        ([0.0, 10.0], 5)
        """
        is_first = not hasattr(self, "cluster_centers_")
        given: Optional[Any]
        if is_first:
            rows, given, options = prepared(self, X, sample_weight)
            counts = np.zeros(options["n_clusters"])
        else:
            options = plain_options(self)
            matrix = as_matrix(self, X, reset=False)
            kind = np.result_type(matrix.dtype, self.cluster_centers_.dtype)
            weights = weights_for(sample_weight, matrix, kind)
            rows = as_rows(matrix.astype(kind, copy=False), shares(self.workers), weights)
            given = np.ascontiguousarray(self.cluster_centers_, kind)
            counts = self.counts_
        labels = bool(self.compute_labels)
        start = {**(begun_from(given) or {}), "counts": np.ascontiguousarray(counts, np.float64)}
        step = fit_of(self.workers, rows, self._learner, options, start=start, answers=labels, batch=True)
        self.cluster_centers_, self.counts_ = step["tensors"]["centres"], step["lists"]["counts"]
        if labels:
            self.inertia_ = step["facts"]["inertia"]
        self.n_steps_ = 1 if is_first else getattr(self, "n_steps_", 0) + 1
        self.n_iter_ = self.n_steps_
        self._keep_labels(step["answer"], 0)
        return self

    def _keep_labels(self, found: Any, empty: int) -> None:
        if found is not None:
            self.labels_ = found
            if empty:
                warn_of_empty(len(np.unique(found)), self.n_clusters)
