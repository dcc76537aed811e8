//! What can be wrong with a chunk.

/// Why bytes are not the chunk a function asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// Another kind of chunk.
    #[error(
        "the function takes {expected} chunks and this is a {found} chunk; give it a data set of the other kind"
    )]
    Kind {
        /// The kind the function takes.
        expected: &'static str,
        /// The kind in the header.
        found: String,
    },
    /// The right kind with other elements.
    #[error("the function takes elements of type {expected} and the chunk has {found}")]
    Type {
        /// The element type the function takes.
        expected: &'static str,
        /// The element type in the header.
        found: String,
    },
    /// The header's shape has the wrong number of dimensions or does not go with its length.
    #[error("a {kind} chunk of {bytes} bytes cannot have the shape {shape:?}")]
    Shape {
        /// The kind of chunk.
        kind: &'static str,
        /// The shape found.
        shape: Vec<u64>,
        /// The number of bytes.
        bytes: u64,
    },
    /// Not as many bytes as the header says.
    #[error(
        "the chunk should have {expected} bytes and has {found}: it was cut short or its header is not its own"
    )]
    Bytes {
        /// Bytes in the header.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// Not as many records as the header says.
    #[error("the chunk should have {expected} records and has {found}")]
    Records {
        /// Records in the header.
        expected: u64,
        /// Records there are.
        found: u64,
    },
    /// The lines of a sparse chunk are not in order.
    #[error("line {line} of the {kind} chunk (a row of csr, a column of csc, from 0): {what}")]
    Sparse {
        /// The kind of chunk.
        kind: &'static str,
        /// Which row of a `csr` chunk, or column of a `csc` chunk, from 0.
        line: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The parts of a sparse matrix do not go together.
    #[error(
        "{starts} starts, {places} places, {values} values and {labels} labels do not make a {kind} matrix: one start more than there are lines, as many places as values, and as many labels as lines or none"
    )]
    Lengths {
        /// The kind of chunk.
        kind: &'static str,
        /// Starts given.
        starts: usize,
        /// Places given.
        places: usize,
        /// Values given.
        values: usize,
        /// Labels given.
        labels: usize,
    },
    /// A record of a list could not be read.
    #[error("record {index} of the chunk is not a {kind}: {reason}")]
    Record {
        /// Which record of the chunk, from 0.
        index: u64,
        /// The record's type.
        kind: &'static str,
        /// What postcard says.
        reason: String,
    },
    /// A line is not text.
    #[error(
        "line {line} of the chunk is not valid UTF-8 (byte {column} of the line); convert the file, for example with iconv -t UTF-8"
    )]
    Text {
        /// Which line of the chunk, from 1.
        line: u64,
        /// Which byte of the line, from 1.
        column: u64,
    },
}
