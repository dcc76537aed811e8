//! A run as its file tells it: what `qjam runs` and `qjam show` print.

use super::RunError;
use super::folder;
use super::reader::Reader;
use super::record::{Began, FileState, Record, StoredValue};
use qjam_core::ids::{SeatId, WorkerId};
use qjam_core::journal::{RoundReport, What};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io::{Read, Seek};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Notes of each kind that are kept of one run.
const NOTES_MAX: usize = 10_000;

/// What is told of a run that failed after its file had to stop.
const NO_ROOM_FOR_WHY: &str =
    "it failed; why could not be recorded, since its run file could not be written any more";

/// Where a run stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// It came to its end.
    Finished,
    /// It came to its end, and this is what had gone wrong last.
    Failed(String),
    /// It was ended without a chance to say so.
    Killed,
    /// It goes on.
    Running,
}

/// Something that happened, when (in microseconds since the run began), and to whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Note {
    /// When.
    pub at_us: u64,
    /// Which worker or round.
    pub whom: String,
    /// What.
    pub text: String,
}

/// What the rounds of one function took together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FunctionInfo {
    /// Its path in the program.
    pub name: String,
    /// How many of its rounds were computed.
    pub rounds: u64,
    /// All their reports, added up.
    pub total: RoundReport,
}

/// A data set that rounds ran over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DataInfo {
    /// The hash of its chunks' hashes.
    pub hash: String,
    /// How many chunks.
    pub chunks: u32,
    /// How many bytes.
    pub bytes: u64,
}

/// One round.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Round {
    /// Its number.
    pub round: u64,
    /// When it began.
    pub began_us: u64,
    /// When it had its value or failed, if it did.
    pub ended_us: Option<u64>,
    /// The function's name.
    pub function: String,
    /// The hash of its data.
    pub data: String,
    /// The hash of its parameters, if it was taken.
    pub params: Option<String>,
    /// The hash of its value, if it was taken.
    pub result: Option<String>,
    /// Length of its value, if that is in the file.
    pub kept_bytes: Option<u64>,
    /// Whether its value came from an earlier run.
    pub recalled: bool,
    /// Where its time went, if it was finished.
    pub report: Option<RoundReport>,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Run {
    /// Its name.
    pub id: String,
    /// Its file.
    pub path: PathBuf,
    /// Length of the file.
    pub bytes: u64,
    /// Where it stands.
    pub state: State,
    /// When it began, in microseconds since 1970.
    pub unix_us: u64,
    /// From its beginning to the last thing recorded.
    pub lasted_us: u64,
    /// The machine, and the process on it.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// How many masters that process had made before.
    pub nth: u32,
    /// The executable.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Where it was started.
    pub directory: PathBuf,
    /// The file that computes, where that is a library of the executable's.
    pub build: Option<PathBuf>,
    /// The executable's hash, or that library's, if there was time to take it.
    pub executable: Option<String>,
    /// Version of this package.
    pub version: String,
    /// The worker string.
    pub workers: String,
    /// The seed.
    pub seed: u64,
    /// The run that it went on from.
    pub resumed: Option<String>,
    /// Rounds that have a value.
    pub rounds: u64,
    /// Those of them whose value came from an earlier run.
    pub recalled: u64,
    /// Rounds that failed.
    pub failed: u64,
    /// Rounds that were begun and neither finished nor failed: their numbers and functions.
    pub open: Vec<(u64, String)>,
    /// Rounds whose value is in the file.
    pub kept: u64,
    /// The reports of all computed rounds, added up.
    pub total: RoundReport,
    /// The same for each function.
    pub functions: Vec<FunctionInfo>,
    /// The data sets.
    pub data: Vec<DataInfo>,
    /// Workers that were lost, and interpreters of workers, and why.
    pub lost: Vec<Note>,
    /// Rounds that failed, and why.
    pub errors: Vec<Note>,
    /// Waits that were told.
    pub waits: Vec<Note>,
    /// Everything else that happened.
    pub notes: Vec<Note>,
    /// Values that the program got from elsewhere than its rounds: see [`Master::observe`](crate::Master::observe).
    pub observed: u64,
    /// How often states were brought home to be able to make them again.
    pub checkpoints: u64,
    /// What that took.
    pub checkpoints_us: u64,
    /// Recording had to stop before the run was over: the disk was full, for example.
    pub is_cut_short: bool,
    /// There were so many rounds that the last ones were only counted.
    pub is_full: bool,
    /// Bytes at the end that are no whole record.
    pub torn_bytes: u64,
}

impl Run {
    /// Reads a run file.
    pub fn read(path: &Path) -> Result<Run, RunError> {
        let file = folder::open(path)?;
        let is_living = folder::is_locked(&file);
        let mut run = Run::gather(file, path)?;
        if is_living && run.state == State::Killed {
            run.state = State::Running;
        }
        Ok(run)
    }

    /// All rounds of a run file, in the order in which they began. Their values' hashes are taken, which takes longer.
    pub fn rounds(path: &Path) -> Result<Vec<Round>, RunError> {
        let mut reader = Reader::new(folder::open(path)?, false)?;
        let (mut functions, mut data) = (HashMap::new(), HashMap::new());
        let mut rounds: BTreeMap<u64, Round> = BTreeMap::new();
        while let Some(item) = reader.next() {
            match item.record {
                Record::Function { number, name } => {
                    functions.insert(number, name);
                }
                Record::Data { number, id, .. } => {
                    data.insert(number, hex(&id));
                }
                Record::RoundBegan { round, at_us, function, data: over } => {
                    let begun = Round {
                        round,
                        began_us: at_us,
                        ended_us: None,
                        function: functions.get(&function).cloned().unwrap_or_default(),
                        data: data.get(&over).cloned().unwrap_or_default(),
                        params: None,
                        result: None,
                        kept_bytes: None,
                        recalled: false,
                        report: None,
                        error: None,
                    };
                    rounds.insert(round, begun);
                }
                Record::RoundDone { round, at_us, params, report, kept, recalled } => {
                    let Some(begun) = rounds.get_mut(&round) else { continue };
                    begun.ended_us = Some(at_us);
                    begun.params = params.map(|hash| hex(&hash));
                    begun.report = Some(report);
                    begun.recalled = recalled;
                    begun.result = match kept {
                        StoredValue::Nothing => None,
                        StoredValue::Hash(hash) => Some(hex(&hash)),
                        StoredValue::Bytes => item.tail_hash.map(|hash| hash.to_hex().to_string()),
                    };
                    begun.kept_bytes = (kept == StoredValue::Bytes).then_some(item.tail_bytes as u64);
                }
                Record::RoundFailed { round, at_us, error } => {
                    if let Some(begun) = rounds.get_mut(&round) {
                        begun.ended_us = Some(at_us);
                        begun.error = Some(error);
                    }
                }
                _ => {}
            }
        }
        Ok(rounds.into_values().collect())
    }

    pub(super) fn gather(input: impl Read + Seek, path: &Path) -> Result<Run, RunError> {
        let mut reader = Reader::new(input, true)?;
        let Some(Record::Began(began)) = reader.next().map(|item| item.record) else {
            return Err(RunError::NotARun);
        };
        let mut gatherer = Gatherer::new(Run::new(*began, path));
        while let Some(item) = reader.next() {
            gatherer.take_in(item.record);
        }
        gatherer.settle(&reader, false);
        Ok(gatherer.run)
    }

    pub(super) fn new(began: Began, path: &Path) -> Run {
        let path_of = |bytes: Vec<u8>| PathBuf::from(OsString::from_vec(bytes));
        Run {
            id: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            path: path.to_owned(),
            bytes: 0,
            state: State::Killed,
            unix_us: began.unix_us,
            lasted_us: 0,
            host: began.host,
            pid: began.pid,
            nth: began.nth,
            program: path_of(began.program),
            arguments: began.arguments.into_iter().map(OsString::from_vec).collect(),
            directory: path_of(began.directory),
            build: None,
            executable: None,
            version: began.version,
            workers: began.workers,
            seed: began.seed,
            resumed: began.resumed,
            rounds: 0,
            recalled: 0,
            failed: 0,
            open: Vec::new(),
            kept: 0,
            total: RoundReport::default(),
            functions: Vec::new(),
            data: Vec::new(),
            lost: Vec::new(),
            errors: Vec::new(),
            waits: Vec::new(),
            notes: Vec::new(),
            observed: 0,
            checkpoints: 0,
            checkpoints_us: 0,
            is_cut_short: false,
            is_full: false,
            torn_bytes: 0,
        }
    }
}

/// Puts a run together from its records.
pub(super) struct Gatherer {
    pub(super) run: Run,
    names: HashMap<u32, String>,
    /// Rounds that have begun and not ended, and which function they run.
    open: BTreeMap<u64, usize>,
    /// How the run ended, if there is a record of it.
    ended: Option<State>,
}

impl Gatherer {
    pub(super) fn new(run: Run) -> Gatherer {
        Gatherer { run, names: HashMap::new(), open: BTreeMap::new(), ended: None }
    }

    /// How many rounds have begun and not ended.
    pub(super) fn open_rounds(&self) -> usize {
        self.open.len()
    }

    /// Notes what follows from where the reader stands, when it has read what there is.
    pub(super) fn settle<R: Read + Seek>(&mut self, reader: &Reader<R>, is_living: bool) {
        let run = &mut self.run;
        run.torn_bytes = reader.torn_bytes();
        run.bytes = reader.at() + run.torn_bytes;
        run.is_cut_short = reader.state != FileState::Whole;
        run.state = match (&self.ended, reader.state) {
            (_, FileState::Finished) => State::Finished,
            (_, FileState::Failed) => State::Failed(NO_ROOM_FOR_WHY.into()),
            (Some(ended), _) => ended.clone(),
            (None, _) if is_living => State::Running,
            (None, _) => State::Killed,
        };
        let name = |n: &usize| run.functions.get(*n).map_or_else(String::new, |f| f.name.clone());
        // A run has few rounds under way; of a file that says otherwise, the first are named.
        run.open = self.open.iter().take(NOTES_MAX).map(|(round, n)| (*round, name(n))).collect();
    }

    pub(super) fn take_in(&mut self, record: Record) {
        let run = &mut self.run;
        match record {
            Record::Began(_) => {}
            Record::Executable(hash) => run.executable = Some(hex(&hash)),
            Record::Build(path) => run.build = Some(PathBuf::from(OsString::from_vec(path))),
            Record::Seat { seat, name } => {
                self.names.insert(seat, name);
            }
            // Numbers are given in order; one that is not is nobody's.
            Record::Function { number, name } if number as usize == run.functions.len() => {
                run.functions.push(FunctionInfo { name, rounds: 0, total: RoundReport::default() });
            }
            Record::Data { number, id, chunks, bytes } if number as usize == run.data.len() => {
                run.data.push(DataInfo { hash: hex(&id), chunks, bytes });
            }
            Record::Function { .. } | Record::Data { .. } => {}
            Record::Happened { at_us, what } => {
                run.lasted_us = run.lasted_us.max(at_us);
                self.happened(at_us, what);
            }
            Record::RoundBegan { round, at_us, function, .. } => {
                run.lasted_us = run.lasted_us.max(at_us);
                self.open.insert(round, function as usize);
            }
            Record::RoundDone { round, at_us, report, kept, recalled, .. } => {
                run.lasted_us = run.lasted_us.max(at_us);
                run.rounds += 1;
                run.recalled += u64::from(recalled);
                run.kept += u64::from(kept == StoredValue::Bytes);
                let function = self.open.remove(&round);
                if !recalled {
                    add(&mut run.total, &report);
                    if let Some(info) = function.and_then(|n| run.functions.get_mut(n)) {
                        info.rounds += 1;
                        add(&mut info.total, &report);
                    }
                }
            }
            Record::RoundFailed { round, at_us, error } => {
                run.lasted_us = run.lasted_us.max(at_us);
                run.failed += 1;
                self.open.remove(&round);
                note(&mut run.errors, at_us, format!("round {round}"), error);
            }
            Record::Waited { at_us, text } => {
                run.lasted_us = run.lasted_us.max(at_us);
                note(&mut run.waits, at_us, String::new(), text);
            }
            Record::Observed { .. } => run.observed += 1,
            Record::Metric { at_us, .. } | Record::Memory { at_us, .. } => {
                run.lasted_us = run.lasted_us.max(at_us);
            }
            Record::Shares { .. } | Record::ChunkNames { .. } => {}
            Record::Full { .. } => run.is_full = true,
            Record::Counted { at_us, finished, failed } => {
                run.lasted_us = run.lasted_us.max(at_us);
                (run.rounds, run.failed) = (finished.max(run.rounds), failed.max(run.failed));
            }
            Record::Ended { at_us, error } => {
                run.lasted_us = run.lasted_us.max(at_us);
                self.ended = Some(error.map_or(State::Finished, State::Failed));
            }
        }
    }

    fn happened(&mut self, at_us: u64, what: What) {
        if let What::Checkpointed { took_us, .. } = what {
            self.run.checkpoints += 1;
            self.run.checkpoints_us = self.run.checkpoints_us.saturating_add(took_us);
        }
        let seat_name = |seat: SeatId| self.names.get(&seat.0).cloned().unwrap_or_else(|| seat.to_string());
        let name =
            |worker: WorkerId| self.names.get(&worker.seat.0).cloned().unwrap_or_else(|| worker.to_string());
        let (whom, text) = match what {
            What::WorkerLost(worker, death) => {
                return note(&mut self.run.lost, at_us, name(worker), death.to_string());
            }
            What::InterpreterLost { worker, death, .. } => {
                return note(&mut self.run.lost, at_us, name(worker), format!("its interpreter: {death}"));
            }
            What::WorkerStarted(worker) => (name(worker), "was started".into()),
            What::WorkerJoined(worker) => (name(worker), "was ready".into()),
            What::WorkerSuspected(worker) => (name(worker), "was silent; others got its blocks, too".into()),
            What::WorkerReturned(worker) => (name(worker), "spoke again".into()),
            What::SeatGivenUp(worker) => (name(worker), "was given up".into()),
            What::SeatRemoved(seat) => (seat_name(seat), "was sent away".into()),
            What::Restored { round, worker, partition, from, steps, .. } => {
                let text = format!(
                    "made the state of partition {partition} again for {round}, from what it was {from}, with {steps} rounds"
                );
                (name(worker), text)
            }
            What::Moved { partitions, from, to, .. } => (
                seat_name(to),
                format!("takes the states of partitions {partitions:?} from {}", seat_name(from)),
            ),
            What::Checkpointed { version, partitions, bytes, took_us, .. } => {
                let text =
                    format!("checkpoint of {partitions} states, {version}: {bytes} bytes in {took_us} us");
                (String::new(), text)
            }
            What::Retried { round, worker, blocks } => {
                (name(worker), format!("got {blocks} blocks of {round} that another had had"))
            }
            What::Discarded { round, worker, blocks } => {
                (name(worker), format!("brought {blocks} blocks of {round} that no longer counted"))
            }
            What::Stolen { round, worker, blocks } => {
                (name(worker), format!("gave back {blocks} blocks of {round} that it had not begun"))
            }
            What::BackedUp { round, block, late, worker } => {
                (name(late), format!("was late with {block} of {round}; {} got it, too", name(worker)))
            }
            What::WorkersChosen { round, why, .. } => (String::new(), format!("{round} gets {why}")),
            other => (String::new(), format!("{other:?}")),
        };
        note(&mut self.run.notes, at_us, whom, text);
    }
}

fn note(notes: &mut Vec<Note>, at_us: u64, whom: String, text: String) {
    if notes.len() < NOTES_MAX {
        notes.push(Note { at_us, whom, text });
    }
}

fn add(total: &mut RoundReport, report: &RoundReport) {
    let RoundReport { round: _, total_us, worker_us, master_us, overhead_us, .. } = report;
    let sum = |a: &mut u64, b: u64| *a = a.saturating_add(b);
    sum(&mut total.total_us, *total_us);
    sum(&mut total.worker_us, *worker_us);
    sum(&mut total.master_us, *master_us);
    sum(&mut total.overhead_us, *overhead_us);
    sum(&mut total.bytes_out, report.bytes_out);
    sum(&mut total.bytes_in, report.bytes_in);
    sum(&mut total.chunks_sent, report.chunks_sent);
    sum(&mut total.cache_hits, report.cache_hits);
    sum(&mut total.cache_misses, report.cache_misses);
    sum(&mut total.retries, report.retries);
    sum(&mut total.discarded, report.discarded);
    sum(&mut total.lost, report.lost);
    sum(&mut total.stolen, report.stolen);
    sum(&mut total.backups, report.backups);
    sum(&mut total.restored, report.restored);
    sum(&mut total.replayed, report.replayed);
}

pub(super) fn hex(hash: &[u8; 32]) -> String {
    blake3::Hash::from_bytes(*hash).to_hex().to_string()
}
