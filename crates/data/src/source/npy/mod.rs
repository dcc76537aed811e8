//! NumPy's `.npy` files: the header, and matrices that lie behind it.
//!
//! The header is a Python dictionary in text, `{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }`, behind a
//! magic string, a version and a length. [`parse_header`] is a pure function of the file's first bytes. Versions 1 to
//! 3, little-endian `f4 f8 i4 i8` and `u1`, truth values (`b1`, as bytes of 0 and 1), one dimension (rows of one column)
//! or two in C order are read; everything else is refused with what to do about it.

mod error;

pub use error::NpyError;

use super::DataError;
use super::location::{Backing, UserFile};
use super::matrix::Matrix;
use crate::chunk::Element;
use std::path::Path;

/// Longest header that is read, in bytes. NumPy's own are a hundred.
pub const HEADER_BYTES_MAX: usize = 64 << 10;

/// The element types that are read, as the file names them.
pub const ACCEPTED: [&str; 5] = ["<f4", "<f8", "<i4", "<i8", "|u1"];

/// What the header of a `.npy` file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpyHeader {
    /// The element type, one of [`ACCEPTED`].
    pub descr: &'static str,
    /// Number of rows.
    pub rows: u64,
    /// Number of columns; 1 for a file with one dimension.
    pub cols: u64,
    /// Where the values start.
    pub data_offset: u64,
    /// How many bytes of them there are.
    pub data_bytes: u64,
}

/// Opens a matrix in a `.npy` file.
pub(crate) fn open<T: Element>(path: &Path) -> Result<Matrix, DataError> {
    let file = UserFile::open(path)?;
    let wrong = |source| DataError::Npy { path: file.path().into(), source };
    let mut start = vec![0; file.bytes().min(HEADER_BYTES_MAX as u64 + PREFIX_BYTES_MAX as u64) as usize];
    file.read_at(0, &mut start)?;
    let header = parse_header(&start).map_err(wrong)?;
    if header.descr != T::NPY {
        return Err(wrong(NpyError::OtherType { found: header.descr, wanted: T::DTYPE, npy: T::NPY }));
    }
    let actual = file.bytes() - header.data_offset;
    if actual < header.data_bytes {
        return Err(wrong(NpyError::Truncated { expected: header.data_bytes, actual }));
    }
    Matrix::over::<T>(Backing::File(file), header.data_offset, header.rows, header.cols)
}

const MAGIC: &[u8] = b"\x93NUMPY";

/// Magic, version and the longer of the two kinds of length.
const PREFIX_BYTES_MAX: usize = 12;

/// Reads the header from the first bytes of a file: all of it, or at least 64 KiB and a few bytes.
///
/// ```
/// let mut file = b"\x93NUMPY\x01\x00\x46\x00{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }".to_vec();
/// file.resize(80, b' ');
/// let header = qjam::source::npy::parse_header(&file).unwrap();
/// assert_eq!((header.rows, header.cols, header.data_offset), (3, 4, 80));
/// ```
pub fn parse_header(start: &[u8]) -> Result<NpyHeader, NpyError> {
    if !start.starts_with(MAGIC) {
        return Err(NpyError::NotNpy { found: start[..start.len().min(MAGIC.len())].to_vec() });
    }
    let short =
        |expected: usize| NpyError::HeaderTruncated { expected: expected as u64, actual: start.len() as u64 };
    let &[major, minor] = start.get(6..).and_then(<[u8]>::first_chunk).ok_or(short(10))?;
    let (text_at, text_bytes) = match (major, minor) {
        (1, 0) => {
            let length = start.get(8..).and_then(<[u8]>::first_chunk).ok_or(short(10))?;
            (10, u32::from(u16::from_le_bytes(*length)))
        }
        (2 | 3, 0) => {
            let length = start.get(8..).and_then(<[u8]>::first_chunk).ok_or(short(12))?;
            (12, u32::from_le_bytes(*length))
        }
        _ => return Err(NpyError::Version { major, minor }),
    };
    if text_bytes as usize > HEADER_BYTES_MAX {
        return Err(NpyError::HeaderTooLong { bytes: text_bytes.into() });
    }
    let end = text_at + text_bytes as usize;
    let text = start.get(..end).ok_or(short(end))?;
    let (descr, fortran, shape) = dictionary(Cursor { text, at: text_at })?;
    let width = descr.as_bytes()[2] - b'0';
    let (rows, cols) = match shape[..] {
        [rows] => (rows, 1),
        [rows, cols] => (rows, cols),
        _ => return Err(NpyError::Dimensions { shape }),
    };
    // With one dimension both orders are the same.
    if fortran && shape.len() > 1 {
        return Err(NpyError::Fortran { rows, cols });
    }
    let data_bytes = rows
        .checked_mul(cols)
        .and_then(|n| n.checked_mul(width.into()))
        .ok_or(NpyError::TooLarge { shape })?;
    Ok(NpyHeader { descr, rows, cols, data_offset: end as u64, data_bytes })
}

/// The three entries of the dictionary, in any order.
fn dictionary(mut text: Cursor<'_>) -> Result<(&'static str, bool, Vec<u64>), NpyError> {
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    text.expect(b'{', "{")?;
    while !text.take(b'}') {
        let key_at = text.at;
        let key = text.string()?;
        text.expect(b':', ":")?;
        match key {
            b"descr" => descr = Some(text.descr()?),
            b"fortran_order" => fortran = Some(text.boolean()?),
            b"shape" => shape = Some(text.shape()?),
            _ => {
                return Err(NpyError::HeaderSyntax { expected: "descr, fortran_order or shape", at: key_at });
            }
        }
        if !text.take(b',') {
            text.expect(b'}', "a comma or }")?;
            break;
        }
    }
    text.end()?;
    let missing = |key| NpyError::HeaderIncomplete { key };
    Ok((
        descr.ok_or(missing("descr"))?,
        fortran.ok_or(missing("fortran_order"))?,
        shape.ok_or(missing("shape"))?,
    ))
}

/// A place in the header's text.
struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn wrong<R>(&self, expected: &'static str) -> Result<R, NpyError> {
        Err(NpyError::HeaderSyntax { expected, at: self.at })
    }

    fn skip_space(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    /// Whether this byte comes next; takes it if so.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let found = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), NpyError> {
        if self.take(byte) { Ok(()) } else { self.wrong(expected) }
    }

    /// All bytes from here on that are of a kind.
    fn run(&mut self, kind: impl Fn(&u8) -> bool) -> &'a [u8] {
        self.skip_space();
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|byte| !kind(byte)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// A string without escapes, in either kind of quotes.
    fn string(&mut self) -> Result<&'a [u8], NpyError> {
        let quote = match (self.take(b'\''), self.take(b'"')) {
            (true, false) => b'\'',
            (false, true) => b'"',
            _ => return self.wrong("a string"),
        };
        let start = self.at;
        let Some(length) = self.text[start..].iter().position(|byte| *byte == quote || *byte == b'\\') else {
            return self.wrong("the end of a string");
        };
        self.at += length;
        self.expect(quote, "a string without escapes")?;
        Ok(&self.text[start..start + length])
    }

    fn descr(&mut self) -> Result<&'static str, NpyError> {
        if self.take(b'[') {
            return Err(NpyError::Structured);
        }
        let descr = self.string()?;
        if let Some(known) = ACCEPTED.iter().find(|known| known.as_bytes() == descr) {
            return Ok(known);
        }
        if descr == b"|b1" {
            return Ok("|u1");
        }
        let text = String::from_utf8_lossy(descr).into_owned();
        Err(match descr {
            [b'<' | b'>' | b'|', b'U' | b'S', ..] => NpyError::Texts { descr: text },
            [b'|', b'O', ..] | [b'O', ..] => NpyError::Objects { descr: text },
            [b'>', b'f' | b'i', b'4' | b'8'] => NpyError::BigEndian { descr: text },
            _ => NpyError::Type { descr: text },
        })
    }

    fn boolean(&mut self) -> Result<bool, NpyError> {
        let at = self.at;
        match self.run(u8::is_ascii_alphabetic) {
            b"True" => Ok(true),
            b"False" => Ok(false),
            _ => Err(NpyError::HeaderSyntax { expected: "True or False", at }),
        }
    }

    /// A tuple of whole numbers; Python 2 wrote them with an L at the end.
    fn shape(&mut self) -> Result<Vec<u64>, NpyError> {
        self.expect(b'(', "a tuple")?;
        let mut shape = Vec::new();
        while !self.take(b')') {
            let digits = self.run(u8::is_ascii_digit);
            let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
            let Some(number) = number else {
                return self.wrong("a whole number below 2^64");
            };
            shape.push(number);
            self.take(b'L');
            if !self.take(b',') {
                self.expect(b')', "a comma or )")?;
                break;
            }
        }
        Ok(shape)
    }

    fn end(&mut self) -> Result<(), NpyError> {
        self.skip_space();
        if self.at == self.text.len() { Ok(()) } else { self.wrong("the end of the header") }
    }
}
