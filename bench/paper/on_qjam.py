"""D*: this project's engine on Spark, whose RDD has numbers of tasks alone while data and coordinates stay in native memory; the same
rounds on threads and processes; and our own method, whose work between two exchanges is chosen while it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import numpy as np
from problem import Data
from variants import SEED, Round, Run, Variant, told


def memories(data: Data) -> tuple[Any, Any, Any]:
    """The matrix by rows, as the native part takes it."""
    by_rows = data.columns.tocsr()
    by_rows.sort_indices()
    return by_rows.indptr.astype(np.uint64), by_rows.indices.astype(np.uint32), by_rows.data


def same(letter: str, title: str, master: Callable[[], Any], data: Data) -> Variant:
    """The rounds of the other variants on a master of ours."""
    memory = memories(data)

    def run(h: float, most: int, target: float, limit_s: float) -> Run:
        from qjam import _native

        m = master()
        settings = (data.lam, 1.0, h, most, target, SEED)
        shape, k = data.columns.shape, data.partitions
        return told(_native.drawn_fit(m._native, memory, shape[1], data.b, k, settings, m._tick), h)

    return Variant(letter, title, run)


def own(letter: str, title: str, master: Callable[[], Any], data: Data, is_tuned: bool) -> Variant:
    """Our own method: with H given and σ' the number of partitions, or with both chosen by the clock."""
    memory = memories(data)

    def run(h: float, most: int, target: float, limit_s: float) -> Run:
        from qjam import _native

        m = master()
        fixed: Optional[tuple[float, float]] = None if is_tuned else (h, float(data.partitions))
        settings = (data.lam, 1.0, most, target, SEED)
        shape, k = data.columns.shape, data.partitions
        said = _native.tuned_fit(m._native, memory, shape[1], data.b, k, settings, fixed, m._tick)
        # Computing is told of all rounds together; its share is the same in each then.
        share = said["worker_s"] / max(sum(said["seconds"]), 1e-300)
        rounds = [Round(s, s * share, 0.0, value) for s, value in zip(said["seconds"], said["objectives"])]
        works = said["h"]
        # The objective of a round is an upper bound until the next one tells what its step came to; the last is exact enough.
        return Run(rounds, works[-1] if is_tuned and works else h)

    return Variant(letter, title, run, is_same=False, has_h=not is_tuned)
