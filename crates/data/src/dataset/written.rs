//! Data sets of what was written record by record: rows by readers, slices by Python.

use super::DataSet;
use crate::chunk::{Csc, Csr, Dense, Element, Raw};
use crate::source::DataError;
use crate::source::kept::{RowsWriter, SparseWriter};
use crate::source::slices::Slices;

impl<T: Element> RowsWriter<T> {
    /// The data set. `notes` are found again by [`DataSet::kept`].
    pub fn finish(self, notes: Vec<u8>) -> Result<DataSet<Dense<T>>, DataError> {
        DataSet::from_source(self.written(notes)?)
    }
}

impl<T: Element> SparseWriter<T> {
    /// The data set of the rows, of so many columns. `notes` are found again by [`DataSet::kept`].
    pub fn finish(self, cols: u64, notes: Vec<u8>) -> Result<DataSet<Csr<T>>, DataError> {
        DataSet::from_source(self.written(cols, notes)?)
    }

    /// The data set of the columns. Labels stay behind: they belong to rows, and a chunk has some of the columns of all
    /// rows.
    pub fn finish_columns(self, cols: u64, notes: Vec<u8>) -> Result<DataSet<Csc<T>>, DataError> {
        DataSet::from_source(self.written_columns(cols, notes)?)
    }
}

impl Slices {
    /// The data set of all slices so far.
    pub fn finish(self) -> Result<DataSet<Raw>, DataError> {
        DataSet::from_source(self.written()?)
    }
}
