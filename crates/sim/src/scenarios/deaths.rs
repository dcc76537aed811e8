//! Workers that die, of themselves or of what they run.

use super::*;

#[test]
fn all_workers_die_at_once() {
    let plan =
        Plan::calm(4).round(round(40, 50)).fault(ms(200), Fault::CrashAll).fault(ms(400), Fault::CrashAll);
    for ending in play_all(&plan, 10) {
        assert!(all_have_values(&ending));
        assert_eq!(ending.tally.lost, 8);
    }
}

#[test]
fn the_worker_of_the_last_block_dies_while_sending() {
    let plan = Plan::calm(2).round(round(2, 50)).fault(ms(6), Fault::CrashSending { seat: 1 });
    for ending in play_all(&plan, 10) {
        assert!(all_have_values(&ending));
        // Whoever comes back finds the other one at it for long, and may help.
        assert!((3..=4).contains(&ending.tally.blocks_run), "{}", ending.tally);
        assert_eq!(ending.tally.lost, 1);
    }
}

#[test]
fn a_block_that_kills_fails_its_round_by_name() {
    let mut bad = round(8, 20);
    bad.poison = [5].into();
    let ending = play(&Plan::calm(3).round(bad).round(next_round(8, 20)));
    assert_eq!(ending.answers, [Answer::Poison(5), Answer::Value]);
    assert_eq!(ending.tally.poisonings, 3);
}

#[test]
fn a_block_that_runs_beside_a_killer_of_another_round_is_not_convicted() {
    // One process, two slots, two rounds: wherever the killer runs, a long innocent block would run beside it.
    let mut bad = round(2, 200);
    bad.poison = [1].into();
    let plan = Plan::calm(1).slots_each(2).round(bad).round(round(2, 1_000));
    for ending in play_all(&plan, 30) {
        assert_eq!(ending.answers, [Answer::Poison(1), Answer::Value]);
    }
}

#[test]
fn running_a_crashing_function_again_and_again_does_not_use_up_the_seat() {
    let mut plan = Plan::calm(1);
    for _ in 0..4 {
        let mut bad = next_round(1, 10);
        bad.poison = [0].into();
        plan = plan.round(bad);
    }
    let ending = play(&plan.round(next_round(4, 10)));
    assert_eq!(ending.answers[..4], [const { Answer::Poison(0) }; 4]);
    assert_eq!((&ending.answers[4], ending.tally.given_up), (&Answer::Value, 0));
}

#[test]
fn a_seat_whose_starts_fail_is_given_up_and_the_others_do_its_work() {
    let plan = Plan::calm(2)
        .round(round(10, 50))
        .fault(ms(0), Fault::StartsFail { seat: 1, silently: false, for_span: Span::from_ms(60_000) });
    let plan = plan.fault(ms(100), Fault::Crash { seat: 1 });
    let ending = play(&plan);
    assert!(all_have_values(&ending));
    assert_eq!(ending.tally.given_up, 1);
}

#[test]
fn a_round_fails_when_the_last_seat_is_given_up() {
    let plan = Plan::calm(1)
        .round(round(10, 50))
        .fault(ms(0), Fault::StartsFail { seat: 0, silently: false, for_span: Span::from_ms(60_000) })
        .fault(ms(100), Fault::Crash { seat: 0 });
    assert_eq!(play(&plan).answers, [Answer::NoWorkers]);
}

#[test]
fn a_start_that_says_nothing_is_repeated() {
    let plan = Plan::calm(1)
        .round(round(10, 50))
        .fault(ms(0), Fault::StartsFail { seat: 0, silently: true, for_span: Span::from_ms(10_000) })
        .fault(ms(100), Fault::Crash { seat: 0 });
    let ending = play(&plan);
    assert!(all_have_values(&ending));
    assert!(ending.at > ms(15_000) && ending.at < ms(17_000), "{:?}", ending.at);
}

#[test]
fn a_panic_is_reported_once_and_the_next_round_is_served() {
    let mut bad = round(8, 20);
    bad.panics = [2, 6].into();
    let ending = play(&Plan::calm(2).slots_each(2).round(bad).round(next_round(8, 20)));
    assert_eq!(ending.answers, [Answer::Fault, Answer::Value]);
    assert_eq!(ending.tally.lost, 0);
}

#[test]
fn halves_that_do_not_fit_fail_the_round_even_as_the_last_thing() {
    for seats in 1..5 {
        let mut bad = round(8, 20);
        bad.bad_merge = Some(bad.cut.root());
        let ending = play(&Plan::calm(seats).round(bad).round(next_round(8, 20)));
        assert_eq!(ending.answers, [Answer::Fault, Answer::Value], "{seats} seats");
    }
}
