//! Parquet files: tables by columns, of which some are read.
//!
//! Values are taken as numbers: whole numbers, real numbers and truth values; times and dates as the whole numbers they
//! are stored as. Columns of text, lists and decimals are refused by name.

mod columns;

use crate::gathered::Gathered;
use crate::input::Input;
use crate::settings::{Settings, settings};
use crate::table::{Notes, Table, choose};
use crate::{Missing, ReadError, Real};
use ::parquet::basic::{ConvertedType, Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{ChunkReader, FileReader, Length, SerializedFileReader};
use ::parquet::schema::types::ColumnDescriptor;
use bytes::Bytes;
use columns::{Column, decode, turn};
use qjam::DataSet;
use qjam::source::kept::Keep;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

/// Values that are put together at once, from all columns.
const BATCH_VALUES: usize = 1 << 19;

/// Reads a Parquet file.
///
/// ```no_run
/// use qjam_readers::Parquet;
/// let table = Parquet::new("homes.parquet").columns(["size", "rooms"]).target("price").read::<f64>()?;
/// # Ok::<(), qjam_readers::ReadError>(())
/// ```
pub struct Parquet {
    path: PathBuf,
    columns: Option<Vec<String>>,
    without: Vec<String>,
    target: Option<String>,
    missing: Missing,
    pub(crate) settings: Settings,
}

settings!(Parquet);

impl Parquet {
    /// The file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Parquet {
            path: path.into(),
            columns: None,
            without: Vec::new(),
            target: None,
            missing: Missing::Error,
            settings: Settings::default(),
        }
    }

    /// Reads these columns, in this order; all when nobody says.
    #[must_use]
    pub fn columns<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.columns = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Leaves out these columns.
    #[must_use]
    pub fn without<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.without = names.into_iter().map(Into::into).collect();
        self
    }

    /// The column that is to be learnt. It becomes the last one, as [`Labelled`](qjam::Labelled) wants it.
    #[must_use]
    pub fn target(mut self, name: impl Into<String>) -> Self {
        self.target = Some(name.into());
        self
    }

    /// What to do about missing values, which here are nulls and NaN.
    #[must_use]
    pub fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    /// Reads the file.
    pub fn read<T: Real>(mut self) -> Result<Table<T>, ReadError> {
        let input = Input::open(&self.path)?;
        let options = format!(
            "parquet {:?} {:?} {:?} {:?} {}",
            self.columns,
            self.without,
            self.target,
            self.missing,
            T::DTYPE
        );
        let keep = self.settings.keep(&input, &options)?;
        if let Keep::File(path) = &keep
            && let Some((data, notes)) = DataSet::kept(path)?
            && let Some(notes) = Notes::decode(&notes)
        {
            return Ok(notes.table(data));
        }
        // The library says what is wrong with most damaged files and panics at some.
        let damaged = self.wrong("it is damaged; write it again");
        catch_unwind(AssertUnwindSafe(|| self.convert(&input, &keep))).unwrap_or(Err(damaged))
    }

    fn wrong(&self, reason: impl Into<String>) -> ReadError {
        ReadError::Format { path: self.path.clone(), format: "Parquet", reason: reason.into() }
    }

    fn convert<T: Real>(&mut self, input: &Input, keep: &Keep) -> Result<Table<T>, ReadError> {
        let damaged = |error: ParquetError| ReadError::Format {
            path: input.path().into(),
            format: "Parquet",
            reason: error.to_string(),
        };
        let file =
            input.file().try_clone().map_err(|source| ReadError::Io { path: input.path().into(), source })?;
        let file = Positioned { file: Arc::new(file), bytes: input.stamp().bytes };
        let file = SerializedFileReader::new(file).map_err(damaged)?;
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        let all: Vec<String> = schema.columns().iter().map(|column| column.path().string()).collect();
        let chosen =
            choose(&self.path, &all, self.columns.as_deref(), &self.without, self.target.as_deref())?;
        for column in &chosen {
            numeric(&schema.column(*column))
                .map_err(|what| self.wrong(format!("column {:?} {what}; leave it out", all[*column])))?;
        }
        let names: Vec<String> = chosen.iter().map(|column| all[*column].clone()).collect();
        let (labelled, width) = (self.target.is_some(), names.len());
        let mut rows = Gathered::<T>::new(self.path.clone(), keep, names, labelled, self.missing)?;
        let total = input.stamp().bytes;
        let groups = file.num_row_groups();
        let mut columns: Vec<Column> =
            chosen.iter().map(|column| Column::new(&schema.column(*column))).collect();
        let batch_rows = (BATCH_VALUES / width).max(64);
        let threads = self.settings.threads();
        let mut values = Vec::new();
        for index in 0..groups {
            let group = file.get_row_group(index).map_err(damaged)?;
            let mut left =
                usize::try_from(group.metadata().num_rows()).map_err(|_| self.wrong("it is damaged"))?;
            let rows_in_group = left;
            let open = |column: &usize| group.get_column_reader(*column);
            let mut readers = chosen.iter().map(open).collect::<Result<Vec<_>, _>>().map_err(damaged)?;
            while left > 0 {
                let count = left.min(batch_rows);
                decode(&mut columns, &mut readers, count, threads).map_err(damaged)?;
                values.clear();
                values.resize(count * width, T::MISSING);
                turn(&columns, &mut values, threads);
                rows.take(&mut values)?;
                left -= count;
                let (done, all) = ((rows_in_group - left) as u64, rows_in_group as u64);
                let share = total / groups as u64;
                self.settings
                    .tell(share * index as u64 + (share as f64 * done as f64 / all as f64) as u64, total);
            }
        }
        self.settings.tell(total, total);
        input.must_be_unchanged()?;
        rows.finish()
    }
}

/// A file that threads read at places of their own. (The library's way with files moves a place that all share.)
struct Positioned {
    file: Arc<File>,
    bytes: u64,
}

/// One reader of such a file.
struct At {
    file: Arc<File>,
    at: u64,
}

impl Read for At {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(bytes, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Length for Positioned {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for Positioned {
    type T = BufReader<At>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(At { file: self.file.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // Lengths come from the file; what it has not got is not made room for.
        if start.checked_add(length as u64).is_none_or(|end| end > self.bytes) {
            return Err(ParquetError::EOF(format!("{length} bytes from {start} on are not all there")));
        }
        let mut bytes = Vec::with_capacity(length);
        let at = At { file: self.file.clone(), at: start };
        if at.take(length as u64).read_to_end(&mut bytes)? < length {
            return Err(ParquetError::EOF(format!("{length} bytes from {start} on are not all there")));
        }
        Ok(bytes.into())
    }
}

/// Whether a column is of numbers; else what it is.
fn numeric(column: &ColumnDescriptor) -> Result<(), String> {
    if column.max_rep_level() > 0 {
        return Err("is a list".into());
    }
    match (column.physical_type(), column.converted_type()) {
        (_, ConvertedType::DECIMAL) => Err("has decimals of fixed width; write it as double".into()),
        (Type::BOOLEAN | Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE, _) => Ok(()),
        (other, _) => Err(format!("has values of type {other}, which are no numbers")),
    }
}
