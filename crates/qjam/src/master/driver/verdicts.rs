//! What counts is merged, and what is whole, or has failed, is answered.

use super::{Driver, Value, fault};
use crate::error::{self, Error};
use crate::function::{AnyBox, Function};
use crate::master::round::Running;
use crate::worker::caught;
use bytes::Bytes;
use qjam_core::ids::{PartId, RoundId};
use qjam_core::job::{Fault, FaultKind, RoundFailure};
use qjam_core::journal::What;
use qjam_core::reduce::Node;
use qjam_core::scheduler::Event;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

impl Driver {
    pub(super) fn accept(&mut self, part: PartId, round: RoundId, node: Node) {
        let value = self.in_hand.remove(&part).expect("verdicts are about parts that were delivered");
        let Some(running) = self.rounds.get_mut(&round) else { return };
        if running.is_answered {
            return;
        }
        let start = Instant::now();
        let function = running.function.clone();
        let value = match value {
            Value::Ready(value) => Ok(value),
            Value::Encoded(bytes) => caught(|| function.decode(bytes))
                .and_then(|read| read.map_err(|e| fault(FaultKind::Result, e.to_string()))),
        };
        let merged = value.and_then(|value| {
            running.tree.insert(node, value, |left, right| {
                caught(|| function.merge(left, right))?.map_err(|e| crate::function::merge_fault(&e))
            })
        });
        running.report.master_us += start.elapsed().as_micros() as u64;
        if let Err(fault) = merged {
            // The scheduler may have counted this part as the last one; the user is answered here, once.
            self.fail(round, RoundFailure::Fault { worker: None, fault: fault.clone() });
            self.tell(Event::Faulted { worker: None, round, fault });
        }
    }

    pub(super) fn finish(&mut self, round: RoundId) {
        let Some(running) = self.rounds.get_mut(&round) else { return };
        let value = running.tree.take_root();
        if running.is_answered {
            return; // merging failed on the last part
        }
        let value = value.expect("all blocks are in, so the tree has its root");
        match own(&running.function, value, &running.views) {
            Ok(value) => self.answer(round, Ok(value)),
            Err(fault) => self.fail(round, RoundFailure::Fault { worker: None, fault }),
        }
    }

    pub(super) fn fail(&mut self, round: RoundId, failure: RoundFailure) {
        let Some(running) = self.rounds.get(&round) else { return };
        if running.is_answered {
            return;
        }
        let error = error::from_failure(
            failure,
            running.function.name(),
            |worker| self.name_of(worker),
            |chunk| running.data.chunks.get(chunk as usize).map(|c| c.id),
            |block| running.cut.chunks_of(running.cut.node(block)),
        );
        self.answer(round, Err(error));
    }

    /// When the first round that has a limit reaches it.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.rounds.values().filter(|r| !r.is_answered).filter_map(|r| r.ends_by).min()
    }

    pub(super) fn end_late_rounds(&mut self) {
        let now = Instant::now();
        let is_late = |r: &Running| !r.is_answered && r.ends_by.is_some_and(|at| at <= now);
        let late: Vec<RoundId> = self.rounds.iter().filter(|(_, r)| is_late(r)).map(|(id, _)| *id).collect();
        for round in late {
            let limit = self.options.round_timeout.unwrap_or_default();
            let waiting_for = self.waiting_for(round);
            self.answer(round, Err(Error::TimedOut { limit, waiting_for }));
            self.cancel(round);
        }
    }

    pub(super) fn answer(&mut self, round: RoundId, value: Result<AnyBox, Error>) {
        self.drain_lines();
        self.run_errands_of(round);
        let finished = value.is_ok();
        let running = self.rounds.get_mut(&round).expect("the caller looked");
        running.is_answered = true;
        let report = running.closed_report();
        let held = running.held.take();
        if let Some(recorder) = &mut self.recorder
            && !round.is_internal()
        {
            match &value {
                Ok(value) => {
                    recorder.round_done(&report, running.params_hash, &running.function, value, false);
                }
                Err(error) => recorder.round_failed(round.0, error, matches!(error, Error::Cancelled)),
            }
        }
        if finished {
            self.learn(round, &report);
        }
        let running = self.rounds.get_mut(&round).expect("the caller looked");
        *running.answer.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
        running.answer.give(value);
        self.answered += 1;
        if let Some(held) = held {
            self.end_held(held, finished, Some(report.total_us));
        }
        if finished && !round.is_internal() {
            self.last_report = Some(report);
            self.note(What::Report(report));
        }
    }
}

/// The value without views of workers' memory: these are for the round only. What was merged has none; what came in one
/// piece, or was taken over as it was, is copied.
fn own(function: &Function, value: AnyBox, views: &Arc<()>) -> Result<AnyBox, Fault> {
    if Arc::strong_count(views) == 1 {
        return Ok(value);
    }
    let mut payload = Bytes::new();
    caught(|| function.encode(&value, &mut |encoded| payload = encoded.to_bytes()))?;
    caught(|| function.decode(payload))?.map_err(|e| fault(FaultKind::Result, e.to_string()))
}
