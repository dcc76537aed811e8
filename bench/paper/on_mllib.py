"""MLlib's own linear regression: what a user of Spark has without writing anything.

The paper had `LinearRegressionWithSGD`; its successor is `pyspark.ml`'s `LinearRegression` with L-BFGS. It says nothing between two
iterations, so it is run anew with more and more of them, and each run is a point of its curve. The time is that of `fit`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from problem import Data
from variants import Round, Run, Variant

ITERATIONS = [1, 2, 4, 8, 16, 32, 64, 128, 256]


def variant(context: Any, data: Data) -> Variant:
    """MLlib on rows that are dealt to as many partitions."""
    tables: list[Any] = []

    def table() -> Any:
        from pyspark.ml.linalg import Vectors
        from pyspark.sql import SparkSession

        by_rows = data.columns.tocsr()
        by_rows.sort_indices()
        cols, starts = by_rows.shape[1], by_rows.indptr
        rows = [
            (float(b), Vectors.sparse(cols, by_rows.indices[a:z].tolist(), by_rows.data[a:z].tolist()))
            for b, a, z in zip(data.b, starts[:-1], starts[1:])
        ]
        session = SparkSession(context)
        made = session.createDataFrame(context.parallelize(rows, data.partitions), ["label", "features"]).cache()
        made.count()
        return made

    def fits() -> Iterator[tuple[float, np.ndarray]]:
        from pyspark.ml.regression import LinearRegression

        for iterations in ITERATIONS:
            # It minimises the mean of the squares, so what stands beside that is the share of one row.
            learner = LinearRegression(
                maxIter=iterations, tol=0.0, regParam=data.lam / data.rows, elasticNetParam=0.0,
                fitIntercept=False, standardization=False, solver="l-bfgs",
            )  # fmt: skip
            if iterations == ITERATIONS[0]:
                # What Java compiles at the first time is nobody's iteration.
                learner.fit(tables[0])
            begun = time.perf_counter()
            model = learner.fit(tables[0])
            yield time.perf_counter() - begun, model.coefficients.toArray()

    def run(h: float, most: int, target: float, limit_s: float) -> Run:
        if not tables:
            tables.append(table())
        rounds: list[Round] = []
        before = 0.0
        coordinates = None
        for seconds, coordinates in fits():
            objective = data.objective(coordinates)
            # Each run begins anew; what it takes longer than the one before is what its further iterations take.
            rounds.append(Round(max(seconds - before, 0.0), 0.0, 0.0, objective))
            before = max(seconds, before)
            if objective <= target or before > limit_s:
                break
        return Run(rounds, h, coordinates)

    return Variant("MLlib", "MLlib, L-BFGS", run, is_same=False, has_h=False)
