//! Who gets which columns: as many for each, and as equal in entries as can be.
//!
//! A round is over when the slowest partition is, and what a partition costs is its entries, not its columns: in most data few
//! columns have most of them. So columns are dealt out, the longest first, to and fro: one to each partition, then one to each
//! in the opposite order. No partition then has more entries than another by more than the longest column. Always giving to the
//! one with the fewest entries is more even; on the one matrix tried, two partitions then took up to two thirds more
//! rounds, four took as many. Why has not been looked into. Within a partition the longest come first. The deal follows from the data and the number of
//! partitions alone.

use super::columns::{Columns, Value};
use qjam::{Csc, Csr, DataSet, Dense};
use std::cmp::Reverse;
use thiserror::Error;

/// Why data cannot be used.
#[derive(Debug, Error)]
pub enum PrepareError {
    /// A number that is not finite.
    #[error(
        "linear: row {row}, column {column} (counted from 0) is {value}; remove such rows or fill them in before fitting"
    )]
    NotFinite {
        /// Row of the data.
        row: u64,
        /// Column of the data.
        column: u64,
        /// NaN or an infinity.
        value: f64,
    },
    /// Numbers whose products leave no room for sums.
    #[error(
        "linear: column {column} (counted from 0) has numbers beyond {LARGEST:e}, whose products are too large to be added up; divide it by a power of ten"
    )]
    TooLarge {
        /// Column of the data.
        column: u64,
    },
    /// A target that is not finite.
    #[error("linear: the target of row {row} (counted from 0) is {value}; targets must be finite")]
    Target {
        /// Which row.
        row: usize,
        /// What is there.
        value: f64,
    },
    /// A class that is neither of two.
    #[error("linear: the label of row {row} (counted from 0) is {value}; two classes are written −1 and 1")]
    Label {
        /// Which row.
        row: usize,
        /// What is there.
        value: f64,
    },
    /// Not one target for each row.
    #[error("linear: {targets} targets for {rows} rows; there must be one for each")]
    Targets {
        /// Targets there are.
        targets: usize,
        /// Rows there are.
        rows: usize,
    },
    /// More than can be numbered.
    #[error("linear: {count} {what}; at most {} can be used", u32::MAX)]
    TooMany {
        /// Rows or columns.
        what: &'static str,
        /// How many there are.
        count: usize,
    },
    /// Not one price for each column.
    #[error("linear: {prices} prices for {columns} columns; there must be one for each")]
    Prices {
        /// Prices there are.
        prices: usize,
        /// Columns there are.
        columns: usize,
    },
    /// A price that is not a positive, finite number.
    #[error(
        "linear: the price of column {column} (counted from 0) is {value}; give a finite number that is not negative"
    )]
    Price {
        /// Which column.
        column: usize,
        /// What is there.
        value: f64,
    },
    /// No partitions.
    #[error("linear: 0 partitions; give at least 1")]
    NoPartitions,
    /// The data could not be read or cut.
    #[error(transparent)]
    Data(#[from] qjam::DataError),
    /// The chunks do not fit together.
    #[error(transparent)]
    Chunk(#[from] qjam::ChunkError),
}

/// Numbers up to this, whatever their sign, can be learnt from. What is added up are products of two of them, and what
/// certificates are made of are squares of such sums.
pub(in crate::linear) const LARGEST: f64 = 1e70;

/// Data in partitions, and which column each of them is.
#[derive(Clone, Debug)]
pub struct Partitioned<C> {
    data: DataSet<C>,
    /// Of the columns as they lie in the partitions, one after the other: which they were.
    order: Vec<u32>,
    /// What each column's terms are multiplied by, in the order of the data; none for all 1.
    prices: Vec<f64>,
    rows: usize,
    entries: u64,
}

impl<C: Columns> Partitioned<C> {
    /// The data, one chunk for each partition.
    pub fn data(&self) -> &DataSet<C> {
        &self.data
    }

    /// How many partitions there are: at most as many as columns.
    pub fn partitions(&self) -> usize {
        self.data.len()
    }

    /// The same with what each column's terms are multiplied by, in the order of the data: `g(a)` becomes `p g(a/p)`, where `p` is
    /// not negative, and columns whose price is 0 do not take part. In the dual of a support vector machine that is a price
    /// of its own, `p C`, for each example.
    pub fn with_prices(self, prices: Vec<f64>) -> Result<Self, PrepareError> {
        if prices.len() != self.order.len() {
            return Err(PrepareError::Prices { prices: prices.len(), columns: self.order.len() });
        }
        match prices.iter().position(|price| !(price.is_finite() && *price >= 0.0)) {
            Some(column) => Err(PrepareError::Price { column, value: prices[column] }),
            None => Ok(Partitioned { prices, ..self }),
        }
    }

    /// What each column's terms are multiplied by; none for all 1.
    pub fn prices(&self) -> &[f64] {
        &self.prices
    }

    /// Length of a column.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.order.len()
    }

    /// Entries of all columns.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Numbers of the columns, in the order of the data, as they lie in the partitions.
    pub fn dealt<T: Copy>(&self, in_order: &[T]) -> Vec<T> {
        self.order.iter().map(|column| in_order[*column as usize]).collect()
    }

    /// Where the columns of each partition begin among all.
    pub fn starts(&self) -> Vec<u64> {
        let (columns, partitions) = (self.order.len() as u64, self.data.len() as u64);
        (0..partitions).map(|k| k * (columns / partitions) + k.min(columns % partitions)).collect()
    }

    /// Puts numbers of the columns, as they lie in the partitions, into the order of the data.
    pub fn in_order<T: Copy + Default>(&self, dealt: impl Iterator<Item = T>) -> Vec<T> {
        let mut out = vec![T::default(); self.order.len()];
        self.order.iter().zip(dealt).for_each(|(column, value)| out[*column as usize] = value);
        out
    }
}

impl<T: Value> Partitioned<Csc<T>>
where
    Csc<T>: Columns,
{
    /// The columns of a matrix that is given by rows.
    pub fn columns_of(rows: &DataSet<Csr<T>>, partitions: usize) -> Result<Self, PrepareError> {
        let matrix = Sparse::columns_of(rows)?;
        matrix.dealt(partitions)
    }

    /// The rows of a matrix as columns, each multiplied by its label of −1 or 1: what support vector machines descend on.
    /// With a `constant` other than 0 every row gets one more feature of that value, whose weight is an intercept.
    pub fn examples_of(
        rows: &DataSet<Csr<T>>,
        labels: &[f64],
        constant: f64,
        partitions: usize,
    ) -> Result<Self, PrepareError> {
        let matrix = Sparse::rows_of(rows, labels, constant)?;
        matrix.dealt(partitions)
    }
}

impl<T: Value> Partitioned<Dense<T>>
where
    Dense<T>: Columns,
{
    /// The columns of a dense matrix that is given by rows.
    pub fn dense_columns_of(rows: &DataSet<Dense<T>>, partitions: usize) -> Result<Self, PrepareError> {
        let count = usize::try_from(rows.records()).unwrap_or(usize::MAX);
        let cols = rows.chunk(0)?.cols();
        must_be_numbered("columns", cols)?;
        let mut values = vec![T::default(); count * cols];
        let mut row = 0;
        for index in 0..rows.len() {
            for line in rows.chunk(index)?.rows_iter() {
                for (column, value) in line.iter().enumerate() {
                    must_be_finite(row, column, value.wide())?;
                    values[column * count + row] = *value;
                }
                row += 1;
            }
        }
        if partitions == 0 {
            return Err(PrepareError::NoPartitions);
        }
        let data = DataSet::dense(values, count)?.partitions(partitions)?;
        let order = (0..cols as u32).collect();
        Ok(Partitioned { data, order, prices: vec![], rows: count, entries: (count * cols) as u64 })
    }

    /// The rows of a dense matrix as columns, as [`examples_of`](Partitioned::examples_of) has those of a sparse one.
    pub fn dense_examples_of(
        rows: &DataSet<Dense<T>>,
        labels: &[f64],
        constant: f64,
        partitions: usize,
    ) -> Result<Self, PrepareError> {
        let count = usize::try_from(rows.records()).unwrap_or(usize::MAX);
        must_be_numbered("rows", count)?;
        must_be_labels(labels, count)?;
        if partitions == 0 {
            return Err(PrepareError::NoPartitions);
        }
        let (cols, extra) = (rows.chunk(0)?.cols(), constant != 0.0);
        let across = cols + usize::from(extra);
        let mut values = Vec::with_capacity(count * across);
        let mut row = 0;
        for index in 0..rows.len() {
            for line in rows.chunk(index)?.rows_iter() {
                for (column, value) in line.iter().enumerate() {
                    must_be_finite(row, column, value.wide())?;
                    values.push(T::nearest(value.wide() * labels[row]));
                }
                if extra {
                    values.push(T::nearest(constant * labels[row]));
                }
                row += 1;
            }
        }
        let data = DataSet::dense(values, across)?.partitions(partitions)?;
        let order = (0..count as u32).collect();
        Ok(Partitioned { data, order, prices: vec![], rows: across, entries: (count * across) as u64 })
    }
}

fn must_be_finite(row: usize, column: usize, value: f64) -> Result<(), PrepareError> {
    // What is no number compares as not.
    if value.abs() <= LARGEST {
        return Ok(());
    }
    let (row, column) = (row as u64, column as u64);
    Err(match value.is_finite() {
        true => PrepareError::TooLarge { column },
        false => PrepareError::NotFinite { row, column, value },
    })
}

fn must_be_numbered(what: &'static str, count: usize) -> Result<(), PrepareError> {
    match count < u32::MAX as usize {
        true => Ok(()),
        false => Err(PrepareError::TooMany { what, count }),
    }
}

/// Targets must be finite, one for each row.
pub(in crate::linear) fn must_be_targets(targets: &[f64], rows: usize) -> Result<(), PrepareError> {
    if targets.len() != rows {
        return Err(PrepareError::Targets { targets: targets.len(), rows });
    }
    match targets.iter().position(|t| !t.is_finite()) {
        Some(row) => Err(PrepareError::Target { row, value: targets[row] }),
        None => Ok(()),
    }
}

/// Labels must be −1 or 1, one for each row.
pub(in crate::linear) fn must_be_labels(labels: &[f64], rows: usize) -> Result<(), PrepareError> {
    if labels.len() != rows {
        return Err(PrepareError::Targets { targets: labels.len(), rows });
    }
    match labels.iter().position(|y| y.abs() != 1.0) {
        Some(row) => Err(PrepareError::Label { row, value: labels[row] }),
        None => Ok(()),
    }
}

/// Lines of a sparse matrix, which become columns.
struct Sparse<T> {
    starts: Vec<usize>,
    places: Vec<u32>,
    values: Vec<T>,
    across: usize,
}

impl<T: Value> Sparse<T> {
    fn columns_of(data: &DataSet<Csr<T>>) -> Result<Self, PrepareError> {
        let first = data.chunk(0)?;
        let rows = usize::try_from(data.records()).unwrap_or(usize::MAX);
        must_be_numbered("rows", rows)?;
        must_be_numbered("columns", first.cols())?;
        let mut starts = vec![0; first.cols() + 1];
        for index in 0..data.len() {
            data.chunk(index)?.columns().iter().for_each(|column| starts[*column as usize + 1] += 1);
        }
        for column in 0..first.cols() {
            starts[column + 1] += starts[column];
        }
        let entries = starts[first.cols()];
        let (mut places, mut values) = (vec![0; entries], vec![T::default(); entries]);
        let (mut next, mut row) = (starts.clone(), 0);
        for index in 0..data.len() {
            let chunk = data.chunk(index)?;
            for i in 0..chunk.rows() {
                let (line, line_values) = chunk.row(i);
                for (column, value) in line.iter().zip(line_values) {
                    must_be_finite(row, *column as usize, value.wide())?;
                    let at = next[*column as usize];
                    next[*column as usize] += 1;
                    (places[at], values[at]) = (row as u32, *value);
                }
                row += 1;
            }
        }
        Ok(Sparse { starts, places, values, across: rows })
    }

    fn rows_of(data: &DataSet<Csr<T>>, labels: &[f64], constant: f64) -> Result<Self, PrepareError> {
        let rows = usize::try_from(data.records()).unwrap_or(usize::MAX);
        must_be_numbered("rows", rows)?;
        must_be_labels(labels, rows)?;
        let (cols, extra) = (data.chunk(0)?.cols(), constant != 0.0);
        must_be_numbered("columns", cols)?;
        let across = cols + usize::from(extra);
        let mut out = Sparse { starts: vec![0], places: vec![], values: vec![], across };
        for index in 0..data.len() {
            let chunk = data.chunk(index)?;
            for i in 0..chunk.rows() {
                let (row, (line, values)) = (out.starts.len() - 1, chunk.row(i));
                for (column, value) in line.iter().zip(values) {
                    must_be_finite(row, *column as usize, value.wide())?;
                    out.values.push(T::nearest(value.wide() * labels[row]));
                }
                out.places.extend_from_slice(line);
                if extra {
                    out.places.push(cols as u32);
                    out.values.push(T::nearest(constant * labels[row]));
                }
                out.starts.push(out.places.len());
            }
        }
        Ok(out)
    }

    fn entries(&self, line: usize) -> usize {
        self.starts[line + 1] - self.starts[line]
    }

    /// What is not needed any more is let go at once: a matrix may be most of the memory there is.
    fn dealt(self, partitions: usize) -> Result<Partitioned<Csc<T>>, PrepareError>
    where
        Csc<T>: Columns,
    {
        if partitions == 0 {
            return Err(PrepareError::NoPartitions);
        }
        let lines = self.starts.len() - 1;
        let order = deal(&(0..lines).map(|line| self.entries(line)).collect::<Vec<_>>(), partitions);
        // By rows, since that is what data sets of columns are made from.
        let mut starts = vec![0_u64; self.across + 1];
        self.places.iter().for_each(|place| starts[*place as usize + 1] += 1);
        for place in 0..self.across {
            starts[place + 1] += starts[place];
        }
        let mut next: Vec<u64> = starts.clone();
        let entries = self.places.len();
        let (mut columns, mut values) = (vec![0_u32; entries], vec![T::default(); entries]);
        for (dealt, line) in order.iter().enumerate() {
            let range = self.starts[*line as usize]..self.starts[*line as usize + 1];
            for at in range {
                let next = &mut next[self.places[at] as usize];
                columns[*next as usize] = dealt as u32;
                values[*next as usize] = self.values[at];
                *next += 1;
            }
        }
        let across = self.across;
        drop(self);
        let rows = Csr::from_vecs(starts, columns, values, lines, None)?;
        let data = DataSet::columns_of(&rows)?;
        drop(rows);
        let data = data.partitions(partitions)?;
        Ok(Partitioned { data, order, prices: vec![], rows: across, entries: entries as u64 })
    }
}

/// Lines in the order of their partitions, each of which has its share of their number.
fn deal(entries: &[usize], partitions: usize) -> Vec<u32> {
    let partitions = partitions.min(entries.len()).max(1);
    let mut longest: Vec<u32> = (0..entries.len() as u32).collect();
    longest.sort_by_key(|line| (Reverse(entries[*line as usize]), *line));
    let mut hands: Vec<Vec<u32>> = vec![Vec::with_capacity(entries.len() / partitions + 1); partitions];
    for (turn, lines) in longest.chunks(partitions).enumerate() {
        for (i, line) in lines.iter().enumerate() {
            // A last turn that is not whole is for the first partitions: they are the larger ones of a cut.
            let to_and_fro = turn % 2 == 1 && lines.len() == partitions;
            hands[if to_and_fro { partitions - 1 - i } else { i }].push(*line);
        }
    }
    hands.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(entries: &[usize], partitions: usize) -> Vec<usize> {
        let order = deal(entries, partitions);
        let data = DataSet::list(order).unwrap().partitions(partitions).unwrap();
        let load = |k| data.chunk(k).unwrap().iter().map(|line| entries[*line as usize]).sum();
        (0..data.len()).map(load).collect()
    }

    #[test]
    fn partitions_are_equal_in_entries() {
        let power_law: Vec<usize> = (1..=5000).map(|j| 40_000 / j + 3).collect();
        for partitions in [1, 2, 3, 7, 16] {
            let loads = loads(&power_law, partitions);
            let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
            assert!(most - least <= power_law[0], "{partitions}: {loads:?}");
        }
    }

    #[test]
    fn every_line_is_dealt_once() {
        for (lines, partitions) in [(1, 1), (1, 4), (7, 3), (100, 8)] {
            let mut order = deal(&vec![1; lines], partitions);
            order.sort_unstable();
            assert_eq!(order, (0..lines as u32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn columns_come_back_in_their_order() {
        // 1 0 2
        // 0 0 3
        let x = Csr::from_vecs(vec![0, 2, 3], vec![0, 2, 2], vec![1.0, 2.0, 3.0], 3, None).unwrap();
        let parts = Partitioned::columns_of(&DataSet::csr(&x).unwrap(), 2).unwrap();
        let sums = (0..parts.partitions()).flat_map(|k| {
            let chunk = parts.data().chunk(k).unwrap();
            (0..chunk.cols()).map(move |j| chunk.col(j).1.iter().sum::<f64>()).collect::<Vec<_>>()
        });
        let dealt: Vec<f64> = sums.collect();
        let in_order = parts.in_order(dealt.iter().copied());
        assert_eq!(in_order, [1.0, 0.0, 5.0]);
        assert_eq!(parts.dealt(&in_order), dealt);
        let starts: Vec<u64> = vec![0, parts.data().chunk(0).unwrap().cols() as u64];
        assert_eq!(parts.starts(), starts);
        assert_eq!((parts.columns(), parts.rows(), parts.entries()), (3, 2, 3));
    }

    #[test]
    fn bad_numbers_are_named() {
        let x = Csr::from_vecs(vec![0, 1, 2], vec![1, 0], vec![1.0, f64::NAN], 3, None).unwrap();
        let refused = Partitioned::columns_of(&DataSet::csr(&x).unwrap(), 2).unwrap_err();
        assert!(matches!(refused, PrepareError::NotFinite { row: 1, column: 0, .. }), "{refused}");
        let x = Csr::from_vecs(vec![0, 1, 2], vec![1, 0], vec![1.0, 2.0], 3, None).unwrap();
        let data = DataSet::csr(&x).unwrap();
        let refused = Partitioned::examples_of(&data, &[1.0, 0.0], 0.0, 2).unwrap_err();
        assert!(matches!(refused, PrepareError::Label { row: 1, .. }), "{refused}");
        assert!(matches!(Partitioned::columns_of(&data, 0), Err(PrepareError::NoPartitions)));
    }
}
