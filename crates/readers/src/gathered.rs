//! Builds a table from rows of a binary file, which arrive piece by piece.
//!
//! Comes in: whole rows in order. Goes out: a [`Table`], with missing values replaced, dropped or refused.

use crate::error::Problem;
use crate::missing::{Means, settle};
use crate::table::{ColumnNames, Notes, Table};
use crate::{Missing, ReadError, Real};
use qjam::source::kept::{Keep, RowsWriter};
use std::path::PathBuf;

/// Collects rows in order into a table.
pub(crate) struct Gathered<T: Real> {
    path: PathBuf,
    names: ColumnNames,
    labelled: bool,
    missing: Missing,
    rows: RowsWriter<T>,
    means: Means,
    seen: u64,
    dropped: u64,
    filled: u64,
}

impl<T: Real> Gathered<T> {
    pub(crate) fn new(
        path: PathBuf,
        keep: &Keep,
        names: ColumnNames,
        labelled: bool,
        missing: Missing,
    ) -> Result<Self, ReadError> {
        let rows = RowsWriter::create(keep, names.len())?;
        let means = Means::new(names.len());
        Ok(Gathered { path, names, labelled, missing, rows, means, seen: 0, dropped: 0, filled: 0 })
    }

    /// Adds whole rows. `values` may be modified.
    pub(crate) fn take(&mut self, values: &mut Vec<T>) -> Result<(), ReadError> {
        let count = (values.len() / self.names.len()) as u64;
        let bad = |row: usize, column: usize, problem: Problem| ReadError::Value {
            path: self.path.clone(),
            row: self.seen + row as u64 + 1,
            column: self.names.of(column),
            problem,
        };
        let (dropped, filled) =
            settle(values, self.names.len(), |column| self.names.of(column), self.missing, bad)?;
        (self.dropped, self.filled) = (self.dropped + dropped, self.filled + filled);
        if self.missing == Missing::Mean {
            self.means.add(values);
        }
        self.rows.push(values)?;
        self.seen += count;
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<Table<T>, ReadError> {
        if let Err(column) = self.means.fill(&mut self.rows)? {
            let name = self.names.of(column);
            let reason = format!("column {name:?} has no value at all, so it has no mean; leave it out");
            return Err(ReadError::Options { path: self.path, reason });
        }
        if self.rows.rows() == 0 {
            let what = if self.dropped > 0 { "row without a missing value" } else { "rows" };
            return Err(ReadError::Empty { path: self.path, what });
        }
        let Gathered { names, labelled, dropped, filled, .. } = self;
        let notes = Notes { columns: names.list(), labelled, dropped, filled };
        Ok(notes.table(self.rows.finish(notes.encode())?))
    }
}
