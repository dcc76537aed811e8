"use strict";
// The page: figures, charts and tables of a run. `show` can be called again with newer data, and changes only what they change.

class Page {
  constructor() {
    this.byTime = true;
    this.drawn = new Charts(by("charts"), by("tip"));
    by("by-time").onclick = () => this.axis(true);
    by("by-round").onclick = () => this.axis(false);
    by("reset").onclick = () => { this.drawn.range.reset(); this.drawn.onZoom(); this.drawn.paint(); };
    by("search").oninput = () => this.search();
    // Theme: what the system says, until the button is pressed.
    const dark = matchMedia("(prefers-color-scheme: dark)");
    by("theme").onclick = () => this.theme(document.documentElement.dataset.theme !== "dark");
    dark.addEventListener("change", (event) => this.theme(event.matches));
    this.theme(dark.matches);
  }
  theme(isDark) {
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
    colours.clear();
    this.drawn.paint();
  }

  // All of it, from the beginning.
  show(data) {
    this.figures(data);
    this.tables(data);
    this.charts(data);
  }
  charts(data) {
    const isNew = !this.data;
    this.data = data;
    if (isNew) return this.axis(this.byTime);
    this.drawn.update(this.length(), this.shown(), this.list());
  }
  axis(byTime) {
    this.byTime = byTime;
    by("by-time").setAttribute("aria-pressed", byTime);
    by("by-round").setAttribute("aria-pressed", !byTime);
    if (this.data) this.drawn.set(this.length(), this.shown(), this.list());
  }
  shown() { return this.byTime ? Units.time : (n) => Units.count(Math.round(n)); }
  length() {
    const { facts, columns } = this.data, last = columns.first.length - 1;
    return this.byTime ? facts.lasted_us : last < 0 ? 1 : columns.first[last] + columns.count[last];
  }

  // Head, tiles, and where the time went.
  figures({ facts, total, lanes, rate }) {
    by("id").textContent = facts.id;
    by("state").textContent = facts.state;
    by("state").className = `badge ${{ finished: "good", failed: "bad", killed: "bad" }[facts.state] || "plain"}`;
    by("command").textContent = facts.command;
    const troubles = [...facts.missing];
    if (facts.state === "killed") troubles.unshift(`The run was killed: its file has no end. ${facts.counts.open ? plural(facts.counts.open, "round") + " had begun and not ended." : ""}`);
    const box = by("trouble");
    box.hidden = !facts.error && !troubles.length;
    if (!box.hidden) {
      box.replaceChildren(make("h2", facts.error ? "Why it failed" : "About this run", "bad"));
      if (facts.error) box.append(make("pre", facts.error));
      for (const trouble of troubles) box.append(make("p", trouble));
    }
    const isLive = rate !== undefined;
    const tiles = [
      ...(isLive ? [[rate === null ? "–" : `${+rate.toPrecision(3)} /s`, "rounds at present"], [`${lanes.lanes.filter((lane) => lane.is_up).length} of ${lanes.lanes.length + lanes.left_out}`, "workers up"]] : []),
      [Units.time(facts.lasted_us), "from beginning to end"],
      [Units.count(facts.counts.finished), `rounds finished${facts.counts.recalled ? `, ${Units.count(facts.counts.recalled)} of them recalled` : ""}${facts.counts.failed ? `, ${facts.counts.failed} failed` : ""}`],
      [percent(total.total_us, facts.lasted_us), "of the time in rounds"],
      [Units.bytes(total.bytes_out), "to workers"],
      [Units.bytes(total.bytes_in), "from workers"],
      [percent(total.cache_hits, total.cache_hits + total.cache_misses), "of chunks already open"],
      [Units.count(total.lost), "workers lost in rounds"],
      [Units.count(total.retries + total.backups), "blocks run again or twice"],
    ];
    by("tiles").replaceChildren(...tiles.map(([figure, text]) => {
      const tile = make("div");
      tile.append(make("b", figure), make("span", text));
      return tile;
    }));
    const parts = [["worker", "slowest worker computes", total.worker_us], ["master", "master encodes and combines", total.master_us], ["overhead", "overhead: the cost of distribution", total.overhead_us]];
    const stack = make("div", undefined, "stack");
    for (const [colour, , us] of parts) {
      const part = make("i");
      part.style.background = `var(--${colour})`;
      part.style.width = `${total.total_us ? (100 * us) / total.total_us : 0}%`;
      stack.append(part);
    }
    const texts = parts.map(([colour, text, us]) => [colour, `${text} ${Units.time(us)}, ${percent(us, total.total_us)}`]);
    by("split").replaceChildren(make("h2", `Time of all rounds: ${Units.time(total.total_us)}`), stack, legend(texts));
  }

  // The charts over the axis that is chosen.
  list() {
    const { data, byTime } = this;
    const { facts, columns, lanes } = data;
    const length = columns.first.length;
    const from = (n) => (byTime ? columns.began_us[n] : columns.first[n]);
    const to = (n) => (byTime ? columns.ended_us[n] : columns.first[n] + columns.count[n]);
    const mean = (list, n) => list[n] / columns.count[n];
    const of = (...lists) => columns.first.map((_, n) => ({ from: from(n), to: to(n), parts: lists.map((list) => mean(list, n)) }));
    const rounds = (n) => (columns.count[n] === 1 ? `round ${columns.first[n]}` : `rounds ${columns.first[n]} to ${columns.first[n] + columns.count[n] - 1}`);
    const functionOf = (n) => (columns.function[n] < 0 ? "several functions" : data.functions[columns.function[n]]?.name || "");
    const told = (n, lines) => `${rounds(n)}, ${functionOf(n)}\nbegan at ${Units.time(columns.began_us[n])}${columns.count[n] === 1 ? "" : "\nmean of a round:"}\n${lines.join("\n")}`;
    const list = data.series.map((series) => line({
      title: series.name, points: series.values.map((y, n) => ({ x: byTime ? series.at_us[n] : series.rounds[n], y, at: series.at_us[n], round: series.rounds[n] })),
      spoken: `${plural(series.reported, "value")}, the last ${Units.number(series.values.at(-1))}.`,
      tell: (p) => `${series.name} ${Units.number(p.y)}\nafter ${plural(p.round, "round")}, ${Units.time(p.at)}`,
    }));
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
    if (lanes.lanes.length) list.push(timeline({ lanes, columns, byTime, from, to, plural }));
    if (columns.bytes_out.some((b) => b > 0) || columns.bytes_in.some((b) => b > 0)) {
      list.push(stacked({
        title: "Bytes of a round", colours: ["first", "second"], unit: Units.bytes, legend: [["first", "to workers"], ["second", "from workers"]],
        columns: of(columns.bytes_out, columns.bytes_in),
        tell: (n) => told(n, [`${Units.bytes(mean(columns.bytes_out, n))} to workers`, `${Units.bytes(mean(columns.bytes_in, n))} from workers`, `${Units.count(columns.misses[n])} chunks opened or sent`]),
      }));
    }
    return list;
  }

  // Tables and hints.
  tables(data, workersMax = Infinity) {
    const { facts, columns, lanes, notes, total } = data;
    const hints = ["Drag to zoom, double click for the whole run; with a chart in focus, arrow keys move, + and - zoom, Escape resets."];
    if (columns.rounds_each > 1) hints.push(`Each column is the sum of ${columns.rounds_each} neighbouring rounds.`);
    if (lanes.left_out) hints.push(`${plural(lanes.left_out, "worker")} more are not drawn.`);
    if (lanes.events_left_out) hints.push(`${plural(lanes.events_left_out, "event")} of workers are not drawn.`);
    if (lanes.lanes.length > workersMax) hints.push(`The table of workers has the first ${workersMax}.`);
    by("hint").textContent = hints.join(" ");
    const share = (f, us) => `${Units.time(us)}, ${percent(us, f.total.total_us)}`;
    table("functions", ["function", "rounds", "total", "mean", "worker", "master", "overhead"], data.functions.map((f) => [
      f.name, Units.count(f.rounds), Units.time(f.total.total_us), f.rounds ? Units.time(f.total.total_us / f.rounds) : "–",
      share(f, f.total.worker_us), share(f, f.total.master_us), share(f, f.total.overhead_us)]));
    // Of threads and of workers on other hosts it is not known.
    const memory = (bytes) => bytes ? Units.bytes(bytes) : "–";
    table("workers", ["worker", "rounds", "computed", "of the rounds' time", "memory", "at most", "lost"], lanes.lanes.slice(0, workersMax).map((lane) => [
      lane.name, Units.count(lane.rounds), Units.time(lane.compute_us), percent(lane.compute_us, total.total_us), memory(lane.memory_bytes),
      memory(lane.memory_most_bytes), Units.count(lane.lost)]));
    this.leftOut = notes.left_out;
    this.events = [["lost", notes.lost], ["error", notes.errors], ["wait", notes.waits], ["note", notes.other]]
      .flatMap(([kind, list]) => list.map((n) => [kind, n]))
      .sort((a, b) => a[1].at_us - b[1].at_us).map(([kind, n]) => [Units.time(n.at_us), kind, n.whom, n.text]);
    this.search();
    const rows = [
      ["run", facts.id], ["began", `${facts.began}, on ${facts.host}, process ${facts.pid}`], ["workers", facts.workers], ["seed", String(facts.seed)],
      ["version", facts.version], ["executable", facts.executable || "not hashed: the run was too short"], ["folder", facts.directory],
      ["resumed", facts.resumed && `from run ${facts.resumed}`], ["values kept", `${Units.count(facts.counts.kept)} of ${plural(facts.counts.finished, "round")}`],
      ["checkpoints", facts.counts.checkpoints && `${facts.counts.checkpoints}, in ${Units.time(facts.counts.checkpoints_us)}`],
      ...data.data.map((d) => ["data", `${d.hash}: ${plural(d.chunks, "chunk")}, ${Units.bytes(d.bytes)}`]),
    ];
    by("facts").replaceChildren(...rows.filter(([, text]) => text).flatMap(([name, text]) => [make("dt", name), make("dd", text)]));
  }
  search() {
    const words = by("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = (this.events || []).filter((cells) => words.every((word) => cells.join(" ").toLowerCase().includes(word)));
    table("events", ["at", "kind", "who", "what"], found);
    by("events-hint").textContent = `${found.length} of ${plural((this.events || []).length, "note")}${this.leftOut ? `; ${Units.count(this.leftOut)} more are in the run file (qjam show --json)` : ""}.`;
  }
}

function by(id) { return document.getElementById(id); }
function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}
function percent(part, whole) { return whole ? `${((100 * part) / whole).toFixed(part * 10 < whole ? 1 : 0)} %` : "–"; }
function plural(n, word) { return `${Units.count(n)} ${word}${n === 1 ? "" : "s"}`; }

// A table; a cell that begins with a digit, or is a dash, is a number.
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

