//! Parquet files: tables stored by columns.
//!
//! Values become numbers: integers, floating-point numbers and booleans; times and dates as the integers that store them. Columns
//! of text, lists and decimals are refused by name.

mod columns;
mod pages;
mod spill;

use crate::gathered::Gathered;
use crate::input::Input;
use crate::settings::{Settings, TABLE_COLUMNS_MAX, settings};
use crate::table::{ColumnNames, Notes, Table, choose};
use crate::{Missing, ReadError, Real};
use ::parquet::basic::{ConvertedType, Type};
use ::parquet::column::reader::get_column_reader;
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{ChunkReader, FileReader, Length, SerializedFileReader};
use ::parquet::schema::types::ColumnDescriptor;
use bytes::Bytes;
use columns::{Column, decode, turn};
use pages::{Budget, Pages, PagesTooLarge};
use qjam::DataSet;
use qjam::source::kept::Keep;
use spill::Spill;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

/// Usual maximum size of a page of a column; the writer may have chosen another.
const PAGE_BYTES: u64 = 1 << 20;

/// Columns are read together as long as their pages, compressed and decompressed, should not take more than this.
const STRIPE_BYTES: u64 = 24 << 20;

/// Runs of equal values take a few bytes, however long they are. A file may have so many values, and so many more for each of its bytes:
/// with row groups of a million rows, columns of nothing but equal values have five thousand.
const VALUES_FREE: u64 = 1 << 24;
const VALUES_PER_BYTE_MAX: u64 = 1 << 13;

/// Number of values, from all columns, assembled at a time.
const BATCH_VALUES: usize = 1 << 17;

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

    /// Reads these columns, in this order; by default all.
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

    /// The target column. It becomes the last column, as [`Labelled`](qjam::Labelled) expects.
    #[must_use]
    pub fn target(mut self, name: impl Into<String>) -> Self {
        self.target = Some(name.into());
        self
    }

    /// What to do about missing values, here nulls and NaN.
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
        if let Some(path) = keep.path()
            && let Some((data, notes)) = DataSet::kept(&path)?
            && let Some(notes) = Notes::decode(&notes)
        {
            return Ok(notes.table(data));
        }
        // The library returns errors for most damaged files and panics for some.
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
            reason: match &error {
                ParquetError::External(why) if why.is::<PagesTooLarge>() => why.to_string(),
                error => format!("{error}; it is truncated or damaged, copy it again"),
            },
        };
        let file =
            input.file().try_clone().map_err(|source| ReadError::Io { path: input.path().into(), source })?;
        let positioned = Positioned { file: Arc::new(file), bytes: input.stamp().bytes };
        let file = SerializedFileReader::new(positioned.clone()).map_err(damaged)?;
        let (positioned, budget) = (Arc::new(positioned), Budget::new(qjam::memory::most_bytes() / 4));
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        let count = schema.num_columns() as u64;
        self.settings.must_be_confirmed(&self.path, count, TABLE_COLUMNS_MAX)?;
        let all: Vec<String> = schema.columns().iter().map(|column| column.path().string()).collect();
        let chosen =
            choose(&self.path, &all, self.columns.as_deref(), &self.without, self.target.as_deref())?;
        for column in &chosen {
            numeric(&schema.column(*column)).map_err(|what| ReadError::Options {
                path: self.path.clone(),
                reason: format!("column {:?} {what}; leave it out", all[*column]),
            })?;
        }
        let rows: u64 = file.metadata().row_groups().iter().map(|group| group.num_rows().max(0) as u64).sum();
        let (values, bytes) = (rows.saturating_mul(chosen.len() as u64), input.stamp().bytes);
        if values > VALUES_FREE + VALUES_PER_BYTE_MAX.saturating_mul(bytes) {
            return Err(self.wrong(format!(
                "it claims {rows} rows of {} columns in {bytes} bytes, which would take very much room; if that is right, write it with smaller row groups",
                chosen.len()
            )));
        }
        let names: Vec<String> = chosen.iter().map(|column| all[*column].clone()).collect();
        let (labelled, width) = (self.target.is_some(), names.len());
        let names = ColumnNames::Given(names);
        let mut rows = Gathered::<T>::new(self.path.clone(), keep, names, labelled, self.missing)?;
        let total = input.stamp().bytes;
        let groups = file.num_row_groups();
        let mut columns: Vec<Column> =
            chosen.iter().map(|column| Column::new(&schema.column(*column))).collect();
        let threads = self.settings.threads();
        let mut values = Vec::new();
        for index in 0..groups {
            let group = file.get_row_group(index).map_err(damaged)?;
            let count =
                usize::try_from(group.metadata().num_rows()).map_err(|_| self.wrong("it is damaged"))?;
            let held = |column: &usize| {
                let bytes = group.metadata().column(*column).uncompressed_size();
                2 * u64::try_from(bytes).unwrap_or(0).min(PAGE_BYTES)
            };
            let stripes = stripes(chosen.iter().map(held), keep);
            let mut spill = (stripes.len() > 1).then(|| Spill::create(keep, count)).transpose()?;
            let batch_rows = (BATCH_VALUES / width).max(64);
            let share = total / groups as u64;
            for stripe in stripes {
                let open = |column: &usize| {
                    let pages = Pages::open(&positioned, group.metadata().column(*column), count, &budget)?;
                    Ok(get_column_reader(schema.column(*column), Box::new(pages)))
                };
                let readers = chosen[stripe.clone()].iter().map(open).collect::<Result<Vec<_>, _>>();
                let mut readers = readers.map_err(damaged)?;
                let columns = &mut columns[stripe.clone()];
                for first in (0..count).step_by(batch_rows) {
                    let some = batch_rows.min(count - first);
                    decode(columns, &mut readers, some, threads).map_err(damaged)?;
                    // Missing values are not written; all others are.
                    if columns.iter().any(Column::has_gaps) {
                        values.clear();
                    }
                    values.resize(some * columns.len(), T::MISSING);
                    turn(columns, &mut values, threads);
                    match &mut spill {
                        None => rows.take(&mut values)?,
                        Some(spill) => spill.put(stripe.clone(), first, &values)?,
                    }
                    let done = (stripe.start * count + (first + some) * columns.len()) as f64;
                    let done = share as f64 * done / (count * width) as f64;
                    self.settings.tell(share * index as u64 + done as u64, total);
                }
            }
            if let Some(spill) = spill {
                for first in (0..count).step_by(batch_rows) {
                    spill.take(first..(first + batch_rows).min(count), &mut values)?;
                    rows.take(&mut values)?;
                }
            }
        }
        self.settings.tell(total, total);
        input.must_be_unchanged()?;
        rows.finish()
    }
}

/// A file that several threads read by position. (The library's own reader moves a shared offset.)
#[derive(Clone)]
struct Positioned {
    file: Arc<File>,
    bytes: u64,
}

/// One reader of a [`Positioned`] file.
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
        // Lengths come from the file; no memory is allocated beyond its end.
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

/// Groups of columns that are read together. If the result stays in memory, all columns are one group.
fn stripes(held: impl Iterator<Item = u64>, keep: &Keep) -> Vec<Range<usize>> {
    let stays_in_memory = matches!(keep, Keep::Memory | Keep::Cached { .. });
    let (mut stripes, mut start, mut bytes, mut count) = (Vec::new(), 0, 0, 0);
    for (column, more) in held.enumerate() {
        if column > start && bytes + more > STRIPE_BYTES && !stays_in_memory {
            stripes.push(start..column);
            (start, bytes) = (column, 0);
        }
        (bytes, count) = (bytes + more, column + 1);
    }
    stripes.push(start..count);
    stripes
}

/// Checks that a column contains numbers; otherwise says what it contains.
fn numeric(column: &ColumnDescriptor) -> Result<(), String> {
    if column.max_rep_level() > 0 {
        return Err("is a list".into());
    }
    match (column.physical_type(), column.converted_type()) {
        (_, ConvertedType::DECIMAL) => Err("has decimals of fixed width; write it as double".into()),
        (Type::BOOLEAN | Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE, _) => Ok(()),
        (Type::BYTE_ARRAY, _) => Err("has text (BYTE_ARRAY), which is not a number".into()),
        (other, _) => Err(format!("has values of type {other}, which are not numbers")),
    }
}
