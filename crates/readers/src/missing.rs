//! The treatment of missing values.

use crate::{ReadError, Real};
use qjam::source::kept::RowsWriter;

/// What to do about a missing value: an empty field, `NA`, `NaN`, `null` and similar.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Missing {
    /// Refuse the file with the position of the value.
    #[default]
    Error,
    /// Replace it by this number.
    Value(f64),
    /// Replace it by the mean of the column's other values. A column without any value is refused.
    Mean,
    /// Drop the row. Rows with non-finite values are dropped as well.
    DropRow,
}

/// Whether a field denotes a missing value.
pub(crate) fn says_missing(field: &[u8]) -> bool {
    const WORDS: [&[u8]; 9] = [b"", b"na", b"n/a", b"#n/a", b"nan", b"null", b"none", b"-", b"?"];
    field.len() <= 4 && WORDS.iter().any(|word| word.eq_ignore_ascii_case(field))
}

/// The means of columns, accumulated block by block, in order.
#[derive(Clone, Debug)]
pub(crate) struct Means {
    cols: usize,
    /// Empty until there are rows.
    sums: Vec<f64>,
    counts: Vec<u64>,
    missing: bool,
}

impl Means {
    pub(crate) fn new(cols: usize) -> Self {
        Means { cols, sums: Vec::new(), counts: Vec::new(), missing: false }
    }

    pub(crate) fn add<T: Real>(&mut self, rows: &[T]) {
        self.sums.resize(self.cols, 0.0);
        self.counts.resize(self.cols, 0);
        let mut sums = vec![0.0; self.cols];
        for row in rows.chunks_exact(self.sums.len()) {
            for ((sum, count), value) in sums.iter_mut().zip(&mut self.counts).zip(row) {
                if value.missing() {
                    self.missing = true;
                } else {
                    *sum += value.to_f64();
                    *count += 1;
                }
            }
        }
        self.sums.iter_mut().zip(sums).for_each(|(all, some)| *all += some);
    }

    /// Replaces missing values by the means. The inner `Err` is the index of a column without any value.
    pub(crate) fn fill<T: Real>(&self, rows: &mut RowsWriter<T>) -> Result<Result<(), usize>, ReadError> {
        if !self.missing {
            return Ok(Ok(()));
        }
        if let Some(column) = self.counts.iter().position(|count| *count == 0) {
            return Ok(Err(column));
        }
        let of = |(sum, count): (&f64, &u64)| T::from_f64(sum / *count as f64);
        let means: Vec<T> = self.sums.iter().zip(&self.counts).map(of).collect();
        rows.revise(|some| {
            let mut changed = false;
            for row in some.chunks_exact_mut(means.len()) {
                for (value, mean) in row.iter_mut().zip(&means) {
                    if value.missing() {
                        (*value, changed) = (*mean, true);
                    }
                }
            }
            changed
        })?;
        Ok(Ok(()))
    }
}

/// Treats missing values in `rows`, except for means. Returns the number of rows dropped and of values replaced.
pub(crate) fn settle<T: Real>(
    values: &mut Vec<T>,
    width: usize,
    name: impl Fn(usize) -> String,
    missing: Missing,
    bad: impl Fn(usize, usize, crate::Problem) -> ReadError,
) -> Result<(u64, u64), ReadError> {
    use crate::Problem;
    // Usually nothing is missing; checking many values at once shows that quickly.
    let all_finite = |some: &[T]| some.iter().fold(true, |all, value| all & value.finite());
    if values.chunks(256).all(all_finite) {
        return Ok((0, 0));
    }
    let (mut dropped, mut filled, mut to) = (0, 0, 0);
    for row in 0..values.len() / width {
        let mut drop = false;
        for column in 0..width {
            let value = &mut values[row * width + column];
            if value.finite() {
                continue;
            }
            match missing {
                Missing::DropRow => drop = true,
                _ if !value.missing() => {
                    let found = format!("{}", value.to_f64());
                    return Err(bad(row, column, Problem::NotFinite { found }));
                }
                Missing::Error => {
                    return Err(bad(row, column, Problem::Missing { name: name(column) }));
                }
                Missing::Value(number) => (*value, filled) = (T::from_f64(number), filled + 1),
                Missing::Mean => filled += 1,
            }
        }
        if drop {
            dropped += 1;
        } else {
            values.copy_within(row * width..(row + 1) * width, to * width);
            to += 1;
        }
    }
    values.truncate(to * width);
    Ok((dropped, filled))
}
