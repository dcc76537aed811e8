//! Reads columns of a Parquet file, some rows at a time, and transposes them into rows.

use crate::Real;
use ::parquet::basic::{ConvertedType, Type};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::DataType;
use ::parquet::errors::ParquetError;
use ::parquet::schema::types::ColumnDescriptor;

/// Number of rows transposed at a time.
const TURN_ROWS: usize = 64;

/// A column and its next values, with the type of the file. The memory is reused for the next batch.
pub(super) struct Column {
    unsigned: bool,
    /// Definition level of a present value; 0 if the column cannot have missing values.
    present: i16,
    levels: Vec<i16>,
    values: Values,
}

enum Values {
    Bool(Vec<bool>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
}

impl Column {
    pub(super) fn new(about: &ColumnDescriptor) -> Column {
        let values = match about.physical_type() {
            Type::BOOLEAN => Values::Bool(Vec::new()),
            Type::INT32 => Values::I32(Vec::new()),
            Type::INT64 => Values::I64(Vec::new()),
            Type::FLOAT => Values::F32(Vec::new()),
            _ => Values::F64(Vec::new()),
        };
        let unsigned = matches!(about.converted_type(), ConvertedType::UINT_32 | ConvertedType::UINT_64);
        Column { unsigned, present: about.max_def_level(), levels: Vec::new(), values }
    }

    /// Whether some of the values are missing.
    pub(super) fn has_gaps(&self) -> bool {
        !self.levels.is_empty()
    }

    /// Reads the next values.
    fn decode(&mut self, reader: &mut ColumnReader, count: usize) -> Result<(), ParquetError> {
        use ColumnReader as Reader;
        self.levels.clear();
        let levels = &mut self.levels;
        match (reader, &mut self.values) {
            (Reader::BoolColumnReader(reader), Values::Bool(values)) => fill(reader, count, levels, values),
            (Reader::Int32ColumnReader(reader), Values::I32(values)) => fill(reader, count, levels, values),
            (Reader::Int64ColumnReader(reader), Values::I64(values)) => fill(reader, count, levels, values),
            (Reader::FloatColumnReader(reader), Values::F32(values)) => fill(reader, count, levels, values),
            (Reader::DoubleColumnReader(reader), Values::F64(values)) => fill(reader, count, levels, values),
            _ => Err(ParquetError::General("a column is of another type than the file says".into())),
        }?;
        if self.present == 0 || self.levels.iter().all(|level| *level == self.present) {
            self.levels.clear();
        }
        Ok(())
    }

    /// Copies values into a column of `rows`, starting at a row.
    fn put<T: Real>(&self, first: usize, rows: &mut [T], width: usize, column: usize) {
        match (&self.values, self.unsigned) {
            (Values::Bool(values), _) => {
                self.spread(values, first, rows, width, column, |v| T::from_f64(f64::from(u8::from(*v))));
            }
            (Values::I32(values), true) => {
                self.spread(values, first, rows, width, column, |v| T::from_f64(f64::from(*v as u32)));
            }
            (Values::I32(values), false) => {
                self.spread(values, first, rows, width, column, |v| T::from_f64(f64::from(*v)));
            }
            (Values::I64(values), true) => {
                self.spread(values, first, rows, width, column, |v| T::from_f64(*v as u64 as f64));
            }
            (Values::I64(values), false) => {
                self.spread(values, first, rows, width, column, |v| T::from_f64(*v as f64));
            }
            (Values::F32(values), _) => {
                self.spread(values, first, rows, width, column, |v| T::from_f64(f64::from(*v)));
            }
            (Values::F64(values), _) => {
                self.spread(values, first, rows, width, column, |v| T::from_f64(*v));
            }
        }
    }

    #[inline]
    fn spread<V, T: Real>(
        &self,
        values: &[V],
        first: usize,
        rows: &mut [T],
        width: usize,
        column: usize,
        number: impl Fn(&V) -> T,
    ) {
        let count = rows.len() / width;
        if self.levels.is_empty() {
            for (row, value) in rows.chunks_exact_mut(width).zip(&values[first..first + count]) {
                row[column] = number(value);
            }
            return;
        }
        let places = rows[column..].iter_mut().step_by(width);
        // Missing values are not stored; their cells keep the initial value, which means missing.
        let is_there = |level: &&i16| **level == self.present;
        let mut values = values[self.levels[..first].iter().filter(is_there).count()..].iter();
        for (place, level) in places.zip(&self.levels[first..first + count]) {
            if *level == self.present
                && let Some(value) = values.next()
            {
                *place = number(value);
            }
        }
    }
}

fn fill<D: DataType>(
    reader: &mut ColumnReaderImpl<D>,
    count: usize,
    levels: &mut Vec<i16>,
    values: &mut Vec<D::T>,
) -> Result<(), ParquetError> {
    values.clear();
    let mut records = 0;
    while records < count {
        match reader.read_records(count - records, Some(levels), None, values)? {
            (0, _, _) => return Err(ParquetError::General("a column is shorter than the file says".into())),
            (more, _, _) => records += more,
        }
    }
    // One value per row; or one level per row, and as many values as the levels say.
    if values.len() == count || levels.len() == count {
        Ok(())
    } else {
        Err(ParquetError::General("a column has another number of values than the file says".into()))
    }
}

/// Reads the next values of all columns, on several threads.
pub(super) fn decode(
    columns: &mut [Column],
    readers: &mut [ColumnReader],
    count: usize,
    threads: usize,
) -> Result<(), ParquetError> {
    let share = columns.len().div_ceil(threads).max(1);
    let some = |(columns, readers): (&mut [Column], &mut [ColumnReader])| {
        columns.iter_mut().zip(readers).try_for_each(|(column, reader)| column.decode(reader, count))
    };
    std::thread::scope(|scope| {
        let mut parts = columns.chunks_mut(share).zip(readers.chunks_mut(share));
        let first = parts.next();
        let running: Vec<_> = parts.map(|part| scope.spawn(move || some(part))).collect();
        let mine = first.map_or(Ok(()), some);
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread
                .join()
                .unwrap_or_else(|_| Err(ParquetError::General("a page is damaged; write it again".into())))
        };
        running.into_iter().map(join).fold(mine, Result::and)
    })
}

/// Transposes columns into rows, in square tiles so that both sides stay in the processor's cache. Each thread has some of the
/// rows.
pub(super) fn turn<T: Real>(columns: &[Column], rows: &mut [T], threads: usize) {
    let width = columns.len();
    let some = |first: usize, rows: &mut [T]| {
        for (piece, rows) in rows.chunks_mut(TURN_ROWS * width).enumerate() {
            for (at, column) in columns.iter().enumerate() {
                column.put(first + piece * TURN_ROWS, rows, width, at);
            }
        }
    };
    let share = (rows.len() / width).div_ceil(threads).max(TURN_ROWS);
    std::thread::scope(|scope| {
        let mut parts = rows.chunks_mut(share * width).enumerate();
        let mine = parts.next();
        for (index, part) in parts {
            scope.spawn(move || some(index * share, part));
        }
        if let Some((_, part)) = mine {
            some(0, part);
        }
    });
}
