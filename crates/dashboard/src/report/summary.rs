//! All that a page shows of a run, in a bounded number of bytes.
//!
//! Comes in: a run file, complete or growing. Goes out: one JSON object with all of it, and, for a page that has that already, one with
//! what has changed since. Columns, lanes and points are summed up as the run goes on; sums and counts stay exact.

use super::columns::{Columns, Tail};
use super::lanes::{self, Lanes};
use super::series::{self, Series};
use qjam::journal::RoundReport;
use qjam::printable;
use qjam::runs::{self, DataInfo, Event, Follower, FunctionInfo, Note, Run, RunError, State};
use serde::Serialize;
use std::ffi::OsStr;
use std::path::Path;

/// So many notes of a kind are in a page, and so many characters of each.
const NOTES_MAX: usize = 300;
const NOTE_CHARS_MAX: usize = 8000;
/// So many functions and data sets are listed.
const LISTED_MAX: usize = 200;
/// So many cells the lanes of a page have together, and those of a live one, which is not kept.
const CELLS_MAX: usize = 60_000;
const LIVE_CELLS_MAX: usize = 200_000;
/// So many records are read at a time.
const RECORDS_MAX: usize = 20_000;

/// What a page shows of a run, as far as its file was read.
pub struct Summary {
    follower: Follower,
    columns: Columns,
    lanes: Lanes,
    series: Vec<Series>,
    /// What the last changes had.
    told: Sent,
}

/// How far a page has been told.
#[derive(Default)]
struct Sent {
    facts: Option<Facts>,
    functions: Vec<FunctionInfo>,
    data: usize,
    /// How many notes of each kind.
    notes: [usize; 4],
}

/// All of it.
#[derive(Serialize)]
struct Whole<'a> {
    facts: Facts,
    total: RoundReport,
    functions: &'a [FunctionInfo],
    data: &'a [DataInfo],
    columns: &'a Columns,
    lanes: &'a Lanes,
    series: Vec<series::Tail<'a>>,
    notes: Notes,
}

/// What has changed; what is missing has not.
#[derive(Serialize)]
struct More<'a> {
    facts: Option<&'a Facts>,
    total: RoundReport,
    functions: Option<&'a [FunctionInfo]>,
    data: Option<&'a [DataInfo]>,
    columns: Option<Tail<'a>>,
    lanes: Option<lanes::Changes<'a>>,
    series: Vec<series::Tail<'a>>,
    notes: Option<Notes>,
}

/// Who ran, on what, and how it ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// Reads a run file as far as it goes.
    pub fn read(path: &Path) -> Result<Summary, RunError> {
        let mut summary = Summary::open(path, CELLS_MAX)?;
        while summary.advance()? {}
        Ok(summary)
    }

    /// Opens a run file to follow it; [`advance`](Summary::advance) reads it.
    pub fn follow(path: &Path) -> Result<Summary, RunError> {
        Summary::open(path, LIVE_CELLS_MAX)
    }

    fn open(path: &Path, cells_max: usize) -> Result<Summary, RunError> {
        Ok(Summary {
            follower: Follower::open(path)?,
            columns: Columns::default(),
            lanes: Lanes::new(cells_max),
            series: Vec::new(),
            told: Sent::default(),
        })
    }

    /// Reads some of what the file has more, and says whether that was anything.
    pub fn advance(&mut self) -> Result<bool, RunError> {
        let Summary { follower, columns, lanes, series, .. } = self;
        follower.advance(RECORDS_MAX, |event| match event {
            Event::Seat { seat, name } => lanes.name(seat, &name),
            Event::RoundBegan { round, at_us, function } => {
                let listed = Some(function).filter(|number| (*number as usize) < LISTED_MAX);
                if columns.begin(round, at_us, listed) {
                    lanes.columns_grouped();
                }
                lanes.columns(columns.all().len());
            }
            Event::RoundDone { round, at_us, report, recalled } => {
                columns.done(round, at_us, &report, recalled);
            }
            Event::RoundFailed { round, at_us } => columns.failed(round, at_us),
            Event::Computed(share) => {
                if let Some(column) = columns.of_round(share.round) {
                    lanes.computed(&share, column);
                    lanes.columns(columns.all().len());
                }
            }
            Event::Happened(happening) => lanes.happened(&happening),
            Event::Reported(metric) => series::take_in(series, &metric),
            Event::Memory(sample) => lanes.remembered(&sample),
            _ => {}
        })
    }

    /// All of it, as JSON.
    pub fn whole(&self) -> String {
        let run = self.run();
        json(&Whole {
            facts: self.facts(),
            total: run.total,
            functions: first(&run.functions),
            data: first(&run.data),
            columns: &self.columns,
            lanes: &self.lanes,
            series: series::whole(&self.series),
            notes: Notes::of(run, [0; 4]),
        })
    }

    /// What has changed since this was asked last, as JSON; `None` if nothing has.
    pub fn changes(&mut self) -> Option<String> {
        let facts = Some(self.facts()).filter(|facts| self.told.facts.as_ref() != Some(facts));
        let is_same = facts.is_none();
        if let Some(facts) = facts {
            self.told.facts = Some(facts);
        }
        let run = self.follower.run();
        let told = &mut self.told;
        let functions = first(&run.functions);
        let has_functions = told.functions != functions;
        if has_functions {
            told.functions = functions.to_vec();
        }
        let data = first(&run.data);
        let has_data = std::mem::replace(&mut told.data, data.len()) != data.len();
        let counts = Notes::counts(run);
        let notes = (told.notes != counts).then(|| Notes::of(run, told.notes));
        told.notes = counts;
        let (columns, lanes) = (self.columns.changes(), self.lanes.changes());
        let series = series::changes(&mut self.series);
        let is_all_same = is_same && !has_functions && !has_data && notes.is_none();
        if is_all_same && columns.is_none() && lanes.is_none() && series.is_empty() {
            return None;
        }
        Some(json(&More {
            facts: told.facts.as_ref().filter(|_| !is_same),
            total: run.total,
            functions: has_functions.then_some(functions),
            data: has_data.then_some(data),
            columns,
            lanes,
            series,
            notes,
        }))
    }

    fn facts(&self) -> Facts {
        Facts::of(self.run(), self.follower.open_rounds())
    }

    /// The name of the run.
    pub fn id(&self) -> &str {
        &self.run().id
    }

    /// The run as far as it was read.
    pub fn run(&self) -> &Run {
        self.follower.run()
    }

    /// Whether more can come.
    pub fn is_running(&self) -> bool {
        self.follower.is_running()
    }

    /// Its rounds, summed up.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Its workers.
    pub fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// The numbers that its program reported.
    pub fn series(&self) -> &[Series] {
        &self.series
    }
}

fn first<T>(list: &[T]) -> &[T] {
    &list[..list.len().min(LISTED_MAX)]
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("these have only names as keys")
}

impl Facts {
    fn of(run: &Run, open_rounds: usize) -> Facts {
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
                open: open_rounds,
                kept: run.kept,
                checkpoints: run.checkpoints,
                checkpoints_us: run.checkpoints_us,
            },
            missing,
        }
    }
}

impl Notes {
    fn lists(run: &Run) -> [&[Note]; 4] {
        [&run.lost, &run.errors, &run.waits, &run.notes]
    }

    /// How many there are of each kind.
    fn counts(run: &Run) -> [usize; 4] {
        Notes::lists(run).map(<[Note]>::len)
    }

    /// Those after the ones that were told.
    fn of(run: &Run, told: [usize; 4]) -> Notes {
        let lists = Notes::lists(run);
        let part = |n: usize| {
            let list = &lists[n][..lists[n].len().min(NOTES_MAX)];
            let new = list.iter().skip(told[n]);
            let cut = |note: &Note| {
                let mut note = note.clone();
                note.text = shortened(&note.text);
                note
            };
            new.map(cut).collect()
        };
        let left_out = lists.iter().map(|list| list.len().saturating_sub(NOTES_MAX)).sum();
        Notes { lost: part(0), errors: part(1), waits: part(2), other: part(3), left_out }
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
