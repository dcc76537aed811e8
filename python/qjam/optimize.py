"""Minima of functions with gradients, where a call of the function may be a round over a cluster.

>>> import numpy as np
>>> from qjam import Master
>>> from qjam.optimize import minimize
>>> X = np.random.default_rng(0).normal(size=(1000, 3))
>>> y = X @ [1.0, -2.0, 0.5]
>>> def squares(w, rows):
...     missed = rows[:, :3] @ w - rows[:, 3]
...     return 0.5 * float(missed @ missed), rows[:, :3].T @ missed
>>> with Master("local:2") as m:
...     data = np.column_stack((X, y))
...     found = minimize(lambda w: m.run(squares, w, data), np.zeros(3))
>>> found.success, found.x.round(4).tolist()
(True, [1.0, -2.0, 0.5])

All methods are deterministic: the same function gives the same path, whoever computes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from . import _native

__all__ = ["OptimizeResult", "OptimizeStep", "minimize"]

_MANY = 2**62

#: Options that every method has, with their defaults.
_COMMON: Dict[str, Any] = {"gtol": 1e-5, "ftol": 2.3e-9, "maxiter": 15_000, "maxfun": 15_000}
_METHODS: Dict[str, Dict[str, Any]] = {
    "l-bfgs": {"maxcor": 10},
    "cg": {"ftol": 0.0},
    "newton-cg": {"ftol": 0.0},
    "sgd": {"rate": 0.01, "momentum": 0.9, "nesterov": True},
    "adam": {"rate": 0.001, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-8},
    "fista": {"l1": 0.0},
}

_MESSAGES = {
    "flat gradient": "no element of the gradient is larger than gtol",
    "small decrease": "the last step decreased the value by less than ftol allows",
    "iterations spent": "as many steps as maxiter allows were made",
    "evaluations spent": "the function was called as often as maxfun allows",
    "no descent": "no step decreases the value: the gradient is wrong, or precision is exhausted",
    "not finite": "the value or the gradient is not finite: at the start, or after steps that were too long",
    "stopped": "the callback stopped the run",
}


@dataclass(frozen=True)
class OptimizeStep:
    """One step, as a callback sees it."""

    #: The point.
    x: Any
    #: The value there.
    fun: float
    #: The largest element of the gradient there.
    gradient_max: float
    #: Steps so far.
    nit: int
    #: Calls of the function so far.
    nfev: int


@dataclass(frozen=True)
class OptimizeResult:
    """Where a run ended, and why."""

    #: The lowest point; of ``"sgd"`` and ``"adam"`` the last.
    x: Any
    #: The value there; of ``"fista"`` with the price of sizes.
    fun: float
    #: The gradient there.
    jac: Any
    #: Steps.
    nit: int
    #: Calls of the function.
    nfev: int
    #: Whether ``gtol`` or ``ftol`` was reached.
    success: bool
    #: Why the run ended.
    message: str
    #: The value at the start and after every step.
    history: List[float]


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Tuple[Any, ...] = (),
    method: str = "l-bfgs",
    *,
    jac: Any = True,
    hessp: Optional[Callable[..., Any]] = None,
    tol: Optional[float] = None,
    callback: Optional[Callable[[OptimizeStep], object]] = None,
    options: Optional[Dict[str, Any]] = None,
) -> OptimizeResult:
    """Looks for a minimum of a function, beginning at a point.

    :param fun: ``fun(x, *args)`` gives the value and the gradient, an array as long as ``x``. It may be a round:
        ``lambda x: master.run(sums, x, data)``.
    :param x0: The starting point.
    :param args: More arguments of ``fun``, ``jac`` and ``hessp``.
    :param method: ``"l-bfgs"``; ``"cg"``: nonlinear conjugate gradients of Polak and Ribière; ``"newton-cg"``: Newton's steps
        within a region of trust; ``"sgd"`` and ``"adam"``: steps along gradients that may be those of parts of the data, where
        the last point is the result; ``"fista"``: accelerated proximal gradients, which minimise the function plus ``l1`` times
        the sum of the absolute values of ``x``.
    :param jac: ``True`` if ``fun`` gives value and gradient, or a function that gives the gradient.
    :param hessp: ``hessp(x, v, *args)``, the product of the Hessian at ``x`` with ``v``, for ``"newton-cg"``. Without it, every
        product costs one more call of ``fun``.
    :param tol: The same as the option ``gtol``.
    :param callback: Is called with an :class:`OptimizeStep` for the starting point and after every step. ``StopIteration`` from
        it ends the run.
    :param options: ``gtol`` (largest element of the gradient at the end), ``ftol`` (a step that decreases the value by a
        smaller share is the last), ``maxiter``, ``maxfun``, and by method ``maxcor``; ``rate``, ``momentum``, ``nesterov``;
        ``rate``, ``beta_1``, ``beta_2``, ``epsilon``; ``l1``.

    >>> from qjam.optimize import minimize
    >>> def bowl(x):
    ...     return float((x - 3) @ (x - 3)), 2 * (x - 3)
    >>> for method in ["l-bfgs", "cg", "newton-cg"]:
    ...     found = minimize(bowl, [0.0, 0.0], method=method)
    ...     print(method, found.success, found.x.round(3).tolist())
    l-bfgs True [3.0, 3.0]
    cg True [3.0, 3.0]
    newton-cg True [3.0, 3.0]
    """
    name, chosen = _chosen(method, tol, options)
    if hessp is not None and name != "newton-cg":
        raise ValueError(f"hessp is given and the method is {method!r}; only 'newton-cg' uses it")
    start = np.array(x0, np.float64).ravel()
    wrong = np.flatnonzero(~np.isfinite(start))
    if len(start) == 0:
        raise ValueError("x0 has no numbers; give at least one")
    if len(wrong):
        raise ValueError(f"x0[{wrong[0]}] is {start[wrong[0]]}; begin at finite numbers")
    function = _function(fun, args, jac)
    products = None if hessp is None else _products(hessp, args)
    told = None if callback is None else _told(callback)
    found = _native.optimize_minimize(name, _memory(start), function, products, told, chosen)
    message = _MESSAGES[found.pop("outcome")]
    return OptimizeResult(message=message, **found)


def _chosen(method: str, tol: Optional[float], options: Optional[Dict[str, Any]]) -> Tuple[str, Dict[str, Any]]:
    """The method's name, and all of its options."""
    name = str(method).lower()
    if name not in _METHODS:
        raise ValueError(f"method is {method!r}; give one of {', '.join(map(repr, _METHODS))}")
    chosen = {**_COMMON, **_METHODS[name]}
    given = dict(options or {})
    if tol is not None:
        given.setdefault("gtol", tol)
    unknown = sorted(set(given) - set(chosen))
    if unknown:
        raise ValueError(f"{method!r} has no option {unknown[0]!r}; it has {', '.join(sorted(chosen))}")
    for option, value in given.items():
        kind = type(chosen[option])
        if not isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)) or not 0 <= value <= _MANY:
            raise ValueError(f"option {option} is {value!r}; give a finite number that is not negative")
        if kind is int and value != int(value):
            raise ValueError(f"option {option} is {value!r}; give a whole number")
        chosen[option] = kind(value)
    return name, chosen


def _memory(array: Any) -> Any:
    return array.view(np.uint8)


def _doubles(what: str, found: Any, length: int) -> Any:
    array = np.ascontiguousarray(found, np.float64).ravel()
    if len(array) != length:
        raise ValueError(f"{what} gave {len(array)} numbers for {length} parameters; give one for each")
    return _memory(array)


def _function(fun: Callable[..., Any], args: Tuple[Any, ...], jac: Any) -> Callable[[Any], Tuple[float, Any]]:
    """Value and gradient, however they are had."""
    if callable(jac):
        return lambda x: (float(fun(x, *args)), _doubles("jac", jac(x, *args), len(x)))
    if jac is not True:
        raise ValueError("minimize needs gradients: have fun return (value, gradient), or give jac=, which gives the gradient")

    def both(x: Any) -> Tuple[float, Any]:
        found = fun(x, *args)
        try:
            value, gradient = found
        except (TypeError, ValueError):
            raise ValueError(
                f"fun gave a {type(found).__name__}; with jac=True it gives a value and a gradient: return value, gradient"
            ) from None
        return float(value), _doubles("fun", gradient, len(x))

    return both


def _products(hessp: Callable[..., Any], args: Tuple[Any, ...]) -> Callable[[Any, Any], Any]:
    return lambda x, v: _doubles("hessp", hessp(x, v, *args), len(x))


def _told(callback: Callable[[OptimizeStep], object]) -> Callable[[Any, float, float, int, int], bool]:
    def tell(*step: Any) -> bool:
        try:
            callback(OptimizeStep(*step))
        except StopIteration:
            return False
        return True

    return tell
