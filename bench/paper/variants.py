"""What a variant is, what a run of it says, and the master's part for those whose coordinates travel."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from problem import Data

# Of the draws, in all variants.
SEED = 2016
# What one place computes and what programs say of themselves agree to this share.
AGREE = 1e-9


@dataclass
class Round:
    """Seconds of a round, of its slowest worker, and of the master's own part; and the objective after it, which is not in these."""

    seconds: float
    worker_s: float
    master_s: float
    objective: float


@dataclass
class Run:
    """What a run came to."""

    rounds: list[Round]
    h: float
    # None where a program keeps them to itself.
    coordinates: Optional[np.ndarray] = None

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.rounds)

    @property
    def worker_s(self) -> float:
        return sum(one.worker_s for one in self.rounds)

    @property
    def master_s(self) -> float:
        return sum(one.master_s for one in self.rounds)

    @property
    def overhead_s(self) -> float:
        return max(0.0, self.seconds - self.worker_s - self.master_s)

    @property
    def share(self) -> float:
        """Of the time that is spent computing on workers."""
        return self.worker_s / max(self.seconds, 1e-300)

    def to_target(self, target: float) -> float:
        """Seconds until the objective is at most that; infinite if it never is."""
        spent = 0.0
        for one in self.rounds:
            spent += one.seconds
            if one.objective <= target:
                return spent
        return math.inf

    def curve(self, optimum: float) -> list[tuple[float, float]]:
        """Seconds and suboptimality after each round."""
        spent, points = 0.0, []
        for one in self.rounds:
            spent += one.seconds
            points.append((spent, max(one.objective / optimum - 1, 0.0)))
        return points


# H, rounds at most, the objective to end at (0 for none), seconds after which it may end.
Runner = Callable[[float, int, float, float], Run]


@dataclass
class Variant:
    """A way to run the same rounds."""

    letter: str
    title: str
    run: Runner
    # Whether it takes the very steps of the others; MLlib and a tuner do not.
    is_same: bool = True
    # Whether an H is given to it.
    has_h: bool = True


@dataclass
class Part:
    """What a worker says in a round."""

    change: np.ndarray
    alpha: np.ndarray
    worker_s: float


Exchange = Callable[[int, np.ndarray, list[np.ndarray]], Sequence[Part]]


def descend(data: Data, h: float, most: int, target: float, limit_s: float, exchange: Exchange) -> Run:
    """The master of variants whose coordinates travel: `exchange` has all workers do a round and gives what they say, in order."""
    w = -data.b
    alphas = [np.zeros(end - start) for start, end in map(data.span, range(data.partitions))]
    rounds: list[Round] = []
    spent = 0.0
    for number in range(most):
        begun = time.perf_counter()
        parts = exchange(number, w, alphas)
        there = time.perf_counter()
        change = parts[0].change.copy()
        for part in parts[1:]:
            change += part.change
        w = w + change
        ended = time.perf_counter()
        alphas = [part.alpha for part in parts]
        objective = 0.5 * float(w @ w) + 0.5 * data.lam * sum(float(alpha @ alpha) for alpha in alphas)
        slowest = max(part.worker_s for part in parts)
        rounds.append(Round(ended - begun, slowest, ended - there, objective))
        spent += ended - begun
        if (target > 0 and objective <= target) or spent > limit_s:
            break
    return Run(rounds, h, np.concatenate(alphas))


def checked(data: Data, variant: Variant, run: Run) -> Run:
    """Believes nobody: the last objective is computed again from the coordinates."""
    if run.coordinates is not None and run.rounds:
        here, said = data.objective(run.coordinates), run.rounds[-1].objective
        if not abs(here - said) <= AGREE * abs(here):
            raise SystemExit(f"{variant.letter}: it says that its objective is {said!r}, and it is {here!r}")
    return run


def told(numbers: dict[str, Any], h: float) -> Run:
    """A run as the native part tells it."""
    rows = zip(numbers["seconds"], numbers["worker_s"], numbers["master_s"], numbers["objectives"])
    return Run([Round(*row) for row in rows], h, np.asarray(numbers["coordinates"]))
