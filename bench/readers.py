"""Readers beside polars and scikit-learn, on the same files, in the same run, best of several.

    cargo build --release -p qjam-readers --example read_speed
    python bench/readers.py target/release/examples/read_speed [--rows N] [--rounds N]

Needs numpy, polars and scikit-learn. Both sides use two threads (scikit-learn has one), read into memory, and find the
file in the page cache.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path

os.environ["POLARS_MAX_THREADS"] = "2"


def make_csv(path: Path, rows: int) -> None:
    import numpy as np

    rng = np.random.default_rng(1)
    values = rng.normal(size=(rows, 16))
    with open(path, "w") as out:
        out.write(",".join(f"c{i}" for i in range(16)) + "\n")
        for row in values:
            out.write(",".join(map(repr, row.tolist())) + "\n")


def make_short_csv(path: Path, rows: int) -> None:
    import numpy as np

    rng = np.random.default_rng(2)
    np.savetxt(path, rng.integers(0, 100_000, size=(rows, 16)) / 100, fmt="%.2f", delimiter=",",
               header=",".join(f"c{i}" for i in range(16)), comments="")


def make_libsvm(path: Path, rows: int) -> None:
    import numpy as np

    rng = np.random.default_rng(3)
    with open(path, "w") as out:
        for _ in range(rows):
            columns = np.cumsum(rng.integers(1, 500, size=40)).tolist()
            values = rng.random(40).round(6).tolist()
            out.write(f"{int(rng.integers(2))} " + " ".join(f"{c}:{v}" for c, v in zip(columns, values)) + "\n")


def ours(program: str, kind: str, path: Path) -> float:
    out = subprocess.run([program, kind, str(path), "2"], capture_output=True, text=True, check=True).stdout
    return float(out.split()[0])


def polars_csv(path: Path) -> float:
    import polars

    start = time.perf_counter()
    polars.read_csv(path)
    return time.perf_counter() - start


def polars_parquet(path: Path) -> float:
    import polars

    start = time.perf_counter()
    polars.read_parquet(path)
    return time.perf_counter() - start


def sklearn_libsvm(path: Path) -> float:
    from sklearn.datasets import load_svmlight_file

    start = time.perf_counter()
    load_svmlight_file(str(path))
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(args.folder or made)
        tasks = [
            ("csv", "long numbers", make_csv, polars_csv, "polars"),
            ("csv", "short numbers", make_short_csv, polars_csv, "polars"),
            ("libsvm", "40 of 10000", make_libsvm, sklearn_libsvm, "scikit-learn"),
        ]
        for kind, what, make, peer, name in tasks:
            path = folder / f"{what.replace(' ', '-')}.{kind}"
            if not path.exists():
                make(path, args.rows)
            mega = path.stat().st_size / 1e6
            # In turns, so that what else the machine does hits both.
            times = [(ours(args.program, kind, path), peer(path)) for _ in range(args.rounds)]
            mine, theirs = (min(column) for column in zip(*times))
            print(f"{kind:8} {what:14} {mega:6.0f} MB  qjam {mega / mine:6.0f} MB/s  "
                  f"{name} {mega / theirs:6.0f} MB/s  {theirs / mine:.2f} x", flush=True)
            if kind == "csv" and what == "long numbers":
                import polars

                other = folder / "numbers.parquet"
                if not other.exists():
                    polars.read_csv(path).write_parquet(other)
                mega = other.stat().st_size / 1e6
                try:
                    times = [(ours(args.program, "parquet", other), polars_parquet(other)) for _ in range(args.rounds)]
                except subprocess.CalledProcessError:
                    continue
                mine, theirs = (min(column) for column in zip(*times))
                print(f"{'parquet':8} {what:14} {mega:6.0f} MB  qjam {mega / mine:6.0f} MB/s  "
                      f"{'polars'} {mega / theirs:6.0f} MB/s  {theirs / mine:.2f} x", flush=True)


if __name__ == "__main__":
    main()
