"""Cost and gradient of the sparse autoencoder in NumPy, as a peer for qjam's learner.

    peer_autoencoder.py eval --theta theta.npy --x x.npy --out out.npy   cost, then gradient, as one array of doubles
    peer_autoencoder.py time --patches 10000                             one line of JSON
    peer_autoencoder.py check                                            the gradient against central differences

The network has two layers of tanh. theta is W1 (hidden x visible), W2 (visible x hidden), b1, b2, row by row. With
p = the mean of (1 + a2) / 2 over all rows, the cost is

    1/(2 N) sum |x - a3|^2 + lambda_w/2 (|W1|^2 + |W2|^2) + lambda_p sum_h KL(rho, p_h).
"""

import argparse
import json
import os
import statistics
import sys
import time

# One thread unless told otherwise, and before NumPy looks: we compare programs, not numbers of cores.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

VISIBLE, HIDDEN = 64, 30


class Shape:
    """Sizes of the layers, and where each parameter lies in theta."""

    def __init__(self, visible, hidden):
        self.visible, self.hidden = visible, hidden
        self.size = 2 * visible * hidden + hidden + visible

    @classmethod
    def of(cls, theta, x):
        """The shape that these parameters must have for rows of this width."""
        visible = x.shape[1]
        hidden, rest = divmod(theta.size - visible, 2 * visible + 1)
        if hidden < 1 or rest:
            sys.exit(f"{theta.size} parameters fit no hidden layer for rows of {visible} columns")
        return cls(visible, hidden)

    def split(self, theta):
        """Views of W1, W2, b1, b2."""
        v, h = self.visible, self.hidden
        w1, w2, b1, b2 = np.split(theta, np.cumsum([h * v, v * h, h]))
        return w1.reshape(h, v), w2.reshape(v, h), b1, b2


def evaluate(theta, x, lambda_w=0.002, lambda_p=4.0, rho=0.002):
    """Cost and gradient over the rows of x."""
    shape = Shape.of(theta, x)
    w1, w2, b1, b2 = shape.split(theta)
    rows = x.shape[0]

    hidden = x @ w1.T
    hidden += b1
    np.tanh(hidden, out=hidden)
    output = hidden @ w2.T
    output += b2
    np.tanh(output, out=output)

    error = output - x
    p = 0.5 * (1.0 + hidden.mean(axis=0))
    kl = rho * np.log(rho / p) + (1.0 - rho) * np.log((1.0 - rho) / (1.0 - p))
    cost = 0.5 / rows * np.vdot(error, error)
    cost += 0.5 * lambda_w * (np.vdot(w1, w1) + np.vdot(w2, w2)) + lambda_p * kl.sum()

    # From here on `error` becomes the output layer's delta and `output` is used up.
    np.multiply(output, output, out=output)
    np.subtract(1.0, output, out=output)
    error *= output
    slope = (1.0 - rho) / (1.0 - p) - rho / p
    back = error @ w2
    back += 0.5 * lambda_p * slope
    back *= 1.0 - hidden * hidden

    gradient = np.empty_like(theta)
    g_w1, g_w2, g_b1, g_b2 = shape.split(gradient)
    np.matmul(back.T, x, out=g_w1)
    np.matmul(error.T, hidden, out=g_w2)
    g_b1[:] = back.sum(axis=0)
    g_b2[:] = error.sum(axis=0)
    gradient /= rows
    g_w1 += lambda_w * w1
    g_w2 += lambda_w * w2
    return cost, gradient


def start(shape, random):
    """Positive weights that shrink with the layer's width, no biases."""
    theta = np.zeros(shape.size)
    w1, w2, _, _ = shape.split(theta)
    w1[:] = random.random(w1.shape) / np.sqrt(shape.visible)
    w2[:] = random.random(w2.shape) / np.sqrt(shape.hidden)
    return theta


def command_eval(options):
    theta, x = np.load(options.theta), np.load(options.x)
    if theta.dtype != np.float64 or x.dtype != np.float64 or theta.ndim != 1 or x.ndim != 2:
        sys.exit("theta must be a vector and x a matrix of doubles")
    cost, gradient = evaluate(theta, x, options.lambda_w, options.lambda_p, options.rho)
    np.save(options.out, np.concatenate([[cost], gradient]))


def command_time(options):
    random = np.random.default_rng(options.seed)
    shape = Shape(VISIBLE, HIDDEN)
    theta = start(shape, random)
    x = random.uniform(-0.6, 0.6, (options.patches, VISIBLE))
    cost, _ = evaluate(theta, x)
    times_us = []
    for _ in range(options.repeat or max(5, 500_000 // options.patches)):
        began = time.perf_counter_ns()
        evaluate(theta, x)
        times_us.append((time.perf_counter_ns() - began) / 1e3)
    figures = {
        "peer": "numpy " + np.__version__,
        "patches": options.patches,
        "median_us": round(statistics.median(times_us), 1),
        "fastest_us": round(min(times_us), 1),
        "cost": cost,
    }
    print(json.dumps(figures))


def command_check(_):
    random = np.random.default_rng(1)
    shape = Shape(7, 3)
    theta = start(shape, random) + 0.1 * random.standard_normal(shape.size)
    x = random.uniform(-0.6, 0.6, (11, shape.visible))
    _, gradient = evaluate(theta, x)
    step = 1e-5
    for i in range(theta.size):
        nudge = np.zeros_like(theta)
        nudge[i] = step
        slope = (evaluate(theta + nudge, x)[0] - evaluate(theta - nudge, x)[0]) / (2 * step)
        if abs(slope - gradient[i]) > 1e-6 * max(1.0, abs(slope)):
            sys.exit(f"parameter {i}: gradient {gradient[i]}, but the cost changes by {slope}")
    print(f"{theta.size} partial derivatives agree with central differences")


def main():
    parser = argparse.ArgumentParser(description="sparse autoencoder in NumPy")
    commands = parser.add_subparsers(required=True)

    one = commands.add_parser("eval", help="cost and gradient of given parameters on given rows")
    one.add_argument("--theta", required=True)
    one.add_argument("--x", required=True)
    one.add_argument("--out", required=True)
    one.add_argument("--lambda-w", type=float, default=0.002)
    one.add_argument("--lambda-p", type=float, default=4.0)
    one.add_argument("--rho", type=float, default=0.002)
    one.set_defaults(run=command_eval)

    timed = commands.add_parser("time", help="time one evaluation on rows of noise")
    timed.add_argument("--patches", type=int, default=10_000)
    timed.add_argument("--repeat", type=int, help="how often; as often as our own program does if not given")
    timed.add_argument("--seed", type=int, default=1)
    timed.set_defaults(run=command_time)

    commands.add_parser("check", help="compare the gradient with differences").set_defaults(run=command_check)

    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
