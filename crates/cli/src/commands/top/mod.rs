//! A run in the terminal while it goes on.
//!
//! Comes in: the run file, which is read again several times a second. Goes out: on a terminal a screen with rates, the program's
//! numbers, the rounds and a strip for each worker ([`view`]); elsewhere a line every second until the run ends.

mod view;

use super::runs::{named, word};
use crate::args::Top;
use crate::output;
use anyhow::Context;
use qjam_dashboard::report::Summary;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::VecDeque;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use view::View;

/// So often the screen is drawn, and so often a line is printed.
const SCREEN_EVERY: Duration = Duration::from_millis(200);
const LINE_EVERY: Duration = Duration::from_secs(1);
/// The rate is taken over so many looks.
const LOOKS: usize = 25;

pub(crate) fn run(args: &Top) -> anyhow::Result<()> {
    let run = named(&args.run)?;
    let summary = Summary::follow(&run.path).context("cannot read the run file")?;
    let mut watched = Watched { summary, looks: VecDeque::new() };
    watched.look()?;
    if args.json || !output::is_terminal() || !std::io::stdin().is_terminal() {
        return lines(&mut watched, args.json);
    }
    // Before the terminal is changed: a signal that ended this process would leave it so.
    let signal = signals()?;
    // Restores the terminal also when this thread panics.
    let ended = ratatui::try_init().context("the terminal cannot be used");
    let ended = ended.and_then(|mut terminal| screen(&mut watched, &mut terminal, &signal));
    // Also what was done of a beginning that failed.
    let _ = ratatui::try_restore();
    match ended? {
        Ended::Asked => output::line(watched.figures().line()),
        Ended::HungUp => {}
        Ended::Signal(signal) => signal_hook::low_level::emulate_default_handler(signal)?,
    }
    Ok(())
}

/// Why the screen ended.
#[derive(PartialEq)]
enum Ended {
    /// By a key.
    Asked,
    /// The terminal was closed.
    HungUp,
    /// By a signal, whose usual effect comes after the terminal has been restored.
    Signal(i32),
}

/// Keeps the last signal that asks for the end; 0 is none.
fn signals() -> anyhow::Result<Arc<AtomicUsize>> {
    let last = Arc::new(AtomicUsize::new(0));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        let kept = signal_hook::flag::register_usize(signal, last.clone(), signal as usize);
        kept.context("signals cannot be handled")?;
    }
    Ok(last)
}

/// A line every second, and one at the end.
fn lines(watched: &mut Watched, json: bool) -> anyhow::Result<()> {
    loop {
        let figures = watched.figures();
        match json {
            true => output::json(&figures)?,
            false => output::line(figures.line()),
        }
        if !watched.summary.is_running() {
            return Ok(());
        }
        std::thread::sleep(LINE_EVERY);
        watched.look()?;
    }
}

fn screen(
    watched: &mut Watched,
    terminal: &mut ratatui::DefaultTerminal,
    signal: &AtomicUsize,
) -> anyhow::Result<Ended> {
    let mut view = View::default();
    loop {
        match signal.load(Ordering::Relaxed) {
            0 => {}
            signal => return Ok(Ended::Signal(signal as i32)),
        }
        if !view.is_paused {
            watched.look()?;
        }
        terminal.draw(|frame| view.draw(frame, &watched.summary, &watched.figures()))?;
        let Some(has_keys) = has_keys(SCREEN_EVERY)? else { return Ok(Ended::HungUp) };
        // All keys that have come, and then the next look.
        while has_keys && event::poll(Duration::ZERO)? {
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && !obey(&mut view, key)
            {
                return Ok(Ended::Asked);
            }
        }
    }
}

/// Waits for keys; `None` if the terminal is gone, whose end the library that reads keys would read for ever.
fn has_keys(patience: Duration) -> anyhow::Result<Option<bool>> {
    let stdin = std::io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let patience = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
    match poll(&mut fds, Some(&patience)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(e) => return Err(e).context("the terminal cannot be read"),
    }
    let found = fds[0].revents();
    let is_gone = found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
    Ok((!is_gone).then(|| found.contains(PollFlags::IN)))
}

/// Does what a key asks for; false if that is to end.
fn obey(view: &mut View, key: KeyEvent) -> bool {
    let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        _ if is_interrupt => return false,
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('p' | ' ') => view.is_paused = !view.is_paused,
        KeyCode::Down | KeyCode::Char('j') => view.scroll(1),
        KeyCode::Up | KeyCode::Char('k') => view.scroll(-1),
        KeyCode::PageDown => view.scroll(20),
        KeyCode::PageUp => view.scroll(-20),
        KeyCode::Home => view.scroll(isize::MIN),
        _ => {}
    }
    true
}

/// A run that is read again and again.
struct Watched {
    summary: Summary,
    /// How long the run had lasted, and how many rounds it had finished, at the last looks.
    looks: VecDeque<(u64, u64)>,
}

impl Watched {
    fn look(&mut self) -> anyhow::Result<()> {
        while self.summary.advance().context("cannot read the run file any more")? {}
        let run = self.summary.run();
        self.looks.push_back((run.lasted_us, run.rounds));
        if self.looks.len() > LOOKS {
            self.looks.pop_front();
        }
        Ok(())
    }

    fn figures(&self) -> Figures {
        let (run, lanes) = (self.summary.run(), self.summary.lanes());
        let rate = || {
            let ((began, first), (ended, last)) = (self.looks.front()?, self.looks.back()?);
            let us = ended.checked_sub(*began).filter(|us| *us > 0)?;
            Some(last.saturating_sub(*first) as f64 * 1e6 / us as f64)
        };
        let metrics = self.summary.series().iter().filter_map(|series| {
            Some(MetricFigure { name: series.name().to_owned(), value: series.points().last()?.value })
        });
        Figures {
            run: run.id.clone(),
            state: word(&run.state),
            seconds: run.lasted_us as f64 / 1e6,
            rounds: run.rounds,
            failed: run.failed,
            rounds_per_second: rate().filter(|_| self.summary.is_running()),
            metrics: metrics.collect(),
            workers_up: lanes.all().iter().filter(|lane| lane.is_up).count(),
            workers: lanes.all().len() + lanes.left_out(),
            lost: run.lost.len(),
            bytes_out: run.total.bytes_out,
            bytes_in: run.total.bytes_in,
        }
    }
}

/// What a line says.
#[derive(Serialize)]
struct Figures {
    run: String,
    state: &'static str,
    seconds: f64,
    rounds: u64,
    failed: u64,
    rounds_per_second: Option<f64>,
    metrics: Vec<MetricFigure>,
    workers_up: usize,
    workers: usize,
    lost: usize,
    bytes_out: u64,
    bytes_in: u64,
}

#[derive(Serialize)]
struct MetricFigure {
    name: String,
    value: f64,
}

impl Figures {
    fn line(&self) -> String {
        let mut parts = vec![
            format!("{} {}", self.run, self.state),
            format!("{:.1} s", self.seconds),
            output::count(self.rounds, "round"),
        ];
        if self.failed > 0 {
            parts.push(format!("{} failed", self.failed));
        }
        parts.extend(self.rounds_per_second.map(|rate| format!("{rate:.1}/s")));
        parts.extend(self.metrics.iter().map(|metric| format!("{} {:.6}", metric.name, metric.value)));
        parts.push(match self.state {
            "running" => {
                format!("{} of {} up", self.workers_up, output::count(self.workers as u64, "worker"))
            }
            _ => output::count(self.workers as u64, "worker"),
        });
        if self.lost > 0 {
            parts.push(format!("{} lost", self.lost));
        }
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(state: &'static str) -> Figures {
        Figures {
            run: "a1".into(),
            state,
            seconds: 12.34,
            rounds: 1,
            failed: 0,
            rounds_per_second: (state == "running").then_some(2.5),
            metrics: vec![MetricFigure { name: "gap".into(), value: 0.25 }],
            workers_up: 3,
            workers: 4,
            lost: 1,
            bytes_out: 1,
            bytes_in: 2,
        }
    }

    #[test]
    fn a_line_has_rounds_rate_numbers_and_workers() {
        let running = "a1 running, 12.3 s, 1 round, 2.5/s, gap 0.250000, 3 of 4 workers up, 1 lost";
        assert_eq!(figures("running").line(), running);
        assert_eq!(figures("failed").line(), "a1 failed, 12.3 s, 1 round, gap 0.250000, 4 workers, 1 lost");
    }
}
