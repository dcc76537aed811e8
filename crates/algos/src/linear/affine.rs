//! Columns shifted and multiplied: `(x − shift) · factor + offset`, of a row, a chunk, or a whole data set.
//!
//! Each number is computed in 64 bits by these operations in this order, so a number has the same bits however its row is stored.
//! Sparse rows are not shifted: their zeros would be other numbers.

use super::rows::RowChunk;
use crate::kernels::nearest::Real;
use qjam::source::kept::{Keep, RowsWriter, SparseWriter};
use qjam::{Csr, DataError, DataSet, Dense, Rows};

/// What is done to the numbers of each column.
#[derive(Clone, Debug, PartialEq)]
pub struct Affine {
    /// Taken off first; empty for zeros.
    pub shift: Vec<f64>,
    /// Multiplied with then.
    pub factor: Vec<f64>,
    /// Added to all at last.
    pub offset: f64,
    /// Bounds that numbers are moved to if they are beyond.
    pub clip: Option<(f64, f64)>,
}

impl Affine {
    /// Columns multiplied, and nothing else.
    pub fn scale(factor: Vec<f64>) -> Affine {
        Affine { shift: vec![], factor, offset: 0.0, clip: None }
    }

    /// Whether zeros stay zeros, so that sparse rows stay sparse.
    pub fn keeps_zeros(&self) -> bool {
        self.offset == 0.0 && self.shift.iter().all(|shift| *shift == 0.0)
    }

    /// A number of a column. Columns beyond those that are known are left alone: weights may stand there.
    pub fn of(&self, column: usize, value: f64) -> f64 {
        let Some(factor) = self.factor.get(column) else { return value };
        let shift = self.shift.get(column).copied().unwrap_or(0.0);
        let moved = (value - shift) * factor + self.offset;
        match self.clip {
            Some((least, most)) => moved.clamp(least, most),
            None => moved,
        }
    }

    /// Puts the numbers of dense rows back to where they came from.
    pub fn undo(&self, rows: &mut [f64]) {
        for row in rows.chunks_exact_mut(self.factor.len().max(1)) {
            for (column, value) in row.iter_mut().enumerate() {
                let shift = self.shift.get(column).copied().unwrap_or(0.0);
                *value = (*value - self.offset) / self.factor[column] + shift;
            }
        }
    }

    /// The numbers of all rows of a chunk, row by row.
    pub fn full<C: RowChunk>(&self, x: &C) -> Vec<f64> {
        let mut values = vec![0.0; x.count() * x.width()];
        for (row, to) in values.chunks_exact_mut(x.width().max(1)).enumerate() {
            x.write(row, to);
            to.iter_mut().enumerate().for_each(|(column, value)| *value = self.of(column, *value));
        }
        values
    }

    /// All rows, in the type that they have; or if they are to be `wide`, in 64 bits and without labels.
    pub(crate) fn rows(&self, rows: &Rows, wide: bool, keep: &Keep) -> Result<Rows, DataError> {
        Ok(match rows {
            Rows::DenseF32(data) if wide => self.dense::<f32, f64>(data, keep)?.into(),
            Rows::DenseF32(data) => self.dense::<f32, f32>(data, keep)?.into(),
            Rows::DenseF64(data) => self.dense::<f64, f64>(data, keep)?.into(),
            Rows::CsrF32(data) if wide => self.sparse::<f32, f64>(data, keep, false)?.into(),
            Rows::CsrF32(data) => self.sparse::<f32, f32>(data, keep, true)?.into(),
            Rows::CsrF64(data) => self.sparse::<f64, f64>(data, keep, !wide)?.into(),
        })
    }

    /// The rows of one chunk, in the type that they have.
    pub(crate) fn chunk(&self, rows: &Rows, index: usize) -> Result<Rows, DataError> {
        fn dense<T: Real>(by: &Affine, x: &Dense<T>) -> Result<DataSet<Dense<T>>, DataError> {
            DataSet::dense(by.moved(x), x.cols())?.partitions(1)
        }
        Ok(match rows {
            Rows::DenseF32(data) => dense(self, &data.chunk(index)?)?.into(),
            Rows::DenseF64(data) => dense(self, &data.chunk(index)?)?.into(),
            Rows::CsrF32(data) => {
                DataSet::csr(&self.stored::<f32, f32>(&data.chunk(index)?, index, true)?)?
                    .partitions(1)?
                    .into()
            }
            Rows::CsrF64(data) => {
                DataSet::csr(&self.stored::<f64, f64>(&data.chunk(index)?, index, true)?)?
                    .partitions(1)?
                    .into()
            }
        })
    }

    fn moved<T: Real, U: Real>(&self, x: &Dense<T>) -> Vec<U> {
        let number = |(column, value): (usize, &T)| U::from_f64(self.of(column, value.to_f64()));
        x.rows_iter().flat_map(|row| row.iter().enumerate().map(number)).collect()
    }

    fn stored<T: Real, U: Real>(
        &self,
        x: &Csr<T>,
        index: usize,
        labelled: bool,
    ) -> Result<Csr<U>, DataError> {
        let (mut starts, mut columns, mut values) = (vec![0], vec![], vec![]);
        for row in 0..x.rows() {
            let (places, numbers) = x.row(row);
            columns.extend_from_slice(places);
            let moved = |(place, value): (&u32, &T)| U::from_f64(self.of(*place as usize, value.to_f64()));
            values.extend(places.iter().zip(numbers).map(moved));
            starts.push(columns.len() as u64);
        }
        let labels = x
            .labels()
            .filter(|_| labelled)
            .map(|labels| labels.iter().map(|label| U::from_f64(label.to_f64())).collect());
        Csr::from_vecs(starts, columns, values, x.cols(), labels)
            .map_err(|source| DataError::Chunk { index, source })
    }

    fn dense<T: Real, U: Real>(
        &self,
        data: &DataSet<Dense<T>>,
        keep: &Keep,
    ) -> Result<DataSet<Dense<U>>, DataError> {
        let mut rows = RowsWriter::<U>::create(keep, data.chunk(0)?.cols())?;
        for index in 0..data.len() {
            rows.push(&self.moved(&data.chunk(index)?))?;
        }
        rows.finish(Vec::new())
    }

    fn sparse<T: Real, U: Real>(
        &self,
        data: &DataSet<Csr<T>>,
        keep: &Keep,
        labelled: bool,
    ) -> Result<DataSet<Csr<U>>, DataError> {
        let first = data.chunk(0)?;
        let mut rows = SparseWriter::<U>::create(keep, labelled && first.labels().is_some());
        for index in 0..data.len() {
            rows.push(&self.stored(&data.chunk(index)?, index, labelled)?)?;
        }
        rows.finish(first.cols() as u64, Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qjam::with_rows;

    fn both() -> (Rows, Rows) {
        let sparse =
            Csr::from_vecs(vec![0, 1, 2], vec![1, 0], vec![2.0, 1.0], 2, Some(vec![7.0, 8.0])).unwrap();
        let dense = DataSet::dense(vec![0.0, 2.0, 1.0, 0.0], 2).unwrap();
        (dense.into(), DataSet::csr(&sparse).unwrap().into())
    }

    fn values(rows: &Rows) -> Vec<f64> {
        let full = |x: &dyn Fn(usize, &mut [f64])| {
            let mut all = vec![0.0; 4];
            all.chunks_exact_mut(2).enumerate().for_each(|(row, to)| x(row, to));
            all
        };
        with_rows!(rows, data => { let x = data.chunk(0).unwrap(); full(&|row, to| x.write(row, to)) })
    }

    #[test]
    fn rows_chunks_and_data_sets_have_the_same_numbers_however_they_are_stored() {
        let (dense, sparse) = both();
        let by = Affine { shift: vec![], factor: vec![3.0, 0.5], offset: 0.0, clip: Some((0.0, 0.75)) };
        assert!(by.keeps_zeros());
        for rows in [dense, sparse] {
            let all = by.rows(&rows, false, &Keep::Memory).unwrap();
            assert_eq!(values(&all), [0.0, 0.75, 0.75, 0.0]);
            assert_eq!(values(&by.chunk(&rows, 0).unwrap()), values(&all));
            if let Rows::CsrF64(data) = &all {
                assert_eq!(data.chunk(0).unwrap().labels(), Some(&[7.0, 8.0][..]));
            }
        }
    }

    #[test]
    fn what_was_done_is_undone_and_columns_that_are_not_known_are_left_alone() {
        let by = Affine { shift: vec![1.0, -3.0], factor: vec![0.25, 2.0], offset: 4.0, clip: None };
        assert!(!by.keeps_zeros());
        let x = Dense::from_vec(vec![5.0, 1.0, 9.0], 3).unwrap();
        assert_eq!(by.full(&x), [5.0, 12.0, 9.0]);
        let mut back = vec![5.0, 12.0];
        by.undo(&mut back);
        assert_eq!(back, [5.0, 1.0]);
    }
}
