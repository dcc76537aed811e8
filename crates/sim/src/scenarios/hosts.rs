//! Hosts that are out of reach for a while or for ever, and seats that come and go.

use super::*;
use crate::plan::SeatPlan;

/// So many hosts with two slots each, a few milliseconds away.
fn hosts(n: u32) -> Plan {
    let mut plan = Plan::calm(n).slots_each(2);
    for seat in &mut plan.seats {
        (seat.remote, seat.start, seat.latency) = (true, Span::from_ms(300), Span::from_ms(2));
    }
    // Outages here are longer than what masters are patient with by default.
    plan.config.remote_patience = Span::from_ms(60_000);
    plan
}

fn outage(seat: u32, for_ms: Option<u64>) -> Fault {
    Fault::Outage { seat, refuses: false, for_span: for_ms.map(Span::from_ms) }
}

fn long_ms(ms: u64) -> RoundPlan {
    RoundPlan { submit: Submit::At(super::ms(1_000)), ..round(40, ms) }
}

#[test]
fn a_short_outage_is_ridden_out() {
    for for_ms in [100, 3_000, 9_000, 13_000] {
        let plan = hosts(3).round(long_ms(500)).fault(ms(2_000), outage(1, Some(for_ms)));
        for ending in play_all(&plan, 5) {
            assert!(all_have_values(&ending));
            assert_eq!((ending.tally.lost, ending.tally.kills), (0, 0), "after {for_ms} ms");
        }
    }
}

#[test]
fn a_host_that_was_out_of_reach_for_twenty_seconds_is_lost_and_comes_back() {
    let plan =
        hosts(2).round(long_ms(2_000)).round(next_round(40, 100)).fault(ms(2_000), outage(1, Some(20_000)));
    for ending in play_all(&plan, 10) {
        assert!(all_have_values(&ending));
        assert!((1..=3).contains(&ending.tally.lost), "{}", ending.tally.lost);
        assert_eq!((ending.tally.given_up, ending.tally.suspected), (0, 1));
    }
}

#[test]
fn a_host_that_is_out_of_reach_for_ever_costs_what_it_had() {
    let plan = hosts(3).round(long_ms(500)).fault(ms(2_000), outage(0, None));
    for ending in play_all(&plan, 10) {
        assert!(all_have_values(&ending));
        assert_eq!(ending.tally.given_up, 0);
        assert!(ending.at < ms(30_000), "the others did it: {:?}", ending.at);
    }
}

#[test]
fn a_round_waits_for_its_hosts_when_all_of_them_are_away_for_a_while() {
    for refuses in [false, true] {
        let mut plan = hosts(3).round(long_ms(200));
        for seat in 0..3 {
            let for_span = Some(Span::from_ms(50_000));
            plan = plan.fault(ms(2_000), Fault::Outage { seat, refuses, for_span });
        }
        for ending in play_all(&plan, 10) {
            assert!(all_have_values(&ending));
            assert_eq!(ending.tally.given_up, 0);
        }
    }
}

#[test]
fn a_round_fails_when_all_hosts_are_away_for_ever() {
    for refuses in [false, true] {
        let mut plan = hosts(3).round(long_ms(200));
        for seat in 0..3 {
            plan = plan.fault(ms(2_000), Fault::Outage { seat, refuses, for_span: None });
        }
        for ending in play_all(&plan, 10) {
            assert_eq!(ending.answers, [Answer::NoWorkers]);
            // Noticed within fifteen seconds, a minute of patience, and the start that was under way by then.
            assert!(ending.at > ms(62_000) && ending.at < ms(100_000), "{:?}", ending.at);
        }
    }
}

/// A lone host whose connection breaks so often, each time after so long, while it computes.
fn lost_every(life_ms: u64, times: u64, block_ms: u64) -> Plan {
    let mut plan = Plan { config: Default::default(), ..hosts(1) };
    plan = plan.round(RoundPlan { submit: Submit::At(ms(1_000)), ..round(4, block_ms) });
    for n in 0..times {
        let cut = Fault::Cut { seat: 0, master_learns: Some(Span(0)), worker_learns: Span(0) };
        plan = plan.fault(ms(2_000 + n * life_ms), cut);
    }
    plan
}

#[test]
fn a_lone_host_that_is_lost_again_and_again_ends_its_round_within_half_a_minute() {
    for life_ms in [2_000, 5_000, 7_000, 10_000, 13_000, 15_000, 20_000, 29_000] {
        // After half a minute nothing breaks any more: who has not given up by then has the value.
        for ending in play_all(&lost_every(life_ms, 30_000 / life_ms + 1, 600_000), 5) {
            assert_eq!(ending.answers, [Answer::NoWorkers], "lives of {life_ms} ms");
            assert!(ending.at <= ms(2_000 + 30_000), "lives of {life_ms} ms: {:?}", ending.at);
        }
    }
}

#[test]
fn a_lone_host_that_is_lost_a_few_times_and_then_stays_has_its_round_done() {
    for life_ms in [4_000, 10_000] {
        for ending in play_all(&lost_every(life_ms, 2, 30_000), 5) {
            assert!(all_have_values(&ending), "lives of {life_ms} ms");
        }
    }
}

#[test]
fn nobody_comes_up_ever_and_the_round_ends() {
    let mut plan = hosts(2).round(round(4, 10)).round(next_round(4, 10));
    for seat in 0..2 {
        plan = plan
            .fault(ms(0), Fault::StartsFail { seat, silently: seat == 0, for_span: Span::from_ms(300_000) });
        plan.seats[seat as usize].added = ms(10);
    }
    let ending = play(&plan);
    assert_eq!(ending.answers, [Answer::NoWorkers, Answer::NoWorkers]);
    assert_eq!(ending.tally.given_up, 4, "a new round tries each once more");
}

#[test]
fn a_host_is_tried_for_ten_minutes_while_another_works() {
    let mut plan = hosts(2).round(RoundPlan { submit: Submit::At(ms(1_000)), ..round(100, 12_000) });
    plan = plan
        .fault(ms(1_500), Fault::Outage { seat: 1, refuses: true, for_span: Some(Span::from_ms(500_000)) });
    let ending = play(&plan);
    assert!(all_have_values(&ending));
    assert_eq!(ending.tally.given_up, 0);
    assert!(ending.tally.starts_failed > 40, "{}", ending.tally.starts_failed);
}

#[test]
fn hosts_have_a_fresh_chance_when_the_last_worker_goes() {
    // The host is away for three minutes. Shortly before it returns, the worker here dies and cannot be replaced.
    let mut plan = hosts(2).round(RoundPlan { submit: Submit::At(ms(1_000)), ..round(100, 8_000) });
    plan.seats[0] = SeatPlan { slots: 2, inline: false, ..SeatPlan::default() };
    plan = plan
        .fault(ms(2_000), Fault::Outage { seat: 1, refuses: true, for_span: Some(Span::from_ms(190_000)) })
        .fault(ms(150_000), Fault::StartsFail { seat: 0, silently: false, for_span: Span::from_ms(900_000) })
        .fault(ms(150_000), Fault::Crash { seat: 0 });
    for ending in play_all(&plan, 5) {
        assert!(all_have_values(&ending));
        assert_eq!(ending.tally.given_up, 1, "the seat here");
    }
}

#[test]
fn seats_come_and_go_while_a_round_runs() {
    let mut plan = hosts(6).round(long_ms(1_000)).round(next_round(40, 100));
    for (n, seat) in (0..).zip(&mut plan.seats) {
        seat.added = ms(n * 700);
        seat.removed = (n < 5).then(|| ms(2_000 + n * 1_500));
    }
    for ending in play_all(&plan, 20) {
        assert!(all_have_values(&ending));
        assert_eq!((ending.tally.lost, ending.tally.removed), (0, 5));
    }
}

#[test]
fn rounds_fail_when_every_seat_is_taken_away() {
    for remote in [false, true] {
        let mut plan = hosts(2).round(long_ms(1_000)).round(next_round(4, 10));
        for (n, seat) in (1..).zip(&mut plan.seats) {
            (seat.remote, seat.removed) = (remote, Some(ms(n * 2_000)));
        }
        assert_eq!(play(&plan).answers, [Answer::NoWorkers, Answer::NoWorkers]);
    }
}

#[test]
fn a_seat_is_taken_away_while_its_host_is_out_of_reach() {
    let mut plan = hosts(2).round(long_ms(500)).fault(ms(2_000), outage(0, Some(13_000)));
    plan.late_messages = true;
    plan.seats[0].removed = Some(ms(5_000));
    for ending in play_all(&plan, 10) {
        assert!(all_have_values(&ending));
        assert_eq!(ending.tally.lost, 0);
    }
}

#[test]
fn a_host_has_more_slots_than_anybody_knew() {
    let mut plan = hosts(2).slots_each(4).round(long_ms(400));
    plan.seats[0].promised = Some(1);
    plan.seats[1].promised = Some(9);
    let ending = play(&plan);
    assert!(all_have_values(&ending));
    assert!(ending.at < ms(6_000), "forty blocks in eight slots: {:?}", ending.at);
}

#[test]
fn starts_that_hang_on_another_host_end_with_the_patience_of_those_who_make_them() {
    let plan = hosts(1)
        .round(long_ms(10))
        .fault(ms(1_100), Fault::StartsFail { seat: 0, silently: true, for_span: Span::from_ms(20_000) })
        .fault(ms(1_100), Fault::Crash { seat: 0 });
    let ending = play(&plan);
    assert!(all_have_values(&ending));
    assert_eq!(ending.tally.kills, 0, "the scheduler had no hand in it");
}
