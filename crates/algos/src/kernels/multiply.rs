//! The matrix product `C += A B`, summed in the order of the inner index.
//!
//! Element `(i, j)` of `C` is loaded, then `a[i][p] * b[p][j]` is added with one rounding for `p = 0, 1, …`, then it
//! is stored. The order never changes with tile sizes or vector widths, and since the sum starts from what `C` holds,
//! a product over 1000 rows done in batches of 64 has the bits of the product done at once. That is also how large
//! products are cut over the inner index: `C` carries the sum from one piece to the next.
//!
//! Vector lanes run along the columns of `B` and `C`, elements of `A` are broadcast, and a tile of `C` (6 rows by 4
//! registers of 512 bits) stays in registers for the whole inner loop. `A` may lie as it is or transposed; `B` and `C`
//! are row-major. What is large, or does not end with a register, is copied in strips as wide as a tile.

use super::lanes::Lanes;
use super::{Level, per_level};

/// The left factor `A`, of `rows` by `inner` elements.
#[derive(Clone, Copy, Debug)]
pub enum Left<'a, T = f64> {
    /// Row-major: element `(i, p)` is `values[i * stride + p]`.
    Rows {
        /// The elements.
        values: &'a [T],
        /// From one row to the next.
        stride: usize,
    },
    /// Stored transposed: element `(i, p)` is `values[p * stride + i]`.
    Columns {
        /// The elements.
        values: &'a [T],
        /// From one column to the next.
        stride: usize,
    },
}

/// The sizes of a product: `C` is `rows` by `cols`, the sum has `inner` terms.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Rows of `A` and `C`.
    pub rows: usize,
    /// Columns of `A`, rows of `B`.
    pub inner: usize,
    /// Columns of `B` and `C`.
    pub cols: usize,
}

/// Numbers that can be multiplied: `f32` and `f64`.
pub trait Multiply: Sized + Copy + Default {
    /// See [`add_product`].
    fn add_product(
        level: Level,
        size: Size,
        left: Left<'_, Self>,
        right: (&[Self], usize),
        out: (&mut [Self], usize),
    );
}

/// `C += A B`; `right` and `out` are row-major with the given distances from row to row.
///
/// Sizes that do not fit the slices are a mistake of the calling kernel and panic.
///
/// ```
/// use qjam_algos::kernels::{Level, multiply::{Left, Size, add_product}};
/// let a = [1.0, 2.0, 3.0, 4.0];
/// let mut c = [0.5, 0.0];
/// let left = Left::Rows { values: &a, stride: 2 };
/// add_product(Level::best(), Size { rows: 2, inner: 2, cols: 1 }, left, (&[10.0, 1.0], 1), (&mut c, 1));
/// assert_eq!(c, [12.5, 34.0]);
/// ```
pub fn add_product<T: Multiply>(
    level: Level,
    size: Size,
    left: Left<'_, T>,
    right: (&[T], usize),
    out: (&mut [T], usize),
) {
    T::add_product(level, size, left, right, out);
}

macro_rules! multiply {
    ($number:ident, $lanes:ident, $name:ident) => {
        per_level! {
            fn $name(
                size: Size,
                left: Left<'_, $number>,
                right: (&[$number], usize),
                out: (&mut [$number], usize),
            ) = blocks<$lanes>
        }

        impl Multiply for $number {
            fn add_product(
                level: Level,
                size: Size,
                left: Left<'_, $number>,
                right: (&[$number], usize),
                out: (&mut [$number], usize),
            ) {
                $name(level, size, left, right, out);
            }
        }
    };
}
multiply!(f64, Lanes, product_64);
multiply!(f32, Lanes32, product_32);

/// Terms of the sum that are taken at once: so much of a strip of `B` stays in the second-level cache.
const INNER_BLOCK: usize = 384;
/// Rows that go through all strips together: so much of `A` does.
const ROWS_BLOCK: usize = 96;
/// Elements that are copied to the stack.
const SMALLEST: usize = 512;
/// A right factor of fewer elements stays in a cache near enough as it lies.
const RIGHT_SMALL: usize = 16_384;

#[inline(always)]
fn blocks<V: Lanes<Number: Copy + Default>>(
    size: Size,
    left: Left<'_, V::Number>,
    (b, b_stride): (&[V::Number], usize),
    (c, c_stride): (&mut [V::Number], usize),
) {
    if size.rows == 0 || size.cols == 0 || size.inner == 0 {
        return;
    }
    let mut place = Sums { values: c, stride: c_stride, cols: size.cols, shift: (0, 0) };
    let whole = size.cols.is_multiple_of(V::COUNT);
    if whole && (size.inner * size.cols <= RIGHT_SMALL || size.rows <= 12) {
        walk::<V>(size, left, (b, b_stride), &mut place);
        return;
    }
    let strip = widest::<V>() * V::COUNT;
    let deepest = size.inner.min(INNER_BLOCK);
    let (line, needed) = (64 / size_of::<V::Number>(), deepest * size.cols.next_multiple_of(V::COUNT));
    // A product of few numbers costs less than asking for memory.
    let (mut few, mut many) = ([V::Number::default(); SMALLEST], Vec::new());
    let copy: &mut [V::Number] = if needed + line <= SMALLEST {
        &mut few
    } else {
        many.resize(needed + line, V::Number::default());
        &mut many
    };
    let start = copy.as_ptr().align_offset(64).min(line);
    let copy = &mut copy[start..];
    for p in (0..size.inner).step_by(INNER_BLOCK) {
        let inner = (size.inner - p).min(INNER_BLOCK);
        // Strips one after the other, each with its rows together; the last is filled up with zeros.
        for col in (0..size.cols).step_by(strip) {
            let cols = (size.cols - col).min(strip);
            let width = cols.next_multiple_of(V::COUNT);
            for (to, from) in copy[inner * col..]
                .chunks_exact_mut(width)
                .zip(b[p * b_stride + col..].chunks(b_stride))
                .take(inner)
            {
                to[..cols].copy_from_slice(&from[..cols]);
            }
        }
        for row in (0..size.rows).step_by(ROWS_BLOCK) {
            let rows = (size.rows - row).min(ROWS_BLOCK);
            let left = match left {
                Left::Rows { values, stride } => Left::Rows { values: &values[row * stride + p..], stride },
                Left::Columns { values, stride } => {
                    Left::Columns { values: &values[p * stride + row..], stride }
                }
            };
            for col in (0..size.cols).step_by(strip) {
                let width = (size.cols - col).min(strip).next_multiple_of(V::COUNT);
                place.shift = (row, col);
                let size = Size { rows, inner, cols: width };
                walk::<V>(size, left, (&copy[inner * col..], width), &mut place);
            }
        }
    }
}

/// Registers along a row of the widest tile: there are 32 of 512 bits and 16 of others.
#[inline(always)]
const fn widest<V>() -> usize {
    if size_of::<V>() == 64 { 4 } else { 2 }
}

/// Goes through the tiles of a product whose columns are whole registers, strip by strip and down each strip.
#[inline(always)]
fn walk<V: Lanes<Number: Copy + Default>>(
    size: Size,
    left: Left<'_, V::Number>,
    right: (&[V::Number], usize),
    place: &mut Sums<'_, V::Number>,
) {
    match left {
        Left::Rows { values, stride } => walk_rows::<V>(size, (values, stride), right, place),
        Left::Columns { values, stride } => walk_columns::<V>(size, (values, stride), right, place),
    }
}

macro_rules! walks {
    ($(#[$meta:meta])* $vis:vis fn $name:ident = $tile:ident) => {
        $(#[$meta])*
        #[inline(always)]
        $vis fn $name<V: Lanes<Number: Copy + Default>>(
            size: Size,
            left: (&[V::Number], usize),
            right: (&[V::Number], usize),
            place: &mut Sums<'_, V::Number>,
        ) {
            assert!(size.cols.is_multiple_of(V::COUNT), "{} columns are no whole registers", size.cols);
            let mut col = 0;
            macro_rules! strips {
                ($across:literal) => {
                    while col + $across * V::COUNT <= size.cols {
                        let mut row = 0;
                        while row + 6 <= size.rows {
                            $tile::<V, 6, $across>(size.inner, (row, col), left, right, place);
                            row += 6;
                        }
                        while row + 2 <= size.rows {
                            $tile::<V, 2, $across>(size.inner, (row, col), left, right, place);
                            row += 2;
                        }
                        if row < size.rows {
                            $tile::<V, 1, $across>(size.inner, (row, col), left, right, place);
                        }
                        col += $across * V::COUNT;
                    }
                };
            }
            if widest::<V>() == 4 {
                strips!(4);
            }
            strips!(2);
            strips!(1);
        }
    };
}
walks! {
    /// The same for a left factor in rows.
    fn walk_rows = rows_tile
}
walks! {
    /// The same for a left factor stored transposed.
    fn walk_columns = columns_tile
}

#[inline(always)]
fn rows_tile<V: Lanes<Number: Copy + Default>, const M: usize, const N: usize>(
    inner: usize,
    at: (usize, usize),
    (a, a_stride): (&[V::Number], usize),
    (b, b_stride): (&[V::Number], usize),
    place: &mut Sums<'_, V::Number>,
) {
    let mut sums = place.begin::<V, M, N>(at.0, at.1);
    // Slices of the exact length let the compiler drop the check on every element.
    let mut a_rows: [&[V::Number]; M] = [&[]; M];
    for (i, row) in a_rows.iter_mut().enumerate() {
        *row = &a[(at.0 + i) * a_stride..][..inner];
    }
    for p in 0..inner {
        let b = row::<V, N>(b, p * b_stride + at.1);
        for (sums, a) in sums.iter_mut().zip(a_rows) {
            step(sums, a[p], &b);
        }
    }
    place.end(at.0, at.1, sums);
}

#[inline(always)]
fn columns_tile<V: Lanes<Number: Copy + Default>, const M: usize, const N: usize>(
    inner: usize,
    at: (usize, usize),
    (a, a_stride): (&[V::Number], usize),
    (b, b_stride): (&[V::Number], usize),
    place: &mut Sums<'_, V::Number>,
) {
    let mut sums = place.begin::<V, M, N>(at.0, at.1);
    for p in 0..inner {
        let a = &a[p * a_stride + at.0..][..M];
        let b = row::<V, N>(b, p * b_stride + at.1);
        for (sums, a) in sums.iter_mut().zip(a) {
            step(sums, *a, &b);
        }
    }
    place.end(at.0, at.1, sums);
}

#[inline(always)]
fn step<V: Lanes, const N: usize>(sums: &mut [V; N], a: V::Number, b: &[V; N]) {
    let a = V::splat(a);
    for (sum, b) in sums.iter_mut().zip(b) {
        *sum = a.mul_add(*b, *sum);
    }
}

/// `N` registers from one row.
#[inline(always)]
fn row<V: Lanes, const N: usize>(values: &[V::Number], at: usize) -> [V; N] {
    let values = &values[at..][..N * V::COUNT];
    let mut row = [V::load(values); N];
    for (register, values) in row.iter_mut().zip(values.chunks_exact(V::COUNT)) {
        *register = V::load(values);
    }
    row
}

/// The elements of `C`, of which the last columns may be fewer than a register holds.
struct Sums<'a, T> {
    values: &'a mut [T],
    stride: usize,
    cols: usize,
    /// Place of the first tile.
    shift: (usize, usize),
}

impl<T: Copy + Default> Sums<'_, T> {
    /// A tile as it is.
    #[inline(always)]
    fn begin<V: Lanes<Number = T>, const M: usize, const N: usize>(
        &self,
        row_at: usize,
        col: usize,
    ) -> [[V; N]; M] {
        let mut tile = [[V::splat(T::default()); N]; M];
        let col = self.shift.1 + col;
        for (i, line) in tile.iter_mut().enumerate() {
            let at = (self.shift.0 + row_at + i) * self.stride + col;
            if col + N * V::COUNT <= self.cols {
                *line = row(self.values, at);
            } else {
                let mut part = [T::default(); 64];
                part[..self.cols - col].copy_from_slice(&self.values[at..][..self.cols - col]);
                *line = row(&part, 0);
            }
        }
        tile
    }

    /// Puts a tile back.
    #[inline(always)]
    fn end<V: Lanes<Number = T>, const M: usize, const N: usize>(
        &mut self,
        row_at: usize,
        col: usize,
        tile: [[V; N]; M],
    ) {
        let col = self.shift.1 + col;
        for (i, line) in tile.iter().enumerate() {
            let at = (self.shift.0 + row_at + i) * self.stride + col;
            if col + N * V::COUNT <= self.cols {
                put(&mut self.values[at..], line);
            } else {
                let mut part = [T::default(); 64];
                put(&mut part, line);
                self.values[at..][..self.cols - col].copy_from_slice(&part[..self.cols - col]);
            }
        }
    }
}

/// Stores registers one after the other.
#[inline(always)]
fn put<V: Lanes, const N: usize>(values: &mut [V::Number], line: &[V; N]) {
    let values = &mut values[..N * V::COUNT];
    for (register, values) in line.iter().zip(values.chunks_exact_mut(V::COUNT)) {
        register.store(values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qjam::Rng;

    fn noise(count: usize, seed: u64) -> Vec<f64> {
        let mut random = Rng::keyed(seed, 0, 0);
        (0..count).map(|_| random.uniform() * 2.0 - 1.0).collect()
    }

    macro_rules! bits_of_the_definition {
        ($number:ident) => {
            for (rows, inner, cols) in [
                (1, 1, 1),
                (6, 64, 32),
                (7, 3, 33),
                (13, 30, 64),
                (30, 96, 64),
                (5, 0, 9),
                (64, 17, 41),
                (2, 8, 7),
                (3, 3, 3),
                (101, 400, 39),
                (11, 900, 72),
            ] {
                let s = Size { rows, inner, cols };
                let noise =
                    |count, seed| noise(count, seed).iter().map(|v| *v as $number).collect::<Vec<$number>>();
                let (a, b, c) = (noise(rows * inner, 1), noise(inner * cols, 2), noise(rows * cols, 3));
                let transposed: Vec<$number> = (0..inner)
                    .flat_map(|p| (0..rows).map(move |i| (i, p)))
                    .map(|(i, p)| a[i * inner + p])
                    .collect();
                // The definition, element by element.
                let mut expected = c.clone();
                for (n, sum) in expected.iter_mut().enumerate() {
                    for p in 0..inner {
                        *sum = a[n / cols * inner + p].mul_add(b[p * cols + n % cols], *sum);
                    }
                }
                for level in Level::available() {
                    for left in [
                        Left::Rows { values: &a[..], stride: inner },
                        Left::Columns { values: &transposed[..], stride: rows },
                    ] {
                        let mut out = c.clone();
                        add_product(level, s, left, (&b, cols), (&mut out, cols));
                        let same = out.iter().zip(&expected).all(|(x, y)| x.to_bits() == y.to_bits());
                        assert!(same, "{level} {s:?}");
                    }
                }
            }
        };
    }

    #[test]
    fn every_level_and_both_layouts_give_the_bits_of_the_definition() {
        bits_of_the_definition!(f64);
        bits_of_the_definition!(f32);
    }

    #[test]
    fn a_product_in_batches_has_the_bits_of_the_product_at_once() {
        let (rows, inner, cols) = (30, 200, 64);
        let (a, b) = (noise(rows * inner, 4), noise(inner * cols, 5));
        let product = |batch: usize| {
            let mut out = vec![0.0; rows * cols];
            for start in (0..inner).step_by(batch) {
                let size = Size { rows, inner: batch.min(inner - start), cols };
                let left = Left::Columns { values: &a[start * rows..], stride: rows };
                add_product(Level::best(), size, left, (&b[start * cols..], cols), (&mut out, cols));
            }
            out
        };
        assert_eq!(product(200), product(64));
        assert_eq!(product(200), product(7));
    }

    #[test]
    fn strides_wider_than_the_matrix_leave_the_gap_alone() {
        let (a, b) = ([1.0, 9.0, 2.0, 9.0], [3.0, 9.0, 9.0]);
        let mut c = [0.0, 7.0, 0.0, 7.0];
        let left = Left::Rows { values: &a, stride: 2 };
        add_product(Level::best(), Size { rows: 2, inner: 1, cols: 1 }, left, (&b, 3), (&mut c, 2));
        assert_eq!(c, [3.0, 7.0, 6.0, 7.0]);
    }
}
