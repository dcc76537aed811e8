//! What can be wrong with a data set.

use super::npy::NpyError;
use crate::chunk::ChunkError;
use qjam_core::lineage::OPERATIONS_MAX;
use std::io;
use std::path::PathBuf;

/// Why there is no data set, or no longer one.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// There is not a single record.
    #[error("the data set has no {what}; a run needs at least one")]
    Empty {
        /// What there is none of: rows, lines, records.
        what: &'static str,
    },
    /// A matrix without columns.
    #[error("a matrix needs at least one column")]
    NoColumns,
    /// Values that do not fill whole rows.
    #[error("{values} values do not make up whole rows of {cols} columns: {} are left over", values % cols)]
    Ragged {
        /// Number of values.
        values: usize,
        /// Columns asked for.
        cols: usize,
    },
    /// A raw file that does not hold whole rows.
    #[error(
        "{} has {bytes} bytes, which is not a whole number of rows of {row_bytes} bytes ({cols} columns of {dtype}); check the number of columns and the element type", path.display()
    )]
    RawSize {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// Length of one row.
        row_bytes: u64,
        /// Columns asked for.
        cols: usize,
        /// Element type asked for.
        dtype: &'static str,
    },
    /// A file could not be opened or read.
    #[error("{} cannot be read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Something else than a regular file.
    #[error("{} is not a regular file; a data set is read several times and cannot come from a folder or a pipe", path.display())]
    NotAFile {
        /// What was named.
        path: PathBuf,
    },
    /// A file that is not a `.npy` file we can read.
    #[error("{}: {source}", path.display())]
    Npy {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: NpyError,
    },
    /// A file is not what it was when the data set was made from it.
    #[error("{} was changed after the data set was made from it ({what}); make the data set again", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// In what it differs.
        what: &'static str,
    },
    /// An array whose shape does not fit its memory.
    #[error("an array of shape {shape:?} does not fit {found} bytes")]
    Array {
        /// The shape it should have.
        shape: Vec<u64>,
        /// The bytes there are.
        found: u64,
    },
    /// Lines of a text file of numbers that are not equally long.
    #[error(
        "{}: line {line} has {found} bytes and the first one has {expected}; rows are found by counting bytes, so all lines must have the same length (pad the numbers, or save the matrix with numpy.save)", path.display()
    )]
    UnequalLines {
        /// The file.
        path: PathBuf,
        /// Which line, counted from 1.
        line: u64,
        /// Length of the first line, with its end.
        expected: u64,
        /// Length of this one.
        found: u64,
    },
    /// Memory was written to while it was being copied.
    #[error(
        "the data was changed during a run: chunk {index} no longer is what it was at the start; change arrays between runs only"
    )]
    ChangedMeanwhile {
        /// Which chunk.
        index: usize,
    },
    /// What a reader made could not be written to its file.
    #[error(
        "{} cannot be written: {source}; name another folder for what is converted, or keep it in memory", path.display()
    )]
    Keep {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A matrix of one column has none beside its label.
    #[error("the last column is the label, and there is no other; a labelled matrix has two columns or more")]
    NoLabel,
    /// Rows with labels and rows without in one matrix.
    #[error(
        "some rows have labels and others have none; a matrix has labels for all of its rows or for none"
    )]
    Labels,
    /// A sparse matrix with values beyond its last column.
    #[error("the matrix was to have {cols} columns and has values up to column {needed}, counted from 1")]
    TooFewColumns {
        /// Columns asked for.
        cols: u64,
        /// Columns there are.
        needed: u64,
    },
    /// More rows or columns than can be turned round.
    #[error("the matrix has {count} {what} and at most {most} can be read by columns; read it by rows")]
    TooWide {
        /// Rows or columns.
        what: &'static str,
        /// How many there are.
        count: u64,
        /// How many there may be.
        most: u64,
    },
    /// Shared memory could not be had.
    #[error("no shared memory for a data set of {bytes} bytes: {source}")]
    Memory {
        /// Bytes wanted (or written so far, when their number was not known beforehand).
        bytes: u64,
        /// What the system says.
        source: io::Error,
    },
    /// There is no memory to read a chunk into.
    #[error(
        "no memory for a chunk of {bytes} bytes of {}; cut the data into smaller chunks (`chunk_records`, `partitions`)",
        .path.display()
    )]
    ChunkMemory {
        /// The file.
        path: PathBuf,
        /// Bytes of the chunk.
        bytes: u64,
    },
    /// A custom data set failed to give one of its slices.
    #[error("slice {index} of the custom data set cannot be read: {source}")]
    Slice {
        /// Which slice.
        index: usize,
        /// What its author says.
        source: io::Error,
    },
    /// A cut into pieces of nothing.
    #[error("a data set cannot be cut into {what}; ask for at least one")]
    ZeroCut {
        /// `0 partitions` or `chunks of 0 records`.
        what: &'static str,
    },
    /// Another cut of a selection of chunks, or of pairs of chunks.
    #[error(
        "a selection of chunks cannot be cut again, nor can pairs of chunks; cut the data sets first, then select or zip"
    )]
    CutAgain,
    /// Operations upon operations.
    #[error(
        "the data set is derived by {operations} operations and the limit is {OPERATIONS_MAX}; bring it home with `collect` on the way and make a data set of that"
    )]
    LineageTooLong {
        /// How many there are.
        operations: usize,
    },
    /// Numbers of records that nobody knows.
    #[error(
        "after `{after}` nobody knows how many records there are in front of a chunk, so they cannot be numbered; number them first, or number them within their chunk"
    )]
    NoNumbers {
        /// The operation that leaves records out or adds some.
        after: &'static str,
    },
    /// Two data sets that are to be zipped have different numbers of chunks.
    #[error(
        "data sets of {left} and {right} chunks cannot be zipped; cut both alike first, with `chunk_records` or `partitions`"
    )]
    ZipChunks {
        /// Chunks of the one.
        left: usize,
        /// Chunks of the other.
        right: usize,
    },
    /// Two data sets that are to be zipped have different records in a chunk.
    #[error(
        "chunk {chunk} has {left} records in one data set and {right} in the other, so they cannot be zipped; both need the same number of records, cut alike with `chunk_records` or `partitions`"
    )]
    ZipRecords {
        /// Which chunk.
        chunk: usize,
        /// Records in the one.
        left: u64,
        /// Records in the other.
        right: u64,
    },
    /// More chunks than can be counted.
    #[error("the cut has {chunks} chunks and the limit is {}; use more records per chunk", u32::MAX)]
    TooManyChunks {
        /// How many there would be.
        chunks: u64,
    },
    /// A chunk larger than any worker accepts.
    #[error(
        "chunk {index} has {bytes} bytes and the limit is {}; use fewer records per chunk or more partitions",
        qjam_core::chunk::CHUNK_BYTES_MAX
    )]
    ChunkTooLarge {
        /// Which chunk.
        index: usize,
        /// Its length.
        bytes: u64,
    },
    /// There is no such chunk.
    #[error("there is no chunk {index}: the data set has {chunks}")]
    NoSuchChunk {
        /// The index asked for.
        index: usize,
        /// How many there are.
        chunks: usize,
    },
    /// A chunk's bytes are not what its type takes, or a record cannot be written.
    #[error("chunk {index} of the data set: {source}")]
    Chunk {
        /// Which chunk.
        index: usize,
        /// What is wrong with it.
        source: ChunkError,
    },
    /// A record cannot be serialized.
    #[error(
        "record {index} cannot be written: {reason}; the type {kind} must work with postcard (no untagged, flattened or otherwise self-describing formats)"
    )]
    Record {
        /// Which record.
        index: u64,
        /// Its type.
        kind: &'static str,
        /// What postcard says.
        reason: String,
    },
}
