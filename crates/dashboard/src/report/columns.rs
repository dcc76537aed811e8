//! Rounds, summed up so that a page stays small.
//!
//! Up to [`COLUMNS_MAX`] rounds have a column each. Of longer runs, a column is the sum of as many neighbouring rounds as are
//! needed, all columns of the same number but the last. The page says how many rounds a column stands for.

use qjam::runs::Round;
use serde::Serialize;

/// A page has so many columns at most.
const COLUMNS_MAX: usize = 1500;

/// Neighbouring rounds as columns; all lists have the same length.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Columns {
    /// Rounds in each column; the last may have fewer.
    pub(super) rounds_each: usize,
    /// Number of the first round.
    pub(super) first: Vec<u64>,
    /// How many rounds.
    pub(super) count: Vec<u32>,
    /// When the first began, in microseconds since the run began.
    pub(super) began_us: Vec<u64>,
    /// When the last ended.
    pub(super) ended_us: Vec<u64>,
    /// The function of all of them, as its place in the list of names, or -1 if they have several.
    pub(super) function: Vec<i32>,
    /// Computing of the slowest worker, added up.
    pub(super) worker_us: Vec<u64>,
    /// Work of the master, added up.
    pub(super) master_us: Vec<u64>,
    /// The rest of the rounds' time, added up.
    pub(super) overhead_us: Vec<u64>,
    /// Bytes to workers.
    pub(super) bytes_out: Vec<u64>,
    /// Bytes from workers.
    pub(super) bytes_in: Vec<u64>,
    /// Chunks that workers had open.
    pub(super) hits: Vec<u64>,
    /// Chunks that had to be sent or opened.
    pub(super) misses: Vec<u64>,
    /// Blocks that were given out again, or to a second worker.
    pub(super) again: Vec<u64>,
    /// Rounds whose value came from an earlier run.
    pub(super) recalled: Vec<u32>,
    /// Rounds that failed, or were not finished.
    pub(super) unfinished: Vec<u32>,
}

impl Columns {
    /// The columns of these rounds, whose functions are numbered by `names`.
    pub(super) fn of(rounds: &[Round], names: &[String]) -> Columns {
        let rounds_each = rounds.len().div_ceil(COLUMNS_MAX).max(1);
        let mut columns = Columns { rounds_each, ..Columns::default() };
        rounds.chunks(rounds_each).for_each(|group| columns.push(group, names));
        columns
    }

    fn push(&mut self, group: &[Round], names: &[String]) {
        let [first, ..] = group else { return };
        let reports = || group.iter().filter_map(|round| round.report.as_ref());
        let sum = |of: fn(&qjam::journal::RoundReport) -> u64| reports().map(of).fold(0, u64::saturating_add);
        let ended = |round: &Round| round.ended_us.unwrap_or(round.began_us);
        // Data are cut before the round is recorded, and that is part of its time.
        let began = |round: &Round| {
            let total_us = round.report.as_ref().map_or(0, |report| report.total_us);
            round.began_us.min(ended(round).saturating_sub(total_us))
        };
        let number_of = |name: &str| names.iter().position(|known| known == name).map_or(-1, |n| n as i32);
        let is_one = group.iter().all(|round| round.function == first.function);
        let count = |of: fn(&&Round) -> bool| group.iter().filter(of).count() as u32;
        self.first.push(first.round);
        self.count.push(group.len() as u32);
        self.began_us.push(began(first));
        self.ended_us.push(group.iter().map(ended).max().unwrap_or(first.began_us));
        self.function.push(if is_one { number_of(&first.function) } else { -1 });
        self.worker_us.push(sum(|report| report.worker_us));
        self.master_us.push(sum(|report| report.master_us));
        self.overhead_us.push(sum(|report| report.overhead_us));
        self.bytes_out.push(sum(|report| report.bytes_out));
        self.bytes_in.push(sum(|report| report.bytes_in));
        self.hits.push(sum(|report| report.cache_hits));
        self.misses.push(sum(|report| report.cache_misses));
        self.again.push(sum(|report| report.retries.saturating_add(report.backups)));
        self.recalled.push(count(|round| round.recalled));
        self.unfinished.push(count(|round| round.report.is_none()));
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.first.len()
    }

    /// The column of a round, by its number. Numbers rise from column to column.
    pub(super) fn of_round(&self, round: u64) -> Option<usize> {
        self.first.partition_point(|first| *first <= round).checked_sub(1)
    }
}
