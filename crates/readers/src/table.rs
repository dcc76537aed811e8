//! The result of a reader of tables, and the choice of its columns.

use crate::{ReadError, Real};
use qjam::{DataSet, Dense};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A table that was read.
#[derive(Clone, Debug)]
pub struct Table<T: Real> {
    /// The rows. If there is a target, it is the last column, as [`DataSet::labelled`] expects.
    pub data: DataSet<Dense<T>>,
    /// Names of the columns, in the order of the data. Columns of arrays are numbered from `1`; none are listed if there are more
    /// than 2^20.
    pub columns: Vec<String>,
    /// Whether the last column is the target.
    pub labelled: bool,
    /// Number of rows dropped because a value was missing.
    pub dropped: u64,
    /// Number of missing values that were replaced.
    pub filled: u64,
}

/// Numbers of columns are listed as their names up to here.
const LISTED_MAX: usize = 1 << 20;

/// What the columns of a table are called.
pub(crate) enum ColumnNames {
    /// By these names.
    Given(Vec<String>),
    /// So many, numbered from 1.
    Counted(usize),
}

impl ColumnNames {
    pub(crate) fn len(&self) -> usize {
        match self {
            ColumnNames::Given(names) => names.len(),
            ColumnNames::Counted(count) => *count,
        }
    }

    /// The name of a column, counted from 0.
    pub(crate) fn of(&self, column: usize) -> String {
        match self {
            ColumnNames::Given(names) => names[column].clone(),
            ColumnNames::Counted(_) => (column + 1).to_string(),
        }
    }

    /// All names; none if they are too many to be listed.
    pub(crate) fn list(self) -> Vec<String> {
        match self {
            ColumnNames::Given(names) => names,
            ColumnNames::Counted(count) if count > LISTED_MAX => Vec::new(),
            ColumnNames::Counted(count) => (1..=count).map(|column| column.to_string()).collect(),
        }
    }
}

/// What is stored of a table besides its rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Notes {
    pub(crate) columns: Vec<String>,
    pub(crate) labelled: bool,
    pub(crate) dropped: u64,
    pub(crate) filled: u64,
}

impl Notes {
    pub(crate) fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).unwrap_or_default()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Notes> {
        postcard::from_bytes(bytes).ok()
    }

    pub(crate) fn table<T: Real>(&self, data: DataSet<Dense<T>>) -> Table<T> {
        let Notes { columns, labelled, dropped, filled } = self.clone();
        Table { data, columns, labelled, dropped, filled }
    }
}

/// The indices of the columns to read, in order; the target comes last.
pub(crate) fn choose(
    path: &Path,
    all: &[String],
    columns: Option<&[String]>,
    without: &[String],
    target: Option<&str>,
) -> Result<Vec<usize>, ReadError> {
    let options = |reason| ReadError::Options { path: path.into(), reason };
    let find = |name: &str| {
        let mut found = all.iter().enumerate().filter(|(_, column)| *column == name).map(|(i, _)| i);
        match (found.next(), found.next()) {
            (Some(column), None) => Ok(column),
            (Some(_), Some(_)) => Err(options(format!(
                "several columns are called {name:?}; give them different names, or read the file as one without header"
            ))),
            (None, _) => {
                let (name, present) = (name.into(), all.to_vec());
                Err(ReadError::NoSuch { path: path.into(), what: "column", name, present })
            }
        }
    };
    let without = without.iter().map(|name| find(name)).collect::<Result<Vec<_>, _>>()?;
    let target = target.map(find).transpose()?;
    let mut chosen = match columns {
        Some(names) => names.iter().map(|name| find(name)).collect::<Result<Vec<_>, _>>()?,
        None => (0..all.len()).collect(),
    };
    chosen.retain(|column| !without.contains(column) && Some(*column) != target);
    let mut seen = vec![false; all.len()];
    for column in &chosen {
        if std::mem::replace(&mut seen[*column], true) {
            return Err(options(format!("column {:?} is requested twice", all[*column])));
        }
    }
    chosen.extend(target);
    if chosen.is_empty() {
        return Err(options("no column is left to read".into()));
    }
    Ok(chosen)
}
