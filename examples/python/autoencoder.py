"""A sparse autoencoder, trained by SciPy's L-BFGS over `master.run`, with the exact gradient in one round.

The cost has a part that is no sum over patches: the sparsity penalty, a function of the *mean* activation of each hidden
unit. Its gradient is linear in one vector that is known only when all means are (`slope` below). So workers return sums
from which the master forms the gradient for any such vector, and one round per evaluation is enough. The result does not
depend on the number of workers.

    python autoencoder.py [WORKERS] [PATCHES] [EVALUATIONS]
"""

from __future__ import annotations

import sys
import time
from typing import Any, Dict, Tuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import fmin_l_bfgs_b

from qjam import Master

Array = NDArray[np.float64]

VISIBLE, HIDDEN = 64, 30
DECAY, SPARSITY_WEIGHT, SPARSITY = 0.002, 4.0, 0.002


def unpack(theta: Array) -> Tuple[Array, Array, Array, Array]:
    """Both weight matrices and both biases, as views of theta."""
    ends = np.cumsum([HIDDEN * VISIBLE, VISIBLE * HIDDEN, HIDDEN])
    w1, w2, b1, b2 = np.split(theta, ends)
    return w1.reshape(HIDDEN, VISIBLE), w2.reshape(VISIBLE, HIDDEN), b1, b2


def sums(theta: Array, x: Array) -> Tuple[float, Array]:
    """What a chunk of patches adds to the cost, and all sums that the gradient is made of, as one array."""
    w1, w2, b1, b2 = unpack(theta)
    a2 = np.tanh(x @ w1.T + b1)
    a3 = np.tanh(a2 @ w2.T + b2)
    left = x - a3
    d3 = -left * (1 - a3**2)
    bend = 1 - a2**2
    d2 = (d3 @ w2) * bend
    parts = (d2.T @ x, d3.T @ a2, d2.sum(0), d3.sum(0), bend.T @ x, bend.sum(0), ((1 + a2) / 2).sum(0))
    return float(0.5 * np.sum(left**2)), np.concatenate([part.ravel() for part in parts])


def cost_and_gradient(theta: Array, master: Master, patches: Array) -> Tuple[float, Array]:
    """One round: the exact cost and its gradient."""
    loss, summed = master.run(sums, theta, patches)
    n = len(patches)
    w1, w2, _, _ = unpack(theta)
    sizes = [HIDDEN * VISIBLE, VISIBLE * HIDDEN, HIDDEN, VISIBLE, HIDDEN * VISIBLE, HIDDEN]
    g1, g2, gb1, gb2, bent, bend, active = np.split(summed / n, np.cumsum(sizes))
    penalty = SPARSITY * np.log(SPARSITY / active) + (1 - SPARSITY) * np.log((1 - SPARSITY) / (1 - active))
    slope = SPARSITY_WEIGHT / 2 * ((1 - SPARSITY) / (1 - active) - SPARSITY / active)
    g1 = g1.reshape(HIDDEN, VISIBLE) + slope[:, None] * bent.reshape(HIDDEN, VISIBLE) + DECAY * w1
    g2 = g2.reshape(VISIBLE, HIDDEN) + DECAY * w2
    cost = loss / n + DECAY / 2 * (np.sum(w1**2) + np.sum(w2**2)) + SPARSITY_WEIGHT * np.sum(penalty)
    return float(cost), np.concatenate([g1.ravel(), g2.ravel(), gb1 + slope * bend, gb2])


def beginning(seed: int) -> Array:
    """Small positive weights, no biases."""
    rng = np.random.default_rng(seed)
    w1 = rng.random(HIDDEN * VISIBLE) / np.sqrt(VISIBLE)
    w2 = rng.random(VISIBLE * HIDDEN) / np.sqrt(HIDDEN)
    return np.concatenate([w1, w2, np.zeros(HIDDEN + VISIBLE)])


def make_patches(n: int, seed: int) -> Array:
    """Patches that have something to find: mixtures of a few smooth bumps, and noise."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(np.arange(8), np.arange(8)), -1).reshape(64, 2)
    bumps = np.exp(-((grid[None] - rng.uniform(0, 8, (20, 1, 2))) ** 2).sum(-1) / 4)
    patches = rng.normal(size=(n, 20)) @ bumps + 0.1 * rng.normal(size=(n, 64))
    scaled: Array = patches / (3 * patches.std())
    return scaled


def train(master: Master, patches: Array, evaluations: int) -> Tuple[Array, float, Dict[str, Any]]:
    """Weights, cost, and what SciPy says."""
    theta, cost, told = fmin_l_bfgs_b(
        cost_and_gradient,
        beginning(1),
        args=(master, patches),
        m=10,
        factr=1e4,
        pgtol=1e-4,
        maxfun=evaluations,
    )
    return theta, float(cost), told


def main() -> None:
    workers = sys.argv[1] if len(sys.argv) > 1 else "local:2"
    patches = make_patches(int(sys.argv[2]) if len(sys.argv) > 2 else 2000, seed=7)
    evaluations = int(sys.argv[3]) if len(sys.argv) > 3 else 50
    with Master(workers) as master:
        before, _ = cost_and_gradient(beginning(1), master, patches)
        start = time.perf_counter()
        _, cost, told = train(master, patches, evaluations)
        seconds = time.perf_counter() - start
    print(f"cost {before:.6f} -> {cost:.6f} in {told['funcalls']} evaluations, {seconds:.1f} s")


if __name__ == "__main__":
    main()
