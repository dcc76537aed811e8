//! One lane for each worker: how long it computed in each column.
//!
//! All lanes together have a limited number of cells, so with many workers a cell covers several neighbouring columns, always a power of
//! two. Lanes stand in the order in which their workers were named.

use qjam::runs::{Happening, Kind, MemorySample, Share};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// So many lanes are shown.
const LANES_MAX: usize = 2000;
/// A lane has at least so many cells, however many lanes there are.
const CELLS_LEAST: usize = 20;
/// So many events of workers are drawn.
const EVENTS_MAX: usize = 4000;

/// The lanes.
#[derive(Debug, PartialEq, Serialize)]
pub struct Lanes {
    /// Columns that a cell covers; the last may cover fewer.
    columns_each: usize,
    lanes: Vec<Lane>,
    /// Workers beyond the most that are shown.
    left_out: usize,
    /// What happened to workers: when, in which lane, what.
    events: Vec<(u64, usize, &'static str)>,
    /// Events beyond the most that are drawn.
    events_left_out: usize,
    /// The lane of each seat; `None` if it is left out.
    #[serde(skip)]
    of_seat: BTreeMap<u32, Option<usize>>,
    #[serde(skip)]
    cells_max: usize,
    #[serde(skip)]
    changed: Changed,
}

/// What is new since changes were taken.
#[derive(Debug, Default, PartialEq)]
struct Changed {
    /// There are other lanes, or cells cover more columns, or an event was replaced.
    is_reshaped: bool,
    /// The first cell that has changed.
    cell: Option<usize>,
    /// Whether figures of a lane have changed.
    figures: bool,
    /// Events that were taken.
    events: usize,
}

/// One worker's.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Lane {
    /// The worker's name.
    pub name: String,
    /// How long it computed in all.
    pub compute_us: u64,
    /// How many rounds it took part in.
    pub rounds: u64,
    /// How often it, or an interpreter of its, was lost.
    pub lost: u64,
    /// Whether it can work: false before it was ready and after it was lost.
    pub is_up: bool,
    /// What its process had in memory when it was looked at last; 0 if it was not: it is on another host, or a thread.
    pub memory_bytes: u64,
    /// The most of that.
    pub memory_most_bytes: u64,
    /// How long it computed in each cell.
    pub cells: Vec<u64>,
}

impl Lanes {
    /// No lanes yet; all together will have at most so many cells.
    pub(super) fn new(cells_max: usize) -> Lanes {
        Lanes {
            columns_each: 1,
            lanes: Vec::new(),
            left_out: 0,
            events: Vec::new(),
            events_left_out: 0,
            of_seat: BTreeMap::new(),
            cells_max,
            changed: Changed::default(),
        }
    }

    /// The lanes in order.
    pub fn all(&self) -> &[Lane] {
        &self.lanes
    }

    /// Workers that have no lane, since there are too many.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// A seat has a name.
    pub(super) fn name(&mut self, seat: u32, name: &str) {
        if let Some(Some(lane)) = self.of_seat.get(&seat) {
            self.lanes[*lane].name = name.to_owned();
            self.changed.is_reshaped = true;
            return;
        }
        if self.of_seat.contains_key(&seat) {
            return;
        }
        self.changed.is_reshaped = true;
        if self.lanes.len() == LANES_MAX {
            self.left_out += 1;
            // A file may name as many as it likes.
            if self.of_seat.len() < 8 * LANES_MAX {
                self.of_seat.insert(seat, None);
            }
            return;
        }
        self.of_seat.insert(seat, Some(self.lanes.len()));
        let cells = self.lanes.first().map_or(0, |lane| lane.cells.len());
        self.lanes.push(Lane {
            name: name.to_owned(),
            compute_us: 0,
            rounds: 0,
            lost: 0,
            is_up: false,
            memory_bytes: 0,
            memory_most_bytes: 0,
            cells: vec![0; cells],
        });
        self.fit();
    }

    /// Columns were added up, each with its right neighbour.
    pub(super) fn columns_grouped(&mut self) {
        match self.columns_each {
            1 => self.group(),
            several => self.columns_each = several / 2,
        }
        self.changed.is_reshaped = true;
    }

    /// There are so many columns now.
    pub(super) fn columns(&mut self, count: usize) {
        let cells = count.div_ceil(self.columns_each);
        if self.lanes.first().is_some_and(|lane| lane.cells.len() < cells) {
            self.changed.cell.get_or_insert(cells - 1);
            self.lanes.iter_mut().for_each(|lane| lane.cells.resize(cells, 0));
            self.fit();
        }
    }

    /// Adds up cells until there are few enough.
    fn fit(&mut self) {
        let most = (self.cells_max / self.lanes.len().max(1)).max(CELLS_LEAST);
        while self.lanes.first().is_some_and(|lane| lane.cells.len() > most) {
            self.columns_each *= 2;
            self.group();
        }
    }

    fn group(&mut self) {
        let sum = |pair: &[u64]| pair.iter().fold(0, |sum: u64, us| sum.saturating_add(*us));
        for lane in &mut self.lanes {
            lane.cells = lane.cells.chunks(2).map(sum).collect();
        }
        self.changed.is_reshaped = true;
    }

    /// A worker computed for a round of this column.
    pub(super) fn computed(&mut self, share: &Share, column: usize) {
        if !self.of_seat.contains_key(&share.seat) {
            self.name(share.seat, &format!("seat {}", share.seat));
        }
        let Some(Some(lane)) = self.of_seat.get(&share.seat) else { return };
        let (lane, at) = (&mut self.lanes[*lane], column / self.columns_each);
        lane.compute_us = lane.compute_us.saturating_add(share.compute_us);
        lane.rounds += 1;
        // Who delivers is there, also when a torn file does not say that it joined.
        lane.is_up |= lane.lost == 0;
        if let Some(cell) = lane.cells.get_mut(at) {
            *cell = cell.saturating_add(share.compute_us);
        }
        self.changed.figures = true;
        self.changed.cell = Some(self.changed.cell.map_or(at, |first| first.min(at)));
    }

    /// A worker's memory was looked at.
    pub(super) fn remembered(&mut self, sample: &MemorySample) {
        let Some(Some(lane)) = self.of_seat.get(&sample.seat) else { return };
        let lane = &mut self.lanes[*lane];
        lane.memory_bytes = sample.bytes();
        lane.memory_most_bytes = lane.memory_most_bytes.max(lane.memory_bytes);
        self.changed.figures = true;
    }

    /// Something happened to a worker.
    pub(super) fn happened(&mut self, happening: &Happening) {
        let Some(Some(lane)) = self.of_seat.get(&happening.seat) else { return };
        let lane = *lane;
        let kind = happening.kind;
        self.lanes[lane].lost += u64::from(matches!(kind, Kind::Lost | Kind::InterpreterLost));
        match kind {
            Kind::Joined => self.lanes[lane].is_up = true,
            Kind::Lost | Kind::GivenUp => self.lanes[lane].is_up = false,
            _ => {}
        }
        self.changed.figures = true;
        let event = (happening.at_us, lane, word(kind));
        if self.events.len() < EVENTS_MAX {
            return self.events.push(event);
        }
        // What went wrong is drawn rather than the rest.
        self.events_left_out += 1;
        if is_trouble(event.2)
            && let Some(other) = self.events.iter().rposition(|(_, _, word)| !is_trouble(word))
        {
            self.events.remove(other);
            self.events.push(event);
            self.changed.is_reshaped = true;
        }
    }

    /// What has changed since this was asked last, for a page that has the rest.
    pub(super) fn changes(&mut self) -> Option<Changes<'_>> {
        let Changed { is_reshaped, cell, figures, events } = std::mem::take(&mut self.changed);
        self.changed.events = self.events.len();
        if is_reshaped {
            return Some(Changes { whole: Some(&*self), more: None });
        }
        let has_events = events < self.events.len();
        if cell.is_none() && !figures && !has_events {
            return None;
        }
        let from = cell.unwrap_or(self.lanes.first().map_or(0, |lane| lane.cells.len()));
        let more = More { from, tails: Tails { lanes: &self.lanes, from }, events: &self.events[events..] };
        Some(Changes { whole: None, more: Some(more) })
    }
}

/// Either all lanes, or what is new of them.
#[derive(Serialize)]
pub(super) struct Changes<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    whole: Option<&'a Lanes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<More<'a>>,
}

#[derive(Serialize)]
struct More<'a> {
    from: usize,
    tails: Tails<'a>,
    events: &'a [(u64, usize, &'static str)],
}

/// For each lane one list: its six figures, and its cells from some place on.
struct Tails<'a> {
    lanes: &'a [Lane],
    from: usize,
}

impl Serialize for Tails<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = serializer.serialize_seq(Some(self.lanes.len()))?;
        let mut row = Vec::new();
        for lane in self.lanes {
            row.clear();
            row.extend([lane.compute_us, lane.rounds, lane.lost, u64::from(lane.is_up)]);
            row.extend([lane.memory_bytes, lane.memory_most_bytes]);
            row.extend(lane.cells.iter().skip(self.from));
            all.serialize_element(&row)?;
        }
        all.end()
    }
}

/// Whether an event is one that people look for.
fn is_trouble(word: &str) -> bool {
    matches!(word, "lost" | "suspected" | "given up")
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
