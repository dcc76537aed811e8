"""Curves as SVG: points of several series over one axis, with logarithmic axes where numbers span decades."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Optional

from comparison import COLOURS, digits, escape

WIDTH, HEIGHT = 790, 430
LEFT, RIGHT, TOP, BOTTOM = 86, 230, 52, 56
# Letters in a line of notes.
NOTE_LETTERS = 30


@dataclass
class Curve:
    """A line through points; one of them may be marked by an open square, and a single one beside it by a diamond."""

    name: str
    points: list[tuple[float, float]]
    square: Optional[tuple[float, float]] = None
    diamond: Optional[tuple[float, float]] = None
    dashed: bool = False


@dataclass
class Axis:
    """What is along an edge: its words, its range, and whether a step is a factor."""

    label: str
    ticks: list[float]
    log: bool = True
    text: Callable[[float], str] = field(default=lambda value: f"{value:g}")

    def at(self, value: float, begin: float, end: float) -> float:
        scale: Callable[[float], float] = math.log if self.log else lambda value: value
        low, high = scale(self.ticks[0]), scale(self.ticks[-1])
        return begin + (scale(value) - low) / (high - low) * (end - begin)


def decades(values: list[float]) -> list[float]:
    """Ticks at 1, 2 and 5 of every power of ten around the values."""
    low, high = min(values), max(values)
    steps = [step * 10.0**power for power in range(-9, 10) for step in (1, 2, 5)]
    first = max(i for i, step in enumerate(steps) if step <= low * 1.0001)
    last = min(i for i, step in enumerate(steps) if step >= high * 0.9999)
    return steps[first : max(last, first + 1) + 1]


def chart(title: str, curves: list[Curve], across: Axis, up: Axis, notes: list[str]) -> str:
    """The picture. `notes` stand under the list of names."""
    out = [f'<text x="12" y="26" font-size="15" font-weight="bold">{escape(title)}</text>']
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def x(value: float) -> float:
        return across.at(value, LEFT, right)

    def y(value: float) -> float:
        return up.at(value, bottom, TOP)

    for tick in across.ticks:
        out.append(f'<path d="M{x(tick):.1f} {TOP} V{bottom}" stroke="#eee"/>')
        out.append(
            f'<text x="{x(tick):.1f}" y="{bottom + 18}" text-anchor="middle">{across.text(tick)}</text>'
        )
    for tick in up.ticks:
        out.append(f'<path d="M{LEFT} {y(tick):.1f} H{right}" stroke="#eee"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{up.text(tick)}</text>')
    out.append(f'<path d="M{LEFT} {TOP} V{bottom} H{right}" stroke="#888" fill="none"/>')
    out.append(
        f'<text x="{(LEFT + right) / 2:.0f}" y="{HEIGHT - 14}" text-anchor="middle">{escape(across.label)}</text>'
    )
    middle = (TOP + bottom) / 2
    turned = f'transform="rotate(-90 20 {middle:.0f})" text-anchor="middle"'
    out.append(f'<text x="20" y="{middle:.0f}" {turned}>{escape(up.label)}</text>')

    line = TOP + 10
    for curve, colour in zip(curves, COLOURS * 2):
        dash = ' stroke-dasharray="6 4"' if curve.dashed else ""
        path = " L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in curve.points)
        out.append(f'<path d="M{path}" stroke="{colour}" stroke-width="2" fill="none"{dash}/>')
        out += [f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="2.5" fill="{colour}"/>' for a, b in curve.points]
        if curve.square is not None:
            out.append(square(x(curve.square[0]), y(curve.square[1]), colour))
        if curve.diamond is not None:
            out.append(diamond(x(curve.diamond[0]), y(curve.diamond[1]), colour))
        out.append(f'<path d="M{right + 16} {line - 4} h22" stroke="{colour}" stroke-width="2"{dash}/>')
        out.append(f'<text x="{right + 44}" y="{line}">{escape(curve.name)}</text>')
        line += 20
    if any(curve.square for curve in curves):
        out.append(square(right + 27, line + 6, "#555"))
        out.append(f'<text x="{right + 44}" y="{line + 10}">the best H</text>')
        line += 20
    if any(curve.diamond for curve in curves):
        out.append(diamond(right + 27, line + 6, "#555"))
        out.append(f'<text x="{right + 44}" y="{line + 10}">chosen while running</text>')
        line += 20
    for note in textwrap.wrap(", ".join(notes), NOTE_LETTERS):
        line += 16
        out.append(f'<text x="{right + 16}" y="{line + 10}" font-size="11" fill="#666">{escape(note)}</text>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="DejaVu Sans, Verdana, sans-serif" font-size="12" fill="#333">'
    )
    return "\n".join([head, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>', *out, "</svg>"]) + "\n"


def square(x: float, y: float, colour: str) -> str:
    return f'<rect x="{x - 6:.1f}" y="{y - 6:.1f}" width="12" height="12" fill="none" stroke="{colour}" stroke-width="2"/>'


def diamond(x: float, y: float, colour: str) -> str:
    return f'<path d="M{x:.1f} {y - 7:.1f} l7 7 l-7 7 l-7 -7 z" fill="{colour}" stroke="#fff" stroke-width="1.5"/>'


def seconds(value: float) -> str:
    """Seconds for people."""
    return f"{digits(1e3 * value)} ms" if value < 1 else f"{digits(value)} s"


def tick_seconds(value: float) -> str:
    """The same at an axis, where numbers are round."""
    return f"{1e3 * value:g} ms" if value < 1 else f"{value:g} s"
