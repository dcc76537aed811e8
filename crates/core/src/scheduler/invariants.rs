//! Invariants between any two events. Each is a named function that panics if it is violated.
//!
//! Debug builds run them all after every event; the simulator does in every build.

use super::Scheduler;
use super::roster::SeatState;
use crate::ids::{RoundId, WorkerId};
use std::collections::BTreeMap;

/// Runs every check.
pub fn check(s: &Scheduler) {
    leases_agree_on_both_sides(s);
    holders_are_alive(s);
    a_block_is_never_forgotten(s);
    counts_are_true(s);
    two_copies_are_with_two_workers(s);
    rounds_that_are_over_wait_only_for_leases(s);
    only_rounds_that_are_over_are_let_go(s);
    attempts_are_distinct(s);
    open_rounds_have_somebody_to_wait_for(s);
    hosts_are_given_up_only_when_nobody_is_up(s);
    seats_agree_with_their_state(s);
    paces_are_of_holders(s);
    recalls_are_answered_by_the_living(s);
    few_blocks_are_backed_up(s);
    speeds_are_bounded(s);
    no_deadline_is_missed(s);
    states_are_at_home_somewhere(s);
    blocks_with_states_are_not_helped(s);
}

/// Every seat is examined by its deadline.
fn no_deadline_is_missed(s: &Scheduler) {
    let is_empty = s.roster.is_empty();
    for (&id, seat) in &s.roster.seats {
        let (due, noted) = (s.deadline(seat, is_empty), s.deadlines.noted(id));
        assert!(
            due.is_none_or(|due| noted.is_some_and(|noted| noted <= due)),
            "{id} is due at {due:?}, noted is {noted:?}"
        );
    }
}

/// The number of blocks a worker is recorded to have equals the number of blocks recorded to be with it.
fn leases_agree_on_both_sides(s: &Scheduler) {
    let mut by_blocks: BTreeMap<(WorkerId, RoundId), u32> = BTreeMap::new();
    for (&round, record) in &s.rounds {
        for lease in record.blocks.iter().flat_map(|b| b.leases()) {
            *by_blocks.entry((lease.worker, round)).or_default() += 1;
        }
    }
    let by_workers: BTreeMap<(WorkerId, RoundId), u32> = s
        .roster
        .up()
        .flat_map(|(id, _, w)| w.leases.iter().map(move |(&round, &n)| ((id, round), n)))
        .collect();
    assert_eq!(by_blocks, by_workers, "leases disagree");
}

/// No dead worker has a block.
fn holders_are_alive(s: &Scheduler) {
    for (round, record) in &s.rounds {
        for lease in record.blocks.iter().flat_map(|b| b.leases()) {
            assert!(
                s.roster.get(lease.worker).is_some(),
                "{round}: {} is not up but has a block",
                lease.worker
            );
        }
    }
}

/// While somebody dependable is up, every block of an open round is done or with somebody, or its state was with somebody
/// who is being started again.
fn a_block_is_never_forgotten(s: &Scheduler) {
    if !s.roster.up().any(|(_, _, w)| w.is_dependable()) {
        return;
    }
    for (round, record) in s.rounds.iter().filter(|(_, r)| !r.over) {
        for (n, block) in record.blocks.iter().enumerate() {
            let waits = || s.waits_for_home(record, n as u32);
            assert!(
                block.done || block.leases().next().is_some() || waits(),
                "{round}: block {n} is with nobody"
            );
        }
    }
}

/// The running totals equal a recount.
fn counts_are_true(s: &Scheduler) {
    for (round, record) in &s.rounds {
        let done = record.blocks.iter().filter(|b| b.done).count();
        let leased: usize = record.blocks.iter().map(|b| b.leases().count()).sum();
        assert_eq!((record.done as usize, record.leased as usize), (done, leased), "{round}: totals");
    }
}

/// Two copies of a block are never with the same worker.
fn two_copies_are_with_two_workers(s: &Scheduler) {
    for (round, record) in &s.rounds {
        for (n, block) in record.blocks.iter().enumerate() {
            let holders: Vec<WorkerId> = block.leases().map(|l| l.worker).collect();
            if let [a, b] = holders[..] {
                assert_ne!(a, b, "{round}: block {n} is with one worker twice");
            }
        }
    }
}

/// A round that is over is kept only while somebody still has a piece of it, and all of those were told.
fn rounds_that_are_over_wait_only_for_leases(s: &Scheduler) {
    for (round, record) in s.rounds.iter().filter(|(_, r)| r.over) {
        assert!(record.leased > 0, "{round} is over and idle, but not closed");
        for (id, _, worker) in s.roster.up().filter(|(_, _, w)| w.leases.contains_key(round)) {
            assert!(worker.letting_go.contains_key(round), "{id} was not told that {round} is over");
        }
    }
}

/// A worker is told to let go of nothing that is still wanted.
fn only_rounds_that_are_over_are_let_go(s: &Scheduler) {
    for (id, _, worker) in s.roster.up() {
        for round in worker.letting_go.keys() {
            assert!(
                s.rounds.get(round).is_some_and(|r| r.over),
                "{id} was told to drop {round}, which is wanted"
            );
        }
    }
}

/// No two holders of a block have it under the same attempt, and none under one that was never given.
fn attempts_are_distinct(s: &Scheduler) {
    for (round, record) in &s.rounds {
        for (n, block) in record.blocks.iter().enumerate() {
            let attempts: Vec<u32> = block.leases().map(|l| l.attempt).collect();
            assert!(
                attempts.iter().all(|&a| 1 <= a && a <= block.attempts),
                "{round}: block {n}, {attempts:?}"
            );
            assert!(attempts.len() < 2 || attempts[0] != attempts[1], "{round}: block {n}, {attempts:?}");
        }
    }
}

/// A round has the pace of every worker that holds blocks of it, and of no other.
fn paces_are_of_holders(s: &Scheduler) {
    for (round, record) in s.rounds.iter() {
        let holders = s.roster.up().filter(|(_, _, w)| w.leases.contains_key(round)).map(|(id, _, _)| id);
        assert!(record.paces.keys().copied().eq(holders), "{round}: paces of {:?}", record.paces.keys());
    }
}

/// Whoever was asked for blocks can answer, and the answer still matters.
fn recalls_are_answered_by_the_living(s: &Scheduler) {
    for (round, record) in &s.rounds {
        assert!(!record.over || record.recalls.is_empty(), "{round} is over, and blocks are asked for");
        for worker in record.recalls.keys() {
            assert!(s.roster.get(*worker).is_some(), "{round}: {worker} was asked for blocks, and is gone");
        }
    }
}

/// Of a round at most a tenth is given out to help somebody who is late, and nothing that killed.
fn few_blocks_are_backed_up(s: &Scheduler) {
    for (round, record) in &s.rounds {
        let backed_up = record.blocks.iter().filter(|b| b.is_backed_up).count() as u32;
        assert_eq!(backed_up, record.backups, "{round}: backups");
        assert!(backed_up <= (record.blocks.len() as u32 / 10).max(1), "{round}: {backed_up} backups");
    }
}

/// Speeds are remembered for a few data sets, and within bounds.
fn speeds_are_bounded(s: &Scheduler) {
    assert!(s.speeds.is_bounded(), "{:?}", s.speeds);
}

/// When nobody is here and nobody will come, every round is over.
fn open_rounds_have_somebody_to_wait_for(s: &Scheduler) {
    if s.roster.is_deserted() {
        let open = s.rounds.iter().find(|(_, r)| !r.over).map(|(id, _)| *id);
        assert!(open.is_none(), "{open:?} waits for nobody");
    }
}

/// While anybody is up, seats on other hosts are tried again, unless workers that came up there were of no use.
fn hosts_are_given_up_only_when_nobody_is_up(s: &Scheduler) {
    if s.roster.is_empty() {
        return;
    }
    for (id, seat) in s.roster.seats.iter().filter(|(_, s)| matches!(s.state, SeatState::GivenUp)) {
        let is_useless = seat.fruitless > s.config.fruitless_max;
        assert!(!seat.remote || is_useless, "{id} is given up though somebody is up");
    }
}

/// A seat has slots; who is up has joined; starts that failed are counted where they matter, until one does not.
fn seats_agree_with_their_state(s: &Scheduler) {
    for (id, seat) in &s.roster.seats {
        assert!(seat.slots > 0, "{id} has no slots");
        assert!(seat.has_joined || seat.worker().is_none(), "{id} is up but never joined");
        let counts = seat.remote && seat.worker().is_none();
        assert!(counts || seat.failed_starts == 0, "{id} counts {} failed starts", seat.failed_starts);
    }
}

/// Homes are seats that there are.
fn states_are_at_home_somewhere(s: &Scheduler) {
    for (hold, homes) in &s.homes {
        for (block, seat) in homes {
            assert!(
                s.roster.seats.contains_key(seat),
                "{hold:?}: partition {block} is at home on {seat}, which is no more"
            );
        }
    }
}

/// Nobody is asked to give back, or helped with, a block that needs a state.
fn blocks_with_states_are_not_helped(s: &Scheduler) {
    for (round, record) in s.rounds.iter().filter(|(_, r)| r.spec.held.is_some()) {
        assert!(
            record.recalls.is_empty() && record.backups == 0,
            "{round} needs states, and somebody was helped"
        );
    }
}
