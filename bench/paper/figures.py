"""The paper's figures from our numbers: suboptimality over time (2), where 30 or 100 rounds go (3 and 4), time over H (6), share of
computing over H (7). Comes in: results. Goes out: a PNG and an SVG for each.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from results import Measured, Results

COLOURS = {
    "A": "#d1602b",
    "B": "#a33b52",
    "B*": "#e6a15c",
    "C": "#3a8f4d",
    "D": "#1f5fa8",
    "D*": "#7ba3d0",
    "E": "#222222",
    "MLlib": "#b58a1b",
    "local": "#7a4fa3",
    "proc": "#b48fd0",
    "own": "#5b6770",
    "tuned": "#5b6770",
}
DASHED = {"B", "D", "own"}
NAMES = {"curves": "figure-2", "split": "figures-3-4", "times": "figure-6", "shares": "figure-7"}


def draw(results: Results, folder: Path) -> None:
    """All of them."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"font.size": 9, "svg.hashsalt": "qjam", "axes.grid": True, "grid.alpha": 0.25})
    for kind, drawn in [("curves", curves), ("split", split), ("times", times), ("shares", shares)]:
        if figure := drawn(results):
            for ending in ("png", "svg"):
                metadata = {"Date": None} if ending == "svg" else {}
                figure.savefig(folder / f"{NAMES[kind]}.{ending}", dpi=110, metadata=metadata)


def plain(width: float = 8.8, height: float = 4.4) -> tuple[Any, Any]:
    """An empty picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def look(one: Measured) -> dict[str, Any]:
    """How a variant is drawn everywhere."""
    style = "--" if one.letter in DASHED else "-"
    return {"color": COLOURS[one.letter], "linestyle": style, "label": name(one), "linewidth": 1.6}


def name(one: Measured) -> str:
    """What the legend calls it."""
    return f"{one.letter}  {one.title}"


def curves(results: Results) -> Any:
    """Figure 2: each variant at its best H, or as far as it came."""
    figure, axes = plain()
    for one in results.measured.values():
        run = one.best(results.target) or min(one.grid, key=lambda run: run.rounds[-1].objective, default=None)
        if run is None:
            continue
        points = [(seconds, share) for seconds, share in run.curve(results.optimum) if share > 1e-5]
        axes.plot([seconds for seconds, _ in points], [share for _, share in points], marker=".", markersize=3, **look(one))
    axes.axhline(1e-3, color="#888", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="seconds", ylabel="objective above the optimum, as a share of it")
    axes.set_title("Suboptimality over time, each at its best H")
    figure.legend(fontsize=7, loc="outside right upper")
    return figure


def split(results: Results) -> Any:
    """Figures 3 and 4: seconds of a round, by what they are spent on."""
    rows = [(one, one.split) for one in results.measured.values() if one.split is not None]
    if not rows:
        return None
    figure, axes = plain(7.6, 0.8 + 0.36 * len(rows))
    labels = [name(one) for one, _ in rows]
    before = [0.0] * len(rows)
    parts = [("workers", "worker_s", "#1f5fa8"), ("master", "master_s", "#222222"), ("overhead", "overhead_s", "#e0b080")]
    for label, kind, colour in parts:
        widths = [1e3 * getattr(run, kind) / len(run.rounds) for _, run in rows]
        axes.barh(labels, widths, left=before, color=colour, label=label)
        before = [x + width for x, width in zip(before, widths)]
    for at, total in enumerate(before):
        axes.text(total, at, f" {total:.3g} ms" if total < 100 else f" {total:.0f} ms", va="center", fontsize=7)
    axes.set(xlabel="milliseconds a round", xlim=(0, 1.15 * max(before)))
    axes.invert_yaxis()
    axes.set_title(f"What a round is spent on: {len(rows[0][1].rounds)} rounds, H = 1")
    axes.legend(fontsize=7, loc="lower right")
    return figure


def times(results: Results) -> Any:
    """Figure 6."""
    figure, axes = plain()
    for one in results.measured.values():
        points = [(run.h, run.to_target(results.target)) for run in one.grid]
        points = sorted(point for point in points if math.isfinite(point[1]))
        if not points:
            continue
        if one.has_h:
            axes.plot([h for h, _ in points], [seconds for _, seconds in points], marker="o", markersize=3, **look(one))
            h, seconds = min(points, key=lambda point: point[1])
            axes.plot([h], [seconds], marker="s", markersize=8, fillstyle="none", color=COLOURS[one.letter])
        else:
            axes.axhline(points[0][1], linewidth=1, linestyle=":", color=COLOURS[one.letter], label=name(one))
    axes.set(xscale="log", yscale="log", xlabel="H, as a share of a partition's columns", ylabel="seconds to 1e-3")
    axes.set_title("Time to 1e-3 of the optimum over H; squares are the best")
    figure.legend(fontsize=7, loc="outside right upper")
    return figure


def shares(results: Results) -> Any:
    """Figure 7."""
    figure, axes = plain()
    for one in (one for one in results.measured.values() if one.has_h):
        runs = sorted(one.grid, key=lambda run: run.h)
        axes.plot([run.h for run in runs], [run.share for run in runs], marker="o", markersize=3, **look(one))
        if best := one.best(results.target):
            axes.plot([best.h], [best.share], marker="s", markersize=8, fillstyle="none", color=COLOURS[one.letter])
    axes.set(xscale="log", ylim=(0, 1), xlabel="H, as a share of a partition's columns", ylabel="share of the time computing")
    axes.set_title("Share of computing over H; squares are where the time is shortest")
    figure.legend(fontsize=7, loc="outside right upper")
    return figure
