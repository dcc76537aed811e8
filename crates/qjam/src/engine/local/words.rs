//! `local` and `local:4` in worker strings.

use crate::engine::SeatKind;
use crate::engine::kinds::EngineWords;
use crate::engine::worker_string::{SLOTS_MAX, Seating, Wrong, cores, number, wrong};

/// The engine's part of worker strings.
pub(in crate::engine) const WORDS: EngineWords = EngineWords {
    word: "local",
    parse,
    with_slots: ("slots of an engine follow a colon", "write for example `local:4` or `proc:4`"),
};

fn parse(seating: &mut Seating, item: &str, count: Option<&str>) -> Result<(), Wrong> {
    let slots = match count {
        None => cores(),
        Some(text) => match number(text, SLOTS_MAX) {
            Ok(n) => n,
            Err(problem) => return wrong(text, problem, "write for example `local:4`"),
        },
    };
    if seating.seats.iter().any(|s| s.kind == SeatKind::Local) {
        return wrong(item, "`local` twice", "give all threads in one, for example `local:4`");
    }
    seating.room_for(item, 1)?;
    seating.push(SeatKind::Local, slots, "local".into());
    Ok(())
}
