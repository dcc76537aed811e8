"""What rounds through a bucket cost: the experiments of the paper on k-means over blob storage, on a bucket of yours.

    cargo build --release -p qjam-cli
    python bench/store.py --qjam target/release/qjam --store file:///mnt/share/qjam --book

Three tables, each from `qjam bench store`: communication over the number of mappers, with prototypes of 8 MB; a fixed sum of
work over 1 to 64 mappers; and a slow mapper, with and without backups. They take about ten minutes. With --book they and a
picture go into the book, otherwise they are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from comparison import into_page
from curves import Axis, Curve, chart, decades, tick_seconds

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "book" / "bucket-costs.md"
PICTURE = ROOT / "docs" / "book" / "img" / "bucket-measured.svg"
BYTES = 8_000_000
ITERATIONS = 10
# Mappers, and seconds of communication in an iteration as the paper measured them.
PAPER = {5: 13.7, 10: 15.0, 20: 18.5, 30: 20.9, 60: 28.4, 90: 35.9, 120: 44.1}


def bench(options: argparse.Namespace, mappers: int, work_ms: float, *more: Any, iterations: int = ITERATIONS) -> dict[str, Any]:
    """One run."""
    words = [options.qjam, "bench", "store", "--json", "--store", options.store, "--bytes", BYTES]
    words += ["--mappers", mappers, "--work-ms", round(work_ms), "--iterations", iterations, *more]
    done = subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True)
    said: dict[str, Any] = json.loads(done.stdout)
    print(json.dumps(said), flush=True)
    return said


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def head(*cells: str) -> str:
    return row(*cells) + "|" + "---:|" * len(cells) + "\n"


def each(said: dict[str, Any]) -> float:
    """Seconds of communication in an iteration."""
    return float(said["communication_s"]) / int(said["iterations"])


def processor(said: dict[str, Any]) -> float:
    """Seconds of processor time in an iteration."""
    return float(said["cpu_s"]) / int(said["iterations"])


def communication(options: argparse.Namespace) -> tuple[str, list[tuple[float, float]]]:
    """Over the number of mappers; the last also with the work of the paper."""
    text = head("mappers", "work", "communication", "processor time", "efficiency", "requests of a task", "the paper's communication", "the paper's efficiency at 15 s")
    points = []
    runs = [(mappers, 1000, ITERATIONS) for mappers in PAPER] + [(120, 15_000, 3)]
    for mappers, work_ms, iterations in runs:
        said = bench(options, mappers, work_ms, iterations=iterations)
        requests = (said["blob_requests"] + said["queue_requests"]) / said["tasks"]
        paper = PAPER[mappers]
        text += row(
            str(mappers),
            f"{work_ms / 1000:g} s",
            f"{each(said):.3f} s",
            f"{processor(said):.2f} s",
            f"{100 * said['efficiency']:.1f} %",
            f"{requests:.0f}",
            f"{paper:.1f} s",
            f"{100 * 15 / (15 + paper):.0f} %",
        )
        if work_ms == 1000:
            points.append((float(mappers), each(said)))
    return text, points


def scale_up(options: argparse.Namespace) -> str:
    """A minute of work over more and more mappers."""
    text = head("mappers", "work of each in an iteration", "wall", "speed-up", "efficiency", "processor time of an iteration")
    for mappers in [1, 2, 4, 8, 16, 32, 64]:
        said = bench(options, mappers, 60_000 / ITERATIONS / mappers)
        speed_up = 60 / said["wall_s"]
        text += row(
            str(mappers),
            f"{said['work_ms']} ms",
            f"{said['wall_s']:.2f} s",
            f"{speed_up:.2f}",
            f"{100 * speed_up / mappers:.0f} %",
            f"{processor(said):.2f} s",
        )
    return text


def stragglers(options: argparse.Namespace) -> str:
    """One mapper of sixteen takes ten times as long."""
    text = head("16 mappers of 2 s", "wall of 3 iterations", "tasks that were run")
    for name, more in [
        ("none is slow", []),
        ("one takes ten times as long, no backups", ["--slow", 1, "--no-backups"]),
        ("one takes ten times as long, backups", ["--slow", 1]),
    ]:
        said = bench(options, 16, 2000, *more, iterations=3)
        text += row(name, f"{said['wall_s']:.1f} s", str(said["tasks"]))
    return text


def main() -> None:
    about = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    about.add_argument("--qjam", default="target/release/qjam", help="the command")
    about.add_argument("--store", required=True, help="the bucket")
    about.add_argument("--book", action="store_true", help="put tables and picture into the book")
    options = about.parse_args()
    table, points = communication(options)
    grows, slow = scale_up(options), stragglers(options)
    curves = [
        Curve("measured here", points),
        Curve("the paper", [(float(p), s) for p, s in PAPER.items()], dashed=True),
    ]
    values = [s for curve in curves for _, s in curve.points]
    notes = ["prototypes of 8 MB", f"{os.cpu_count()} cores", "the paper: one machine for each mapper"]
    drawn = chart(
        "Communication in an iteration",
        curves,
        Axis("mappers", [5, 10, 20, 30, 60, 120]),
        Axis("seconds", decades(values), text=tick_seconds),
        notes,
    )
    if options.book:
        PICTURE.write_text(drawn)
        into_page(PAGE, "measured", table)
        into_page(PAGE, "scale-up", grows)
        into_page(PAGE, "stragglers", slow)
    else:
        print(table, grows, slow, sep="\n")


if __name__ == "__main__":
    main()
