//! LIBSVM or svmlight files: a label and the non-zero values of a row per line.
//!
//! `1 3:0.5 7:2 # a comment` is a row with label 1, the value 0.5 in column 3 and 2 in column 7. `qid:5` after the label, which
//! rankings use, is ignored.

use crate::blocks::{self, Parsed, Splitter, count_lines};
use crate::error::{BlockError, Problem, shown};
use crate::input::Input;
use crate::settings::{Settings, TABLE_COLUMNS_MAX, settings};
use crate::{ReadError, Real};
use qjam::source::kept::{Keep, SparseWriter};
use qjam::{Csc, Csr, DataSet};
use std::path::PathBuf;

/// Reads a LIBSVM file.
///
/// ```
/// use qjam_readers::Libsvm;
/// let path = std::env::temp_dir().join(format!("qjam-readers-{}.svm", std::process::id()));
/// std::fs::write(&path, "1 1:0.5 3:2\n-1 2:1\n")?;
/// let rows = Libsvm::new(&path).read::<f64>()?.chunk(0)?;
/// assert_eq!((rows.rows(), rows.cols()), (2, 3));
/// assert_eq!(rows.row(0), (&[0, 2][..], &[0.5, 2.0][..]));
/// assert_eq!(rows.labels(), Some(&[1.0, -1.0][..]));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Libsvm {
    path: PathBuf,
    first: u32,
    cols: Option<u64>,
    pub(crate) settings: Settings,
}

settings!(Libsvm);

/// A sparse matrix by its columns.
#[derive(Clone, Debug)]
pub struct Columns<T: Real> {
    /// The columns.
    pub data: DataSet<Csc<T>>,
    /// The label of each row.
    pub labels: Vec<T>,
}

impl Libsvm {
    /// The file, optionally compressed by gzip or zstd. Indices start at 1.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Libsvm { path: path.into(), first: 1, cols: None, settings: Settings::default() }
    }

    /// Indices start at 0.
    #[must_use]
    pub fn zero_based(mut self) -> Self {
        self.first = 0;
        self
    }

    /// Sets the number of columns, if the last ones do not occur in this file.
    #[must_use]
    pub fn cols(mut self, cols: usize) -> Self {
        self.cols = Some(cols as u64);
        self
    }

    /// Reads the rows, with their labels.
    pub fn read<T: Real>(mut self) -> Result<DataSet<Csr<T>>, ReadError> {
        let (input, keep) = self.open::<T>("rows")?;
        if let Some(path) = keep.path()
            && let Some((data, _)) = DataSet::kept(&path)?
        {
            return Ok(data);
        }
        let (rows, cols) = self.gather(&input, &keep, None)?;
        Ok(rows.finish(cols, Vec::new())?)
    }

    /// Reads the columns: a chunk contains some columns of all rows.
    pub fn read_columns<T: Real>(mut self) -> Result<Columns<T>, ReadError> {
        let (input, keep) = self.open::<T>("columns")?;
        if let Some(path) = keep.path()
            && let Some((data, notes)) = DataSet::kept(&path)?
            && notes.len().is_multiple_of(size_of::<T>())
        {
            return Ok(Columns { data, labels: bytemuck::pod_collect_to_vec(&notes) });
        }
        let mut labels = Vec::new();
        let (rows, cols) = self.gather(&input, &keep, Some(&mut labels))?;
        let data = rows.finish_columns(cols, bytemuck::cast_slice(&labels).to_vec())?;
        Ok(Columns { data, labels })
    }

    fn open<T: Real>(&self, by: &str) -> Result<(Input, Keep), ReadError> {
        let input = Input::open(&self.path)?;
        let options = format!("libsvm {by} {} {:?} {}", self.first, self.cols, T::DTYPE);
        let keep = self.settings.keep(&input, &options)?;
        Ok((input, keep))
    }

    fn gather<T: Real>(
        &mut self,
        input: &Input,
        keep: &Keep,
        mut labels: Option<&mut Vec<T>>,
    ) -> Result<(SparseWriter<T>, u64), ReadError> {
        let splitter = Splitter::new(input.stream()?, None)?;
        let mut rows = SparseWriter::create(keep, true);
        let first = self.first;
        // A column index must fit into 32 bits.
        let most = self.cols.unwrap_or(1 << 32).min(1 << 32) - 1;
        let parse = |text: &[u8]| {
            let made = parse::<T>(text, first, most)?;
            Ok(Parsed { lines: count_lines(text), made })
        };
        blocks::run(splitter, input.stamp().bytes, &mut self.settings, parse, |some: Csr<T>| {
            if let (Some(all), Some(some)) = (labels.as_mut(), some.labels()) {
                all.extend_from_slice(some);
            }
            Ok(rows.push(&some)?)
        })?;
        input.must_be_unchanged()?;
        if rows.rows() == 0 {
            return Err(ReadError::Empty { path: self.path.clone(), what: "rows" });
        }
        // Its largest index may be the only sign of its columns, and memory is needed for each.
        if self.cols.is_none() {
            let usual = TABLE_COLUMNS_MAX.max(rows.values());
            self.settings.must_be_confirmed(&self.path, rows.cols(), usual)?;
        }
        // A file with labels only is a matrix with one column of zeros.
        let cols = self.cols.unwrap_or(rows.cols()).max(1);
        Ok((rows, cols))
    }
}

/// The rows of a text. The last line may lack its line break. Column indices start at 0 and are at most `most`.
fn parse<T: Real>(text: &[u8], first: u32, most: u64) -> Result<Csr<T>, BlockError> {
    let (mut starts, mut columns) = (vec![0_u64], Vec::with_capacity(text.len() / 8));
    let (mut values, mut labels) = (Vec::with_capacity(text.len() / 8), Vec::new());
    let mut at = 0;
    while at < text.len() {
        at = spaces(text, at);
        if !matches!(text.get(at), None | Some(b'\n' | b'#')) {
            let Some((label, length)) =
                T::parse(&text[at..]).filter(|(_, length)| ends_token(text, at + length))
            else {
                return Err(bad(text, at, Problem::NotALabel { found: token(text, at) }));
            };
            if !label.finite() {
                return Err(bad(text, at, Problem::NotFinite { found: token(text, at) }));
            }
            labels.push(label);
            at = spaces(text, at + length);
            if text[at..].starts_with(b"qid:") {
                at += memchr::memchr3(b' ', b'\t', b'\n', &text[at..]).unwrap_or(text.len() - at);
            }
            at = pairs(text, at, first, most, &mut columns, &mut values)?;
            starts.push(columns.len() as u64);
        }
        at = match text.get(at) {
            Some(b'\n') => at + 1,
            _ => memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |end| at + end + 1),
        };
    }
    let cols = columns.iter().max().map_or(1, |last: &u32| *last as usize + 1);
    Ok(Csr::from_vecs(starts, columns, values, cols, Some(labels))
        .expect("lines were checked as they were read"))
}

/// Parses the pairs of one line; returns their end, at a comment or the end of the line.
#[inline]
fn pairs<T: Real>(
    text: &[u8],
    mut at: usize,
    first: u32,
    most: u64,
    columns: &mut Vec<u32>,
    values: &mut Vec<T>,
) -> Result<usize, BlockError> {
    // One more than the previous index, so that 0 means there is none.
    let mut least = 0_u64;
    loop {
        at = spaces(text, at);
        if matches!(text.get(at), None | Some(b'\n' | b'#')) {
            return Ok(at);
        }
        let start = at;
        let mut index = 0_u64;
        while let Some(digit) = text.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit <= 9) {
            index = (index * 10 + u64::from(digit)).min(u64::MAX / 16);
            at += 1;
        }
        if at == start || text.get(at) != Some(&b':') {
            return Err(bad(text, start, Problem::NotAPair { found: token(text, start) }));
        }
        let Some(place) = index.checked_sub(u64::from(first)) else {
            return Err(bad(text, start, Problem::ZeroIndex));
        };
        if place > most {
            let found = shown(&text[start..at]);
            return Err(bad(text, start, Problem::IndexTooLarge { found, most: most + u64::from(first) }));
        }
        if place < least {
            let before = least - 1 + u64::from(first);
            return Err(bad(text, start, Problem::NotRising { before, found: index }));
        }
        least = place + 1;
        at += 1;
        let Some((value, length)) = T::parse(&text[at..]) else {
            return Err(bad(text, start, Problem::NotAPair { found: token(text, start) }));
        };
        if !value.finite() {
            return Err(bad(text, at, Problem::NotFinite { found: token(text, at) }));
        }
        at += length;
        if !ends_token(text, at) {
            return Err(bad(text, start, Problem::NotAPair { found: token(text, start) }));
        }
        columns.push(place as u32);
        values.push(value);
    }
}

#[inline]
fn spaces(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\t' | b'\r')) {
        at += 1;
    }
    at
}

#[inline]
fn ends_token(text: &[u8], at: usize) -> bool {
    matches!(text.get(at), None | Some(b' ' | b'\t' | b'\r' | b'\n' | b'#'))
}

fn token(text: &[u8], at: usize) -> String {
    let end =
        text[at..].iter().position(|byte| byte.is_ascii_whitespace()).map_or(text.len(), |end| at + end);
    shown(&text[at..end])
}

fn bad(text: &[u8], at: usize, problem: Problem) -> BlockError {
    let start = memchr::memrchr(b'\n', &text[..at]).map_or(0, |end| end + 1);
    BlockError { line: memchr::memchr_iter(b'\n', &text[..at]).count() as u64, column: at - start, problem }
}

/// Parses a text as the reader's threads do, without a file. For the fuzz target.
#[doc(hidden)]
pub fn parse_for_fuzzing(text: &[u8], first: u32) -> Result<Csr<f64>, String> {
    parse(text, first, u64::from(u32::MAX)).map_err(|bad| bad.problem.to_string())
}
