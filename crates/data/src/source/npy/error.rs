//! What can be wrong with a `.npy` file, and what to do about it.

use super::{ACCEPTED, HEADER_BYTES_MAX};

/// Why a file is not a matrix we can read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NpyError {
    /// Another kind of file.
    #[error("this is not a .npy file: it starts with {found:02x?} instead of \\x93NUMPY{}", archive(found))]
    NotNpy {
        /// Its first bytes, at most six.
        found: Vec<u8>,
    },
    /// A version that does not exist yet.
    #[error(
        "its format version is {major}.{minor}, and 1.0, 2.0 and 3.0 can be read; save it again with numpy.save"
    )]
    Version {
        /// The version found.
        major: u8,
        /// Its second part.
        minor: u8,
    },
    /// A header that cannot be one.
    #[error(
        "its header has {bytes} bytes and at most {HEADER_BYTES_MAX} are read; save it again with numpy.save"
    )]
    HeaderTooLong {
        /// The length it claims.
        bytes: u64,
    },
    /// The file ends within the header.
    #[error(
        "it ends within its header: {expected} bytes were expected and there are {actual}; it was cut short, copy it again"
    )]
    HeaderTruncated {
        /// Bytes up to the end of the header.
        expected: u64,
        /// Bytes there are.
        actual: u64,
    },
    /// The header is not the dictionary it should be.
    #[error(
        "its header is not a dictionary of descr, fortran_order and shape: {expected} was expected at byte {at}; save it again with numpy.save"
    )]
    HeaderSyntax {
        /// What should be there.
        expected: &'static str,
        /// Where, counted from the start of the file.
        at: usize,
    },
    /// The header lacks an entry.
    #[error("its header has no entry {key}; save it again with numpy.save")]
    HeaderIncomplete {
        /// Which.
        key: &'static str,
    },
    /// Fields of different types.
    #[error(
        "its elements are records with fields; save the fields as columns of one type, for example numpy.save(path, numpy.lib.recfunctions.structured_to_unstructured(a))"
    )]
    Structured,
    /// Python objects.
    #[error(
        "its elements are Python objects ({descr}); save numbers instead, for example numpy.save(path, a.astype('<f8'))"
    )]
    Objects {
        /// The element type found.
        descr: String,
    },
    /// Texts.
    #[error(
        "its elements are texts ({descr}); number them first, for example with names, a = numpy.unique(a, return_inverse=True)"
    )]
    Texts {
        /// The element type found.
        descr: String,
    },
    /// Numbers the other way round.
    #[error("its numbers are big-endian ({descr}); save it again with a.astype('<{}')", descr.trim_start_matches('>'))]
    BigEndian {
        /// The element type found.
        descr: String,
    },
    /// A type that is not read.
    #[error("its element type is {descr}, and {} can be read; save it again, for example with a.astype('<f8')", ACCEPTED.join(", "))]
    Type {
        /// The element type found.
        descr: String,
    },
    /// A type that is read, but not as what was asked for.
    #[error(
        "its element type is {found} and the data set is Dense<{wanted}>; open it with the other type, or save it again with a.astype('{npy}')"
    )]
    OtherType {
        /// The element type found.
        found: &'static str,
        /// The element type asked for.
        wanted: &'static str,
        /// The same in NumPy's spelling.
        npy: &'static str,
    },
    /// Column-major order.
    #[error(
        "its {rows} × {cols} values are in Fortran order, column after column; save it again with numpy.ascontiguousarray(a)"
    )]
    Fortran {
        /// Number of rows.
        rows: u64,
        /// Number of columns.
        cols: u64,
    },
    /// Neither one nor two dimensions.
    #[error(
        "its shape is {shape:?}, and one or two dimensions can be read; save it again with a.reshape(len(a), -1)"
    )]
    Dimensions {
        /// The shape found.
        shape: Vec<u64>,
    },
    /// More values than can be counted.
    #[error("its shape {shape:?} has more bytes than can be counted; its header is damaged")]
    TooLarge {
        /// The shape found.
        shape: Vec<u64>,
    },
    /// Fewer values than the header says.
    #[error("its values are cut short: {expected} bytes were expected and there are {actual}; copy it again")]
    Truncated {
        /// Bytes the header promises.
        expected: u64,
        /// Bytes there are behind it.
        actual: u64,
    },
}

fn archive(found: &[u8]) -> &'static str {
    if found.starts_with(b"PK") {
        " (it looks like a .npz archive: take the array out with numpy.save)"
    } else {
        ""
    }
}
