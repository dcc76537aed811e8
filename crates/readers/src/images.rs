//! Folders of PNG and JPEG pictures, read whole or as square patches.
//!
//! A row contains the pixels of a picture or patch, line by line; colour pixels are red, green, blue. Transparency is ignored.

use crate::ReadError;
use crate::folder::{self, FolderFiles};
use crate::settings::{Settings, settings};
use qjam::chunk::Element;
use qjam::source::kept::{Keep, RowsWriter};
use qjam::{DataSet, Dense};
use serde::{Deserialize, Serialize};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Maximum width and height of a picture.
const SIDE_MAX: usize = 1 << 15;

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
        if let Keep::File(path) = &keep
            && let Some((data, notes)) = DataSet::kept(path)?
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
        for (files, stamps) in found.files.chunks(threads * 2).zip(found.stamps.chunks(threads * 2)) {
            for ((file, stamp), picture) in files.iter().zip(stamps).zip(decode_all(files, threads)) {
                let picture = picture?;
                let picture = if let Some(size) = self.size { picture.resized(size) } else { picture };
                let (width, height) = *size.get_or_insert((picture.width, picture.height));
                let wrong = |reason| ReadError::Format { path: file.clone(), format: "picture", reason };
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

fn decode_all(files: &[PathBuf], threads: usize) -> Vec<Result<Picture, ReadError>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(files.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads.min(files.len()) {
            scope.spawn(|| {
                while let Some((index, file)) = {
                    let index = next.fetch_add(1, Relaxed);
                    files.get(index).map(|file| (index, file))
                } {
                    let picture = decode(file);
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

fn decode(path: &Path) -> Result<Picture, ReadError> {
    let bytes = std::fs::read(path).map_err(|source| ReadError::Io { path: path.into(), source })?;
    let wrong = |format, reason: String| ReadError::Format { path: path.into(), format, reason };
    // Detected by content, because extensions are often wrong.
    let picture = if bytes.starts_with(b"\x89PNG") {
        decode_png(&bytes).map_err(|reason| wrong("PNG", reason))?
    } else if bytes.starts_with(&[0xff, 0xd8]) {
        decode_jpeg(&bytes).map_err(|reason| wrong("JPEG", reason))?
    } else {
        return Err(wrong("PNG or JPEG", format!("it starts with {:02x?}", &bytes[..bytes.len().min(4)])));
    };
    if picture.pixels.len() != picture.width * picture.height * 3 || picture.pixels.is_empty() {
        return Err(wrong("picture", "it has no pixels, or fewer than its header says".into()));
    }
    Ok(picture)
}

fn decode_png(bytes: &[u8]) -> Result<Picture, String> {
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: 1 << 30 });
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(|error| error.to_string())?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    if width > SIDE_MAX || height > SIDE_MAX {
        return Err(format!(
            "it has {width} × {height} pixels, but at most {SIDE_MAX} per side are supported"
        ));
    }
    let mut raw = vec![0; reader.output_buffer_size().ok_or("it is too large")?];
    let frame = reader.next_frame(&mut raw).map_err(|error| error.to_string())?;
    raw.truncate(frame.buffer_size());
    let pixels = match frame.color_type {
        png::ColorType::Grayscale => raw.iter().flat_map(|grey| [*grey; 3]).collect(),
        png::ColorType::GrayscaleAlpha => raw.chunks_exact(2).flat_map(|pixel| [pixel[0]; 3]).collect(),
        png::ColorType::Rgb => raw,
        png::ColorType::Rgba => {
            raw.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect()
        }
        png::ColorType::Indexed => return Err("its palette is not supported".into()),
    };
    Ok(Picture { width, height, pixels })
}

fn decode_jpeg(bytes: &[u8]) -> Result<Picture, String> {
    use zune_core::bytestream::ZCursor;
    use zune_core::colorspace::ColorSpace;
    use zune_core::options::DecoderOptions;
    let options = DecoderOptions::default()
        .set_max_width(SIDE_MAX)
        .set_max_height(SIDE_MAX)
        .set_strict_mode(true)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = zune_jpeg::JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    let pixels = decoder.decode().map_err(|error| format!("{error:?}"))?;
    let info = decoder.info().ok_or("it has no size")?;
    Ok(Picture { width: info.width.into(), height: info.height.into(), pixels })
}
