"""Variants C and D: records of an RDD are columns, and coordinates travel to the workers and back in every round.

C is Python with NumPy, D has a native solver called from there. As in the paper the RDD has a record for each column, and `mapPartitions`
takes these out again in every round. Every worker gets the residual by a broadcast variable, and its own coordinates by another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import local_solver
import numpy as np
from problem import Data
from variants import SEED, Part, Run, Variant, descend


def columns_of(context: Any, data: Data) -> Any:
    """The RDD of columns, in the executors' memory."""
    paths = {k: str(data.part(k)) for k in range(data.partitions)}

    def read(index: int, _: Any) -> Iterator[Any]:
        yield from local_solver.records(index, paths[index])

    found = context.parallelize(range(data.partitions), data.partitions).mapPartitionsWithIndex(read).cache()
    found.count()
    return found


def variant(context: Any, data: Data, is_native: bool) -> Variant:
    """C, or D."""
    cached: list[Any] = []
    solve = local_solver.native_steps if is_native else local_solver.numpy_steps

    def run(h: float, most: int, target: float, limit_s: float) -> Run:
        if not cached:
            cached.append(columns_of(context, data))

        def exchange(number: int, w: np.ndarray, alphas: list[np.ndarray]) -> list[Part]:
            shared, own = context.broadcast(w), [context.broadcast(alpha) for alpha in alphas]
            sigma, lam = float(data.partitions), data.lam

            def work(index: int, records: Iterator[Any]) -> Iterator[Any]:
                yield solve(list(records), shared.value, own[index].value, sigma, lam, h, SEED, number, index)

            try:
                return [Part(*said) for said in cached[0].mapPartitionsWithIndex(work).collect()]
            finally:
                for variable in [shared, *own]:
                    variable.destroy()

        return descend(data, h, most, target, limit_s, exchange)

    if is_native:
        return Variant("D", "Python, native solver", run)
    return Variant("C", "Python with NumPy", run)
