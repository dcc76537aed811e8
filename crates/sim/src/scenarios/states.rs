//! States that stay with the data.

use super::*;

/// Rounds over the same states, one after the other.
fn held_rounds(n: usize, blocks: u32, block_ms: u64) -> Plan {
    let mut plan = Plan::calm(4);
    for k in 0..n {
        let round = if k == 0 { round(blocks, block_ms) } else { next_round(blocks, block_ms) };
        plan = plan.round(RoundPlan { is_held: true, ..round });
    }
    plan
}

#[test]
fn calm_rounds_make_no_state_twice() {
    for ending in play_all(&held_rounds(6, 12, 5), 5) {
        assert!(all_have_values(&ending));
        assert_eq!((ending.tally.states_asked, ending.tally.blocks_run), (0, 72));
    }
}

#[test]
fn a_death_costs_the_states_of_the_dead() {
    let plan = held_rounds(10, 12, 20).fault(ms(400), Fault::Crash { seat: 2 });
    for ending in play_all(&plan, 10) {
        assert!(all_have_values(&ending));
        assert_eq!((ending.tally.states_restored, ending.tally.partitions_moved), (3, 0), "{}", ending.tally);
    }
}

#[test]
fn everybody_dies_again_and_again() {
    let mut plan = held_rounds(10, 9, 20);
    for at in [100, 350, 600, 900] {
        plan = plan.fault(ms(at), Fault::CrashAll);
    }
    for ending in play_all(&plan, 10) {
        assert!(all_have_values(&ending));
        assert!(ending.tally.states_restored >= 9, "{}", ending.tally);
    }
}

#[test]
fn a_round_that_failed_leaves_the_states_as_they_were() {
    let mut plan = held_rounds(6, 8, 10);
    plan.rounds[2].panics = [5].into();
    plan.rounds[4].cancel = Some(crate::plan::Cancel::AtBlock(3));
    for ending in play_all(&plan, 10) {
        use Answer::{Cancelled, Fault, Value};
        assert_eq!(ending.answers, [Value, Value, Fault, Value, Cancelled, Value]);
        assert_eq!(ending.tally.states_asked, 0, "{}", ending.tally);
    }
}

#[test]
fn a_seat_that_stays_empty_loses_its_states_to_the_others() {
    let plan = held_rounds(12, 8, 200)
        .fault(ms(700), Fault::Crash { seat: 1 })
        .fault(ms(650), Fault::StartsFail { seat: 1, silently: true, for_span: Span::from_ms(60_000) });
    for ending in play_all(&plan, 5) {
        assert!(all_have_values(&ending));
        assert!(ending.tally.states_restored >= 2, "{}", ending.tally);
    }
}

#[test]
fn letters_outlive_who_sent_them_and_who_was_to_read_them() {
    for every in [0, 3] {
        let mut plan = held_rounds(12, 9, 20);
        plan.rounds.iter_mut().for_each(|round| round.has_mail = true);
        plan.rounds[5].panics = [2].into();
        plan.rounds[8].cancel = Some(crate::plan::Cancel::AtBlock(4));
        plan.checkpoint_every = every;
        for at in [100, 350, 600, 900] {
            plan = plan.fault(ms(at), Fault::CrashAll);
        }
        for ending in play_all(&plan, 10) {
            let values = ending.answers.iter().filter(|answer| **answer == Answer::Value).count();
            assert_eq!(values, 10, "{:?}", ending.answers);
            assert!(ending.tally.letters_read > 50 && ending.tally.mail_asked > 9, "{}", ending.tally);
        }
    }
}
