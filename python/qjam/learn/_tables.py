"""Options of learners: from the table that the command and the book are made of."""

from __future__ import annotations

import inspect
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, Callable, Dict, List, Type, TypeVar

import numpy as np
from sklearn.utils import check_random_state

from .. import _native

__all__ = ["documented", "fitted_numbers", "made_from", "options_of", "seed_of", "to_be_kept", "word_of"]

C = TypeVar("C", bound=Type[Any])
E = TypeVar("E")

#: Parameters that only the Python classes have.
_OWN = {
    "workers": (
        "Who computes: a worker string such as ``\"local:4\"``, ``\"proc:4\"`` or ``\"ann@big*8,small\"``, or a list of "
        "``RemoteWorker``. ``None`` is every core of this machine, or as many as ``OMP_NUM_THREADS`` says. Changes "
        "the time and no bit of the result. Estimators with the same workers share them."
    ),
    "verbose_interval": "Taken for scikit-learn's sake: nothing is printed.",
    "verbose": "Taken for scikit-learn's sake: nothing is printed.",
    "covariance_estimator": "Taken for scikit-learn's sake: must be ``None``.",
    "whiten_solver": "Taken for scikit-learn's sake: rows are made white by eigenvectors of their covariances.",
    "copy": "Taken for scikit-learn's sake: what you hand over is never written to.",
    "tol": "Taken for scikit-learn's sake: nothing is solved up to a tolerance.",
    "power_iteration_normalizer": "Taken for scikit-learn's sake: directions are made orthonormal after every round.",
    "feature_range": "What the smallest and the largest number of every column become.",
    "copy_x": "Taken for scikit-learn's sake: what you hand over is never written to.",
    "copy_X": "Taken for scikit-learn's sake: what you hand over is never written to.",
    "dual": "Taken for scikit-learn's sake: the minimum is the same, and the way there is chosen by the shape of the data.",
    "n_jobs": "Taken for scikit-learn's sake: ``workers`` says who computes.",
    "warm_start": "Whether a fit begins where the last one ended, if that had as many coefficients or components.",
    "compute_labels": "Whether ``fit`` finds out ``labels_``, which reads all rows once more.",
}

#: What Python says besides the table.
_BESIDES = {
    "init": "An array has one centre a row; a function is called with ``(X, n_clusters, random_state)`` and gives one.",
    "max_no_improvement": "``None`` is another way to say ``\"none\"``.",
    "hidden_layer_sizes": "A tuple with a number for each layer, or one number.",
    "random_state": "``None`` is another one every time; a ``RandomState`` gives the next number it has.",
    "priors": "``None`` is another way to say ``\"none\"``.",
    "shrinkage": "``None`` is another way to say ``\"none\"``.",
    "n_components": "``None`` is another way to say ``\"none\"``.",
    "class_prior": "``None`` is another way to say ``\"none\"``.",
    "binarize": "``None`` is another way to say ``\"none\"``.",
    "fun_args": "``None`` is ``{\"alpha\": 1.0}``.",
    "w_init": "``None`` is another way to say ``\"none\"``.",
    "weights_init": "``None`` is another way to say ``\"none\"``.",
    "means_init": "``None`` is another way to say ``\"none\"``.",
    "precisions_init": "``None`` is another way to say ``\"none\"``.",
    "class_weight": "``None`` is another way to say ``\"none\"``; a dictionary has the weight of each class.",
}

_LINEAR = ("ridge", "lasso", "elasticnet", "logistic", "svm")

#: The same where a learner's minimum does not depend on chance.
_BESIDES_LINEAR = {
    **_BESIDES,
    "random_state": "``None`` is 0: the minimum is the same for all; a ``RandomState`` gives the next number it has.",
}


@lru_cache(maxsize=None)
def _table(learner: str) -> Dict[str, Any]:
    """The learner's table, which nobody changes: making it anew would take longer than some fits."""
    return _native.learner_options(learner)


def _value(default: Any) -> str:
    return repr(default)


def documented(learner: str) -> Callable[[C], C]:
    """Adds the description of a class's parameters to its documentation, in the order of its signature."""

    def add(cls: C) -> C:
        table = _table(learner)
        known = {option["name"]: option for option in table["options"]}
        lines = [f"{table['about']}.", "", *str(table["detail"]).splitlines(), ""]
        lines += [line[4:] if line.startswith("    ") else line for line in (cls.__doc__ or "").strip().splitlines()]
        lines.append("")
        for name, parameter in inspect.signature(cls.__init__).parameters.items():
            if name != "self":
                lines += _described(name, parameter.default, known.get(name), learner)
        cls.__doc__ = "\n".join(lines)
        return cls

    return add


def _described(name: str, default: Any, option: Any, learner: str) -> List[str]:
    if option is None:
        text = _OWN[name]
    else:
        text = f"{option['help']}."
        if option["detail"]:
            text += f" {option['detail']}"
        words = "; ".join(f'``"{word}"``: {meaning}' for word, meaning in option["words"])
        if words:
            text += f" {words}."
        besides = _BESIDES_LINEAR if learner in _LINEAR else _BESIDES
        if name in besides:
            text += f" {besides[name]}"
    return [f":param {name}: (``{_value(default)}``) {' '.join(text.split())}"]


def options_of(estimator: Any, learner: str, leave: Any = ()) -> Dict[str, Any]:
    """What an estimator's parameters say, as plain values; what the table does not know stays away. ``None`` and ``False`` are the
    word ``"none"`` of an option that has it.
    """
    options = {}
    # Asked one by one: `get_params` reads the signature anew every time.
    for option in _table(learner)["options"]:
        name = option["name"]
        if name not in leave and hasattr(estimator, name):
            value = getattr(estimator, name)
            is_word = (value is None or value is False) and "none" in dict(option["words"])
            options[name] = "none" if is_word else _plain(value)
    return options


def _plain(value: Any) -> Any:
    """Numbers of NumPy's as Python's."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    return value


def word_of(learner: str, name: str, word: str) -> str:
    """A word, if the option has it. Where the command takes a file, Python does not."""
    option = next(option for option in _table(learner)["options"] if option["name"] == name)
    words = [known for known, _ in option["words"]]
    if word not in words:
        raise ValueError(f"{name} is {word!r}; give {', '.join(map(repr, words))}, an array or a function")
    return word


def seed_of(random_state: Any) -> int:
    """The seed that a ``random_state`` means: a number is itself, as for the command."""
    if isinstance(random_state, Integral) and not isinstance(random_state, bool) and 0 <= int(random_state) < 2**64:
        return int(random_state)
    return int(check_random_state(random_state).randint(0, 2**31 - 1))


def to_be_kept(estimator: Any, learner: str) -> Dict[str, Any]:
    """Options for a model file: those that are a number or a word, which is not all that Python takes."""
    options = options_of(estimator, learner)
    return {name: value for name, value in options.items() if isinstance(value, (bool, int, float, str))}


def fitted_numbers(estimator: Any, names: Dict[str, str]) -> Dict[str, float]:
    """What fitting came to, for a model file; what a loaded model does not know stays away."""
    return {name: float(getattr(estimator, at)) for name, at in names.items() if hasattr(estimator, at)}


def made_from(cls: Callable[..., E], learner: str, options: Dict[str, Any], workers: Any) -> E:
    """An estimator with the options in a model file, as far as they are known here and mean the same."""
    table = {option["name"]: option for option in _table(learner)["options"]}
    known = {}
    for name, value in options.items():
        option = table.get(name)
        # The command takes a file where Python takes an array.
        is_path = isinstance(value, str) and option is not None and value not in dict(option["words"])
        if option is not None and not is_path:
            known[name] = value
    return cls(**known, workers=workers)
