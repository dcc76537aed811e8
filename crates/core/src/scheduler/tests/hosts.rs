//! Seats on other hosts, and seats that come and go.

use super::*;

impl Story {
    /// Two slots on each of so many hosts, none of them up.
    fn with_hosts(n: u32) -> Self {
        let mut story = Story::with_workers(0);
        for seat in 0..n {
            story.tell(Event::SeatAdded { seat: SeatId(seat), slots: 2, remote: true });
        }
        story
    }

    fn lose_link(&mut self, w: WorkerId) -> &[Action] {
        let death = Death::of(Cause::LinkLost("Broken pipe".into()));
        self.tell(Event::WorkerLost { worker: w, death })
    }

    fn fail_start(&mut self, w: WorkerId) -> &[Action] {
        let death = Death::of(Cause::Start("no route to host".into()));
        self.tell(Event::WorkerLost { worker: w, death })
    }

    fn remove(&mut self, seat: u32) -> &[Action] {
        self.tell(Event::SeatRemoved { seat: SeatId(seat) })
    }

    /// Lets time pass and every start fail at once. Says how often it came to that.
    fn fail_for_ms(&mut self, seat: u32, first: u32, ms: u64) -> u32 {
        let until = self.now + ms * 1000;
        let mut next = first;
        while let Some(due) = self.scheduler.next_deadline().filter(|due| due.0 <= until) {
            self.now = self.now.max(due.0);
            let started = Action::Start { worker: worker(seat, next) };
            if self.tell(Event::Ticked).contains(&started) {
                self.fail_start(worker(seat, next));
                next += 1;
            }
        }
        self.now = until;
        next - first
    }

    fn is_given_up(&self, seat: u32) -> bool {
        self.scheduler.given_up().any(|(w, _)| w.seat == SeatId(seat))
    }
}

fn start(seat: u32, incarnation: u32) -> Action {
    Action::Start { worker: worker(seat, incarnation) }
}

#[test]
fn a_worker_says_itself_how_many_slots_it_has() {
    let mut story = Story::with_hosts(2);
    assert_eq!(story.scheduler.slots(), 4);
    story.tell(Event::WorkerJoined { worker: worker(0, 0), slots: 6 });
    story.tell(Event::WorkerJoined { worker: worker(1, 0), slots: 2 });
    assert_eq!((story.scheduler.slots(), story.scheduler.up_count()), (8, 2));
    assert_eq!(story.submit(8), [assign(worker(0, 0), 0, 6, 1), assign(worker(1, 0), 6, 2, 1)]);
}

#[test]
fn a_worker_without_slots_breaks_the_protocol() {
    let mut story = Story::with_hosts(1);
    let said = story.tell(Event::WorkerJoined { worker: worker(0, 0), slots: 0 });
    assert!(matches!(said, [Action::Kill { cause: Cause::Protocol(_), .. }]), "{said:?}");
    assert_eq!(story.scheduler.up_count(), 0);
}

#[test]
fn a_start_on_another_host_has_no_deadline_here() {
    let mut story = Story::with_hosts(1);
    assert_eq!(story.scheduler.next_deadline(), None);
    assert_eq!(story.after_ms(600_000), []);
    assert!(story.scheduler.is_starting(worker(0, 0)));
}

#[test]
fn the_first_failed_start_of_a_host_can_be_seen_until_it_joins() {
    let mut story = Story::with_hosts(2);
    assert_eq!(story.scheduler.unstarted().count(), 0);
    story.fail_start(worker(1, 0));
    let (who, death) = story.scheduler.unstarted().next().expect("one has failed");
    assert_eq!((who, &death.cause), (worker(1, 0), &Cause::Start("no route to host".into())));
    story.after_ms(500);
    story.tell(joined(worker(1, 1)));
    assert_eq!(story.scheduler.unstarted().count(), 0);
    story.lose_link(worker(1, 1));
    assert_eq!(story.scheduler.unstarted().count(), 0, "it has been up");
}

#[test]
fn a_lost_host_is_tried_at_once_and_then_later_and_later() {
    let mut story = Story::with_hosts(2);
    story.tell(joined(worker(0, 0)));
    story.tell(joined(worker(1, 0)));
    assert_eq!(story.lose_link(worker(0, 0)), [start(0, 1)]);
    let mut incarnation = 1;
    for pause_ms in [500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000] {
        assert_eq!(story.fail_start(worker(0, incarnation)), []);
        assert_eq!(story.after_ms(pause_ms - 1), [], "before {pause_ms} ms are over");
        incarnation += 1;
        assert_eq!(story.after_ms(1), [start(0, incarnation)], "after {pause_ms} ms");
    }
    // Having been up for a while, it is tried at once again.
    story.tell(joined(worker(0, incarnation)));
    story.after_ms(5_000);
    assert_eq!(story.lose_link(worker(0, incarnation)), [start(0, incarnation + 1)]);
}

#[test]
fn a_host_that_comes_up_in_vain_is_not_tried_in_haste() {
    let mut story = Story::with_hosts(2);
    story.tell(joined(worker(1, 0)));
    for (incarnation, pause_ms) in (0..).zip([0, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000]) {
        story.tell(joined(worker(0, incarnation)));
        let said = story.lose_link(worker(0, incarnation)).to_vec();
        let at_once = if pause_ms == 0 { vec![start(0, incarnation + 1)] } else { vec![] };
        assert_eq!(said, at_once, "life {incarnation}");
        if pause_ms > 0 {
            assert_eq!(story.after_ms(pause_ms), [start(0, incarnation + 1)]);
        }
    }
    assert!(!story.is_given_up(0), "somebody else is up");
}

#[test]
fn a_host_is_tried_for_ever_while_somebody_is_up() {
    let mut story = Story::with_hosts(2);
    story.tell(joined(worker(1, 0)));
    story.fail_start(worker(0, 0));
    let tries = story.fail_for_ms(0, 1, 3_600_000);
    assert!((360..=370).contains(&tries), "{tries} in an hour");
    assert!(!story.is_given_up(0));
}

#[test]
fn hosts_are_given_up_after_nine_seconds_without_anybody_and_the_round_fails() {
    let mut story = Story::with_hosts(1);
    assert_eq!(story.submit(2), []);
    story.fail_start(worker(0, 0));
    story.fail_for_ms(0, 1, 8_999);
    assert!(!story.is_given_up(0) && story.scheduler.is_busy());
    let said = story.after_ms(1).to_vec();
    assert!(matches!(said[0], Action::Fail { failure: RoundFailure::NoWorkers { .. }, .. }), "{said:?}");
    assert!(story.is_given_up(0));
    assert_eq!(story.scheduler.next_deadline(), None);
}

#[test]
fn hosts_that_are_all_cut_for_ever_are_told_within_half_a_minute() {
    // Whatever a start takes until it fails: the first two after a loss are given up after six seconds by the engine.
    for try_ms in [1, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 6_000] {
        let mut story = Story::with_hosts(2);
        story.tell(joined(worker(0, 0)));
        story.tell(joined(worker(1, 0)));
        story.submit(2);
        let (mut took_ms, mut incarnation) = (Config::default().lost_after.0 / 1_000, 0);
        for seat in [0, 1] {
            story.lose_link(worker(seat, 0));
        }
        while story.scheduler.is_busy() {
            story.after_ms(try_ms);
            took_ms += try_ms;
            for seat in [0, 1] {
                let record = &story.scheduler.roster.seats[&SeatId(seat)];
                incarnation = record.incarnation;
                if matches!(record.state, SeatState::Starting { .. }) {
                    story.fail_start(worker(seat, incarnation));
                }
            }
        }
        assert!(took_ms <= 30_000 && incarnation > 1, "{took_ms} ms with starts of {try_ms} ms");
    }
}

#[test]
fn a_start_under_way_when_the_patience_ends_is_waited_for() {
    let mut story = Story::with_hosts(1);
    story.submit(2);
    story.after_ms(70_000);
    assert!(!story.is_given_up(0));
    let said = story.fail_start(worker(0, 0)).to_vec();
    assert!(matches!(said[0], Action::Fail { failure: RoundFailure::NoWorkers { .. }, .. }), "{said:?}");
}

#[test]
fn the_patience_begins_anew_when_the_last_worker_goes() {
    let mut story = Story::with_hosts(2);
    story.tell(joined(worker(1, 0)));
    story.submit(2);
    story.fail_start(worker(0, 0));
    let tries = story.fail_for_ms(0, 1, 300_000);
    story.tell(Event::WorkerSpoke { worker: worker(1, 0) });
    story.lose_link(worker(1, 0)); // and its next start says nothing
    let more = story.fail_for_ms(0, 1 + tries, 8_000);
    assert!(!story.is_given_up(0), "{more} more tries");
    story.fail_for_ms(0, 1 + tries + more, 1_000);
    assert!(story.is_given_up(0) && !story.is_given_up(1));
    assert!(story.scheduler.is_busy(), "the other one is still awaited");
    // It comes: the first host is tried again, too.
    story.tell(joined(worker(1, 1)));
    let said = story.after_ms(10_000).to_vec();
    assert!(
        said.iter().any(|a| matches!(a, Action::Start { worker } if worker.seat == SeatId(0))),
        "{said:?}"
    );
    assert!(!story.is_given_up(0));
}

#[test]
fn a_lone_host_whose_workers_are_of_no_use_is_given_up() {
    let mut story = Story::with_hosts(1);
    for incarnation in 0..=Config::default().fruitless_max {
        assert!(!story.is_given_up(0), "life {incarnation}");
        story.tell(joined(worker(0, incarnation)));
        story.tell(Event::WorkerLost { worker: worker(0, incarnation), death: Death::of(Cause::Exited(1)) });
        if incarnation < Config::default().fruitless_max {
            story.after_ms(10_000);
        }
    }
    assert!(story.is_given_up(0));
}

/// A round on a lone host that is lost whenever it has been up for so long. Gives how long after the first loss it fails.
fn fails_after_ms(life_ms: u64, start_ms: u64) -> u64 {
    let mut story = Story::with_hosts(1);
    story.submit(2);
    let (mut first_loss, mut incarnation) = (None, 0);
    while story.scheduler.is_busy() {
        assert!(incarnation < 10, "it is tried for ever, with lives of {life_ms} ms");
        story.after_ms(start_ms);
        story.tell(joined(worker(0, incarnation)));
        // As long as it lives it says that it works.
        let mut left_ms = life_ms;
        while left_ms > 0 {
            let step_ms = left_ms.min(1_000);
            story.after_ms(step_ms);
            story.tell(Event::WorkerSpoke { worker: worker(0, incarnation) });
            left_ms -= step_ms;
        }
        story.lose_link(worker(0, incarnation));
        first_loss.get_or_insert(story.now);
        incarnation += 1;
        while story.scheduler.is_busy() && !story.scheduler.is_starting(worker(0, incarnation)) {
            let due = story.scheduler.next_deadline().expect("it is tried again, or given up");
            story.now = story.now.max(due.0);
            story.tell(Event::Ticked);
        }
    }
    assert!(story.is_given_up(0));
    (story.now - first_loss.expect("it was lost")) / 1_000
}

#[test]
fn a_lone_host_that_is_lost_again_and_again_is_told_within_half_a_minute_of_the_first_loss() {
    for life_ms in (0..28_000).step_by(250) {
        for start_ms in [10, 300, 1_500] {
            let took_ms = fails_after_ms(life_ms, start_ms);
            assert!(took_ms <= 30_000, "{took_ms} ms with lives of {life_ms} ms and starts of {start_ms} ms");
        }
    }
}

#[test]
fn losses_that_are_far_apart_are_counted_and_not_timed() {
    for life_ms in [30_000, 60_000, 600_000] {
        let lives = u64::from(Config::default().vain_max) + 1;
        let took_ms = fails_after_ms(life_ms, 10);
        assert!(took_ms >= (lives - 1) * life_ms, "{took_ms} ms with lives of {life_ms} ms");
    }
}

#[test]
fn losses_of_a_host_in_company_do_not_count_when_it_is_alone() {
    let mut story = Story::with_hosts(2);
    story.tell(joined(worker(1, 0)));
    story.submit(8);
    for incarnation in 0..3 {
        story.tell(joined(worker(0, incarnation)));
        story.after_ms(6_000);
        story.tell(Event::WorkerSpoke { worker: worker(1, 0) });
        story.lose_link(worker(0, incarnation));
        story.after_ms(1_000);
        story.tell(Event::WorkerSpoke { worker: worker(1, 0) });
    }
    story.tell(joined(worker(0, 3)));
    story.lose_link(worker(1, 0)); // and its next start says nothing
    assert!(!story.is_given_up(1));
    story.after_ms(1_000);
    story.tell(Event::WorkerSpoke { worker: worker(0, 3) });
    assert!(!story.is_given_up(0) && story.scheduler.is_up(SeatId(0)));
    story.fail_start(worker(1, 1));
    // The one that was of use is lost, and the other is tried as long as any host that is alone.
    let tries = story.fail_for_ms(1, 2, 3_000);
    assert!(tries > 0 && story.scheduler.is_busy());
}

#[test]
fn a_part_begins_the_count_of_losses_anew() {
    let mut story = Story::with_hosts(1);
    story.tell(joined(worker(0, 0)));
    story.submit(2);
    story.lose_link(worker(0, 0));
    story.after_ms(1);
    story.tell(joined(worker(0, 1)));
    story.now += 20_000_000;
    story.tell(part(worker(0, 1), node(0, 0), &[(0, 1, 2)]));
    story.lose_link(worker(0, 1));
    assert!(!story.is_given_up(0), "it has delivered");
}

#[test]
fn a_lone_host_that_is_lost_again_and_again_with_the_same_blocks_is_given_up_however_long_it_lives() {
    for life_ms in [10, 60_000] {
        let mut story = Story::with_hosts(1);
        story.submit(2);
        let vain_max = Config::default().vain_max;
        for incarnation in 0..=vain_max {
            assert!(!story.is_given_up(0), "life {incarnation} of {life_ms} ms");
            story.tell(joined(worker(0, incarnation)));
            story.now += life_ms * 1000;
            let said = story.lose_link(worker(0, incarnation)).to_vec();
            if incarnation < vain_max {
                assert!(!said.iter().any(|a| matches!(a, Action::Fail { .. })), "{said:?}");
                story.after_ms(4_000);
            }
        }
        assert!(story.is_given_up(0) && !story.scheduler.is_busy());
    }
}

#[test]
fn a_new_round_tries_hosts_that_were_given_up_once_more() {
    let mut story = Story::with_hosts(2);
    story.fail_start(worker(0, 0));
    story.after_ms(100_000); // the start it led to says nothing
    story.fail_start(worker(0, 1));
    story.fail_start(worker(1, 0));
    assert_eq!(story.scheduler.given_up().count(), 2);
    assert_eq!(story.submit(2), [start(0, 2), start(1, 1)]);
    assert_eq!(story.fail_start(worker(0, 2)), []);
    let said = story.fail_start(worker(1, 1)).to_vec();
    assert!(matches!(said[0], Action::Fail { failure: RoundFailure::NoWorkers { .. }, .. }), "{said:?}");

    let spec = RoundSpec::new(DataSetId([0; 32]), Cut::new(1, 0));
    story.tell(Event::RoundSubmitted { round: RoundId(9), spec });
    let said = story.tell(joined(worker(0, 3))).to_vec();
    assert!(matches!(said[0], Action::Assign { round: RoundId(9), .. }), "{said:?}");
}

#[test]
fn a_stalled_master_does_not_take_its_own_absence_for_that_of_its_hosts() {
    let mut story = Story::with_hosts(1);
    story.fail_start(worker(0, 0));
    assert_eq!(story.stalled_ms(120_000), [start(0, 1)]);
}

#[test]
fn a_lost_connection_blames_no_block() {
    let mut story = Story::with_hosts(1);
    story.submit(1);
    let losses = Config::default().vain_max;
    for incarnation in 0..losses {
        story.tell(joined(worker(0, incarnation)));
        let cause = Cause::LinkLost("Broken pipe".into());
        let death = Death { inside: vec![(ROUND, 0)], ..Death::of(cause) };
        story.tell(Event::WorkerLost { worker: worker(0, incarnation), death });
        story.after_ms(4_000);
    }
    let said = story.tell(joined(worker(0, losses))).to_vec();
    assert_eq!(said, [assign(worker(0, losses), 0, 1, losses + 1)], "not alone");
}

#[test]
fn what_a_removed_seat_had_goes_to_others_without_blame() {
    let mut story = Story::with_workers(2);
    story.submit(4);
    assert_eq!(story.remove(0), [assign(worker(1, 0), 0, 2, 2)]);
    assert_eq!((story.scheduler.up_count(), story.scheduler.slots()), (1, 1));
    assert!(story.scheduler.is_complete());
    // Whatever comes from there is too late.
    assert_eq!(story.remove(0), []);
    assert_eq!(story.tell(joined(worker(0, 0))), []);
    assert_eq!(story.tell(Event::WorkerSpoke { worker: worker(0, 0) }), []);
    assert_eq!(story.tell(Event::RoundLetGo { worker: worker(0, 0), round: ROUND }), []);
    assert_eq!(story.lose(worker(0, 0), &[0]), []);
    let late = story.tell(part(worker(0, 0), node(1, 0), &[(0, 2, 1)]));
    assert_eq!(late, [Action::Discard { part: PART, round: ROUND, node: node(1, 0) }]);
    let said = story.tell(part(worker(1, 0), node(2, 0), &[(0, 2, 2), (2, 2, 1)])).to_vec();
    assert!(said.contains(&Action::Finish { round: ROUND }), "{said:?}");
}

#[test]
fn a_round_that_is_over_is_closed_when_the_seat_it_waits_for_is_removed() {
    let mut story = Story::with_workers(2);
    story.submit(2);
    story.tell(Event::RoundCancelled { round: ROUND });
    story.tell(Event::RoundLetGo { worker: worker(0, 0), round: ROUND });
    assert_eq!(story.remove(1), [Action::Close { round: ROUND }]);
}

#[test]
fn rounds_fail_when_the_last_seat_is_removed() {
    let mut story = Story::with_hosts(1);
    story.tell(joined(worker(0, 0)));
    story.submit(2);
    let said = story.remove(0).to_vec();
    let failure = RoundFailure::NoWorkers { deaths: vec![] };
    assert_eq!(said, [Action::Fail { round: ROUND, failure }, Action::Close { round: ROUND }]);
    assert_eq!(story.scheduler.next_deadline(), None);
}

#[test]
fn rounds_wait_when_the_last_worker_up_is_removed_and_others_may_come() {
    let mut story = Story::with_hosts(2);
    story.tell(joined(worker(0, 0)));
    story.submit(2);
    assert_eq!(story.remove(0), []);
    assert_eq!(story.tell(joined(worker(1, 0))), [assign(worker(1, 0), 0, 2, 2)]);
}

#[test]
fn a_seat_that_is_added_while_a_round_waits_gets_its_work() {
    let mut story = Story::with_hosts(1);
    story.submit(2);
    story.tell(Event::SeatAdded { seat: SeatId(7), slots: 1, remote: true });
    assert_eq!(story.tell(joined(worker(7, 0))), [assign(worker(7, 0), 0, 2, 1)]);
}

#[test]
fn a_host_out_of_reach_is_not_killed_for_what_it_cannot_have_heard() {
    let mut story = Story::with_hosts(1);
    story.tell(joined(worker(0, 0)));
    story.submit(2);
    story.after_ms(500);
    story.tell(Event::RoundCancelled { round: ROUND });
    let said = story.after_ms(9_000).to_vec();
    assert!(said.iter().all(|a| matches!(a, Action::Ping { .. })), "{said:?}");
    // Once it speaks it has the full time to answer, and no more.
    for _ in 0..10 {
        story.tell(Event::WorkerSpoke { worker: worker(0, 0) });
        assert!(!story.after_ms(999).iter().any(|a| matches!(a, Action::Kill { .. })));
    }
    story.tell(Event::WorkerSpoke { worker: worker(0, 0) });
    assert_eq!(story.after_ms(9), []);
    let said = story.after_ms(1).to_vec();
    assert!(said.contains(&Action::Kill { worker: worker(0, 0), cause: Cause::Unresponsive }), "{said:?}");
}
