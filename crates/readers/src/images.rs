//! Folders of PNG and JPEG pictures, read whole or as square patches.
//!
//! A row contains the pixels of a picture or patch, line by line; colour pixels are red, green, blue. Transparency is ignored.

use crate::ReadError;
use crate::folder::{self, FolderFiles};
use crate::input::Stamp;
use crate::settings::{Settings, settings};
use qjam::chunk::Element;
use qjam::source::kept::{Keep, RowsWriter};
use qjam::{DataSet, Dense};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;

/// Maximum width and height of a picture.
const SIDE_MAX: usize = 1 << 15;

/// Maximum number of pixels of a picture. A few bytes of a PNG can stand for a thousand times as many.
const PIXELS_MAX: usize = 1 << 26;

/// What deflate makes of a byte, at most.
const DEFLATE_RATIO_MAX: usize = 1032;

/// Every block of 8 × 8 pixels takes a bit of a JPEG; twice that many.
const JPEG_PIXELS_PER_BYTE_MAX: usize = 1024;

/// Maximum size of a picture's file.
const FILE_BYTES_MAX: u64 = 1 << 29;

/// Pictures are decoded together as long as they have no more pixels than this in all.
const BATCH_PIXELS_MAX: usize = PIXELS_MAX;

/// A type of pixel values: bytes from 0 to 255, or floating-point numbers from 0 to 1.
pub trait Pixel: Element {
    #[doc(hidden)]
    fn from_byte(byte: u8) -> Self;
}

impl Pixel for u8 {
    fn from_byte(byte: u8) -> u8 {
        byte
    }
}

impl Pixel for f32 {
    fn from_byte(byte: u8) -> f32 {
        f32::from(byte) / 255.0
    }
}

impl Pixel for f64 {
    fn from_byte(byte: u8) -> f64 {
        f64::from(byte) / 255.0
    }
}

/// Reads the pictures in a folder and its subfolders, in the order of their paths.
///
/// ```no_run
/// use qjam_readers::Images;
/// let digits = Images::new("digits/").grey().read::<u8>()?;
/// assert_eq!(digits.data.records(), digits.files.len() as u64);
/// let patches = Images::new("photos/").grey().patches(8, 4).read::<f32>()?;
/// # Ok::<(), qjam_readers::ReadError>(())
/// ```
pub struct Images {
    folder: PathBuf,
    grey: bool,
    size: Option<(usize, usize)>,
    patches: Option<(usize, usize)>,
    pub(crate) settings: Settings,
}

settings!(Images);

/// Pictures that were read.
#[derive(Clone, Debug)]
pub struct Pictures<T: Element> {
    /// One picture or patch per row.
    pub data: DataSet<Dense<T>>,
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// 1 for grey, 3 for colour.
    pub channels: usize,
    /// The paths of the files relative to the folder, in order.
    pub files: Vec<String>,
    /// The number of rows of each file.
    pub rows: Vec<u64>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Notes {
    width: usize,
    height: usize,
    channels: usize,
    files: Vec<String>,
    rows: Vec<u64>,
}

impl Notes {
    fn with<T: Element>(self, data: DataSet<Dense<T>>) -> Pictures<T> {
        let Notes { width, height, channels, files, rows } = self;
        Pictures { data, width, height, channels, files, rows }
    }
}

/// A picture in red, green and blue.
struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Images {
    /// The folder. By default pictures are read whole, in colour, and must have the same size.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let settings = Settings::default();
        Images { folder: folder.into(), grey: false, size: None, patches: None, settings }
    }

    /// Resizes all pictures first: each new pixel is the mean of the pixels it replaces.
    #[must_use]
    pub fn size(mut self, width: usize, height: usize) -> Self {
        self.size = Some((width, height));
        self
    }

    /// Converts pictures to greyscale: 0.299 of red, 0.587 of green and 0.114 of blue.
    #[must_use]
    pub fn grey(mut self) -> Self {
        self.grey = true;
        self
    }

    /// Cuts each picture into squares with `side` pixels, every `step` pixels in both directions. Pictures may then have
    /// different sizes.
    #[must_use]
    pub fn patches(mut self, side: usize, step: usize) -> Self {
        self.patches = Some((side, step));
        self
    }

    /// Reads the pictures.
    pub fn read<T: Pixel>(mut self) -> Result<Pictures<T>, ReadError> {
        if self.patches.is_some_and(|(side, step)| side == 0 || step == 0 || side > SIDE_MAX) {
            let reason = format!("patches need a side of 1 to {SIDE_MAX} pixels and a step of at least 1");
            return Err(ReadError::Options { path: self.folder, reason });
        }
        if self
            .size
            .is_some_and(|(width, height)| ![width, height].iter().all(|n| (1..=SIDE_MAX).contains(n)))
        {
            let reason = format!("width and height must be 1 to {SIDE_MAX} pixels");
            return Err(ReadError::Options { path: self.folder, reason });
        }
        let found = folder::find(&self.folder, &folder::PICTURES, "PNG or JPEG files")?;
        let Images { grey, size, patches, .. } = self;
        let options = format!("images {grey} {size:?} {patches:?} {:?} {}", found.files, T::DTYPE);
        let likely = found.bytes.saturating_mul(8 * size_of::<T>() as u64);
        let keep = self.settings.keep_as(&self.folder, &found.stamps, likely, &options)?;
        if let Some(path) = keep.path()
            && let Some((data, notes)) = DataSet::kept(&path)?
            && let Ok(notes) = postcard::from_bytes::<Notes>(&notes)
        {
            return Ok(notes.with(data));
        }
        self.convert(&found, &keep)
    }

    fn convert<T: Pixel>(&mut self, found: &FolderFiles, keep: &Keep) -> Result<Pictures<T>, ReadError> {
        let channels = if self.grey { 1 } else { 3 };
        let mut size = self.patches.map(|(side, _)| (side, side));
        let mut writer: Option<RowsWriter<T>> = None;
        let (mut rows, mut done) = (Vec::new(), 0);
        let threads = self.settings.threads();
        let mut values = Vec::new();
        // Several threads decode some files at a time; the results are written in order.
        let mut left = found.files.iter().zip(&found.stamps).peekable();
        while left.peek().is_some() {
            let (mut batch, mut pixels) = (Vec::new(), 0);
            while let Some((file, stamp)) =
                left.next_if(|_| batch.len() < threads * 2 && pixels <= BATCH_PIXELS_MAX)
            {
                let encoded = Encoded::read(file)?;
                pixels += encoded.pixels;
                batch.push((file, stamp, encoded));
            }
            let decoded = decode_all(&batch, threads);
            for ((file, stamp, _), picture) in batch.iter().zip(decoded) {
                let picture = picture?;
                let picture = if let Some(size) = self.size { picture.resized(size) } else { picture };
                let (width, height) = *size.get_or_insert((picture.width, picture.height));
                let wrong = |reason| ReadError::Format { path: (*file).clone(), format: "picture", reason };
                values.clear();
                let mut count = 0;
                if let Some((side, step)) = self.patches {
                    if picture.width < side || picture.height < side {
                        return Err(wrong(format!(
                            "it has {} × {} pixels, smaller than the patches of {side}",
                            picture.width, picture.height
                        )));
                    }
                    for top in (0..=picture.height - side).step_by(step) {
                        for left in (0..=picture.width - side).step_by(step) {
                            picture.square((left, top), (side, side), self.grey, &mut values);
                            count += 1;
                        }
                    }
                } else if (picture.width, picture.height) == (width, height) {
                    picture.square((0, 0), (width, height), self.grey, &mut values);
                    count = 1;
                } else {
                    return Err(wrong(format!(
                        "it has {} × {} pixels and the first, {}, has {width} × {height}; whole pictures must have the same size; resize them with `size`, or read patches",
                        picture.width,
                        picture.height,
                        found.files[0].display()
                    )));
                }
                let writer = match &mut writer {
                    Some(writer) => writer,
                    None => writer.insert(RowsWriter::create(keep, width * height * channels)?),
                };
                writer.push(&values)?;
                rows.push(count);
                done += stamp.bytes;
                self.settings.tell(done, found.bytes);
            }
        }
        let ((width, height), Some(writer)) = (size.unwrap_or_default(), writer) else {
            return Err(ReadError::Empty { path: self.folder.clone(), what: "PNG or JPEG files" });
        };
        let notes = Notes { width, height, channels, files: folder::names(&self.folder, &found.files), rows };
        let data = writer.finish(postcard::to_stdvec(&notes).unwrap_or_default())?;
        Ok(notes.with(data))
    }
}

impl<T: Element> Pictures<T> {
    /// The folders as classes, and the class of each row: files in `cats/` and `dogs/` have the classes `cats` and `dogs`. Files
    /// that are in no subfolder have the class with the empty name.
    pub fn classes(&self) -> (Vec<String>, Vec<usize>) {
        folder::classes(&self.files, &self.rows)
    }
}

impl Picture {
    fn resized(&self, (width, height): (usize, usize)) -> Picture {
        // The old pixels that a new pixel covers, at least one.
        let covered = |i: usize, new: usize, old: usize| {
            let from = i * old / new;
            from..((i + 1) * old).div_ceil(new).max(from + 1).min(old)
        };
        let mut pixels = Vec::with_capacity(width * height * 3);
        for y in 0..height {
            let lines = covered(y, height, self.height);
            for x in 0..width {
                let columns = covered(x, width, self.width);
                let count = (lines.len() * columns.len()) as u64;
                for channel in 0..3 {
                    let of_line = |line: usize| -> u64 {
                        let at = |column: usize| self.pixels[(line * self.width + column) * 3 + channel];
                        columns.clone().map(|column| u64::from(at(column))).sum()
                    };
                    pixels.push(((lines.clone().map(of_line).sum::<u64>() + count / 2) / count) as u8);
                }
            }
        }
        Picture { width, height, pixels }
    }

    fn square<T: Pixel>(
        &self,
        (left, top): (usize, usize),
        (width, height): (usize, usize),
        grey: bool,
        out: &mut Vec<T>,
    ) {
        for y in top..top + height {
            let line = &self.pixels[(y * self.width + left) * 3..(y * self.width + left + width) * 3];
            if grey {
                let bright = |p: &[u8]| {
                    (299 * u32::from(p[0]) + 587 * u32::from(p[1]) + 114 * u32::from(p[2]) + 500) / 1000
                };
                out.extend(line.chunks_exact(3).map(|pixel| T::from_byte(bright(pixel) as u8)));
            } else {
                out.extend(line.iter().map(|byte| T::from_byte(*byte)));
            }
        }
    }
}

/// A picture as its file has it.
struct Encoded {
    bytes: Vec<u8>,
    /// Pixels that its header claims.
    pixels: usize,
}

impl Encoded {
    /// Reads a file, and of its content only the size of the picture.
    fn read(path: &Path) -> Result<Encoded, ReadError> {
        let wrong = |format, reason: String| ReadError::Format { path: path.into(), format, reason };
        let failed = |source| ReadError::Io { path: path.into(), source };
        let file = File::open(path).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(wrong("picture", format!("it is longer than {FILE_BYTES_MAX} bytes; resize it")));
        }
        let (width, height) = sides(&bytes).map_err(|(format, reason)| wrong(format, reason))?;
        Ok(Encoded { bytes, pixels: width * height })
    }
}

fn decode_all(batch: &[(&PathBuf, &Stamp, Encoded)], threads: usize) -> Vec<Result<Picture, ReadError>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(batch.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads.min(batch.len()) {
            scope.spawn(|| {
                while let Some((index, (file, _, encoded))) = {
                    let index = next.fetch_add(1, Relaxed);
                    batch.get(index).map(|one| (index, one))
                } {
                    let wrong =
                        |(format, reason)| ReadError::Format { path: file.to_path_buf(), format, reason };
                    let picture = decode(&encoded.bytes).map_err(wrong);
                    if let Ok(mut done) = done.lock() {
                        done.push((index, picture));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, picture)| picture).collect()
}

/// Which format is at fault, and why.
type Fault = (&'static str, String);

/// The format of a picture, detected by content, because extensions are often wrong.
fn is_png(bytes: &[u8]) -> Result<bool, Fault> {
    if bytes.starts_with(b"\x89PNG") {
        Ok(true)
    } else if bytes.starts_with(&[0xff, 0xd8]) {
        Ok(false)
    } else {
        Err(("PNG or JPEG", format!("it starts with {:02x?}", &bytes[..bytes.len().min(4)])))
    }
}

/// Width and height as the header gives them, if they are within bounds and so many bytes can have so many pixels.
fn sides(bytes: &[u8]) -> Result<(usize, usize), Fault> {
    let (format, sides) = match is_png(bytes)? {
        true => (
            "PNG",
            png_reader(bytes).map(|reader| {
                let info = reader.info();
                let is_enough = info.raw_bytes() / DEFLATE_RATIO_MAX <= bytes.len();
                (info.width as usize, info.height as usize, is_enough)
            }),
        ),
        false => (
            "JPEG",
            jpeg_sides(bytes).map(|(width, height)| {
                let is_enough = width.saturating_mul(height) / JPEG_PIXELS_PER_BYTE_MAX <= bytes.len();
                (width, height, is_enough)
            }),
        ),
    };
    let (width, height, is_enough) = sides.map_err(|reason| (format, reason))?;
    if width > SIDE_MAX || height > SIDE_MAX || width * height > PIXELS_MAX {
        let reason = format!(
            "it has {width} × {height} pixels, but at most {SIDE_MAX} per side and {PIXELS_MAX} in all are supported; resize it"
        );
        return Err((format, reason));
    }
    if !is_enough {
        let reason = format!(
            "{} bytes cannot have the {width} × {height} pixels that it claims; it is truncated or damaged, copy it again",
            bytes.len()
        );
        return Err((format, reason));
    }
    Ok((width, height))
}

/// Decodes a picture whose [`sides`] are within bounds.
fn decode(bytes: &[u8]) -> Result<Picture, Fault> {
    let picture = match is_png(bytes)? {
        true => decode_png(bytes).map_err(|reason| ("PNG", reason))?,
        false => decode_jpeg(bytes).map_err(|reason| ("JPEG", reason))?,
    };
    if picture.pixels.len() != picture.width * picture.height * 3 || picture.pixels.is_empty() {
        return Err(("picture", "it has no pixels, or fewer than its header says".into()));
    }
    Ok(picture)
}

/// Decodes a picture as the reader's threads do, without a file; returns its number of pixels. For the fuzz target.
#[doc(hidden)]
pub fn decode_for_fuzzing(bytes: &[u8]) -> Result<usize, String> {
    let told = |(format, reason): Fault| format!("{format}: {reason}");
    sides(bytes).map_err(told)?;
    decode(bytes).map(|picture| picture.width * picture.height).map_err(told)
}

fn png_reader(bytes: &[u8]) -> Result<png::Reader<Cursor<&[u8]>>, String> {
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: 1 << 28 });
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    decoder.read_info().map_err(|error| error.to_string())
}

fn decode_png(bytes: &[u8]) -> Result<Picture, String> {
    let mut reader = png_reader(bytes)?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    let mut raw = zeros(reader.output_buffer_size().ok_or("it is too large")?)?;
    let frame = reader.next_frame(&mut raw).map_err(|error| error.to_string())?;
    raw.truncate(frame.buffer_size());
    let mut pixels = match frame.color_type {
        png::ColorType::Rgb => return Ok(Picture { width, height, pixels: raw }),
        _ => reserved(width * height * 3)?,
    };
    match frame.color_type {
        png::ColorType::Grayscale => pixels.extend(raw.iter().flat_map(|grey| [*grey; 3])),
        png::ColorType::GrayscaleAlpha => {
            pixels.extend(raw.chunks_exact(2).flat_map(|pixel| [pixel[0]; 3]));
        }
        png::ColorType::Rgba => {
            pixels.extend(raw.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]));
        }
        _ => return Err("its palette is not supported".into()),
    }
    Ok(Picture { width, height, pixels })
}

/// An empty list with room for so many bytes, which a picture claims.
fn reserved(bytes: usize) -> Result<Vec<u8>, String> {
    let mut list = Vec::new();
    list.try_reserve_exact(bytes).map_err(|_| format!("there is no memory for its {bytes} bytes"))?;
    Ok(list)
}

fn zeros(bytes: usize) -> Result<Vec<u8>, String> {
    let mut list = reserved(bytes)?;
    list.resize(bytes, 0);
    Ok(list)
}

fn jpeg_decoder(bytes: &[u8]) -> zune_jpeg::JpegDecoder<ZCursor<&[u8]>> {
    let options = DecoderOptions::default()
        .set_max_width(SIDE_MAX)
        .set_max_height(SIDE_MAX)
        .set_strict_mode(true)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    zune_jpeg::JpegDecoder::new_with_options(ZCursor::new(bytes), options)
}

fn jpeg_sides(bytes: &[u8]) -> Result<(usize, usize), String> {
    let mut decoder = jpeg_decoder(bytes);
    decoder.decode_headers().map_err(|error| format!("{error:?}"))?;
    let info = decoder.info().ok_or("it has no size")?;
    Ok((info.width.into(), info.height.into()))
}

fn decode_jpeg(bytes: &[u8]) -> Result<Picture, String> {
    let mut decoder = jpeg_decoder(bytes);
    let pixels = decoder.decode().map_err(|error| format!("{error:?}"))?;
    let info = decoder.info().ok_or("it has no size")?;
    Ok(Picture { width: info.width.into(), height: info.height.into(), pixels })
}
