//! The ranks as a crew of one master.
//!
//! All masters of a program share the same ranks; a [`RankGroup`] is one master's claim on them. Rank 0 takes part in every
//! round, on the thread that calls [`Crew::run`].

use super::fleet::{Fleet, Rank, RankRound};
use super::join::fleet;
use super::launch::RanksError;
use super::wire::MasterId;
use crate::engine::caps::Caps;
use crate::engine::crew::{Assignment, Buffer, Crew, CrewWorker};
use crate::engine::order::{Failure, Outcome};
use crate::engine::settings::WorkerSettings;
use crate::execution::states::States;
use qjam_core::ids::{DataSetId, HoldId};
use std::sync::Arc;

/// What ranks can do.
pub(in crate::engine) const CAPS: Caps = Caps { keeps_state: true, carries_mail: true, ..Caps::CREW };

/// One master's claim on the ranks.
pub(crate) struct RankGroup {
    fleet: &'static Fleet,
    /// What the ranks know this master by.
    master: MasterId,
    /// The states of rank 0's own partitions.
    states: Arc<States>,
    any_order: bool,
}

impl RankGroup {
    /// Meets the ranks and tells them of a new master.
    pub(crate) fn join(settings: &WorkerSettings) -> Result<RankGroup, RanksError> {
        let fleet = fleet()?;
        if settings.memory_bytes_max.is_some() {
            let instead =
                "set the limit where the ranks are started (`ulimit -v`, or your cluster's `--mem`)";
            return Err(RanksError::Unsupported { what: "there is no memory limit", instead });
        }
        let master = fleet.begin(|memory_bytes, ranks| settings.cache_bytes(None, memory_bytes, ranks))?;
        Ok(RankGroup { fleet, master, states: Arc::default(), any_order: settings.any_order })
    }
}

impl Crew for RankGroup {
    fn caps(&self) -> Caps {
        CAPS
    }

    fn workers(&self) -> Vec<CrewWorker> {
        let worker = |rank: Rank| CrewWorker {
            name: rank.name,
            pid: Some(rank.pid),
            same_machine: rank.is_here,
            slots: 1,
        };
        self.fleet.ranks().into_iter().map(worker).collect()
    }

    fn run(&self, assignment: Assignment) -> Outcome {
        let RankGroup { fleet, master, states, any_order } = self;
        fleet.run(RankRound { master: *master, assignment, states, any_order: *any_order })
    }

    fn awaited(&self) -> Vec<String> {
        self.fleet.awaited()
    }

    fn forget(&self, dataset: DataSetId) {
        self.fleet.forget(self.master, dataset);
    }

    fn release(&self, hold: HoldId) {
        self.states.release(hold);
        self.fleet.release(self.master, hold);
    }

    fn buffer(&self, bytes: usize) -> Result<Option<Buffer>, Failure> {
        match self.fleet.buffer(bytes) {
            Some(buffer) => Ok(Some(Buffer(Box::new(buffer)))),
            None => Err(Failure::Engine(format!("no memory for {bytes} bytes of parameters"))),
        }
    }
}

impl Drop for RankGroup {
    fn drop(&mut self) {
        self.fleet.end(self.master);
    }
}
