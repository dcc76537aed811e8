"use strict";
// Charts of one kind each: columns stacked on each other, and a line through points.

// So many columns are painted; of more, the tallest of each group of neighbours, as wide as the group, so that no spike is lost.
const PAINTED_MAX = 500;
function tallest(columns) {
  const each = Math.ceil(columns.length / PAINTED_MAX);
  if (each <= 1) return columns;
  const height = (c) => c.parts.reduce((a, b) => a + b, 0);
  return Array.from({ length: Math.ceil(columns.length / each) }, (_, n) => {
    const group = columns.slice(n * each, (n + 1) * each);
    const highest = group.reduce((a, b) => (height(b) > height(a) ? b : a));
    return { from: group[0].from, to: group.at(-1).to, parts: highest.parts };
  });
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
      const seen = tallest(columns.filter((c) => c.to >= area.range.from && c.from <= area.range.to));
      const most = Math.max(1, ...seen.map((c) => c.parts.reduce((a, b) => a + b, 0)));
      const y = (value) => area.bottom - (value / most) * (area.bottom - area.top);
      area.axes(ticks(0, most, 4, unit).map((value) => [y(value), unit(value)]), show);
      // Part by part, so that the colour changes as seldom as can be.
      const below = new Float64Array(seen.length);
      area.clip(() => colours.forEach((name, n) => {
        area.pen.fillStyle = area.colour(name);
        seen.forEach((column, at) => {
          // Whole pixels: halves are slow to paint.
          const left = Math.round(area.x(column.from)), width = Math.max(Math.round(area.x(column.to)) - left - (seen.length < 200 ? 1 : 0), 1);
          const part = column.parts[n];
          area.pen.fillRect(left, y(below[at] + part), width, y(below[at]) - y(below[at] + part));
          below[at] += part;
        });
      }));
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
    key: title, title: isLog ? `${title} (logarithmic)` : title, height: 170, spoken,
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
