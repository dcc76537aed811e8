//! Hosts in worker strings: `big`, `ann@big:2222*4`, `ssh://proc`.

use crate::engine::kinds;
use crate::engine::worker_string::{AUTO, SLOTS_MAX, Seating, Wrong, number, wrong};
use crate::engine::{HostAddress, Seat, SeatKind};

/// Reads a host. With `ssh://` before it, it may be called like an engine.
pub(in crate::engine) fn parse(seating: &mut Seating, item: &str) -> Result<(), Wrong> {
    let forced = item.strip_prefix("ssh://");
    let item = forced.unwrap_or(item);
    let (address, slots) = match item.split_once('*') {
        None => (item, None),
        Some((address, text)) => match number(text.trim(), SLOTS_MAX) {
            Ok(n) => (address.trim(), Some(n)),
            Err(problem) => return wrong(text.trim(), problem, "write for example `big*4`"),
        },
    };
    let mut address = HostAddress::parse(address)?;
    let mut name = address.to_string();
    if address.user.is_none() {
        let host = address.host.as_str();
        let engine = kinds::with_word(host);
        if forced.is_none() && host == "auto" {
            return wrong(item, "`auto` has no slots of its own", AUTO);
        }
        if let (None, Some(engine)) = (forced, engine) {
            return wrong(item, engine.with_slots.0, engine.with_slots.1);
        }
        if engine.is_some() || host == "auto" {
            name.insert_str(0, "ssh://");
        }
    }
    address.user = address.user.or_else(|| seating.user.clone());
    seating.room_for(item, 1)?;
    let times = seating.hosts.entry(name.clone()).or_insert(0);
    *times += 1;
    if *times > 1 {
        name = format!("{name}#{times}");
    }
    let kind = SeatKind::Host(address);
    seating.seats.push(Seat { kind, slots: slots.unwrap_or(1), slots_given: slots.is_some(), name });
    Ok(())
}
