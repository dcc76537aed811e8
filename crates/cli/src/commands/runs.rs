//! The list of runs.

use crate::args::Runs;
use crate::output;
use anyhow::Context;
use qjam::runs::{self, Run, State};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// So much of why a run failed is in the list.
const WHY_CHARS: usize = 40;

#[derive(Serialize)]
struct Report {
    folder: PathBuf,
    runs: Vec<Row>,
}

/// One line of the list.
#[derive(Serialize)]
struct Row {
    id: String,
    began: String,
    program: String,
    arguments: Vec<String>,
    workers: String,
    rounds: u64,
    state: &'static str,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    seconds: f64,
    bytes: u64,
}

pub(crate) fn run(args: &Runs) -> anyhow::Result<()> {
    let folder = folder()?;
    let paths = runs::list(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    // Newest first; what cannot be read is not a run of this version.
    let rows: Vec<Row> = paths.iter().rev().filter_map(|path| Run::read(path).ok()).map(Row::new).collect();
    if args.json {
        output::json(&Report { folder, runs: rows })?;
        return Ok(());
    }
    if rows.is_empty() {
        output::line(format!("No runs in {}.", folder.display()));
        return Ok(());
    }
    let table = rows.iter().map(|row| {
        [
            row.id.clone(),
            row.began.clone(),
            row.program.clone(),
            row.workers.clone(),
            row.rounds.to_string(),
            row.state_cell(),
            output::time((row.seconds * 1e6) as u64),
            output::bytes(row.bytes),
        ]
    });
    output::table(["id", "began", "program", "workers", "rounds", "state", "time", "size"], table);
    Ok(())
}

/// Where the runs are.
pub(super) fn folder() -> anyhow::Result<PathBuf> {
    runs::folder().context("there is no folder of runs: QJAM_RUNS is `off`, or HOME is not set")
}

/// Reads the run of that name.
pub(super) fn named(name: &str) -> anyhow::Result<Run> {
    let folder = runs::folder();
    let read = |path: PathBuf| Run::read(&path);
    let name = if name == "latest" { "last" } else { name };
    runs::find(folder.as_deref(), name).and_then(read).with_context(|| format!("cannot read run `{name}`"))
}

pub(super) fn word(state: &State) -> &'static str {
    match state {
        State::Finished => "finished",
        State::Failed(_) => "failed",
        State::Killed => "killed",
        State::Running => "running",
        _ => "unknown",
    }
}

/// When a run began, universal time.
pub(super) fn began(run: &Run) -> String {
    let [year, month, day, hour, minute, second] = runs::civil(run.unix_us / 1_000_000);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// The last part of a path.
pub(super) fn short(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

impl Row {
    /// The state, and the beginning of why it failed; all of it is in `qjam show`.
    fn state_cell(&self) -> String {
        let Some(why) = self.error.as_deref().and_then(|why| why.lines().next()) else {
            return self.state.to_owned();
        };
        let short: String = why.chars().take(WHY_CHARS).collect();
        let rest = if short.len() < why.len() { "…" } else { "" };
        format!("{}: {short}{rest}", self.state)
    }

    fn new(run: Run) -> Row {
        Row {
            began: began(&run),
            program: short(&run.program),
            arguments: run.arguments.iter().map(|a| a.to_string_lossy().into_owned()).collect(),
            rounds: run.rounds,
            state: word(&run.state),
            error: match &run.state {
                State::Failed(why) => Some(why.clone()),
                _ => None,
            },
            seconds: run.lasted_us as f64 / 1e6,
            bytes: run.bytes,
            workers: run.workers,
            id: run.id,
        }
    }
}
