//! Columns as the local solver sees them: a product with a vector, and adding them to one.
//!
//! A column is sparse ([`Csc`]) or dense (a row of a [`Dense`] chunk, whose chunks hold columns then). Products are added in
//! eight chains, entry `i` of a column in chain `i mod 8`, and the chains in a fixed order; so their bits are those of the
//! column alone. Values may be 32-bit numbers; sums are always doubles.

use super::local::Row;
use crate::kernels::Level;
use qjam::chunk::Element;
use qjam::{Chunk, Csc, Dense};

/// Chains of a sum.
const CHAINS: usize = 8;

/// Bytes of a line of the cache.
const LINE: usize = 64;
/// Entries of a column that are asked for ahead of time, at most.
const ENTRIES_AHEAD: usize = 160;

/// A value of a column: `f32` or `f64`.
pub trait Value: Element + Default + PartialEq + qjam::Wire {
    /// The same number.
    fn wide(self) -> f64;
    /// The nearest one.
    fn nearest(value: f64) -> Self;
}

impl Value for f32 {
    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }
    fn nearest(value: f64) -> f32 {
        value as f32
    }
}

impl Value for f64 {
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
    fn nearest(value: f64) -> f64 {
        value
    }
}

/// A chunk whose lines are columns of the matrix.
pub trait Columns: Chunk {
    /// Number of columns.
    fn columns(&self) -> usize;
    /// Length of a column.
    fn rows(&self) -> usize;
    /// Entries of a column that are stored.
    fn entries(&self, column: usize) -> usize;
    /// Goes through columns as the work says, with the best instructions of this processor.
    #[doc(hidden)]
    fn descend(&self, work: &mut super::local::Work<'_>);
    /// Sum of the squares and sum of a column.
    fn moments(&self, column: usize) -> (f64, f64);
    /// Product of a column with a vector.
    fn dot_with(&self, column: usize, r: &[f64]) -> f64;
    /// Adds a multiple of a column.
    fn add_to(&self, column: usize, factor: f64, to: &mut [f64]);
}

/// The same, borrowed and open to the compiler.
pub(in crate::linear) trait Lines: Copy {
    fn dot(&self, column: usize, r: &[f64]) -> f64;
    /// The same where rows bend differently.
    fn dot_rows(&self, column: usize, rows: &[Row]) -> Products;
    fn add_rows(&self, column: usize, by: f64, rows: &mut [Row]);
    fn add(&self, column: usize, factor: f64, r: &mut [f64]);
    fn entries(&self, column: usize) -> usize;
    /// Asks for the entries of a column ahead of time, of a long one for the first some hundred bytes: what follows one another is
    /// fetched by the processor without being asked.
    fn fetch(&self, column: usize);
    /// Asks for where a column begins.
    fn fetch_place(&self, column: usize);
}

/// Asks for a cache line ahead of time.
#[inline(always)]
pub(in crate::linear) fn fetch<T>(from: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "prefetching reads nothing")]
    // SAFETY: the instruction is a hint; it neither reads nor faults, whatever the address is.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(from.as_ptr().wrapping_add(at).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (from, at);
}

/// The columns of a [`Csc`].
#[derive(Clone, Copy)]
pub(in crate::linear) struct SparseLines<'a, T> {
    starts: &'a [u64],
    rows: &'a [u32],
    values: &'a [T],
}

impl<'a, T: Value> SparseLines<'a, T> {
    /// `length` is that of the vectors that columns are multiplied with.
    fn of(csc: &'a Csc<T>, length: usize) -> Self {
        assert!(length >= csc.rows(), "a vector of {length} for {} rows", csc.rows());
        SparseLines { starts: csc.starts(), rows: csc.rows_at(), values: csc.values() }
    }

    #[inline(always)]
    fn line(&self, column: usize) -> (&'a [u32], &'a [T]) {
        let range = self.starts[column] as usize..self.starts[column + 1] as usize;
        (&self.rows[range.clone()], &self.values[range])
    }
}

#[inline(always)]
fn read(r: &[f64], row: u32) -> f64 {
    #[expect(unsafe_code, reason = "a comparison for every entry costs a third of the time")]
    // SAFETY: a `Csc` has no row at or above its number of rows (checked when it is opened), and `SparseLines` are made
    // for vectors at least that long only.
    unsafe {
        *r.get_unchecked(row as usize)
    }
}

impl<T: Value> Lines for SparseLines<'_, T> {
    #[inline(always)]
    fn dot(&self, column: usize, r: &[f64]) -> f64 {
        let (rows, values) = self.line(column);
        let mut parts = [0.0; CHAINS];
        let (rows, rows_rest) = rows.as_chunks::<CHAINS>();
        let (values, values_rest) = values.as_chunks::<CHAINS>();
        for (rows, values) in rows.iter().zip(values) {
            for i in 0..CHAINS {
                parts[i] += read(r, rows[i]) * values[i].wide();
            }
        }
        for ((part, row), value) in parts.iter_mut().zip(rows_rest).zip(values_rest) {
            *part += read(r, *row) * value.wide();
        }
        total(parts)
    }

    #[inline(always)]
    fn dot_rows(&self, column: usize, rows: &[Row]) -> Products {
        let (places, values) = self.line(column);
        let mut sums = Sums::default();
        for (i, (place, value)) in places.iter().zip(values).enumerate() {
            #[expect(unsafe_code, reason = "a comparison for every entry costs a third of the time")]
            // SAFETY: as in `read`.
            let row = unsafe { rows.get_unchecked(*place as usize) };
            sums.add(i, row, value.wide());
        }
        sums.total()
    }

    #[inline(always)]
    fn add_rows(&self, column: usize, by: f64, rows: &mut [Row]) {
        let (places, values) = self.line(column);
        for (place, value) in places.iter().zip(values) {
            #[expect(unsafe_code, reason = "a comparison for every entry costs a third of the time")]
            // SAFETY: as in `read`.
            let row = unsafe { rows.get_unchecked_mut(*place as usize) };
            move_row(row, by * value.wide());
        }
    }

    #[inline(always)]
    fn add(&self, column: usize, factor: f64, r: &mut [f64]) {
        let (rows, values) = self.line(column);
        for (row, value) in rows.iter().zip(values) {
            #[expect(unsafe_code, reason = "a comparison for every entry costs a third of the time")]
            // SAFETY: as in `read`.
            unsafe {
                *r.get_unchecked_mut(*row as usize) += factor * value.wide();
            }
        }
    }

    #[inline(always)]
    fn entries(&self, column: usize) -> usize {
        (self.starts[column + 1] - self.starts[column]) as usize
    }

    #[inline(always)]
    fn fetch(&self, column: usize) {
        let (from, to) = (self.starts[column] as usize, self.starts[column + 1] as usize);
        let to = to.min(from + ENTRIES_AHEAD);
        for at in (from..to).step_by(LINE / size_of::<u32>()) {
            fetch(self.rows, at);
        }
        for at in (from..to).step_by(LINE / size_of::<T>()) {
            fetch(self.values, at);
        }
    }

    #[inline(always)]
    fn fetch_place(&self, column: usize) {
        fetch(self.starts, column);
    }
}

/// Products of a column with what belongs to its rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::linear) struct Products {
    /// With `r`.
    pub(in crate::linear) r: f64,
    /// Of its squares with how rows bend.
    pub(in crate::linear) bend: f64,
    /// Of itself with how rows bend.
    pub(in crate::linear) along: f64,
    /// With the gradient.
    pub(in crate::linear) w: f64,
}

/// The same while they are added up, in four chains each.
#[derive(Default)]
struct Sums {
    r: [f64; 4],
    bend: [f64; 4],
    along: [f64; 4],
    w: [f64; 4],
}

impl Sums {
    #[inline(always)]
    fn add(&mut self, i: usize, row: &Row, value: f64) {
        let bent = row.bend * value;
        self.r[i & 3] += row.r * value;
        self.bend[i & 3] += bent * value;
        self.along[i & 3] += bent;
        self.w[i & 3] += row.w * value;
    }

    #[inline(always)]
    fn total(&self) -> Products {
        let sum = |p: &[f64; 4]| (p[0] + p[2]) + (p[1] + p[3]);
        Products { r: sum(&self.r), bend: sum(&self.bend), along: sum(&self.along), w: sum(&self.w) }
    }
}

#[inline(always)]
fn move_row(row: &mut Row, by: f64) {
    row.along += by;
    row.r += row.bend * by;
}

/// Adds up chains.
#[inline(always)]
fn total(p: [f64; CHAINS]) -> f64 {
    ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]))
}

/// The rows of a [`Dense`], which are columns here.
#[derive(Clone, Copy)]
pub(in crate::linear) struct DenseLines<'a, T> {
    values: &'a [T],
    rows: usize,
}

impl<'a, T: Value> DenseLines<'a, T> {
    #[inline(always)]
    fn line(&self, column: usize) -> &'a [T] {
        &self.values[column * self.rows..][..self.rows]
    }
}

impl<T: Value> Lines for DenseLines<'_, T> {
    #[inline(always)]
    fn dot(&self, column: usize, r: &[f64]) -> f64 {
        let mut parts = [0.0; CHAINS];
        let (r, r_rest) = r[..self.rows].as_chunks::<CHAINS>();
        let (values, values_rest) = self.line(column).as_chunks::<CHAINS>();
        for (r, values) in r.iter().zip(values) {
            for i in 0..CHAINS {
                parts[i] += r[i] * values[i].wide();
            }
        }
        for ((part, r), value) in parts.iter_mut().zip(r_rest).zip(values_rest) {
            *part += r * value.wide();
        }
        total(parts)
    }

    #[inline(always)]
    fn dot_rows(&self, column: usize, rows: &[Row]) -> Products {
        let mut sums = Sums::default();
        for (i, (row, value)) in rows.iter().zip(self.line(column)).enumerate() {
            sums.add(i, row, value.wide());
        }
        sums.total()
    }

    #[inline(always)]
    fn add_rows(&self, column: usize, by: f64, rows: &mut [Row]) {
        for (row, value) in rows.iter_mut().zip(self.line(column)) {
            move_row(row, by * value.wide());
        }
    }

    #[inline(always)]
    fn add(&self, column: usize, factor: f64, r: &mut [f64]) {
        for (r, value) in r.iter_mut().zip(self.line(column)) {
            *r += factor * value.wide();
        }
    }

    #[inline(always)]
    fn entries(&self, _: usize) -> usize {
        self.rows
    }

    #[inline(always)]
    fn fetch(&self, column: usize) {
        let from = column * self.rows;
        for at in (from..from + self.rows.min(ENTRIES_AHEAD)).step_by(LINE / size_of::<T>()) {
            fetch(self.values, at);
        }
    }

    #[inline(always)]
    fn fetch_place(&self, _: usize) {}
}

/// Sum of the squares and sum of some values, in the order they lie.
fn moments<T: Value>(values: &[T]) -> (f64, f64) {
    let add = |(squares, sum): (f64, f64), v: &T| (squares + v.wide() * v.wide(), sum + v.wide());
    values.iter().fold((0.0, 0.0), add)
}

macro_rules! columns {
    ($($value:ident $sparse:ident $dense:ident),*) => {$(
        crate::kernels::per_level! {
            fn $sparse(lines: SparseLines<'_, $value>, work: &mut super::local::Work<'_>) = descend_body
        }
        crate::kernels::per_level! {
            fn $dense(lines: DenseLines<'_, $value>, work: &mut super::local::Work<'_>) = descend_body
        }

        impl Columns for Csc<$value> {
            fn columns(&self) -> usize {
                self.cols()
            }
            fn rows(&self) -> usize {
                Csc::rows(self)
            }
            fn entries(&self, column: usize) -> usize {
                self.col(column).0.len()
            }
            fn descend(&self, work: &mut super::local::Work<'_>) {
                $sparse(Level::best(), SparseLines::of(self, work.length()), work);
            }
            fn moments(&self, column: usize) -> (f64, f64) {
                moments(self.col(column).1)
            }
            fn dot_with(&self, column: usize, r: &[f64]) -> f64 {
                SparseLines::of(self, r.len()).dot(column, r)
            }
            fn add_to(&self, column: usize, factor: f64, to: &mut [f64]) {
                SparseLines::of(self, to.len()).add(column, factor, to);
            }
        }

        impl Columns for Dense<$value> {
            fn columns(&self) -> usize {
                Dense::rows(self)
            }
            fn rows(&self) -> usize {
                self.cols()
            }
            fn entries(&self, _: usize) -> usize {
                self.cols()
            }
            fn descend(&self, work: &mut super::local::Work<'_>) {
                let lines = DenseLines { values: self.as_slice(), rows: self.cols() };
                $dense(Level::best(), lines, work);
            }
            fn moments(&self, column: usize) -> (f64, f64) {
                moments(self.row(column))
            }
            fn dot_with(&self, column: usize, r: &[f64]) -> f64 {
                DenseLines { values: self.as_slice(), rows: self.cols() }.dot(column, r)
            }
            fn add_to(&self, column: usize, factor: f64, to: &mut [f64]) {
                DenseLines { values: self.as_slice(), rows: self.cols() }.add(column, factor, to);
            }
        }
    )*};
}

columns!(f32 sparse_f32 dense_f32, f64 sparse_f64 dense_f64);

#[inline(always)]
fn descend_body<L: Lines>(lines: L, work: &mut super::local::Work<'_>) {
    work.run(lines);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_and_dense_columns_give_the_same_numbers() {
        let mut random = qjam::Rng::keyed(1, 0, 0);
        for rows in [1, 7, 8, 9, 40] {
            let values: Vec<f64> = (0..rows).map(|_| random.normal()).collect();
            let r: Vec<f64> = (0..rows).map(|_| random.normal()).collect();
            let dense = DenseLines { values: &values, rows };
            let csc = Csc::from_vecs(vec![0, rows as u64], (0..rows as u32).collect(), values.clone(), rows);
            let csc = csc.unwrap();
            let sparse = SparseLines::of(&csc, rows);
            assert_eq!(sparse.dot(0, &r).to_bits(), dense.dot(0, &r).to_bits());
            let expected: f64 = values.iter().zip(&r).map(|(a, b)| a * b).sum();
            assert!((dense.dot(0, &r) - expected).abs() < 1e-12);
            let row = |r: &f64| Row { r: *r, bend: r.abs(), along: 0.0, w: -r };
            let (mut at, mut at_dense): (Vec<Row>, Vec<Row>) = r.iter().map(|r| (row(r), row(r))).unzip();
            let found = sparse.dot_rows(0, &at);
            assert_eq!(found, dense.dot_rows(0, &at));
            assert!((found.r - expected).abs() < 1e-12 && (found.w + expected).abs() < 1e-12);
            let squares: f64 = values.iter().zip(&r).map(|(a, r)| a * a * r.abs()).sum();
            let along: f64 = values.iter().zip(&r).map(|(a, r)| a * r.abs()).sum();
            assert!((found.bend - squares).abs() < 1e-12 && (found.along - along).abs() < 1e-12);
            sparse.add_rows(0, 0.5, &mut at);
            dense.add_rows(0, 0.5, &mut at_dense);
            for ((row, same), (r, a)) in at.iter().zip(&at_dense).zip(r.iter().zip(&values)) {
                assert_eq!((row.r, row.along), (same.r, same.along));
                assert_eq!((row.r, row.along), (r + r.abs() * (0.5 * a), 0.5 * a));
            }
            let (mut a, mut b) = (r.clone(), r.clone());
            sparse.add(0, 0.3, &mut a);
            dense.add(0, 0.3, &mut b);
            assert_eq!(a, b);
        }
    }
}
