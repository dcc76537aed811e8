
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { facts, columns, lanes } = data;
  const by = (id) => document.getElementById(id);
  const make = (tag, text, className) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  };
  const percent = (part, whole) => (whole ? `${((100 * part) / whole).toFixed(part * 10 < whole ? 1 : 0)} %` : "–");
  const plural = (n, word) => `${Units.count(n)} ${word}${n === 1 ? "" : "s"}`;

  // Head.
  by("id").textContent = facts.id;
  by("state").textContent = facts.state;
  by("state").classList.add({ finished: "good", failed: "bad", killed: "bad" }[facts.state] || "plain");
  by("command").textContent = facts.command;
  const troubles = [...facts.missing];
  if (facts.state === "killed") troubles.unshift(`The run was killed: its file has no end. ${facts.counts.open ? plural(facts.counts.open, "round") + " had begun and not ended." : ""}`);
  if (facts.error || troubles.length) {
    const box = by("trouble");
    box.hidden = false;
    box.append(make("h2", facts.error ? "Why it failed" : "About this run", "bad"));
    if (facts.error) box.append(make("pre", facts.error));
    for (const trouble of troubles) box.append(make("p", trouble));
  }

  // Figures.
  const { total } = data;
  const chunks = total.cache_hits + total.cache_misses;
  const tiles = [
    [Units.time(facts.lasted_us), "from beginning to end"],
    [Units.count(facts.counts.finished), `rounds finished${facts.counts.recalled ? `, ${Units.count(facts.counts.recalled)} of them recalled` : ""}${facts.counts.failed ? `, ${facts.counts.failed} failed` : ""}`],
    [percent(total.total_us, facts.lasted_us), "of the time in rounds"],
    [Units.bytes(total.bytes_out), "to workers"],
    [Units.bytes(total.bytes_in), "from workers"],
    [percent(total.cache_hits, chunks), "of chunks already open"],
    [Units.count(total.lost), "workers lost in rounds"],
    [Units.count(total.retries + total.backups), "blocks run again or twice"],
  ];
  for (const [figure, text] of tiles) {
    const tile = make("div");
    tile.append(make("b", figure), make("span", text));
    by("tiles").append(tile);
  }

  // Where the time went.
  const parts = [["worker", "slowest worker computes", total.worker_us], ["master", "master encodes and combines", total.master_us], ["overhead", "overhead: the cost of distribution", total.overhead_us]];
  by("split").append(make("h2", `Time of all rounds: ${Units.time(total.total_us)}`));
  const stack = make("div", undefined, "stack");
  for (const [colour, , us] of parts) {
    const part = make("i");
    part.style.background = `var(--${colour})`;
    part.style.width = `${total.total_us ? (100 * us) / total.total_us : 0}%`;
    stack.append(part);
  }
  const texts = parts.map(([colour, text, us]) => [colour, `${text} ${Units.time(us)}, ${percent(us, total.total_us)}`]);
  by("split").append(stack, legend(texts));

  // Charts.
  const length = columns.first.length;
  const roundsOf = (n) => (columns.count[n] === 1 ? `round ${columns.first[n]}` : `rounds ${columns.first[n]} to ${columns.first[n] + columns.count[n] - 1}`);
  const functionOf = (n) => (columns.function[n] < 0 ? "several functions" : data.functions[columns.function[n]]?.name || "");
  const mean = (list, n) => list[n] / columns.count[n];
  const each = (n) => (columns.count[n] === 1 ? "" : "\nmean of a round:");

  function charts(byTime) {
    const from = (n) => (byTime ? columns.began_us[n] : columns.first[n]);
    const to = (n) => (byTime ? columns.ended_us[n] : columns.first[n] + columns.count[n]);
    const places = Array.from({ length }, (_, n) => n);
    const of = (...lists) => places.map((n) => ({ from: from(n), to: to(n), parts: lists.map((list) => mean(list, n)) }));
    const told = (n, lines) => `${roundsOf(n)}, ${functionOf(n)}\nbegan at ${Units.time(columns.began_us[n])}${each(n)}\n${lines.join("\n")}`;
    const list = [];
    for (const series of data.series) {
      const points = series.values.map((y, n) => ({ x: byTime ? series.at_us[n] : series.rounds[n], y, at: series.at_us[n], round: series.rounds[n] }));
      list.push(line({
        title: series.name, points, spoken: `${plural(series.reported, "value")}, the last ${Units.number(series.values.at(-1))}.`,
        tell: (p) => `${series.name} ${Units.number(p.y)}\nafter ${plural(p.round, "round")}, ${Units.time(p.at)}`,
      }));
    }
    if (length) {
      list.push(stacked({
        title: "Time of a round", colours: ["worker", "master", "overhead"], unit: Units.time,
        legend: [["worker", "worker"], ["master", "master"], ["overhead", "overhead"]],
        columns: of(columns.worker_us, columns.master_us, columns.overhead_us),
        spoken: `${plural(facts.counts.finished, "round")}.`,
        tell: (n) => told(n, [`worker ${Units.time(mean(columns.worker_us, n))}`, `master ${Units.time(mean(columns.master_us, n))}`, `overhead ${Units.time(mean(columns.overhead_us, n))}`,
          ...(columns.recalled[n] ? [`${columns.recalled[n]} recalled`] : []), ...(columns.unfinished[n] ? [`${columns.unfinished[n]} without a value`] : []), ...(columns.again[n] ? [`${columns.again[n]} blocks run again or twice`] : [])]),
      }));
    }
    if (lanes.lanes.length) list.push(timeline(byTime, from, to));
    if (columns.bytes_out.some((b) => b > 0) || columns.bytes_in.some((b) => b > 0)) {
      list.push(stacked({
        title: "Bytes of a round", colours: ["first", "second"], unit: Units.bytes, legend: [["first", "to workers"], ["second", "from workers"]],
        columns: of(columns.bytes_out, columns.bytes_in),
        tell: (n) => told(n, [`${Units.bytes(mean(columns.bytes_out, n))} to workers`, `${Units.bytes(mean(columns.bytes_in, n))} from workers`, `${Units.count(columns.misses[n])} chunks opened or sent`]),
      }));
    }
    return list;
  }

  // A lane for each worker: filled as long as it computed, empty while it waited.
  function timeline(byTime, from, to) {
    const colours = { lost: "bad", "interpreter lost": "bad", "given up": "bad", suspected: "master", ready: "good", returned: "good", retry: "odd", backup: "odd", "state rebuilt": "odd" };
    const height = lanes.lanes.length > 60 ? 6 : lanes.lanes.length > 20 ? 12 : 20;
    const cells = Math.ceil(length / lanes.columns_each);
    const cell = (n) => {
      const first = n * lanes.columns_each, last = Math.min(first + lanes.columns_each, length) - 1;
      return { first, last, from: from(first), to: to(last), us: columns.ended_us[last] - columns.began_us[first] };
    };
    const all = Array.from({ length: cells }, (_, n) => cell(n));
    // On the axis of rounds an event stands at the round that was under way.
    const place = (at) => {
      if (byTime) return at;
      let n = columns.began_us.findIndex((began) => began > at);
      n = (n < 0 ? length : n) - 1;
      return n < 0 ? 0 : columns.first[n] + columns.count[n] / 2;
    };
    const events = lanes.events.map(([at, lane, word]) => ({ x: place(at), at, lane, word })).filter((e) => colours[e.word]);
    return {
      title: "Workers", height: lanes.lanes.length * height + 26,
      legend: [["worker", "computes"], ["good", "ready"], ["master", "silent"], ["bad", "lost"], ["odd", "retry, backup"]],
      spoken: `${plural(lanes.lanes.length, "worker")}, ${plural(lanes.lanes.reduce((n, lane) => n + lane.lost, 0), "loss")}.`,
      paint(area, show) {
        area.axes([], show);
        const { pen } = area;
        lanes.lanes.forEach((lane, n) => {
          const y = area.top + n * height;
          pen.fillStyle = area.colour("grid");
          pen.fillRect(area.left, y, area.right - area.left, height - 2);
          if (height >= 11) {
            pen.fillStyle = area.colour("soft");
            pen.textAlign = "right"; pen.textBaseline = "middle";
            pen.fillText(lane.name.length > 18 ? `${lane.name.slice(0, 17)}…` : lane.name, area.left - 6, y + height / 2 - 1);
          }
        });
        area.clip(() => {
          pen.fillStyle = area.colour("worker");
          for (const [n, c] of all.entries()) {
            if (c.to < area.range.from || c.from > area.range.to) continue;
            const left = area.x(c.from), width = Math.max(area.x(c.to) - left, 1);
            lanes.lanes.forEach((lane, at) => {
              const share = Math.min(lane.cells[n] / Math.max(c.us, 1), 1);
              if (!share) return;
              // One round: as long as it computed. Several, or too narrow to see: as dark as the share.
              const isOne = c.first === c.last && columns.count[c.first] === 1 && width > 3;
              pen.globalAlpha = isOne ? 1 : 0.15 + 0.85 * share;
              pen.fillRect(left, area.top + at * height, isOne ? width * share : width, height - 2);
            });
          }
          pen.globalAlpha = 1;
          for (const e of events) {
            pen.fillStyle = area.colour(colours[e.word]);
            const y = area.top + e.lane * height;
            pen.fillRect(area.x(e.x) - 1.5, y, 3, height - 2);
          }
        });
      },
      tell(area, x, y) {
        const lane = lanes.lanes[Math.floor((y - area.top) / height)];
        if (!lane) return null;
        const at = area.at(x);
        const near = events.filter((e) => lanes.lanes[e.lane] === lane && Math.abs(area.x(e.x) - x) < 5).map((e) => `${e.word} at ${Units.time(e.at)}`);
        const n = all.findIndex((c) => at >= c.from && at <= c.to);
        const spent = n < 0 ? "between rounds" : `computed ${Units.time(lane.cells[n])} of ${Units.time(all[n].us)}\nin rounds ${columns.first[all[n].first]} to ${columns.first[all[n].last] + columns.count[all[n].last] - 1}`;
        return [lane.name, spent, ...near.slice(0, 6)].join("\n");
      },
    };
  }

  const drawn = new Charts(by("charts"), by("tip"));
  function draw(byTime) {
    by("by-time").setAttribute("aria-pressed", byTime);
    by("by-round").setAttribute("aria-pressed", !byTime);
    const whole = byTime ? facts.lasted_us : length ? columns.first[length - 1] + columns.count[length - 1] : 1;
    drawn.set(whole, byTime ? Units.time : (n) => Units.count(Math.round(n)), charts(byTime));
  }
  by("by-time").onclick = () => draw(true);
  by("by-round").onclick = () => draw(false);
  by("reset").onclick = () => { drawn.range.reset(); drawn.paint(); };
  const hints = ["Drag to zoom, double click for the whole run; with a chart in focus, arrow keys move, + and - zoom, Escape resets."];
  if (columns.rounds_each > 1) hints.push(`Each column is the sum of ${columns.rounds_each} neighbouring rounds.`);
  if (lanes.left_out) hints.push(`${plural(lanes.left_out, "worker")} more are not drawn.`);
  if (lanes.events_left_out) hints.push(`${plural(lanes.events_left_out, "event")} of workers are not drawn.`);
  by("hint").textContent = hints.join(" ");

  // Tables. A cell that begins with a digit, or is a dash, is a number.
  function table(id, heads, rows) {
    const isNumber = (text) => /^[\d–]/.test(text);
    const head = make("tr");
    heads.forEach((text, n) => head.append(make("th", text, rows.length && isNumber(rows[0][n]) ? "n" : "")));
    const body = rows.map((cells) => {
      const row = make("tr");
      for (const text of cells) {
        const cell = make("td", undefined, isNumber(text) ? "n" : "");
        if (text.includes("\n")) cell.append(make("pre", text)); else cell.textContent = text;
        row.append(cell);
      }
      return row;
    });
    by(id).replaceChildren(head, ...body);
  }
  const share = (f, us) => `${Units.time(us)}, ${percent(us, f.total.total_us)}`;
  table("functions", ["function", "rounds", "total", "mean", "worker", "master", "overhead"], data.functions.map((f) => [
    f.name, Units.count(f.rounds), Units.time(f.total.total_us), f.rounds ? Units.time(f.total.total_us / f.rounds) : "–",
    share(f, f.total.worker_us), share(f, f.total.master_us), share(f, f.total.overhead_us)]));
  table("workers", ["worker", "rounds", "computed", "of the rounds' time", "lost"], lanes.lanes.map((lane) => [
    lane.name, Units.count(lane.rounds), Units.time(lane.compute_us), percent(lane.compute_us, total.total_us), Units.count(lane.lost)]));

  const { notes } = data;
  const events = [...notes.lost.map((n) => ["lost", n]), ...notes.errors.map((n) => ["error", n]), ...notes.waits.map((n) => ["wait", n]), ...notes.other.map((n) => ["note", n])]
    .sort((a, b) => a[1].at_us - b[1].at_us).map(([kind, n]) => [Units.time(n.at_us), kind, n.whom, n.text]);
  const search = () => {
    const words = by("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = events.filter((cells) => words.every((word) => cells.join(" ").toLowerCase().includes(word)));
    table("events", ["at", "kind", "who", "what"], found);
    by("events-hint").textContent = `${found.length} of ${plural(events.length, "note")}${notes.left_out ? `; ${Units.count(notes.left_out)} more are in the run file (qjam show --json)` : ""}.`;
  };
  by("search").oninput = search;
  search();

  // To repeat it.
  const rows = [
    ["run", facts.id], ["began", `${facts.began}, on ${facts.host}, process ${facts.pid}`], ["workers", facts.workers], ["seed", String(facts.seed)],
    ["version", facts.version], ["executable", facts.executable || "not hashed: the run was too short"], ["folder", facts.directory],
    ["resumed", facts.resumed && `from run ${facts.resumed}`], ["values kept", `${Units.count(facts.counts.kept)} of ${plural(facts.counts.finished, "round")}`],
    ["checkpoints", facts.counts.checkpoints && `${facts.counts.checkpoints}, in ${Units.time(facts.counts.checkpoints_us)}`],
    ...data.data.map((d) => ["data", `${d.hash}: ${plural(d.chunks, "chunk")}, ${Units.bytes(d.bytes)}`]),
  ];
  for (const [name, text] of rows) if (text) by("facts").append(make("dt", name), make("dd", text));

  // Theme: what the system says, until the button is pressed.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = (isDark) => { document.documentElement.dataset.theme = isDark ? "dark" : "light"; drawn.paint(); };
  by("theme").onclick = () => theme(document.documentElement.dataset.theme !== "dark");
  dark.addEventListener("change", (event) => theme(event.matches));
  draw(true);
  theme(dark.matches);
})();
