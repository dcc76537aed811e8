"""What a worker does in a round of the variants in Python. This file alone travels to Spark's executors.

The rules are those of `qjam_algos::linear::drawn`: same draws, same steps. Sums of the NumPy solver are NumPy's own, so its results
agree with those of the others to rounding and not to the bit.
"""

from __future__ import annotations

import time
from typing import Any, Tuple

import numpy as np

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def load(path: str) -> Tuple[np.ndarray, Any]:
    """The columns of a partition: an array of the sums of their squares, and a list of (rows, values)."""
    with open(path, "rb") as file:
        _, columns, entries = (int(number) for number in np.fromfile(file, np.int64, 3))
        starts = np.fromfile(file, np.int64, columns + 1)
        rows = np.fromfile(file, np.int32, entries)
        values = np.fromfile(file, np.float64, entries)
    lists = [(rows[a:z].copy(), values[a:z].copy()) for a, z in zip(starts[:-1], starts[1:])]
    return np.array([float(value @ value) for _, value in lists]), lists


def draws(seed: int, round_number: int, partition: int, count: int, n: int) -> np.ndarray:
    """The columns that the steps of a round are on."""
    key = 0
    for part in (seed, round_number, partition):
        z = ((key + GOLDEN) & MASK) ^ part
        z = ((z ^ z >> 30) * FIRST) & MASK
        z = ((z ^ z >> 27) * SECOND) & MASK
        key = z ^ z >> 31
    z = np.uint64(key) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(FIRST)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(SECOND)
    z = z ^ (z >> np.uint64(31))
    return (((z >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32)).astype(np.int64)


def steps_of(h: float, columns: int) -> int:
    """How many steps that is."""
    return max(1, int(h * columns))


def numpy_steps(
    columns: Any, w: np.ndarray, alpha: np.ndarray, sigma: float, lam: float, h: float, seed: int, number: int, partition: int
) -> Tuple[np.ndarray, np.ndarray, float]:
    """A round in Python: (index, rows, values, sum of squares) of each column; gives A Δα, α, and the seconds that it took."""
    begun = time.perf_counter()
    r, alpha = w.copy(), alpha.copy()
    for j in draws(seed, number, partition, steps_of(h, len(columns)), len(columns)).tolist():
        _, rows, values, square = columns[j]
        there = r[rows]
        bend = sigma * square + lam
        to = (sigma * square * alpha[j] - there @ values) / bend
        by = to - alpha[j]
        alpha[j] = to
        r[rows] = there + (sigma * by) * values
    return (r - w) / sigma, alpha, time.perf_counter() - begun


def native_steps(
    columns: Any, w: np.ndarray, alpha: np.ndarray, sigma: float, lam: float, h: float, seed: int, number: int, partition: int
) -> Tuple[np.ndarray, np.ndarray, float]:
    """The same by the native module."""
    from qjam import _native

    begun = time.perf_counter()
    rows, values = [column[1] for column in columns], [column[2] for column in columns]
    settings = (sigma, 0.0, lam, steps_of(h, len(columns)), seed, number, partition)
    change, alpha = _native.drawn_steps(rows, values, w, alpha, settings)
    return change, alpha, time.perf_counter() - begun


def records(partition: int, path: str) -> Any:
    """The records of an RDD for a partition: one for each column."""
    squares, lists = load(path)
    return [(j, rows, values, float(squares[j])) for j, (rows, values) in enumerate(lists)]
