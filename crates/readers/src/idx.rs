//! IDX files, the format of MNIST: a header with type and shape, then the values, big-endian.

use crate::error::reserve;
use crate::input::{Input, Packing, Stream};
use crate::settings::{ARRAY_COLUMNS_MAX, Settings, settings};
use crate::{ReadError, Real};
use qjam::chunk::Element;
use qjam::source::kept::RowsWriter;
use qjam::{DataSet, Dense};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

/// Number of values converted at a time.
const PIECE_VALUES: usize = 1 << 17;

/// Maximum number of dimensions.
const DIMENSIONS_MAX: usize = 8;

/// The type of the values in an IDX file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    U8,
    I8,
    I16,
    I32,
    F32,
    F64,
}

impl Kind {
    fn of(code: u8) -> Option<Kind> {
        Some(match code {
            0x08 => Kind::U8,
            0x09 => Kind::I8,
            0x0b => Kind::I16,
            0x0c => Kind::I32,
            0x0d => Kind::F32,
            0x0e => Kind::F64,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Kind::U8 => "u8",
            Kind::I8 => "i8",
            Kind::I16 => "i16",
            Kind::I32 => "i32",
            Kind::F32 => "f32",
            Kind::F64 => "f64",
        }
    }

    fn width(self) -> usize {
        match self {
            Kind::U8 | Kind::I8 => 1,
            Kind::I16 => 2,
            Kind::I32 | Kind::F32 => 4,
            Kind::F64 => 8,
        }
    }

    /// Decodes one value from its bytes.
    fn value(self, bytes: &[u8]) -> f64 {
        match (self, bytes) {
            (Kind::U8, &[a]) => f64::from(a),
            (Kind::I8, &[a]) => f64::from(a as i8),
            (Kind::I16, &[a, b]) => f64::from(i16::from_be_bytes([a, b])),
            (Kind::I32, &[a, b, c, d]) => f64::from(i32::from_be_bytes([a, b, c, d])),
            (Kind::F32, &[a, b, c, d]) => f64::from(f32::from_be_bytes([a, b, c, d])),
            (_, bytes) => bytes.try_into().map_or(f64::NAN, f64::from_be_bytes),
        }
    }
}

/// The header of an IDX file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdxHeader {
    kind: Kind,
    /// Length of each dimension.
    pub shape: Vec<u64>,
    /// Bytes of the values.
    pub data_bytes: u64,
}

impl IdxHeader {
    fn rows(&self) -> u64 {
        self.shape[0]
    }

    fn cols(&self) -> u64 {
        self.shape[1..].iter().product()
    }

    fn bytes(&self) -> u64 {
        4 + 4 * self.shape.len() as u64
    }
}

/// Parses the header from the first bytes of a file: the whole file, or at least 36 bytes.
///
/// ```
/// let header = qjam_readers::idx::parse_header(&[0, 0, 8, 2, 0, 0, 0, 3, 0, 0, 0, 2]).unwrap();
/// assert_eq!((header.shape, header.data_bytes), (vec![3, 2], 6));
/// ```
pub fn parse_header(start: &[u8]) -> Result<IdxHeader, String> {
    let &[0, 0, code, dimensions, ref rest @ ..] = start else {
        return Err(format!(
            "it starts with {:02x?} instead of two zeros, a type and a number of dimensions",
            &start[..start.len().min(4)]
        ));
    };
    let kind = Kind::of(code)
        .ok_or_else(|| format!("its type is {code:#04x}, but only 0x08, 0x09 and 0x0b to 0x0e are known"))?;
    let dimensions = usize::from(dimensions);
    if dimensions == 0 || dimensions > DIMENSIONS_MAX {
        return Err(format!("it has {dimensions} dimensions, but 1 to {DIMENSIONS_MAX} are supported"));
    }
    let lengths = rest.get(..dimensions * 4).ok_or("it ends within its header; copy it again")?;
    let length = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
    let shape: Vec<u64> = lengths.chunks_exact(4).map(length).collect();
    let values = shape.iter().try_fold(1_u64, |all, length| all.checked_mul(*length));
    let data_bytes = values.and_then(|values| values.checked_mul(kind.width() as u64));
    let data_bytes = data_bytes.ok_or_else(|| format!("its shape {shape:?} is impossibly large"))?;
    if data_bytes == 0 {
        return Err(format!("its shape {shape:?} has no values"));
    }
    Ok(IdxHeader { kind, shape, data_bytes })
}

/// Reads an IDX file. The first dimension is the rows; the others together are the columns.
///
/// ```
/// use qjam_readers::Idx;
/// let path = std::env::temp_dir().join(format!("qjam-readers-{}.idx", std::process::id()));
/// std::fs::write(&path, [0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 10, 20, 30, 40])?;
/// assert_eq!(Idx::new(&path).read::<u8>()?.chunk(0)?.row(0), [10, 20, 30, 40]);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Idx {
    path: PathBuf,
    pub(crate) settings: Settings,
}

settings!(Idx);

impl Idx {
    /// The file, optionally compressed by gzip or zstd.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Idx { path: path.into(), settings: Settings::default() }
    }

    /// The values with the type of the file. An uncompressed file of bytes is used in place.
    pub fn read<T: Element>(self) -> Result<DataSet<Dense<T>>, ReadError> {
        self.convert(
            T::DTYPE,
            |kind| kind.name() == T::DTYPE,
            |_, bytes, out| {
                // From big-endian to little-endian.
                let raw: Vec<u8> =
                    bytes.chunks_exact(size_of::<T>()).flat_map(|v| v.iter().rev().copied()).collect();
                out.extend_from_slice(&bytemuck::pod_collect_to_vec::<u8, T>(&raw));
            },
        )
    }

    /// The values, converted to numbers of type `T`.
    pub fn read_real<T: Real>(self) -> Result<DataSet<Dense<T>>, ReadError> {
        self.convert(
            T::DTYPE,
            |_| true,
            |kind, bytes, out| {
                out.extend(bytes.chunks_exact(kind.width()).map(|value| T::from_f64(kind.value(value))));
            },
        )
    }

    fn convert<T: Element>(
        mut self,
        dtype: &'static str,
        fits: impl Fn(Kind) -> bool,
        convert: impl Fn(Kind, &[u8], &mut Vec<T>),
    ) -> Result<DataSet<Dense<T>>, ReadError> {
        let wrong = |reason| ReadError::Format { path: self.path.clone(), format: "IDX", reason };
        let input = Input::open(&self.path)?;
        let mut stream = input.stream()?;
        let (header, left) = header(&mut stream)?.map_err(wrong)?;
        if !fits(header.kind) {
            return Err(wrong(format!(
                "its values are {}, but {dtype} was requested; request that type, or convert with `read_real`",
                header.kind.name()
            )));
        }
        let plain = input.packing() == Packing::Plain;
        if plain && input.stamp().bytes != header.bytes() + header.data_bytes {
            let found = input.stamp().bytes.saturating_sub(header.bytes());
            return Err(wrong(length(&header, found)));
        }
        if plain && header.kind == Kind::U8 && dtype == "u8" {
            return Ok(DataSet::within(&self.path, header.bytes(), header.rows(), header.cols())?);
        }
        self.settings.must_be_confirmed(&self.path, header.cols(), ARRAY_COLUMNS_MAX)?;
        let keep = self.settings.keep(&input, &format!("idx {dtype}"))?;
        if let Some(path) = keep.path()
            && let Some((data, _)) = DataSet::kept(&path)?
        {
            return Ok(data);
        }
        let cols = header.cols() as usize;
        let mut rows = RowsWriter::create(&keep, cols)?;
        let (mut bytes, mut values) = (left, Vec::new());
        let piece = (PIECE_VALUES / cols).max(1).saturating_mul(cols * header.kind.width());
        let (taken, total) = (stream.taken(), input.stamp().bytes);
        let mut found = 0_u64;
        loop {
            let wanted = (piece as u64).min(header.data_bytes - found) as usize;
            // Memory is allocated as bytes arrive, so a header with a false length costs nothing.
            while bytes.len() < wanted {
                let before = bytes.len();
                reserve(&mut bytes, PIECE_VALUES, &self.path)?;
                bytes.resize(wanted.min(before + PIECE_VALUES), 0);
                let n = stream.fill(&mut bytes[before..])?;
                bytes.truncate(before + n);
                if n == 0 {
                    return Err(wrong(length(&header, found + bytes.len() as u64)));
                }
            }
            if wanted == 0 {
                break;
            }
            values.clear();
            reserve(&mut values, wanted / header.kind.width(), &self.path)?;
            convert(header.kind, &bytes[..wanted], &mut values);
            rows.push(&values)?;
            found += wanted as u64;
            bytes.drain(..wanted);
            self.settings.tell(taken.load(Relaxed), total);
        }
        if !bytes.is_empty() || stream.read(&mut [0; 1])? > 0 {
            return Err(wrong("it continues after the last value of its header".into()));
        }
        input.must_be_unchanged()?;
        Ok(rows.finish(Vec::new())?)
    }
}

fn length(header: &IdxHeader, found: u64) -> String {
    format!(
        "its shape {:?} of {} makes {} bytes of values and there are {found}; copy it again",
        header.shape,
        header.kind.name(),
        header.data_bytes
    )
}

/// The header, and the bytes read after it.
fn header(stream: &mut Stream) -> Result<Result<(IdxHeader, Vec<u8>), String>, ReadError> {
    let mut start = vec![0; 4 + 4 * DIMENSIONS_MAX];
    let n = stream.fill(&mut start)?;
    start.truncate(n);
    Ok(parse_header(&start).map(|header| {
        let left = start.split_off(header.bytes() as usize);
        (header, left)
    }))
}
