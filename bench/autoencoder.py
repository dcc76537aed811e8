"""Compares the sparse autoencoder with NumPy and SciPy: the bare gradient on one thread, and a training on two.

    cargo build --release -p qjam-cli
    python bench/autoencoder.py run --qjam target/release/qjam [--turns 3] [--json FILE]

The network is 64-30-64 with tanh, a penalty of the weights and one of hidden units that are rarely quiet; cost and
gradient of the peer are those of `peer_autoencoder.py`, which the tests compare ours with. Training is L-BFGS with ten
pairs on both sides; a hundred evaluations are a hundred costs and gradients, whatever became of them. The program ends
with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import comparison
from comparison import Bar, Case

OURS, NUMPY, SCIPY = "qjam", "NumPy, 1 thread", "SciPy, 2 BLAS threads"
SIZES = [1_000, 10_000, 100_000]
# What no run has missed, and what we want.
ONE_THREAD, ONE_THREAD_GOAL = 2.5, 4.0
TRAINING, TRAINING_GOAL = 4.0, 5.0
EVALUATIONS = 100
# Evaluations for a time of one: few of the large ones.
REPEATS = {1_000: 400, 10_000: 100, 100_000: 20}


def gradient(options: argparse.Namespace) -> None:
    """The peer's cost and gradient, timed alone."""
    import peer_autoencoder as peer

    x, theta = rows(options.patches)
    times = []
    for _ in range(REPEATS.get(options.patches, 20) + 1):
        began = time.perf_counter()
        cost, _ = peer.evaluate(theta, x)
        times.append(1e3 * (time.perf_counter() - began))
    # The first one makes pages of memory.
    print(json.dumps({"gradient_ms": min(times[1:]), "cost": cost, "threads": os.environ["OPENBLAS_NUM_THREADS"]}))


def training(options: argparse.Namespace) -> None:
    """SciPy's L-BFGS on the peer's cost and gradient. Where it stops early, the time is that of as many evaluations."""
    import peer_autoencoder as peer
    from scipy.optimize import fmin_l_bfgs_b

    x, theta = rows(options.patches)
    peer.evaluate(theta, x)
    began = time.perf_counter()
    _, cost, said = fmin_l_bfgs_b(
        peer.evaluate, theta, args=(x,), m=10, maxfun=options.evaluations, maxiter=10**6, factr=10, pgtol=1e-9
    )
    seconds = time.perf_counter() - began
    made = int(said["funcalls"])
    print(json.dumps({"total_ms": 1e3 * seconds * options.evaluations / made, "evaluations": made, "cost": cost}))


def rows(patches: int) -> tuple[Any, Any]:
    import numpy as np
    import peer_autoencoder as peer

    random = np.random.default_rng(1)
    x = np.clip(0.3 * random.standard_normal((patches, peer.VISIBLE)), -0.9, 0.9)
    return x, peer.start(peer.Shape(peer.VISIBLE, peer.HIDDEN), random)


def run(options: argparse.Namespace) -> None:
    def ours(patches: int, workers: str, evaluations: int) -> dict[str, Any]:
        words = [options.qjam, "bench", "autoencoder", "--json", "--patches", patches]
        said = comparison.ask([*words, "--workers", workers, "--evaluations", evaluations], 1)
        made = said["evaluations"]
        return {**said, "total_ms": 1e3 * said["total_s"] * evaluations / made}

    def theirs(what: str, patches: int, threads: int) -> dict[str, Any]:
        words = [sys.executable, __file__, what, "--patches", patches, "--evaluations", EVALUATIONS]
        return comparison.ask(words, threads)

    cases, bars = [], []
    for patches in SIZES:
        contenders = {
            OURS: lambda: ours(patches, "local:1", REPEATS[patches]),
            NUMPY: lambda: theirs("gradient", patches, 1),
        }
        case = Case(f"a cost and gradient, {patches // 1000}k patches, one thread")
        cases.append(comparison.in_turns(case, contenders, options.turns, "gradient_ms"))
        bars.append(Bar(case, OURS, NUMPY, ONE_THREAD, ONE_THREAD_GOAL))
    contenders = {
        OURS: lambda: ours(100_000, "local:2", EVALUATIONS),
        SCIPY: lambda: theirs("training", 100_000, 2),
    }
    case = Case(f"{EVALUATIONS} evaluations, 100k patches, two workers")
    cases.append(comparison.in_turns(case, contenders, options.turns, "total_ms"))
    bars.append(Bar(case, OURS, SCIPY, TRAINING, TRAINING_GOAL))
    print("\n" + comparison.table(cases, OURS), flush=True)
    comparison.finish(cases, bars, options.json, {"turns": options.turns})


def main() -> None:
    parser = argparse.ArgumentParser(description="the sparse autoencoder beside NumPy and SciPy")
    commands = parser.add_subparsers(required=True)
    both = commands.add_parser("run", help="both in turns")
    both.add_argument("--qjam", required=True, help="the executable")
    both.add_argument("--turns", type=int, default=3)
    both.add_argument("--json", type=Path, help="write all numbers here")
    both.set_defaults(run=run)
    for name, function in (("gradient", gradient), ("training", training)):
        one = commands.add_parser(name, help="the peer's, once")
        one.add_argument("--patches", type=int, required=True)
        one.add_argument("--evaluations", type=int, default=EVALUATIONS)
        one.set_defaults(run=function)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
