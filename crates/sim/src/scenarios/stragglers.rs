//! Workers that are slower than the others.

use super::*;
use crate::plan::{Cancel, SeatPlan};

/// So many workers, of which the first takes so many times as long.
fn with_one_slow(workers: u32, slowness: u64) -> Plan {
    let mut plan = Plan::calm(workers);
    plan.seats[0].slowness = slowness;
    plan
}

/// When the last of these plans ends, over some seeds.
fn ends(plan: &Plan) -> f64 {
    let endings = play_all(plan, 5);
    assert!(endings.iter().all(all_have_values));
    endings.iter().map(|e| e.answered.0 as f64).sum::<f64>() / endings.len() as f64
}

#[test]
fn one_of_eight_ten_times_slower_costs_little_more_than_its_absence() {
    for blocks in [64, 128, 200] {
        let block_ms = 10_000 / u64::from(blocks);
        let ratio = ends(&with_one_slow(8, 10).round(round(blocks, block_ms)))
            / ends(&Plan::calm(7).round(round(blocks, block_ms)));
        println!("{blocks} blocks: {ratio:.3} of the time of seven");
        assert!(ratio < 1.2, "{blocks} blocks: {ratio}");
    }
}

#[test]
fn one_of_a_thousand_ten_times_slower_costs_little() {
    let all_well = play(&Plan::calm(1_000).round(round(6_000, 190)));
    let ending = play(&with_one_slow(1_000, 10).round(round(6_000, 190)));
    let ratio = (ending.answered.0 - 20_000) as f64 / (all_well.answered.0 - 20_000) as f64;
    println!("one of a thousand ten times slower: {ratio:.3} of the time without it");
    assert!(all_have_values(&ending) && ratio < 1.3, "{ratio}");
    assert!(ending.tally.blocks_stolen > 0, "{}", ending.tally);
}

#[test]
fn a_fifth_of_all_workers_may_be_slow() {
    let mut plan = Plan::calm(50).round(round(800, 100)).round(next_round(800, 100));
    for seat in plan.seats.iter_mut().step_by(5) {
        seat.slowness = 5;
    }
    let ideal_ms = 800.0 * 100.0 / (40.0 + 10.0 / 5.0);
    let took_ms = ends(&plan) / 1e3 - 20.0;
    assert!(took_ms < 2.0 * 1.45 * ideal_ms, "{took_ms} ms instead of {}", 2.0 * ideal_ms);
}

#[test]
fn who_was_slow_gets_less_from_the_start_and_more_again_when_it_recovers() {
    let mut plan = Plan::calm(4).round(round(64, 50));
    for _ in 0..5 {
        plan = plan.round(next_round(64, 50));
    }
    plan = plan.fault(ms(10), Fault::SlowWorker { seat: 0, factor: 10, for_span: Span::from_ms(2_500) });
    for ending in play_all(&plan, 5) {
        assert!(all_have_values(&ending));
        assert!(ending.answered < ms(20 + 6 * 1_200), "{:?}", ending.answered);
    }
}

#[test]
fn equals_do_not_take_each_others_blocks_for_long() {
    let plan = Plan::calm(8).round(round(128, 20)).round(next_round(128, 20)).round(next_round(128, 20));
    for ending in play_all(&plan, 10) {
        assert_eq!((ending.tally.blocks_run, ending.tally.backups), (3 * 128, 0));
        // Blocks take from half to one and a half of their time, so some finish before others.
        assert!(ending.tally.blocks_stolen < 3 * 128 / 6, "{}", ending.tally);
    }
}

#[test]
fn short_rounds_are_left_alone() {
    let mut plan = Plan::calm(4);
    for _ in 0..50 {
        let mut short = next_round(64, 1);
        short.block = Span(20);
        plan = plan.round(short);
    }
    let ending = play(&plan);
    assert!(all_have_values(&ending));
    assert_eq!((ending.tally.recalls, ending.tally.blocks_stolen), (0, 0), "{}", ending.tally);
}

#[test]
fn a_block_that_takes_for_ever_is_done_by_somebody_else() {
    // Worker 0 becomes a hundred times slower in the middle of everything.
    let plan = Plan::calm(8)
        .round(round(64, 100))
        .fault(ms(350), Fault::SlowWorker { seat: 0, factor: 100, for_span: Span::from_ms(20_000) });
    for ending in play_all(&plan, 10) {
        assert!(all_have_values(&ending));
        assert_eq!(ending.tally.kills, 0, "nobody is killed for being late");
        assert!(ending.tally.blocks_stolen > 0 && ending.tally.backups == 1, "{}", ending.tally);
    }
}

#[test]
fn a_block_that_takes_for_ever_is_done_by_somebody_slow_if_nobody_else_is_there() {
    // Worker 0 all but stops. The other one takes five times as long as it did before, which is still sooner than never.
    for at in (400..2_400).step_by(100) {
        let mut plan = Plan::calm(2)
            .round(round(32, 100))
            .fault(ms(at), Fault::SlowWorker { seat: 0, factor: 10_000, for_span: Span::from_ms(900_000) });
        plan.seats[1].slowness = 5;
        for ending in play_all(&plan, 5) {
            assert!(all_have_values(&ending));
            assert!(ending.answered < ms(300_000), "from {at} ms: {:?}", ending.answered);
        }
    }
}

#[test]
fn a_worker_that_joins_in_the_middle_gets_its_share() {
    let mut plan = Plan::calm(2).round(round(100, 40));
    plan.seats[1] = SeatPlan { added: ms(1_000), ..SeatPlan::default() };
    for ending in play_all(&plan, 10) {
        assert!(all_have_values(&ending));
        assert!(
            ending.answered < ms(2_900),
            "a second alone, a second and a half together: {:?}",
            ending.answered
        );
        assert_eq!(ending.tally.blocks_run, 100);
    }
}

#[test]
fn victim_thief_and_helper_die_at_any_moment() {
    let (mut stolen, mut backups) = (0, 0);
    for at in (500..2_600).step_by(30) {
        for seat in 0..4 {
            let mut plan = with_one_slow(4, 20).round(round(32, 100)).fault(ms(at), Fault::Crash { seat });
            plan.seats[0].listens = at % 60 == 0;
            let ending = play(&plan);
            assert!(all_have_values(&ending));
            stolen += ending.tally.blocks_stolen;
            backups += ending.tally.backups;
        }
    }
    assert!(stolen > 1_000 && backups > 30, "{stolen} and {backups}");
}

#[test]
fn a_round_is_called_off_while_blocks_are_asked_for() {
    for at in (600..2_200).step_by(20) {
        let mut called_off = round(32, 100);
        called_off.cancel = Some(Cancel::After(Span::from_ms(at)));
        let mut plan = with_one_slow(4, 20).round(called_off).round(next_round(32, 10));
        plan.seats[0].latency = Span::from_ms(30);
        let ending = play(&plan);
        assert_eq!(ending.answers[1], Answer::Value);
    }
}

#[test]
fn who_only_answers_between_two_blocks_is_helped_then() {
    let mut plan = with_one_slow(8, 10).round(round(64, 150));
    plan.seats[0].listens = false;
    let ratio = ends(&plan) / ends(&Plan::calm(7).round(round(64, 150)));
    assert!(ratio < 1.8, "at most one of its blocks later: {ratio}");
}

#[test]
fn slow_hosts_far_away_are_helped_too() {
    let mut plan = with_one_slow(6, 10).slots_each(4).round(round(384, 100));
    let mut fast = Plan::calm(5).slots_each(4).round(round(384, 100));
    for seat in plan.seats.iter_mut().chain(&mut fast.seats) {
        (seat.remote, seat.latency) = (true, Span::from_ms(15));
    }
    let ratio = ends(&plan) / ends(&fast);
    assert!(ratio < 1.25, "{ratio}");
}
