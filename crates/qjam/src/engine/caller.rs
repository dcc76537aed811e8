//! A crew of one: the thread that asked for the round.
//!
//! Where a round takes microseconds, waking a worker costs more than the work. Then the caller's thread runs the round
//! itself: block after block along the same tree, by the code that workers use, so that bits and errors are theirs. After
//! each block the tuner's plan says whether workers should get the rest. While the thread is in a block that takes long, the
//! master's loop may take the rest for them: each block is claimed once, see [`Claims`].

use super::caps::Caps;
use super::crew::{Assignment, Crew, CrewWorker};
use super::order::{Begun, Failure, Outcome, Parts, Value};
use crate::execution::round::Effort;
use qjam_core::tuner::Plan;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// What messages call the caller's thread.
pub(crate) const NAME: &str = "inline";

/// The caller's thread, for one round.
pub(crate) struct CallerThread {
    pub(crate) plan: Plan,
    pub(crate) claims: Arc<Claims>,
}

/// The blocks of a round that the caller's thread has claimed: the first so many. Somebody else may claim the rest.
///
/// Blocks are numbers and nothing else is read because of them, so no order of memory is needed.
#[derive(Debug, Default)]
pub(crate) struct Claims(AtomicU32);

impl Claims {
    /// Claims the next block, if there is one left.
    fn next(&self, blocks: u32) -> Option<u32> {
        let claimed = |next| (next < blocks).then(|| next + 1);
        self.0.fetch_update(Relaxed, Relaxed, claimed).ok()
    }

    /// Claims all that are left, if the thread has begun and some are.
    pub(crate) fn rest(&self, blocks: u32) -> Option<Range<u32>> {
        let claimed = |next| (0 < next && next < blocks).then_some(blocks);
        self.0.fetch_update(Relaxed, Relaxed, claimed).ok().map(|first| first..blocks)
    }

    /// How many blocks are claimed.
    pub(crate) fn count(&self) -> u32 {
        self.0.load(Relaxed)
    }
}

impl Crew for CallerThread {
    fn caps(&self) -> Caps {
        Caps {
            keeps_state: false,
            carries_mail: false,
            can_grow: false,
            several_rounds: false,
            ..Caps::THREADS
        }
    }

    fn workers(&self) -> Vec<CrewWorker> {
        vec![CrewWorker { name: NAME.into(), pid: None, same_machine: true, slots: 1 }]
    }

    fn run(&self, job: Assignment) -> Outcome {
        let Assignment { order, cancelled, open, .. } = job;
        let start = Instant::now();
        // Nobody in particular is to blame for parameters that cannot be read.
        let runner = match order.runner(1, Some(cancelled)) {
            Ok(runner) => runner,
            Err(fault) => return Outcome::of(Err(fault.into())),
        };
        let blocks = order.blocks();
        let (mut done, mut hands_over, mut failure) = (0, None, None);
        while let Some(block) = self.claims.next(blocks) {
            let chunk_at = |index: u32| order.data.chunks.get(index as usize).cloned();
            if let Err(stopped) = runner.run(0, block, &open, &chunk_at) {
                failure = Some(match stopped.into() {
                    Failure::Fault { fault, .. } => Failure::Fault { worker: Some(0), fault },
                    other => other,
                });
                break;
            }
            done += 1;
            let took_us = start.elapsed().as_secs_f64() * 1e6;
            hands_over = self.plan.hands_over(took_us, done, blocks);
            if hands_over.is_some() {
                self.claims.rest(blocks);
            }
        }
        let took_us = start.elapsed().as_secs_f64() * 1e6;
        let (parts, effort) = runner.collect();
        let value = match (failure, hands_over) {
            (Some(failure), _) => Err(failure),
            (None, slots) if done < blocks => {
                // If the loop has taken the rest, it knows for how many.
                Ok(Value::Begun(Begun {
                    parts: Parts::of(parts),
                    blocks: done,
                    slots: slots.unwrap_or_default(),
                }))
            }
            (None, _) => {
                let root = parts.into_iter().next();
                Ok(Value::Whole(root.expect("all blocks were run, so the tree has its root").1))
            }
        };
        let mut outcome = Outcome::of(value);
        outcome.caller = Some((took_us, done));
        outcome.efforts = vec![(0, Effort { compute_us: 0, ..effort })];
        outcome
    }
}
