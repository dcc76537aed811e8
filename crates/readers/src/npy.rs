//! `.npy` files, read as floating-point numbers of a chosen type.
//!
//! A file that already has this type is used in place. Other types, compressed files, and files whose non-finite values are to
//! be replaced or dropped are converted.

use crate::error::reserve;
use crate::gathered::Gathered;
use crate::input::{Input, Packing};
use crate::settings::{ARRAY_COLUMNS_MAX, Settings, settings};
use crate::table::{ColumnNames, Notes, Table};
use crate::{Missing, ReadError, Real};
use qjam::source::npy::{self, NpyError, NpyHeader};
use qjam::{DataError, DataSet};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

/// Number of values converted at a time.
const PIECE_VALUES: usize = 1 << 17;

/// Reads an `.npy` file as floating-point numbers.
///
/// ```no_run
/// use qjam_readers::{Missing, Npy};
/// let x = Npy::new("counts.npy").read::<f64>()?;                              // of i4, say
/// let y = Npy::new("x.npy.gz").missing(Missing::DropRow).read::<f32>()?;
/// # Ok::<(), qjam_readers::ReadError>(())
/// ```
pub struct Npy {
    path: PathBuf,
    missing: Missing,
    pub(crate) settings: Settings,
}

settings!(Npy);

impl Npy {
    /// The file, optionally compressed by gzip or zstd.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Npy { path: path.into(), missing: Missing::Error, settings: Settings::default() }
    }

    /// What to do about missing values, here NaN. With [`Missing::Error`], files that are used in place are not checked; the
    /// learner checks them.
    #[must_use]
    pub fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    /// The type of the elements in the file, as NumPy writes it.
    pub(crate) fn descr(&self) -> Result<&'static str, ReadError> {
        Ok(self.header(&Input::open(&self.path)?)?.0.descr)
    }

    fn header(&self, input: &Input) -> Result<(NpyHeader, Vec<u8>, crate::input::Stream), ReadError> {
        let mut stream = input.stream()?;
        let mut start = vec![0; npy::HEADER_BYTES_MAX + 12];
        let n = stream.fill(&mut start)?;
        start.truncate(n);
        let header =
            npy::parse_header(&start).map_err(|source| DataError::Npy { path: self.path.clone(), source })?;
        Ok((header, start, stream))
    }

    /// Reads the file.
    pub fn read<T: Real>(mut self) -> Result<Table<T>, ReadError> {
        let input = Input::open(&self.path)?;
        let (header, start, mut stream) = self.header(&input)?;
        let plain = input.packing() == Packing::Plain;
        let actual = input.stamp().bytes.saturating_sub(header.data_offset);
        if plain && actual < header.data_bytes {
            let source = NpyError::Truncated { expected: header.data_bytes, actual };
            return Err(DataError::Npy { path: self.path, source }.into());
        }
        self.settings.must_be_confirmed(&self.path, header.cols, ARRAY_COLUMNS_MAX)?;
        let names = ColumnNames::Counted(header.cols as usize);
        if plain && header.descr == T::NPY && self.missing == Missing::Error {
            let data = DataSet::npy(&self.path)?;
            return Ok(Notes { columns: names.list(), labelled: false, dropped: 0, filled: 0 }.table(data));
        }
        let options = format!("npy {:?} {}", self.missing, T::DTYPE);
        let keep = self.settings.keep(&input, &options)?;
        if let Some(path) = keep.path()
            && let Some((data, notes)) = DataSet::kept(&path)?
            && let Some(notes) = Notes::decode(&notes)
        {
            return Ok(notes.table(data));
        }
        let width = width(header.descr);
        let mut rows = Gathered::<T>::new(self.path.clone(), &keep, names, false, self.missing)?;
        let piece = (PIECE_VALUES / header.cols as usize).max(1).saturating_mul(header.cols as usize * width);
        let mut bytes = start[(header.data_offset as usize).min(start.len())..].to_vec();
        let (mut values, mut left) = (Vec::new(), header.data_bytes);
        let (taken, total) = (stream.taken(), input.stamp().bytes);
        while left > 0 {
            let wanted = (piece as u64).min(left) as usize;
            // Memory is allocated as bytes arrive, so a header with a false length costs nothing.
            while bytes.len() < wanted {
                let before = bytes.len();
                reserve(&mut bytes, PIECE_VALUES, &self.path)?;
                bytes.resize(wanted.min(before + PIECE_VALUES), 0);
                let n = stream.fill(&mut bytes[before..])?;
                bytes.truncate(before + n);
                if n == 0 {
                    let actual = header.data_bytes - left + bytes.len() as u64;
                    let source = NpyError::Truncated { expected: header.data_bytes, actual };
                    return Err(DataError::Npy { path: self.path, source }.into());
                }
            }
            values.clear();
            reserve(&mut values, wanted / width, &self.path)?;
            convert(header.descr, &bytes[..wanted], &mut values);
            rows.take(&mut values)?;
            bytes.drain(..wanted);
            left -= wanted as u64;
            self.settings.tell(taken.load(Relaxed), total);
        }
        input.must_be_unchanged()?;
        rows.finish()
    }
}

/// Size in bytes of a value of a type that [`npy::parse_header`] accepts.
pub(crate) fn width(descr: &str) -> usize {
    descr.as_bytes().last().map_or(1, |digit| usize::from(digit - b'0'))
}

/// Appends the values of little-endian bytes.
pub(crate) fn convert<T: Real>(descr: &str, bytes: &[u8], out: &mut Vec<T>) {
    fn each<const N: usize, T: Real>(bytes: &[u8], out: &mut Vec<T>, number: impl Fn([u8; N]) -> f64) {
        out.extend(bytes.as_chunks::<N>().0.iter().map(|value| T::from_f64(number(*value))));
    }
    match descr {
        "<f4" => each(bytes, out, |value| f32::from_le_bytes(value).into()),
        "<f8" => each(bytes, out, f64::from_le_bytes),
        "<i4" => each(bytes, out, |value| i32::from_le_bytes(value).into()),
        "<i8" => each(bytes, out, |value| i64::from_le_bytes(value) as f64),
        _ => each(bytes, out, |[value]| value.into()),
    }
}
