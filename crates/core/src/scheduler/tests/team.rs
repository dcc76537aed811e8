//! Rounds in which not everybody takes part, or of which the master has run a part.

use super::*;

fn submit(story: &mut Story, slots_max: Option<u32>, done: u32) -> Vec<Action> {
    let spec = RoundSpec { slots_max, done, ..RoundSpec::new(DataSetId([0; 32]), Cut::new(8, 0)) };
    story.tell(Event::RoundSubmitted { round: ROUND, spec }).to_vec()
}

#[test]
fn the_first_workers_take_part_and_those_here_before_others() {
    let mut story = Story::with_workers(0);
    for (seat, remote) in [(0, true), (1, false), (2, true), (3, false)] {
        story.tell(Event::SeatAdded { seat: SeatId(seat), slots: 1, remote });
        story.tell(joined(worker(seat, 0)));
    }
    let first = assign(worker(1, 0), 0, 4, 1);
    assert_eq!(submit(&mut story, Some(2), 0), [first, assign(worker(3, 0), 4, 4, 1)]);
}

#[test]
fn who_is_not_asked_stays_idle_until_somebody_dies() {
    let mut story = Story::with_workers(3);
    assert_eq!(submit(&mut story, Some(1), 0), [assign(worker(0, 0), 0, 8, 1)]);
    let said = story.after_ms(5_000).to_vec();
    assert!(!said.iter().any(|a| matches!(a, Action::Recall { .. } | Action::Assign { .. })), "{said:?}");
    story.tell(part(worker(0, 0), node(1, 0), &[(0, 2, 1)]));
    let said = story.lose(worker(0, 0), &[]).to_vec();
    assert!(said.contains(&assign(worker(1, 0), 2, 6, 2)), "{said:?}");
}

#[test]
fn blocks_that_the_master_ran_are_not_given_out() {
    let mut story = Story::with_workers(2);
    assert_eq!(submit(&mut story, None, 5), [assign(worker(0, 0), 5, 2, 1), assign(worker(1, 0), 7, 1, 1)]);
    story.tell(part(worker(0, 0), node(0, 5), &[(5, 1, 1)]));
    story.tell(part(worker(0, 0), node(0, 6), &[(6, 1, 1)]));
    let said = story.tell(part(worker(1, 0), node(0, 7), &[(7, 1, 1)])).to_vec();
    assert!(said.contains(&Action::Finish { round: ROUND }), "{said:?}");
}

#[test]
#[should_panic(expected = "nothing left to do")]
fn a_round_without_anything_left_is_a_mistake() {
    submit(&mut Story::with_workers(1), None, 8);
}
