//! Rounds that the user calls off.

use super::*;
use crate::plan::Cancel;

#[test]
fn a_cancel_that_races_with_the_last_result_gives_one_answer() {
    let mut answers = std::collections::BTreeSet::new();
    for us in (20_000..60_000).step_by(500) {
        let mut called_off = round(6, 15);
        called_off.cancel = Some(Cancel::After(Span(us)));
        let ending = play(&Plan::calm(2).round(called_off).round(next_round(6, 15)));
        assert_eq!(ending.answers[1], Answer::Value);
        answers.insert(format!("{:?}", ending.answers[0]));
    }
    assert_eq!(answers.into_iter().collect::<Vec<_>>(), ["Cancelled", "Value"]);
}

#[test]
fn a_round_is_called_off_between_any_two_of_its_blocks() {
    for blocks in 1..=12 {
        let mut called_off = round(12, 10);
        called_off.cancel = Some(Cancel::AtBlock(blocks));
        let mut plan = Plan::calm(3).round(called_off).round(next_round(12, 10));
        plan.deliver_after = Span(0);
        let ending = play(&plan);
        let expected = if blocks == 12 { Answer::Value } else { Answer::Cancelled };
        assert_eq!(ending.answers, [expected, Answer::Value], "after {blocks} blocks");
    }
}

#[test]
fn a_worker_with_several_blocks_running_lets_go_when_the_last_one_ends() {
    let mut called_off = round(12, 200);
    called_off.cancel = Some(Cancel::After(Span::from_ms(150)));
    let plan = Plan::calm(2).slots_each(3).round(called_off).round(next_round(12, 10));
    for ending in play_all(&plan, 20) {
        assert_eq!(ending.answers, [Answer::Cancelled, Answer::Value]);
        assert_eq!(ending.tally.kills, 0);
    }
}

#[test]
fn a_worker_that_does_not_let_go_is_killed_and_nothing_else_is_held_against_it() {
    // A long block, and beside it ten rounds that are called off in the middle of blocks of four seconds.
    let mut plan = Plan::calm(1).slots_each(2).round(round(1, 12_000));
    for n in 0..10 {
        let mut called_off = round(1, 4_000);
        called_off.submit = Submit::At(ms(30 + n * 1_500));
        called_off.cancel = Some(Cancel::After(Span::from_ms(700)));
        plan = plan.round(called_off);
    }
    for ending in play_all(&plan, 10) {
        assert_eq!(ending.answers[0], Answer::Value);
        assert!(ending.answers[1..].iter().all(|a| *a == Answer::Cancelled));
        assert!(ending.tally.kills > 6, "{} kills", ending.tally.kills);
        assert_eq!(ending.tally.given_up, 0);
    }
}
