//! The scheduler's records of seats and their workers.

use super::Config;
use crate::ids::{RoundId, SeatId, WorkerId};
use crate::job::Death;
use crate::time::{Span, Time};
use std::collections::BTreeMap;

/// The state of a seat.
///
/// ```text
///              joined                 lost
///   Starting ─────────▶ Up ───────────────────▶ Resting ──▶ Starting (next incarnation)
///       │                                          ▲   │
///       └──────────────── lost ────────────────────┘   └──▶ GivenUp, after too many fruitless starts
/// ```
///
/// A seat on another host is given up only while no worker is up anywhere: if it has been empty for too long, or if too many
/// consecutive workers on it were useless. In the first case it is tried again when a worker joins elsewhere. A removed seat has no
/// record.
#[derive(Debug)]
pub(crate) enum SeatState {
    /// Being started.
    Starting {
        since: Time,
        /// Being killed; its loss has not been reported yet.
        dying: bool,
    },
    /// At work or ready for it.
    Up(WorkerRecord),
    /// Empty until then.
    Resting { until: Time },
    /// Empty for good.
    GivenUp,
}

/// A seat.
#[derive(Debug)]
pub(crate) struct SeatRecord {
    /// Number of slots: as given when it was added, or as its worker reported.
    pub(crate) slots: u32,
    /// Whether it is on another host.
    pub(crate) remote: bool,
    pub(crate) incarnation: u32,
    pub(crate) state: SeatState,
    /// Consecutive workers without accepted work; on this machine also those that never came up.
    pub(crate) fruitless: u32,
    /// On another host: consecutive starts that failed.
    pub(crate) failed_starts: u32,
    /// On another host: consecutive workers that were lost with blocks and had delivered none.
    pub(crate) vain: u32,
    /// When the first of them was lost that lived for a short time, while nobody else was up. Means something if there are any.
    pub(crate) vain_since: Time,
    /// Whether a worker ever came up.
    pub(crate) has_joined: bool,
    /// Since when the seat has no worker up, if it has none.
    pub(crate) vacant_since: Time,
    /// How the last one ended.
    pub(crate) last_death: Option<Death>,
}

/// A living worker.
#[derive(Debug)]
pub(crate) struct WorkerRecord {
    /// When it joined.
    pub(crate) since: Time,
    /// When its last message arrived, or when it was first assigned a block after being idle.
    pub(crate) heard: Time,
    /// When it was last pinged.
    pub(crate) pinged: Time,
    /// Whether it is suspected: it gets no new blocks, and others also get its blocks.
    pub(crate) suspect: bool,
    /// Being killed; its loss has not been reported yet.
    pub(crate) dying: bool,
    /// How many blocks of each round it has.
    pub(crate) leases: BTreeMap<RoundId, u32>,
    /// Rounds it was told to drop.
    pub(crate) letting_go: BTreeMap<RoundId, Goodbye>,
}

/// A round that a worker was told to drop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goodbye {
    /// Since when it can be expected to know: immediately on this machine, on another host from its first message after that. An
    /// unreachable worker is silent, which has its own deadlines.
    pub(crate) since: Option<Time>,
    /// How long it may take.
    pub(crate) within: Span,
}

impl WorkerRecord {
    pub(crate) fn new(now: Time) -> Self {
        WorkerRecord {
            since: now,
            heard: now,
            pinged: now,
            suspect: false,
            dying: false,
            leases: BTreeMap::new(),
            letting_go: BTreeMap::new(),
        }
    }

    /// Number of its leases, over all rounds.
    pub(crate) fn held(&self) -> u32 {
        self.leases.values().sum()
    }

    /// Whether it may be given work.
    pub(crate) fn is_dependable(&self) -> bool {
        !self.suspect && !self.dying
    }
}

impl SeatRecord {
    pub(crate) fn new(now: Time, slots: u32, remote: bool) -> Self {
        SeatRecord {
            slots,
            remote,
            incarnation: 0,
            state: SeatState::Starting { since: now, dying: false },
            fruitless: 0,
            vain: 0,
            vain_since: now,
            failed_starts: 0,
            has_joined: false,
            vacant_since: now,
            last_death: None,
        }
    }

    /// When its losses in vain have lasted too long; `None` if there are no two of them.
    pub(crate) fn in_vain_at(&self, config: &Config) -> Option<Time> {
        (self.vain >= 2).then(|| self.vain_since + config.vain_patience)
    }

    /// When its worker is to be killed for a round it has not dropped.
    pub(crate) fn let_go_by(&self) -> Option<Time> {
        self.worker()?.letting_go.values().filter_map(|bye| Some(bye.since? + bye.within)).min()
    }

    /// How long its worker may take to drop a round.
    pub(crate) fn lets_go_within(&self, config: &Config, is_patient: bool) -> Span {
        let within = if self.remote { config.remote_let_go_within } else { config.let_go_within };
        if is_patient { within.max(config.spare_within) } else { within }
    }

    pub(crate) fn worker(&self) -> Option<&WorkerRecord> {
        match &self.state {
            SeatState::Up(worker) => Some(worker),
            _ => None,
        }
    }

    pub(crate) fn worker_mut(&mut self) -> Option<&mut WorkerRecord> {
        match &mut self.state {
            SeatState::Up(worker) => Some(worker),
            _ => None,
        }
    }
}

/// All seats, in order.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    pub(crate) seats: BTreeMap<SeatId, SeatRecord>,
    /// When the last worker that was up was lost.
    pub(crate) last_up: Time,
}

impl Roster {
    /// The living worker with this id.
    pub(crate) fn get(&self, id: WorkerId) -> Option<&WorkerRecord> {
        self.seats.get(&id.seat).filter(|s| s.incarnation == id.incarnation)?.worker()
    }

    /// The living worker with this id.
    pub(crate) fn get_mut(&mut self, id: WorkerId) -> Option<&mut WorkerRecord> {
        self.seats.get_mut(&id.seat).filter(|s| s.incarnation == id.incarnation)?.worker_mut()
    }

    /// Living workers, in the order of their seats.
    pub(crate) fn up(&self) -> impl Iterator<Item = (WorkerId, &SeatRecord, &WorkerRecord)> {
        self.seats.iter().filter_map(|(&seat, record)| {
            Some((WorkerId { seat, incarnation: record.incarnation }, record, record.worker()?))
        })
    }

    /// Whether no worker is up.
    pub(crate) fn is_empty(&self) -> bool {
        self.up().next().is_none()
    }

    /// When a seat on another host is given up, while no worker is up.
    pub(crate) fn gives_up_at(&self, seat: &SeatRecord, config: &Config) -> Time {
        let vacant_until = seat.vacant_since.max(self.last_up) + config.remote_patience;
        seat.in_vain_at(config).map_or(vacant_until, |at| at.min(vacant_until))
    }

    pub(crate) fn is_suspect(&self, id: WorkerId) -> bool {
        self.get(id).is_none_or(|w| !w.is_dependable())
    }

    /// Whether no worker is up and none is expected.
    pub(crate) fn is_deserted(&self) -> bool {
        self.seats.values().all(|s| matches!(s.state, SeatState::GivenUp))
    }
}
