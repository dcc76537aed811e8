//! How rows are cut for steps over a few of them, and which rows make up a step.
//!
//! ```text
//!   rows      ├────chunk 0────┼────chunk 1────┼────chunk 2────┼────chunk 3────┤     here two pieces and two windows
//!   windows      chunks 0 and 2 ── steps 0, 1, 2 …    then    chunks 1 and 3 ── steps 0, 1, 2 …
//!   a step       some rows of chunk 0 and some of chunk 2, drawn without replacement until all were had
//! ```
//!
//! A step is one round over the chunks of a window, each of which has a share of its rows: as many pieces as keep the work on a piece
//! above what its gradient costs on its way. Data of a few dozen megabytes is one window. Larger data is visited window by
//! window, in another order in every epoch, so that a chunk is read once in an epoch however little of it fits into memory.
//!
//! All of it follows from rows, columns, options and seed, and not from workers.

use super::map::Request;
use super::source::Source;
use qjam::{DataError, DataSet, Rng};
use std::ops::Range;

/// Rows that a piece of a step has at least: the gradient of fewer takes longer to be added than to be found.
const PIECE_ROWS: usize = 48;
/// Pieces of a step at most.
const PIECES_MAX: usize = 16;
/// Rows of a chunk at least, and number of chunks at most, where all rows are taken.
const FULL_ROWS: u64 = 256;
const FULL_MAX: u64 = 64;
/// Bytes of a chunk at most, in mean.
const CHUNK_BYTES_MAX: u64 = 16 << 20;

/// Numbers that belong to rows: the index of a class or numbers for each, and weights.
#[derive(Clone, Copy, Debug)]
pub(super) struct Targets<'a> {
    pub(super) values: &'a [f64],
    /// Numbers for each row.
    pub(super) per_row: usize,
    pub(super) weights: Option<&'a [f64]>,
}

impl Targets<'_> {
    fn extend(&self, request: &mut Request, row: usize) {
        let values = &self.values[row * self.per_row..][..self.per_row];
        request.targets.extend_from_slice(values);
        request.weights.extend(self.weights.map(|weights| weights[row]));
    }
}

/// Rows in chunks as equal as can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Equal {
    rows: u64,
    chunks: u64,
}

impl Equal {
    fn of_chunk(self, chunk: u64) -> Range<usize> {
        let start = |chunk: u64| chunk * (self.rows / self.chunks) + chunk.min(self.rows % self.chunks);
        start(chunk) as usize..start(chunk + 1) as usize
    }
}

/// All rows in one request, for the chunks that [`full`] made.
pub(super) fn take_all(request: &mut Request, chunks: usize, rows: u64, targets: Targets<'_>) {
    let equal = Equal { rows, chunks: chunks as u64 };
    request.starts =
        (0..chunks as u64).map(|chunk| equal.of_chunk(chunk).start as u64).chain([rows]).collect();
    request.rows.clear();
    request.targets = targets.values.to_vec();
    request.weights = targets.weights.unwrap_or_default().to_vec();
}

/// The cut for rounds over all rows.
pub(super) fn full<C: Source>(data: &DataSet<C>) -> Result<DataSet<C>, DataError> {
    let (rows, least) = (data.records(), data.bytes().div_ceil(CHUNK_BYTES_MAX));
    data.partitions((rows / FULL_ROWS).clamp(1, FULL_MAX).max(least).min(rows) as usize)
}

/// What steps need to know of what was chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drawing {
    /// Rows of a step, about.
    pub(super) batch: usize,
    /// Whether rows are drawn by chance, and not in their order.
    pub(super) shuffle: bool,
    /// Share of the rows that is kept from training.
    pub(super) kept: f64,
    pub(super) seed: u64,
}

/// A data set that is cut for steps.
pub(super) struct Steps<C> {
    windows: Vec<DataSet<C>>,
    /// All chunks, for rounds over the rows that are kept from training.
    all: DataSet<C>,
    pieces: usize,
    equal: Equal,
    drawing: Drawing,
}

impl<C: Source> Steps<C> {
    pub(super) fn new(data: &DataSet<C>, drawing: Drawing) -> Result<Steps<C>, DataError> {
        let rows = data.records();
        let batch = (drawing.batch as u64).min(rows) as usize;
        // A power of two, so that even numbers of workers have even shares.
        let pieces = (batch / PIECE_ROWS).clamp(1, PIECES_MAX);
        let pieces = 1 << pieces.ilog2();
        let windows = data.bytes().div_ceil(pieces as u64 * CHUNK_BYTES_MAX).max(1);
        let windows = windows.min((rows / pieces as u64).max(1)) as usize;
        let all = data.partitions(pieces * windows)?;
        let chunks = |window: usize| (0..pieces).map(|piece| piece * windows + window).collect::<Vec<_>>();
        let of_window = |window| match windows {
            1 => Ok(all.clone()),
            _ => all.selected(&chunks(window)),
        };
        let equal = Equal { rows, chunks: all.len() as u64 };
        let windows = (0..windows).map(of_window).collect::<Result<_, DataError>>()?;
        Ok(Steps { windows, all, pieces, equal, drawing: Drawing { batch, ..drawing } })
    }

    /// Rows to learn from.
    pub(super) fn training(&self) -> u64 {
        self.equal.rows - self.kept()
    }

    /// Rows kept from training.
    pub(super) fn kept(&self) -> u64 {
        self.before(self.equal.rows)
    }

    /// Of so many first rows, how many are kept from training.
    fn before(&self, rows: u64) -> u64 {
        (rows as f64 * self.drawing.kept).floor() as u64
    }

    /// Rows of a chunk to learn from, and those that are not; the latter are the same in all epochs.
    fn parted(&self, chunk: usize) -> (Vec<u32>, Vec<u32>) {
        let range = self.equal.of_chunk(chunk as u64);
        let kept = (self.before(range.end as u64) - self.before(range.start as u64)) as usize;
        let mut rows: Vec<u32> = (0..range.len() as u32).collect();
        if kept > 0 {
            shuffle(&mut rows, &mut Rng::keyed(self.drawing.seed ^ PARTED, 0, chunk as u32));
        }
        let mut last = rows.split_off(range.len() - kept);
        // Those that are left stay in their order.
        rows.sort_unstable();
        last.sort_unstable();
        (rows, last)
    }

    /// Chunks of a window.
    fn chunk(&self, window: usize, piece: usize) -> usize {
        piece * self.windows.len() + window
    }

    /// The data set, with a request for the rows that are kept from training.
    pub(super) fn take_kept(&self, request: &mut Request, targets: Targets<'_>) -> DataSet<C> {
        clear(request);
        for chunk in 0..self.all.len() {
            let first = self.equal.of_chunk(chunk as u64).start;
            let kept = self.parted(chunk).1;
            kept.iter().for_each(|row| targets.extend(request, first + *row as usize));
            request.rows.extend(kept);
            request.starts.push(request.rows.len() as u64);
        }
        self.all.clone()
    }

    /// Calls `step` for every step of an epoch, with the chunks to be visited and a request for its rows; `false` ends the epoch.
    pub(super) fn epoch<E>(
        &self,
        epoch: u64,
        request: &mut Request,
        targets: Targets<'_>,
        mut step: impl FnMut(&mut Request, &DataSet<C>) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let mut order: Vec<u32> = (0..self.windows.len() as u32).collect();
        if self.drawing.shuffle {
            shuffle(&mut order, &mut Rng::keyed(self.drawing.seed ^ ORDER, epoch, u32::MAX));
        }
        for window in order.into_iter().map(|window| window as usize) {
            let rows: Vec<Vec<u32>> =
                (0..self.pieces).map(|piece| self.drawn(epoch, window, piece)).collect();
            let all: usize = rows.iter().map(Vec::len).sum();
            let steps = all.div_ceil(self.drawing.batch);
            for number in 0..steps {
                clear(request);
                for (piece, rows) in rows.iter().enumerate() {
                    let first = self.equal.of_chunk(self.chunk(window, piece) as u64).start;
                    let share = rows.len() * number / steps..rows.len() * (number + 1) / steps;
                    for row in &rows[share] {
                        request.rows.push(*row);
                        targets.extend(request, first + *row as usize);
                    }
                    request.starts.push(request.rows.len() as u64);
                }
                if !request.rows.is_empty() && !step(request, &self.windows[window])? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The rows of a piece that are to be learnt from, in the order of this epoch.
    fn drawn(&self, epoch: u64, window: usize, piece: usize) -> Vec<u32> {
        let chunk = self.chunk(window, piece);
        let mut rows = self.parted(chunk).0;
        if self.drawing.shuffle {
            shuffle(&mut rows, &mut Rng::keyed(self.drawing.seed ^ DRAWN, epoch, chunk as u32));
        }
        rows
    }
}

/// Random numbers for different purposes must not be the same.
const PARTED: u64 = 0x5bd1_e995_0000_0001;
const ORDER: u64 = 0x5bd1_e995_0000_0002;
const DRAWN: u64 = 0x5bd1_e995_0000_0003;

fn clear(request: &mut Request) {
    request.starts.clear();
    request.starts.push(0);
    request.rows.clear();
    request.targets.clear();
    request.weights.clear();
}

fn shuffle(rows: &mut [u32], random: &mut Rng) {
    for last in (1..rows.len()).rev() {
        rows.swap(last, random.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neural::perceptron::network::{Activation, Network, Output};
    use qjam::Dense;

    fn steps(rows: usize, columns: usize, batch: usize, kept: f64) -> Steps<Dense<f64>> {
        let data = DataSet::dense(vec![0.5; rows * columns], columns).unwrap();
        Steps::new(&data, Drawing { batch, shuffle: true, kept, seed: 3 }).unwrap()
    }

    /// The targets are the numbers of the rows, so that requests say which rows they have.
    fn request() -> Request {
        Request::of(Network::new(&[2, 1], Activation::Relu, Output::Squares).unwrap(), vec![0.0; 3])
    }

    #[test]
    fn an_epoch_has_every_row_once_and_none_that_is_kept() {
        let rows: Vec<f64> = (0..1797).map(f64::from).collect();
        let targets = Targets { values: &rows, per_row: 1, weights: None };
        for (batch, kept) in [(200, 0.0), (200, 0.1), (1, 0.0), (5000, 0.25), (37, 0.1)] {
            let steps = steps(1797, 2, batch, kept);
            let mut request = request();
            steps.take_kept(&mut request, targets);
            assert_eq!(request.targets.len() as u64, steps.kept());
            let mut seen: Vec<u32> = request.targets.iter().map(|row| *row as u32).collect();
            let mut sizes = vec![];
            let step = |request: &mut Request, data: &DataSet<Dense<f64>>| {
                assert_eq!(request.starts.len(), data.len() + 1);
                sizes.push(request.rows.len());
                seen.extend(request.targets.iter().map(|row| *row as u32));
                Ok::<bool, ()>(true)
            };
            assert!(steps.epoch(5, &mut request, targets, step).unwrap());
            seen.sort_unstable();
            assert_eq!(seen, (0..1797).collect::<Vec<u32>>());
            let batch = batch.min(steps.training() as usize);
            assert!(sizes.iter().all(|size| *size <= batch + PIECES_MAX), "{sizes:?} for {batch}");
        }
    }

    #[test]
    fn large_data_is_visited_window_by_window() {
        // 40 MiB and one piece: three windows.
        let steps = steps(20, 1 << 18, 2, 0.0);
        assert_eq!((steps.windows.len(), steps.pieces), (3, 1));
        let rows: Vec<f64> = (0..20).map(f64::from).collect();
        let targets = Targets { values: &rows, per_row: 1, weights: None };
        let (mut request, mut seen) = (request(), vec![]);
        let step = |request: &mut Request, _: &DataSet<Dense<f64>>| {
            seen.extend(request.targets.iter().map(|row| *row as usize));
            Ok::<bool, ()>(true)
        };
        steps.epoch(0, &mut request, targets, step).unwrap();
        let windows: Vec<usize> =
            seen.iter().map(|row| usize::from(*row >= 7) + usize::from(*row >= 14)).collect();
        assert_eq!(windows.chunk_by(|a, b| a == b).count(), 3, "{seen:?}");
        seen.sort_unstable();
        assert_eq!(seen, (0..20).collect::<Vec<usize>>());
    }
}
