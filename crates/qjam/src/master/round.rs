//! A round as the master's loop keeps it: what to send, what came back, what it cost.

use crate::dataset::CutData;
use crate::error::Error;
use crate::function::{AnyBox, AnyShared, Function};
use crate::runs::Hash;
use crate::worker::arenas::Placed;
use bytes::Bytes;
use qjam_core::ids::SeatId;
use qjam_core::journal::RoundReport;
use qjam_core::reduce::{Cut, Tree};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// What a user wants run, with its types taken off.
pub(crate) struct Wanted {
    pub(crate) function: Function,
    pub(crate) data: Arc<CutData>,
    pub(crate) answer: Arc<Answer>,
    pub(crate) submitted: Instant,
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
    /// The parameters in shared memory, when they are long and a process needs them.
    pub(crate) placed: Option<Placed>,
    /// The parameters as threads of this process see them.
    pub(crate) opened: Option<AnyShared>,
    pub(crate) tree: Tree<AnyBox>,
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
}

impl Running {
    /// The report as it stands at the end.
    pub(crate) fn closed_report(&self) -> RoundReport {
        let total_us = self.submitted.elapsed().as_micros() as u64;
        let worker_us = self.compute_us.values().copied().max().unwrap_or(0).min(total_us);
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
