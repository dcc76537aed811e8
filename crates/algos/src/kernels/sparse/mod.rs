//! Sparse matrices times dense ones, and their lines.
//!
//! A sparse matrix is a list of lines: the rows of a [`Csr`], or the columns of a [`Csc`]. Everything here works on
//! [`Lines`], so one function is the product with the rows of the one and with the transposed columns of the other:
//!
//! | | rows of a `Csr` | columns of a `Csc` |
//! |---|---|---|
//! | [`times`] | `X B` | `Xᵀ B` |
//! | [`transposed_times`] | `Xᵀ B` | `X B` |
//! | [`dot`], [`add_scaled`] | a row and a vector | a column and a vector |
//!
//! *Order of summation.* Each element of a product is a chain of its own: it begins with 0 and takes one fused product
//! after the other, in the order of the line in [`times`], in that of the lines in [`transposed_times`]. A place that is
//! not stored would add a zero to the chain and change nothing, so the result is that of the dense product in the same
//! order, to the bit. [`dot`] and [`squares`] are sums of a single number, for which one chain would mostly wait for
//! itself: product `j` of a line goes to partial sum `j mod 8`, in doubles, and the eight are added from first to last.
//! That is a function of what is stored, so a stored zero can change its last bit, where it does not change a product.
//!
//! [`nearest`] is k-means' share: [`times`] with panels of centres, of which only the nearest is kept.

pub mod nearest;
mod products;
#[cfg(test)]
mod tests;

pub use nearest::Sparse;
pub use products::{add_scaled, dot, squares, times, transposed_times};

use qjam::chunk::Element;
use qjam::{Csc, Csr};
use std::ops::Range;

/// Lines of a sparse matrix, each with its places that are not zero and what stands there.
#[derive(Clone, Copy, Debug)]
pub struct Lines<'a, T> {
    /// One more than there are lines; not from 0 on if the lines are part of a matrix.
    starts: &'a [u64],
    places: &'a [u32],
    values: &'a [T],
    across: usize,
}

impl<'a, T: Copy> Lines<'a, T> {
    /// How many.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Length of a line with its zeros.
    pub fn across(&self) -> usize {
        self.across
    }

    /// Places and values of one line.
    #[inline(always)]
    pub fn line(&self, i: usize) -> (&'a [u32], &'a [T]) {
        let range = self.starts[i] as usize..self.starts[i + 1] as usize;
        (&self.places[range.clone()], &self.values[range])
    }

    /// Number of values stored in one line.
    #[inline(always)]
    pub fn stored(&self, i: usize) -> usize {
        (self.starts[i + 1] - self.starts[i]) as usize
    }

    /// Number of values stored in all lines.
    pub fn values(&self) -> usize {
        (self.starts[self.len()] - self.starts[0]) as usize
    }

    /// Some of them that follow each other.
    pub fn part(&self, range: Range<usize>) -> Lines<'a, T> {
        Lines { starts: &self.starts[range.start..=range.end], ..*self }
    }
}

/// Its rows.
impl<'a, T: Element> From<&'a Csr<T>> for Lines<'a, T> {
    fn from(x: &'a Csr<T>) -> Self {
        Lines { starts: x.starts(), places: x.columns(), values: x.values(), across: x.cols() }
    }
}

/// Its columns.
impl<'a, T: Element> From<&'a Csc<T>> for Lines<'a, T> {
    fn from(x: &'a Csc<T>) -> Self {
        Lines { starts: x.starts(), places: x.rows_at(), values: x.values(), across: x.rows() }
    }
}
