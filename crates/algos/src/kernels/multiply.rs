//! The matrix product `C += A B`, summed in the order of the inner index.
//!
//! Element `(i, j)` of `C` is loaded, then `a[i][p] * b[p][j]` is added with one rounding for `p = 0, 1, …`, then it
//! is stored. The order never changes with tile sizes or vector widths, and since the sum starts from what `C` holds,
//! a product over 1000 rows done in batches of 64 has the bits of the product done at once.
//!
//! Vector lanes run along the columns of `B` and `C`, elements of `A` are broadcast, and a tile of `C` (6 rows by 32
//! columns with 512-bit registers) stays in registers for the whole inner loop. `A` may lie as it is or transposed;
//! `B` and `C` are row-major. Nothing is packed: the learners' matrices fit a cache as they are.

use super::lanes::Lanes;
use super::{Level, per_level};

/// The left factor `A`, of `rows` by `inner` elements.
#[derive(Clone, Copy, Debug)]
pub enum Left<'a> {
    /// Row-major: element `(i, p)` is `values[i * stride + p]`.
    Rows {
        /// The elements.
        values: &'a [f64],
        /// From one row to the next.
        stride: usize,
    },
    /// Stored transposed: element `(i, p)` is `values[p * stride + i]`.
    Columns {
        /// The elements.
        values: &'a [f64],
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
pub fn add_product(
    level: Level,
    size: Size,
    left: Left<'_>,
    right: (&[f64], usize),
    out: (&mut [f64], usize),
) {
    if size.rows == 0 || size.cols == 0 {
        return;
    }
    match left {
        Left::Rows { values, stride } => rows(level, size, (values, stride), right, out),
        Left::Columns { values, stride } => columns(level, size, (values, stride), right, out),
    }
}

per_level! {
    fn rows(size: Size, left: (&[f64], usize), right: (&[f64], usize), out: (&mut [f64], usize)) = rows_body<Lanes>
}
per_level! {
    fn columns(size: Size, left: (&[f64], usize), right: (&[f64], usize), out: (&mut [f64], usize)) = columns_body<Lanes>
}

/// Walks the tiles of `C`: full tiles first, then narrower and lower ones along the edges.
macro_rules! tiles {
    ($tile:ident, $size:ident, $left:ident, $right:ident, $out:ident) => {{
        let mut col = 0;
        macro_rules! strips {
            ($lanes:ty, $across:literal) => {
                while col + $across * <$lanes>::COUNT <= $size.cols {
                    let mut row = 0;
                    while row + 6 <= $size.rows {
                        $tile::<$lanes, 6, $across>($size.inner, (row, col), $left, $right, ($out.0, $out.1));
                        row += 6;
                    }
                    while row + 2 <= $size.rows {
                        $tile::<$lanes, 2, $across>($size.inner, (row, col), $left, $right, ($out.0, $out.1));
                        row += 2;
                    }
                    if row < $size.rows {
                        $tile::<$lanes, 1, $across>($size.inner, (row, col), $left, $right, ($out.0, $out.1));
                    }
                    col += $across * <$lanes>::COUNT;
                }
            };
        }
        // 24 accumulators where there are 32 registers, 12 where there are 16.
        if V::COUNT == 8 {
            strips!(V, 4);
        }
        strips!(V, 2);
        strips!(V, 1);
        strips!(f64, 1);
    }};
}

#[inline(always)]
fn rows_body<V: Lanes<Number = f64>>(
    size: Size,
    left: (&[f64], usize),
    right: (&[f64], usize),
    out: (&mut [f64], usize),
) {
    tiles!(rows_tile, size, left, right, out)
}

#[inline(always)]
fn columns_body<V: Lanes<Number = f64>>(
    size: Size,
    left: (&[f64], usize),
    right: (&[f64], usize),
    out: (&mut [f64], usize),
) {
    tiles!(columns_tile, size, left, right, out)
}

#[inline(always)]
fn rows_tile<V: Lanes<Number = f64>, const M: usize, const N: usize>(
    inner: usize,
    at: (usize, usize),
    (a, a_stride): (&[f64], usize),
    (b, b_stride): (&[f64], usize),
    (c, c_stride): (&mut [f64], usize),
) {
    let mut sums = load::<V, M, N>(c, c_stride, at);
    // Slices of the exact length let the compiler drop the check on every element.
    let mut a_rows: [&[f64]; M] = [&[]; M];
    for (i, row) in a_rows.iter_mut().enumerate() {
        *row = &a[(at.0 + i) * a_stride..][..inner];
    }
    for p in 0..inner {
        let b = row::<V, N>(b, p * b_stride + at.1);
        for (sums, a) in sums.iter_mut().zip(a_rows) {
            step(sums, a[p], &b);
        }
    }
    store(c, c_stride, at, &sums);
}

#[inline(always)]
fn columns_tile<V: Lanes<Number = f64>, const M: usize, const N: usize>(
    inner: usize,
    at: (usize, usize),
    (a, a_stride): (&[f64], usize),
    (b, b_stride): (&[f64], usize),
    (c, c_stride): (&mut [f64], usize),
) {
    let mut sums = load::<V, M, N>(c, c_stride, at);
    for p in 0..inner {
        let a = &a[p * a_stride + at.0..][..M];
        let b = row::<V, N>(b, p * b_stride + at.1);
        for (sums, a) in sums.iter_mut().zip(a) {
            step(sums, *a, &b);
        }
    }
    store(c, c_stride, at, &sums);
}

#[inline(always)]
fn step<V: Lanes<Number = f64>, const N: usize>(sums: &mut [V; N], a: f64, b: &[V; N]) {
    let a = V::splat(a);
    for (sum, b) in sums.iter_mut().zip(b) {
        *sum = a.mul_add(*b, *sum);
    }
}

/// `N` registers from one row.
#[inline(always)]
fn row<V: Lanes<Number = f64>, const N: usize>(values: &[f64], at: usize) -> [V; N] {
    let values = &values[at..][..N * V::COUNT];
    let mut row = [V::splat(0.0); N];
    for (register, values) in row.iter_mut().zip(values.chunks_exact(V::COUNT)) {
        *register = V::load(values);
    }
    row
}

#[inline(always)]
fn load<V: Lanes<Number = f64>, const M: usize, const N: usize>(
    c: &[f64],
    stride: usize,
    at: (usize, usize),
) -> [[V; N]; M] {
    let mut tile = [[V::splat(0.0); N]; M];
    for (i, line) in tile.iter_mut().enumerate() {
        *line = row(c, (at.0 + i) * stride + at.1);
    }
    tile
}

#[inline(always)]
fn store<V: Lanes<Number = f64>, const M: usize, const N: usize>(
    c: &mut [f64],
    stride: usize,
    at: (usize, usize),
    tile: &[[V; N]; M],
) {
    for (i, line) in tile.iter().enumerate() {
        let values = &mut c[(at.0 + i) * stride + at.1..][..N * V::COUNT];
        for (register, values) in line.iter().zip(values.chunks_exact_mut(V::COUNT)) {
            register.store(values);
        }
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

    /// The definition, element by element.
    fn reference(s: Size, a: impl Fn(usize, usize) -> f64, b: &[f64], c: &mut [f64]) {
        for i in 0..s.rows {
            for j in 0..s.cols {
                for p in 0..s.inner {
                    c[i * s.cols + j] = a(i, p).mul_add(b[p * s.cols + j], c[i * s.cols + j]);
                }
            }
        }
    }

    #[test]
    fn every_level_and_both_layouts_give_the_bits_of_the_definition() {
        for (rows, inner, cols) in [
            (1, 1, 1),
            (6, 64, 32),
            (7, 3, 33),
            (13, 30, 64),
            (30, 96, 64),
            (5, 0, 9),
            (64, 17, 41),
            (2, 8, 7),
        ] {
            let s = Size { rows, inner, cols };
            let (a, b, c) = (noise(rows * inner, 1), noise(inner * cols, 2), noise(rows * cols, 3));
            let transposed: Vec<f64> = (0..inner)
                .flat_map(|p| (0..rows).map(move |i| (i, p)))
                .map(|(i, p)| a[i * inner + p])
                .collect();
            let mut expected = c.clone();
            reference(s, |i, p| a[i * inner + p], &b, &mut expected);
            for level in Level::available() {
                for left in [
                    Left::Rows { values: &a, stride: inner },
                    Left::Columns { values: &transposed, stride: rows },
                ] {
                    let mut out = c.clone();
                    add_product(level, s, left, (&b, cols), (&mut out, cols));
                    let same = out.iter().zip(&expected).all(|(x, y)| x.to_bits() == y.to_bits());
                    assert!(same, "{level:?} {s:?} {left:?}");
                }
            }
        }
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
