//! A round as the master's loop keeps it: what to send, what came back, what it cost.

use super::driver::{Chosen, HeldRound};
use super::lent::Lent;
use crate::dataset::CutData;
use crate::error::Error;
use crate::function::{AnyBox, AnyShared, Function};
use crate::runs::Hash;
use crate::worker::arenas::{OwnArenas, Placed};
use bytes::Bytes;
use qjam_core::ids::{HoldId, RoundId, SeatId};
use qjam_core::journal::RoundReport;
use qjam_core::order::OrderHead;
use qjam_core::reduce::{Cut, Tree};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// What a user wants run, with its types taken off.
pub(crate) struct Wanted {
    pub(crate) function: Function,
    pub(crate) data: Arc<CutData>,
    pub(crate) answer: Arc<Answer>,
    pub(crate) submitted: Instant,
    /// The states it needs, if any.
    pub(crate) held: Option<HoldId>,
}

/// Where a round's value is put when it is there.
#[derive(Default)]
pub(crate) struct Answer {
    value: Mutex<Option<Result<AnyBox, Error>>>,
    pub(crate) report: Mutex<Option<RoundReport>>,
    /// Since when somebody waits for it.
    pub(crate) awaited: OnceLock<Instant>,
}

impl Answer {
    pub(crate) fn give(&self, value: Result<AnyBox, Error>) {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }

    pub(crate) fn take(&self) -> Option<Result<AnyBox, Error>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn is_given(&self) -> bool {
        self.value.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// A round under way.
pub(crate) struct Running {
    pub(crate) function: Function,
    pub(crate) data: Arc<CutData>,
    pub(crate) cut: Cut,
    /// The parameters, encoded, where they are short or threads of this process need them.
    pub(crate) params: Bytes,
    /// Length of the parameters.
    pub(crate) params_bytes: usize,
    /// The parameters where the caller has them, when they are long and only other hosts need them.
    pub(crate) lent: Option<Lent>,
    /// The parameters in shared memory, when they are long and a process needs them.
    pub(crate) placed: Option<Placed>,
    /// The parameters as threads of this process see them.
    pub(crate) opened: Option<AnyShared>,
    pub(crate) tree: Tree<AnyBox>,
    /// Shared with every payload in a worker's memory that is still looked at.
    pub(crate) views: Arc<()>,
    pub(crate) answer: Arc<Answer>,
    pub(crate) submitted: Instant,
    pub(crate) report: RoundReport,
    /// Computing time of each seat.
    pub(crate) compute_us: HashMap<SeatId, u64>,
    pub(crate) is_answered: bool,
    /// When it has taken too long.
    pub(crate) ends_by: Option<Instant>,
    /// The hash of the parameters, if it was taken.
    pub(crate) params_hash: Option<Hash>,
    /// When it was last told whom it waits for.
    pub(crate) told: Option<Instant>,
    /// How many workers it has, where that was chosen.
    pub(crate) chosen: Option<Box<Chosen>>,
    /// What it has to do with states, until it is answered.
    pub(crate) held: Option<HeldRound>,
    /// Where ranks do it: set when nobody wants it any more.
    pub(crate) called_off: Option<Arc<AtomicBool>>,
    /// What was put off.
    pub(crate) errands: Errands,
    /// When the first worker was done, if they need all cores and its results are long.
    pub(crate) first_done: Option<Instant>,
    pub(crate) is_crowded: bool,
}

/// What is put off until a worker is done, so that nobody is kept from computing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errands {
    /// Nothing.
    None,
    /// Writing what rounds before this one have left.
    Write,
    /// Logging and hashing the parameters, which are in shared memory; then writing.
    All,
}

impl Running {
    /// The round as it is described to whoever runs a part of it.
    pub(crate) fn head(&self, round: RoundId, seed: u64) -> OrderHead {
        OrderHead {
            round,
            function: self.function.name().into(),
            seed,
            dataset: self.data.located,
            cut: self.cut,
            held: self.held.as_ref().map(|held| held.task),
            slots_max: None,
        }
    }

    /// The parameters in one piece, wherever they are. Workers may come that nobody thought of when it began.
    pub(crate) fn whole_params(&mut self, arenas: &mut OwnArenas) -> Bytes {
        if self.params.is_empty() {
            let lent = self.lent.as_ref().and_then(Lent::to_bytes);
            let placed = self.placed.as_ref().map(|p| arenas.memory(p.arena)[..p.bytes as usize].to_vec());
            self.params = lent.or(placed.map(Bytes::from)).unwrap_or_default();
        }
        self.params.clone()
    }

    /// The parameters in shared memory.
    pub(crate) fn place_params(&mut self, arenas: &mut OwnArenas) -> std::io::Result<()> {
        if self.placed.is_none() {
            let params = self.whole_params(arenas);
            let placed = arenas.reserve(params.len())?;
            arenas.memory(placed.arena)[..params.len()].copy_from_slice(&params);
            self.placed = Some(placed);
        }
        Ok(())
    }

    /// The report as it stands at the end.
    pub(crate) fn closed_report(&self) -> RoundReport {
        let total_us = self.submitted.elapsed().as_micros() as u64;
        let (begun_us, _) = self.chosen.as_ref().map_or((0, 0), |chosen| chosen.begun());
        let worker_us = begun_us + self.compute_us.values().copied().max().unwrap_or(0);
        let worker_us = worker_us.min(total_us);
        let master_us = self.report.master_us.min(total_us - worker_us);
        RoundReport {
            total_us,
            worker_us,
            master_us,
            overhead_us: total_us - worker_us - master_us,
            ..self.report
        }
    }
}
