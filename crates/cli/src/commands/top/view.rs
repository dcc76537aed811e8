//! The screen of `qjam top`: what is drawn where.
//!
//! Comes in: a [`Summary`] and the figures of now. Texts of a run file are shown through [`printable`]: nothing in them moves the cursor.

use super::Figures;
use crate::output;
use qjam::printable;
use qjam_dashboard::report::{Column, Lane, Series, Summary};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph, Sparkline};

/// From nothing to all of the time.
const SHADES: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Width of a worker's name and of its figures.
const NAME: usize = 18;
const FIGURES: usize = 18;

/// What the keys have chosen.
#[derive(Default)]
pub(super) struct View {
    pub(super) is_paused: bool,
    first_lane: usize,
}

impl View {
    pub(super) fn scroll(&mut self, by: isize) {
        self.first_lane = self.first_lane.saturating_add_signed(by);
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>, summary: &Summary, figures: &Figures) {
        let has_series = !summary.series().is_empty();
        let chart = if has_series && frame.area().height >= 24 { 9 } else { 0 };
        let rows = [
            Constraint::Length(3),
            Constraint::Length(chart),
            Constraint::Length(5),
            Constraint::Min(3),
            Constraint::Length(1),
        ];
        let [head, chart_area, rounds, workers, keys] = Layout::vertical(rows).areas(frame.area());
        head_lines(frame, head, summary, figures, self.is_paused);
        if chart > 0
            && let Some(series) = summary.series().first()
        {
            metric(frame, chart_area, series);
        }
        round_times(frame, rounds, summary.columns().all());
        self.lanes(frame, workers, summary);
        let text = "q quit  p pause  ↑↓ workers";
        frame.render_widget(Paragraph::new(text).style(Style::new().fg(Color::DarkGray)), keys);
    }

    /// A strip for each worker, the newest cells at the right.
    fn lanes(&mut self, frame: &mut Frame<'_>, area: Rect, summary: &Summary) {
        let lanes = summary.lanes().all();
        let inner_rows = usize::from(area.height.saturating_sub(2));
        self.first_lane = self.first_lane.min(lanes.len().saturating_sub(inner_rows));
        let width = usize::from(area.width).saturating_sub(NAME + FIGURES + 4);
        let whole = summary.run().total.total_us;
        let most = |n: usize| lanes.iter().filter_map(|lane| lane.cells.get(n)).max().copied().unwrap_or(0);
        let count = lanes.first().map_or(0, |lane| lane.cells.len());
        let from = count.saturating_sub(width);
        let scale: Vec<u64> = (from..count).map(most).collect();
        let line = |lane: &Lane| strip(lane, from, &scale, whole);
        let shown = lanes.iter().skip(self.first_lane).take(inner_rows).map(line).collect::<Vec<_>>();
        let rest = lanes.len() + summary.lanes().left_out();
        let title = match rest > inner_rows {
            true => {
                format!(" workers {} to {} of {rest} ", self.first_lane + 1, self.first_lane + shown.len())
            }
            false => " workers ".into(),
        };
        frame.render_widget(Paragraph::new(shown).block(Block::bordered().title(title)), area);
    }
}

fn head_lines(frame: &mut Frame<'_>, area: Rect, summary: &Summary, figures: &Figures, is_paused: bool) {
    let run = summary.run();
    let colour = match figures.state {
        "running" | "finished" => Color::Green,
        _ => Color::Red,
    };
    let words =
        std::iter::once(run.program.as_os_str()).chain(run.arguments.iter().map(|word| word.as_os_str()));
    let command: Vec<String> = words.map(|word| printable(&word.to_string_lossy()).into_owned()).collect();
    let state = if is_paused { "paused" } else { figures.state };
    let total = &run.total;
    let share = |us: u64| us.saturating_mul(100).checked_div(total.total_us).unwrap_or(0);
    let rest = figures.line();
    let lines = vec![
        Line::from(vec![
            Span::styled(format!("qjam run {} ", run.id), Style::new().add_modifier(Modifier::BOLD)),
            Span::styled(state, Style::new().fg(colour)),
        ]),
        Line::from(printable(rest.split_once(", ").map_or("", |(_, rest)| rest)).into_owned()),
        Line::from(format!(
            "worker {} %, master {} %, overhead {} %; {} out, {} in; {}",
            share(total.worker_us),
            share(total.master_us),
            share(total.overhead_us),
            output::bytes(figures.bytes_out),
            output::bytes(figures.bytes_in),
            command.join(" "),
        )),
    ];
    frame.render_widget(Paragraph::new(lines), area);
}

/// The first number that the program reports, over the rounds.
fn metric(frame: &mut Frame<'_>, area: Rect, series: &Series) {
    let points: Vec<(f64, f64)> = series
        .points()
        .iter()
        .filter(|point| point.value.is_finite())
        .map(|point| (point.rounds as f64, point.value))
        .collect();
    let bounds = |of: fn(&(f64, f64)) -> f64| {
        let low = points.iter().map(of).fold(f64::INFINITY, f64::min);
        let high = points.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
        if low < high { [low, high] } else { [low.min(0.0), low.max(0.0) + 1.0] }
    };
    let title = format!(" {} ", printable(series.name()));
    let block = Block::bordered().title(title);
    if points.is_empty() {
        return frame.render_widget(block, area);
    }
    let (x, y) = (bounds(|point| point.0), bounds(|point| point.1));
    let data = Dataset::default()
        .marker(Marker::Braille)
        .graph_type(GraphType::Line)
        .style(Style::new().fg(Color::Cyan))
        .data(&points);
    let label = |value: f64| if value.abs() >= 1e5 { format!("{value:.3e}") } else { format!("{value:.4}") };
    let chart = Chart::new(vec![data])
        .block(block)
        .x_axis(Axis::default().bounds(x).labels([format!("{}", x[0]), format!("round {}", x[1])]))
        .y_axis(Axis::default().bounds(y).labels([label(y[0]), label(y[1])]));
    frame.render_widget(chart, area);
}

/// How long rounds took, the newest at the right.
fn round_times(frame: &mut Frame<'_>, area: Rect, columns: &[Column]) {
    let width = usize::from(area.width.saturating_sub(2));
    let mean = |column: &Column| {
        let us = column.worker_us.saturating_add(column.master_us).saturating_add(column.overhead_us);
        us / u64::from(column.count.max(1))
    };
    let times: Vec<u64> = columns.iter().skip(columns.len().saturating_sub(width)).map(mean).collect();
    let most = times.iter().max().copied().unwrap_or(0);
    let each = columns.first().map_or(1, |column| column.count);
    let title = match each {
        1 => format!(" time of a round, at most {} ", output::time(most)),
        n => format!(" time of a round, means of {n}, at most {} ", output::time(most)),
    };
    let block = Block::bordered().title(title);
    let sparkline = Sparkline::default().block(block).style(Style::new().fg(Color::Blue)).data(&times);
    frame.render_widget(sparkline, area);
}

fn strip(lane: &Lane, from: usize, scale: &[u64], whole: u64) -> Line<'static> {
    let name: String = printable(&lane.name).chars().take(NAME).collect();
    let cells = scale.iter().zip(lane.cells.iter().skip(from));
    let shade = |(most, us): (&u64, &u64)| {
        let level = us.saturating_mul(8).checked_div(*most).unwrap_or(0);
        SHADES[(level as usize).min(8)]
    };
    let strip: String = cells.map(shade).collect();
    let share = lane.compute_us.saturating_mul(100).checked_div(whole).unwrap_or(0);
    let lost = if lane.lost > 0 { format!(" {} lost", lane.lost) } else { String::new() };
    let colour = if lane.is_up { Color::Reset } else { Color::Red };
    Line::from(vec![
        Span::styled(format!("{name:<NAME$} "), Style::new().fg(colour)),
        Span::styled(strip, Style::new().fg(Color::Blue)),
        Span::raw(format!(" {share:>3} %{lost}")),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::top::Watched;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::collections::VecDeque;

    /// The screen of a generated run, as text.
    fn screen(workers: u32, rounds: u32, (width, height): (u16, u16), scroll: isize) -> String {
        let name = format!("qjam-top-{}-{workers}-{rounds}-{width}-{scroll}.run", std::process::id());
        let path = std::env::temp_dir().join(name);
        let (mut bytes, mut written) = qjam::runs::Written::begin(workers, 1000);
        (0..rounds).for_each(|_| bytes.extend(written.round()));
        std::fs::write(&path, bytes).expect("a run file");
        let summary = Summary::follow(&path).expect("a run");
        let mut watched = Watched { summary, looks: VecDeque::new() };
        watched.look().expect("a look");
        std::fs::remove_file(&path).expect("it goes");
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        let mut view = View::default();
        view.scroll(scroll);
        terminal.draw(|frame| view.draw(frame, &watched.summary, &watched.figures())).expect("a screen");
        let buffer = terminal.backend().buffer();
        let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
        cells.chunks(usize::from(width)).map(|row| format!("{}\n", row.concat())).collect()
    }

    #[test]
    fn the_screen_has_rates_numbers_rounds_and_workers() {
        let text = screen(3, 40, (100, 30), 0);
        for part in ["killed", "40 rounds", "objective", "time of a round", "proc:0", "proc:2", "█", "q quit"]
        {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn many_workers_are_scrolled_and_no_size_is_too_small() {
        let text = screen(1000, 30, (80, 24), 500);
        assert!(text.contains("proc:500") && text.contains("of 1000"), "{text}");
        assert!(screen(1000, 2, (80, 24), isize::MAX).contains("proc:999"));
        for size in [(1, 1), (10, 3), (20, 10), (300, 5)] {
            screen(5, 5, size, 0);
        }
        screen(0, 0, (80, 24), 0);
    }
}
