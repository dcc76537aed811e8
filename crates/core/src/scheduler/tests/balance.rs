//! Workers that are slow: what they have not started is taken back, what they are late with is run elsewhere, too.

use super::*;
use crate::lease;
use crate::time;

fn computed(worker: WorkerId, blocks: u32, ms: u64) -> Event {
    Event::Computed { worker, round: ROUND, blocks, span: time::Span::from_ms(ms) }
}

fn returned(worker: WorkerId, ranges: &[(u32, u32, u32)], unstarted: u32, running: &[(u32, u64)]) -> Event {
    let range =
        |&(first, len, attempt)| lease::BlockRange { first, len, attempt, alone: false, apart: false };
    let ranges = ranges.iter().map(range).collect();
    let running = running.iter().map(|(block, ms)| (*block, ms * 1000)).collect();
    Event::Returned { worker, round: ROUND, returned: lease::Returned { ranges, unstarted, running } }
}

fn backup(w: WorkerId, block: u32, attempt: u32) -> Action {
    let ranges = vec![lease::BlockRange { first: block, len: 1, attempt, alone: false, apart: true }];
    Action::Assign { worker: w, round: ROUND, ranges }
}

/// Two workers with eight blocks each; the second delivers all of its own after so long.
fn one_is_done(ms: u64) -> Story {
    let mut story = Story::with_workers(2);
    story.submit(16);
    story.now += ms * 1000;
    story.tell(computed(worker(1, 0), 8, ms));
    story.tell(part(worker(1, 0), node(3, 1), &[(8, 8, 1)]));
    story
}

#[test]
fn an_idle_worker_gets_what_a_slow_one_has_not_started() {
    let mut story = one_is_done(800);
    assert_eq!(story.said.len(), 1, "it may be about to deliver: {:?}", story.said);
    assert_eq!(story.after_ms(50), []);
    let said = story.after_ms(2).to_vec();
    assert_eq!(
        said,
        [recall(worker(0, 0), 5)],
        "all but the one that runs, as far as its own speed may be less"
    );
    assert_eq!(story.after_ms(100), [], "it is asked once");
    let said = story.tell(returned(worker(0, 0), &[(5, 3, 1)], 4, &[(0, 1_100)])).to_vec();
    assert_eq!(said, [assign(worker(1, 0), 5, 3, 2)], "nobody is idle any more");
    // The other one does them, and now it is known how slow the first one is.
    story.now += 300_000;
    story.tell(computed(worker(1, 0), 3, 300));
    story.tell(part(worker(1, 0), node(0, 5), &[(5, 1, 2)]));
    let said = story.tell(part(worker(1, 0), node(1, 3), &[(6, 2, 2)])).to_vec();
    assert_eq!(said[1..], [recall(worker(0, 0), 4)]);
    let said = story.tell(returned(worker(0, 0), &[(1, 4, 1)], 0, &[(0, 1_400)])).to_vec();
    assert_eq!(said, [assign(worker(1, 0), 1, 4, 2)]);
}

#[test]
fn who_is_known_to_be_slow_is_asked_at_once_and_gets_less_next_time() {
    let mut story = Story::with_workers(2);
    story.submit(16);
    story.tell(computed(worker(0, 0), 8, 3_200));
    story.tell(part(worker(0, 0), node(3, 0), &[(0, 8, 1)]));
    story.tell(computed(worker(1, 0), 8, 800));
    story.tell(part(worker(1, 0), node(3, 1), &[(8, 8, 1)]));
    let spec = RoundSpec::new(DataSetId([0; 32]), Cut::new(16, 0));
    let said = story.tell(Event::RoundSubmitted { round: RoundId(2), spec }).to_vec();
    let sizes: Vec<u32> = said
        .iter()
        .map(|a| match a {
            Action::Assign { ranges, .. } => ranges.iter().map(|s| s.len).sum(),
            _ => 0,
        })
        .collect();
    assert_eq!(sizes, [4, 12]);
}

#[test]
fn where_there_is_one_block_for_each_slot_everybody_gets_one() {
    let mut story = Story::with_workers(3);
    for round in 1..4 {
        let (round, spec) = (RoundId(round), RoundSpec::new(DataSetId([0; 32]), Cut::new(3, 0)));
        let said = story.tell(Event::RoundSubmitted { round, spec }).to_vec();
        assert_eq!(said.iter().filter(|a| matches!(a, Action::Assign { .. })).count(), 3, "{said:?}");
        for seat in 0..3 {
            let (worker, span) = (worker(seat, 0), time::Span::from_ms(if seat == 0 { 900 } else { 10 }));
            story.tell(Event::Computed { worker, round, blocks: 1, span });
            let ranges =
                vec![lease::BlockRange { first: seat, len: 1, attempt: 1, alone: false, apart: false }];
            story.tell(Event::PartDelivered { part: PART, worker, round, node: node(0, seat), ranges });
        }
    }
}

#[test]
fn nobody_is_asked_for_what_is_done_in_two_milliseconds() {
    let mut story = Story::with_workers(2);
    story.submit(2_000);
    story.now += 1_000;
    story.tell(computed(worker(1, 0), 1_000, 1));
    let said = story.tell(part(worker(1, 0), node(3, 125), &[(1_000, 8, 1)])).to_vec();
    assert!(!said.iter().any(|a| matches!(a, Action::Recall { .. })), "{said:?}");
}

#[test]
fn a_worker_that_joins_late_gets_work() {
    let mut story = Story::with_workers(1);
    story.submit(16);
    story.now += 100_000;
    story.tell(Event::SeatAdded { seat: SeatId(1), slots: 1, remote: false });
    let said = story.tell(joined(worker(1, 0))).to_vec();
    assert_eq!(said, [recall(worker(0, 0), 8)], "nothing is known of how far it is: half");
    let said = story.tell(returned(worker(0, 0), &[(12, 4, 1)], 9, &[(2, 20)])).to_vec();
    assert_eq!(said, [assign(worker(1, 0), 12, 4, 2)]);
}

#[test]
fn a_late_block_is_run_elsewhere_too_and_the_first_result_counts() {
    let mut story = one_is_done(800);
    story.after_ms(200);
    let said = story.tell(returned(worker(0, 0), &[], 0, &[(7, 150)])).to_vec();
    assert_eq!(said, [], "blocks take 100 ms; this one may still be on time");
    let said = story.after_ms(50).to_vec();
    assert_eq!(said, [recall(worker(0, 0), 0)], "it is asked again before anything is done");
    let said = story.tell(returned(worker(0, 0), &[], 0, &[(7, 200)])).to_vec();
    let apart = Action::Apart { worker: worker(0, 0), round: ROUND, block: 7 };
    assert_eq!(said, [apart, backup(worker(1, 0), 7, 2)]);
    // The late one delivers what it has besides; the other one finishes the block.
    for (level, index, first, len) in [(2, 0, 0, 4), (1, 2, 4, 2), (0, 6, 6, 1)] {
        story.tell(part(worker(0, 0), node(level, index), &[(first, len, 1)]));
    }
    let said = story.tell(part(worker(1, 0), node(0, 7), &[(7, 1, 2)])).to_vec();
    let cancel = Action::Cancel { worker: worker(0, 0), round: ROUND, is_patient: true };
    let accept = Action::Accept { part: PART, round: ROUND, node: node(0, 7) };
    assert_eq!(said, [accept, Action::Finish { round: ROUND }, cancel]);
    // It is still in user code. That is no reason to end it soon, but one day it is.
    for _ in 0..59 {
        story.tell(Event::WorkerSpoke { worker: worker(0, 0) });
        assert!(!story.after_ms(1_000).iter().any(|a| matches!(a, Action::Kill { .. })));
    }
    story.tell(Event::WorkerSpoke { worker: worker(0, 0) });
    let kill = Action::Kill { worker: worker(0, 0), cause: Cause::Unresponsive };
    assert!(story.after_ms(1_000).contains(&kill));
}

#[test]
fn the_loser_of_a_backup_is_discarded_by_itself() {
    let mut story = one_is_done(800);
    story.after_ms(250);
    story.tell(returned(worker(0, 0), &[], 0, &[(7, 500)]));
    story.tell(part(worker(0, 0), node(0, 7), &[(7, 1, 1)]));
    let said = story.tell(part(worker(1, 0), node(0, 7), &[(7, 1, 2)])).to_vec();
    assert_eq!(said[0], Action::Discard { part: PART, round: ROUND, node: node(0, 7) });
    assert_eq!(story.scheduler.holders(ROUND).collect::<Vec<_>>(), [(worker(0, 0), 7)]);
}

#[test]
fn blocks_that_killed_and_more_than_a_tenth_are_not_backed_up() {
    let mut story = Story::with_workers(4);
    story.submit(16);
    story.lose(worker(3, 0), &[12]);
    story.tell(joined(worker(3, 1)));
    story.now += 400_000;
    for seat in [2, 3] {
        let held: Vec<u32> = (0..16)
            .filter(|&b| {
                story.scheduler.rounds[&ROUND].blocks[b as usize].leases().any(|l| l.worker.seat.0 == seat)
            })
            .collect();
        let id = worker(seat, if seat == 3 { 1 } else { 0 });
        story.tell(computed(id, held.len() as u32, 100 * held.len() as u64));
        for b in held {
            let attempt = story.scheduler.rounds[&ROUND].blocks[b as usize].attempts;
            story.tell(part(id, node(0, b), &[(b, 1, attempt)]));
        }
    }
    story.after_ms(400);
    let said = story.tell(returned(worker(0, 0), &[], 0, &[(2, 500), (3, 500)])).to_vec();
    let copies = said.iter().filter(|a| matches!(a, Action::Apart { .. })).count();
    assert_eq!(copies, 1, "one of sixteen: {said:?}");
    let said = story.tell(returned(worker(1, 0), &[], 0, &[(6, 500), (12, 900)])).to_vec();
    assert_eq!(said, []);
}

#[test]
fn what_comes_back_after_the_round_is_over_is_dropped() {
    let mut story = one_is_done(800);
    story.after_ms(200);
    story.tell(Event::RoundCancelled { round: ROUND });
    assert_eq!(story.tell(returned(worker(0, 0), &[(5, 3, 1)], 4, &[(0, 1_000)])), []);
    let said = story.tell(Event::RoundLetGo { worker: worker(0, 0), round: ROUND }).to_vec();
    assert_eq!(said, [Action::Close { round: ROUND }]);
}

#[test]
fn who_was_asked_and_died_is_not_waited_for() {
    let mut story = one_is_done(800);
    story.after_ms(200);
    let said = story.lose(worker(0, 0), &[0]).to_vec();
    assert!(matches!(said.last(), Some(Action::Assign { worker: w, .. }) if *w == worker(1, 0)), "{said:?}");
    story.tell(joined(worker(0, 1)));
    assert!(story.scheduler.rounds[&ROUND].recalls.len() <= 1);
    let late = returned(worker(0, 0), &[(5, 3, 1)], 0, &[]);
    let said = story.tell(late).to_vec();
    assert!(!said.iter().any(|a| matches!(a, Action::Assign { .. })), "{said:?}");
}
