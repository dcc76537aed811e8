//! `proc`, `proc:4` and `proc:2*4` in worker strings.

use crate::engine::SeatKind;
use crate::engine::kinds::EngineWords;
use crate::engine::worker_string::{SEATS_MAX, SLOTS_MAX, Seating, Wrong, cores, number, wrong};

/// The engine's part of worker strings.
pub(in crate::engine) const WORDS: EngineWords = EngineWords {
    word: "proc",
    parse,
    with_slots: ("slots of an engine follow a colon", "write for example `local:4` or `proc:4`"),
};

fn parse(seating: &mut Seating, item: &str, count: Option<&str>) -> Result<(), Wrong> {
    let (processes, slots) = match count {
        None => (Ok(cores()), Ok(1)),
        Some(text) => match text.split_once('*') {
            None => (number(text, SEATS_MAX as u32), Ok(1)),
            Some((p, s)) => (number(p.trim(), SEATS_MAX as u32), number(s.trim(), SLOTS_MAX)),
        },
    };
    let (processes, slots) = match (processes, slots) {
        (Ok(processes), Ok(slots)) => (processes, slots),
        (Err(problem), _) | (_, Err(problem)) => {
            return wrong(count.unwrap_or(""), problem, "write for example `proc:4`");
        }
    };
    seating.room_for(item, processes as usize)?;
    let before = seating.seats.iter().filter(|seat| seat.kind == SeatKind::Proc).count();
    for n in before..before + processes as usize {
        seating.push(SeatKind::Proc, slots, format!("proc:{n}"));
    }
    Ok(())
}
