"""Readers beside polars and scikit-learn, on the same files, in the same run, in turns.

    cargo build --release -p qjam-readers --example read_speed
    python bench/readers.py target/release/examples/read_speed [--rows N] [--rounds N] [--folder F] [--only csv]

Needs numpy, polars and scikit-learn. Both sides use two threads (scikit-learn has one), and find the file in the page
cache. Printed are the least elapsed and the least processor time of the rounds, and the ratios theirs / ours: above 1 we
are faster. "kept" is reading into a file of our own, as is done with what is larger than memory. Ours has also named the
chunks by content by then. The program ends with 1 where a peer reads text faster than we do, in the median.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Callable

import comparison

os.environ["POLARS_MAX_THREADS"] = "2"

Times = tuple[float, float]


def write_table(path: Path, values: object) -> None:
    import numpy as np

    values = np.asarray(values)
    with open(path, "w") as out:
        out.write(",".join(f"c{i}" for i in range(values.shape[1])) + "\n")
        for row in values:
            out.write(",".join(map(repr, row.tolist())) + "\n")


def make_long(path: Path, rows: int) -> None:
    import numpy as np

    write_table(path, np.random.default_rng(1).normal(size=(rows, 16)))


def make_short(path: Path, rows: int) -> None:
    import numpy as np

    write_table(path, np.random.default_rng(2).integers(0, 100_000, size=(rows, 16)) / 100)


def make_integers(path: Path, rows: int) -> None:
    import numpy as np

    write_table(path, np.random.default_rng(3).integers(0, 256, size=(rows, 16)))


def make_wide(path: Path, rows: int) -> None:
    import numpy as np

    write_table(path, np.random.default_rng(4).normal(size=(rows * 16 // 1000, 1000)).round(6))


def make_narrow(path: Path, rows: int) -> None:
    import numpy as np

    write_table(path, np.random.default_rng(5).normal(size=(rows * 8, 2)).round(6))


def make_libsvm(path: Path, rows: int) -> None:
    import numpy as np

    rng = np.random.default_rng(6)
    with open(path, "w") as out:
        for _ in range(rows):
            columns = np.cumsum(rng.integers(1, 500, size=40)).tolist()
            values = rng.random(40).round(6).tolist()
            out.write(f"{int(rng.integers(2))} " + " ".join(f"{c}:{v}" for c, v in zip(columns, values)) + "\n")


def make_libsvm_long(path: Path, rows: int) -> None:
    import numpy as np

    rng = np.random.default_rng(7)
    with open(path, "w") as out:
        for _ in range(rows):
            pairs = " ".join(f"{c + 1}:{v!r}" for c, v in enumerate(rng.normal(size=20).tolist()))
            out.write(f"{int(rng.integers(2))} {pairs}\n")


def make_libsvm_ones(path: Path, rows: int) -> None:
    import numpy as np

    rng = np.random.default_rng(8)
    with open(path, "w") as out:
        for _ in range(rows):
            pairs = " ".join(f"{c}:1" for c in np.cumsum(rng.integers(1, 3000, size=40)).tolist())
            out.write(f"{int(rng.integers(2))} {pairs}\n")


def make_parquet(path: Path, rows: int) -> None:
    import numpy as np
    import polars

    values = np.random.default_rng(9).normal(size=(rows * 4, 16))
    polars.DataFrame({f"c{i}": values[:, i] for i in range(16)}).write_parquet(path)


def make_parquet_dictionary(path: Path, rows: int) -> None:
    import numpy as np
    import polars

    values = np.random.default_rng(10).integers(0, 1000, size=(rows * 4, 16)) / 8
    polars.DataFrame({f"c{i}": values[:, i] for i in range(16)}).write_parquet(path, compression="snappy")


def make_parquet_wide(path: Path, rows: int) -> None:
    import numpy as np
    import polars

    values = np.random.default_rng(11).normal(size=(rows * 4 * 16 // 500, 500))
    polars.DataFrame({f"c{i}": values[:, i] for i in range(500)}).write_parquet(path)


def timed(call: Callable[[], object]) -> Times:
    start, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - start, time.process_time() - cpu


def ours(program: str, kind: str, path: Path, *more: str) -> Times:
    command = [program, kind, str(path), "2", *more]
    words = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return float(words[0]), float(words[2])


def kept(program: str, kind: str, path: Path) -> Times:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        return ours(program, kind, path, folder)


def polars_csv(path: Path) -> Times:
    import polars

    return timed(lambda: polars.read_csv(path))


def polars_parquet(path: Path) -> Times:
    import polars

    return timed(lambda: polars.read_parquet(path))


def polars_parquet_rows(path: Path) -> Times:
    """As row-major numbers, which is what ours gives."""
    import polars

    return timed(lambda: polars.read_parquet(path).to_numpy(order="c"))


def sklearn_libsvm(path: Path) -> Times:
    from sklearn.datasets import load_svmlight_file

    return timed(lambda: load_svmlight_file(str(path)))


TASKS: list[tuple[str, str, Callable[[Path, int], None], list[tuple[str, Callable[[Path], Times]]]]] = [
    ("csv", "17 digits", make_long, [("polars", polars_csv)]),
    ("csv", "2 decimals", make_short, [("polars", polars_csv)]),
    ("csv", "integers", make_integers, [("polars", polars_csv)]),
    ("csv", "1000 columns", make_wide, [("polars", polars_csv)]),
    ("csv", "2 columns", make_narrow, [("polars", polars_csv)]),
    ("libsvm", "6 decimals", make_libsvm, [("scikit-learn", sklearn_libsvm)]),
    ("libsvm", "17 digits", make_libsvm_long, [("scikit-learn", sklearn_libsvm)]),
    ("libsvm", "ones", make_libsvm_ones, [("scikit-learn", sklearn_libsvm)]),
    ("parquet", "zstd, plain", make_parquet, [("polars", polars_parquet), ("polars, by rows", polars_parquet_rows)]),
    ("parquet", "snappy, dictionary", make_parquet_dictionary,
     [("polars", polars_parquet), ("polars, by rows", polars_parquet_rows)]),
    ("parquet", "500 columns", make_parquet_wide,
     [("polars", polars_parquet), ("polars, by rows", polars_parquet_rows)]),
]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="keeps the files that are read, for the next time")
    parser.add_argument("--only", default="", help="only kinds and names with this in them")
    parser.add_argument("--kept", action="store_true", help="reads into kept files, too")
    parser.add_argument("--json", type=Path, help="write all numbers here")
    args = parser.parse_args()
    cases: list[comparison.Case] = []
    made = None if args.folder else tempfile.mkdtemp()
    folder = Path(args.folder or made or ".")
    folder.mkdir(exist_ok=True)
    try:
        for kind, what, make, peers in TASKS:
            if args.only not in f"{kind} {what}":
                continue
            path = folder / f"{what.replace(' ', '-').replace(',', '')}.{kind}"
            if not path.exists():
                make(path, args.rows)
            runs: list[tuple[str, Callable[[], Times]]] = [("qjam", lambda: ours(args.program, kind, path))]
            if args.kept:
                runs.append(("qjam, kept", lambda: kept(args.program, kind, path)))
            runs += [(name, lambda peer=peer: peer(path)) for name, peer in peers]  # type: ignore[misc]
            # In turns, so that what else the machine does hits all.
            times = [[run() for _, run in runs] for _ in range(args.rounds)]
            elapsed_ms = [[1e3 * t[0] for t in column] for column in zip(*times)]
            cases.append(comparison.Case(f"{kind}, {what}", dict(zip((name for name, _ in runs), elapsed_ms))))
            best = [(min(t[0] for t in column), min(t[1] for t in column)) for column in zip(*times)]
            print(f"{kind}, {what}, {path.stat().st_size / 1e6:.0f} MB")
            for (name, _), (elapsed, cpu) in zip(runs, best):
                print(f"    {name:16} {elapsed:6.3f} s elapsed ({elapsed / best[0][0]:5.2f} x)"
                      f" {cpu:6.3f} s processor ({cpu / best[0][1]:5.2f} x)", flush=True)
    finally:
        if made:
            shutil.rmtree(made)
    texts = [case for case in cases if case.name.startswith(("csv", "libsvm"))]
    peers_of = [(case, name) for case in texts for name in case.times_ms if not name.startswith("qjam")]
    bars = [comparison.Bar(case, "qjam", name, 0.8, 1.0) for case, name in peers_of]
    comparison.finish(cases, bars, args.json, {"rounds": args.rounds, "rows": args.rows})


if __name__ == "__main__":
    main()
