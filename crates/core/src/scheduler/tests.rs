mod balance;
mod homes;
mod hosts;
mod team;

use super::*;
use crate::ids::DataSetId;
use crate::job::{Fault, FaultKind};
use crate::lease;
use crate::reduce::Cut;

/// A scheduler, what it said last, and shorthands for telling it things.
struct Story {
    scheduler: Scheduler,
    now: u64,
    said: Vec<Action>,
}

const ROUND: RoundId = RoundId(1);
/// Verdicts are looked at one by one here, so all parts may have the same number.
const PART: PartId = PartId(7);

fn worker(seat: u32, incarnation: u32) -> WorkerId {
    WorkerId { seat: SeatId(seat), incarnation }
}

fn part(w: WorkerId, node: Node, ranges: &[(u32, u32, u32)]) -> Event {
    let ranges = ranges
        .iter()
        .map(|&(first, len, attempt)| lease::BlockRange { first, len, attempt, alone: false, apart: false })
        .collect();
    Event::PartDelivered { part: PART, worker: w, round: ROUND, node, ranges }
}

fn joined(worker: WorkerId) -> Event {
    Event::WorkerJoined { worker, slots: 1 }
}

fn node(level: u8, index: u32) -> Node {
    Node { level, index }
}

impl Story {
    fn with_workers(n: u32) -> Self {
        let mut story = Story { scheduler: Scheduler::new(Config::default()), now: 0, said: vec![] };
        for seat in 0..n {
            story.tell(Event::SeatAdded { seat: SeatId(seat), slots: 1, remote: false });
            story.tell(joined(worker(seat, 0)));
        }
        story
    }

    /// Tells it what happened and keeps what it wants done, journal aside.
    fn tell(&mut self, event: Event) -> &[Action] {
        self.said.clear();
        self.scheduler.handle(Time(self.now), event, &mut self.said);
        self.said.retain(|a| !matches!(a, Action::Note(_)));
        &self.said
    }

    /// Lets time pass, with a tick whenever one is due, and keeps all it wanted meanwhile.
    fn after_ms(&mut self, ms: u64) -> &[Action] {
        let until = self.now + ms * 1000;
        let mut said = Vec::new();
        while let Some(due) = self.scheduler.next_deadline().filter(|due| due.0 <= until) {
            self.now = self.now.max(due.0);
            said.extend_from_slice(self.tell(Event::Ticked));
        }
        self.now = until;
        self.said = said;
        &self.said
    }

    /// Lets time pass in which the master itself does nothing.
    fn stalled_ms(&mut self, ms: u64) -> &[Action] {
        self.now += ms * 1000;
        self.tell(Event::Ticked)
    }

    fn submit(&mut self, chunks: u32) -> &[Action] {
        let spec = RoundSpec::new(DataSetId([0; 32]), Cut::new(chunks, 0));
        self.tell(Event::RoundSubmitted { round: ROUND, spec })
    }

    fn lose(&mut self, w: WorkerId, inside: &[u32]) -> &[Action] {
        let inside = inside.iter().map(|&b| (ROUND, b)).collect();
        let death = Death { inside, ..Death::of(Cause::Signal(9)) };
        self.tell(Event::WorkerLost { worker: w, death })
    }
}

fn recall(worker: WorkerId, blocks: u32) -> Action {
    Action::Recall { worker, round: ROUND, blocks }
}

fn assign(w: WorkerId, first: u32, len: u32, attempt: u32) -> Action {
    Action::Assign {
        worker: w,
        round: ROUND,
        ranges: vec![lease::BlockRange { first, len, attempt, alone: false, apart: false }],
    }
}

#[test]
fn a_round_is_shared_out_and_finishes() {
    let mut story = Story::with_workers(2);
    assert_eq!(story.submit(8), [assign(worker(0, 0), 0, 4, 1), assign(worker(1, 0), 4, 4, 1)]);
    let accept = |level, index| Action::Accept { part: PART, round: ROUND, node: node(level, index) };
    assert_eq!(story.tell(part(worker(1, 0), node(2, 1), &[(4, 4, 1)])), [accept(2, 1)]);
    assert_eq!(
        story.tell(part(worker(0, 0), node(2, 0), &[(0, 4, 1)])),
        [accept(2, 0), Action::Finish { round: ROUND }, Action::Close { round: ROUND }]
    );
    assert!(!story.scheduler.is_busy());
}

#[test]
fn lost_worker_returns_its_undelivered_blocks_only() {
    let mut story = Story::with_workers(2);
    story.submit(8);
    story.tell(part(worker(0, 0), node(1, 0), &[(0, 2, 1)]));
    let start = Action::Start { worker: worker(0, 1) };
    assert_eq!(story.lose(worker(0, 0), &[]), [start, assign(worker(1, 0), 2, 2, 2)]);
}

#[test]
fn a_result_of_a_dead_worker_does_not_count() {
    let mut story = Story::with_workers(2);
    story.submit(8);
    story.lose(worker(0, 0), &[]);
    let late = story.tell(part(worker(0, 0), node(2, 0), &[(0, 4, 1)]));
    assert_eq!(late, [Action::Discard { part: PART, round: ROUND, node: node(2, 0) }]);
}

#[test]
fn a_result_under_another_attempt_does_not_count() {
    let mut story = Story::with_workers(1);
    story.submit(2);
    let said = story.tell(part(worker(0, 0), node(1, 0), &[(0, 2, 2)]));
    assert_eq!(said, [Action::Discard { part: PART, round: ROUND, node: node(1, 0) }]);
}

#[test]
fn silent_worker_is_pinged_suspected_and_lost() {
    let mut story = Story::with_workers(2);
    story.submit(2);
    story.tell(part(worker(1, 0), node(0, 1), &[(1, 1, 1)]));
    let (recall, ping) = (recall(worker(0, 0), 1), Action::Ping { worker: worker(0, 0) });
    assert_eq!(story.after_ms(1_000), [recall, ping], "somebody is idle, so it is asked how it stands");
    let said = story.after_ms(9_000);
    assert!(said.contains(&assign(worker(1, 0), 0, 1, 2)), "the other one gets its block too: {said:?}");
    story.tell(Event::WorkerSpoke { worker: worker(1, 0) });
    story.after_ms(4_500);
    story.tell(Event::WorkerSpoke { worker: worker(1, 0) });
    let said = story.after_ms(500).to_vec();
    assert!(
        matches!(said[..], [Action::Kill { worker: w, cause: Cause::Silent(_) }] if w == worker(0, 0)),
        "{said:?}"
    );
}

#[test]
fn a_master_that_was_stopped_asks_before_it_judges() {
    let mut story = Story::with_workers(2);
    story.submit(2);
    story.tell(Event::SeatAdded { seat: SeatId(2), slots: 1, remote: false });
    let said = story.stalled_ms(60_000).to_vec();
    assert_eq!(said, [Action::Ping { worker: worker(0, 0) }, Action::Ping { worker: worker(1, 0) }]);
    story.tell(Event::WorkerSpoke { worker: worker(0, 0) });
    for _ in 0..13 {
        story.after_ms(1_000);
        story.tell(Event::WorkerSpoke { worker: worker(0, 0) });
    }
    let said = story.after_ms(1_000).to_vec();
    let killed: Vec<_> = said.iter().filter(|a| matches!(a, Action::Kill { .. })).collect();
    assert!(
        matches!(killed[..], [Action::Kill { worker: w, cause: Cause::Silent(_) }, Action::Kill { worker: s, .. }]
            if *w == worker(1, 0) && *s == worker(2, 0)),
        "{said:?}"
    );
}

#[test]
fn the_first_of_two_copies_counts_and_the_other_is_called_off() {
    let mut story = Story::with_workers(2);
    story.submit(2);
    story.tell(part(worker(1, 0), node(0, 1), &[(1, 1, 1)]));
    story.after_ms(10_000);
    let said = story.tell(part(worker(0, 0), node(0, 0), &[(0, 1, 1)])).to_vec();
    assert_eq!(
        said,
        [
            Action::Accept { part: PART, round: ROUND, node: node(0, 0) },
            Action::Finish { round: ROUND },
            Action::Cancel { worker: worker(1, 0), round: ROUND, is_patient: true },
        ]
    );
    assert_eq!(
        story.tell(part(worker(1, 0), node(0, 0), &[(0, 1, 2)])),
        [Action::Discard { part: PART, round: ROUND, node: node(0, 0) }, Action::Close { round: ROUND }]
    );
}

#[test]
fn a_root_that_overlaps_done_blocks_is_dropped_whole_and_the_rest_given_out_again() {
    let mut story = Story::with_workers(2);
    story.submit(4);
    story.after_ms(9_999);
    story.tell(Event::WorkerSpoke { worker: worker(1, 0) });
    story.after_ms(1); // worker 0 is suspect: worker 1 gets blocks 0 and 1 too
    story.tell(part(worker(0, 0), node(0, 0), &[(0, 1, 1)]));
    let said = story.tell(part(worker(1, 0), node(2, 0), &[(0, 2, 2), (2, 2, 1)])).to_vec();
    assert_eq!(said[0], Action::Discard { part: PART, round: ROUND, node: node(2, 0) });
    assert_eq!(said[1..], [assign(worker(0, 0), 2, 1, 2), assign(worker(1, 0), 3, 1, 2)]);
}

#[test]
fn a_block_that_kills_three_executors_fails_its_round() {
    let mut story = Story::with_workers(1);
    story.submit(3);
    story.tell(part(worker(0, 0), node(0, 0), &[(0, 1, 1)]));
    for incarnation in 0..2 {
        story.lose(worker(0, incarnation), &[1]);
        story.after_ms(1_000);
        let said = story.tell(joined(worker(0, incarnation + 1))).to_vec();
        let Action::Assign { ranges, .. } = &said[0] else { panic!("{said:?}") };
        assert!(ranges.last().unwrap().alone, "a block that killed goes last and alone: {ranges:?}");
    }
    let said = story.lose(worker(0, 2), &[1]).to_vec();
    let failed = said.iter().find_map(|a| match a {
        Action::Fail { failure: RoundFailure::Poison { block, deaths }, .. } => Some((*block, deaths.len())),
        _ => None,
    });
    assert_eq!(failed, Some((1, 3)), "{said:?}");
}

#[test]
fn a_function_that_kills_on_every_block_is_found_out_after_three_deaths() {
    let mut story = Story::with_workers(1);
    story.submit(100);
    for incarnation in 0..2 {
        // The seat is filled at once: it was the block.
        let said = story.lose(worker(0, incarnation), &[0]).to_vec();
        assert_eq!(said, [Action::Start { worker: worker(0, incarnation + 1) }]);
        let said = story.tell(joined(worker(0, incarnation + 1))).to_vec();
        let Action::Assign { ranges, .. } = &said[0] else { panic!("{said:?}") };
        assert_eq!((ranges[0].first, ranges[0].alone), (0, true), "nothing is at stake, so it goes first");
    }
    let said = story.lose(worker(0, 2), &[0]).to_vec();
    assert!(
        said.iter().any(|a| matches!(a, Action::Fail { failure: RoundFailure::Poison { block: 0, .. }, .. })),
        "{said:?}"
    );
}

#[test]
fn a_new_round_tries_once_more_when_every_seat_was_given_up() {
    let mut story = Story::with_workers(0);
    story.tell(Event::SeatAdded { seat: SeatId(0), slots: 1, remote: false });
    let tries = Config::default().fruitless_max + 1;
    for incarnation in 0..tries {
        story.tell(Event::WorkerLost { worker: worker(0, incarnation), death: Death::of(Cause::Exited(1)) });
        story.after_ms(60_000);
    }
    assert_eq!(story.scheduler.given_up().count(), 1);
    assert_eq!(story.submit(2), [Action::Start { worker: worker(0, tries) }]);
    let death = Death::of(Cause::Exited(2));
    let said = story.tell(Event::WorkerLost { worker: worker(0, tries), death }).to_vec();
    assert!(matches!(said[0], Action::Fail { failure: RoundFailure::NoWorkers { .. }, .. }), "{said:?}");

    let spec = RoundSpec::new(DataSetId([0; 32]), Cut::new(1, 0));
    story.tell(Event::RoundSubmitted { round: RoundId(9), spec });
    let said = story.tell(joined(worker(0, tries + 1))).to_vec();
    assert!(matches!(said[0], Action::Assign { round: RoundId(9), .. }), "{said:?}");
}

#[test]
fn a_seat_whose_starts_come_to_nothing_is_given_up_and_the_round_fails() {
    let mut story = Story::with_workers(0);
    story.tell(Event::SeatAdded { seat: SeatId(0), slots: 1, remote: false });
    story.submit(2);
    for incarnation in 0..=Config::default().fruitless_max {
        let death = Death::of(Cause::Exited(1));
        let said = story.tell(Event::WorkerLost { worker: worker(0, incarnation), death }).to_vec();
        if incarnation == Config::default().fruitless_max {
            assert!(
                matches!(said[0], Action::Fail { failure: RoundFailure::NoWorkers { .. }, .. }),
                "{said:?}"
            );
            return;
        }
        story.after_ms(60_000);
    }
}

#[test]
fn a_cancelled_round_is_over_at_once_and_a_deaf_worker_is_killed() {
    let mut story = Story::with_workers(2);
    story.submit(2);
    let said = story.tell(Event::RoundCancelled { round: ROUND }).to_vec();
    assert_eq!(said[0], Action::Fail { round: ROUND, failure: RoundFailure::Cancelled });
    story.tell(Event::RoundLetGo { worker: worker(0, 0), round: ROUND });
    let said = story.after_ms(500).to_vec();
    assert_eq!(said, [Action::Kill { worker: worker(1, 0), cause: Cause::Unresponsive }]);
    assert_eq!(
        story.lose(worker(1, 0), &[]),
        [Action::Start { worker: worker(1, 1) }, Action::Close { round: ROUND }][..]
            .iter()
            .rev()
            .cloned()
            .collect::<Vec<_>>()
    );
}

#[test]
fn a_death_for_not_letting_go_blames_no_block_and_no_seat() {
    let mut story = Story::with_workers(1);
    let spec = RoundSpec::new(DataSetId([0; 32]), Cut::new(1, 0));
    story.tell(Event::RoundSubmitted { round: ROUND, spec: spec.clone() });
    for n in 0..=Config::default().fruitless_max {
        // A second round is called off while both are running, and the worker does not stop in time.
        let round = RoundId(u64::from(n) + 2);
        story.tell(Event::RoundSubmitted { round, spec: spec.clone() });
        story.tell(Event::RoundCancelled { round });
        let said = story.after_ms(500).to_vec();
        assert_eq!(said, [Action::Kill { worker: worker(0, n), cause: Cause::Unresponsive }]);
        let inside = vec![(ROUND, 0), (round, 0)];
        let death = Death { inside, ..Death::of(Cause::Unresponsive) };
        let said = story.tell(Event::WorkerLost { worker: worker(0, n), death }).to_vec();
        assert!(said.contains(&Action::Start { worker: worker(0, n + 1) }), "its seat is filled: {said:?}");
        let said = story.tell(joined(worker(0, n + 1)));
        assert_eq!(said, [assign(worker(0, n + 1), 0, 1, n + 2)], "the first round goes on");
    }
}

#[test]
fn a_convicted_block_acquits_the_seats_it_killed_on() {
    let mut story = Story::with_workers(1);
    let mut incarnation = 0;
    for n in 1..9 {
        let round = RoundId(n);
        let spec = RoundSpec::new(DataSetId([0; 32]), Cut::new(1, 0));
        story.tell(Event::RoundSubmitted { round, spec });
        for kills in 1..=Config::default().kills_max {
            let death = Death { inside: vec![(round, 0)], ..Death::of(Cause::Signal(11)) };
            let said = story.tell(Event::WorkerLost { worker: worker(0, incarnation), death }).to_vec();
            let failed = said.iter().find_map(|a| match a {
                Action::Fail { failure, .. } => Some(matches!(failure, RoundFailure::Poison { .. })),
                _ => None,
            });
            assert_eq!(failed, (kills == 3).then_some(true), "round {n}: {said:?}");
            story.after_ms(2_000);
            incarnation += 1;
            story.tell(joined(worker(0, incarnation)));
        }
    }
    assert_eq!(story.scheduler.given_up().count(), 0);
}

#[test]
fn a_fault_fails_the_round_and_calls_everybody_off() {
    let mut story = Story::with_workers(2);
    story.submit(4);
    let fault = Fault {
        kind: FaultKind::Panic,
        chunk: Some(1),
        message: "no".into(),
        location: None,
        backtrace: None,
        carried: Vec::new(),
    };
    let event = Event::Faulted { worker: Some(worker(0, 0)), round: ROUND, fault: fault.clone() };
    let said = story.tell(event.clone()).to_vec();
    let failure = RoundFailure::Fault { worker: Some(worker(0, 0)), fault };
    assert_eq!(said[0], Action::Fail { round: ROUND, failure });
    assert_eq!(said.len(), 3, "both are told: {said:?}");
    assert_eq!(story.tell(event), [], "the second report of it changes nothing");
}

#[test]
fn a_result_that_does_not_cover_what_it_names_breaks_the_protocol() {
    for ranges in [&[(0, 1, 1)][..], &[(0, 3, 1)], &[(1, 2, 1)], &[(0, 1, 1), (0, 1, 1)], &[(0, u32::MAX, 1)]]
    {
        let mut story = Story::with_workers(1);
        story.submit(4);
        let said = story.tell(part(worker(0, 0), node(1, 0), ranges)).to_vec();
        assert!(matches!(said[1], Action::Kill { cause: Cause::Protocol(_), .. }), "{ranges:?}: {said:?}");
    }
}

#[test]
fn work_waits_for_the_first_worker_to_come_up() {
    let mut story = Story::with_workers(0);
    story.tell(Event::SeatAdded { seat: SeatId(0), slots: 1, remote: false });
    assert_eq!(story.submit(2), []);
    assert_eq!(story.tell(joined(worker(0, 0))), [assign(worker(0, 0), 0, 2, 1)]);
}
