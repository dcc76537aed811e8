// A page that follows its run: the server sends all of it once, and then what has changed. While the page is paused or not seen it has
// no connection: browsers allow a server only six of them, and nothing has to be kept for a page that nobody looks at.

// Puts what has changed into what the page has.
function apply(data, more) {
  for (const name of ["facts", "total", "functions", "data"]) if (more[name]) data[name] = more[name];
  if (more.columns) {
    const { rounds_each, from, ...lists } = more.columns;
    data.columns.rounds_each = rounds_each;
    for (const [name, list] of Object.entries(lists)) {
      data.columns[name].length = from;
      for (const value of list) data.columns[name].push(value);
    }
  }
  if (more.lanes && more.lanes.whole) data.lanes = more.lanes.whole;
  if (more.lanes && more.lanes.more) {
    const { from, tails, events } = more.lanes.more;
    data.lanes.lanes.forEach((lane, n) => {
      const [compute_us, rounds, lost, isUp, memory_bytes, memory_most_bytes, ...cells] = tails[n];
      Object.assign(lane, { compute_us, rounds, lost, is_up: isUp === 1, memory_bytes, memory_most_bytes });
      lane.cells.length = Math.min(lane.cells.length, from);
      for (const cell of cells) lane.cells.push(cell);
    });
    data.lanes.events.push(...events);
  }
  for (const tail of more.series) {
    const series = data.series.find((other) => other.name === tail.name);
    if (!series) data.series.push(tail);
    else if (tail.from === 0) Object.assign(series, tail);
    else {
      series.reported = tail.reported;
      for (const name of ["at_us", "rounds", "values"]) series[name].push(...tail[name]);
    }
  }
  if (more.notes) {
    for (const kind of ["lost", "errors", "waits", "other"]) data.notes[kind].push(...more.notes[kind]);
    data.notes.left_out = more.notes.left_out;
  }
}

class Live {
  constructor(page) {
    Object.assign(this, { page, data: null, source: null, isPaused: false, tabled: -Infinity, framed: 0, frames: 0, messages: 0 });
    for (const id of ["tail", "pause", "link"]) by(id).hidden = false;
    by("pause").onclick = () => this.pause(!this.isPaused);
    by("tail").onclick = () => {
      const { range } = page.drawn;
      if (range.tail && !range.isWhole) range.reset(); else if (page.byTime) range.follow(30e6); else range.follow(300);
      page.drawn.onZoom();
      page.drawn.paint();
    };
    page.drawn.onZoom = () => by("tail").setAttribute("aria-pressed", Boolean(page.drawn.range.tail) && !page.drawn.range.isWhole);
    document.addEventListener("keydown", (event) => {
      if (event.key !== "p" || event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "INPUT") return;
      this.pause(!this.isPaused);
    });
    document.addEventListener("visibilitychange", () => this.connect());
    this.connect();
    requestAnimationFrame((now) => this.frame(now));
  }
  pause(isPaused) {
    this.isPaused = isPaused;
    by("pause").setAttribute("aria-pressed", isPaused);
    by("pause").textContent = isPaused ? "go on" : "pause";
    this.connect();
  }
  say(text, kind) { by("link").textContent = text; by("link").className = `badge ${kind}`; }
  get hasEnded() { return Boolean(this.data) && this.data.facts.state !== "running"; }

  // Connects, or ends the connection, as the page needs it.
  connect() {
    if (this.source) this.source.close();
    this.source = null;
    if (this.hasEnded) return this.say("ended", "plain");
    if (this.isPaused) return this.say("paused", "plain");
    if (document.hidden) return;
    this.say("connecting", "plain");
    const source = new EventSource("events");
    this.source = source;
    source.addEventListener("whole", (event) => { this.data = JSON.parse(event.data); this.samples = []; this.clock = null; this.take(); });
    source.addEventListener("more", (event) => { apply(this.data, JSON.parse(event.data)); this.take(); });
    source.onerror = () => {
      this.say("no connection: the program that serves this page has ended, or is not reached", "bad");
      // The browser tries again by itself, unless it was refused.
      if (source.readyState === EventSource.CLOSED && this.source === source) setTimeout(() => this.source === source && this.connect(), 5000);
    };
  }
  // Shows what has come.
  take() {
    const { data, page } = this, now = performance.now();
    this.messages += 1;
    this.say("live", "good");
    this.samples.push([data.facts.lasted_us, data.facts.counts.finished]);
    if (this.samples.length > 25) this.samples.shift();
    const [[began, first], [ended, last]] = [this.samples[0], this.samples.at(-1)];
    data.rate = this.hasEnded ? undefined : ended > began ? ((last - first) * 1e6) / (ended - began) : null;
    // When the run began, by this clock: no message comes before what it tells.
    const began_ms = now - data.facts.lasted_us / 1e3;
    this.clock = this.clock === null ? began_ms : Math.min(this.clock, began_ms);
    page.figures(data);
    if (now - this.tabled > 1000 || this.hasEnded) { page.tables(data, 100); this.tabled = now; }
    page.charts(data);
    if (this.hasEnded) this.connect();
  }
  // Between messages the axis of time goes on, at most 60 times a second.
  frame(now) {
    requestAnimationFrame((next) => this.frame(next));
    this.frames += 1;
    const { range } = this.page.drawn;
    if (!this.data || this.isPaused || this.hasEnded || !this.source || !this.page.byTime || !range.tail || now - this.framed < 15) return;
    this.framed = now;
    range.grow(Math.max(range.whole, (now - this.clock) * 1e3));
    this.page.drawn.paint();
  }
}

globalThis.live = new Live(new Page());
