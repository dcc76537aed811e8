//! The state machine of a worker: which block to run next, and when to send results.
//!
//! Executor processes and the threads of the `local` engine use it. Comes in: events and the time. Goes out: actions. The code around it
//! reads messages, runs the user's function, keeps the partial reduction (a [`Tree`](crate::reduce::Tree)) and sends; the state machine
//! decides.
//!
//! ```text
//!   TaskReceived, ChunksArrived, ─▶┌────────┐──▶ Run a block in a slot
//!   RecipesArrived ───────────────▶│        │
//!   BlockFinished, BlockFailed ───▶│ Worker │──▶ Collect: take the finished subtrees out of the tree
//!   Collected ────────────────────▶│        │──▶ Send them, with the attempts they belong to
//!   RecallReceived, ApartReceived ▶│        │──▶ Return what is not started, SetApart
//!   CancelReceived, Ticked ───────▶└────────┘──▶ Forget a round, LetGo of it, Protest
//! ```
//!
//! Blocks run in ascending order, so that neighbours are merged early and few values are kept. Results are sent when no block of the round
//! is left to run, or when finished results have waited for `deliver_after`: a death costs at most that much. A block that killed before
//! runs alone: no other block of any round runs at the same time, and all finished results have been sent. So if it kills again, nothing
//! else is lost, and no other block is blamed.
//!
//! The master may recall blocks that have not started, the last ones first. A block that another worker runs as well is *apart*: it is
//! delivered unmerged, and nothing else waits for it.
//!
//! Invariants between events are in [`invariants`].

mod action;
mod event;
pub mod invariants;
mod work;

pub use action::{Action, Delivery};
pub use event::Event;

use crate::ids::{Attempt, Block, RoundId};
use crate::lease::BlockRange;
use crate::reduce::{Cut, Node};
use crate::time::{Span, Time};
use std::collections::BTreeMap;
use work::{Phase, RoundWork};

/// The worker's machine.
#[derive(Debug)]
pub struct Worker {
    /// How many blocks run at once.
    slots: u32,
    /// How many slots are free.
    free: u32,
    deliver_after: Span,
    /// Rounds of which something is here, served in order.
    rounds: BTreeMap<RoundId, RoundWork>,
}

impl Worker {
    /// A worker with nothing to do.
    pub fn new(slots: u32, deliver_after: Span) -> Self {
        assert!(slots > 0, "a worker without slots");
        Worker { slots, free: slots, deliver_after, rounds: BTreeMap::new() }
    }

    /// Takes in what happened and says what to do about it.
    pub fn handle(&mut self, now: Time, event: Event, out: &mut Vec<Action>) {
        match event {
            Event::TaskReceived { round, cut, ranges, missing, behind } => {
                self.on_task_received(round, cut, &ranges, missing, behind, out);
            }
            Event::RecipesArrived { round, chunks } => {
                if let Some(work) = self.rounds.get_mut(&round) {
                    for chunk in chunks {
                        work.behind.remove(&chunk);
                    }
                }
            }
            Event::ChunksArrived { round, chunks } => {
                if let Some(work) = self.rounds.get_mut(&round) {
                    for chunk in chunks {
                        work.missing.remove(&chunk);
                    }
                }
            }
            Event::BlockFinished { round, block } => self.on_block_finished(now, round, block, out),
            Event::BlockFailed { round, block } => self.on_block_failed(round, block, out),
            Event::Collected { round, nodes } => self.on_collected(now, round, nodes, out),
            Event::RecallReceived { round, blocks } => self.on_recall_received(now, round, blocks, out),
            Event::ApartReceived { round, block } => {
                let work = self.rounds.get_mut(&round).filter(|work| work.attempts.contains_key(&block));
                if work.is_some_and(|work| work.phase == Phase::Open && work.apart.insert(block)) {
                    out.push(Action::SetApart { round, block });
                }
            }
            Event::CancelReceived { round } => self.on_cancel_received(round, out),
            Event::Ticked => {}
        }
        self.proceed(now, out);
        if cfg!(debug_assertions) {
            invariants::check(self);
        }
    }

    /// Whether it has blocks that it has not delivered.
    pub fn is_busy(&self) -> bool {
        !self.rounds.is_empty()
    }

    /// Whether there are blocks it has not started.
    pub fn has_unstarted(&self) -> bool {
        self.rounds.values().any(|work| !work.queue.is_empty())
    }

    fn on_task_received(
        &mut self,
        round: RoundId,
        cut: Cut,
        ranges: &[BlockRange],
        missing: Vec<u32>,
        behind: Vec<u32>,
        out: &mut Vec<Action>,
    ) {
        let work = self.rounds.entry(round).or_insert_with(|| RoundWork::new(cut));
        if work.phase != Phase::Open {
            return; // it failed here; the master will say that it is over
        }
        let blocks = cut.blocks();
        for range in ranges {
            let in_range = u64::from(range.first) + u64::from(range.len) <= u64::from(blocks);
            let is_new = in_range && range.blocks().all(|b| !work.attempts.contains_key(&b));
            if work.cut != cut || !is_new {
                let why = format!("{round}: {range:?} of {blocks} blocks is out of range or here already");
                out.push(Action::Protest { why });
                return;
            }
            for block in range.blocks() {
                work.attempts.insert(block, (range.attempt, range.alone));
                work.queue.push_back(block);
                if range.apart {
                    work.apart.insert(block);
                    out.push(Action::SetApart { round, block });
                }
            }
        }
        work.missing.extend(missing);
        work.behind.extend(behind);
    }

    fn on_block_finished(&mut self, now: Time, round: RoundId, block: Block, out: &mut Vec<Action>) {
        let Some(work) = self.rounds.get_mut(&round) else {
            panic!("{round}: block {block} was not running")
        };
        let attempt = work.running.remove(&block);
        work.started.remove(&block);
        let attempt = attempt.unwrap_or_else(|| panic!("{round}: block {block} was not running"));
        self.free += 1;
        // Its value may have been delivered before this word came, and the block be here again as another attempt.
        if work.attempts.get(&block).is_some_and(|(a, _)| *a == attempt) {
            if work.phase == Phase::Open {
                work.finished.insert(block);
                work.waiting_since.get_or_insert(now);
            } else {
                work.attempts.remove(&block);
            }
        }
        self.settle(round, out);
    }

    fn on_block_failed(&mut self, round: RoundId, block: Block, out: &mut Vec<Action>) {
        let Some(work) = self.rounds.get_mut(&round) else {
            panic!("{round}: block {block} was not running")
        };
        assert!(work.running.remove(&block).is_some(), "{round}: block {block} was not running");
        work.started.remove(&block);
        self.free += 1;
        work.stop(Phase::Failed);
        self.settle(round, out);
    }

    fn on_collected(&mut self, now: Time, round: RoundId, nodes: Vec<Node>, out: &mut Vec<Action>) {
        let Some(work) = self.rounds.get_mut(&round) else { return };
        work.collecting = false;
        if work.phase != Phase::Open {
            self.settle(round, out);
            return;
        }
        let parts: Vec<Delivery> = nodes.into_iter().map(|node| work.release(node)).collect();
        work.waiting_since = (!work.finished.is_empty()).then_some(now);
        if !parts.is_empty() {
            out.push(Action::Send { round, parts });
        }
        self.settle(round, out);
    }

    fn on_recall_received(&mut self, now: Time, round: RoundId, blocks: u32, out: &mut Vec<Action>) {
        let work = self.rounds.get_mut(&round);
        let returned = work.map(|work| work.give_back(now, blocks)).unwrap_or_default();
        out.push(Action::Return { round, returned });
        self.settle(round, out);
    }

    fn on_cancel_received(&mut self, round: RoundId, out: &mut Vec<Action>) {
        match self.rounds.get_mut(&round) {
            // All of it was delivered before the word came.
            None => out.push(Action::LetGo { round }),
            Some(work) => {
                work.stop(Phase::Cancelled);
                self.settle(round, out);
            }
        }
    }

    /// Forgets a round of which nothing is left.
    fn settle(&mut self, round: RoundId, out: &mut Vec<Action>) {
        let Some(work) = self.rounds.get(&round) else { return };
        if !work.running.is_empty() || work.collecting {
            return;
        }
        let forget = match work.phase {
            Phase::Open => work.attempts.is_empty(),
            Phase::Failed => false,
            Phase::Cancelled => true,
        };
        if forget {
            let let_go = work.phase == Phase::Cancelled;
            self.rounds.remove(&round);
            out.push(Action::Forget { round });
            if let_go {
                out.push(Action::LetGo { round });
            }
        }
    }

    /// Fills the free slots, oldest round first, and has finished work collected where it is time.
    fn proceed(&mut self, now: Time, out: &mut Vec<Action>) {
        let busy = |w: &RoundWork| w.collecting || !w.finished.is_empty();
        let at_stake = self.free < self.slots || self.rounds.values().any(busy);
        let mut wait = self.rounds.values().any(RoundWork::runs_risky);
        let mut wants_quiet = false;
        for (&round, work) in &mut self.rounds {
            if work.phase != Phase::Open || work.collecting {
                continue;
            }
            while self.free > 0 && !wait {
                let quiet = !at_stake && self.free == self.slots;
                let Some(block) = work.next_runnable(quiet) else {
                    // Later rounds begin nothing before it is quiet enough.
                    wants_quiet = work.waits_for_quiet();
                    wait = wants_quiet;
                    break;
                };
                let (attempt, alone): (Attempt, bool) = work.attempts[&block];
                work.running.insert(block, attempt);
                work.started.insert(block, now);
                self.free -= 1;
                wait = alone;
                out.push(Action::Run { round, block, attempt });
            }
            let overdue = work.waiting_since.is_some_and(|since| now.since(since) >= self.deliver_after);
            if work.has_finished() && (work.is_drained() || overdue) {
                work.collecting = true;
                out.push(Action::Collect { round });
            }
        }
        if wants_quiet {
            for (&round, work) in
                self.rounds.iter_mut().filter(|(_, w)| w.has_finished() && w.running.is_empty())
            {
                work.collecting = true;
                out.push(Action::Collect { round });
            }
        }
    }
}

#[cfg(test)]
mod tests;
