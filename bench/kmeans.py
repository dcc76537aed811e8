"""Compares k-means with faiss, scikit-learn, Intel's extension of it, and NumPy: same rows, same initial centres, two threads.

    cargo build --release -p qjam-cli
    python bench/kmeans.py run --qjam target/release/qjam [--turns 3] [--only WORD] [--json FILE] [--book]

`--book` writes the table and the picture into the book. The program exits with 1 if a limit is missed. Each program runs in its own
process, and only its fit is timed: the total time divided by the number of iterations requested. `peer NAME …` runs one of the others,
as `run` calls it.

There are two kinds of rows. *Clustered*: normal noise around centres with twice its spread, where pruning helps. *Unclustered*: noise
alone, where pruning saves almost no distances; with pruning off, the matrix product is compared.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional

import comparison
import numpy as np
from comparison import Bar, Case

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "book" / "k-means-start-to-finish.md"
PICTURE = ROOT / "docs" / "book" / "img" / "kmeans-speed.svg"
LOCAL, PROC = "qjam, 2 threads", "qjam, 2 processes"
# How much longer an iteration on processes may take than on threads.
PROC_SLOWER = 1.10
# Sums in other orders: what inertias of the same centres may differ by after a few iterations.
INERTIA_OFF = 1e-3


@dataclass
class Job:
    """Rows, clusters, iterations; who takes part, and what is asked for against faiss."""

    name: str
    rows: int
    columns: int
    k: int
    iterations: int
    clustered: bool
    pruning: bool
    peers: list[str]
    at_least: float
    goal: Optional[float] = None


FAISS = ["faiss", "faiss as it comes"]
ALL = [*FAISS, "intel", "sklearn", "elkan", "numpy"]
JOBS = [
    Job("50k x 1000, K 1000, no pruning", 50_000, 1000, 1000, 5, False, False, ALL, 0.95),
    Job("50k x 1000, K 1000, 5 iterations", 50_000, 1000, 1000, 5, True, True, [*FAISS, "intel", "elkan"], 1.5, 2.0),
    Job("50k x 1000, K 1000, 10 iterations", 50_000, 1000, 1000, 10, True, True, ALL, 1.8, 2.0),
    Job("50k x 1000, K 1000, 25 iterations", 50_000, 1000, 1000, 25, True, True, [*FAISS, "intel", "elkan"], 1.8, 2.0),
    Job("1M x 16, K 64, 20 iterations", 1_000_000, 16, 64, 20, True, True, ALL, 1.5),
    Job("1M x 16, K 64, unclustered", 1_000_000, 16, 64, 20, False, True, [*FAISS, "intel"], 1.5),
]


def make(job: Job, folder: Path) -> tuple[Path, Path]:
    """Writes the rows and the first centres, which are some of the rows."""
    kind = "clustered" if job.clustered else "noise"
    stem = f"{kind}-{job.rows}-{job.columns}-{job.k}"
    data, first = folder / f"{stem}.npy", folder / f"{stem}-first.npy"
    if not first.exists():
        random = np.random.default_rng(7)
        x = random.standard_normal((job.rows, job.columns), dtype=np.float32)
        if job.clustered:
            centres = 2 * random.standard_normal((job.k, job.columns), dtype=np.float32)
            x += centres[random.integers(0, job.k, job.rows)]
        np.save(data, x)
        np.save(first, x[random.choice(job.rows, job.k, replace=False)])
    return data, first


def quality(x: np.ndarray, centres: np.ndarray) -> dict[str, Any]:
    """Squared distances of all rows to their nearest centres, summed in doubles, and how many centres have no rows."""
    total, c = 0.0, centres.astype(np.float64)
    squares, used = (c**2).sum(axis=1), np.zeros(len(c), bool)
    for begin in range(0, len(x), 4096):
        rows = x[begin : begin + 4096].astype(np.float64)
        nearest = (squares - 2.0 * rows @ c.T).argmin(axis=1)
        used[nearest] = True
        total += float(((rows - c[nearest]) ** 2).sum())
    return {"inertia": total, "empty": int((~used).sum())}


# The peers. Each returns its centres, how many iterations it made, and what it is.


def faiss_best(x: np.ndarray, first: np.ndarray, iterations: int) -> tuple[np.ndarray, int, str]:
    """With the blocks of the product as they are, and with larger and smaller ones: the fastest of these."""
    import faiss

    faiss.omp_set_num_threads(2)

    def fit(count: int) -> Any:
        k, d = first.shape
        means = faiss.Kmeans(
            d, k, niter=count, nredo=1, max_points_per_centroid=len(x), min_points_per_centroid=1, verbose=False
        )
        means.train(x, init_centroids=first)
        return means

    blocks = faiss.cvar
    usual = (blocks.distance_compute_blas_query_bs, blocks.distance_compute_blas_database_bs)
    tried = {}
    for setting in dict.fromkeys([usual, (1024, usual[1]), (usual[0], len(first)), (16384, len(first))]):
        blocks.distance_compute_blas_query_bs, blocks.distance_compute_blas_database_bs = setting
        began = time.perf_counter()
        fit(1)
        tried[setting] = time.perf_counter() - began
    best = min(tried, key=tried.__getitem__)
    blocks.distance_compute_blas_query_bs, blocks.distance_compute_blas_database_bs = best
    began = time.perf_counter()
    means = fit(iterations)
    fitted.seconds = time.perf_counter() - began
    kernel = os.environ.get("OPENBLAS_CORETYPE", "OpenBLAS as it comes")
    said = f"faiss {faiss.__version__}, {kernel}, blocks of {best[0]} by {best[1]}"
    return means.centroids, iterations, said


def scikit(x: np.ndarray, first: np.ndarray, iterations: int, algorithm: str) -> tuple[np.ndarray, int, str]:
    import sklearn
    from sklearn.cluster import KMeans

    means = KMeans(len(first), init=first, n_init=1, max_iter=iterations, tol=0, algorithm=algorithm)
    began = time.perf_counter()
    means.fit(x)
    fitted.seconds = time.perf_counter() - began
    return means.cluster_centers_, means.n_iter_, f"scikit-learn {sklearn.__version__}, {algorithm}"


def intel(x: np.ndarray, first: np.ndarray, iterations: int) -> tuple[np.ndarray, int, str]:
    from importlib.metadata import version

    from sklearnex.cluster import KMeans

    means = KMeans(len(first), init=first, n_init=1, max_iter=iterations, tol=0, algorithm="lloyd")
    began = time.perf_counter()
    means.fit(x)
    fitted.seconds = time.perf_counter() - began
    return means.cluster_centers_, means.n_iter_, f"scikit-learn-intelex {version('scikit-learn-intelex')}"


def plain(x: np.ndarray, first: np.ndarray, iterations: int) -> tuple[np.ndarray, int, str]:
    """As one would write it: a product for a block of rows, and sums by sorting."""
    began = time.perf_counter()
    centres, k = first.copy(), len(first)
    for _ in range(iterations):
        nearest = np.empty(len(x), np.int64)
        squares = (centres**2).sum(axis=1)
        for begin in range(0, len(x), 4096):
            nearest[begin : begin + 4096] = (squares - 2.0 * x[begin : begin + 4096] @ centres.T).argmin(axis=1)
        order = np.argsort(nearest, kind="stable")
        counts = np.bincount(nearest, minlength=k)
        filled = np.flatnonzero(counts)
        begins = (np.cumsum(counts) - counts)[filled]
        centres[filled] = np.add.reduceat(x[order], begins, axis=0) / counts[filled, None]
    fitted.seconds = time.perf_counter() - began
    return centres, iterations, f"NumPy {np.__version__}"


class fitted:
    """How long the fit of this process took, whatever was prepared before."""

    seconds = 0.0


PEERS: dict[str, Callable[[np.ndarray, np.ndarray, int], tuple[np.ndarray, int, str]]] = {
    "faiss": faiss_best,
    "faiss as it comes": faiss_best,
    "intel": intel,
    "sklearn": lambda x, first, n: scikit(x, first, n, "lloyd"),
    "elkan": lambda x, first, n: scikit(x, first, n, "elkan"),
    "numpy": plain,
}


def peer(options: argparse.Namespace) -> None:
    """One peer, once; a line of JSON."""
    x, first = np.load(options.data), np.load(options.init)
    centres, iterations, what = PEERS[options.name](x, first, options.iterations)
    np.save(options.out, centres)
    # By those asked for, as ours: who stops at the fixed point has done what was asked.
    ms = 1e3 * fitted.seconds / options.iterations
    said = {"ms_per_iteration": ms, "iterations": iterations, "what": what}
    print(json.dumps(said))


def run_job(job: Job, options: argparse.Namespace, folder: Path) -> Case:
    data, first = make(job, folder)
    given: list[Any] = ["--data", data, "--init", first, "--iterations", job.iterations]

    def ours(workers: str, out: Path) -> dict[str, Any]:
        words = [options.qjam, "bench", "kmeans", *given, "--workers", workers, "--out", out, "--json"]
        return comparison.ask(words + ([] if job.pruning else ["--no-pruning"]))

    def theirs(name: str, out: Path) -> dict[str, Any]:
        words = [sys.executable, __file__, "peer", name, *given, "--out", out]
        return comparison.ask(words, more=blas_setting() if name == "faiss" else {})

    def contender(run: Callable[[str, Path], dict[str, Any]], what: str) -> Callable[[], dict[str, Any]]:
        return lambda: run(what, folder / f"{file_stem(what)}-centres.npy")

    contenders = {LOCAL: contender(ours, "local:2"), PROC: contender(ours, "proc:2")}
    contenders.update((name, contender(theirs, name)) for name in job.peers if name not in options.without)
    case = comparison.in_turns(Case(job.name), contenders, options.turns, "ms_per_iteration")
    # Fast and wrong would be no feat: everybody must have come to the same inertia.
    x = np.load(data, mmap_mode="r")
    for name in contenders:
        file = {LOCAL: "local:2", PROC: "proc:2"}.get(name, name)
        case.notes[name].update(quality(x, np.load(folder / f"{file_stem(file)}-centres.npy")))
    check(case, job)
    return case


def file_stem(name: str) -> str:
    return name.replace(":", "-").replace(" ", "-")


def blas_setting() -> dict[str, str]:
    """The OpenBLAS in faiss's wheel takes its oldest kernel on processors that it does not know; this names a newer one."""
    words = Path("/proc/cpuinfo").read_text().split()
    kernels = [("avx512f", "SKYLAKEX"), ("avx2", "HASWELL")]
    return next(({"OPENBLAS_CORETYPE": kernel} for flag, kernel in kernels if flag in words), {})


def check(case: Case, job: Job) -> None:
    """Ends the program when ours are not bit by bit the same, or somebody who did the same has another inertia."""
    ours = case.notes[LOCAL]
    if ours["hash"] != case.notes[PROC]["hash"]:
        sys.exit(f"{case.name}: threads and processes came to different centres")
    for name, said in case.notes.items():
        print(f"  {case.name:34} {name:18} inertia {said['inertia']:.9e}, {said['empty']} empty", flush=True)
        # Who stopped earlier, at the fixed point, is somewhere else. Among clusters, centres lose all their rows on the way,
        # for which only scikit-learn has our rule.
        same = said["iterations"] == ours["iterations"] and (not job.clustered or name == "sklearn")
        if same and abs(said["inertia"] / ours["inertia"] - 1.0) > INERTIA_OFF:
            sys.exit(f"{case.name}: {name} has another inertia than we")


def run(options: argparse.Namespace) -> None:
    jobs = [job for job in JOBS if options.only in job.name]
    if options.small:
        jobs = [replace(job, rows=job.rows // 20, k=job.k // 20 + 1) for job in jobs]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(options.folder or made)
        cases = [run_job(job, options, folder) for job in jobs]
    peers = [(job, case, name) for job, case in zip(jobs, cases) for name in FAISS if name in case.times_ms]
    bars = [Bar(case, LOCAL, name, job.at_least, job.goal) for job, case, name in peers]
    bars += [Bar(case, PROC, LOCAL, 1 / PROC_SLOWER) for case in cases]
    text = comparison.table(cases, LOCAL, "ms for an iteration")
    print("\n" + text, flush=True)
    if options.book:
        comparison.into_page(PAGE, "k-means", text)
        title = "Time of an iteration, as a multiple of ours on two threads"
        PICTURE.write_text(comparison.picture(title, cases, LOCAL), encoding="utf-8")
    what = {name: said.get("what") for case in cases for name, said in case.notes.items()}
    about = {"machine": machine(), "turns": options.turns, "contenders": what}
    comparison.finish(cases, bars, options.json, about)


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"{model}, {os.cpu_count()} cores"


def main() -> None:
    parser = argparse.ArgumentParser(description="k-means beside its peers")
    commands = parser.add_subparsers(required=True)

    all_of_them = commands.add_parser("run", help="everybody in turns")
    all_of_them.add_argument("--qjam", required=True, help="the executable")
    all_of_them.add_argument("--turns", type=int, default=3)
    all_of_them.add_argument("--only", default="", help="only jobs that have this in their names")
    all_of_them.add_argument("--small", action="store_true", help="fewer rows, to see that everything works")
    all_of_them.add_argument("--without", nargs="*", default=[], choices=sorted(PEERS), help="leave these out")
    all_of_them.add_argument("--folder", help="keep the data here")
    all_of_them.add_argument("--json", type=Path, help="write all numbers here")
    all_of_them.add_argument("--book", action="store_true", help="write table and picture into the book")
    all_of_them.set_defaults(run=run)

    one = commands.add_parser("peer", help="one of the others, once")
    one.add_argument("name", choices=sorted(PEERS))
    one.add_argument("--data", required=True)
    one.add_argument("--init", required=True)
    one.add_argument("--iterations", type=int, required=True)
    one.add_argument("--out", required=True)
    one.set_defaults(run=peer)

    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
