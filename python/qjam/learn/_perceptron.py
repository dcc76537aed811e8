"""Neural networks of a few layers: reading, training, asking, and their files."""

from __future__ import annotations

import os
import warnings
from numbers import Integral
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar, Union

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from .. import _native
from .._workers import WorkersLike
from ._input import as_matrix, as_rows, fitted, is_data, memory_of, of_data, row_weights
from ._masters import kept, shares, soonest
from ._models import asked, fit_of, loaded, saved
from ._tables import documented, fitted_numbers, options_of, seed_of

__all__ = ["MLPClassifier", "MLPRegressor"]

Self = TypeVar("Self", bound="Perceptron")

#: What model files call the name of a class that is no number.
_CLASS = "class "
#: What steps leave for later ones.
_STATE = ("progress", "first_means", "second_means")
#: More epochs than there ever are.
_MANY = 1_000_000_000


def _is_stochastic(estimator: Any) -> bool:
    if estimator.solver == "lbfgs":
        raise AttributeError("partial_fit is only available for stochastic optimizers. lbfgs is not stochastic.")
    return True


_stepwise: Callable[[Any], Any] = available_if(_is_stochastic)


class Perceptron(BaseEstimator):
    """An estimator with layers of weights."""

    #: What the command calls it.
    _learner = ""

    hidden_layer_sizes: Any
    activation: str
    solver: str
    n_iter_no_change: Any
    early_stopping: bool
    random_state: Any
    warm_start: bool
    workers: WorkersLike
    coefs_: List[Any]
    intercepts_: List[Any]
    loss_: float
    best_loss_: Optional[float]
    loss_curve_: List[float]
    validation_scores_: Optional[List[float]]
    best_validation_score_: Optional[float]
    n_iter_: int
    n_layers_: int
    n_outputs_: int
    out_activation_: str
    t_: int
    n_features_in_: int
    feature_names_in_: Any

    # ---- files --------------------------------------------------------------------------------------------------

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the network to a file that the command ``qjam`` and programs in Rust read, too."""
        fitted(self)
        notes: Dict[str, Any] = dict(fitted_numbers(self, {"loss": "loss_", "iterations": "n_iter_"}))
        notes.update(self._names())
        saved(self, path, self._tensors(), notes, self._attributes(), n_iter_no_change=self._patience())

    @classmethod
    def load(cls: type[Self], path: Union[str, os.PathLike[str]], *, workers: WorkersLike = None) -> Self:
        """An estimator with the network of a file that :meth:`save` or ``qjam fit`` wrote."""
        found = _native.model_load(os.fspath(path), cls._learner)
        tensors = found["tensors"]
        hidden = tuple(len(tensors[f"b{n}"]) for n in range(1, _depth(tensors)))
        features = tensors["w1"].shape[0]
        made = loaded(cls, cls._learner, found, features, workers, hidden_layer_sizes=hidden)
        made.activation = found["attributes"]["activation"]
        made.n_iter_no_change = np.inf if made.n_iter_no_change == _MANY else made.n_iter_no_change
        made._take_names(found)
        made._keep(tensors, found["attributes"]["output"])
        return made

    # ---- inside -------------------------------------------------------------------------------------------------

    def _rows(self, X: Any, y: Any, *, reset: bool) -> _native.Rows:
        workers = soonest(self.workers)
        if is_data(X):
            return of_data(self, X, shares(workers), reset=reset)[0]
        matrix = as_matrix(self, X, reset=reset)
        if y is not None:
            check_consistent_length(matrix, y)
        return kept(workers, as_rows(matrix, shares(workers)))

    def _learn(
        self: Self, rows: _native.Rows, targets: Any, sample_weight: Any, start: Dict[str, Any], *, batch: bool
    ) -> Self:
        weights = None if sample_weight is None else row_weights(sample_weight, rows.rows)
        fit = fit_of(
            soonest(self.workers),
            rows,
            self._learner,
            self._options(batch),
            targets=memory_of(np.ascontiguousarray(targets, np.float64)),
            weights=None if weights is None else memory_of(weights),
            start=start or None,
            batch=batch,
        )
        facts, lists = fit["facts"], fit["lists"]
        if facts["outcome"] == "diverged":
            raise ValueError(
                "Solver produced non-finite parameter weights: the loss is not finite any more. Scale the columns of X, or "
                "take shorter steps with learning_rate_init"
            )
        self._keep(fit["tensors"], fit["attributes"]["output"])
        self.loss_, self.n_iter_ = facts["loss"], facts["iterations"]
        if self.solver != "lbfgs":
            rows_before = int(start["progress"][2]) if "progress" in start else 0
            self._note(facts, lists, goes_on="w1" in start, rows_before=rows_before)
        if not facts["converged"]:
            warnings.warn(
                f"{type(self).__name__}: {facts['outcome']} after {self.n_iter_}; the optimization hasn't converged yet",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def _note(self, facts: Dict[str, Any], lists: Dict[str, Any], *, goes_on: bool, rows_before: int) -> None:
        """What epochs leave, behind what those before them left."""
        before = self.loss_curve_ if goes_on and hasattr(self, "loss_curve_") else []
        self.loss_curve_ = [*before, *lists["losses"].tolist()]
        self.validation_scores_ = lists["scores"].tolist() if self.early_stopping else None
        self.best_validation_score_ = facts.get("best_score")
        self.best_loss_ = None if self.early_stopping else min(self.loss_curve_)
        # A warm start begins a count of its own; all that the network has learnt from is told.
        self.t_ = (getattr(self, "t_", rows_before) if goes_on else 0) + facts["rows_seen"] - rows_before
        self._state = {name: lists[name] for name in _STATE if name in lists}

    def _options(self, batch: bool) -> Dict[str, Any]:
        leave = ("random_state", "hidden_layer_sizes", "n_iter_no_change", "early_stopping")
        options = options_of(self, self._learner, leave=leave)
        options["random_state"] = seed_of(self.random_state)
        options["hidden_layer_sizes"] = ",".join(map(str, _sizes(self.hidden_layer_sizes)))
        options["n_iter_no_change"] = self._patience()
        if batch and self.early_stopping:
            raise ValueError("partial_fit does not support early_stopping=True")
        options["early_stopping"] = bool(self.early_stopping)
        return options

    def _patience(self) -> Any:
        """Epochs that may improve nothing, as a whole number."""
        return _MANY if self.n_iter_no_change == np.inf else self.n_iter_no_change

    def _goes_on(self, outputs: int) -> bool:
        """Whether the network that is there is the one that was asked for."""
        if not hasattr(self, "coefs_"):
            return False
        sizes = [self.n_features_in_, *_sizes(self.hidden_layer_sizes), outputs]
        if [w.shape for w in self.coefs_] == list(zip(sizes, sizes[1:])):
            return True
        raise ValueError(
            f"the network that is there has layers of {[len(self.coefs_[0]), *map(len, self.intercepts_)]} units, and "
            f"{sizes} are asked for; set warm_start=False to begin anew"
        )

    def _ask(self, X: Any, question: _native.Question) -> Any:
        fitted(self)
        return asked(self, X, question, workers=soonest(self.workers), attributes=self._attributes())

    def _attributes(self) -> Dict[str, Any]:
        return {"activation": self.activation, "output": _OUTPUTS[self.out_activation_]}

    def _tensors(self) -> Dict[str, Any]:
        tensors: Dict[str, Any] = {}
        for n, (weights, intercepts) in enumerate(zip(self.coefs_, self.intercepts_), 1):
            tensors[f"w{n}"], tensors[f"b{n}"] = weights, intercepts
        return {name: np.ascontiguousarray(part, np.float64) for name, part in tensors.items()}

    def _keep(self, tensors: Dict[str, Any], output: str) -> None:
        layers = range(1, _depth(tensors) + 1)
        self.coefs_, self.intercepts_ = [tensors[f"w{n}"] for n in layers], [tensors[f"b{n}"] for n in layers]
        self.n_layers_, self.n_outputs_ = len(self.coefs_) + 1, len(self.intercepts_[-1])
        self.out_activation_ = next(name for name, known in _OUTPUTS.items() if known == output)

    def _names(self) -> Dict[str, str]:
        return {}

    def _take_names(self, found: Dict[str, Any]) -> None:
        """Classes of a file, if there are any."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


#: What scikit-learn calls the last layer, and model files.
_OUTPUTS = {"softmax": "softmax", "logistic": "logistic", "identity": "squares", "exp": "poisson"}


def _sizes(given: Any) -> Tuple[int, ...]:
    sizes = [given] if isinstance(given, Integral) else list(given)
    if any(not isinstance(size, Integral) or isinstance(size, bool) or size <= 0 for size in sizes):
        raise ValueError(f"hidden_layer_sizes must be > 0, got {sizes}: give whole numbers, one for each hidden layer")
    return tuple(int(size) for size in sizes)


def _depth(tensors: Dict[str, Any]) -> int:
    return sum(1 for name in tensors if name[0] == "w" and name[1:].isdigit())


@documented("mlp-classifier")
class MLPClassifier(ClassifierMixin, Perceptron):
    """A stand-in for ``sklearn.neural_network.MLPClassifier``, except that a row has one class.

    ``fit`` leaves ``coefs_`` and ``intercepts_`` (of each layer), ``classes_``, ``loss_``, ``n_iter_``, ``n_layers_``,
    ``n_outputs_``, ``out_activation_``, and but for ``lbfgs`` ``loss_curve_``, ``best_loss_``, ``validation_scores_``,
    ``best_validation_score_`` and ``t_`` (rows learnt from).

    >>> import numpy as np
    >>> from qjam.learn import MLPClassifier
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]] * 20)
    >>> y = ["same", "same", "other", "other"] * 20
    >>> model = MLPClassifier((8,), solver="lbfgs", random_state=1).fit(X, y)
    >>> model.predict(X[:4]).tolist(), model.score(X, y)
    (['same', 'same', 'other', 'other'], 1.0)
    >>> [weights.shape for weights in model.coefs_]
    [(2, 8), (8, 1)]
    """

    _learner = "mlp-classifier"

    classes_: Any

    def __init__(
        self,
        hidden_layer_sizes: Any = (100,),
        activation: str = "relu",
        *,
        solver: str = "adam",
        alpha: float = 0.0001,
        batch_size: Union[str, int] = "auto",
        learning_rate: str = "constant",
        learning_rate_init: float = 0.001,
        power_t: float = 0.5,
        max_iter: int = 200,
        shuffle: bool = True,
        random_state: Any = None,
        tol: float = 1e-4,
        verbose: bool = False,
        warm_start: bool = False,
        momentum: float = 0.9,
        nesterovs_momentum: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        n_iter_no_change: Any = 10,
        max_fun: int = 15000,
        workers: WorkersLike = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.solver = solver
        self.alpha = alpha
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.learning_rate_init = learning_rate_init
        self.power_t = power_t
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.tol = tol
        self.verbose = verbose
        self.warm_start = warm_start
        self.momentum = momentum
        self.nesterovs_momentum = nesterovs_momentum
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.n_iter_no_change = n_iter_no_change
        self.max_fun = max_fun
        self.workers = workers

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MLPClassifier:
        """Trains the network. ``y`` has the class of each row, ``sample_weight`` says how much each counts.

        Not getting to an end in ``max_iter`` epochs is no error: a ``ConvergenceWarning`` tells. Weights that are not finite
        any more are one.
        """
        goes_on = bool(self.warm_start) and hasattr(self, "coefs_")
        rows, y = self._read(X, y, reset=not goes_on)
        classes = np.unique(y)
        if goes_on and not np.array_equal(classes, self.classes_):
            raise ValueError(
                "warm_start can only be used where `y` has the same classes as in the previous call to fit. Previously got "
                f"{self.classes_}, `y` has {classes}"
            )
        self.classes_ = classes
        outputs = 1 if len(classes) == 2 else len(classes)
        start = self._tensors() if goes_on and self._goes_on(outputs) else {}
        return self._learn(rows, self._indices(y), sample_weight, start, batch=False)

    @_stepwise
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, classes: Any = None) -> MLPClassifier:
        """Trains for one epoch over one more batch. The first call needs ``classes``: all that any batch will have."""
        is_first = _check_partial_fit_first_call(self, classes) or not hasattr(self, "coefs_")
        rows, y = self._read(X, y, reset=is_first)
        strange = np.setdiff1d(y, self.classes_)
        if len(strange):
            raise ValueError(
                f"`y` has classes not in `self.classes_`. `self.classes_` has {self.classes_}. 'y' has {np.unique(y)}."
            )
        start = {} if is_first else {**self._tensors(), **getattr(self, "_state", {})}
        return self._learn(rows, self._indices(y), sample_weight, {**start, "classes": self._numbers()}, batch=True)

    def predict(self, X: Any) -> Any:
        """The class of every row."""
        chances = self._ask(X, "probabilities")
        return self.classes_[chances.argmax(axis=1)]

    def predict_proba(self, X: Any) -> Any:
        """How likely each class is, for every row."""
        return self._ask(X, "probabilities")

    def predict_log_proba(self, X: Any) -> Any:
        """The logarithm of how likely each class is, for every row."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _read(self, X: Any, y: Any, *, reset: bool) -> Tuple[_native.Rows, Any]:
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None")
        rows = self._rows(X, y, reset=reset)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if len(y) != rows.rows:
            raise ValueError(f"y has {len(y)} classes for {rows.rows} rows; give one for each")
        return rows, y

    def _indices(self, y: Any) -> Any:
        return self._numbers()[np.searchsorted(self.classes_, y)]

    def _numbers(self) -> Any:
        """Numbers for the classes, in order: themselves where they are numbers."""
        if self.classes_.dtype.kind in "biuf":
            return self.classes_.astype(np.float64)
        return np.arange(len(self.classes_), dtype=np.float64)

    def _tensors(self) -> Dict[str, Any]:
        return {**super()._tensors(), "classes": self._numbers()}

    def _names(self) -> Dict[str, str]:
        is_number = self.classes_.dtype.kind in "biuf"
        return {} if is_number else {f"{_CLASS}{n}": str(name) for n, name in enumerate(self.classes_)}

    def _take_names(self, found: Dict[str, Any]) -> None:
        numbers = found["tensors"]["classes"]
        names = [found["fitted"].get(f"{_CLASS}{n}") for n in range(len(numbers))]
        classes = np.asarray(numbers if None in names else names)
        whole = classes.dtype.kind == "f" and (classes == np.rint(classes)).all()
        self.classes_ = classes.astype(np.int64) if whole else classes


@documented("mlp-regressor")
class MLPRegressor(RegressorMixin, Perceptron):
    """A stand-in for ``sklearn.neural_network.MLPRegressor``. ``y`` may have several columns: then the network has as many
    outputs, and the loss of a row is the sum over them (scikit-learn's is the mean, with the gradient of the sum).

    ``fit`` leaves ``coefs_`` and ``intercepts_`` (of each layer), ``loss_``, ``n_iter_``, ``n_layers_``, ``n_outputs_``,
    ``out_activation_``, and but for ``lbfgs`` ``loss_curve_``, ``best_loss_``, ``validation_scores_``,
    ``best_validation_score_`` and ``t_`` (rows learnt from).

    >>> import numpy as np
    >>> from qjam.learn import MLPRegressor
    >>> X = np.linspace(-2, 2, 200)[:, None]
    >>> model = MLPRegressor(hidden_layer_sizes=(20,), activation="tanh", solver="lbfgs", max_iter=500, random_state=0)
    >>> model = model.fit(X, X[:, 0] ** 2)
    >>> model.score(X, X[:, 0] ** 2) > 0.99
    True
    """

    _learner = "mlp-regressor"

    def __init__(
        self,
        loss: str = "squared_error",
        hidden_layer_sizes: Any = (100,),
        activation: str = "relu",
        *,
        solver: str = "adam",
        alpha: float = 0.0001,
        batch_size: Union[str, int] = "auto",
        learning_rate: str = "constant",
        learning_rate_init: float = 0.001,
        power_t: float = 0.5,
        max_iter: int = 200,
        shuffle: bool = True,
        random_state: Any = None,
        tol: float = 1e-4,
        verbose: bool = False,
        warm_start: bool = False,
        momentum: float = 0.9,
        nesterovs_momentum: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        n_iter_no_change: Any = 10,
        max_fun: int = 15000,
        workers: WorkersLike = None,
    ) -> None:
        self.loss = loss
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.solver = solver
        self.alpha = alpha
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.learning_rate_init = learning_rate_init
        self.power_t = power_t
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.tol = tol
        self.verbose = verbose
        self.warm_start = warm_start
        self.momentum = momentum
        self.nesterovs_momentum = nesterovs_momentum
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.n_iter_no_change = n_iter_no_change
        self.max_fun = max_fun
        self.workers = workers

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MLPRegressor:
        """Trains the network. ``y`` has a number for each row, or a row of numbers; ``sample_weight`` says how much each counts.

        Not getting to an end in ``max_iter`` epochs is no error: a ``ConvergenceWarning`` tells. Weights that are not finite
        any more are one.
        """
        goes_on = bool(self.warm_start) and hasattr(self, "coefs_")
        rows, y = self._read(X, y, reset=not goes_on)
        start = self._tensors() if goes_on and self._goes_on(_width(y)) else {}
        return self._learn(rows, y, sample_weight, start, batch=False)

    @_stepwise
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> MLPRegressor:
        """Trains for one epoch over one more batch."""
        goes_on = hasattr(self, "coefs_")
        rows, y = self._read(X, y, reset=not goes_on)
        start = {**self._tensors(), **getattr(self, "_state", {})} if goes_on and self._goes_on(_width(y)) else {}
        return self._learn(rows, y, sample_weight, start, batch=True)

    def predict(self, X: Any) -> Any:
        """What is expected for every row."""
        return self._ask(X, "predict")

    def _read(self, X: Any, y: Any, *, reset: bool) -> Tuple[_native.Rows, Any]:
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None")
        rows = self._rows(X, y, reset=reset)
        doubles: Any = np.float64
        y = check_array(y, ensure_2d=False, dtype=doubles, input_name="y", estimator=self)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        if len(y) != rows.rows:
            raise ValueError(f"y has {len(y)} numbers for {rows.rows} rows; give one for each")
        return rows, y


def _width(y: Any) -> int:
    return 1 if y.ndim == 1 else int(y.shape[1])
