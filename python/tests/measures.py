"""How long things take that are to take no longer than a blink: run alone, by `cargo xtask bench`.

The bars are wide; they are about orders of magnitude. Nothing here is collected with the tests.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any, Callable, List

import numpy as np
import pytest

from qjam import _code
from qjam.learn import ElasticNet, KMeans, Lasso, LinearSVC, LogisticRegression, Ridge


def least_of(times: int, something: Callable[[], object]) -> float:
    """Computing time of all threads, in seconds."""
    took: List[float] = []
    for _ in range(times):
        begun = time.process_time()
        something()
        took.append(time.process_time() - begun)
    return min(took)


def test_importing_takes_less_than_150_ms() -> None:
    def import_ms() -> float:
        # Lines of `self us | cumulative us | module`; the last one is the package itself.
        words = [sys.executable, "-X", "importtime", "-c", "import qjam"]
        lines = subprocess.run(words, check=True, capture_output=True, text=True).stderr.splitlines()
        ours = [line for line in lines if line.split("|")[-1].strip() == "qjam"]
        return int(ours[-1].split("|")[1]) / 1000

    import_ms()
    took = statistics.median(import_ms() for _ in range(7))
    assert took < 150, f"{took:.0f} ms"


def test_preparing_again_takes_less_than_200_us() -> None:
    scale = 3

    def again(params: Any, chunk: Any) -> int:
        return scale * np.size(chunk)

    times = []
    for _ in range(200):
        start = time.perf_counter()
        _code.prepare(again)
        times.append(time.perf_counter() - start)
    assert statistics.median(times) < 200e-6


@pytest.mark.parametrize("learner", [Ridge, Lasso, ElasticNet, LogisticRegression, LinearSVC])
def test_linear_learners_take_less_than_30_ms_for_small_data(learner: Any) -> None:
    X = np.random.default_rng(0).normal(size=(100, 5))
    y = X[:, 0] if learner in (Ridge, Lasso, ElasticNet) else X[:, 0] + X[:, 1] > 0
    assert least_of(6, lambda: learner().fit(X, y)) < 0.03


def test_k_means_takes_less_than_50_ms_for_small_data() -> None:
    X = np.random.default_rng(0).normal(size=(150, 4))
    KMeans(3, random_state=0).fit(X)
    assert least_of(5, lambda: KMeans(3, random_state=0).fit(X)) < 0.05
