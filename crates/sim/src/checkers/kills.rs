//! Who is killed, and which seats are given up.

use super::picture::Picture;
use super::{Verdict, promise};
use qjam_core::ids::{SeatId, WorkerId};
use qjam_core::job::Cause;
use qjam_core::scheduler::Config;
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
            let deserved = w.told.values().any(|at| now.since(*at) >= config.let_go_within);
            promise!(
                deserved,
                "who_lets_go_in_time_is_not_killed",
                "{worker} was told {:?}, now {now:?}",
                w.told
            );
        }
        Cause::Start(_) => {
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

/// Starts that come to nothing are repeated later and later, not as fast as they fail.
pub(super) fn is_started_after_its_pause(
    picture: &Picture,
    now: Time,
    worker: WorkerId,
    config: &Config,
) -> Verdict {
    let seat = &picture.seats[&worker.seat];
    promise!(!seat.is_up && !seat.is_given_up, "only_empty_seats_are_filled", "{worker}: {seat:?}");
    let pause = match seat.fruitless {
        0 | 1 => Span(0),
        n => Span(config.restart_after.0 << (n - 2).min(10)),
    };
    let waited = now.since(seat.lost);
    promise!(
        waited >= pause,
        "failing_starts_are_not_repeated_in_haste",
        "{worker} after {waited} of {pause}"
    );
    Ok(())
}

/// A seat is given up after too many lives in a row that came to nothing.
pub(super) fn is_given_up_for_a_reason(picture: &Picture, seat: SeatId, config: &Config) -> Verdict {
    let fruitless = picture.seats[&seat].fruitless;
    promise!(
        fruitless > config.fruitless_max,
        "a_seat_is_given_up_for_a_reason",
        "{seat} had {fruitless} fruitless lives in a row"
    );
    Ok(())
}
