"""Logistic regression by plain gradient descent: a NumPy loop whose two lines over all the data run on workers.

To run it:

    python logistic_regression.py [WORKERS]
"""

from __future__ import annotations

import sys
from typing import Tuple

import numpy as np
from numpy.typing import NDArray

from qjam import Master

Array = NDArray[np.float64]


def loss_and_gradient(w: Array, chunk: Array) -> Tuple[float, Array]:
    """Of some rows: features, and the label 0 or 1 in the last column."""
    x, y = chunk[:, :-1], chunk[:, -1]
    z = x @ w
    p = 1 / (1 + np.exp(-z))
    return float(np.sum(np.logaddexp(0, z) - y * z)), x.T @ (p - y)


def make_rows(n: int, features: int) -> Array:
    """Rows with labels that a line separates, but for some noise."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, features))
    y = (x @ rng.normal(size=features) + rng.normal(size=n) > 0).astype(float)
    return np.column_stack([x, y])


def main() -> None:
    workers = sys.argv[1] if len(sys.argv) > 1 else "local:2"
    rows = make_rows(20_000, 10)
    w = np.zeros(10)
    with Master(workers) as master:
        for i in range(50):
            loss, gradient = master.run(loss_and_gradient, w, rows)
            w -= 4.0 * gradient / len(rows)
            if i % 10 == 9:
                print(f"round {i + 1}: loss {loss / len(rows):.6f}")
    right = np.mean((rows[:, :-1] @ w > 0) == (rows[:, -1] == 1))
    print(f"{right:.1%} of the labels are right")


if __name__ == "__main__":
    main()
