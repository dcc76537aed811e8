//! Named stories: what once went wrong, and what must never.
//!
//! A seed that fails is first understood, then written down here as the smallest plan that shows it. Times are in
//! virtual milliseconds; what is not written is calm.

mod cancelling;
mod deaths;
mod hosts;
mod large;
mod silence;
mod states;
mod stragglers;

use crate::fault::Fault;
use crate::plan::{Plan, RoundPlan, Submit};
use crate::{Answer, Ending, Trace, run};
use qjam_core::time::{Span, Time};

fn ms(ms: u64) -> Time {
    Time(ms * 1000)
}

/// A round of single-chunk blocks, asked for when everybody is up.
fn round(blocks: u32, block_ms: u64) -> RoundPlan {
    RoundPlan { submit: Submit::At(ms(20)), ..RoundPlan::new(blocks, 0, Span::from_ms(block_ms)) }
}

/// The same, asked for when the one before it is answered.
fn next_round(blocks: u32, block_ms: u64) -> RoundPlan {
    RoundPlan { submit: Submit::AfterPrevious(Span::from_ms(1)), ..round(blocks, block_ms) }
}

impl Plan {
    fn round(mut self, round: RoundPlan) -> Self {
        self.rounds.push(round);
        self
    }

    fn fault(mut self, at: Time, fault: Fault) -> Self {
        self.faults.push((at, fault));
        self
    }

    fn slots_each(mut self, slots: u32) -> Self {
        for seat in &mut self.seats {
            (seat.slots, seat.inline) = (slots, slots == 1);
        }
        self
    }
}

/// Plays a plan that must keep every promise; shows the end of the story if it does not.
fn play(plan: &Plan) -> Ending {
    match run(plan, &mut Trace::off()) {
        Ok(ending) => ending,
        Err(violation) => {
            let mut trace = Trace::last(80);
            let _ = run(plan, &mut trace);
            trace.lines().for_each(|line| println!("{line}"));
            panic!("{violation}");
        }
    }
}

/// Plays a plan under many seeds, since the exact length of blocks and trips is drawn.
fn play_all(plan: &Plan, seeds: u64) -> Vec<Ending> {
    (0..seeds).map(|seed| play(&Plan { seed, ..plan.clone() })).collect()
}

fn all_have_values(ending: &Ending) -> bool {
    ending.answers.iter().all(|answer| *answer == Answer::Value)
}

#[test]
fn the_same_seed_tells_the_same_story() {
    for seed in [1, 8, 21] {
        let story = || {
            let mut trace = Trace::last(usize::MAX);
            let ending = crate::check(seed, 12, &mut trace).expect("it passes");
            (trace.lines().map(String::from).collect::<Vec<_>>(), ending.at, ending.answers)
        };
        let (lines, at, answers) = story();
        assert!(!lines.is_empty());
        assert_eq!((lines, at, answers), story());
    }
}

#[test]
fn calm_rounds_have_values_and_nothing_is_done_twice() {
    let ending = play(&Plan::calm(3).round(round(20, 5)).round(next_round(20, 5)));
    assert!(all_have_values(&ending));
    assert_eq!((ending.tally.blocks_run, ending.tally.lost), (40, 0));
}
