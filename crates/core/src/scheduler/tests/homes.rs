//! States: blocks that need them go where they are.

use super::*;
use crate::ids::HoldId;
use crate::lease;

const HOLD: HoldId = HoldId(1);

impl Story {
    fn submit_held(&mut self, round: u64, chunks: u32) -> &[Action] {
        let spec = RoundSpec { held: Some(HOLD), ..RoundSpec::new(DataSetId([0; 32]), Cut::new(chunks, 0)) };
        self.tell(Event::RoundSubmitted { round: RoundId(round), spec })
    }

    /// Everybody delivers what they were given of a round of so many blocks.
    fn finish_held(&mut self, round: u64, given: &[Action]) {
        for action in given.iter().cloned() {
            let Action::Assign { worker, ranges, .. } = action else { continue };
            for (block, attempt) in ranges.iter().flat_map(|s| s.blocks().map(move |b| (b, s.attempt))) {
                let range = lease::BlockRange { first: block, len: 1, attempt, alone: false, apart: false };
                let (round, ranges) = (RoundId(round), vec![range]);
                self.tell(Event::PartDelivered { part: PART, worker, round, node: node(0, block), ranges });
            }
        }
    }
}

/// Who got which blocks.
fn given(said: &[Action]) -> Vec<(WorkerId, Vec<u32>)> {
    let assigned = said.iter().filter_map(|action| match action {
        Action::Assign { worker, ranges, .. } => {
            Some((*worker, ranges.iter().flat_map(lease::BlockRange::blocks).collect()))
        }
        _ => None,
    });
    assigned.collect()
}

/// Two workers, three partitions each, after a round.
fn settled(workers: u32, chunks: u32) -> Story {
    let mut story = Story::with_workers(workers);
    let said = story.submit_held(1, chunks).to_vec();
    story.finish_held(1, &said);
    story
}

#[test]
fn the_next_round_goes_where_the_states_are() {
    let mut story = settled(2, 6);
    let at_home = [(worker(0, 0), vec![0, 1, 2]), (worker(1, 0), vec![3, 4, 5])];
    for round in 2..5 {
        let said = story.submit_held(round, 6).to_vec();
        assert_eq!(given(&said), at_home);
        story.finish_held(round, &said);
    }
}

#[test]
fn what_a_lost_worker_kept_waits_for_the_next_one_on_its_seat() {
    let mut story = settled(3, 6);
    let said = story.submit_held(2, 6).to_vec();
    let death = Death::of(Cause::Signal(9));
    let lost = story.tell(Event::WorkerLost { worker: worker(1, 0), death }).to_vec();
    assert_eq!(lost, [Action::Start { worker: worker(1, 1) }], "nobody else is given its blocks");
    assert_eq!(given(story.after_ms(500)), []);
    assert_eq!(given(story.tell(joined(worker(1, 1)))), [(worker(1, 1), vec![2, 3])]);
    assert_eq!(given(&said).len(), 3);
}

#[test]
fn nobody_waits_longer_than_the_patience_for_a_home() {
    let mut story = settled(3, 6);
    story.submit_held(2, 6);
    story.lose(worker(1, 0), &[]);
    assert_eq!(given(story.after_ms(1_999)), []);
    assert_eq!(given(story.after_ms(2)), [(worker(0, 0), vec![2]), (worker(2, 0), vec![3])]);
    // Who comes back then has nothing to do with this round, and its share of the next.
    assert_eq!(given(story.tell(joined(worker(1, 1)))), []);
}

#[test]
fn a_worker_without_states_takes_its_share_when_a_round_begins() {
    let mut story = settled(2, 6);
    story.tell(Event::SeatAdded { seat: SeatId(7), slots: 1, remote: false });
    story.tell(joined(worker(7, 0)));
    let said = story.submit_held(2, 6).to_vec();
    let shares = [(worker(0, 0), vec![0, 1]), (worker(1, 0), vec![3, 4]), (worker(7, 0), vec![2, 5])];
    assert_eq!(given(&said), shares);
    story.finish_held(2, &said);
    assert_eq!(given(story.submit_held(3, 6)), shares, "once");
}

#[test]
fn a_share_that_is_no_larger_than_a_fair_one_stays() {
    let mut story = settled(2, 2);
    story.tell(Event::SeatAdded { seat: SeatId(7), slots: 1, remote: false });
    story.tell(joined(worker(7, 0)));
    assert_eq!(given(story.submit_held(2, 2)), [(worker(0, 0), vec![0]), (worker(1, 0), vec![1])]);
}

#[test]
fn the_states_of_a_removed_seat_go_to_who_has_the_fewest() {
    let mut story = settled(3, 7);
    story.tell(Event::SeatRemoved { seat: SeatId(0) });
    let blocks: Vec<usize> = given(story.submit_held(2, 7)).iter().map(|(_, blocks)| blocks.len()).collect();
    assert_eq!(blocks, [4, 3]);
}

#[test]
fn a_silent_worker_keeps_nobody_waiting() {
    let mut story = settled(2, 4);
    let said = story.submit_held(2, 4).to_vec();
    story.finish_held(2, &said[..1]);
    let said = given(story.after_ms(10_100));
    assert_eq!(said, [(worker(0, 0), vec![2, 3])]);
}

#[test]
fn a_hold_that_was_dropped_is_forgotten() {
    let mut story = settled(2, 4);
    story.tell(Event::SeatRemoved { seat: SeatId(1) });
    let said = story.submit_held(2, 4).to_vec();
    story.finish_held(2, &said);
    story.tell(Event::HoldDropped { hold: HOLD });
    story.tell(Event::SeatAdded { seat: SeatId(9), slots: 1, remote: false });
    story.tell(joined(worker(9, 0)));
    assert!(!story.scheduler.is_home(HOLD, SeatId(0)));
    assert_eq!(given(story.submit_held(3, 4)), [(worker(0, 0), vec![0, 1]), (worker(9, 0), vec![2, 3])]);
}
