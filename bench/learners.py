"""Every learner but the linear ones (`bench/linear.py` has these) beside scikit-learn's, on generated data.

    python bench/learners.py [--rows N] [--turns N] [--only WORD] [--json]

Ours and theirs take turns in one process, theirs with one thread and with two; the better of these counts. Shown are ratios of median wall
times and of median computing times of all threads (theirs over ours: above 1 we are faster), and the memory that a fit takes beside its
data, each in a process of its own. Times themselves are those of one machine in one minute.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from linear import Case, counts_like, measured


def blobs(rows: int, columns: int, classes: int, seed: int) -> tuple[Any, Any]:
    """Rows around a centre for each class, with correlated columns of different sizes."""
    random = np.random.default_rng(seed)
    y = random.integers(0, classes, rows)
    mix = random.normal(size=(columns, columns)) / np.sqrt(columns)
    return random.normal(size=(classes, columns))[y] * 2.0 + random.normal(size=(rows, columns)) @ mix, y


def of_columns(rows: int) -> Iterator[Case]:
    from sklearn import preprocessing as theirs

    from qjam import learn as ours

    X, _ = blobs(rows, 50, 5, 1)
    for name in ("StandardScaler", "MinMaxScaler"):
        mine, other = getattr(ours, name), getattr(theirs, name)
        yield Case(f"{name}, {rows} x 50", lambda mine=mine: mine().fit(X), lambda other=other: other().fit(X))


def of_classes(rows: int) -> Iterator[Case]:
    from sklearn import discriminant_analysis, naive_bayes

    from qjam import learn as ours

    X, y = blobs(rows, 50, 5, 2)
    counts = counts_like(rows, 5000, 60, 3, unit=False)
    pairs: list[tuple[str, Any, Any]] = [
        ("GaussianNB", naive_bayes, X),
        ("LinearDiscriminantAnalysis", discriminant_analysis, X),
        ("QuadraticDiscriminantAnalysis", discriminant_analysis, X),
        ("MultinomialNB", naive_bayes, counts),
        ("BernoulliNB", naive_bayes, counts),
        ("ComplementNB", naive_bayes, counts),
    ]
    for name, module, rows_of in pairs:
        mine, other = getattr(ours, name), getattr(module, name)
        shape = f"{rows_of.shape[0]} x {rows_of.shape[1]}"
        yield Case(
            f"{name}, {'dense' if rows_of is X else 'sparse'} {shape}",
            lambda mine=mine, of=rows_of: mine().fit(of, y),
            lambda other=other, of=rows_of: other().fit(of, y),
        )


def of_rows(rows: int) -> Iterator[Case]:
    from sklearn import cluster, decomposition, mixture

    from qjam import learn as ours

    X, _ = blobs(rows, 50, 5, 4)
    wide, _ = blobs(max(rows // 20, 200), 2500, 5, 5)
    counts = counts_like(rows, 5000, 60, 6, unit=True)
    kinds: list[tuple[str, str, Any, Any, dict[str, Any]]] = [
        ("PCA", "dense", decomposition, X, {"n_components": 10}),
        ("PCA", "wide", decomposition, wide, {"n_components": 10, "svd_solver": "randomized", "random_state": 0}),
        ("TruncatedSVD", "sparse", decomposition, counts, {"n_components": 20, "random_state": 0}),
        ("FastICA", "dense", decomposition, X, {"n_components": 10, "random_state": 0, "max_iter": 20}),
        ("KMeans", "dense", cluster, X, {"n_clusters": 10, "n_init": 1, "random_state": 0}),
    ]
    start = X[:5]
    for shape in ("full", "diag"):
        options = {"n_components": 5, "covariance_type": shape, "means_init": start, "max_iter": 10, "tol": 0.0}
        kinds.append(("GaussianMixture", f"dense, {shape}", mixture, X, options))
    for name, kind, module, of, options in kinds:
        mine, other = getattr(ours, name), getattr(module, name)
        yield Case(
            f"{name}, {kind} {of.shape[0]} x {of.shape[1]}",
            lambda mine=mine, of=of, options=options: mine(**options).fit(of),
            lambda other=other, of=of, options=options: other(**options).fit(of),
        )


def of_networks(rows: int) -> Iterator[Case]:
    from sklearn import neural_network as theirs

    from qjam import learn as ours

    X, y = blobs(rows, 100, 10, 7)
    for solver, rounds in (("adam", 2), ("lbfgs", 10)):
        options = {"hidden_layer_sizes": (64,), "solver": solver, "max_iter": rounds, "random_state": 0}
        yield Case(
            f"MLPClassifier, {solver}, {rounds} iterations, {rows} x 100",
            lambda options=options: ours.MLPClassifier(**options).fit(X, y),
            lambda options=options: theirs.MLPClassifier(**options).fit(X, y),
        )


def cases(rows: int) -> Iterator[Case]:
    for some in (of_columns, of_classes, of_rows, of_networks):
        yield from some(rows)


def extra_kb(name: str, rows: int, who: str) -> int:
    """By how much the largest memory of a fresh process grows with a fit, beyond that of its data, in KiB."""
    words = [sys.executable, __file__, "--rows", str(rows), "--memory-of", name, "--who", who]
    return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def memory_kb(name: str) -> int:
    """What the kernel says of this process's memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])


def told_memory(name: str, rows: int, who: str) -> None:
    for case in cases(rows):
        if case.name == name:
            # Making the data took more than it has: the largest memory is counted from here on.
            Path("/proc/self/clear_refs").write_text("5")
            before = memory_kb("VmRSS")
            (case.ours if who == "ours" else case.theirs)()
            print(max(memory_kb("VmHWM") - before, 0))
            return
    raise SystemExit(f"there is no case {name!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", default="", help="cases whose name has this")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    parser.add_argument("--who", choices=("ours", "theirs"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.memory_of:
        told_memory(args.memory_of, args.rows, args.who)
        return
    if not args.json:
        print("| case | wall | computing | memory beside the data, MiB: ours, theirs |")
        print("|---|---|---|---|")
    for case in cases(args.rows):
        if args.only not in case.name:
            continue
        row = measured(case, args.turns)
        for who in ("ours", "theirs"):
            row[f"{who}_extra_mib"] = extra_kb(case.name, args.rows, who) / 1024
        if args.json:
            print(json.dumps(row), flush=True)
            continue
        memory = f"{row['ours_extra_mib']:.0f}, {row['theirs_extra_mib']:.0f}"
        print(f"| {row['case']} | {row['wall']:.2f} | {row['computing']:.2f} | {memory} |", flush=True)


if __name__ == "__main__":
    main()
