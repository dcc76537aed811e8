//! Rows as k-means sees them, dense or sparse.
//!
//! [`Points`] are the kinds of chunks that can be clustered. A chunk is looked at through [`View`], which has what the
//! algorithm needs of its rows and no more, so that starts, iterations, bounds and batches are written once. Scores are
//! the same to the bit for a row however it is stored, and so are sums, since zeros change neither; a sparse matrix and
//! the same in dense form, in one cut, go through the same centres.
//!
//! *Weights* are the last column of dense rows and the labels of sparse ones.

use super::lloyd::Sums;
use super::touched::Touched;
use crate::kernels::Level;
use crate::kernels::nearest::{Panels, Real, Rows, distance_error, square};
use crate::kernels::sparse::{Lines, Sparse};
use qjam::source::kept::{Keep, RowsWriter, SparseWriter};
use qjam::{Chunk, Csr, Ctx, DataError, DataSet, DecodeError, Decoder, Dense, Encoder, State, Wire};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};

/// Chunks whose rows are points: `Dense<f32>`, `Dense<f64>`, `Csr<f32>`, `Csr<f64>`.
pub trait Points: Chunk {
    /// What coordinates are.
    type Number: Real;
    /// Rows of such a chunk.
    type View<'a>: View<Self::Number>
    where
        Self: 'a;

    /// Number of rows.
    fn count(&self) -> usize;

    /// Number of coordinates, if weights are asked for or not; `None` if there are no weights to be had.
    fn dims(&self, weighted: bool) -> Option<usize>;

    /// Its rows with their weights, if these are asked for.
    fn view(&self, weighted: bool) -> Self::View<'_>;

    /// About how many numbers are stored for each row.
    fn row_values(data: &DataSet<Self>, dims: usize) -> f64;

    /// What writes chunks of this kind anew.
    type Writer;

    /// Begins to write rows like those of this chunk.
    fn writer(&self, keep: &Keep) -> Result<Self::Writer, DataError>;

    /// Writes the rows all of whose numbers are finite, with their weights.
    fn write_usable(&self, weighted: bool, to: &mut Self::Writer) -> Result<(), DataError>;

    /// All that was written, of which this chunk was the first.
    fn written(&self, writer: Self::Writer) -> Result<DataSet<Self>, DataError>;
}

/// Sums of more numbers are not kept in a cache while rows come in any order.
pub(super) const ADD_IN_ORDER_MAX: usize = 1 << 15;

/// Shorter rows are added where they are met: choosing wide instructions would take longer.
const ADD_WIDE_MIN: usize = 64;

/// Rows of one chunk.
pub trait View<T: Real>: Copy {
    /// How many.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Coordinates of a row.
    fn dims(&self) -> usize;

    /// Some that follow each other.
    fn part(&self, range: Range<usize>) -> Self;

    /// Writes for every row the index of its nearest centre.
    fn nearest(&self, panels: &Panels<T>, out: &mut [u32]);

    /// The same for the rows in a list.
    fn nearest_of(&self, panels: &Panels<T>, list: &[u32], out: &mut [u32]);

    /// Writes the scores of the rows in `list` and all centres of one panel, [`Real::WIDTH`] for each row.
    fn scores(&self, panels: &Panels<T>, panel: usize, list: &[u32], out: &mut [T]);

    /// Squared length of a row.
    fn square(&self, i: usize) -> f64;

    /// Products in the chain of a score: how many roundings it has.
    fn terms(&self, i: usize) -> usize;

    /// Weight of a row.
    fn weight(&self, i: usize) -> f64;

    /// Adds a row times its weight to sums by column, and returns the weight.
    fn add(&self, i: usize, sums: &mut [f64]) -> f64;

    /// Whether sums want all rows of a chunk together, rather than some at a time while they are in a cache.
    const AT_ONCE: bool = false;

    /// Adds all rows to the sums of their centres; those of each centre in order.
    fn add_all(&self, nearest: &[u32], sums: &mut Sums) {
        // Sums that fill a cache are added to centre after centre: each then stays in the nearest one.
        if sums.sums.len() <= ADD_IN_ORDER_MAX {
            nearest.iter().enumerate().for_each(|(i, centre)| sums.add(*centre as usize, *self, i));
            return;
        }
        let mut places = vec![0; sums.weights.len() + 1];
        nearest.iter().for_each(|centre| places[*centre as usize + 1] += 1);
        (1..places.len()).for_each(|n| places[n] += places[n - 1]);
        let mut order = vec![0_u32; nearest.len()];
        for (i, centre) in nearest.iter().enumerate() {
            let place = &mut places[*centre as usize];
            order[*place] = i as u32;
            *place += 1;
        }
        order.iter().for_each(|i| sums.add(nearest[*i as usize] as usize, *self, *i as usize));
    }

    /// Sets the bits of the columns for which a row has values stored.
    fn mark(&self, i: usize, marks: &mut [u64]);

    /// Adds the rows in a list to the sums of their centres, which are empty so far, in order.
    fn add_listed(&self, list: &[u32], nearest: &[u32], sums: &mut Sums) {
        let values = list.iter().map(|i| self.terms(*i as usize)).sum();
        if Touched::worthwhile(values, sums.weights.len(), self.dims()) {
            sums.touched = Touched::of(*self, list, nearest, &mut sums.weights);
            sums.sums = vec![];
        } else {
            list.iter().zip(nearest).for_each(|(i, centre)| sums.add(*centre as usize, *self, *i as usize));
        }
    }

    /// The squared distance of a row and a centre, in doubles; `square` is what [`chained_square`] says of the centre.
    fn squared_distance(&self, i: usize, centre: &[T], square: f64) -> f64;

    /// Its rows where all coordinates are stored.
    fn dense(&self) -> Option<Rows<'_, T>> {
        None
    }

    /// The squared distance of a row and a centre, within `distance_error`, and at least their distance; `None` where that
    /// would be as much work as comparing the row with other centres.
    fn measured(&self, i: usize, centre: &[T]) -> Option<(f64, f64)> {
        let _ = (i, centre);
        None
    }

    /// By how much of the squared lengths of a row and a centre [`View::squared_distance`] may be off
    /// [`View::differences`].
    fn distance_error(&self) -> f64;

    /// The squared distance of a row and a centre as the sum of squared differences in all columns, in doubles: the same
    /// for a row however it is stored.
    fn differences(&self, i: usize, centre: &[T]) -> f64;

    /// Appends the coordinates of a row.
    fn copy(&self, i: usize, to: &mut Vec<T>);

    /// A point that the rows may lie near to, from which [`View::moments`] are counted; nothing for the origin.
    fn origin(&self) -> Vec<f64>;

    /// Adds a row and its squares, counted from `origin` and times `weight`, to sums by column. Returns its largest size,
    /// or NaN if a number of it is none.
    fn moments(&self, i: usize, weight: f64, origin: &[f64], sums: &mut [f64], squares: &mut [f64]) -> f64;

    /// The first number of a row that is not finite, and its column.
    fn unusable(&self, i: usize) -> Option<(u64, f64)>;
}

impl<T: Real> Points for Dense<T> {
    type Number = T;
    type View<'a> = DenseRows<'a, T>;

    fn count(&self) -> usize {
        self.rows()
    }

    fn dims(&self, weighted: bool) -> Option<usize> {
        self.cols().checked_sub(usize::from(weighted))
    }

    fn view(&self, weighted: bool) -> DenseRows<'_, T> {
        DenseRows(Rows::new(self.as_slice(), self.cols(), self.cols() - usize::from(weighted)))
    }

    fn row_values(_: &DataSet<Self>, dims: usize) -> f64 {
        dims as f64
    }

    type Writer = RowsWriter<T>;

    fn writer(&self, keep: &Keep) -> Result<RowsWriter<T>, DataError> {
        RowsWriter::create(keep, self.cols())
    }

    fn write_usable(&self, _: bool, to: &mut RowsWriter<T>) -> Result<(), DataError> {
        // Whether the last column is a weight or not: it must be finite.
        let usable = |row: &&[T]| row.iter().all(|v| v.to_f64().is_finite());
        self.rows_iter().filter(usable).try_for_each(|row| to.push(row))
    }

    fn written(&self, writer: RowsWriter<T>) -> Result<DataSet<Self>, DataError> {
        writer.finish(vec![])
    }
}

/// Rows of a dense matrix, whose weights follow their coordinates.
#[derive(Clone, Copy, Debug)]
pub struct DenseRows<'a, T>(pub Rows<'a, T>);

impl<T: Real> View<T> for DenseRows<'_, T> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn dims(&self) -> usize {
        self.0.dims()
    }

    fn part(&self, range: Range<usize>) -> Self {
        DenseRows(self.0.part(range))
    }

    fn nearest(&self, panels: &Panels<T>, out: &mut [u32]) {
        T::nearest(Level::best(), panels, self.0, out);
    }

    fn nearest_of(&self, panels: &Panels<T>, list: &[u32], out: &mut [u32]) {
        let mut rows = Vec::with_capacity(list.len() * self.dims());
        list.iter().for_each(|i| rows.extend_from_slice(self.0.row(*i as usize)));
        T::nearest(Level::best(), panels, Rows::new(&rows, self.dims(), self.dims()), out);
    }

    fn scores(&self, panels: &Panels<T>, panel: usize, list: &[u32], out: &mut [T]) {
        T::scores(Level::best(), panels, panel, self.0, list, out);
    }

    fn square(&self, i: usize) -> f64 {
        square(self.0.row(i))
    }

    fn terms(&self, _: usize) -> usize {
        self.dims()
    }

    fn weight(&self, i: usize) -> f64 {
        self.0.rest(i).first().map_or(1.0, |w| w.to_f64())
    }

    #[inline(always)]
    fn add(&self, i: usize, sums: &mut [f64]) -> f64 {
        let (row, weight) = (self.0.row(i), self.weight(i));
        if row.len() >= ADD_WIDE_MIN {
            T::add_to(Level::best(), row, weight, sums);
        } else {
            sums.iter_mut().zip(row).for_each(|(s, v)| *s += weight * v.to_f64());
        }
        weight
    }

    fn mark(&self, _: usize, marks: &mut [u64]) {
        let (whole, rest) = (self.dims() / 64, self.dims() % 64);
        marks[..whole].fill(u64::MAX);
        if rest > 0 {
            marks[whole] = (1 << rest) - 1;
        }
    }

    fn squared_distance(&self, i: usize, centre: &[T], _: f64) -> f64 {
        squared_distance(self.0.row(i), centre)
    }

    fn dense(&self) -> Option<Rows<'_, T>> {
        Some(self.0)
    }

    fn measured(&self, i: usize, centre: &[T]) -> Option<(f64, f64)> {
        let mut square = [0.0];
        T::distances(Level::best(), self.0.row(i), centre, &[0], &mut square);
        let (share, more) = distance_error::<T>(self.dims());
        Some((square[0], (square[0] * (1.0 + share) + more).sqrt() * (1.0 + 1e-12)))
    }

    fn distance_error(&self) -> f64 {
        0.0
    }

    fn differences(&self, i: usize, centre: &[T]) -> f64 {
        squared_distance(self.0.row(i), centre)
    }

    fn copy(&self, i: usize, to: &mut Vec<T>) {
        to.extend_from_slice(self.0.row(i));
    }

    fn origin(&self) -> Vec<f64> {
        let first = (0..self.len()).find(|i| self.unusable(*i).is_none());
        first.map_or(vec![0.0; self.dims()], |i| self.0.row(i).iter().map(|v| v.to_f64()).collect())
    }

    fn moments(&self, i: usize, weight: f64, origin: &[f64], sums: &mut [f64], squares: &mut [f64]) -> f64 {
        let (mut largest, mut unusable) = (0.0_f64, 0.0);
        let row = self.0.row(i).iter().zip(origin).zip(sums.iter_mut().zip(squares));
        for ((v, origin), (sum, square)) in row {
            let v = v.to_f64();
            let d = v - origin;
            *sum += weight * d;
            *square += weight * d * d;
            largest = largest.max(v.abs());
            // 0, or NaN.
            unusable += v * 0.0;
        }
        largest + unusable
    }

    fn unusable(&self, i: usize) -> Option<(u64, f64)> {
        let mut row = self.0.row(i).iter().map(|v| v.to_f64()).enumerate();
        row.find(|(_, v)| !v.is_finite()).map(|(column, v)| (column as u64, v))
    }
}

impl<T: Sparse> Points for Csr<T> {
    type Number = T;
    type View<'a> = SparseRows<'a, T>;

    fn count(&self) -> usize {
        self.rows()
    }

    fn dims(&self, weighted: bool) -> Option<usize> {
        (!weighted || self.labels().is_some()).then_some(self.cols())
    }

    fn view(&self, weighted: bool) -> SparseRows<'_, T> {
        SparseRows { lines: self.into(), weights: self.labels().filter(|_| weighted) }
    }

    fn row_values(data: &DataSet<Self>, _: usize) -> f64 {
        // What a row takes besides its values is some bytes; a guess is enough to decide by.
        data.bytes() as f64 / (data.records() * (size_of::<T>() as u64 + 4)) as f64
    }

    type Writer = SparseWriter<T>;

    fn writer(&self, keep: &Keep) -> Result<SparseWriter<T>, DataError> {
        Ok(SparseWriter::create(keep, self.labels().is_some()))
    }

    fn write_usable(&self, weighted: bool, to: &mut SparseWriter<T>) -> Result<(), DataError> {
        let (mut starts, mut columns, mut values) = (vec![0], vec![], vec![]);
        let mut labels = self.labels().map(|_| vec![]);
        let rows = self.view(weighted);
        for i in (0..rows.len()).filter(|i| rows.unusable(*i).is_none() && rows.weight(*i).is_finite()) {
            let (places, numbers) = self.row(i);
            columns.extend_from_slice(places);
            values.extend_from_slice(numbers);
            starts.push(columns.len() as u64);
            if let (Some(labels), Some(all)) = (&mut labels, self.labels()) {
                labels.push(all[i]);
            }
        }
        let usable = Csr::from_vecs(starts, columns, values, self.cols(), labels);
        to.push(&usable.map_err(|source| DataError::Chunk { index: 0, source })?)
    }

    fn written(&self, writer: SparseWriter<T>) -> Result<DataSet<Self>, DataError> {
        writer.finish(self.cols() as u64, vec![])
    }
}

/// Rows of a sparse matrix.
#[derive(Clone, Copy, Debug)]
pub struct SparseRows<'a, T> {
    lines: Lines<'a, T>,
    weights: Option<&'a [T]>,
}

impl<T: Sparse> View<T> for SparseRows<'_, T> {
    fn len(&self) -> usize {
        self.lines.len()
    }

    fn dims(&self) -> usize {
        self.lines.across()
    }

    fn part(&self, range: Range<usize>) -> Self {
        SparseRows { lines: self.lines.part(range.clone()), weights: self.weights.map(|w| &w[range]) }
    }

    fn nearest(&self, panels: &Panels<T>, out: &mut [u32]) {
        T::nearest_lines(Level::best(), panels, self.lines, out);
    }

    fn nearest_of(&self, panels: &Panels<T>, list: &[u32], out: &mut [u32]) {
        let (mut lowest, mut scores) =
            (vec![T::INFINITY; list.len()], vec![T::default(); list.len() * T::WIDTH]);
        out.fill(0);
        for panel in 0..panels.len() {
            self.scores(panels, panel, list, &mut scores);
            for ((out, lowest), scores) in out.iter_mut().zip(&mut lowest).zip(scores.chunks_exact(T::WIDTH))
            {
                for (lane, score) in scores.iter().enumerate() {
                    if *score < *lowest {
                        (*out, *lowest) = ((panel * T::WIDTH + lane) as u32, *score);
                    }
                }
            }
        }
    }

    fn scores(&self, panels: &Panels<T>, panel: usize, list: &[u32], out: &mut [T]) {
        T::scores_of_lines(Level::best(), panels, panel, self.lines, list, out);
    }

    fn square(&self, i: usize) -> f64 {
        square(self.lines.line(i).1)
    }

    fn terms(&self, i: usize) -> usize {
        self.lines.stored(i)
    }

    fn weight(&self, i: usize) -> f64 {
        self.weights.map_or(1.0, |w| w[i].to_f64())
    }

    fn add(&self, i: usize, sums: &mut [f64]) -> f64 {
        let (places, values) = self.lines.line(i);
        let places = places.iter().zip(values);
        match self.weights {
            None => {
                places.for_each(|(place, v)| sums[*place as usize] += v.to_f64());
                1.0
            }
            Some(weights) => {
                let weight = weights[i].to_f64();
                places.for_each(|(place, v)| sums[*place as usize] += weight * v.to_f64());
                weight
            }
        }
    }

    const AT_ONCE: bool = true;

    fn add_all(&self, nearest: &[u32], sums: &mut Sums) {
        let all: Vec<u32> = (0..nearest.len() as u32).collect();
        self.add_listed(&all, nearest, sums);
    }

    fn mark(&self, i: usize, marks: &mut [u64]) {
        self.lines.line(i).0.iter().for_each(|p| marks[*p as usize / 64] |= 1 << (p % 64));
    }

    /// Where the row has values, by differences; elsewhere the centre's own, which are all of it less those. Both sums are
    /// single chains in the order of columns, so a row that is the centre has the distance 0 and not nearly so.
    fn squared_distance(&self, i: usize, centre: &[T], square: f64) -> f64 {
        let (places, values) = self.lines.line(i);
        let (mut near, mut of_centre) = (0.0, 0.0);
        for (place, v) in places.iter().zip(values) {
            let c = centre[*place as usize].to_f64();
            let d = v.to_f64() - c;
            near += d * d;
            of_centre += c * c;
        }
        near + (square - of_centre).max(0.0)
    }

    fn distance_error(&self) -> f64 {
        4.0 * f64::EPSILON * (self.dims() as f64 + 16.0)
    }

    fn differences(&self, i: usize, centre: &[T]) -> f64 {
        let mut row = Vec::with_capacity(self.dims());
        self.copy(i, &mut row);
        squared_distance(&row, centre)
    }

    fn copy(&self, i: usize, to: &mut Vec<T>) {
        let from = to.len();
        to.resize(from + self.dims(), T::default());
        let (places, values) = self.lines.line(i);
        for (place, v) in places.iter().zip(values) {
            to[from + *place as usize] = *v;
        }
    }

    /// Most columns of most rows are 0.
    fn origin(&self) -> Vec<f64> {
        vec![]
    }

    fn moments(&self, i: usize, weight: f64, _: &[f64], sums: &mut [f64], squares: &mut [f64]) -> f64 {
        let (places, values) = self.lines.line(i);
        let (mut largest, mut unusable) = (0.0_f64, 0.0);
        for (place, v) in places.iter().zip(values) {
            let (place, v) = (*place as usize, v.to_f64());
            sums[place] += weight * v;
            squares[place] += weight * v * v;
            largest = largest.max(v.abs());
            unusable += v * 0.0;
        }
        largest + unusable
    }

    fn unusable(&self, i: usize) -> Option<(u64, f64)> {
        let (places, values) = self.lines.line(i);
        let mut row = places.iter().zip(values.iter().map(|v| v.to_f64()));
        row.find(|(_, v)| !v.is_finite()).map(|(place, v)| (u64::from(*place), v))
    }
}

/// What the rows of a chunk remember, whatever the kind of the chunk.
pub trait Memory: Wire + Clone {
    /// Before the first round, of so many rows.
    fn begin(rows: usize) -> Self;
}

/// The memory of a chunk of one kind: a state has to say which. Run files know states by the names of their types, so this name stays:
/// under another, earlier runs could not be resumed.
pub struct Kept<C, M> {
    memory: M,
    kind: PhantomData<fn(&C)>,
}

impl<C: Points, M: Memory> State for Kept<C, M> {
    type Chunk = C;

    fn init(x: &C, _: &Ctx) -> Self {
        Kept { memory: M::begin(x.count()), kind: PhantomData }
    }
}

impl<C, M> Deref for Kept<C, M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.memory
    }
}

impl<C, M> DerefMut for Kept<C, M> {
    fn deref_mut(&mut self) -> &mut M {
        &mut self.memory
    }
}

impl<C, M: Clone> Clone for Kept<C, M> {
    fn clone(&self) -> Self {
        Kept { memory: self.memory.clone(), kind: PhantomData }
    }
}

impl<C: 'static, M: Memory> Wire for Kept<C, M> {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        self.memory.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(Kept { memory: M::decode(input)?, kind: PhantomData })
    }
}

/// The squared distance of two points in doubles, by differences and in eight partial sums.
pub(super) fn squared_distance<T: Real>(a: &[T], b: &[T]) -> f64 {
    let mut square = [0.0];
    T::squared_distances(a, b, &mut square);
    square[0]
}

/// The squared length of a centre as [`View::squared_distance`] wants it: one chain in the order of columns.
pub(super) fn chained_square<T: Real>(centre: &[T]) -> f64 {
    centre.iter().fold(0.0, |sum, c| sum + c.to_f64() * c.to_f64())
}
