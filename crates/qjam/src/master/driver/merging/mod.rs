//! Long results are merged on all cores that nobody else uses.
//!
//! A round whose results are long keeps its half-built tree in a [`WideMerge`]. Comes in: parts that count, as they were delivered.
//! Whoever has time takes one, decodes it and merges upwards as long as the neighbour is there: the loop when it has nothing to
//! read, and threads beside it ([`Helpers`]) while fewer workers compute than there are cores. Goes out: the root, when all is
//! merged. The tree is the one that everybody uses, so who merges what changes no bit.

mod helpers;
#[cfg(test)]
mod tests;
mod wide;

pub(in crate::master::driver) use helpers::Helpers;
pub(in crate::master::driver) use wide::WideMerge;

use super::Driver;
use super::rounds::Round;
use crate::engine::seat::Notice;
use crate::function::AnyBox;
use qjam_core::ids::{RoundId, WorkerId};
use qjam_core::job::{Fault, RoundFailure};
use qjam_core::reduce::{Cut, Tree};
use qjam_core::scheduler::Event;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The result of a round, as far as its parts have come.
pub(in crate::master::driver) struct HalfBuilt {
    pub(in crate::master::driver) tree: Tree<AnyBox>,
    /// The tree is here instead as soon as there are long results.
    pub(in crate::master::driver) wide: Option<WideMerge>,
}

impl HalfBuilt {
    /// Of a round with this cut.
    pub(in crate::master::driver) fn new(cut: Cut) -> Self {
        HalfBuilt { tree: Tree::new(cut), wide: None }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver {
    /// Whether a round has long results that wait to be merged.
    pub(in crate::master::driver) fn has_wide_parts(&self) -> bool {
        self.rounds.open().any(|round| round.result.wide.as_ref().is_some_and(WideMerge::has_more))
    }

    /// Merges one long result that waits, while there is nothing else to do.
    pub(in crate::master::driver) fn merge_wide_part(&mut self) {
        let start = Instant::now();
        let has_more = |round: &&Round| round.result.wide.as_ref().is_some_and(WideMerge::has_more);
        let Some(round) = self.rounds.open().find(has_more) else { return };
        let id = round.order.round();
        round.result.wide.as_ref().map(WideMerge::step);
        self.rounds.report(id, |report| report.master_us += start.elapsed().as_micros() as u64);
    }

    /// Has threads help with long results that wait, as many as cores are idle.
    fn ask_for_help(&mut self) {
        let idle = self.idle_cores();
        let mut helpers = std::mem::take(&mut self.rounds.helpers);
        for wide in self.rounds.open().filter_map(|round| round.result.wide.as_ref()) {
            wide.ask(idle, &mut helpers);
        }
        self.rounds.helpers = helpers;
    }

    /// Looks after rounds of long results: fails those that could not be merged, and has threads help with the others.
    pub(in crate::master::driver) fn tend_wide(&mut self) {
        if self.rounds.open().all(|round| round.result.wide.is_none()) {
            return;
        }
        self.fail_unmerged();
        self.ask_for_help();
        let scheduler = &self.decider.scheduler;
        let wide = self.rounds.open().filter(|round| round.result.wide.is_some());
        let holders = wide.flat_map(|round| scheduler.holders(round.order.round()));
        let waiting: Vec<WorkerId> = holders.map(|(worker, _)| worker).collect();
        // What they have delivered may have been merged meanwhile, and its memory serves for what comes.
        for worker in waiting {
            self.notify(worker, Notice::ReuseArenas);
        }
    }

    /// Cores that neither this thread nor a worker of this machine that has blocks needs.
    pub(in crate::master::driver) fn idle_cores(&self) -> usize {
        let slots_of = |worker: WorkerId| {
            let record = self.seats.record(worker.seat).filter(|record| record.caps.same_machine);
            record.map_or(0, |record| record.slots as usize)
        };
        let scheduler = &self.decider.scheduler;
        let rounds = self.rounds.open().map(|round| round.order.round());
        let busy: usize =
            rounds.flat_map(|id| scheduler.holders(id)).map(|(worker, _)| slots_of(worker)).sum();
        super::pacing::cores().saturating_sub(1 + busy)
    }

    /// Fails rounds whose results could not be merged by a helper.
    fn fail_unmerged(&mut self) {
        let fault = |round: &Round| {
            let fault = round.result.wide.as_ref().filter(|_| !round.is_answered)?.take_fault()?;
            Some((round.order.round(), fault))
        };
        let faults: Vec<(RoundId, Fault)> = self.rounds.open().filter_map(fault).collect();
        for (id, fault) in faults {
            self.fail(id, RoundFailure::Fault { worker: None, fault: fault.clone() });
            self.tell(Event::Faulted { worker: None, round: id, fault });
        }
    }

    /// The root of a round of long results, when all parts are in.
    pub(in crate::master::driver) fn finish_wide(
        &mut self,
        id: RoundId,
    ) -> Option<Result<Option<AnyBox>, Fault>> {
        let start = Instant::now();
        self.rounds.get(id)?.result.wide.as_ref()?;
        self.ask_for_help();
        let root = self.rounds.get(id)?.result.wide.as_ref()?.finish();
        self.rounds.report(id, |report| report.master_us += start.elapsed().as_micros() as u64);
        Some(root)
    }
}
