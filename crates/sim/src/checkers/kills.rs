//! Checks kills of workers, pauses between starts, and seats that are given up.

use super::picture::{Picture, SeatPicture};
use super::{Verdict, promise};
use qjam_core::ids::{SeatId, WorkerId};
use qjam_core::job::Cause;
use qjam_core::scheduler::{Action, Config, Event};
use qjam_core::time::{Span, Time};

/// A worker is killed for what it really did, and only while it lives.
pub(super) fn is_deserved(
    picture: &Picture,
    now: Time,
    worker: WorkerId,
    cause: &Cause,
    config: &Config,
) -> Verdict {
    let Some(w) = picture.workers.get(&worker) else {
        return Err(super::Violation::new("only_the_living_are_killed", worker.to_string()));
    };
    promise!(!w.is_dying, "nobody_is_killed_twice", "{worker}: {cause}");
    let silent = now.since(w.last_said);
    match cause {
        Cause::Silent(_) => {
            let deserved = w.joined.is_some() && silent >= config.lost_after;
            promise!(deserved, "only_the_silent_are_killed_for_silence", "{worker} spoke {silent} ago");
            let was_asked = w.asked.is_some_and(|at| at >= w.last_said);
            promise!(
                was_asked,
                "nobody_is_killed_for_silence_unasked",
                "{worker} was last asked at {:?}",
                w.asked
            );
        }
        Cause::Unresponsive => {
            let is_remote = picture.seats[&worker.seat].is_remote;
            let within = |is_patient: bool| {
                let within = if is_remote { config.remote_let_go_within } else { config.let_go_within };
                if is_patient { within.max(config.spare_within) } else { within }
            };
            let is_late = |at: Time, is_patient: bool| now.since(at) >= within(is_patient);
            let deserved = w
                .told
                .values()
                .any(|(at, is_patient)| is_late(*at, *is_patient) && (!is_remote || w.last_said >= *at));
            promise!(
                deserved,
                "who_lets_go_in_time_is_not_killed",
                "{worker} was told {:?}, now {now:?}",
                w.told
            );
        }
        Cause::Start(_) => {
            let is_remote = picture.seats[&worker.seat].is_remote;
            promise!(!is_remote, "starts_on_other_hosts_are_left_to_those_who_make_them", "{worker}");
            let deserved = w.joined.is_none() && now.since(w.started) >= config.start_within;
            promise!(
                deserved,
                "starts_get_the_time_they_were_promised",
                "{worker} started at {:?}",
                w.started
            );
        }
        other => promise!(false, "nobody_here_breaks_the_protocol", "{worker}: {other}"),
    }
    Ok(())
}

/// A tick comes at most so late, unless the master is stalled.
const TICK_LATE: Span = Span::from_ms(2);

/// Starts that come to nothing are repeated later and later, not as fast as they fail; and no later than that.
pub(super) fn is_started_after_its_pause(
    picture: &Picture,
    now: Time,
    worker: WorkerId,
    config: &Config,
    stalls: bool,
) -> Verdict {
    let seat = &picture.seats[&worker.seat];
    promise!(
        !picture.is_taken(worker.seat) && !seat.is_given_up,
        "only_empty_seats_are_filled",
        "{worker}: {seat:?}"
    );
    let (pause, waited) = (seat.pause(config), now.since(seat.lost));
    let is_new = seat.lost == Time::default(); // or taken for new, for the sake of a new round
    promise!(
        is_new || waited >= pause,
        "failing_starts_are_not_repeated_in_haste",
        "{worker} after {waited} of {pause}"
    );
    promise!(
        stalls || is_new || waited <= Span(pause.0 + TICK_LATE.0),
        "no_seat_rests_longer_than_it_must",
        "{worker} after {waited} instead of {pause}"
    );
    Ok(())
}

/// A seat is given up after too many lives in a row that came to nothing. One on another host may also have been empty
/// for too long, and in any case nobody else is there.
pub(super) fn is_given_up_for_a_reason(
    picture: &Picture,
    now: Time,
    seat_id: SeatId,
    config: &Config,
) -> Verdict {
    let seat = &picture.seats[&seat_id];
    promise!(!seat.is_given_up && !picture.is_taken(seat_id), "only_empty_seats_are_given_up", "{seat_id}");
    let is_useless = seat.fruitless > config.fruitless_max;
    if !seat.is_remote {
        promise!(is_useless, "a_seat_is_given_up_for_a_reason", "{seat_id}: {seat:?}");
        return Ok(());
    }
    promise!(
        picture.up == 0,
        "no_host_is_given_up_while_somebody_is_up",
        "{seat_id}, with {} others up",
        picture.up
    );
    let alone = now.since(seat.deserted.max(picture.last_up));
    promise!(
        alone >= config.remote_patience
            || has_lost_too_often(seat, now, config)
            || (is_useless || seat.vain > config.vain_max) && seat.failed_starts == 0,
        "hosts_get_the_patience_they_were_promised",
        "{seat_id} after {alone}: {seat:?}"
    );
    Ok(())
}

/// Whether a host has been lost again and again with blocks, for as long as that is borne.
fn has_lost_too_often(seat: &SeatPicture, now: Time, config: &Config) -> bool {
    seat.is_remote && seat.vain >= 2 && now.since(seat.vain_since) >= config.vain_patience
}

/// A host that is alone and is lost again and again with the same blocks is not tried for ever.
pub(super) fn lone_hosts_are_not_lost_for_ever(
    picture: &Picture,
    now: Time,
    event: &Event,
    config: &Config,
    stalls: bool,
) -> Verdict {
    let Event::WorkerLost { worker: WorkerId { seat, .. }, .. } = event else { return Ok(()) };
    // What is heard again of an earlier loss changes nothing.
    let Some(s) = picture.seats.get(seat).filter(|s| s.lost == now) else { return Ok(()) };
    promise!(
        stalls || s.is_given_up || picture.up > 0 || !has_lost_too_often(s, now, config),
        "a_lone_host_is_not_lost_for_ever",
        "{seat} at {now:?}: {s:?}"
    );
    Ok(())
}

/// A seat that was just emptied and owes no pause is filled at once.
pub(super) fn useful_seats_are_filled_at_once(picture: &Picture, event: &Event, config: &Config) -> Verdict {
    let Event::WorkerLost { worker: WorkerId { seat, .. }, .. } = event else { return Ok(()) };
    let Some(s) = picture.seats.get(seat) else { return Ok(()) };
    promise!(
        s.is_given_up || s.pause(config) > Span(0) || picture.is_taken(*seat),
        "a_seat_that_was_of_use_is_filled_at_once",
        "{seat}: {s:?}"
    );
    Ok(())
}

/// Nobody is started, asked or given anything on a seat that is no longer wanted.
pub(super) fn removed_seats_are_left_alone(picture: &Picture, action: &Action) -> Verdict {
    if let Action::Start { worker }
    | Action::Kill { worker, .. }
    | Action::Ping { worker }
    | Action::Assign { worker, .. }
    | Action::Recall { worker, .. }
    | Action::Apart { worker, .. }
    | Action::Cancel { worker, .. } = action
    {
        promise!(!picture.removed.contains(&worker.seat), "removed_seats_are_left_alone", "{action:?}");
    }
    Ok(())
}
