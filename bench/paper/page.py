"""The page of the study: pictures, a table of all variants, and what the paper reports beside what came out here."""

from __future__ import annotations

import html
import math
from pathlib import Path
from typing import Optional

from claims import CLAIMS, Claim
from figures import NAMES
from results import Results

STYLE = """
body { font: 15px/1.5 "DejaVu Sans", Verdana, sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; font-size: 13px; } th, td { border: 1px solid #ccc; padding: 3px 8px; text-align: left; }
td.n { text-align: right; font-variant-numeric: tabular-nums; } img { max-width: 100%; } .agrees { color: #2a7a3b; } .differs { color: #a33b52; }
"""
CAPTIONS = {
    "curves": "Figure 2 of the paper: how far above the optimum each variant is over time, at its best H.",
    "split": "Figures 3 and 4: where the time of a round goes when every worker takes as many steps as it has columns.",
    "times": "Figure 6: time to 1e-3 of the optimum over H, the steps between two exchanges as a share of a partition's columns.",
    "shares": "Figure 7: which share of the time workers compute.",
}


def write(results: Results, folder: Path) -> None:
    """Writes index.html beside the pictures."""
    about = results.about
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>What Spark costs</title>",
        f"<style>{STYLE}</style></head><body><h1>What Spark costs, and what can be done about it</h1>",
        f"<p>Ridge regression by CoCoA on {escape(about['data'])}, &lambda; = {about['lambda']:g}, in {about['partitions']} partitions; "
        f"one machine ({escape(about['machine'])}), {about['when']}. When the study began, {about['load']:g} processes wanted to run. "
        f"Runs over H were made {turns(int(about['turns']))}, those of {about['rounds']} rounds three times; times say little about another machine, their ratios more.</p>",
        table(results),
    ]
    for kind, caption in CAPTIONS.items():
        if (folder / f"{NAMES[kind]}.svg").exists():
            parts.append(f"<p><img src='{NAMES[kind]}.svg' alt='{escape(caption)}'><br>{escape(caption)}</p>")
    parts += ["<h2>Beside the paper</h2>", beside(results), "</body></html>"]
    (folder / "index.html").write_text("\n".join(parts) + "\n", encoding="utf-8")


def escape(text: str) -> str:
    """For a page."""
    return html.escape(text, quote=True)


def turns(count: int) -> str:
    """In words."""
    return "once" if count == 1 else f"{count} times, and the shortest counts"


def number(value: Optional[float]) -> str:
    """Three digits."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def table(results: Results) -> str:
    """A row for each variant."""
    heads = ["", "variant", "ms a round", "workers", "master", "overhead", "best H", "s to 1e-3", "computing", "beside E"]
    rows = ["<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"]
    peer = results.best_s("E")
    for one in results.measured.values():
        cells: list[Optional[float]] = [None] * 4
        if one.split is not None:
            count = len(one.split.rounds)
            kinds = (one.split.seconds, one.split.worker_s, one.split.master_s, one.split.overhead_s)
            cells = [1e3 * seconds / count for seconds in kinds]
        best = one.best(results.target)
        seconds = results.best_s(one.letter)
        cells += [best.h if best is not None and one.letter != "MLlib" else None, seconds]
        cells += [best.share if best is not None and one.letter != "MLlib" else None]
        cells += [seconds / peer if seconds and peer else None]
        numbers = "".join(f"<td class='n'>{number(cell)}</td>" for cell in cells)
        rows.append(f"<tr><td>{escape(one.letter)}</td><td>{escape(one.title)}</td>{numbers}</tr>")
    return f"<table>{''.join(rows)}</table>"


def told(claim: Claim, value: Optional[float]) -> str:
    """A figure in its unit."""
    if value is None:
        return "–"
    return f"{value:.0%}" if claim.unit == "share" else f"{number(value)} {claim.unit}".strip()


def beside(results: Results) -> str:
    """A row for each claim."""
    heads = ["figure", "the paper reports", "theirs", "ours", "", "why it may differ"]
    rows = ["<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"]
    for claim in CLAIMS:
        ours = claim.ours(results)
        verdict = claim.verdict(ours)
        cells = [claim.figure, claim.words]
        row = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        row += f"<td class='n'>{told(claim, claim.theirs)}</td><td class='n'>{told(claim, ours)}</td>"
        row += f"<td class='{verdict.split()[0]}'>{verdict}</td><td>{escape(claim.why)}</td>"
        rows.append(f"<tr>{row}</tr>")
    return f"<table>{''.join(rows)}</table>"
