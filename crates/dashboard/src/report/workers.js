"use strict";
// A lane for each worker: filled as long as it computed, empty while it waited. Up to 60 workers have lanes with bars; of more, each cell
// is as dark as the share of its time that the worker computed, painted once into a picture with a pixel for each cell.

const BARS_MAX = 60;
const eventColours = { lost: "bad", "interpreter lost": "bad", "given up": "bad", suspected: "master", ready: "good", returned: "good", retry: "odd", backup: "odd", "state rebuilt": "odd" };

// A picture of all cells, `spent(n)` microseconds long each, one row for each lane.
function heat(lanes, spent, length) {
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: Math.max(length, 1), height: Math.max(lanes.length, 1) });
  const pen = canvas.getContext("2d");
  pen.fillStyle = colour("worker");
  pen.fillRect(0, 0, 1, 1);
  const [red, green, blue] = pen.getImageData(0, 0, 1, 1).data;
  const image = pen.createImageData(canvas.width, canvas.height);
  // A pixel at once, lowest byte first: red, green, blue, opacity.
  const pixels = new Uint32Array(image.data.buffer);
  const colourBits = (blue << 16) | (green << 8) | red;
  const times = Array.from({ length }, (_, n) => spent(n));
  lanes.forEach((lane, row) => {
    const { cells } = lane;
    for (let n = 0, at = row * canvas.width; n < length; n += 1, at += 1) {
      if (cells[n] > 0) pixels[at] = ((38 + 217 * Math.min(cells[n] / times[n], 1)) << 24) | colourBits;
    }
  });
  pen.putImageData(image, 0, 0);
  return canvas;
}

// `from(n)` and `to(n)` are where column n lies on the axis; `show` whether that is time.
function timeline({ lanes, columns, byTime, from, to, plural }) {
  const all = lanes.lanes;
  const length = columns.first.length;
  const height = all.length <= 20 ? 20 : all.length <= BARS_MAX ? 12 : Math.min(6, Math.max(1, Math.floor(1000 / all.length)));
  const gap = height > 4 ? 2 : 0;
  const cells = Array.from({ length: length ? Math.ceil(length / lanes.columns_each) : 0 }, (_, n) => {
    const first = n * lanes.columns_each, last = Math.min(first + lanes.columns_each, length) - 1;
    return { first, last, from: from(first), to: to(last), us: columns.ended_us[last] - columns.began_us[first] };
  });
  // On the axis of rounds an event stands at the round that was under way.
  const place = (at) => {
    if (byTime) return at;
    let n = columns.began_us.findIndex((began) => began > at);
    n = (n < 0 ? length : n) - 1;
    return n < 0 ? 0 : columns.first[n] + columns.count[n] / 2;
  };
  const events = lanes.events.map(([at, lane, word]) => ({ x: place(at), at, lane, word })).filter((e) => eventColours[e.word]);
  let picture = null, paintedIn = "";

  function bars(area) {
    const { pen } = area;
    pen.fillStyle = area.colour("worker");
    for (const [n, c] of cells.entries()) {
      if (c.to < area.range.from || c.from > area.range.to) continue;
      const left = area.x(c.from), width = Math.max(area.x(c.to) - left, 1);
      // One round: as long as it computed. Several, or too narrow to see: as dark as the share.
      const isOne = c.first === c.last && columns.count[c.first] === 1 && width > 3;
      all.forEach((lane, at) => {
        const share = Math.min(lane.cells[n] / Math.max(c.us, 1), 1);
        if (!share) return;
        pen.globalAlpha = isOne ? 1 : 0.15 + 0.85 * share;
        pen.fillRect(left, area.top + at * height, isOne ? width * share : width, height - gap);
      });
    }
    pen.globalAlpha = 1;
  }
  function picked(area) {
    // Painted again when the theme has changed.
    if (paintedIn !== area.colour("worker")) {
      picture = heat(all, (n) => Math.max(cells[n].us, 1), cells.length);
      paintedIn = area.colour("worker");
    }
    area.pen.imageSmoothingEnabled = false;
    cells.forEach((c, n) => {
      if (c.to < area.range.from || c.from > area.range.to) return;
      const left = area.x(c.from);
      area.pen.drawImage(picture, n, 0, 1, all.length, left, area.top, Math.max(area.x(c.to) - left, 1), all.length * height);
    });
  }
  return {
    title: "Workers", height: all.length * height + 26,
    legend: [["worker", "computes"], ["good", "ready"], ["master", "silent"], ["bad", "lost"], ["odd", "retry, backup"]],
    spoken: `${plural(all.length, "worker")}, ${plural(all.reduce((n, lane) => n + lane.lost, 0), "lost worker")}.`,
    paint(area, show) {
      area.axes([], show);
      const { pen } = area;
      pen.fillStyle = area.colour("grid");
      if (gap) all.forEach((_, n) => pen.fillRect(area.left, area.top + n * height, area.right - area.left, height - gap));
      else pen.fillRect(area.left, area.top, area.right - area.left, all.length * height);
      pen.fillStyle = area.colour("soft");
      pen.textAlign = "right"; pen.textBaseline = "middle";
      // As many names as there is room for.
      for (let n = 0; n < all.length; n += height >= 11 ? 1 : Math.ceil(14 / height)) {
        const { name } = all[n];
        pen.fillText(name.length > 18 ? `${name.slice(0, 17)}…` : name, area.left - 6, area.top + n * height + Math.max(height - gap, 8) / 2);
      }
      area.clip(() => {
        if (all.length <= BARS_MAX) bars(area); else if (cells.length) picked(area);
        for (const e of events) {
          pen.fillStyle = area.colour(eventColours[e.word]);
          pen.fillRect(area.x(e.x) - 1.5, area.top + e.lane * height, 3, Math.max(height - gap, 3));
        }
      });
    },
    tell(area, x, y) {
      const lane = all[Math.floor((y - area.top) / height)];
      if (!lane) return null;
      const at = area.at(x);
      const near = events.filter((e) => all[e.lane] === lane && Math.abs(area.x(e.x) - x) < 5).map((e) => `${e.word} at ${Units.time(e.at)}`);
      const n = cells.findIndex((c) => at >= c.from && at <= c.to);
      const spent = n < 0 ? "between rounds" : `computed ${Units.time(lane.cells[n])} of ${Units.time(cells[n].us)}\nin rounds ${columns.first[cells[n].first]} to ${columns.first[cells[n].last] + columns.count[cells[n].last] - 1}`;
      return [lane.name, spent, ...near.slice(0, 6)].join("\n");
    },
  };
}

