//! Rows that a network can learn from, dense or sparse, and which of a chunk's rows are meant.

use super::layers::ROWS;
use super::numbers::Kernel;
use crate::kernels::Level;
use crate::kernels::multiply::{Left, Size, add_product};
use crate::linear::rows::RowChunk;
use qjam::{Csr, Dense};

/// Some rows of a chunk, no more than go through a network together.
#[derive(Clone, Copy, Debug)]
pub enum Picked<'a> {
    /// Rows that follow each other: the first, and how many.
    Run(usize, usize),
    /// Rows by their index.
    List(&'a [u32]),
}

impl<'a> Picked<'a> {
    /// How many.
    pub fn len(self) -> usize {
        match self {
            Picked::Run(_, count) => count,
            Picked::List(list) => list.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether they do not lie in one run.
    pub fn is_scattered(self) -> bool {
        matches!(self, Picked::List(_))
    }

    /// The index of each.
    pub fn each(self) -> impl Iterator<Item = usize> + use<'a> {
        let (from, count, list) = match self {
            Picked::Run(from, count) => (from, count, &[][..]),
            Picked::List(list) => (0, 0, list),
        };
        (from..from + count).chain(list.iter().map(|row| *row as usize))
    }

    /// All rows of a list, or of a chunk of so many without one, in batches.
    pub fn batches(list: Option<&'a [u32]>, rows: usize) -> impl Iterator<Item = Picked<'a>> {
        let count = list.map_or(rows, <[u32]>::len);
        (0..count).step_by(ROWS).map(move |from| {
            let batch = ROWS.min(count - from);
            list.map_or(Picked::Run(from, batch), |list| Picked::List(&list[from..from + batch]))
        })
    }
}

/// Chunks of rows that go into the first layer.
pub trait Source: RowChunk {
    /// What networks compute with for these rows.
    type Number: Kernel;

    /// The rows one after the other: where they lie, or copied. Sparse ones are read where they lie.
    fn taken<'a>(&'a self, picked: Picked<'_>, gathered: &'a mut [Self::Number]) -> &'a [Self::Number];

    /// The same after [`Source::taken`].
    fn taken_again<'a>(&'a self, picked: Picked<'_>, gathered: &'a [Self::Number]) -> &'a [Self::Number];

    /// `out += X W`.
    fn add_times(
        &self,
        level: Level,
        picked: Picked<'_>,
        taken: &[Self::Number],
        weights: (&[Self::Number], usize),
        out: &mut [Self::Number],
    );

    /// `out += Xᵀ E`.
    fn add_outer(
        &self,
        level: Level,
        picked: Picked<'_>,
        taken: &[Self::Number],
        errors: (&[Self::Number], usize),
        out: &mut [Self::Number],
    );
}

impl<T: Kernel> Source for Dense<T>
where
    Dense<T>: RowChunk,
{
    type Number = T;

    fn taken<'a>(&'a self, picked: Picked<'_>, gathered: &'a mut [T]) -> &'a [T] {
        if picked.is_scattered() {
            for (to, row) in gathered.chunks_exact_mut(self.cols()).zip(picked.each()) {
                to.copy_from_slice(self.row(row));
            }
        }
        self.taken_again(picked, gathered)
    }

    fn taken_again<'a>(&'a self, picked: Picked<'_>, gathered: &'a [T]) -> &'a [T] {
        match picked {
            Picked::Run(from, count) => &self.as_slice()[from * self.cols()..][..count * self.cols()],
            Picked::List(list) => &gathered[..list.len() * self.cols()],
        }
    }

    fn add_times(
        &self,
        level: Level,
        picked: Picked<'_>,
        taken: &[T],
        (weights, width): (&[T], usize),
        out: &mut [T],
    ) {
        let size = Size { rows: picked.len(), inner: self.cols(), cols: width };
        let left = Left::Rows { values: taken, stride: self.cols() };
        add_product(level, size, left, (weights, width), (out, width));
    }

    fn add_outer(
        &self,
        level: Level,
        picked: Picked<'_>,
        taken: &[T],
        (errors, width): (&[T], usize),
        out: &mut [T],
    ) {
        let size = Size { rows: self.cols(), inner: picked.len(), cols: width };
        let left = Left::Columns { values: taken, stride: self.cols() };
        add_product(level, size, left, (errors, width), (out, width));
    }
}

impl<T: Kernel> Source for Csr<T>
where
    Csr<T>: RowChunk,
{
    type Number = T;

    fn taken<'a>(&'a self, _: Picked<'_>, _: &'a mut [T]) -> &'a [T] {
        &[]
    }

    fn taken_again<'a>(&'a self, _: Picked<'_>, _: &'a [T]) -> &'a [T] {
        &[]
    }

    fn add_times(
        &self,
        level: Level,
        picked: Picked<'_>,
        _: &[T],
        (weights, width): (&[T], usize),
        out: &mut [T],
    ) {
        for (row, out) in picked.each().zip(out.chunks_exact_mut(width)) {
            T::add_lines(level, self.row(row), weights, out);
        }
    }

    fn add_outer(
        &self,
        level: Level,
        picked: Picked<'_>,
        _: &[T],
        (errors, width): (&[T], usize),
        out: &mut [T],
    ) {
        for (row, errors) in picked.each().zip(errors.chunks_exact(width)) {
            T::add_to_lines(level, self.row(row), errors, out);
        }
    }
}
