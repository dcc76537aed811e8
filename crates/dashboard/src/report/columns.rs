//! Rounds, summed up so that a page stays small.
//!
//! Up to [`COLUMNS_MAX`] rounds have a column each. When there are more, neighbouring columns are added up, and a column stands for
//! twice as many rounds as before; only the last may stand for fewer. The page says for how many. Sums and counts stay exact.

use qjam::journal::RoundReport;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// A page has so many columns at most.
const COLUMNS_MAX: usize = 1500;
/// The function of a column whose rounds have several, or one that is not listed.
const SEVERAL: i32 = -1;

/// Neighbouring rounds, added up.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Column {
    /// Number of the first round.
    pub first: u64,
    /// How many rounds.
    pub count: u32,
    /// When the first began, in microseconds since the run began.
    pub began_us: u64,
    /// When the last ended.
    pub ended_us: u64,
    /// The function of all of them, as its place in the list of functions, or -1 if they have several.
    pub function: i32,
    /// Their reports, added up: computing of the slowest worker, work of the master, the rest.
    pub worker_us: u64,
    /// Work of the master.
    pub master_us: u64,
    /// The rest of the rounds' time.
    pub overhead_us: u64,
    /// Bytes to workers.
    pub bytes_out: u64,
    /// Bytes from workers.
    pub bytes_in: u64,
    /// Chunks that workers had open.
    pub hits: u64,
    /// Chunks that had to be sent or opened.
    pub misses: u64,
    /// Blocks that were given out again, or to a second worker.
    pub again: u64,
    /// Rounds whose value came from an earlier run.
    pub recalled: u32,
    /// Rounds that failed, or are not finished.
    pub unfinished: u32,
}

impl Column {
    fn begun(round: u64, at_us: u64, function: i32) -> Column {
        Column {
            first: round,
            count: 1,
            began_us: at_us,
            ended_us: at_us,
            function,
            worker_us: 0,
            master_us: 0,
            overhead_us: 0,
            bytes_out: 0,
            bytes_in: 0,
            hits: 0,
            misses: 0,
            again: 0,
            recalled: 0,
            unfinished: 1,
        }
    }

    /// Adds the rounds that follow.
    fn merge(&mut self, next: &Column) {
        let sum = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        self.count = self.count.saturating_add(next.count);
        self.began_us = self.began_us.min(next.began_us);
        self.ended_us = self.ended_us.max(next.ended_us);
        if self.function != next.function {
            self.function = SEVERAL;
        }
        sum(&mut self.worker_us, next.worker_us);
        sum(&mut self.master_us, next.master_us);
        sum(&mut self.overhead_us, next.overhead_us);
        sum(&mut self.bytes_out, next.bytes_out);
        sum(&mut self.bytes_in, next.bytes_in);
        sum(&mut self.hits, next.hits);
        sum(&mut self.misses, next.misses);
        sum(&mut self.again, next.again);
        self.recalled = self.recalled.saturating_add(next.recalled);
        self.unfinished = self.unfinished.saturating_add(next.unfinished);
    }
}

/// The columns of a run.
#[derive(Debug, PartialEq)]
pub struct Columns {
    /// Rounds in each column; the last may have fewer.
    rounds_each: u32,
    all: Vec<Column>,
    /// Number of the last round that began.
    last: Option<u64>,
    /// The first column that has changed since changes were taken.
    changed: usize,
    /// Columns were added up since changes were taken.
    is_regrouped: bool,
}

impl Default for Columns {
    fn default() -> Columns {
        Columns { rounds_each: 1, all: Vec::new(), last: None, changed: 0, is_regrouped: false }
    }
}

impl Columns {
    /// The columns in order.
    pub fn all(&self) -> &[Column] {
        &self.all
    }

    /// A round began; true if columns were added up for it, each with its right neighbour.
    pub(super) fn begin(&mut self, round: u64, at_us: u64, function: Option<u32>) -> bool {
        // Numbers rise; a file in which they do not says nothing that can be drawn.
        if self.last.is_some_and(|last| round <= last) {
            return false;
        }
        self.last = Some(round);
        let new = Column::begun(round, at_us, function.map_or(SEVERAL, |number| number as i32));
        let full = self.rounds_each;
        if let Some(last) = self.all.last_mut().filter(|last| last.count < full) {
            last.merge(&new);
            self.change(self.all.len() - 1);
            return false;
        }
        let must_group = self.all.len() == COLUMNS_MAX;
        if must_group {
            self.group();
        }
        self.all.push(new);
        self.change(self.all.len() - 1);
        must_group
    }

    /// Adds up pairs of neighbours.
    fn group(&mut self) {
        let pair = |pair: &[Column]| {
            let mut sum = pair[0].clone();
            pair.iter().skip(1).for_each(|next| sum.merge(next));
            sum
        };
        self.all = self.all.chunks(2).map(pair).collect();
        self.rounds_each = self.rounds_each.saturating_mul(2);
        self.is_regrouped = true;
    }

    /// A round has its value.
    pub(super) fn done(&mut self, round: u64, at_us: u64, report: &RoundReport, recalled: bool) {
        let Some(at) = self.of_round(round) else { return };
        self.change(at);
        let column = &mut self.all[at];
        let sum = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        // Data are cut before the round is recorded, and that is part of its time.
        column.began_us = column.began_us.min(at_us.saturating_sub(report.total_us));
        column.ended_us = column.ended_us.max(at_us);
        sum(&mut column.worker_us, report.worker_us);
        sum(&mut column.master_us, report.master_us);
        sum(&mut column.overhead_us, report.overhead_us);
        sum(&mut column.bytes_out, report.bytes_out);
        sum(&mut column.bytes_in, report.bytes_in);
        sum(&mut column.hits, report.cache_hits);
        sum(&mut column.misses, report.cache_misses);
        sum(&mut column.again, report.retries.saturating_add(report.backups));
        column.recalled = column.recalled.saturating_add(u32::from(recalled));
        column.unfinished = column.unfinished.saturating_sub(1);
    }

    /// A round failed.
    pub(super) fn failed(&mut self, round: u64, at_us: u64) {
        let Some(at) = self.of_round(round) else { return };
        self.change(at);
        self.all[at].ended_us = self.all[at].ended_us.max(at_us);
    }

    /// The column of a round, by its number. Numbers rise from column to column.
    pub(super) fn of_round(&self, round: u64) -> Option<usize> {
        self.all.partition_point(|column| column.first <= round).checked_sub(1)
    }

    fn change(&mut self, at: usize) {
        self.changed = self.changed.min(at);
    }

    /// What has changed since this was asked last: all columns from some place on.
    pub(super) fn changes(&mut self) -> Option<Tail<'_>> {
        let from = if self.is_regrouped { 0 } else { self.changed };
        self.is_regrouped = false;
        self.changed = self.all.len();
        (from < self.all.len()).then_some(Tail { columns: self, from })
    }
}

impl Serialize for Columns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Tail { columns: self, from: 0 }.serialize(serializer)
    }
}

/// The columns from some place on, as lists of equal length.
pub(super) struct Tail<'a> {
    columns: &'a Columns,
    from: usize,
}

/// One number of each column.
struct List<'a, T>(&'a [Column], fn(&Column) -> T);

impl<T: Serialize> Serialize for List<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(self.1))
    }
}

impl Serialize for Tail<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let columns = &self.columns.all[self.from..];
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("rounds_each", &self.columns.rounds_each)?;
        map.serialize_entry("from", &self.from)?;
        map.serialize_entry("first", &List(columns, |c| c.first))?;
        map.serialize_entry("count", &List(columns, |c| c.count))?;
        map.serialize_entry("began_us", &List(columns, |c| c.began_us))?;
        map.serialize_entry("ended_us", &List(columns, |c| c.ended_us))?;
        map.serialize_entry("function", &List(columns, |c| c.function))?;
        map.serialize_entry("worker_us", &List(columns, |c| c.worker_us))?;
        map.serialize_entry("master_us", &List(columns, |c| c.master_us))?;
        map.serialize_entry("overhead_us", &List(columns, |c| c.overhead_us))?;
        map.serialize_entry("bytes_out", &List(columns, |c| c.bytes_out))?;
        map.serialize_entry("bytes_in", &List(columns, |c| c.bytes_in))?;
        map.serialize_entry("hits", &List(columns, |c| c.hits))?;
        map.serialize_entry("misses", &List(columns, |c| c.misses))?;
        map.serialize_entry("again", &List(columns, |c| c.again))?;
        map.serialize_entry("recalled", &List(columns, |c| c.recalled))?;
        map.serialize_entry("unfinished", &List(columns, |c| c.unfinished))?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_added_up_in_pairs_and_lose_nothing() {
        let mut columns = Columns::default();
        let report = RoundReport { total_us: 5, worker_us: 3, bytes_in: 7, ..RoundReport::default() };
        let rounds = 10_000;
        let mut grouped = 0;
        for round in 0..rounds {
            grouped += u32::from(columns.begin(round, round * 10, Some((round % 2) as u32)));
            columns.done(round, round * 10 + 9, &report, round == 4);
            assert!(columns.all.len() <= COLUMNS_MAX);
        }
        assert_eq!((grouped, columns.rounds_each), (3, 8));
        let sum = |of: fn(&Column) -> u64| columns.all.iter().map(of).sum::<u64>();
        assert_eq!(sum(|c| u64::from(c.count)), rounds);
        assert_eq!((sum(|c| c.worker_us), sum(|c| c.bytes_in)), (3 * rounds, 7 * rounds));
        assert_eq!((sum(|c| u64::from(c.recalled)), sum(|c| u64::from(c.unfinished))), (1, 0));
        assert!(columns.all.iter().all(|c| c.function == SEVERAL && c.first % 8 == 0));
    }

    #[test]
    fn changes_are_the_columns_from_the_first_that_changed() {
        let mut columns = Columns::default();
        for round in 0..4 {
            columns.begin(round, round, None);
        }
        assert_eq!(columns.changes().map(|tail| tail.from), Some(0));
        assert!(columns.changes().is_none());
        columns.failed(2, 9);
        assert_eq!(columns.changes().map(|tail| tail.from), Some(2));
        columns.done(99, 1, &RoundReport::default(), false);
        assert_eq!(
            columns.changes().map(|tail| tail.from),
            Some(3),
            "a round of which nothing is known is the last"
        );
        assert!(!columns.begin(3, 5, None), "a number that does not rise is passed over");
        assert!(columns.changes().is_none());
    }
}
