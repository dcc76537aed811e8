//! A run over time, as a report draws it: who computed how long in which round, what happened to workers, what they had in
//! memory, and the numbers that the program reported of itself.
//!
//! Comes in: a run file. Goes out: a [`Story`]. The facts of the run itself are in [`Run`](super::Run), its rounds in
//! [`Run::rounds`](super::Run::rounds). Memory is bounded by the length of the file.

use super::RunError;
use super::folder;
use super::reader::Reader;
use super::record::{Record, WorkerMemory};
use crate::dataset::CutData;
use qjam_core::chunk::ChunkId;
use qjam_core::ids::SeatId;
use qjam_core::journal::What;
use std::collections::BTreeMap;
use std::path::Path;

/// So many names of chunks are recorded for a data set.
const NAMES_MAX: usize = 16_384;

/// What happened to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// Its process was started.
    Started,
    /// It was ready for work.
    Joined,
    /// It was silent, and others got its blocks, too.
    Suspected,
    /// It sent a message again.
    Returned,
    /// It was lost.
    Lost,
    /// An interpreter of its was lost.
    InterpreterLost,
    /// No worker is started in its place any more.
    GivenUp,
    /// It got blocks that another had had.
    Retried,
    /// It got a copy of a late block.
    BackedUp,
    /// Blocks that it had not begun were given to another.
    Stolen,
    /// It delivered blocks that no longer counted.
    Discarded,
    /// It rebuilt the state of a partition.
    Restored,
}

/// Something that happened to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Happening {
    /// When, in microseconds since the run began.
    pub at_us: u64,
    /// To which seat.
    pub seat: u32,
    /// What.
    pub kind: Kind,
}

/// How long a seat computed for a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Share {
    /// Number of the round.
    pub round: u64,
    /// Which seat.
    pub seat: u32,
    /// Microseconds.
    pub compute_us: u64,
}

/// A number that the program reported of itself.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metric {
    /// When, in microseconds since the run began.
    pub at_us: u64,
    /// How many rounds had their value by then.
    pub rounds: u64,
    /// What it is.
    pub name: String,
    /// The number.
    pub value: f64,
}

/// What a worker's process had in memory, those that it had started included. Told of processes on the master's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemorySample {
    /// When, in microseconds since the run began.
    pub at_us: u64,
    /// Which seat.
    pub seat: u32,
    /// Its own.
    pub private_bytes: u64,
    /// In memory that processes share: data sets made from values, long parameters and results.
    pub shared_bytes: u64,
}

impl MemorySample {
    pub(super) fn of(at_us: u64, worker: &WorkerMemory) -> MemorySample {
        let WorkerMemory { seat, private_bytes, shared_bytes } = *worker;
        MemorySample { at_us, seat, private_bytes, shared_bytes }
    }

    /// Both together.
    pub fn bytes(&self) -> u64 {
        self.private_bytes.saturating_add(self.shared_bytes)
    }
}

/// A run over time.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Story {
    /// Names of the seats.
    pub seats: BTreeMap<u32, String>,
    /// What happened to workers, in order.
    pub happenings: Vec<Happening>,
    /// Computing times, in the order in which rounds ended.
    pub shares: Vec<Share>,
    /// Reported numbers, in order.
    pub metrics: Vec<Metric>,
    /// What workers had in memory, in order.
    pub memory: Vec<MemorySample>,
    /// For each data set, by its hash: how many neighbouring chunks a name stands for, and their names.
    pub chunk_names: BTreeMap<String, (u32, Vec<u64>)>,
}

impl Story {
    /// Reads it from a run file.
    pub fn read(path: &Path) -> Result<Story, RunError> {
        let mut reader = Reader::new(folder::open(path)?, true)?;
        let (mut story, mut data) = (Story::default(), BTreeMap::new());
        while let Some(item) = reader.next() {
            match item.record {
                Record::Seat { seat, name } => {
                    story.seats.insert(seat, name);
                }
                Record::Data { number, id, .. } => {
                    data.insert(number, super::run::hex(&id));
                }
                Record::ChunkNames { number, chunks_each, names } => {
                    if let Some(hash) = data.get(&number) {
                        story.chunk_names.insert(hash.clone(), (chunks_each.max(1), names));
                    }
                }
                Record::Shares { round, shares } => {
                    let share = |(seat, compute_us)| Share { round, seat, compute_us };
                    story.shares.extend(shares.into_iter().map(share));
                }
                Record::Metric { at_us, rounds, name, value } => {
                    story.metrics.push(Metric { at_us, rounds, name, value });
                }
                Record::Memory { at_us, workers } => {
                    story.memory.extend(workers.iter().map(|worker| MemorySample::of(at_us, worker)));
                }
                Record::Happened { at_us, what } => {
                    if let Some((SeatId(seat), kind)) = happening(&what) {
                        story.happenings.push(Happening { at_us, seat, kind });
                    }
                }
                _ => {}
            }
        }
        Ok(story)
    }
}

/// The seat that an entry of the journal is about, and what happened to it.
pub(super) fn happening(what: &What) -> Option<(SeatId, Kind)> {
    let (worker, kind) = match what {
        What::WorkerStarted(worker) => (worker, Kind::Started),
        What::WorkerJoined(worker) => (worker, Kind::Joined),
        What::WorkerSuspected(worker) => (worker, Kind::Suspected),
        What::WorkerReturned(worker) => (worker, Kind::Returned),
        What::WorkerLost(worker, _) => (worker, Kind::Lost),
        What::InterpreterLost { worker, .. } => (worker, Kind::InterpreterLost),
        What::SeatGivenUp(worker) => (worker, Kind::GivenUp),
        What::Retried { worker, .. } => (worker, Kind::Retried),
        What::BackedUp { worker, .. } => (worker, Kind::BackedUp),
        What::Stolen { worker, .. } => (worker, Kind::Stolen),
        What::Discarded { worker, .. } => (worker, Kind::Discarded),
        What::Restored { worker, .. } => (worker, Kind::Restored),
        _ => return None,
    };
    Some((worker.seat, kind))
}

/// The record with the names of the chunks of a data set. A name is the beginning of the chunk's hash, or of the hash of the
/// hashes of several neighbours.
pub(super) fn chunk_names(number: u32, data: &CutData) -> Record {
    let chunks_each = data.chunks.len().div_ceil(NAMES_MAX).max(1);
    let ids: Vec<ChunkId> = data.chunks.iter().map(|entry| entry.id).collect();
    let name = |neighbours: &[ChunkId]| match neighbours {
        [one] => beginning(&one.0),
        several => {
            let mut hasher = blake3::Hasher::new();
            for id in several {
                hasher.update(&id.0);
            }
            beginning(hasher.finalize().as_bytes())
        }
    };
    let names = ids.chunks(chunks_each).map(name).collect();
    Record::ChunkNames { number, chunks_each: chunks_each as u32, names }
}

fn beginning(hash: &[u8; 32]) -> u64 {
    hash[..8].iter().rev().fold(0, |name, byte| name << 8 | u64::from(*byte))
}
