"""K-means on all rows at once."""

from __future__ import annotations

import warnings
from typing import Any, Dict, Optional, Tuple, Union

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from .. import _native
from .._workers import WorkersLike
from ._centres import HasCentres, first_centres
from ._input import as_matrix, as_rows, is_data, of_data, weights_for
from ._masters import kept, shares
from ._models import fit_of
from ._tables import documented, options_of, seed_of, word_of

__all__ = ["KMeans"]


@documented("kmeans")
class KMeans(HasCentres):
    """A stand-in for ``sklearn.cluster.KMeans``.

    ``fit`` takes what scikit-learn's takes, and Arrow tables, paths of files that :class:`qjam.dataset.FileDataSet` reads, and
    the data sets of :mod:`qjam.dataset`, which may be larger than memory. It leaves ``cluster_centers_``, ``labels_``, ``inertia_``, ``n_iter_``, ``n_features_in_`` and, of
    tables, ``feature_names_in_``.

    >>> import numpy as np
    >>> from qjam.learn import KMeans
    >>> X = np.array([[1.0, 2.0], [1.0, 4.0], [1.0, 0.0], [10.0, 2.0], [10.0, 4.0], [10.0, 0.0]])
    >>> model = KMeans(n_clusters=2, random_state=0, workers="local:2").fit(X)
    >>> model.inertia_
    16.0
    >>> float(model.transform([[1.0, 2.0]]).min())
    0.0
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: Union[str, int] = "auto",
        max_iter: int = 300,
        tol: float = 1e-4,
        verbose: int = 0,
        random_state: Any = None,
        copy_x: bool = True,
        algorithm: str = "auto",
        empty_clusters: str = "farthest",
        skip_bad_rows: bool = False,
        workers: WorkersLike = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state
        self.copy_x = copy_x
        self.algorithm = algorithm
        self.empty_clusters = empty_clusters
        self.skip_bad_rows = skip_bad_rows
        self.workers = workers

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KMeans:
        """Finds the centres. ``sample_weight`` says how often each row counts; ``y`` is ignored.

        If there are fewer different rows than clusters, some have no rows, and a ``ConvergenceWarning`` says so. Ctrl-C calls
        it off, and the workers can be used again.
        """
        rows, given, options = prepared(self, X, sample_weight)
        if given is not None and self.n_init not in (1, "auto"):
            warnings.warn(
                f"first centres were given: {type(self).__name__} begins from them once, not {self.n_init} times",
                RuntimeWarning,
                stacklevel=2,
            )
        fit = fit_of(self.workers, rows, self._learner, options, start=begun_from(given), answers=True)
        facts = fit["facts"]
        self.cluster_centers_, self.labels_ = fit["tensors"]["centres"], fit["answer"]
        self.inertia_, self.n_iter_ = facts["inertia"], facts["iterations"]
        if facts["empty"]:
            warn_of_empty(len(np.unique(self.labels_)), self.n_clusters)
        return self


def prepared(estimator: Any, X: Any, sample_weight: Any) -> Tuple[_native.Rows, Optional[Any], Dict[str, Any]]:
    """What a fit needs: rows, given centres if any, and options."""
    options = plain_options(estimator)
    random_state = estimator.random_state
    if is_data(X):
        if sample_weight is not None:
            raise ValueError("weights of the rows of a data set cannot be given; hand over arrays")
        rows, _ = of_data(estimator, X, shares(estimator.workers), reset=True)
        enough(rows.rows, options["n_clusters"])
        kind: Any = np.float64 if rows.doubles else np.float32
    else:
        matrix = as_matrix(estimator, X, reset=True)
        kind = matrix.dtype
        weights = weights_for(sample_weight, matrix, kind)
        enough(matrix.shape[0], options["n_clusters"])
        rows = kept(estimator.workers, as_rows(matrix, shares(estimator.workers), weights))
    init = estimator.init
    if callable(init):
        # What it draws and what is drawn afterwards come from one source.
        random_state = check_random_state(random_state)
    given = first_centres(init, X, options["n_clusters"], random_state, kind)
    if given is None:
        options["init"] = word_of(estimator._learner, "init", "parallel" if init == "k-means||" else str(init))
    options["random_state"] = seed_of(random_state)
    return rows, given, options


def begun_from(centres: Optional[Any]) -> Optional[Dict[str, Any]]:
    """First centres as the native part takes them."""
    return None if centres is None else {"centres": np.ascontiguousarray(centres)}


def plain_options(estimator: Any) -> Dict[str, Any]:
    """The options that are plain values."""
    options = options_of(estimator, estimator._learner, leave=("init", "random_state"))
    if "max_no_improvement" in options and options["max_no_improvement"] is None:
        options["max_no_improvement"] = "none"
    return options


def enough(rows: int, n_clusters: Any) -> None:
    """Refuses to make more clusters than there are rows."""
    if isinstance(n_clusters, int) and rows < n_clusters:
        raise ValueError(
            f"n_samples={rows} should be >= n_clusters={n_clusters}; ask for at most as many clusters as there are rows"
        )


def warn_of_empty(found: int, wanted: int) -> None:
    """Says that some centres have no rows."""
    warnings.warn(
        f"Number of distinct clusters ({found}) found smaller than n_clusters ({wanted}). "
        "Possibly due to duplicate points in X.",
        ConvergenceWarning,
        stacklevel=3,
    )
