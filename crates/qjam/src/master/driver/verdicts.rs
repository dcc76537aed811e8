//! What counts is merged, and what is whole, or has failed, is answered.

use super::Driver;
use super::merging::{HalfBuilt, WideMerge};
use super::rounds::Round;
use crate::engine::seat::PartValue;
use crate::error::Error;
use crate::execution::caught;
use crate::function::{AnyBox, Function, merge_fault};
use bytes::Bytes;
use qjam_core::ids::{PartId, RoundId};
use qjam_core::job::{Fault, FaultKind, RoundFailure};
use qjam_core::journal::What;
use qjam_core::reduce::{Node, Tree};
use qjam_core::scheduler::Event;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

impl Driver {
    pub(super) fn accept(&mut self, part: PartId, round: RoundId, node: Node) {
        let value = self.rounds.take_part(part);
        let Some(under_way) = self.rounds.get_mut(round) else { return };
        if under_way.is_answered {
            return;
        }
        let start = Instant::now();
        let function = under_way.order.function.clone();
        if let Some(weighing) = &mut under_way.account.weighing {
            let chunks = under_way.order.head.cut.chunks_of(node).len() as u32;
            weighing.part(chunks, || match &value {
                PartValue::Ready(value) => weight(&function, value),
                PartValue::Encoded(bytes) => Some(bytes.len() as u64),
            });
        }
        if under_way.result.wide.is_some() || WideMerge::is_for(&function, &value) {
            let queue = &self.seats.tools.queue;
            let Round { result: HalfBuilt { wide, tree }, order, .. } = under_way;
            let begin = || {
                let tree = std::mem::replace(tree, Tree::new(order.head.cut));
                WideMerge::new(function, tree, queue.clone())
            };
            wide.get_or_insert_with(begin).add(node, value);
            return;
        }
        let value = match value {
            PartValue::Ready(value) => Ok(value),
            PartValue::Encoded(bytes) => caught(|| function.decode(bytes))
                .and_then(|read| read.map_err(|e| Fault::new(FaultKind::Result, e.to_string()))),
        };
        self.merge_in(round, node, value);
        self.rounds.report(round, |report| report.master_us += start.elapsed().as_micros() as u64);
    }

    /// Merges a part with those that came before, along the tree.
    pub(super) fn merge_in(&mut self, round: RoundId, node: Node, value: Result<AnyBox, Fault>) {
        let Some(under_way) = self.rounds.get_mut(round).filter(|round| !round.is_answered) else { return };
        let function = under_way.order.function.clone();
        let merged = value.and_then(|value| {
            if let Some(wide) = &under_way.result.wide {
                wide.add(node, PartValue::Ready(value));
                return Ok(());
            }
            under_way.result.tree.insert(node, value, |left, right| {
                caught(|| function.merge(left, right))?.map_err(|e| merge_fault(&e))
            })
        });
        if let Err(fault) = merged {
            // The scheduler may have counted this part as the last one; the user is answered here, once.
            self.fail(round, RoundFailure::Fault { worker: None, fault: fault.clone() });
            self.tell(Event::Faulted { worker: None, round, fault });
        }
    }

    pub(super) fn finish(&mut self, id: RoundId) {
        let Some(round) = self.rounds.get_mut(id) else { return };
        if let Some(owed) = round.chosen.as_mut().and_then(|chosen| chosen.owed.as_mut()) {
            owed.is_finished = true;
            return;
        }
        if round.is_answered {
            return; // merging failed on the last part
        }
        let value = match self.finish_wide(id) {
            Some(Err(fault)) => return self.fail(id, RoundFailure::Fault { worker: None, fault }),
            Some(Ok(root)) => root,
            None => self.rounds.get_mut(id).and_then(|round| round.result.tree.take_root()),
        };
        let Some(round) = self.rounds.get(id) else { return };
        let value = value.expect("all blocks are in, so the tree has its root");
        match own(&round.order.function, value, &round.views) {
            Ok(value) => self.answer(id, Ok(value)),
            Err(fault) => self.fail(id, RoundFailure::Fault { worker: None, fault }),
        }
    }

    pub(super) fn fail(&mut self, id: RoundId, failure: RoundFailure) {
        let Some(round) = self.rounds.get(id).filter(|round| !round.is_answered) else { return };
        let error = round.error(failure, |worker| self.name_of(worker));
        self.answer(id, Err(error));
    }

    /// The next deadline of a round.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.rounds.open().filter_map(|round| round.caller.deadline).min()
    }

    pub(super) fn end_late_rounds(&mut self) {
        let now = Instant::now();
        let is_late = |round: &&Round| round.caller.deadline.is_some_and(|at| at <= now);
        let late: Vec<RoundId> = self.rounds.open().filter(is_late).map(|r| r.order.round()).collect();
        for round in late {
            let limit = self.options.round_timeout.unwrap_or_default();
            let waiting_for = self.waiting_for(round);
            self.answer(round, Err(Error::TimedOut { limit, waiting_for }));
            self.cancel(round);
        }
    }

    /// Gives a round's caller its answer, and everybody else what they want to know of it.
    pub(super) fn answer(&mut self, id: RoundId, value: Result<AnyBox, Error>) {
        self.drain_lines();
        self.log_params(id);
        let round = self.rounds.get_mut(id).expect("the caller looked");
        round.is_answered = true;
        round.result.wide = None;
        let report = round.closed_report();
        let held = round.held.take();
        if let (Ok(value), Some(weighing)) = (&value, round.account.weighing.take())
            && let Some(bytes) = weight(&round.order.function, value)
        {
            self.weigher.end(*weighing, bytes);
        }
        self.recording.end(&round.order, &report, &round.account.compute_us, round.params_hash, &value);
        let (value, sent) = match value {
            Ok(whole) => {
                let (value, sent) = round.order.function.unpost(whole);
                (Ok(value), Some(sent))
            }
            Err(error) => (Err(error), None),
        };
        let finished = sent.is_some();
        self.rounds.rhythm.end(&report);
        if finished {
            self.learn(id, &report);
        }
        let round = self.rounds.get_mut(id).expect("the caller looked");
        *round.caller.answer.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
        round.caller.answer.give(value);
        self.rounds.answered += 1;
        if let Some(held) = held {
            self.holds.end(held, sent, Some(report.total_us));
        }
        if finished && !id.is_internal() {
            self.rounds.last_report = Some(report);
            self.note(What::Report(report));
        }
    }
}

/// Bytes of a result; nothing if it cannot be encoded.
fn weight(function: &Function, value: &AnyBox) -> Option<u64> {
    caught(|| function.partial_bytes(value)).ok().map(|bytes| bytes as u64)
}

/// The value without views of workers' memory: these are for the round only. What was merged has none; what came in one
/// piece, or was taken over as it was, is copied.
fn own(function: &Function, value: AnyBox, views: &Arc<()>) -> Result<AnyBox, Fault> {
    if Arc::strong_count(views) == 1 {
        return Ok(value);
    }
    let mut payload = Bytes::new();
    caught(|| function.encode(&value, &mut |encoded| payload = encoded.to_bytes()))?;
    caught(|| function.decode(payload))?.map_err(|e| Fault::new(FaultKind::Result, e.to_string()))
}
