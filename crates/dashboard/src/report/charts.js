
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

// The part of the axis that is seen. While nobody has zoomed it is all of it, or its end, and goes along when the axis grows.
class Range {
  constructor(whole) { this.whole = whole; this.reset(); }
  get isWhole() { return this.tail === Infinity; }
  // Goes along with the last part of this length.
  follow(width) {
    this.tail = width;
    this.to = this.whole;
    this.from = Math.max(0, this.whole - width);
  }
  grow(whole) {
    this.whole = Math.max(this.whole, whole);
    if (this.tail) this.follow(this.tail);
  }
  set(from, to) {
    const least = this.whole / 1e6;
    const width = Math.min(Math.max(to - from, least), this.whole);
    this.tail = 0;
    this.from = Math.min(Math.max(from, 0), this.whole - width);
    this.to = this.from + width;
  }
  zoom(factor, at = (this.from + this.to) / 2) {
    this.set(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }
  move(share) { const by = (this.to - this.from) * share; this.set(this.from + by, this.to + by); }
  reset() { this.follow(Infinity); }
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

// The colours of the theme; asked once, until the theme changes.
const colours = new Map();
function colour(name) {
  if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return colours.get(name);
}

class Area {
  constructor(canvas, range, axis, margin) {
    const scale = window.devicePixelRatio || 1;
    const box = canvas.getBoundingClientRect();
    this.width = Math.max(box.width, 50);
    this.height = box.height;
    const [width, height] = [Math.round(this.width * scale), Math.round(this.height * scale)];
    this.pen = canvas.getContext("2d");
    // A canvas that keeps its size keeps its memory, which matters to pages that are painted 30 times a second.
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    this.pen.setTransform(scale, 0, 0, scale, 0, 0);
    this.pen.clearRect(0, 0, this.width, this.height);
    Object.assign(this, { range, axis, left: margin, right: this.width - 8, top: 6, bottom: this.height - 20 });
    this.colour = colour;
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
    Object.assign(this, { home, tip, all: [], range: new Range(1), show: String, painted: 0, onZoom: () => {} });
    window.addEventListener("resize", () => this.paint());
    window.addEventListener("beforeprint", () => this.paint());
  }
  // All charts over a new axis: its length, how positions on it are shown, and the charts.
  set(whole, show, charts) {
    this.range = new Range(Math.max(whole, 1));
    this.update(whole, show, charts);
    this.onZoom();
  }
  // The same axis, which may have grown, with other values. A chart that is there already keeps its canvas.
  update(whole, show, charts) {
    this.range.grow(Math.max(whole, 1));
    this.show = show;
    const before = new Map(this.all.map((chart) => [chart.key || chart.title, chart]));
    const isSame = charts.length === this.all.length && charts.every((chart, n) => (chart.key || chart.title) === (this.all[n].key || this.all[n].title));
    if (!isSame) this.home.replaceChildren();
    this.all = charts.map((chart) => {
      const old = isSame && before.get(chart.key || chart.title);
      const made = { ...chart, ...(old ? { canvas: old.canvas, text: old.text } : this.add(chart)) };
      made.text.textContent = chart.title;
      made.canvas.setAttribute("aria-label", `${chart.title}. ${chart.spoken || ""}`);
      made.canvas.style.height = `${chart.height}px`;
      return made;
    });
    this.paint();
  }
  add(chart) {
    const figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    const text = document.createElement("span");
    caption.append(text);
    if (chart.legend) caption.append(legend(chart.legend));
    const canvas = document.createElement("canvas");
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    const frame = document.createElement("div");
    frame.className = "scroll";
    frame.append(canvas);
    figure.append(caption, frame);
    this.home.append(figure);
    this.listen(canvas, () => this.all.find((other) => other.canvas === canvas));
    return { canvas, text };
  }
  listen(canvas, chart) {
    let begun = null;
    const place = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    canvas.addEventListener("pointerdown", (event) => { begun = place(event)[0]; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = place(event);
      const area = chart().area;
      if (begun !== null && Math.abs(x - begun) > 4) {
        this.hide();
        this.dragged = { canvas, from: Math.min(begun, x), to: Math.max(begun, x) };
        return this.paint();
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
        this.onZoom();
      }
      begun = null;
      this.dragged = null;
      this.paint();
    });
    canvas.addEventListener("pointercancel", () => { begun = null; this.dragged = null; this.paint(); });
    canvas.addEventListener("pointerleave", () => this.hide());
    canvas.addEventListener("dblclick", () => { this.range.reset(); this.onZoom(); this.paint(); });
    canvas.addEventListener("keydown", (event) => {
      const acts = { ArrowLeft: () => this.range.move(-0.2), ArrowRight: () => this.range.move(0.2), "+": () => this.range.zoom(0.6), "=": () => this.range.zoom(0.6), "-": () => this.range.zoom(1.6), Escape: () => this.range.reset() };
      if (!acts[event.key]) return;
      event.preventDefault();
      acts[event.key]();
      this.onZoom();
      this.paint();
    });
  }
  hide() { this.tip.hidden = true; }
  paint() {
    for (const chart of this.all) {
      chart.area = new Area(chart.canvas, this.range, this.show, MARGIN);
      chart.paint(chart.area, this.show);
      if (this.dragged && this.dragged.canvas === chart.canvas) {
        const { pen, bottom } = chart.area;
        pen.fillStyle = colour("soft");
        pen.globalAlpha = 0.25;
        pen.fillRect(this.dragged.from, 0, this.dragged.to - this.dragged.from, bottom);
        pen.globalAlpha = 1;
      }
    }
    this.painted += 1;
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
