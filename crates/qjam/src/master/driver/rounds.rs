//! Rounds under way, as the master's loop keeps them.
//!
//! A [`Round`] is an [`Order`], the request it came from, what has come back so far, and what it has cost. Its invariants:
//! it is answered once; it stays here until nobody has anything left to do with it; a delivered part is in
//! [`Rounds::parts`] from the moment the scheduler is told of it until its verdict is carried out.

use super::choosing::Chosen;
use super::holding::HeldRound;
use super::merging::{HalfBuilt, Helpers};
use super::pacing::Rhythm;
use super::weighing::Weighing;
use crate::dataset::CutData;
use crate::engine::Crew;
use crate::engine::order::{Order, Traffic};
use crate::engine::seat::PartValue;
use crate::error::{self, Error};
use crate::function::{AnyBox, Function};
use crate::id_map::IdMap;
use crate::runs::Hash;
use qjam_core::ids::{HoldId, PartId, RoundId, SeatId, WorkerId};
use qjam_core::job::RoundFailure;
use qjam_core::journal::RoundReport;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// What a user wants run, with its types taken off.
pub(crate) struct RoundRequest {
    pub(crate) function: Function,
    pub(crate) data: Arc<CutData>,
    pub(crate) answer: Arc<Answer>,
    pub(crate) submitted: Instant,
    /// The states it needs, if any.
    pub(crate) held: Option<HoldId>,
    /// How long the accumulator of a fold is, if its attribute says so.
    pub(crate) accumulator_bytes: Option<u64>,
}

/// Where a round's value is put.
#[derive(Default)]
pub(crate) struct Answer {
    value: Mutex<Option<Result<AnyBox, Error>>>,
    pub(crate) report: Mutex<Option<RoundReport>>,
    /// Since when a caller waits for it.
    pub(crate) awaited: OnceLock<Instant>,
}

impl Answer {
    pub(crate) fn give(&self, value: Result<AnyBox, Error>) {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }

    pub(crate) fn take(&self) -> Option<Result<AnyBox, Error>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Takes the refusal of a round over states that another round is changing.
    pub(crate) fn take_busy(&self) -> Option<Error> {
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        value.take_if(|value| matches!(value, Err(Error::HeldBusy)))?.err()
    }

    pub(crate) fn is_given(&self) -> bool {
        self.value.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// The caller's side of a round.
pub(super) struct Caller {
    pub(super) answer: Arc<Answer>,
    pub(super) submitted: Instant,
    /// When the round has taken too long.
    pub(super) deadline: Option<Instant>,
    /// When the caller was last told whom it waits for.
    pub(super) told: Option<Instant>,
}

/// What a round has cost so far.
#[derive(Default)]
pub(super) struct Account {
    pub(super) report: RoundReport,
    /// Computing time of each seat.
    pub(super) compute_us: IdMap<SeatId, u64>,
    /// What its results weigh, if that is looked at.
    pub(super) weighing: Option<Box<Weighing>>,
}

impl Account {
    pub(super) fn add(&mut self, traffic: Traffic) {
        self.report.bytes_out += traffic.bytes_out;
        self.report.bytes_in += traffic.bytes_in;
        self.report.chunks_sent += traffic.chunks_sent;
    }
}

/// Work that is put off until a worker is done, so that the loop takes no core from the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeferredWork {
    /// Nothing.
    None,
    /// Writing what rounds before this one have left.
    Write,
    /// Logging and hashing the parameters, which are in shared memory; then writing.
    All,
}

/// A round under way.
pub(super) struct Round {
    pub(super) order: Order,
    pub(super) caller: Caller,
    pub(super) result: HalfBuilt,
    /// Shared with every result that still lies in a worker's memory.
    pub(super) views: Arc<()>,
    pub(super) account: Account,
    pub(super) is_answered: bool,
    /// The hash of the parameters, if it was taken.
    pub(super) params_hash: Option<Hash>,
    /// How many workers it has, where that was chosen.
    pub(super) chosen: Option<Box<Chosen>>,
    /// What it has to do with states, until it is answered.
    pub(super) held: Option<HeldRound>,
    /// The crew that runs it, and the flag that calls the round off.
    pub(super) crew: Option<(Arc<dyn Crew>, Arc<AtomicBool>)>,
    pub(super) deferred: DeferredWork,
    /// Set if the workers need all cores: when the first of them was done.
    pub(super) crowded: Option<OnceLock<Instant>>,
}

impl Round {
    /// What the caller is told of a failure.
    pub(super) fn error(&self, failure: RoundFailure, name_of: impl Fn(WorkerId) -> String) -> Error {
        let Order { head, function, data, .. } = &self.order;
        let chunk_id = |chunk: u32| data.chunks.get(chunk as usize).map(|entry| entry.id);
        let chunks_of = |block| head.cut.chunks_of(head.cut.node(block));
        error::from_failure(failure, function.name(), name_of, chunk_id, chunks_of)
    }

    /// The report as it stands at the end.
    pub(super) fn closed_report(&self) -> RoundReport {
        let total_us = self.caller.submitted.elapsed().as_micros() as u64;
        let (begun_us, _) = self.chosen.as_ref().map_or((0, 0), |chosen| chosen.begun());
        let worker_us = begun_us + self.account.compute_us.values().copied().max().unwrap_or(0);
        let worker_us = worker_us.min(total_us);
        let report = self.account.report;
        let master_us = report.master_us.min(total_us - worker_us);
        let overhead_us = total_us - worker_us - master_us;
        RoundReport { total_us, worker_us, master_us, overhead_us, ..report }
    }
}

/// All rounds under way, and the numbers of those to come.
#[derive(Default)]
pub(super) struct Rounds {
    under_way: IdMap<RoundId, Round>,
    next: u64,
    next_internal: u64,
    parts: IdMap<PartId, PartValue>,
    next_part: u64,
    /// How many rounds were answered.
    pub(super) answered: u64,
    /// The report of the last round that had a value.
    pub(super) last_report: Option<RoundReport>,
    /// Threads that merge long results.
    pub(super) helpers: Helpers,
    /// How far rounds are apart.
    pub(super) rhythm: Rhythm,
}

impl Rounds {
    /// A number for a round of the user's.
    pub(super) fn next_id(&mut self) -> RoundId {
        self.next += 1;
        RoundId(self.next - 1)
    }

    /// A number for a round of the master's own.
    pub(super) fn next_internal(&mut self) -> RoundId {
        self.next_internal += 1;
        RoundId::internal(self.next_internal - 1)
    }

    pub(super) fn insert(&mut self, round: Round) {
        self.under_way.insert(round.order.round(), round);
    }

    pub(super) fn get(&self, id: RoundId) -> Option<&Round> {
        self.under_way.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: RoundId) -> Option<&mut Round> {
        self.under_way.get_mut(&id)
    }

    pub(super) fn remove(&mut self, id: RoundId) -> Option<Round> {
        self.under_way.remove(&id)
    }

    /// All rounds, answered or not.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Round> {
        self.under_way.values_mut()
    }

    /// Rounds whose callers have no answer yet.
    pub(super) fn open(&self) -> impl Iterator<Item = &Round> {
        self.under_way.values().filter(|round| !round.is_answered)
    }

    /// The same, to be changed.
    pub(super) fn open_mut(&mut self) -> impl Iterator<Item = &mut Round> {
        self.under_way.values_mut().filter(|round| !round.is_answered)
    }

    /// Counts what travelled for a round.
    pub(super) fn count(&mut self, id: RoundId, traffic: Traffic) {
        if let Some(round) = self.under_way.get_mut(&id) {
            round.account.add(traffic);
        }
    }

    /// Changes the report of a round, if it is under way.
    pub(super) fn report(&mut self, id: RoundId, f: impl FnOnce(&mut RoundReport)) {
        if let Some(round) = self.under_way.get_mut(&id) {
            f(&mut round.account.report);
        }
    }

    /// Keeps a delivered part until its verdict.
    pub(super) fn keep_part(&mut self, value: PartValue) -> PartId {
        let id = PartId(self.next_part);
        self.next_part += 1;
        self.parts.insert(id, value);
        id
    }

    /// The part that a verdict is about.
    pub(super) fn take_part(&mut self, id: PartId) -> PartValue {
        self.parts.remove(&id).expect("verdicts are about parts that were delivered, and come once")
    }
}
