//! One lane for each worker: how long it computed in each column.
//!
//! All lanes together have at most [`CELLS_MAX`] numbers, so with many workers a cell covers several neighbouring columns.

use super::columns::Columns;
use qjam::runs::{Happening, Kind, Share, Story};
use serde::Serialize;
use std::collections::BTreeMap;

/// So many numbers all lanes have together.
const CELLS_MAX: usize = 60_000;
/// So many lanes are shown.
const LANES_MAX: usize = 2000;
/// So many events of workers are drawn.
const EVENTS_MAX: usize = 4000;

/// The lanes.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Lanes {
    /// Columns that a cell covers; the last may cover fewer.
    pub(super) columns_each: usize,
    /// The lanes, by number of seat.
    pub(super) lanes: Vec<Lane>,
    /// Seats beyond the most that are shown.
    pub(super) left_out: usize,
    /// What happened to workers: when, in which lane, what.
    pub(super) events: Vec<(u64, usize, &'static str)>,
    /// Events beyond the most that are drawn.
    pub(super) events_left_out: usize,
}

/// One worker's.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Lane {
    /// The worker's name.
    pub(super) name: String,
    /// How long it computed in all.
    pub(super) compute_us: u64,
    /// How many rounds it took part in.
    pub(super) rounds: u64,
    /// How often it, or an interpreter of its, was lost.
    pub(super) lost: u64,
    /// How long it computed in each cell.
    pub(super) cells: Vec<u64>,
}

impl Lanes {
    pub(super) fn of(story: &Story, columns: &Columns) -> Lanes {
        let mut names = story.seats.clone();
        for share in &story.shares {
            names.entry(share.seat).or_insert_with(|| format!("seat {}", share.seat));
        }
        let left_out = names.len().saturating_sub(LANES_MAX);
        let shown = names.len() - left_out;
        let cells_max = (CELLS_MAX / shown.max(1)).clamp(20, columns.len().max(20));
        let columns_each = columns.len().div_ceil(cells_max).max(1);
        let cells = columns.len().div_ceil(columns_each);
        let place: BTreeMap<u32, usize> = names.keys().take(shown).copied().zip(0..).collect();
        let lane = |name: &String| Lane {
            name: name.clone(),
            compute_us: 0,
            rounds: 0,
            lost: 0,
            cells: vec![0; cells],
        };
        let mut lanes: Vec<Lane> = names.values().take(shown).map(lane).collect();
        for Share { round, seat, compute_us, .. } in &story.shares {
            let (Some(lane), Some(column)) = (place.get(seat), columns.of_round(*round)) else { continue };
            let lane = &mut lanes[*lane];
            lane.compute_us = lane.compute_us.saturating_add(*compute_us);
            lane.rounds += 1;
            let cell = &mut lane.cells[column / columns_each];
            *cell = cell.saturating_add(*compute_us);
        }
        let mut events = Vec::new();
        for Happening { at_us, seat, kind, .. } in &story.happenings {
            let Some(lane) = place.get(seat) else { continue };
            lanes[*lane].lost += u64::from(matches!(kind, Kind::Lost | Kind::InterpreterLost));
            events.push((*at_us, *lane, word(*kind)));
        }
        let events_left_out = events.len().saturating_sub(EVENTS_MAX);
        // What went wrong is drawn first, then the rest in order.
        events.sort_by_key(|(at_us, _, word)| (!matches!(*word, "lost" | "suspected" | "given up"), *at_us));
        events.truncate(EVENTS_MAX);
        Lanes { columns_each, lanes, left_out, events, events_left_out }
    }
}

/// What the page calls an event.
fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Started => "started",
        Kind::Joined => "ready",
        Kind::Suspected => "suspected",
        Kind::Returned => "returned",
        Kind::Lost => "lost",
        Kind::InterpreterLost => "interpreter lost",
        Kind::GivenUp => "given up",
        Kind::Retried => "retry",
        Kind::BackedUp => "backup",
        Kind::Stolen => "stolen from",
        Kind::Discarded => "discarded",
        Kind::Restored => "state rebuilt",
        _ => "other",
    }
}
