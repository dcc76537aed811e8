//! Invariants of a worker between any two events. Debug builds check them after each event.

use super::Worker;
use super::work::{Phase, RoundWork};

/// Runs every check.
pub fn check(w: &Worker) {
    slots_add_up(w);
    a_block_is_in_one_place(w);
    stopped_rounds_have_nothing_to_run(w);
    risky_blocks_run_alone(w);
    finished_work_is_not_kept_back(w);
    only_blocks_that_are_here_are_apart(w);
}

/// Free and taken slots are all slots.
fn slots_add_up(w: &Worker) {
    let running: usize = w.rounds.values().map(|r| r.running.len()).sum();
    assert_eq!(running as u32 + w.free, w.slots, "slots");
}

/// A block that is here is queued, running or finished, and only one of these.
fn a_block_is_in_one_place(w: &Worker) {
    for (round, work) in &w.rounds {
        for (block, (attempt, _)) in &work.attempts {
            let places = usize::from(work.queue.contains(block))
                + usize::from(work.running.get(block) == Some(attempt))
                + usize::from(work.finished.contains(block));
            assert_eq!(places, 1, "{round}: block {block}");
        }
        for block in work.queue.iter().chain(&work.finished) {
            assert!(work.attempts.contains_key(block), "{round}: block {block} is nobody's");
        }
    }
}

/// A round that failed or was cancelled has nothing queued or finished.
fn stopped_rounds_have_nothing_to_run(w: &Worker) {
    for (round, work) in w.rounds.iter().filter(|(_, r)| r.phase != Phase::Open) {
        assert!(work.queue.is_empty() && work.finished.is_empty(), "{round} was stopped");
        let waits = !work.running.is_empty() || work.collecting || work.phase == Phase::Failed;
        assert!(waits, "{round} was stopped and is idle, but not forgotten");
    }
}

/// While a block that killed before is running, nothing else is at stake.
fn risky_blocks_run_alone(w: &Worker) {
    if w.rounds.values().any(RoundWork::runs_risky) {
        assert_eq!(w.free + 1, w.slots, "a risky block has company");
        for (round, work) in &w.rounds {
            assert!(work.finished.is_empty(), "{round}: finished work is here while a risky block runs");
        }
    }
}

/// What is apart is here, and it is known since when each block runs.
fn only_blocks_that_are_here_are_apart(w: &Worker) {
    for (round, work) in &w.rounds {
        assert!(work.apart.iter().all(|b| work.attempts.contains_key(b)), "{round}: {:?}", work.apart);
        assert!(work.started.keys().eq(work.running.keys()), "{round}: {:?}", work.started);
    }
}

/// When there is nothing left to run, what is finished is on its way out.
fn finished_work_is_not_kept_back(w: &Worker) {
    for (round, work) in &w.rounds {
        if work.phase == Phase::Open && work.is_drained() && !work.finished.is_empty() {
            assert!(work.collecting, "{round}: finished work is kept back");
        }
    }
}
