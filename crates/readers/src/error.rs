//! What can be wrong with a file that is read.

use qjam::DataError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a file gave no data set. Every variant names the file; of a text it names line and column as well.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file or folder could not be opened or read.
    #[error("{} cannot be read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Something else than a regular file.
    #[error("{} is not a regular file; save what comes through a pipe to a file first", path.display())]
    NotAFile {
        /// What was named.
        path: PathBuf,
    },
    /// A place in a text that cannot be read.
    #[error("{}, line {line}, column {column}: {problem}", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: u64,
        /// Byte of the line, from 1.
        column: u64,
        /// What is wrong there.
        problem: Problem,
    },
    /// A value that is missing, or not a number that can be learnt from, in a file without lines.
    #[error("{}, row {row}, column {column:?}: {problem}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Row, from 1.
        row: u64,
        /// Name of the column.
        column: String,
        /// What is wrong there.
        problem: Problem,
    },
    /// Compressed bytes that cannot be unpacked.
    #[error("{} cannot be unpacked behind byte {at} of its content: {reason}; it is damaged or was cut short, copy it again", path.display())]
    Unpack {
        /// The file.
        path: PathBuf,
        /// Bytes that could be unpacked.
        at: u64,
        /// What the unpacker says.
        reason: String,
    },
    /// A file that is not of the format it is read as, or is damaged.
    #[error("{} is not a {format} file that can be read: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format.
        format: &'static str,
        /// What was found, and what is allowed.
        reason: String,
    },
    /// A file of no kind that is known.
    #[error("{} is no file that can be read: {found}; known are .npy, .npz, CSV, LIBSVM, Parquet and IDX files, folders of PNG and JPEG pictures, and folders of WAV files", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// What it seems to be, and what to do.
        found: String,
    },
    /// There is no such column or array.
    #[error("{} has no {what} {name:?}; it has {}", path.display(), list(present))]
    NoSuch {
        /// The file.
        path: PathBuf,
        /// Column or array.
        what: &'static str,
        /// The name asked for.
        name: String,
        /// The names there are.
        present: Vec<String>,
    },
    /// A file without a single record.
    #[error("{} has no {what}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// Rows, lines, images.
        what: &'static str,
    },
    /// A file changed while it was read.
    #[error("{} was written to while it was read; read it again when it is complete", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// Options that contradict each other or the file.
    #[error("{}: {reason}", path.display())]
    Options {
        /// The file.
        path: PathBuf,
        /// What does not go together, and what to do.
        reason: String,
    },
    /// The data set could not be made of what was read.
    #[error(transparent)]
    Data(#[from] DataError),
}

fn list(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("{name:?}")).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// What is wrong at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Something else than a number.
    NotANumber {
        /// What stands there, shortened.
        found: String,
        /// The column's name, if columns have names.
        name: Option<String>,
    },
    /// No value.
    Missing {
        /// The column's name.
        name: String,
    },
    /// A number that is not finite.
    NotFinite {
        /// What stands there.
        found: String,
    },
    /// A line with another number of fields.
    Fields {
        /// Fields it should have.
        expected: usize,
        /// Fields it has.
        found: usize,
    },
    /// Quotes that are opened and not closed.
    OpenQuote,
    /// A line or quoted field that does not end.
    TooLong {
        /// Longest that is read.
        bytes_max: usize,
    },
    /// Something else than a number where a line's label is.
    NotALabel {
        /// What stands there.
        found: String,
    },
    /// Something else than `index:value`.
    NotAPair {
        /// What stands there.
        found: String,
    },
    /// An index that is 0 where they count from 1.
    ZeroIndex,
    /// An index beyond what is allowed.
    IndexTooLarge {
        /// What stands there.
        found: String,
        /// The largest allowed.
        most: u64,
    },
    /// Indices that do not rise.
    NotRising {
        /// The index before.
        before: u64,
        /// The index there.
        found: u64,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NotANumber { found, name: Some(name) } => write!(
                f,
                "{found:?} in column {name:?} is not a number; leave the column out, or choose the columns to read"
            ),
            Problem::NotANumber { found, name: None } => write!(f, "{found:?} is not a number"),
            Problem::Missing { name } => write!(
                f,
                "the value of column {name:?} is missing; ask for missing values to be replaced by a number or the column's mean, or their rows to be dropped"
            ),
            Problem::NotFinite { found } => {
                write!(f, "{found:?} is not finite; change it, or ask for such rows to be dropped")
            }
            Problem::Fields { expected, found } => {
                write!(f, "the line has {found} fields and the first line has {expected}")
            }
            Problem::OpenQuote => write!(f, "the quotes that open here are not closed in this field"),
            Problem::TooLong { bytes_max } => write!(
                f,
                "the line that starts here does not end within {bytes_max} bytes; is this a text, and are all quotes closed?"
            ),
            Problem::NotALabel { found } if found.contains(':') => {
                write!(
                    f,
                    "the line begins with {found:?} and has no label; put a number before it, such as 0"
                )
            }
            Problem::NotALabel { found } => write!(
                f,
                "the line begins with {found:?}, where its label belongs, which is a number; write classes as 0, 1, 2 and so on"
            ),
            Problem::NotAPair { found } => {
                write!(f, "{found:?} is not index:value, with an index in digits and a number")
            }
            Problem::ZeroIndex => {
                write!(
                    f,
                    "the index is 0 and indices are read as counted from 1; ask for them to count from 0"
                )
            }
            Problem::IndexTooLarge { found, most } => {
                write!(f, "the index {found} is over the largest, {most}")
            }
            Problem::NotRising { before, found } => {
                write!(f, "the index {found} follows {before}; indices must rise within a line")
            }
        }
    }
}

/// A place in a piece of text, before it is known where the piece is.
#[derive(Debug)]
pub(crate) struct Bad {
    /// Line within the piece, from 0.
    pub(crate) line: u64,
    /// Byte of the line, from 0.
    pub(crate) column: usize,
    pub(crate) problem: Problem,
}

/// A field for a message: some of it, and readable.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const SHOWN: usize = 40;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned();
    if bytes.len() > SHOWN { text + "…" } else { text }
}
