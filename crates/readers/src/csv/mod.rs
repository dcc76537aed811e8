//! Comma-separated values: tables of numbers in text.
//!
//! The first record gives the number of columns and possibly their names. The threads of [`blocks`] then parse the text into
//! rows of numbers.

mod parse;

use crate::blocks::{self, Parsed, Quotes, Splitter};
use crate::error::shown;
use crate::input::Input;
use crate::missing::Means;
use crate::settings::{Settings, TABLE_COLUMNS_MAX, settings};
use crate::table::{Notes, Table};
use crate::{Missing, ReadError, Real};
use parse::{Plan, Tally};
use qjam::DataSet;
use qjam::source::kept::{Keep, RowsWriter};
use std::path::PathBuf;
use std::sync::Mutex;

/// Whether the first record contains column names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// It does, unless all of its fields are numbers or missing.
    #[default]
    Auto,
    /// It does.
    Yes,
    /// It does not; columns are named `1`, `2` and so on.
    No,
}

/// Reads a CSV file.
///
/// ```
/// use qjam_readers::Csv;
/// let path = std::env::temp_dir().join(format!("qjam-readers-{}.csv", std::process::id()));
/// std::fs::write(&path, "size,rooms,price\n70,3,1.5\n100,4,2.5\n")?;
/// let table = Csv::new(&path).target("price").read::<f64>()?;
/// assert_eq!(table.columns, ["size", "rooms", "price"]);
/// let homes = table.data.labelled()?;
/// assert_eq!((homes.chunk(0)?.row(1), homes.chunk(0)?.label(1)), (&[100.0, 4.0][..], 2.5));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Csv {
    path: PathBuf,
    header: Header,
    delimiter: u8,
    quote: u8,
    comment: Option<u8>,
    columns: Option<Vec<String>>,
    without: Vec<String>,
    target: Option<String>,
    missing: Missing,
    pub(crate) settings: Settings,
}

settings!(Csv);

impl Csv {
    /// The file, optionally compressed by gzip or zstd.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Csv {
            path: path.into(),
            header: Header::Auto,
            delimiter: b',',
            quote: b'"',
            comment: None,
            columns: None,
            without: Vec::new(),
            target: None,
            missing: Missing::Error,
            settings: Settings::default(),
        }
    }

    /// Sets whether there is a header.
    #[must_use]
    pub fn header(mut self, header: Header) -> Self {
        self.header = header;
        self
    }

    /// Sets the field separator, by default a comma.
    #[must_use]
    pub fn delimiter(mut self, delimiter: u8) -> Self {
        self.delimiter = delimiter;
        self
    }

    /// Sets the quote character, by default `"`.
    #[must_use]
    pub fn quote(mut self, quote: u8) -> Self {
        self.quote = quote;
        self
    }

    /// Skips lines that start with this character.
    #[must_use]
    pub fn comment(mut self, comment: u8) -> Self {
        self.comment = Some(comment);
        self
    }

    /// Reads these columns, in this order; by default all. Without a header, columns are named `1`, `2` and so on.
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

    /// What to do about missing values.
    #[must_use]
    pub fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    /// Reads the file.
    pub fn read<T: Real>(mut self) -> Result<Table<T>, ReadError> {
        if self.delimiter == self.quote || [self.delimiter, self.quote].contains(&b'\n') {
            return Err(ReadError::Options {
                path: self.path,
                reason: "delimiter, quote and the end of a line must be three different bytes".into(),
            });
        }
        let input = Input::open(&self.path)?;
        let options = format!(
            "csv {:?} {} {} {:?} {:?} {:?} {:?} {:?} {}",
            self.header,
            self.delimiter,
            self.quote,
            self.comment,
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
        self.convert(&input, &keep)
    }

    fn convert<T: Real>(&mut self, input: &Input, keep: &Keep) -> Result<Table<T>, ReadError> {
        let quotes = Quotes { quote: self.quote, delimiter: self.delimiter };
        let mut splitter = Splitter::new(input.stream()?, Some(quotes))?;
        let (names, plan) = self.plan(&mut splitter)?;
        let width = plan.width();
        let mut rows = RowsWriter::create(keep, width)?;
        let mut means = Means::new(width);
        let mut all = Tally::default();
        // The memory of written rows is reused.
        let spare: Mutex<Vec<Vec<T>>> = Mutex::default();
        let parse = |text: &[u8]| {
            let mut values = spare.lock().ok().and_then(|mut spare| spare.pop()).unwrap_or_default();
            values.clear();
            let tally = parse::rows(&plan, text, &mut values)?;
            Ok(Parsed { lines: tally.lines, made: (values, tally) })
        };
        let mean = self.missing == Missing::Mean;
        blocks::run(splitter, input.stamp().bytes, &mut self.settings, parse, |(values, tally)| {
            if mean {
                means.add(&values);
            }
            rows.push(&values)?;
            all.add(&tally);
            if let Ok(mut spare) = spare.lock() {
                spare.push(values);
            }
            Ok(())
        })?;
        input.must_be_unchanged()?;
        if let Err(column) = means.fill(&mut rows)? {
            let name = &plan.names[column];
            return Err(ReadError::Options {
                path: self.path.clone(),
                reason: format!("column {name:?} has no value at all, so it has no mean; leave it out"),
            });
        }
        if rows.rows() == 0 {
            let what = if all.dropped > 0 { "row without a missing value" } else { "rows" };
            return Err(ReadError::Empty { path: self.path.clone(), what });
        }
        let notes = Notes {
            columns: names,
            labelled: self.target.is_some(),
            dropped: all.dropped,
            filled: all.filled,
        };
        Ok(notes.table(rows.finish(notes.encode())?))
    }

    /// Examines the first record. Returns the names of the columns to read, in order, and how to read them.
    fn plan(&self, splitter: &mut Splitter) -> Result<(Vec<String>, Plan), ReadError> {
        let first = loop {
            let record = splitter.peek()?;
            if record.is_empty() {
                return Err(ReadError::Empty { path: self.path.clone(), what: "lines" });
            }
            let blank = record.iter().all(|byte| matches!(byte, b'\r' | b'\n'));
            if !blank && self.comment != Some(record[0]) {
                break record.to_vec();
            }
            let length = record.len();
            splitter.skip(length);
        };
        let most = memchr::memchr_iter(self.delimiter, &first).count() as u64 + 1;
        self.settings.must_be_confirmed(&self.path, most, TABLE_COLUMNS_MAX)?;
        let fields = parse::fields(&first, self.delimiter, self.quote);
        let numbers =
            |field: &Vec<u8>| crate::missing::says_missing(field) || parse::number::<f64>(field).is_some();
        let has_names = match self.header {
            Header::Yes => true,
            Header::No => false,
            Header::Auto => !fields.iter().all(numbers),
        };
        let all: Vec<String> = if has_names {
            splitter.skip(first.len());
            fields.iter().map(|field| shown_name(field)).collect()
        } else {
            (1..=fields.len()).map(|i| i.to_string()).collect()
        };
        let chosen = crate::table::choose(
            &self.path,
            &all,
            self.columns.as_deref(),
            &self.without,
            self.target.as_deref(),
        )?;
        let mut slots = vec![None; all.len()];
        for (slot, column) in chosen.iter().enumerate() {
            slots[*column] = Some(slot);
        }
        let names: Vec<String> = chosen.iter().map(|column| all[*column].clone()).collect();
        let plan = Plan {
            delimiter: self.delimiter,
            quote: self.quote,
            comment: self.comment,
            straight: slots.iter().enumerate().all(|(field, slot)| *slot == Some(field)),
            slots,
            names: names.clone(),
            missing: self.missing,
        };
        Ok((names, plan))
    }
}

fn shown_name(field: &[u8]) -> String {
    match std::str::from_utf8(field) {
        Ok(name) => name.to_owned(),
        Err(_) => shown(field),
    }
}

/// Parses a text as the reader's threads do, without a file. For the fuzz target.
#[doc(hidden)]
pub fn parse_for_fuzzing(text: &[u8], columns: usize) -> Result<usize, String> {
    let plan = Plan {
        delimiter: b',',
        quote: b'"',
        comment: Some(b'#'),
        slots: (0..columns).map(Some).collect(),
        straight: true,
        names: (0..columns).map(|i| i.to_string()).collect(),
        missing: Missing::Value(0.0),
    };
    let mut rows = Vec::<f64>::new();
    parse::rows(&plan, text, &mut rows).map_err(|bad| bad.problem.to_string())?;
    Ok(rows.len())
}
