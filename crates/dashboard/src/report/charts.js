
"use strict";
// Charts that share one horizontal range. A chart is { title, height, paint(area), tell(area, x, y) }: `paint` draws into
// its area, `tell` gives the text for a point. Dragging zooms, double click or Escape shows the whole run again, the arrow keys
// move, + and - zoom.

const Units = {
  time(us) {
    if (us < 1e3) return `${+us.toFixed(us < 10 ? 1 : 0)} µs`;
    if (us < 1e6) return `${+(us / 1e3).toPrecision(3)} ms`;
    if (us < 120e6) return `${+(us / 1e6).toPrecision(4)} s`;
    return `${Math.floor(us / 60e6)} min ${Math.round((us % 60e6) / 1e6)} s`;
  },
  bytes(n) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let at = 0;
    while (n >= 1024 && at < units.length - 1) { n /= 1024; at += 1; }
    return `${+n.toPrecision(3)} ${units[at]}`;
  },
  count(n) { return Number(n).toLocaleString("en"); },
  number(v) { return v === null ? "not finite" : Math.abs(v) >= 1e5 || (v !== 0 && Math.abs(v) < 1e-3) ? v.toExponential(4) : String(+v.toPrecision(6)); },
};

// Space for labels at the left of every chart, so that all axes stand below each other.
const MARGIN = 110;

class Range {
  constructor(whole) { this.whole = whole; this.set(0, whole); }
  set(from, to) {
    const least = this.whole / 1e6;
    const width = Math.min(Math.max(to - from, least), this.whole);
    this.from = Math.min(Math.max(from, 0), this.whole - width);
    this.to = this.from + width;
  }
  zoom(factor, at = (this.from + this.to) / 2) {
    this.set(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }
  move(share) { const by = (this.to - this.from) * share; this.set(this.from + by, this.to + by); }
  reset() { this.set(0, this.whole); }
}

// Round steps for an axis: 1, 2 or 5 times a power of ten; powers of two for bytes.
function ticks(from, to, about, unit) {
  const raw = (to - from) / Math.max(about, 1);
  if (!(raw > 0)) return [];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = unit === Units.bytes ? 2 ** Math.ceil(Math.log2(raw)) : [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const all = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) all.push(at);
  return all;
}

class Area {
  constructor(canvas, range, axis, margin) {
    const scale = window.devicePixelRatio || 1;
    const box = canvas.getBoundingClientRect();
    this.width = Math.max(box.width, 50);
    this.height = box.height;
    canvas.width = Math.round(this.width * scale);
    canvas.height = Math.round(this.height * scale);
    this.pen = canvas.getContext("2d");
    this.pen.setTransform(scale, 0, 0, scale, 0, 0);
    Object.assign(this, { range, axis, left: margin, right: this.width - 8, top: 6, bottom: this.height - 20 });
    const style = getComputedStyle(document.documentElement);
    this.colour = (name) => style.getPropertyValue(`--${name}`).trim();
    this.pen.font = "11px system-ui, sans-serif";
  }
  x(value) { return this.left + ((value - this.range.from) / (this.range.to - this.range.from)) * (this.right - this.left); }
  at(x) { return this.range.from + ((x - this.left) / (this.right - this.left)) * (this.range.to - this.range.from); }
  clip(paint) {
    this.pen.save();
    this.pen.beginPath();
    this.pen.rect(this.left, 0, this.right - this.left, this.height);
    this.pen.clip();
    paint();
    this.pen.restore();
  }
  // The horizontal axis, and for charts with a value axis its lines.
  axes(values, show) {
    const { pen } = this;
    pen.strokeStyle = this.colour("grid");
    pen.fillStyle = this.colour("soft");
    pen.lineWidth = 1;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const [y, text] of values) {
      pen.beginPath(); pen.moveTo(this.left, y + 0.5); pen.lineTo(this.right, y + 0.5); pen.stroke();
      pen.fillText(text, this.left - 6, y);
    }
    pen.textBaseline = "top";
    pen.textAlign = "center";
    for (const at of ticks(this.range.from, this.range.to, (this.right - this.left) / 110)) {
      pen.fillText(show(at), Math.min(Math.max(this.x(at), this.left + 14), this.right - 20), this.bottom + 5);
    }
  }
}

class Charts {
  constructor(home, tip) {
    Object.assign(this, { home, tip, all: [], range: new Range(1), show: String });
    window.addEventListener("resize", () => this.paint());
    window.addEventListener("beforeprint", () => this.paint());
  }
  // All charts over a new axis: its length, how positions on it are shown, and the charts.
  set(whole, show, charts) {
    this.range = new Range(Math.max(whole, 1));
    this.show = show;
    this.home.replaceChildren();
    this.all = charts.map((chart) => ({ ...chart, canvas: this.add(chart) }));
    this.paint();
  }
  add(chart) {
    const figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    const title = document.createElement("span");
    title.textContent = chart.title;
    caption.append(title);
    if (chart.legend) caption.append(legend(chart.legend));
    const canvas = document.createElement("canvas");
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${chart.title}. ${chart.spoken || ""}`);
    canvas.style.height = `${chart.height}px`;
    const frame = document.createElement("div");
    frame.className = "scroll";
    frame.append(canvas);
    figure.append(caption, frame);
    this.home.append(figure);
    this.listen(canvas, () => this.all.find((other) => other.canvas === canvas));
    return canvas;
  }
  listen(canvas, chart) {
    let begun = null;
    const place = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    canvas.addEventListener("pointerdown", (event) => { begun = place(event)[0]; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = place(event);
      const area = chart().area;
      if (begun !== null && Math.abs(x - begun) > 4) {
        this.hide(); this.paint();
        area.pen.fillStyle = area.colour("soft"); area.pen.globalAlpha = 0.25;
        area.pen.fillRect(Math.min(begun, x), 0, Math.abs(x - begun), area.bottom);
        area.pen.globalAlpha = 1;
        return;
      }
      const text = x >= area.left && x <= area.right ? chart().tell(area, x, y) : null;
      if (!text) return this.hide();
      this.tip.textContent = text;
      this.tip.hidden = false;
      const width = this.tip.offsetWidth;
      this.tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8))}px`;
      this.tip.style.top = `${Math.min(event.clientY + 14, innerHeight - this.tip.offsetHeight - 8)}px`;
    });
    canvas.addEventListener("pointerup", (event) => {
      const x = place(event)[0];
      const area = chart().area;
      if (begun !== null && Math.abs(x - begun) > 4) {
        this.range.set(area.at(Math.min(begun, x)), area.at(Math.max(begun, x)));
        this.paint();
      }
      begun = null;
    });
    canvas.addEventListener("pointerleave", () => this.hide());
    canvas.addEventListener("dblclick", () => { this.range.reset(); this.paint(); });
    canvas.addEventListener("keydown", (event) => {
      const acts = { ArrowLeft: () => this.range.move(-0.2), ArrowRight: () => this.range.move(0.2), "+": () => this.range.zoom(0.6), "=": () => this.range.zoom(0.6), "-": () => this.range.zoom(1.6), Escape: () => this.range.reset() };
      if (!acts[event.key]) return;
      event.preventDefault();
      acts[event.key]();
      this.paint();
    });
  }
  hide() { this.tip.hidden = true; }
  paint() {
    for (const chart of this.all) {
      chart.area = new Area(chart.canvas, this.range, this.show, MARGIN);
      chart.paint(chart.area, this.show);
    }
  }
}

function legend(entries) {
  const list = document.createElement("span");
  list.className = "legend";
  for (const [colour, text] of entries) {
    const entry = document.createElement("span");
    const mark = document.createElement("i");
    mark.style.background = `var(--${colour})`;
    entry.append(mark, text);
    list.append(entry);
  }
  return list;
}

// Columns stacked on each other. `columns` are { from, to, parts: [..] } in order; `colours` name the parts.
function stacked({ title, legend: entries, columns, colours, unit, tell, spoken }) {
  const index = (area, x) => {
    const at = area.at(x);
    let low = 0, high = columns.length - 1;
    while (low < high) { const middle = (low + high + 1) >> 1; if (columns[middle].from <= at) low = middle; else high = middle - 1; }
    const column = columns[low];
    return column && at >= column.from && at <= Math.max(column.to, area.at(area.x(column.from) + 3)) ? low : -1;
  };
  return {
    title, legend: entries, height: 190, spoken,
    paint(area, show) {
      const seen = columns.filter((c) => c.to >= area.range.from && c.from <= area.range.to);
      const most = Math.max(1, ...seen.map((c) => c.parts.reduce((a, b) => a + b, 0)));
      const y = (value) => area.bottom - (value / most) * (area.bottom - area.top);
      area.axes(ticks(0, most, 4, unit).map((value) => [y(value), unit(value)]), show);
      area.clip(() => {
        for (const column of seen) {
          const left = area.x(column.from), width = Math.max(area.x(column.to) - left - (seen.length < 300 ? 1 : 0), 1);
          let below = 0;
          column.parts.forEach((part, n) => {
            area.pen.fillStyle = area.colour(colours[n]);
            area.pen.fillRect(left, y(below + part), width, y(below) - y(below + part));
            below += part;
          });
        }
      });
    },
    tell(area, x) { const n = index(area, x); return n < 0 ? null : tell(n); },
  };
}

// Powers of ten between two logarithms, or 1, 2 and 5 times those where there are few.
function decades(low, high) {
  const factors = high - low < 2 ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil((high - low) / 5));
  const all = [];
  for (let power = Math.floor(low); power <= high; power += every) for (const factor of factors) all.push(factor * 10 ** power);
  return all.filter((value) => Math.log10(value) >= low && Math.log10(value) <= high);
}

// A line through points { x, y, ... }; y may be null. Values over many decades get a logarithmic axis.
function line({ title, points, tell, spoken }) {
  const finite = points.filter((p) => p.y !== null);
  const isLog = finite.length > 2 && finite.every((p) => p.y > 0) && Math.max(...finite.map((p) => p.y)) > 50 * Math.min(...finite.map((p) => p.y));
  const scale = isLog ? Math.log10 : (v) => v;
  return {
    title: isLog ? `${title} (logarithmic)` : title, height: 170, spoken,
    paint(area, show) {
      let seen = finite.filter((p) => p.x >= area.range.from && p.x <= area.range.to);
      if (!seen.length) seen = finite;
      if (!seen.length) return area.axes([], show);
      let [low, high] = [Math.min(...seen.map((p) => scale(p.y))), Math.max(...seen.map((p) => scale(p.y)))];
      if (low === high) { low -= Math.abs(low) * 0.05 || 1; high += Math.abs(high) * 0.05 || 1; }
      const y = (value) => area.bottom - ((scale(value) - low) / (high - low)) * (area.bottom - area.top - 6);
      const marks = isLog ? decades(low, high) : ticks(low, high, 4);
      area.axes(marks.map((value) => [y(value), Units.number(value)]), show);
      area.clip(() => {
        area.pen.strokeStyle = area.colour("first");
        area.pen.lineWidth = 1.6;
        area.pen.beginPath();
        let isDrawing = false;
        for (const p of points) {
          if (p.y === null) { isDrawing = false; continue; }
          if (isDrawing) area.pen.lineTo(area.x(p.x), y(p.y)); else area.pen.moveTo(area.x(p.x), y(p.y));
          isDrawing = true;
        }
        area.pen.stroke();
        if (seen.length <= 60) {
          area.pen.fillStyle = area.colour("first");
          for (const p of seen) { area.pen.beginPath(); area.pen.arc(area.x(p.x), y(p.y), 2.5, 0, 7); area.pen.fill(); }
        }
      });
    },
    tell(area, x) {
      let best = null;
      for (const p of points) if (!best || Math.abs(area.x(p.x) - x) < Math.abs(area.x(best.x) - x)) best = p;
      return best && Math.abs(area.x(best.x) - x) < 20 ? tell(best) : null;
    },
  };
}
