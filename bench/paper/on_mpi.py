"""Variant E: `bench/cocoa_peer.cpp` under mpirun, with the columns and draws of the others."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from problem import Data
from variants import SEED, Round, Run, Variant

SOURCE = Path(__file__).resolve().parent.parent / "cocoa_peer.cpp"
TOLD = re.compile(r"^round=\d+ seconds=(\S+) worker=(\S+) objective=(\S+)$", re.MULTILINE)


def tool(name: str) -> str:
    """A program of the environment that this runs in, or of the system."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        sys.exit(f"{name} is missing: install an MPI with its compiler (on Debian: apt install libopenmpi-dev), or --without mpi")
    return found


def variant(data: Data) -> Variant:
    """E; compiles it."""
    program = data.folder / "cocoa_peer"
    # Products and sums are rounded one by one, as everywhere else in the study.
    flags = ["-O3", "-march=native", "-ffp-contract=off", "-std=c++17"]
    subprocess.run([tool("mpicxx"), *flags, str(SOURCE), "-o", str(program)], check=True)

    def run(h: float, most: int, target: float, limit_s: float) -> Run:
        words = [tool("mpirun"), "-n", str(data.partitions), "--bind-to", "none", "--oversubscribe"]
        words += ["--allow-run-as-root"] if os.getuid() == 0 else []
        words += [str(program), str(data.raw), repr(data.lam), "1", repr(h), str(most), repr(target), str(SEED)]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"`{' '.join(words)}` ended with {done.returncode} and said '{done.stdout.strip()}'")
        found = [tuple(map(float, numbers)) for numbers in TOLD.findall(done.stdout)]
        return Run([Round(seconds, worker, 0.0, objective) for seconds, worker, objective in found], h)

    return Variant("E", "C++ and MPI", run)
