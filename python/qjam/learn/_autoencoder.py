"""Features that a small network learns by itself."""

from __future__ import annotations

import os
from typing import Any, Dict, Literal, TypeVar, Union

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array

from .. import _native
from .._workers import WorkersLike
from ._input import as_matrix, as_rows, fitted, float_kinds, is_data, memory_of, must_be_finite, of_data
from ._masters import kept, shares
from ._models import fit_of, loaded, saved
from ._shown import ShownEstimator
from ._tables import documented, fitted_numbers, options_of, seed_of

__all__ = ["SparseAutoencoder"]

Self = TypeVar("Self", bound="SparseAutoencoder")
Question = Literal["transform", "reconstruct"]


@documented("autoencoder")
class SparseAutoencoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ShownEstimator):
    """``transform`` gives the activities of the hidden units, from -1 to 1.

    ``fit`` leaves ``components_`` (the weights that the hidden units give the columns, one unit a row),
    ``decoder_components_`` (the way back), ``intercept_``, ``decoder_intercept_``, ``cost_``, ``n_iter_`` (evaluations of
    the cost), ``converged_`` and ``n_features_in_``.

    >>> import numpy as np
    >>> from qjam.learn import SparseAutoencoder
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, (200, 6))
    >>> model = SparseAutoencoder(n_hidden=3, max_evaluations=20, random_state=0).fit(X)
    >>> model.transform(X).shape, model.components_.shape
    ((200, 3), (3, 6))
    """

    #: What the command calls it.
    _learner = "autoencoder"

    components_: Any
    decoder_components_: Any
    intercept_: Any
    decoder_intercept_: Any
    cost_: float
    n_iter_: int
    converged_: bool
    n_features_in_: int
    feature_names_in_: Any

    def __init__(
        self,
        n_hidden: int = 30,
        *,
        weight_decay: float = 0.002,
        sparsity_weight: float = 4.0,
        sparsity_target: float = 0.002,
        max_evaluations: int = 500,
        tol: float = 1e-4,
        random_state: Any = None,
        workers: WorkersLike = None,
    ) -> None:
        self.n_hidden = n_hidden
        self.weight_decay = weight_decay
        self.sparsity_weight = sparsity_weight
        self.sparsity_target = sparsity_target
        self.max_evaluations = max_evaluations
        self.tol = tol
        self.random_state = random_state
        self.workers = workers

    def fit(self: Self, X: Any, y: Any = None) -> Self:
        """Trains the network on all rows; ``y`` is ignored. Not reaching a minimum is no error: see ``converged_``."""
        options = options_of(self, "autoencoder", leave=("random_state",))
        options["random_state"] = seed_of(self.random_state)
        rows = self._rows(X, self.workers, reset=True)
        fit = fit_of(self.workers, rows, self._learner, options)
        facts = fit["facts"]
        self.cost_, self.n_iter_, self.converged_ = facts["cost"], facts["evaluations"], facts["converged"]
        self._keep(fit["tensors"])
        return self

    def transform(self, X: Any) -> Any:
        """The activities of the hidden units for every row."""
        fitted(self)
        return self._ask(X, "transform")

    def reconstruct(self, X: Any) -> Any:
        """What the network makes of every row: :meth:`transform` and :meth:`inverse_transform`."""
        fitted(self)
        return self._ask(X, "reconstruct")

    def inverse_transform(self, X: Any) -> Any:
        """Rows from activities of the hidden units."""
        fitted(self)
        X = check_array(X, dtype=float_kinds)
        if X.shape[1] != len(self.components_):
            raise ValueError(f"X has {X.shape[1]} columns; the network has {len(self.components_)} hidden units")
        return np.tanh(X @ self.decoder_components_.T + self.decoder_intercept_)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean squared error of the reproduction of a row; higher is better."""
        fitted(self)
        matrix = as_matrix(self, X, reset=False, sparse=False, kinds=[np.float64])
        must_be_finite(matrix)
        missed = matrix - self._ask_matrix(matrix, "reconstruct")
        return -float(np.mean(np.sum(missed * missed, axis=1)))

    # ---- files --------------------------------------------------------------------------------------------------

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the network to a file that the command ``qjam`` and programs in Rust read, too."""
        fitted(self)
        fit = fitted_numbers(self, {"cost": "cost_", "evaluations": "n_iter_"})
        saved(self, path, self._tensors(), fit)

    @classmethod
    def load(cls: type[Self], path: Union[str, os.PathLike[str]], *, workers: WorkersLike = None) -> Self:
        """An estimator with the network of a file that :meth:`save` or ``qjam fit`` wrote."""
        found = _native.model_load(os.fspath(path), cls._learner)
        hidden, visible = found["tensors"]["w1"].shape
        made = loaded(cls, cls._learner, found, visible, workers, n_hidden=hidden)
        made._keep(found["tensors"])
        return made

    # ---- inside -------------------------------------------------------------------------------------------------

    def _rows(self, X: Any, workers: WorkersLike, *, reset: bool) -> _native.Rows:
        if is_data(X):
            return of_data(self, X, shares(workers), reset=reset)[0]
        matrix = as_matrix(self, X, reset=reset, sparse=False)
        return kept(workers, as_rows(matrix, shares(workers)))

    def _ask(self, X: Any, what: Question) -> Any:
        matrix = as_matrix(self, X, reset=False, sparse=False)
        must_be_finite(matrix)
        found = self._ask_matrix(np.ascontiguousarray(matrix, np.float64), what)
        return found.astype(matrix.dtype, copy=False)

    def _ask_matrix(self, matrix: Any, what: Question) -> Any:
        return _native.model_answer_here(memory_of(matrix), self._learner, self._tensors(), what)

    def _tensors(self) -> Dict[str, Any]:
        parts = (self.components_, self.decoder_components_, self.intercept_, self.decoder_intercept_)
        return {name: np.ascontiguousarray(part, np.float64) for name, part in zip(("w1", "w2", "b1", "b2"), parts)}

    def _keep(self, tensors: Dict[str, Any]) -> None:
        self.components_, self.decoder_components_ = tensors["w1"], tensors["w2"]
        self.intercept_, self.decoder_intercept_ = tensors["b1"], tensors["b2"]

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

