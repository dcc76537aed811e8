//! Errors of the readers. Every message names the file, the position in it, and what to do.

use qjam::DataError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a file could not be read. Every variant names the file; errors in text files also give line and column.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file or folder could not be opened or read.
    #[error("{} cannot be read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The path is not a regular file.
    #[error("{} is not a regular file; save the output of a pipe to a file first", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// A position in a text file that cannot be parsed.
    #[error("{}, line {line}, column {column}: {problem}", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: u64,
        /// Byte of the line, from 1.
        column: u64,
        /// What is wrong.
        problem: Problem,
    },
    /// A missing or non-finite value in a file without lines.
    #[error("{}, row {row}, column {column:?}: {problem}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Row, from 1.
        row: u64,
        /// Name of the column.
        column: String,
        /// What is wrong.
        problem: Problem,
    },
    /// Compressed bytes that cannot be decompressed.
    #[error("{} cannot be decompressed after byte {at} of its content: {reason}; it is damaged or truncated, copy it again", path.display())]
    Unpack {
        /// The file.
        path: PathBuf,
        /// Number of bytes decompressed before the error.
        at: u64,
        /// The message of the decompressor.
        reason: String,
    },
    /// A file that does not have the expected format, or is damaged.
    #[error("{} is not a readable {format} file: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format.
        format: &'static str,
        /// What was found, and what is allowed.
        reason: String,
    },
    /// A file of an unknown kind.
    #[error("{} has no supported format: {found}; supported are .npy, .npz, CSV, LIBSVM, Parquet and IDX files, folders of PNG and JPEG pictures, and folders of WAV files", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// What the file seems to be, and what to do.
        found: String,
    },
    /// A column or array that does not exist.
    #[error("{} has no {what} {name:?}; it has {}", path.display(), list(present))]
    NoSuch {
        /// The file.
        path: PathBuf,
        /// Column or array.
        what: &'static str,
        /// The requested name.
        name: String,
        /// The existing names.
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
    /// There is not enough memory.
    #[error("{}: there is no memory for {bytes} bytes of it; {remedy}", path.display())]
    Memory {
        /// The file.
        path: PathBuf,
        /// Bytes needed.
        bytes: u64,
        /// What to do.
        remedy: &'static str,
    },
    /// The file changed while it was read.
    #[error("{} changed while it was read; read it again when it is complete", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// Options that contradict each other or the file.
    #[error("{}: {reason}", path.display())]
    Options {
        /// The file.
        path: PathBuf,
        /// The contradiction, and what to do.
        reason: String,
    },
    /// The data set could not be created.
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

/// What is wrong at one position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Not a number.
    NotANumber {
        /// The text, shortened.
        found: String,
        /// The name of the column, if columns have names.
        name: Option<String>,
    },
    /// A missing value.
    Missing {
        /// The name of the column.
        name: String,
    },
    /// A non-finite number.
    NotFinite {
        /// The text.
        found: String,
    },
    /// A line with a different number of fields.
    Fields {
        /// Expected number of fields.
        expected: usize,
        /// Number of fields found.
        found: usize,
    },
    /// An unclosed quote.
    OpenQuote,
    /// A line or quoted field that exceeds the maximum length.
    TooLong {
        /// Maximum length.
        bytes_max: usize,
    },
    /// The label of a line is not a number.
    NotALabel {
        /// The text.
        found: String,
    },
    /// Not of the form `index:value`.
    NotAPair {
        /// The text.
        found: String,
    },
    /// An index of 0 where indices start at 1.
    ZeroIndex,
    /// An index that is too large.
    IndexTooLarge {
        /// The text.
        found: String,
        /// The largest allowed index.
        most: u64,
    },
    /// Indices that do not increase.
    NotRising {
        /// The previous index.
        before: u64,
        /// The index found.
        found: u64,
    },
    /// Not the number of a vertex.
    NotAVertex {
        /// The text.
        found: String,
    },
    /// A line of a list of edges that does not have two fields.
    NotAnEdge {
        /// How many it has.
        found: usize,
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
                "the value of column {name:?} is missing; choose to replace missing values by a number or by the column's mean, or to drop their rows"
            ),
            Problem::NotFinite { found } => {
                write!(f, "{found:?} is not finite; change it, or choose to drop such rows")
            }
            Problem::Fields { expected, found } => {
                write!(f, "the line has {found} fields and the first line has {expected}")
            }
            Problem::OpenQuote => write!(f, "the quote that opens here is not closed"),
            Problem::TooLong { bytes_max } => write!(
                f,
                "the line that starts here does not end within {bytes_max} bytes; is this a text file, and are all quotes closed?"
            ),
            Problem::NotALabel { found } if found.contains(':') => {
                write!(f, "the line begins with {found:?} and has no label; put a number in front, such as 0")
            }
            Problem::NotALabel { found } => write!(
                f,
                "the line begins with {found:?}, but its label must be a number; write classes as 0, 1, 2 and so on"
            ),
            Problem::NotAPair { found } => {
                write!(f, "{found:?} is not index:value with a whole number and a number")
            }
            Problem::ZeroIndex => {
                write!(
                    f,
                    "the index is 0, but indices start at 1; choose zero-based indices if they start at 0"
                )
            }
            Problem::IndexTooLarge { found, most } => {
                write!(f, "the index {found} is larger than {most}, the largest allowed")
            }
            Problem::NotRising { before, found } => {
                write!(f, "the index {found} follows {before}; indices must increase within a line")
            }
            Problem::NotAVertex { found } => {
                write!(
                    f,
                    "{found:?} is no vertex: write a whole number from 0 to {}, and # before a line that is no edge",
                    u64::MAX
                )
            }
            Problem::NotAnEdge { found } => {
                let remedy =
                    if *found < 2 { "add the vertex that is missing" } else { "leave out all after these" };
                let fields = if *found == 1 { "1 field".into() } else { format!("{found} fields") };
                write!(
                    f,
                    "the line has {fields}; an edge is two numbers, from which vertex to which: {remedy}"
                )
            }
        }
    }
}

/// An error in a block of text. The position is relative to the block; `blocks` adds the position of the block.
#[derive(Debug)]
pub(crate) struct BlockError {
    /// Line within the block, from 0.
    pub(crate) line: u64,
    /// Byte of the line, from 0.
    pub(crate) column: usize,
    pub(crate) problem: Problem,
}

/// The beginning of a field, as text for a message.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const SHOWN: usize = 40;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned();
    if bytes.len() > SHOWN { text + "…" } else { text }
}

/// Makes room for more elements whose number a file gives. Memory that is not there is an error, not the end of the process.
pub(crate) fn reserve<T>(list: &mut Vec<T>, more: usize, path: &Path) -> Result<(), ReadError> {
    list.try_reserve(more).map_err(|_| ReadError::Memory {
        path: path.into(),
        bytes: (more as u64).saturating_mul(size_of::<T>() as u64),
        remedy: "use a machine with more memory, or cut the file into smaller ones",
    })
}
