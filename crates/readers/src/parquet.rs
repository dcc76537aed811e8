//! Parquet files: tables by columns, of which some are read.
//!
//! Values are taken as numbers: whole numbers, real numbers and truth values; times and dates as the whole numbers they
//! are stored as. Columns of text, lists and decimals are refused by name.

use crate::error::Problem;
use crate::input::Input;
use crate::missing::{Means, settle};
use crate::settings::{Settings, settings};
use crate::table::{Notes, Table, choose};
use crate::{Missing, ReadError, Real};
use ::parquet::basic::{ConvertedType, Type};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::DataType;
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{ChunkReader, FileReader, Length, SerializedFileReader};
use ::parquet::schema::types::ColumnDescriptor;
use bytes::Bytes;
use qjam::DataSet;
use qjam::source::kept::{Keep, RowsWriter};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

/// Rows that are put together at once.
const BATCH_ROWS: usize = 1 << 16;

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
        let mut rows = RowsWriter::<T>::create(keep, names.len())?;
        let (mut means, mut seen, mut dropped, mut filled) = (Means::new(names.len()), 0_u64, 0, 0);
        let total = input.stamp().bytes;
        let groups = file.num_row_groups();
        for index in 0..groups {
            let group = file.get_row_group(index).map_err(damaged)?;
            let open = |column: &usize| {
                Ok((group.get_column_reader(*column)?, schema.column(*column).converted_type()))
            };
            let mut readers =
                chosen.iter().map(open).collect::<Result<Vec<_>, ParquetError>>().map_err(damaged)?;
            let mut left =
                usize::try_from(group.metadata().num_rows()).map_err(|_| self.wrong("it is damaged"))?;
            while left > 0 {
                let count = left.min(BATCH_ROWS);
                let batch = batch(&mut readers, count, self.settings.threads()).map_err(damaged)?;
                let mut values = vec![T::MISSING; count * names.len()];
                for (j, column) in batch.iter().enumerate() {
                    for (i, value) in column.iter().enumerate() {
                        values[i * names.len() + j] = T::from_f64(*value);
                    }
                }
                let bad = |row: usize, column: usize, problem: Problem| ReadError::Value {
                    path: input.path().into(),
                    row: seen + row as u64 + 1,
                    column: names[column].clone(),
                    problem,
                };
                let settled = settle(&mut values, &names, self.missing, bad)?;
                (dropped, filled) = (dropped + settled.0, filled + settled.1);
                if self.missing == Missing::Mean {
                    means.add(&values);
                }
                rows.push(&values)?;
                (left, seen) = (left - count, seen + count as u64);
            }
            self.settings.tell(total / groups as u64 * (index as u64 + 1), total);
        }
        input.must_be_unchanged()?;
        if let Err(column) = means.fill(&mut rows)? {
            let reason =
                format!("column {:?} has no value at all, so it has no mean; leave it out", names[column]);
            return Err(ReadError::Options { path: self.path.clone(), reason });
        }
        if rows.rows() == 0 {
            return Err(ReadError::Empty { path: self.path.clone(), what: "rows" });
        }
        let notes = Notes { columns: names, labelled: self.target.is_some(), dropped, filled };
        Ok(notes.table(rows.finish(notes.encode())?))
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
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
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

/// The next values of all columns, which several threads share among them.
fn batch(
    readers: &mut [(ColumnReader, ConvertedType)],
    count: usize,
    threads: usize,
) -> Result<Vec<Vec<f64>>, ParquetError> {
    let share = readers.len().div_ceil(threads).max(1);
    let some = |readers: &mut [(ColumnReader, ConvertedType)]| {
        readers.iter_mut().map(|(reader, kind)| column(reader, *kind, count)).collect::<Result<Vec<_>, _>>()
    };
    let parts = std::thread::scope(|scope| {
        let running: Vec<_> = readers.chunks_mut(share).map(|part| scope.spawn(move || some(part))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread
                .join()
                .unwrap_or_else(|_| Err(ParquetError::General("a page is damaged; write it again".into())))
        };
        running.into_iter().map(join).collect::<Result<Vec<_>, _>>()
    })?;
    Ok(parts.into_iter().flatten().collect())
}

/// The next values of a column; what is null is not a number.
fn column(reader: &mut ColumnReader, kind: ConvertedType, count: usize) -> Result<Vec<f64>, ParquetError> {
    match reader {
        ColumnReader::BoolColumnReader(reader) => values(reader, count, |v| f64::from(u8::from(*v))),
        ColumnReader::Int32ColumnReader(reader) if kind == ConvertedType::UINT_32 => {
            values(reader, count, |v| f64::from(*v as u32))
        }
        ColumnReader::Int32ColumnReader(reader) => values(reader, count, |v| f64::from(*v)),
        ColumnReader::Int64ColumnReader(reader) if kind == ConvertedType::UINT_64 => {
            values(reader, count, |v| *v as u64 as f64)
        }
        ColumnReader::Int64ColumnReader(reader) => values(reader, count, |v| *v as f64),
        ColumnReader::FloatColumnReader(reader) => values(reader, count, |v| f64::from(*v)),
        ColumnReader::DoubleColumnReader(reader) => values(reader, count, |v| *v),
        _ => Err(ParquetError::General("a column is of another type than the file says".into())),
    }
}

fn values<D: DataType>(
    reader: &mut ColumnReaderImpl<D>,
    count: usize,
    number: impl Fn(&D::T) -> f64,
) -> Result<Vec<f64>, ParquetError> {
    let (mut found, mut levels) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut records = 0;
    while records < count {
        match reader.read_records(count - records, Some(&mut levels), None, &mut found)? {
            (0, _, _) => return Err(ParquetError::General("a column is shorter than the file says".into())),
            (more, _, _) => records += more,
        }
    }
    if found.len() == count {
        return Ok(found.iter().map(number).collect());
    }
    // Without levels nothing is null, and with them as many values are there as levels are at their highest.
    let highest = levels.iter().copied().max().unwrap_or(0);
    let all_null = found.is_empty();
    let mut found = found.iter();
    let of = |level: i16| {
        if level == highest && !all_null { found.next().map_or(f64::NAN, &number) } else { f64::NAN }
    };
    Ok(levels.into_iter().map(of).collect())
}
