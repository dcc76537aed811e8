//! A crew of one: the thread that asked for the round.
//!
//! Where a round takes microseconds, waking a worker costs more than the work. Then the caller's thread runs the round
//! itself: block after block along the same tree, by the code that workers use, so that bits and errors are theirs. After
//! each block the tuner's plan says whether workers should get the rest.

use super::caps::Caps;
use super::crew::{Assignment, Crew, CrewWorker};
use super::order::{Begun, Failure, Outcome, Parts, Value};
use crate::execution::round::Effort;
use qjam_core::tuner::Plan;
use std::time::Instant;

/// What messages call the caller's thread.
pub(crate) const NAME: &str = "inline";

/// The caller's thread, for one round.
pub(crate) struct CallerThread {
    pub(crate) plan: Plan,
}

impl Crew for CallerThread {
    fn caps(&self) -> Caps {
        Caps { keeps_state: false, can_grow: false, several_rounds: false, ..Caps::THREADS }
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
        while done < blocks && hands_over.is_none() {
            let chunk_at = |index: u32| order.data.chunks.get(index as usize).cloned();
            if let Err(stopped) = runner.run(0, done, &open, &chunk_at) {
                failure = Some(match stopped.into() {
                    Failure::Fault { fault, .. } => Failure::Fault { worker: Some(0), fault },
                    other => other,
                });
                break;
            }
            done += 1;
            let took_us = start.elapsed().as_secs_f64() * 1e6;
            hands_over = self.plan.hands_over(took_us, done, blocks);
        }
        let took_us = start.elapsed().as_secs_f64() * 1e6;
        let (parts, effort) = runner.collect();
        let value = match (failure, hands_over) {
            (Some(failure), _) => Err(failure),
            (None, Some(slots)) if done < blocks => {
                Ok(Value::Begun(Begun { parts: Parts(parts), blocks: done, slots }))
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
