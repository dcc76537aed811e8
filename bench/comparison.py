"""What the comparisons have in common: programs in turns, ratios against bars, a table and a picture.

A time says nothing about another machine, and little about the next minute on this one. So ours and theirs run one
after the other, several times over, and what counts is the ratio of the medians.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

# Every library has its own variable for the number of its threads.
THREAD_VARIABLES = [
    "BLIS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "POLARS_MAX_THREADS",
]


@dataclass
class Case:
    """One job, and how long everybody took for it: milliseconds of each turn, by name."""

    name: str
    times_ms: dict[str, list[float]] = field(default_factory=dict)
    notes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def median_ms(self, who: str) -> float:
        return statistics.median(self.times_ms[who])


@dataclass
class Bar:
    """What a ratio must come to, in a case. A goal above that is one that some runs have missed: that is told and in the book."""

    case: Case
    ours: str
    peer: str
    at_least: float
    goal: Optional[float] = None

    @property
    def ratio(self) -> float:
        return self.case.median_ms(self.peer) / self.case.median_ms(self.ours)

    @property
    def is_met(self) -> bool:
        return self.ratio >= self.at_least

    def line(self) -> str:
        verdict = "pass" if self.is_met else "FAIL"
        what = f"{self.case.name}: {self.ours} beside {self.peer}"
        missed = self.goal is not None and self.ratio < self.goal
        goal = f" (the goal of {self.goal:.3g} is missed)" if missed else ""
        return f"{verdict}  {self.ratio:6.2f} x, at least {self.at_least:.3g}{goal}  {what}"


def threads(count: int) -> dict[str, str]:
    """An environment in which libraries use so many threads."""
    return {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(count))}


def ask(words: list[Any], count: int = 2, more: Optional[dict[str, str]] = None) -> dict[str, Any]:
    """Runs a program that ends with a line of JSON, and returns what that says."""
    environment = {**threads(count), **(more or {})}
    done = subprocess.run([str(word) for word in words], env=environment, stdout=subprocess.PIPE, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        sys.exit(f"`{' '.join(map(str, words))}` ended with {done.returncode} and said '{done.stdout.strip()}'")
    said: dict[str, Any] = json.loads(lines[-1])
    return said


def in_turns(case: Case, contenders: dict[str, Callable[[], dict[str, Any]]], turns: int, key: str) -> Case:
    """Lets all contenders run in turns; `key` is the time in what they say."""
    for turn in range(turns):
        for name, run in contenders.items():
            said = run()
            case.times_ms.setdefault(name, []).append(float(said[key]))
            case.notes[name] = said
            print(f"  {case.name:34} turn {turn + 1}  {name:18} {said[key]:10.2f} ms", flush=True)
    return case


def table(cases: list[Case], first: str, unit: str = "ms") -> str:
    """One row for a case, one column for a contender: its median, and how many times as long as `first` it took."""
    names = list(dict.fromkeys(name for case in cases for name in case.times_ms))
    lines = ["| " + " | ".join([unit, *names]) + " |", "|---" * (len(names) + 1) + "|"]
    for case in cases:
        cells = [case.name]
        for name in names:
            if name not in case.times_ms:
                cells.append("–")
                continue
            cell = digits(case.median_ms(name))
            ratio = case.median_ms(name) / case.median_ms(first)
            cells.append(cell if name == first else f"{cell} ({ratio:.2f} x)")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def digits(value: float) -> str:
    """Three digits are as many as two runs agree in."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


COLOURS = ["#1f5fa8", "#7ba3d0", "#d1602b", "#3a8f4d", "#7a4fa3", "#a33b52", "#5b6770", "#b58a1b"]
LEFT, WIDTH, LINE, BAR = 20, 720, 21, 15


def picture(title: str, cases: list[Case], first: str) -> str:
    """Bars: the time of everybody, as a multiple of the time of `first`; a long one is cut and says its number."""
    names = list(dict.fromkeys(name for case in cases for name in case.times_ms))
    longest = 6.0
    label, room = 150, WIDTH - LEFT - 150 - 120
    y, out = 30, []
    out.append(f'<text x="{LEFT}" y="{y}" font-size="15" font-weight="bold">{escape(title)}</text>')
    for case in cases:
        y += 34
        out.append(f'<text x="{LEFT}" y="{y}" font-weight="bold">{escape(case.name)}</text>')
        for name in (name for name in names if name in case.times_ms):
            y += LINE
            ratio = case.median_ms(name) / case.median_ms(first)
            width = room * min(ratio, longest) / longest
            x, colour = LEFT + label, COLOURS[names.index(name) % len(COLOURS)]
            out.append(f'<text x="{x - 8}" y="{y}" text-anchor="end">{escape(name)}</text>')
            out.append(f'<rect x="{x}" y="{y - 12}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>')
            if ratio > longest:
                at = x + width - 22
                cut = f"M{at} {y + 4} l6 -17 h6 l-6 17 z"
                out.append(f'<path d="{cut}" fill="#fff"/>')
            said = f"{ratio:.2f} x, {digits(case.median_ms(name))} ms"
            out.append(f'<text x="{x + width + 6:.1f}" y="{y}">{said}</text>')
    height = y + 24
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="DejaVu Sans, Verdana, sans-serif" font-size="12" fill="#333">'
    )
    return "\n".join([head, f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>', *out, "</svg>"]) + "\n"


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def into_page(page: Path, name: str, text: str) -> None:
    """Puts text between the two marks of this name in a page of the book."""
    begin, end = f"<!-- measured: {name} -->\n", f"<!-- end: {name} -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found and found_end):
        sys.exit(f"{page} has no place for {name}: a line '{begin.strip()}' and one '{end}'")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def finish(cases: list[Case], bars: list[Bar], to: Optional[Path], about: dict[str, Any]) -> None:
    """Says which bars are met, writes all numbers down, and ends the program badly when one is missed."""
    print("\n" + "\n".join(bar.line() for bar in bars), flush=True)
    if to is not None:
        to.parent.mkdir(parents=True, exist_ok=True)
        numbers = {
            "about": about,
            "cases": [{"name": c.name, "times_ms": c.times_ms, "notes": c.notes} for c in cases],
            "bars": [
                {
                    "case": bar.case.name,
                    "ours": bar.ours,
                    "peer": bar.peer,
                    "ratio": bar.ratio,
                    "at_least": bar.at_least,
                    "met": bar.is_met,
                }
                for bar in bars
            ],
        }
        to.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    missed = sum(not bar.is_met for bar in bars)
    if missed:
        sys.exit(f"{missed} of {len(bars)} bars missed")
