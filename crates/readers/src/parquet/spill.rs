//! A temporary file for columns, until all columns of their rows have been read.
//!
//! Reading a column keeps one of its pages in memory, and the pages of hundreds of columns may not fit. So wide tables are read
//! some columns at a time, as a stripe. The file contains one stripe after the other, each row by row; whole rows are assembled
//! from it afterwards.

use crate::{ReadError, Real};
use qjam::DataError;
use qjam::source::kept::Keep;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// An unlinked file, which disappears when it is closed.
pub(super) struct Spill {
    path: PathBuf,
    file: File,
    /// Rows of each stripe.
    rows: usize,
    stripes: Vec<Range<usize>>,
}

impl Spill {
    pub(super) fn create(keep: &Keep, rows: usize) -> Result<Spill, ReadError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let place = match keep {
            Keep::File(path) => path.clone(),
            Keep::Memory | Keep::Cached { .. } => std::env::temp_dir().join("qjam"),
        };
        let name = format!("{}-{}.columns.part", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = place.with_extension(name);
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let file = file.and_then(|file| std::fs::remove_file(&path).map(|()| file));
        let file = file.map_err(|source| DataError::Keep { path: path.clone(), source })?;
        Ok(Spill { path, file, rows, stripes: Vec::new() })
    }

    fn failed(&self, source: io::Error) -> ReadError {
        DataError::Keep { path: self.path.clone(), source }.into()
    }

    /// The position of a row of a stripe.
    fn at<T>(&self, stripe: &Range<usize>, row: usize) -> u64 {
        ((stripe.start * self.rows + row * stripe.len()) * size_of::<T>()) as u64
    }

    /// Writes the values of some columns, starting at a row.
    pub(super) fn put<T: Real>(
        &mut self,
        stripe: Range<usize>,
        first: usize,
        values: &[T],
    ) -> Result<(), ReadError> {
        let at = self.at::<T>(&stripe, first);
        self.file.write_all_at(bytemuck::cast_slice(values), at).map_err(|source| self.failed(source))?;
        if self.stripes.last() != Some(&stripe) {
            self.stripes.push(stripe);
        }
        Ok(())
    }

    /// Reads whole rows.
    pub(super) fn take<T: Real>(&self, rows: Range<usize>, out: &mut Vec<T>) -> Result<(), ReadError> {
        let width = self.stripes.last().map_or(0, |stripe| stripe.end);
        out.clear();
        out.resize(rows.len() * width, T::default());
        let mut some = Vec::new();
        for stripe in &self.stripes {
            some.resize(rows.len() * stripe.len(), T::default());
            let at = self.at::<T>(stripe, rows.start);
            self.file
                .read_exact_at(bytemuck::cast_slice_mut(&mut some), at)
                .map_err(|source| self.failed(source))?;
            for (row, part) in out.chunks_exact_mut(width).zip(some.chunks_exact(stripe.len())) {
                row[stripe.clone()].copy_from_slice(part);
            }
        }
        Ok(())
    }
}
