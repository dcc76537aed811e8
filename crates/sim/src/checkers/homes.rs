//! Checks the placement of blocks that need states.

use super::picture::{Picture, RoundPicture};
use super::{Verdict, promise};
use qjam_core::ids::{Block, RoundId, SeatId, WorkerId};
use qjam_core::lease;
use qjam_core::scheduler::{Config, Event};
use qjam_core::time::{Span, Time};

/// Maximum delay of a tick.
const LATE: Span = Span::from_ms(5);

/// A block goes to who had its partition last, as long as that one can be given work or is about to be there again.
pub(super) fn assign(
    picture: &mut Picture,
    now: Time,
    worker: WorkerId,
    round: RoundId,
    ranges: &[lease::BlockRange],
    config: &Config,
) -> Verdict {
    let Some(r) = picture.rounds.get(&round).filter(|r| r.is_held) else { return Ok(()) };
    for block in ranges.iter().flat_map(lease::BlockRange::blocks) {
        let home = picture.homes.get(&block).copied().filter(|home| *home != worker.seat);
        // What has killed twice at home may be better off elsewhere.
        if let Some(home) = home.filter(|_| r.blocks[block as usize].victims.len() < 2) {
            promise!(
                !is_there(picture, home) && !is_awaited(picture, now, home, config),
                "blocks_go_where_their_states_are",
                "{round}: block {block} to {worker}, and its state was on {home}"
            );
        }
        picture.homes.insert(block, worker.seat);
    }
    Ok(())
}

/// Partitions are moved when a round begins, to somebody who has none, and not more than an even share.
pub(super) fn moved(
    picture: &mut Picture,
    event: &Event,
    partitions: &[u32],
    from: SeatId,
    to: SeatId,
) -> Verdict {
    let begins = matches!(event, Event::RoundSubmitted { spec, .. } if spec.held.is_some());
    promise!(begins, "states_are_moved_when_a_round_begins", "{partitions:?} after {event:?}");
    promise!(is_there(picture, to), "states_are_moved_to_the_living", "{partitions:?} to {to}");
    for partition in partitions {
        let home = picture.homes.insert(*partition, to);
        promise!(
            home == Some(from),
            "states_are_moved_from_where_they_are",
            "{partition}: {home:?}, not {from}"
        );
    }
    let able: Vec<(SeatId, u64)> = picture
        .workers
        .iter()
        .filter(|(_, w)| w.is_dependable())
        .map(|(id, _)| (id.seat, u64::from(picture.seats[&id.seat].slots)))
        .collect();
    let slots: u64 = able.iter().map(|(_, slots)| slots).sum();
    let has = |seat: SeatId| picture.homes.values().filter(|home| **home == seat).count() as u64;
    let all: u64 = able.iter().map(|(seat, _)| has(*seat)).sum();
    let share = |seat: SeatId| all * u64::from(picture.seats[&seat].slots);
    promise!(
        has(from) * slots >= share(from) && (has(to) - 1) * slots < share(to).max(slots),
        "states_are_moved_to_even_out_the_shares",
        "{to} has {} now, {from} {}, of {all} on {slots} slots",
        has(to),
        has(from)
    );
    Ok(())
}

/// While anybody can be given work, no block waits for its home for long.
pub(super) fn nobody_waits_for_long(picture: &Picture, now: Time, config: &Config) -> Verdict {
    let open = picture.rounds.iter().filter(|(_, r)| r.is_held && r.answer.is_none());
    for (round, r) in open {
        if !picture.workers.values().any(|w| w.is_dependable()) {
            return Ok(());
        }
        for block in waiting(r) {
            let Some(home) = picture.homes.get(&block) else {
                return Err(super::Violation::new(
                    "blocks_wait_only_for_their_states",
                    format!("{round}: {block}"),
                ));
            };
            let since = picture.seats.get(home).map(|seat| seat.deserted);
            promise!(
                since.is_some_and(|since| now <= since + config.home_patience + LATE),
                "blocks_do_not_wait_for_long",
                "{round}: block {block} for {home}, empty since {since:?}"
            );
        }
    }
    Ok(())
}

/// Whether a block may wait for who had its state, for a while.
pub(super) fn is_waiting(picture: &Picture, r: &RoundPicture, block: Block) -> bool {
    r.is_held
        && picture.homes.get(&block).is_some_and(|home| picture.seats.get(home).is_some_and(|s| !s.is_up))
}

/// Blocks that nobody has.
fn waiting(r: &RoundPicture) -> impl Iterator<Item = Block> + '_ {
    (0..).zip(&r.blocks).filter(|(_, b)| !b.done && b.holders.is_empty()).map(|(n, _)| n)
}

fn is_there(picture: &Picture, seat: SeatId) -> bool {
    picture.workers.iter().any(|(id, w)| id.seat == seat && w.is_dependable())
}

/// Whether somebody was there a moment ago and the next one is being started.
fn is_awaited(picture: &Picture, now: Time, seat: SeatId, config: &Config) -> bool {
    let is_starting =
        picture.workers.iter().any(|(id, w)| id.seat == seat && w.joined.is_none() && !w.is_dying);
    let seat = picture.seats.get(&seat);
    is_starting && seat.is_some_and(|s| s.has_been_up && now.since(s.deserted) < config.home_patience)
}
