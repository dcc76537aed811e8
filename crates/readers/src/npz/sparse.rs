//! Sparse matrices as written by `scipy.sparse.save_npz`: an archive of several arrays.
//!
//! The array `format` gives the format: by rows (`csr`), by columns (`csc`), or by coordinates (`coo`). All become rows. As in
//! SciPy, the entries of a row may be in any order, and entries at the same position are added, in the order of the file.
//! Everything in the file is checked before it is used; an invalid position is an error that gives the position.

use super::Npz;
use crate::error::{Problem, reserve};
use crate::input::Input;
use crate::settings::TABLE_COLUMNS_MAX;
use crate::{Missing, ReadError, Real};
use qjam::source::kept::SparseWriter;
use qjam::{Csr, DataSet};

/// The array that contains the format.
const FORMAT: &str = "format";

/// Memory that a value takes while it is put into its row: its position, its value, both sorted, and in the result.
const VALUE_BYTES: u64 = 56;

/// The same for a line.
const LINE_BYTES: u64 = 24;

/// Maximum size of the array with the format.
const WORD_BYTES_MAX: u64 = 4096;

/// The positions of the entries.
enum Positions {
    /// By lines, which are rows or columns: the start of each line and the end of the last; the index of each entry across it.
    Lines { starts: Vec<i64>, across: Vec<i64>, are_rows: bool },
    /// Row and column of each entry.
    Pairs { rows: Vec<i64>, columns: Vec<i64> },
}

impl Npz {
    /// Whether the archive contains a sparse matrix of SciPy.
    pub fn is_sparse(&self) -> Result<bool, ReadError> {
        let names = self.names()?;
        Ok([FORMAT, "shape", "data"].iter().all(|name| names.iter().any(|found| found == name)))
    }

    /// The rows of a sparse matrix that `scipy.sparse.save_npz` wrote: `csr`, `csc` or `coo`.
    ///
    /// ```no_run
    /// use qjam_readers::Npz;
    /// let x = Npz::new("x.npz").read_sparse::<f64>()?;
    /// # Ok::<(), qjam_readers::ReadError>(())
    /// ```
    pub fn read_sparse<T: Real>(mut self) -> Result<DataSet<Csr<T>>, ReadError> {
        let input = Input::open(&self.path)?;
        if self.missing != Missing::Error {
            let reason = "it is a sparse matrix, to which `missing` does not apply; repair it before saving";
            return Err(ReadError::Options { path: self.path.clone(), reason: reason.into() });
        }
        let options = format!("npz sparse {}", T::DTYPE);
        let unpacked = self.count(&input, "data")?.saturating_mul(size_of::<T>() as u64 + 4);
        let keep = self.settings.keep_unpacked(&input, unpacked, &options)?;
        if let Some(path) = keep.path()
            && let Some((data, _)) = DataSet::kept(&path)?
        {
            return Ok(data);
        }
        let matrix = self.matrix::<T>(&input)?;
        input.must_be_unchanged()?;
        let cols = matrix.cols() as u64;
        let mut rows = SparseWriter::create(&keep, false);
        rows.push(&matrix)?;
        Ok(rows.finish(cols, Vec::new())?)
    }

    fn matrix<T: Real>(&mut self, input: &Input) -> Result<Csr<T>, ReadError> {
        let format = self.word(input)?;
        let (rows, cols) = match self.whole(input, "shape")?[..] {
            [rows, cols] if rows > 0 && cols > 0 && rows < 1 << 32 && cols < 1 << 32 => {
                (rows as usize, cols as usize)
            }
            ref shape => {
                return Err(
                    self.wrong(format!("its shape is {shape:?}; give a matrix with rows and columns"))
                );
            }
        };
        self.must_fit(input, &format, (rows as u64, cols as u64))?;
        let positions = match format.as_str() {
            "csr" | "csc" => Positions::Lines {
                starts: self.whole(input, "indptr")?,
                across: self.whole(input, "indices")?,
                are_rows: format == "csr",
            },
            "coo" if self.names()?.iter().any(|name| name == "row") => {
                Positions::Pairs { rows: self.whole(input, "row")?, columns: self.whole(input, "col")? }
            }
            _ => {
                return Err(self.wrong(format!(
                    "it is a sparse matrix of format {format:?}, but only csr, csc and coo are supported; save x.tocsr()"
                )));
            }
        };
        let values: Vec<T> = self.numbers(input, "data")?;
        let made = by_rows((rows, cols), &positions, &values);
        made.map_err(|wrong| match wrong {
            Wrong::Form(reason) => self.wrong(reason),
            Wrong::Memory { bytes } => self.no_memory(bytes),
            Wrong::Value { row, column, value } => ReadError::Value {
                path: self.path.clone(),
                row: row as u64 + 1,
                column: (column + 1).to_string(),
                problem: Problem::NotFinite { found: value.to_string() },
            },
        })
    }

    /// The number of elements that an array claims to have.
    fn count(&self, input: &Input, name: &str) -> Result<u64, ReadError> {
        let (member, start) = self.find(input, name)?;
        let header = self.content(input, &member, start)?.header;
        // Bounded by the bytes of the member.
        Ok(header.rows * header.cols)
    }

    /// Refuses a matrix that claims more rows or columns than its values make likely, or more memory than there is.
    fn must_fit(&self, input: &Input, format: &str, (rows, cols): (u64, u64)) -> Result<(), ReadError> {
        let values = self.count(input, "data")?;
        let usual = TABLE_COLUMNS_MAX.max(values);
        self.settings.must_be_confirmed(&self.path, cols, usual)?;
        if format != "csr" && rows > usual {
            return Err(self.wrong(format!(
                "it claims {rows} rows and has {values} values; if that is right, save x.tocsr(), which stores each row"
            )));
        }
        let lines = if format == "csc" { rows.saturating_add(cols) } else { rows };
        let bytes = values.saturating_mul(VALUE_BYTES).saturating_add(lines.saturating_mul(LINE_BYTES));
        match bytes <= qjam::memory::most_bytes() / 4 * 3 {
            true => Ok(()),
            false => Err(self.no_memory(bytes)),
        }
    }

    fn no_memory(&self, bytes: u64) -> ReadError {
        let remedy = "use a machine with more memory, or save the matrix in several parts";
        ReadError::Memory { path: self.path.clone(), bytes, remedy }
    }

    /// The format: text with one or four bytes per character.
    fn word(&self, input: &Input) -> Result<String, ReadError> {
        let (member, start) = self.find(input, FORMAT)?;
        if member.bytes > WORD_BYTES_MAX {
            return Err(self.wrong("its format is no word"));
        }
        let bytes = self.unpacked(input, &member, start)?;
        let text = bytes.iter().position(|byte| *byte == b'\n').map_or(&[][..], |end| &bytes[end + 1..]);
        let letters = text.iter().filter(|byte| **byte != 0).map(|byte| char::from(*byte));
        Ok(letters.collect())
    }

    /// An array of floating-point numbers.
    fn numbers<T: Real>(&mut self, input: &Input, name: &str) -> Result<Vec<T>, ReadError> {
        let (member, start) = self.find(input, name)?;
        let mut content = self.content(input, &member, start)?;
        let (descr, mut values, path) = (content.header.descr, Vec::new(), input.path());
        let width = crate::npy::width(descr);
        content.each(&mut self.settings, |bytes| {
            reserve(&mut values, bytes.len() / width, path)?;
            crate::npy::convert(descr, bytes, &mut values);
            Ok(())
        })?;
        Ok(values)
    }

    /// An array of whole numbers.
    fn whole(&mut self, input: &Input, name: &str) -> Result<Vec<i64>, ReadError> {
        let (member, start) = self.find(input, name)?;
        let mut content = self.content(input, &member, start)?;
        let (descr, mut values) = (content.header.descr, Vec::new());
        if !["<i4", "<i8"].contains(&descr) {
            return Err(
                self.wrong(format!("{name:?} has elements of type {descr}, but must have whole numbers"))
            );
        }
        let (path, width) = (input.path(), crate::npy::width(descr));
        content.each(&mut self.settings, |bytes| {
            reserve(&mut values, bytes.len() / width, path)?;
            match descr {
                "<i4" => values
                    .extend(bytes.as_chunks().0.iter().map(|value| i64::from(i32::from_le_bytes(*value)))),
                _ => values.extend(bytes.as_chunks().0.iter().map(|value| i64::from_le_bytes(*value))),
            }
            Ok(())
        })?;
        Ok(values)
    }
}

/// What is wrong with a matrix.
#[derive(Debug, PartialEq)]
enum Wrong {
    Form(String),
    Memory { bytes: u64 },
    Value { row: usize, column: usize, value: f64 },
}

fn by_rows<T: Real>(
    (rows, cols): (usize, usize),
    positions: &Positions,
    values: &[T],
) -> Result<Csr<T>, Wrong> {
    let form = |reason: String| Err(Wrong::Form(reason));
    let mut entries: Vec<(u32, u32)> = room(values.len())?;
    match positions {
        Positions::Lines { starts, across, are_rows } => {
            let (lines, what) = if *are_rows { (rows, "row") } else { (cols, "column") };
            if starts.len() != lines + 1 || across.len() != values.len() {
                return form(format!(
                    "it has {lines} {what}s, {} starts, {} indices and {} values, which do not match",
                    starts.len(),
                    across.len(),
                    values.len()
                ));
            }
            let rise = starts.windows(2).all(|pair| pair[0] <= pair[1]);
            if !rise || starts[0] != 0 || starts[lines] != values.len() as i64 {
                return form(format!(
                    "the starts of its {what}s do not increase from 0 to its {} values",
                    values.len()
                ));
            }
            let place = |line: usize, at: i64| if *are_rows { (line as i64, at) } else { (at, line as i64) };
            let line = |at: usize| starts[at] as usize..starts[at + 1] as usize;
            let pairs = (0..lines).flat_map(|at| line(at).map(move |entry| (at, entry)));
            for (at, entry) in pairs {
                entries.push(inside(place(at, across[entry]), rows, cols)?);
            }
        }
        Positions::Pairs { rows: at, columns } => {
            if at.len() != values.len() || columns.len() != values.len() {
                return form(format!(
                    "it has {} rows, {} columns and {} values, which do not match",
                    at.len(),
                    columns.len(),
                    values.len()
                ));
            }
            for (row, column) in at.iter().zip(columns) {
                entries.push(inside((*row, *column), rows, cols)?);
            }
        }
    }
    if let Some(at) = values.iter().position(|value| !value.finite()) {
        let (row, column) = entries[at];
        return Err(Wrong::Value { row: row as usize, column: column as usize, value: values[at].to_f64() });
    }
    let mut next = zeros::<u64>(rows + 1)?;
    entries.iter().for_each(|(row, _)| next[*row as usize + 1] += 1);
    (0..rows).for_each(|row| next[row + 1] += next[row]);
    let mut sorted = room(values.len())?;
    sorted.resize(values.len(), (0_u32, T::zeroed()));
    for ((row, column), value) in entries.iter().zip(values) {
        let to = &mut next[*row as usize];
        sorted[*to as usize] = (*column, *value);
        *to += 1;
    }
    // Each row begins where the previous one ends.
    let ends = &next[..rows];
    let (mut starts, mut columns, mut out) = (room(rows + 1)?, room(values.len())?, room(values.len())?);
    starts.push(0_u64);
    let mut begin = 0;
    for end in ends {
        let line = &mut sorted[begin..*end as usize];
        // Stable, so that entries are added in the order of the file.
        line.sort_by_key(|(column, _)| *column);
        let first = columns.len();
        for (column, value) in line.iter() {
            match columns[first..].last() {
                Some(last) if last == column => {
                    let sum: &mut T = out.last_mut().expect("there is one for each column");
                    *sum = T::from_f64(sum.to_f64() + value.to_f64());
                }
                _ => {
                    columns.push(*column);
                    out.push(*value);
                }
            }
        }
        starts.push(columns.len() as u64);
        begin = *end as usize;
    }
    Ok(Csr::from_vecs(starts, columns, out, cols, None).expect("positions were checked"))
}

/// An empty list with room for so many, which a file claims to have.
fn room<V>(count: usize) -> Result<Vec<V>, Wrong> {
    let (mut list, bytes) = (Vec::new(), (count as u64).saturating_mul(size_of::<V>() as u64));
    list.try_reserve_exact(count).map(|()| list).map_err(|_| Wrong::Memory { bytes })
}

fn zeros<V: Clone + Default>(count: usize) -> Result<Vec<V>, Wrong> {
    let mut list = room(count)?;
    list.resize(count, V::default());
    Ok(list)
}

fn inside((row, column): (i64, i64), rows: usize, cols: usize) -> Result<(u32, u32), Wrong> {
    match (0..rows as i64).contains(&row) && (0..cols as i64).contains(&column) {
        true => Ok((row as u32, column as u32)),
        false => Err(Wrong::Form(format!(
            "it has an entry at row {row}, column {column}, counted from 0, and only {rows} rows and {cols} columns"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0 5 0
    /// 1 0 2
    fn is_the_matrix(found: Result<Csr<f64>, Wrong>) {
        let x = found.expect("it is right");
        assert_eq!((x.rows(), x.cols()), (2, 3));
        assert_eq!((x.row(0), x.row(1)), ((&[1][..], &[5.0][..]), (&[0, 2][..], &[1.0, 2.0][..])));
    }

    fn lines(starts: &[i64], across: &[i64], are_rows: bool) -> Positions {
        Positions::Lines { starts: starts.to_vec(), across: across.to_vec(), are_rows }
    }

    #[test]
    fn rows_columns_and_places_are_the_same_matrix() {
        is_the_matrix(by_rows((2, 3), &lines(&[0, 1, 3], &[1, 0, 2], true), &[5.0, 1.0, 2.0]));
        is_the_matrix(by_rows((2, 3), &lines(&[0, 1, 2, 3], &[1, 0, 1], false), &[1.0, 5.0, 2.0]));
        let positions = Positions::Pairs { rows: vec![1, 0, 1], columns: vec![2, 1, 0] };
        is_the_matrix(by_rows((2, 3), &positions, &[2.0, 5.0, 1.0]));
    }

    #[test]
    fn entries_in_any_order_are_sorted_and_those_at_one_place_added() {
        is_the_matrix(by_rows(
            (2, 3),
            &lines(&[0, 2, 5], &[1, 1, 2, 0, 2], true),
            &[2.0, 3.0, 0.5, 1.0, 1.5],
        ));
        is_the_matrix(by_rows((2, 3), &lines(&[0, 1, 2, 4], &[1, 0, 1, 1], false), &[1.0, 5.0, 1.5, 0.5]));
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let refused = |starts: &[i64], across: &[i64], values: &[f64]| match by_rows(
            (2, 3),
            &lines(starts, across, true),
            values,
        )
        .err()
        {
            Some(Wrong::Form(reason)) => reason,
            other => panic!("{other:?}"),
        };
        assert!(refused(&[0, 1], &[1], &[1.0]).contains("2 rows, 2 starts, 1 indices and 1 values"));
        assert!(refused(&[0, 2, 1], &[1], &[1.0]).contains("do not increase"));
        assert!(refused(&[0, 1, 1], &[1, 2], &[1.0, 2.0]).contains("do not increase"));
        assert!(
            refused(&[0, 1, 1], &[3], &[1.0]).contains("row 0, column 3, counted from 0, and only 2 rows")
        );
        assert!(refused(&[0, 1, 1], &[-1], &[1.0]).contains("column -1"));
        let positions = Positions::Pairs { rows: vec![2], columns: vec![0] };
        assert!(by_rows((2, 3), &positions, &[1.0]).is_err());
        let nan = by_rows((2, 3), &lines(&[0, 1, 2], &[1, 2], true), &[1.0, f64::NAN]).err();
        assert!(matches!(nan, Some(Wrong::Value { row: 1, column: 2, value }) if value.is_nan()));
    }
}
