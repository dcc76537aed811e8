"""What the tests of hosts run there: a module of its own, so that nothing but NumPy is needed."""

from __future__ import annotations

import os
import time
from typing import Any, List

import numpy as np


class Tally:
    """A result of a class that no host knows."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.count + other.count)


def moments(params: Any, chunk: Any) -> List[Any]:
    """Sums whose bits depend on the order of everything."""
    return [np.tanh(chunk * params).sum(axis=0), float((chunk @ chunk.T).sum()), len(chunk)]


def slowly(params: Any, chunk: Any) -> List[Any]:
    """The same, with time to be killed in."""
    time.sleep(0.02)
    return moments(params, chunk)


def tally(params: int, chunk: Any) -> Tally:
    """Something that plain Python cannot add without its class."""
    return Tally(params * len(chunk))


def numerics(params: Any, chunk: Any) -> List[Any]:
    """What this interpreter was told of how to compute."""
    names = ("OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "UNRELATED")
    return [tuple(os.environ.get(name, "") for name in names)]
