"""The study of the paper of 2016 on learning with Spark and MPI (Dünner, Parnell, Atasu, Sifalakis, Pozidis), from one command.

    python bench/paper/study.py --quick [--out FOLDER] [--jar qjam-spark.jar --native libqjam_spark_jni.so]
    python bench/paper/study.py --size 20000,80000,60 --rounds 100 --turns 3
    python bench/paper/study.py --data a9a.libsvm.gz --variants C,D,D*,E
    python bench/paper/study.py --redraw FOLDER

The same rounds of CoCoA for ridge regression run as programs of several kinds: A (Scala on RDDs), B (Scala with a native solver), C
(Python with NumPy), D (Python with a native solver), B* and D* (native, data and coordinates stay in the workers), E (C++ and MPI), and
on this project's threads (`local`) and processes (`proc`); beside them MLlib, and this project's own method with its tuner on Spark
(`tuned`). Each has the same partitions and draws the same columns, and objectives are computed in one place. `cargo xtask paper`
builds what is needed and runs this.

It leaves results.json, pictures and index.html in the folder. Nothing here is a bar: times are of this machine and of this hour.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import figures  # noqa: E402
import on_jvm  # noqa: E402
import on_mllib  # noqa: E402
import on_mpi  # noqa: E402
import on_pyspark  # noqa: E402
import on_qjam  # noqa: E402
import page  # noqa: E402
import problem  # noqa: E402
import session  # noqa: E402
from results import Measured, Results, loaded  # noqa: E402
from variants import AGREE, Run, Variant, checked  # noqa: E402

LETTERS = ["A", "B", "B*", "C", "D", "D*", "E", "MLlib", "local", "proc", "own", "tuned"]
# Those whose rounds run on Spark.
ON_SPARK = {"A", "B", "B*", "C", "D", "D*", "MLlib", "own", "tuned"}
ON_JVM = {"A", "B", "B*"}
WARM_ROUNDS, SPLIT_TURNS = 5, 3
QUICK_SIZE, SIZE = (10_000, 20_000, 60), (20_000, 80_000, 60)
QUICK_GRID, GRID = [0.1, 0.5, 2.0, 8.0], [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Spark and MPI for the same algorithm")
    parser.add_argument("--quick", action="store_true", help="small data, few rounds: ten minutes on two cores")
    parser.add_argument("--out", type=Path, default=Path("target/paper"), help="where pictures and page go")
    parser.add_argument("--redraw", type=Path, help="only draw what results.json of this folder has")
    parser.add_argument("--data", type=Path, help="a LIBSVM file instead of generated data")
    parser.add_argument("--size", help="ROWS,COLUMNS,ENTRIES of generated data")
    parser.add_argument("--lam", type=float, default=1.0, help="weight of half the squares of coefficients")
    parser.add_argument("--partitions", type=int, default=2, help="executors, ranks, workers")
    parser.add_argument("--rounds", type=int, help="rounds for the split of time (100, with --quick 10)")
    parser.add_argument("--turns", type=int, default=1, help="how often the runs over H are made; the shortest counts")
    parser.add_argument("--limit", type=float, help="seconds after which a run to the target may end")
    parser.add_argument("--variants", help=f"some of {','.join(LETTERS)}; all that can be built by default")
    parser.add_argument("--master", help="a cluster of Spark that is there already, instead of one on this machine")
    parser.add_argument("--jar", type=Path, help="qjam-spark.jar, for A, B and B*")
    parser.add_argument("--native", type=Path, help="libqjam_spark_jni.so, for B and B*")
    return parser.parse_args()


def wanted(chosen: argparse.Namespace) -> list[str]:
    """The variants to run; says which are left out."""
    found = LETTERS if chosen.variants is None else [one.strip() for one in chosen.variants.split(",")]
    unknown = [letter for letter in found if letter not in LETTERS]
    if unknown:
        sys.exit(f"--variants: there is no {', '.join(unknown)}; there are {', '.join(LETTERS)}")
    lacking = [one for one in found if one in ON_JVM and (chosen.jar is None or (one != "A" and chosen.native is None))]
    if lacking and chosen.variants is not None:
        sys.exit(f"{', '.join(lacking)}: needs --jar and --native; `cargo xtask spark-jar` builds both")
    if lacking:
        print(f"left out: {', '.join(lacking)} (no --jar, no --native; `cargo xtask spark-jar` builds both)", flush=True)
    return [letter for letter in found if letter not in lacking]


class Masters:
    """Masters of ours by what they run on, each made when it is needed; one at a time works on a SparkContext."""

    def __init__(self, ends: contextlib.ExitStack) -> None:
        self.ends = ends
        self.made: dict[str, Any] = {}

    def of(self, key: str, **settings: Any) -> Callable[[], Any]:
        def master() -> Any:
            if key not in self.made:
                import qjam

                self.made[key] = self.ends.enter_context(qjam.Master(progress=False, run_folder=False, **settings))
            return self.made[key]

        return master


def variants(letters: list[str], data: problem.Data, chosen: argparse.Namespace, context: Any, masters: Masters) -> list[Variant]:
    k = data.partitions
    on_spark = masters.of("spark", spark=context)
    makers: dict[str, Callable[[], Variant]] = {
        "A": lambda: on_jvm.variant(context, data, "A", chosen.native),
        "B": lambda: on_jvm.variant(context, data, "B", chosen.native),
        "B*": lambda: on_jvm.variant(context, data, "B*", chosen.native),
        "C": lambda: on_pyspark.variant(context, data, False),
        "D": lambda: on_pyspark.variant(context, data, True),
        "D*": lambda: on_qjam.same("D*", "qjam on Spark", on_spark, data),
        "E": lambda: on_mpi.variant(data),
        "MLlib": lambda: on_mllib.variant(context, data),
        "local": lambda: on_qjam.same("local", "qjam, threads", masters.of("local", workers=f"local:{k}"), data),
        "proc": lambda: on_qjam.same("proc", "qjam, processes", masters.of("proc", workers=f"proc:{k}"), data),
        "own": lambda: on_qjam.own("own", "qjam's method on Spark, H given", on_spark, data, False),
        "tuned": lambda: on_qjam.own("tuned", "qjam's method on Spark, tuned", on_spark, data, True),
    }
    return [makers[letter]() for letter in letters]


def measure(found: list[Variant], data: problem.Data, chosen: argparse.Namespace, kept: Results, to: Path) -> None:
    for variant in found:
        kept.measured[variant.letter] = Measured(variant.letter, variant.title, variant.is_same, variant.has_h)
    same = [variant for variant in found if variant.is_same]
    for variant in same:
        # The first rounds bring data, start processes, and have Java compile.
        variant.run(1.0, WARM_ROUNDS, 0.0, math.inf)
    # In turns, so that a machine that is slow for a while is slow for all; the shortest counts.
    for turn in range(SPLIT_TURNS):
        for variant in same:
            run = checked(data, variant, variant.run(1.0, chosen.rounds, 0.0, math.inf))
            measured = kept.measured[variant.letter]
            if measured.split is None or run.seconds < measured.split.seconds:
                measured.split = run
            print(
                f"  {variant.letter:6} {len(run.rounds)} rounds, H = 1: {run.seconds:8.3f} s; workers {run.worker_s:8.3f} s, "
                f"master {run.master_s:6.3f} s, overhead {run.overhead_s:8.3f} s",
                flush=True,
            )
        kept.save(to)
    agree(kept)
    grid = QUICK_GRID if chosen.quick else GRID
    for turn in range(chosen.turns):
        for variant in found:
            for h in grid if variant.has_h else [1.0]:
                run = checked(data, variant, variant.run(h, 2000, data.target, chosen.limit))
                keep(kept.measured[variant.letter], run, data.target, turn)
                said = f"{run.to_target(data.target):9.3f} s, {len(run.rounds)} rounds, {run.share:.0%} computing"
                print(f"  {variant.letter:6} H = {run.h:7.3f}: {said}", flush=True)
                kept.save(to)


def keep(measured: Measured, run: Run, target: float, turn: int) -> None:
    """Keeps the shorter of two runs."""
    at = 0 if turn and not measured.has_h else next((i for i, one in enumerate(measured.grid) if one.h == run.h), None)
    if at is None:
        measured.grid.append(run)
    elif run.to_target(target) < measured.grid[at].to_target(target):
        measured.grid[at] = run


def agree(kept: Results) -> None:
    """All variants that take the same steps have come to the same objectives."""
    runs = [(one.letter, one.split) for one in kept.measured.values() if one.is_same and one.split is not None]
    for letter, run in runs[1:]:
        first_letter, first = runs[0]
        assert first is not None
        for number, (one, other) in enumerate(zip(first.rounds, run.rounds), 1):
            if not abs(one.objective - other.objective) <= AGREE * abs(one.objective):
                sys.exit(
                    f"round {number}: {first_letter} comes to {one.objective!r} and {letter} to {other.objective!r}; "
                    "they are not the same algorithm"
                )
    print(f"  the same objectives in every round: {', '.join(letter for letter, _ in runs)}", flush=True)


def about(data: problem.Data, chosen: argparse.Namespace) -> dict[str, Any]:
    cores = len(os.sched_getaffinity(0))
    return {
        "data": data.name,
        "lambda": data.lam,
        "partitions": data.partitions,
        "rounds": chosen.rounds,
        "turns": chosen.turns,
        "limit_s": chosen.limit,
        "machine": f"{platform.machine()}, {cores} cores",
        "load": round(os.getloadavg()[0], 1),
        "when": time.strftime("%Y-%m-%d"),
    }


def main() -> None:
    chosen = options()
    if chosen.redraw:
        kept = loaded(chosen.redraw / "results.json")
        figures.draw(kept, chosen.redraw)
        page.write(kept, chosen.redraw)
        return
    chosen.rounds = chosen.rounds or (10 if chosen.quick else 100)
    chosen.limit = chosen.limit or (40.0 if chosen.quick else 300.0)
    letters = wanted(chosen)
    out, folder = chosen.out.resolve(), chosen.out.resolve() / "data"
    folder.mkdir(parents=True, exist_ok=True)
    if chosen.data:
        data = problem.read(folder, chosen.data, chosen.lam, chosen.partitions)
    else:
        rows, columns, entries = map(int, chosen.size.split(",")) if chosen.size else QUICK_SIZE if chosen.quick else SIZE
        data = problem.made(folder, (rows, columns, entries), chosen.lam, chosen.partitions)
    print(f"{data.name}, in {data.partitions} partitions; optimum {data.optimum:.9e}", flush=True)
    kept = Results(about(data, chosen), data.optimum, data.target)
    with contextlib.ExitStack() as ends:
        context: Optional[Any] = None
        if ON_SPARK.intersection(letters):
            context = ends.enter_context(session.spark(data.partitions, chosen.master, chosen.jar))
            session.everywhere(context, data.partitions)
        masters = Masters(ends)
        measure(variants(letters, data, chosen, context, masters), data, chosen, kept, out / "results.json")
    figures.draw(kept, out)
    page.write(kept, out)
    print(f"{out / 'index.html'}", flush=True)


if __name__ == "__main__":
    main()
