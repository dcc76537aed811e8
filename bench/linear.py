"""Linear learners and k-means' questions beside scikit-learn's, on generated data of well-known shapes.

    python bench/linear.py [--turns N] [--only WORD] [--json]

Ours and theirs take turns in one process, theirs with one thread and with two; the better of these counts. Shown are ratios of median wall
times and of median computing times of all threads (theirs over ours: above 1 we are faster), and how far both ended from the best objective
that any of them found. Times themselves are those of one machine in one minute.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

Objective = Callable[[Any], float]


@dataclass
class Case:
    """One job for both: each function does all of it and returns what it made."""

    name: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    # What both minimise, of what they made; None where there is nothing to compare.
    objective: Optional[Objective] = None


# ---- data -----------------------------------------------------------------------------------------------------------


def one_hot_like(rows: int, columns: int, per_row: int, positives: float, seed: int) -> tuple[Any, Any]:
    """Rows of ones, as categories make them, and labels of which so many are positive."""
    from scipy import sparse

    random = np.random.default_rng(seed)
    group = columns // per_row
    drawn = np.minimum((group * random.random((rows, per_row)) ** 2).astype(int), group - 1)
    places = (drawn + group * np.arange(per_row)).ravel()
    starts = np.arange(0, rows * per_row + 1, per_row)
    X = sparse.csr_matrix((np.ones(rows * per_row), places, starts), shape=(rows, columns))
    scores = X @ random.normal(size=columns) + random.logistic(size=rows)
    return X, (scores > np.quantile(scores, 1 - positives)).astype(int)


def counts_like(rows: int, columns: int, per_row: int, seed: int, unit: bool) -> Any:
    """Words of documents: few of them have most of the counts. With ``unit``, rows have length 1, as tf-idf has them."""
    from scipy import sparse

    random = np.random.default_rng(seed)
    weights = np.arange(1, columns + 1, dtype=np.float64) ** -1.05
    until = np.cumsum(weights / weights.sum())
    drawn = np.minimum(np.searchsorted(until, random.random(rows * per_row)), columns - 1)
    of_rows = np.repeat(np.arange(rows), per_row)
    X = sparse.coo_matrix((np.ones(rows * per_row), (of_rows, drawn)), shape=(rows, columns)).tocsr()
    X.sum_duplicates()
    if unit:
        from sklearn.preprocessing import normalize

        X = normalize(X)
    return X


# ---- objectives -----------------------------------------------------------------------------------------------------


def decided(model: Any, X: Any) -> Any:
    return np.asarray(X @ np.ravel(model.coef_)).ravel() + float(np.ravel(model.intercept_)[0])


def ridge_objective(X: Any, y: Any, alpha: float) -> Objective:
    return lambda model: float(((decided(model, X) - y) ** 2).sum() + alpha * (model.coef_**2).sum())


def lasso_objective(X: Any, y: Any, alpha: float) -> Objective:
    def value(model: Any) -> float:
        squares = ((decided(model, X) - y) ** 2).sum() / (2 * len(y))
        return float(squares + alpha * np.abs(model.coef_).sum())

    return value


def logistic_objective(X: Any, y: Any, C: float, l1: bool) -> Objective:
    def value(model: Any) -> float:
        losses = np.logaddexp(0, -(2 * y - 1) * decided(model, X)).sum()
        return float(C * losses + (np.abs(model.coef_).sum() if l1 else 0.5 * (model.coef_**2).sum()))

    return value


def svm_objective(X: Any, y: Any, C: float, power: int) -> Objective:
    def value(model: Any) -> float:
        short = np.maximum(0, 1 - (2 * y - 1) * decided(model, X)) ** power
        return float(C * short.sum() + 0.5 * ((model.coef_**2).sum() + (model.intercept_**2).sum()))

    return value


# ---- cases ----------------------------------------------------------------------------------------------------------


def regressions() -> Iterator[Case]:
    from sklearn import linear_model as theirs

    from qjam import learn as ours

    random = np.random.default_rng(1)
    X = random.normal(size=(2000, 3000))
    y = X @ random.normal(size=3000) + random.normal(size=2000)
    yield Case(
        "ridge, dense 2000 x 3000, alpha 1",
        lambda: ours.Ridge().fit(X, y),
        lambda: theirs.Ridge().fit(X, y),
        ridge_objective(X, y, 1.0),
    )
    N = random.normal(size=(20_000, 200))
    z = N @ random.normal(size=200) + random.normal(size=20_000)
    yield Case(
        "ridge, dense 20 000 x 200, alpha 1",
        lambda: ours.Ridge().fit(N, z),
        lambda: theirs.Ridge().fit(N, z),
        ridge_objective(N, z, 1.0),
    )
    W = counts_like(8000, 10_000, 100, 2, unit=False)
    t = W @ random.normal(size=10_000) + random.normal(size=8000)
    yield Case(
        "ridge, word counts 8000 x 10 000, alpha 1",
        lambda: ours.Ridge().fit(W, t),
        lambda: theirs.Ridge().fit(W, t),
        ridge_objective(W, t, 1.0),
    )
    yield Case(
        "lasso, word counts 8000 x 10 000, alpha 0.01",
        lambda: ours.Lasso(0.01).fit(W, t),
        lambda: theirs.Lasso(0.01).fit(W, t),
        lasso_objective(W, t, 0.01),
    )


def classifications() -> Iterator[Case]:
    from sklearn import linear_model as theirs
    from sklearn import svm

    from qjam import learn as ours

    shapes = [
        ("one-hot 50 000 x 300, 3 % positive", one_hot_like(50_000, 300, 12, 0.03, 3), 10.0),
        ("a9a-like 32 561 x 126", one_hot_like(32_561, 126, 14, 0.24, 4), 1.0),
    ]
    T = counts_like(11_314, 50_000, 120, 5, unit=True)
    scores = T @ np.random.default_rng(6).normal(size=50_000)
    shapes.append(("20news-like 11 314 x 50 000", (T, (scores > np.median(scores)).astype(int)), 1.0))
    for name, (X, y), C in shapes:
        yield Case(
            f"logistic, {name}, C {C:g}, tol 1e-6",
            lambda X=X, y=y, C=C: ours.LogisticRegression(C=C, tol=1e-6).fit(X, y),
            lambda X=X, y=y, C=C: theirs.LogisticRegression(C=C, tol=1e-6, solver="newton-cg", max_iter=1000).fit(X, y),
            logistic_objective(X, y, C, l1=False),
        )
        yield Case(
            # liblinear charges for an intercept: without one both minimise the same.
            f"logistic l1, {name}, C {C:g}",
            lambda X=X, y=y, C=C: ours.LogisticRegression(C=C, penalty="l1", fit_intercept=False).fit(X, y),
            lambda X=X, y=y, C=C: theirs.LogisticRegression(
                C=C, l1_ratio=1.0, solver="liblinear", fit_intercept=False, max_iter=1000
            ).fit(X, y),
            logistic_objective(X, y, C, l1=True),
        )
        for loss, power in (("squared_hinge", 2), ("hinge", 1)):
            yield Case(
                f"linear svm, {loss}, {name}",
                lambda X=X, y=y, loss=loss: ours.LinearSVC(loss=loss).fit(X, y),
                lambda X=X, y=y, loss=loss: svm.LinearSVC(loss=loss, dual="auto", max_iter=10_000).fit(X, y),
                svm_objective(X, y, 1.0, power),
            )


def small() -> Iterator[Case]:
    from sklearn import cluster, svm
    from sklearn import linear_model as theirs
    from sklearn.datasets import load_digits

    from qjam import learn as ours

    random = np.random.default_rng(7)
    X = random.normal(size=(100, 10))
    y = X @ random.normal(size=10) + random.normal(size=100)
    c = (y > 0).astype(int)
    kinds: list[tuple[str, Any, Any, Any]] = [
        ("ridge", ours.Ridge, theirs.Ridge, y),
        ("lasso", ours.Lasso, theirs.Lasso, y),
        ("logistic", ours.LogisticRegression, theirs.LogisticRegression, c),
        ("linear svm", ours.LinearSVC, svm.LinearSVC, c),
    ]
    for name, mine, other, of in kinds:
        yield Case(
            f"{name}, dense 100 x 10, 20 fits",
            lambda mine=mine, of=of: [mine().fit(X, of) for _ in range(20)][0],
            lambda other=other, of=of: [other().fit(X, of) for _ in range(20)][0],
        )
    D, d = load_digits(return_X_y=True)
    yield Case(
        "logistic, digits 1797 x 64, 10 classes",
        lambda: ours.LogisticRegression().fit(D, d),
        lambda: theirs.LogisticRegression(max_iter=10_000).fit(D, d),
    )
    for name, points in (("digits 1797 x 64", D), ("dense 20 000 x 50", random.normal(size=(20_000, 50)))):
        a = ours.KMeans(10, random_state=0, n_init=1).fit(points)
        b = cluster.KMeans(10, random_state=0, n_init=1).fit(points)
        for question in ("predict", "transform"):
            yield Case(
                f"k-means {question}, {name}, k 10, 20 times",
                lambda a=a, q=question, X=points: [getattr(a, q)(X) for _ in range(20)],
                lambda b=b, q=question, X=points: [getattr(b, q)(X) for _ in range(20)],
            )


# ---- measuring ------------------------------------------------------------------------------------------------------


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Wall time, computing time of all threads, and what came of it."""
    wall, cpu = time.perf_counter(), time.process_time()
    made = work()
    return time.perf_counter() - wall, time.process_time() - cpu, made


def measured(case: Case, turns: int) -> dict[str, Any]:
    from threadpoolctl import threadpool_limits

    wall: dict[str, list[float]] = {"ours": [], "one": [], "two": []}
    cpu: dict[str, list[float]] = {"ours": [], "one": [], "two": []}
    made: dict[str, Any] = {}
    for _ in range(turns):
        for who, count, work in (("ours", None, case.ours), ("one", 1, case.theirs), ("two", 2, case.theirs)):
            with threadpool_limits(limits=count):
                w, p, made[who] = timed(work)
            wall[who].append(w)
            cpu[who].append(p)
    best = min(("one", "two"), key=lambda who: statistics.median(wall[who]))
    row: dict[str, Any] = {
        "case": case.name,
        "ours_ms": 1e3 * statistics.median(wall["ours"]),
        "theirs_ms": 1e3 * statistics.median(wall[best]),
        "wall": statistics.median(wall[best]) / statistics.median(wall["ours"]),
        "computing": statistics.median(cpu[best]) / statistics.median(cpu["ours"]),
        "solver": getattr(made["ours"], "solver_", ""),
        "rounds": getattr(made["ours"], "rounds_", ""),
    }
    if case.objective is not None:
        values = {who: case.objective(made[who]) for who in ("ours", best)}
        least = min(values.values())
        row["ours_above"] = (values["ours"] - least) / abs(least)
        row["theirs_above"] = (values[best] - least) / abs(least)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", default="", help="cases whose name has this")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if not args.json:
        print("| case | solver, rounds | wall | computing | objective above the better one: ours, theirs |")
        print("|---|---|---|---|---|")
    for cases in (regressions, classifications, small):
        for case in cases():
            if args.only not in case.name:
                continue
            row = measured(case, args.turns)
            if args.json:
                print(json.dumps(row), flush=True)
                continue
            how = f"{row['solver']}, {row['rounds']}" if row["solver"] else ""
            above = f"{row['ours_above']:.0e}, {row['theirs_above']:.0e}" if "ours_above" in row else ""
            print(f"| {row['case']} | {how} | {row['wall']:.2f} | {row['computing']:.2f} | {above} |", flush=True)


if __name__ == "__main__":
    main()
