//! All that a page shows of a run, in a bounded number of bytes.

use super::columns::Columns;
use super::lanes::Lanes;
use super::series::{self, Series};
use qjam::journal::RoundReport;
use qjam::printable;
use qjam::runs::{self, DataInfo, FunctionInfo, Note, Run, RunError, State, Story};
use serde::Serialize;
use std::ffi::OsStr;
use std::path::Path;

/// So many notes of a kind are in a page, and so many characters of each.
const NOTES_MAX: usize = 300;
const NOTE_CHARS_MAX: usize = 8000;
/// So many functions and data sets are listed.
const LISTED_MAX: usize = 200;

/// What a page shows.
#[derive(Debug, Serialize)]
pub struct Summary {
    facts: Facts,
    total: RoundReport,
    functions: Vec<FunctionInfo>,
    data: Vec<DataInfo>,
    columns: Columns,
    lanes: Lanes,
    series: Vec<Series>,
    notes: Notes,
}

/// Who ran, on what, and how it ended.
#[derive(Debug, Serialize)]
struct Facts {
    id: String,
    state: &'static str,
    error: Option<String>,
    began: String,
    lasted_us: u64,
    host: String,
    pid: u32,
    command: String,
    directory: String,
    version: String,
    executable: Option<String>,
    workers: String,
    seed: u64,
    resumed: Option<String>,
    counts: Counts,
    /// What is missing in the file, in sentences.
    missing: Vec<&'static str>,
}

/// How many rounds came to which end.
#[derive(Debug, Serialize)]
struct Counts {
    finished: u64,
    recalled: u64,
    failed: u64,
    open: usize,
    kept: u64,
    checkpoints: u64,
    checkpoints_us: u64,
}

/// What happened, in words.
#[derive(Debug, Serialize)]
struct Notes {
    lost: Vec<Note>,
    errors: Vec<Note>,
    waits: Vec<Note>,
    other: Vec<Note>,
    /// Notes of all kinds that are not in the page.
    left_out: usize,
}

impl Summary {
    /// Reads a run file.
    pub fn read(path: &Path) -> Result<Summary, RunError> {
        let (run, story, rounds) = (Run::read(path)?, Story::read(path)?, Run::rounds(path)?);
        let names: Vec<String> = run.functions.iter().map(|function| function.name.clone()).collect();
        let columns = Columns::of(&rounds, &names);
        let lanes = Lanes::of(&story, &columns);
        Ok(Summary {
            facts: Facts::of(&run),
            total: run.total,
            functions: run.functions.into_iter().take(LISTED_MAX).collect(),
            data: run.data.into_iter().take(LISTED_MAX).collect(),
            columns,
            lanes,
            series: series::of(&story.metrics),
            notes: Notes::of(run.lost, run.errors, run.waits, run.notes),
        })
    }

    /// The name of the run.
    pub fn id(&self) -> &str {
        &self.facts.id
    }
}

impl Facts {
    fn of(run: &Run) -> Facts {
        let (state, error) = match &run.state {
            State::Finished => ("finished", None),
            State::Failed(why) => ("failed", Some(shortened(why))),
            State::Killed => ("killed", None),
            State::Running => ("running", None),
            _ => ("unknown", None),
        };
        let [year, month, day, hour, minute, second] = runs::civil(run.unix_us / 1_000_000);
        let words =
            std::iter::once(run.program.as_os_str()).chain(run.arguments.iter().map(|a| a.as_os_str()));
        let mut missing = Vec::new();
        if run.is_cut_short {
            missing.push(
                "Recording had to stop before the run was over, for example because the disk was full.",
            );
        }
        if run.is_full {
            missing.push("There were so many rounds that the last ones were only counted.");
        }
        Facts {
            id: run.id.clone(),
            state,
            error,
            began: format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC"),
            lasted_us: run.lasted_us,
            host: printable(&run.host).into(),
            pid: run.pid,
            command: words.map(shown).collect::<Vec<_>>().join(" "),
            directory: shown(run.directory.as_os_str()),
            version: run.version.clone(),
            executable: run.executable.clone(),
            workers: run.workers.clone(),
            seed: run.seed,
            resumed: run.resumed.clone(),
            counts: Counts {
                finished: run.rounds,
                recalled: run.recalled,
                failed: run.failed,
                open: run.open.len(),
                kept: run.kept,
                checkpoints: run.checkpoints,
                checkpoints_us: run.checkpoints_us,
            },
            missing,
        }
    }
}

impl Notes {
    fn of(lost: Vec<Note>, errors: Vec<Note>, waits: Vec<Note>, other: Vec<Note>) -> Notes {
        let mut left_out = 0;
        let mut first = |mut notes: Vec<Note>| {
            left_out += notes.len().saturating_sub(NOTES_MAX);
            notes.truncate(NOTES_MAX);
            notes.iter_mut().for_each(|note| note.text = shortened(&note.text));
            notes
        };
        let (lost, errors, waits, other) = (first(lost), first(errors), first(waits), first(other));
        Notes { lost, errors, waits, other, left_out }
    }
}

fn shown(word: &OsStr) -> String {
    printable(&word.to_string_lossy()).into()
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(NOTE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
