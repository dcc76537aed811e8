"""``qjam.optimize`` against SciPy, with functions that are rounds, and what it refuses."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np
import pytest
import scipy.optimize

from qjam import Master
from qjam.optimize import OptimizeStep, minimize

START = np.array([1.3, 0.7, 0.8, 1.9])


def rosenbrock(x: Any) -> Tuple[float, Any]:
    return scipy.optimize.rosen(x), scipy.optimize.rosen_der(x)


def sums(w: Any, rows: Any) -> Tuple[float, Any]:
    """Logistic loss of rows whose last column is the sign."""
    margins = rows[:, -1] * (rows[:, :-1] @ w)
    slopes = -rows[:, -1] / (1 + np.exp(margins))
    return float(np.logaddexp(0, -margins).sum()), rows[:, :-1].T @ slopes


@pytest.mark.parametrize("method", ["l-bfgs", "cg", "newton-cg"])
def test_hard_functions_end_where_scipy_ends(method: str) -> None:
    expected = scipy.optimize.minimize(scipy.optimize.rosen, START, jac=scipy.optimize.rosen_der, method="BFGS", tol=1e-9)
    found = minimize(rosenbrock, START, method=method, tol=1e-7, options={"ftol": 0})
    assert found.success and np.abs(found.x - expected.x).max() < 1e-5, found
    assert np.abs(found.jac).max() <= 1e-7 and found.message.startswith("no element of the gradient")
    assert len(found.history) == found.nit + 1 and found.history[-1] == found.fun


def test_products_with_the_hessian_are_used() -> None:
    calls: List[int] = []

    def product(x: Any, v: Any) -> Any:
        calls.append(1)
        return scipy.optimize.rosen_hess_prod(x, v)

    found = minimize(rosenbrock, START, method="newton-cg", hessp=product, tol=1e-7)
    assert found.success and calls and np.abs(found.x - 1).max() < 1e-5
    assert found.nfev < minimize(rosenbrock, START, method="newton-cg", tol=1e-7).nfev


@pytest.mark.parametrize("method", ["l-bfgs", "cg", "newton-cg", "fista"])
def test_a_function_may_be_a_round(method: str) -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(3000, 5))
    signs = np.where(rows @ [1.0, -1.0, 0.5, 0.0, 2.0] + random.logistic(size=3000) > 0, 1.0, -1.0)
    data = np.column_stack((rows, signs))
    expected = scipy.optimize.minimize(lambda w: sums(w, data), np.zeros(5), jac=True, method="BFGS", tol=1e-6)
    with Master("local:2") as master:
        found = minimize(lambda w: master.run(sums, w, data), np.zeros(5), method=method, tol=1e-4)
    assert found.success and np.abs(found.x - expected.x).max() < 1e-4, found.message


def test_steps_along_gradients_of_parts_of_the_data() -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(2000, 3))
    y = rows @ [1.0, -2.0, 0.5]

    def part(w: Any) -> Tuple[float, Any]:
        some = random.integers(0, 2000, 50)
        missed = rows[some] @ w - y[some]
        return float(missed @ missed) / 100, rows[some].T @ missed / 50

    for method, rate in [("sgd", 0.02), ("adam", 0.02)]:
        found = minimize(part, np.zeros(3), method=method, options={"rate": rate, "maxiter": 1500, "gtol": 0})
        assert not found.success and found.nit == 1500
        assert np.abs(found.x - [1.0, -2.0, 0.5]).max() < 1e-2, method


def test_a_price_on_sizes_makes_zeros() -> None:
    point = np.array([3.0, -0.4, 0.9, -2.0])
    found = minimize(lambda x: (0.5 * float((x - point) @ (x - point)), x - point), np.zeros(4), method="fista", options={"l1": 1.0})
    assert np.allclose(found.x, [2.0, 0.0, 0.0, -1.0]) and found.x[1] == found.x[2] == 0


def test_callbacks_see_steps_and_end_runs() -> None:
    seen: List[OptimizeStep] = []

    def look(step: OptimizeStep) -> None:
        seen.append(step)
        if step.nit == 3:
            raise StopIteration

    found = minimize(rosenbrock, START, callback=look)
    assert [step.nit for step in seen] == [0, 1, 2, 3] and not found.success
    assert found.message == "the callback stopped the run" and (seen[-1].x == found.x).all()

    def broken(step: OptimizeStep) -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        minimize(rosenbrock, START, callback=broken)


def test_a_gradient_may_be_a_function_of_its_own() -> None:
    def shifted(x: Any, by: float) -> float:
        return float((x - by) @ (x - by))

    found = minimize(shifted, [0.0, 0.0], (2.0,), jac=lambda x, by: 2 * (x - by))
    assert np.allclose(found.x, 2.0)


def test_wrong_calls_are_told_what_to_do() -> None:
    with pytest.raises(ValueError, match="method is 'simplex'; give one of 'l-bfgs', 'cg'"):
        minimize(rosenbrock, START, method="simplex")
    with pytest.raises(ValueError, match="'cg' has no option 'rate'; it has ftol, gtol"):
        minimize(rosenbrock, START, method="cg", options={"rate": 1})
    with pytest.raises(ValueError, match="option maxiter is -1"):
        minimize(rosenbrock, START, options={"maxiter": -1})
    with pytest.raises(ValueError, match=r"x0\[1\] is nan"):
        minimize(rosenbrock, [0.0, np.nan])
    with pytest.raises(ValueError, match="return value, gradient"):
        minimize(scipy.optimize.rosen, START)
    with pytest.raises(ValueError, match="fun gave 1 numbers for 4 parameters"):
        minimize(lambda x: (0.0, [1.0]), START)
    with pytest.raises(ValueError, match="needs gradients"):
        minimize(scipy.optimize.rosen, START, jac=None)
    with pytest.raises(ValueError, match="only 'newton-cg' uses it"):
        minimize(rosenbrock, START, hessp=scipy.optimize.rosen_hess_prod)
    with pytest.raises(ZeroDivisionError):
        minimize(lambda x: (1 / 0, x), START)
    found = minimize(lambda x: (float("nan"), x), START)
    assert not found.success and "not finite" in found.message
