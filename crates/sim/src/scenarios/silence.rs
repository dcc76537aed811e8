//! Workers that say nothing for a while.

use super::*;

#[test]
fn a_stopped_worker_returns_after_its_blocks_were_done_elsewhere() {
    let plan = Plan::calm(2)
        .round(round(8, 100))
        .round(next_round(8, 100))
        .fault(ms(60), Fault::Stop { seat: 0, for_span: Some(Span::from_ms(10_800)) });
    for ending in play_all(&plan, 10) {
        assert!(all_have_values(&ending));
        assert_eq!(ending.tally.suspected, 1);
        assert!(ending.at < ms(13_000), "nobody waited for it to be lost: {:?}", ending.at);
    }
}

#[test]
fn a_worker_that_never_returns_costs_what_it_had() {
    let plan = Plan::calm(3).round(round(30, 100)).fault(ms(60), Fault::Stop { seat: 1, for_span: None });
    let ending = play(&plan);
    assert!(all_have_values(&ending));
    assert!(ending.tally.blocks_run <= 30 + 10, "{}", ending.tally.blocks_run);
}

#[test]
fn the_only_worker_stops_and_the_round_goes_on_with_its_successor() {
    let plan = Plan::calm(1).round(round(4, 100)).fault(ms(60), Fault::Stop { seat: 0, for_span: None });
    let ending = play(&plan);
    assert!(all_have_values(&ending));
    assert!(ending.at < ms(17_000), "silent for 15 s, then half a second of work: {:?}", ending.at);
}

#[test]
fn a_root_that_overlaps_what_is_done_is_discarded_and_the_rest_done_again() {
    let mut overlapped = 0;
    for stop_ms in (10_300..13_500).step_by(50) {
        let mut plan = Plan::calm(2)
            .round(round(16, 400))
            .fault(ms(300), Fault::Stop { seat: 0, for_span: Some(Span::from_ms(stop_ms)) });
        plan.deliver_after = Span::from_ms(1_000);
        let ending = play(&plan);
        assert!(all_have_values(&ending));
        overlapped += ending.tally.parts_overlapping;
    }
    assert!(overlapped > 0, "none overlapped");
}

#[test]
fn a_block_comes_back_before_the_end_of_its_first_run_is_reported() {
    // Worker 0 falls silent and worker 1 gets its blocks too. Worker 0 returns, delivers the left of two neighbours and
    // dies inside the right one. Worker 1 delivers both as one, though its thread has yet to say that it ran the second;
    // that is dropped, and the second comes back at once.
    let mut back = 0;
    for crash_ms in (10_500..13_500).step_by(20) {
        let mut plan = Plan::calm(2)
            .round(round(8, 500))
            .fault(ms(200), Fault::Stop { seat: 0, for_span: Some(Span::from_ms(10_200)) })
            .fault(ms(crash_ms), Fault::Crash { seat: 0 });
        plan.deliver_after = Span::from_ms(200);
        for seat in &mut plan.seats {
            (seat.inline, seat.ticks, seat.report) = (false, true, Span::from_ms(400));
        }
        for ending in play_all(&plan, 16) {
            assert!(all_have_values(&ending));
            back += ending.tally.blocks_back_early;
        }
    }
    assert!(back > 0, "it never came to that");
}

#[test]
fn a_stalled_master_finds_its_workers_again() {
    let plan = Plan::calm(3)
        .round(round(30, 200))
        .fault(ms(500), Fault::MasterStalls { for_span: Span::from_ms(20_000) });
    assert!(play_all(&plan, 10).iter().all(all_have_values));
}

#[test]
fn a_broken_connection_that_nobody_reports_is_found_by_silence() {
    let plan = Plan::calm(2)
        .round(round(8, 100))
        .fault(ms(60), Fault::Cut { seat: 0, master_learns: None, worker_learns: Span::from_ms(60_000) });
    let ending = play(&plan);
    assert!(all_have_values(&ending));
    assert_eq!(ending.tally.suspected, 1);
}
