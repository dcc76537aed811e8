"""How much to compute between two exchanges: time to 1e-3 of the optimum over H, on every engine.

    cargo build --release -p qjam-cli --features mpi
    python bench/cocoa_figures.py --qjam target/release/qjam --book

These are figures 6 and 7 of the paper of 2016 on learning with Spark and MPI by Dünner, Parnell, Atasu, Sifalakis and
Pozidis, from runs of ours: H is told as a share of a partition's columns and sigma' is the number of partitions, as in the
paper. A diamond is a run that was told neither. It takes some minutes and writes two pictures, a table and a tuner's log
into the book; without --book they go to the folder that --folder names.

Threads and processes are two of this machine. The ssh hosts are this machine too, each with an sshd of its own (`sshd.py`),
once beside us and once at the end of a line with a round trip of 5 ms; --hosts NAME=WORKERS adds a curve for hosts of yours
(with QJAM_SSH, if ssh needs options). Ranks of MPI need an executable with the feature `mpi`: --qjam, or another one that
--mpi-qjam names. What cannot be measured is said, and makes the command fail unless --without names it.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Optional

import comparison
import curves
import sshd
from cocoa import PAGE, ROOT, Programs, common, machine, main_problem, optimum
from curves import Axis, Curve
from sparse import Problem

TIMES = ROOT / "docs" / "book" / "img" / "cocoa-h-time.svg"
SHARES = ROOT / "docs" / "book" / "img" / "cocoa-h-share.svg"
GRID = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8]
# What is added to a round, and how far away hosts are, there and back.
AWAY_MS = 5
# Lines of the tuner's log that are shown.
LOG_LINES = 24

Run = Callable[[Optional[float]], dict[str, Any]]


@dataclass
class Engine:
    """Where it runs: a run with this H, or with none given."""

    name: str
    run: Run
    tunes: bool = True
    dashed: bool = False


def setting(h: Optional[float]) -> list[Any]:
    """Work that is given, or chosen for this engine: by the clock. Two partitions in any case, as in the paper."""
    return ["--partitions", 2, *(["--tuning", "clock"] if h is None else ["--h", h, "--sigma", 2])]


def engines(
    programs: Programs, problem: Problem, options: argparse.Namespace, ends: contextlib.ExitStack
) -> list[Engine]:
    """All that are wanted. Hosts that are made for it last until `ends` is closed."""

    def ours(workers: str, *more: Any, environment: Optional[dict[str, str]] = None) -> Run:
        def run(h: Optional[float]) -> dict[str, Any]:
            return programs.ours(problem, workers, *setting(h), *more, environment=environment)

        return run

    def peer(h: Optional[float]) -> dict[str, Any]:
        said = programs.theirs(problem, 2, h or 1.0)
        return {**said, "worker_s": said["worker"], "seconds": said["ms"] / 1e3}

    def under_mpi(h: Optional[float]) -> dict[str, Any]:
        return programs.ours_on_ranks(options.mpi_qjam, problem, 2, *setting(h))

    found = [
        Engine("threads", ours("local:2")),
        Engine("processes", ours("proc:2")),
        Engine(f"processes, {AWAY_MS} ms more a round", ours("proc:2", "--delay-ms", AWAY_MS)),
    ]
    if "ssh" not in options.without:
        for name, away_ms in [("ssh hosts", 0), (f"ssh hosts, {AWAY_MS} ms away", AWAY_MS)]:
            workers, environment = ends.enter_context(sshd.hosts(2, away_ms))
            found.append(Engine(name, ours(workers, environment=environment)))
    for given in options.hosts:
        name, _, workers = given.partition("=")
        found.append(Engine(name, ours(workers)))
    if "mpi" not in options.without:
        found.append(Engine("MPI ranks", under_mpi))
    found.append(Engine("C++ and MPI by hand", peer, tunes=False, dashed=True))
    return found


def check(options: argparse.Namespace) -> None:
    """Says before anything is measured what a whole picture lacks."""
    lacking = []
    if "ssh" not in options.without and sshd.sshd() is None:
        lacking.append("there is no sshd (on Debian: apt install openssh-server), or say --without ssh")
    if "mpi" not in options.without:
        words = [options.mpi_qjam, "bench", "cocoa", "none", "--lambda", "1", "--eta", "1", "--engine", "mpi"]
        said = subprocess.run(words, capture_output=True, text=True).stderr
        if "was not" in said:
            lacking.append(
                f"{options.mpi_qjam} was built without MPI (cargo build --release -p qjam-cli --features mpi), "
                "or say --without mpi"
            )
    if lacking:
        sys.exit("\n".join(lacking))


@dataclass
class Measured:
    """Of one engine: time and share of computing at each H, and what was chosen when nobody said."""

    engine: Engine
    points: list[tuple[float, float, float]]
    chosen: Optional[tuple[float, float, float]]

    @property
    def best(self) -> tuple[float, float, float]:
        return min(self.points, key=lambda point: point[1])


def measured(engines: list[Engine], turns: int) -> list[Measured]:
    """The shortest of several runs: what comes on top is the machine's other business.

    All engines take their turn at an H before the next one, so that a machine that is slow for a while is slow for all.
    """
    shortest: dict[tuple[str, Optional[float]], dict[str, Any]] = {}
    for turn in range(turns):
        for h in [*GRID, None]:
            for engine in engines:
                if h is None and not engine.tunes:
                    continue
                said = engine.run(h)
                print(f"  turn {turn + 1}  {engine.name:32} {told(said)}", flush=True)
                before = shortest.get((engine.name, h))
                if before is None or said["seconds"] < before["seconds"]:
                    shortest[engine.name, h] = said

    def point(engine: Engine, h: Optional[float]) -> tuple[float, float, float]:
        said = shortest[engine.name, h]
        share = said["worker_s"] / said["seconds"] if math.isfinite(said["seconds"]) else 0.0
        return (said["h"] if h is None else h), said["seconds"], share

    found = []
    for engine in engines:
        points = [one for one in (point(engine, h) for h in GRID) if math.isfinite(one[1])]
        found.append(Measured(engine, points, point(engine, None) if engine.tunes else None))
    return found


def told(said: dict[str, Any]) -> str:
    return f"H {said['h']:8.3f}  {said['seconds']:8.4f} s, {said['worker_s']:8.4f} s of it computing"


def draw(found: list[Measured], notes: list[str]) -> tuple[str, str]:
    times = [time for one in found for _, time, _ in one.points] + [
        one.chosen[1] for one in found if one.chosen
    ]
    across = [h for one in found for h, _, _ in one.points] + [one.chosen[0] for one in found if one.chosen]
    h_axis = Axis(
        "H: columns visited between two exchanges, as a share of a partition's", curves.decades(across)
    )
    time_axis = Axis("time to 1e-3 of the optimum", curves.decades(times), text=curves.tick_seconds)
    share_axis = Axis(
        "share of the time spent computing", [0, 0.2, 0.4, 0.6, 0.8, 1.0], False, lambda v: f"{v:.0%}"
    )

    def curve(one: Measured, which: int) -> Curve:
        diamond = None if one.chosen is None else (one.chosen[0], one.chosen[which])
        points = [(point[0], point[which]) for point in one.points]
        return Curve(one.engine.name, points, (one.best[0], one.best[which]), diamond, one.engine.dashed)

    time = curves.chart(
        "Too little, too much: time to a good model", [curve(o, 1) for o in found], h_axis, time_axis, notes
    )
    share = curves.chart("What the time is spent on", [curve(o, 2) for o in found], h_axis, share_axis, notes)
    return time, share


def table(found: list[Measured]) -> str:
    lines = [
        "| | best H | time | computing | chosen while running: H | time | computing | of the best |",
        "|---" * 8 + "|",
    ]
    for one in found:
        h, time, share = one.best
        cells = [one.engine.name, f"{h:g}", curves.seconds(time), f"{share:.0%}"]
        if one.chosen is None:
            cells += ["–"] * 4
        else:
            at, took, of = one.chosen
            cells += [f"{at:.2f}", curves.seconds(took), f"{of:.0%}", f"{took / time:.2f} x"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def log(programs: Programs, problem: Problem) -> str:
    """What the tuner says when every round takes 5 ms more."""
    words = [
        programs.qjam,
        "bench",
        "cocoa",
        problem.npz,
        "--labels",
        problem.labels,
        "--lambda",
        problem.lam,
    ]
    words += [
        "--eta",
        problem.eta,
        "--target",
        f"{problem.target:.17g}",
        "--workers",
        "proc:2",
        "--tuning",
        "clock",
        "--delay-ms",
        5,
    ]
    done = subprocess.run([str(word) for word in [*words, "--explain"]], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    lines = [line for line in done.stderr.splitlines() if "round " in line]
    more = [f"[{len(lines) - LOG_LINES} more]"] if len(lines) > LOG_LINES else []
    return "\n".join(["```text", *lines[:LOG_LINES], *more, *done.stdout.splitlines()[1:], "```"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="how the time depends on H")
    common(parser, "20000,80000,60")
    parser.add_argument("--hosts", nargs="*", default=[], metavar="NAME=WORKERS", help="workers on hosts")
    parser.add_argument("--mpi-qjam", help="an executable with the feature mpi, if --qjam has it not")
    parser.add_argument("--without", nargs="*", default=[], choices=["ssh", "mpi"], help="leave these out")
    options = parser.parse_args()
    options.mpi_qjam = str(Path(options.mpi_qjam or options.qjam).resolve())
    check(options)
    # Told to end, it leaves no folders and no hosts behind either.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as made, contextlib.ExitStack() as ends:
        folder = Path(options.folder or made)
        folder.mkdir(parents=True, exist_ok=True)
        programs = Programs(options, folder)
        problem = optimum(programs, main_problem(programs, options, "ridge", 1.0, 1.0))
        rows, columns = problem.load()[0].shape
        found = measured(engines(programs, problem, options, ends), options.turns)
        notes = ["ridge", f"{rows} rows", f"{columns} columns", "two workers"]
        notes += [f"shortest of {options.turns} runs", machine()]
        time, share = draw(found, notes)
        text, said = table(found), log(programs, problem)
        print(f"\n{text}\n{said}", flush=True)
        if options.book:
            TIMES.write_text(time, encoding="utf-8")
            SHARES.write_text(share, encoding="utf-8")
            comparison.into_page(PAGE, "cocoa h", f"{text}\n*{machine()}*\n")
            comparison.into_page(PAGE, "cocoa log", said)
        elif options.folder:
            (folder / TIMES.name).write_text(time, encoding="utf-8")
            (folder / SHARES.name).write_text(share, encoding="utf-8")


if __name__ == "__main__":
    main()
