"""What notebooks show of masters, rounds, states, reports, data sets and fitted learners: short tables and small drawings as inline SVG.

Comes in: the objects, and what their run file says. Goes out: HTML in which every text is escaped and no script runs. Colours of
text follow the notebook's theme.
"""

from __future__ import annotations

import html
import json
import math
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Sequence, Tuple

from ._report import RoundReport, _bytes, _time
from .errors import Cancelled

if TYPE_CHECKING:
    from ._held import Held
    from ._master import Master
    from ._pending import Pending
    from .dataset.base import BaseDataSet

#: Worker, master, overhead; what a lane computed; what was lost.
WORKER, MASTER, OVERHEAD, LOST = "#0072b2", "#e69f00", "#98a1aa", "#c2410c"
WIDTH = 560
#: So many columns, lanes and characters are shown.
COLUMNS_MAX = 140
LANES_MAX = 16
TEXT_MAX = 300


def master(m: Master) -> str:
    """A master: its workers, its rounds over time, and the link of its dashboard."""
    rows: List[Tuple[str, str]] = [("workers", _text(m._text)), ("state", "closed" if m.closed else "open")]
    pictures = ""
    if not m.closed:
        link = m.dashboard
        if link is not None:
            rows.append(("dashboard", f'<a href="{_text(link)}" target="_blank" rel="noopener noreferrer">{_text(link)}</a>'))
        text = m._native.summary()
        if text is None:
            rows.append(("now", f"{len(m.workers)} workers"))
        else:
            summary = json.loads(text)
            lanes, total, facts = summary["lanes"], summary["total"], summary["facts"]
            up = sum(bool(lane["is_up"]) for lane in lanes["lanes"])
            rows.append(("up", f"{up} of {len(lanes['lanes']) + lanes['left_out']}, {total['lost']} lost in rounds"))
            rows.append(("rounds", f"{facts['counts']['finished']} finished, {facts['counts']['failed']} failed"))
            rows.append(("bytes", f"{_bytes(total['bytes_out'])} out, {_bytes(total['bytes_in'])} in"))
            pictures = _rounds(summary["columns"]) + _lanes(lanes) + "".join(map(_series, summary["series"][:2]))
    return _table(repr(m), rows) + pictures


def report(r: RoundReport) -> str:
    """The report of a round: a bar that is split as its time was."""
    parts = [("worker", r.worker, WORKER), ("master", r.master, MASTER), ("overhead", r.overhead, OVERHEAD)]
    bar, at = "", 0.0
    for _, seconds, colour in parts:
        width = WIDTH * seconds / r.total if r.total > 0 else 0.0
        bar += _rect(at, 0, width, 14, colour)
        at += width
    names = ("chunks_sent", "cache_hits", "cache_misses", "retries", "discarded", "stolen", "backups", "lost", "restored")
    rows = [("time", f"{_time(r.total)}: " + ", ".join(f"{name} {_time(seconds)}" for name, seconds, _ in parts))]
    rows.append(("bytes", f"{_bytes(r.bytes_out)} out, {_bytes(r.bytes_in)} in"))
    told = [f"{getattr(r, name)} {name.replace('_', ' ')}" for name in names if getattr(r, name)]
    if told:
        rows.append(("counts", ", ".join(told)))
    return _table(f"round {r.round}", rows) + _svg("where the time of the round went", 14, bar)


def pending(p: Pending) -> str:
    """A submitted round: whether it has ended, how, and where its time went. Nothing is waited for, and no value is read."""
    if p._error is not None:
        state = "cancelled" if isinstance(p._error, Cancelled) else f"failed: {type(p._error).__name__}: {p._error}"
    elif not p.done():
        state = "running"
    else:
        state = "done" if p._parts is not None or p._value else "done, not waited for"
    found = p.report
    return _table("submitted round", [("state", _text(state))]) + ("" if found is None else report(found))


def held(h: Held[Any]) -> str:
    """States on workers: how many, what makes them, and of which data. No state is fetched."""
    init = getattr(h._init, "__qualname__", type(h._init).__name__)
    rows = [("states", str(len(h))), ("made by", f"<code>{_text(init)}</code>"), ("workers", _text(h._master._text))]
    if h._set is not None:
        rows.append(("data", _text(repr(h._set))))
    return _table("states on workers", rows)


def dataset(data: BaseDataSet) -> str:
    """A data set: how much there is, and how it is cut. Nothing is read for it that was not read before."""
    units, size = data.chunks(), data.slice_size
    rows = [("units", str(units)), ("slices", f"{-(-units // size)} of {size} units")]
    native = data._data
    if native is not None:
        rows.append(("bytes", _bytes(native.nbytes)))
        rows.append(("hash", f"<code>{_text(native.id[:16])}…</code>"))
    return _table(type(data).__name__, rows)


def fitted(estimator: Any) -> str:
    """What a learner has fitted: attributes that end with an underscore, arrays by their shape."""
    rows: List[Tuple[str, str]] = []
    for name in sorted(vars(estimator)):
        if name.endswith("_") and not name.startswith("_") and name != "feature_names_in_":
            value = getattr(estimator, name)
            shape = getattr(value, "shape", None)
            if shape:
                rows.append((name, _text(f"{' x '.join(map(str, shape))} of {value.dtype}")))
            elif isinstance(value, (list, tuple)):
                rows.append((name, f"{len(value)} values"))
            else:
                rows.append((name, _text(f"{value:.6g}" if isinstance(value, float) else str(value))))
    return _table(f"{type(estimator).__name__}, fitted", rows) if rows else ""


def _rounds(columns: Dict[str, Any]) -> str:
    """The time of rounds, split, the newest at the right."""
    parts = [_binned(columns[name], columns["count"]) for name in ("worker_us", "master_us", "overhead_us")]
    most = max((sum(column) for column in zip(*parts)), default=0.0)
    if most <= 0:
        return ""
    drawn, width = "", WIDTH / len(parts[0])
    for n, column in enumerate(zip(*parts)):
        below = 60.0
        for value, colour in zip(column, (WORKER, MASTER, OVERHEAD)):
            height = 60 * value / most
            below -= height
            drawn += _rect(n * width, below, max(width - 0.5, 0.5), height, colour)
    return _svg(f"time of a round, at most {_time(most / 1e6)}: worker, master, overhead", 60, drawn)


def _binned(values: Sequence[int], counts: Sequence[int]) -> List[float]:
    """Means of a round over neighbouring columns, few enough to draw."""
    each = max(1, -(-len(values) // COLUMNS_MAX))
    starts = range(0, len(values), each)
    return [sum(values[n : n + each]) / max(sum(counts[n : n + each]), 1) for n in starts]


def _lanes(lanes: Dict[str, Any]) -> str:
    """A strip for each worker, as dark as the share that it computed."""
    shown = lanes["lanes"][:LANES_MAX]
    each = max((-(-len(lane["cells"]) // COLUMNS_MAX) for lane in shown), default=1) or 1
    strips = [[sum(lane["cells"][n : n + each]) for n in range(0, len(lane["cells"]), each)] for lane in shown]
    if not any(map(any, strips)):
        return ""
    columns = list(zip(*strips))
    drawn, width = "", WIDTH / len(columns)
    for n, column in enumerate(columns):
        most = max(column) or 1
        for row, value in enumerate(column):
            if value:
                drawn += _rect(n * width, 10 * row, width, 8, WORKER, 0.15 + 0.85 * value / most)
    for row, lane in enumerate(shown):
        if lane["lost"]:
            drawn += _rect(WIDTH - 4, 10 * row, 4, 8, LOST)
    rest = len(lanes["lanes"]) + lanes["left_out"] - len(shown)
    more = f", the first {len(shown)} of {len(shown) + rest}" if rest else ""
    return _svg(f"workers{more}, over the rounds; red at the right: was lost", 10 * len(shown), drawn)


def _series(series: Dict[str, Any]) -> str:
    """A line through the numbers that the program reported."""
    points = [(x, y) for x, y in zip(series["at_us"], series["values"]) if y is not None and math.isfinite(y)]
    if len(points) < 2:
        return ""
    each = max(1, -(-len(points) // (2 * COLUMNS_MAX)))
    points = points[::each] + points[-1:]
    (first, last), ys = (points[0][0], points[-1][0]), [y for _, y in points]
    low, high = min(ys), max(ys)
    scale = high - low or 1.0
    place = (f"{WIDTH * (x - first) / max(last - first, 1):.1f},{58 - 56 * (y - low) / scale:.1f}" for x, y in points)
    line = f'<polyline fill="none" stroke="{WORKER}" stroke-width="1.5" points="{" ".join(place)}"/>'
    return _svg(f"{series['name']}: {ys[-1]:.6g}, from {low:.6g} to {high:.6g}", 60, line)


def _rect(x: float, y: float, width: float, height: float, colour: str, opacity: Optional[float] = None) -> str:
    faint = "" if opacity is None else f' fill-opacity="{opacity:.2f}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"{faint}/>'


def _svg(title: str, height: int, drawn: str) -> str:
    caption = f'<div style="font-size:85%;opacity:.75">{_text(title)}</div>'
    head = f'<svg role="img" aria-label="{_text(title)}" viewBox="0 0 {WIDTH} {height}" preserveAspectRatio="none"'
    return f'{caption}{head} style="width:100%;max-width:{WIDTH}px;height:{height}px">{drawn}</svg>'


def _table(title: str, rows: Iterable[Tuple[str, str]]) -> str:
    """A table under a title. The second cells are HTML."""
    body = "".join(f'<tr><th style="text-align:left">{_text(name)}</th><td style="text-align:left">{cell}</td></tr>' for name, cell in rows)
    return f"<div><b>{_text(title)}</b><table>{body}</table></div>"


def _text(text: str) -> str:
    """A text as HTML shows it."""
    from ._native import printable

    text = printable(text)
    return html.escape(text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…")
