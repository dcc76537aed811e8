//! Run files: what every master leaves behind, also when it fails or is killed.
//!
//! The master's loop writes one as it goes ([`recorder`]). It says who ran, on what and with what, what happened, where
//! the time of every round went, and, as far as that is cheap, what every round's value was. The commands `qjam runs`
//! and `qjam show` read it ([`Run`]); a run that goes on from another takes values from it (`runs/earlier.rs`). The layout is
//! in [`record`].
//!
//! Files lie in `$XDG_DATA_HOME/qjam/runs` or `~/.local/share/qjam/runs`, for the user alone, at most 200 of them and
//! 1 GiB: the oldest go when a new run begins. `QJAM_RUNS` names another folder, or is `off`.

mod earlier;
mod effort;
mod folder;
mod follow;
mod names;
mod observed;
mod process;
mod reader;
mod record;
mod recorder;
mod run;
mod sample;
mod saved;
mod secrets;
mod story;
#[cfg(test)]
mod tests;
mod trust;
mod writer;

pub(crate) use earlier::{EarlierRun, Recalled};
pub use folder::civil;
#[doc(hidden)]
pub use follow::Written;
pub use follow::{Event, Follower};
pub(crate) use observed::Observations;
pub(crate) use process::Program;
pub(crate) use record::{Hash, WorkerMemory};
pub(crate) use recorder::Recorder;
pub use run::{DataInfo, FunctionInfo, Note, Round, Run, State};
pub(crate) use saved::Saved;
pub use secrets::MASK;
pub use story::{Happening, Kind, MemorySample, Metric, Share, Story};
use trust::Trust;
pub use trust::{Distrust, distrust};

use crate::codec::Encoder;
use folder::RunFolder;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use thiserror::Error;

/// Names the run to go on from.
pub const RESUME: &str = "QJAM_RESUME";
/// Set to anything, it has a run go on although the executable is another one.
pub const RESUME_ANYWAY: &str = "QJAM_RESUME_ANYWAY";
/// Names the run whose [observed](crate::Master::observe) values are used again, while all rounds are computed.
pub const REPLAY: &str = "QJAM_REPLAY";
/// Set to anything, it has a run go on from a file that others can write.
pub const RESUME_TRUST: &str = "QJAM_RESUME_TRUST";
/// The share of the time that recording long values may take.
pub const RECORD_COST: &str = "QJAM_RECORD_COST";

/// Why a run file cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// There is none of that name.
    #[error("no run of that name in {}; `qjam runs` lists them", .folder.display())]
    NotFound {
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// There are several.
    #[error("several runs are called that: {}", .ids.join(", "))]
    Ambiguous {
        /// Their names.
        ids: Vec<String>,
    },
    /// Nobody says where runs are.
    #[error("there is no folder of runs: HOME is not set, or QJAM_RUNS is `off`; give the file's path")]
    NoFolder,
    /// It could not be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("it is not a run file, or nothing was written into it")]
    NotARun,
    /// It was written by another version.
    #[error("it has format {version}, and this version reads {}", record::VERSION)]
    Version {
        /// The format's number.
        version: u16,
    },
    /// The program has been changed since.
    #[error(
        "it was made by another build of this program, whose results may be others; {RESUME_ANYWAY}=1 goes on from it anyway"
    )]
    OtherBuild,
    /// Others than this user can have written it.
    #[error("{0}, and its values would be believed; `qjam resume --trust` and {RESUME_TRUST}=1 believe it")]
    NotTrusted(Distrust),
    /// It names a run by something that is no name of a run.
    #[error("it names the run before it by a path, and not by a name in its own folder")]
    NotAnId,
    /// Somebody is at it.
    #[error("it is still going on (process {pid})")]
    Running {
        /// Whose it is.
        pid: u32,
    },
}

/// Where run files are; `None` when there are none, because the environment says `off` or there is no home.
pub fn folder() -> Option<PathBuf> {
    match folder::place() {
        RunFolder::At(path) => Some(path),
        RunFolder::Off | RunFolder::Nowhere => None,
    }
}

/// The paths of all run files in a folder, oldest first.
pub fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(folder::list(folder)?.into_iter().map(|file| file.path).collect())
}

/// Finds a run by its name or the end of it, by `last`, or by its path.
pub fn find(folder: Option<&Path>, name: &str) -> Result<PathBuf, RunError> {
    if name.contains('/') || name.ends_with(".run") {
        return Ok(PathBuf::from(name));
    }
    let folder = folder.ok_or(RunError::NoFolder)?;
    let mut files = folder::list(folder)?;
    if name == "last" {
        let last = files.pop().map(|file| file.path);
        return last.ok_or_else(|| RunError::NotFound { folder: folder.to_owned() });
    }
    files.retain(|file| !name.is_empty() && file.id.ends_with(name));
    match files.len() {
        1 => Ok(files.remove(0).path),
        0 => Err(RunError::NotFound { folder: folder.to_owned() }),
        _ => Err(RunError::Ambiguous { ids: files.into_iter().map(|file| file.id).collect() }),
    }
}

/// Says why this process ends before its work is done. A master that is dropped while its thread unwinds writes this into
/// its run file, instead of that the program panicked. For programs that unwind on purpose, with
/// [`resume_unwind`](std::panic::resume_unwind).
pub fn ends_early(why: String) {
    *ENDS_EARLY.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
}

static ENDS_EARLY: Mutex<Option<String>> = Mutex::new(None);

/// Why a thread that drops its master unwinds.
fn why_unwinding() -> String {
    let why = ENDS_EARLY.lock().unwrap_or_else(PoisonError::into_inner);
    why.clone().unwrap_or_else(|| "the program panicked".into())
}

/// The hash of a value's bytes as they would be written.
pub(crate) fn hash(encoded: &Encoder<'_>) -> Hash {
    let mut hasher = blake3::Hasher::new();
    encoded.each_piece(|piece| {
        hasher.update(piece);
    });
    *hasher.finalize().as_bytes()
}

/// The same of a value that has been laid out.
pub(crate) fn hash_bytes(payload: &[u8]) -> Hash {
    *blake3::hash(payload).as_bytes()
}

/// What a master was told about run files.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunOptions {
    /// Another place than what the environment says.
    pub(crate) place: Option<At>,
    /// The run to go on from.
    pub(crate) resume: Option<String>,
    pub(crate) anyway: bool,
    pub(crate) cost: Option<f64>,
    /// Another program than this executable.
    pub(crate) program: Option<Program>,
}

/// Where a master's run file goes.
#[derive(Clone, Debug)]
pub(crate) enum At {
    Nowhere,
    Folder(PathBuf),
}

/// What a master begins with.
#[derive(Default)]
pub(crate) struct Begun {
    pub(crate) recorder: Option<Box<Recorder>>,
    pub(crate) memory: Option<Box<EarlierRun>>,
    /// What that run, or one that is replayed, observed.
    pub(crate) observations: Observations,
    /// What the user should know.
    pub(crate) words: Vec<String>,
}

/// Makes the run file of a new master, and opens that of the run it goes on from.
pub(crate) fn begin(wanted: &RunOptions, workers: &str, seed: u64) -> Result<Begun, CannotResume> {
    let nth = process::next_master();
    let program = wanted.program.clone().unwrap_or_default();
    let mut begun = Begun::default();
    let place = match &wanted.place {
        Some(At::Nowhere) => RunFolder::Off,
        Some(At::Folder(path)) => RunFolder::At(path.clone()),
        None => folder::place(),
    };
    let folder = match &place {
        RunFolder::At(path) => Some(path.as_path()),
        RunFolder::Off | RunFolder::Nowhere => None,
    };
    let earlier = earlier(wanted, &program, folder, nth, &mut begun.words)?;
    if let Some(Earlier { mut run, seed: recorded_seed, is_replayed }) = earlier {
        if recorded_seed == seed {
            begun.observations = run.take_observations();
            begun.memory = (!is_replayed).then(|| Box::new(run));
        } else {
            let id = &run.id;
            begun.words.push(format!("run {id} had seed {recorded_seed} and not {seed}: all is computed"));
        }
    }
    let resumed = begun.memory.as_ref().map(|memory| memory.id.clone());
    match place {
        RunFolder::Off => {}
        RunFolder::Nowhere => begun.words.push("no run file: neither XDG_DATA_HOME nor HOME is set".into()),
        RunFolder::At(path) => {
            let from_environment = || std::env::var(RECORD_COST).ok()?.parse().ok();
            let cost = wanted.cost.or_else(from_environment).filter(|c| *c >= 0.0).unwrap_or(effort::COST);
            match Recorder::create(&path, &program, program.began(nth, workers, seed, resumed), cost) {
                Ok(recorder) => begun.recorder = Some(Box::new(recorder)),
                Err(e) => begun.words.push(format!("no run file in {}: {e}", path.display())),
            }
        }
    }
    Ok(begun)
}

/// The run to go on from cannot be used.
#[derive(Debug)]
pub(crate) struct CannotResume {
    /// Which.
    pub(crate) run: String,
    /// Why.
    pub(crate) why: RunError,
}

/// The run to go on from, or to replay.
struct Earlier {
    run: EarlierRun,
    seed: u64,
    /// Its rounds are computed again; only what it observed is used.
    is_replayed: bool,
}

/// Finds and reads it.
fn earlier(
    wanted: &RunOptions,
    program: &Program,
    folder: Option<&Path>,
    nth: u32,
    words: &mut Vec<String>,
) -> Result<Option<Earlier>, CannotResume> {
    let named_by = |variable: &'static str| {
        std::env::var(variable).ok().filter(|name| !name.is_empty()).map(|name| (name, variable))
    };
    // What the environment names is a whole program's run: each of its masters finds the file of its own number.
    let (name, variable) = match &wanted.resume {
        Some(name) => (name.clone(), None),
        None => match named_by(REPLAY).or_else(|| named_by(RESUME)) {
            Some((name, variable)) => (name, Some(variable)),
            None => return Ok(None),
        },
    };
    let whole_program = variable.is_some();
    let failed = |why| CannotResume { run: name.clone(), why };
    let path = if name == "last" {
        last_of_this_program(program, folder, nth).map_err(failed)?
    } else {
        let path = find(folder, &name).map_err(failed)?;
        if whole_program { sibling(&path, nth).map_err(failed)? } else { Some(path) }
    };
    let Some(path) = path else { return Ok(None) };
    let is_trusted = std::env::var_os(RESUME_TRUST).is_some_and(|v| !v.is_empty());
    let trust = if is_trusted { Trust::All } else { Trust::Own };
    let mut told = Vec::new();
    let (memory, began, executable) = EarlierRun::read(&path, trust, &mut told).map_err(failed)?;
    if whole_program && began.program != program.program() {
        // The variable was handed down to a program that was not meant.
        let variable = variable.unwrap_or(RESUME);
        words.push(format!("{variable} names a run of another program, {}", shown(&began.program)));
        return Ok(None);
    }
    if folder::is_living(&path) {
        return Err(failed(RunError::Running { pid: began.pid }));
    }
    let anyway = wanted.anyway || std::env::var_os(RESUME_ANYWAY).is_some_and(|v| !v.is_empty());
    if !anyway && !is_same_build(program, &began, executable) {
        return Err(failed(RunError::OtherBuild));
    }
    words.append(&mut told);
    Ok(Some(Earlier { run: memory, seed: began.seed, is_replayed: variable == Some(REPLAY) }))
}

/// Whether this build made that run.
fn is_same_build(program: &Program, began: &record::Began, executable: Option<Hash>) -> bool {
    if executable.is_some() {
        return executable == program.build().hash_now();
    }
    let now = program.began(0, "", 0, None);
    let facts = |b: &record::Began| (b.program.clone(), b.program_bytes, b.program_changed_us);
    facts(began) == facts(&now)
}

/// Whether the program of a run is, by its length and the time of its last change, the one that made it. For runs that ended
/// before its hash was taken.
pub fn is_unchanged(run: &Run) -> bool {
    let build = run.build.as_ref().unwrap_or(&run.program);
    let (Ok(began), Ok(now)) = (first_of(&run.path), std::fs::metadata(build)) else { return false };
    let changed_us = (now.mtime() * 1_000_000 + now.mtime_nsec() / 1000) as u64;
    (began.program_bytes, began.program_changed_us) == (now.size(), changed_us)
}

fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// The file that the `nth` master of the same process wrote.
fn sibling(path: &Path, nth: u32) -> Result<Option<PathBuf>, RunError> {
    let named = first_of(path)?;
    if named.nth == nth {
        return Ok(Some(path.to_owned()));
    }
    let Some(folder) = path.parent().filter(|folder| folder::is_folder(folder)) else { return Ok(None) };
    let is_meant =
        |path: &PathBuf| first_of(path).is_ok_and(|began| began.process == named.process && began.nth == nth);
    Ok(list(folder)?.into_iter().find(is_meant))
}

/// The file of the `nth` master in the last process that was started as this one was, unless that came to its end.
fn last_of_this_program(
    program: &Program,
    folder: Option<&Path>,
    nth: u32,
) -> Result<Option<PathBuf>, RunError> {
    let Some(folder) = folder else { return Ok(None) };
    let (program, arguments, pid) = (program.program(), program.arguments(), std::process::id());
    let mut of_process: Option<u64> = None;
    let (mut is_unfinished, mut meant) = (false, None);
    for file in folder::list(folder)?.into_iter().rev() {
        let Ok(began) = first_of(&file.path) else { continue };
        let is_other = began.program != program || began.arguments != arguments || began.pid == pid;
        if is_other || folder::is_living(&file.path) {
            continue;
        }
        if *of_process.get_or_insert(began.process) != began.process {
            break;
        }
        is_unfinished |= Run::read(&file.path).is_ok_and(|run| run.state != State::Finished);
        if began.nth == nth {
            meant = Some(file.path);
        }
    }
    Ok(meant.filter(|_| is_unfinished))
}

fn first_of(path: &Path) -> Result<record::Began, RunError> {
    let mut reader = reader::Reader::new(folder::open(path)?, true)?;
    match reader.next().map(|item| item.record) {
        Some(record::Record::Began(began)) => Ok(*began),
        _ => Err(RunError::NotARun),
    }
}

/// Reads a checkpoint of states in memory, behind a right hash if it is to have one; the bytes of its states. For the fuzz
/// target.
#[doc(hidden)]
pub fn parse_state(bytes: &[u8], sealed: bool) -> Option<u64> {
    saved::parsed_bytes(bytes, sealed)
}

/// A run file with a record of every kind. For the fuzz target.
#[doc(hidden)]
pub fn sample() -> Vec<u8> {
    sample::file()
}

/// Reads all records of a file in memory and says how many there are. For the fuzz target.
#[doc(hidden)]
pub fn read_bytes(bytes: &[u8]) -> Option<(u64, u64)> {
    let run = run::Run::gather(io::Cursor::new(bytes), Path::new("memory")).ok()?;
    Some((run.rounds, run.torn_bytes))
}
