//! Detects the kind of a file and reads it into rows of floating-point numbers.
//!
//! For programs that get a path from their user: the command `qjam` and the Python package. If the kind is known, use its reader,
//! which has more options. Comes in: a path and [`OpenOptions`]. Goes out: [`Opened`]. Options that do not apply to the kind are
//! refused, never ignored.

mod kind;

pub use kind::Kind;

#[cfg(feature = "audio")]
use crate::Spectrum;
use crate::settings::{Settings, Storage};
use crate::{Csv, Header, Idx, Libsvm, Missing, Npy, Npz, Progress, ReadError, Real, Table};
use qjam::{Csr, DataSet, Dense};
pub use qjam::{Dtype, Rows};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What to do with the target: a named column of a table, or the label in each line of a LIBSVM file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// Leave it out of tables, for unsupervised learners; it need not be numeric then. (The rows of a LIBSVM file keep their
    /// labels.)
    #[default]
    Out,
    /// Keep it with the rows: as the last column of dense rows ([`DataSet::labelled`]), as [`Csr::labels`] of sparse rows.
    Last,
}

/// A callback for the progress of a reader.
pub type Tell = Arc<dyn Fn(Progress) + Send + Sync>;

/// Options of [`open`]. The default reads all columns of any file.
///
/// ```
/// use qjam_readers::{Dtype, Missing, OpenOptions};
/// let options = OpenOptions { missing: Missing::DropRow, dtype: Some(Dtype::F32), ..OpenOptions::default() };
/// ```
#[derive(Clone, Default)]
pub struct OpenOptions {
    /// The kind of file, instead of detecting it.
    pub kind: Option<Kind>,
    /// The type of the numbers. By default that of the file if it has one, `f32` for pictures and sounds, otherwise `f64`.
    pub dtype: Option<Dtype>,
    /// Columns of a table to read, in this order.
    pub columns: Option<Vec<String>>,
    /// Columns of a table to leave out.
    pub without: Vec<String>,
    /// The target column of a table.
    pub target: Option<String>,
    /// What to do with the target, and with the labels of a LIBSVM file.
    pub labels: Labels,
    /// What to do about missing values.
    pub missing: Missing,
    /// Whether a CSV file has a header.
    pub header: Header,
    /// The field separator of a CSV file, instead of detecting it.
    pub delimiter: Option<u8>,
    /// Skips lines of a CSV file that start with this character.
    pub comment: Option<u8>,
    /// Indices of a LIBSVM file start at 0.
    pub zero_based: bool,
    /// Number of columns of a LIBSVM file, if larger than its largest index. Of other files, as many columns as are accepted:
    /// more than 2^24 in an array or 2^20 in a table must be confirmed, because a few bytes can claim any number.
    pub features: Option<usize>,
    /// The array to read from an `.npz` archive that has several.
    pub array: Option<String>,
    /// Converts pictures to greyscale.
    pub grey: bool,
    /// Resizes pictures to this width and height.
    pub size: Option<(usize, usize)>,
    /// Cuts pictures into square patches: side and step in pixels.
    pub patches: Option<(usize, usize)>,
    /// Length and step of the window over sounds, in samples.
    pub frames: Option<(usize, usize)>,
    /// Reads the spectra of the windows.
    #[cfg(feature = "audio")]
    pub spectrum: Option<Spectrum>,
    /// Reads the numbers into memory, regardless of their size.
    pub in_memory: bool,
    /// Most bytes of numbers that stay in memory when neither `in_memory` nor `keep_in` says otherwise; by default 64 MiB.
    pub memory_max: Option<u64>,
    /// Stores the numbers in a file in this folder.
    pub keep_in: Option<PathBuf>,
    /// Number of threads, by default the number of cores.
    pub threads: Option<usize>,
    /// Called with the progress.
    pub progress: Option<Tell>,
}

impl fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("OpenOptions");
        all.field("kind", &self.kind).field("dtype", &self.dtype).field("columns", &self.columns);
        all.field("without", &self.without).field("target", &self.target).field("labels", &self.labels);
        all.field("missing", &self.missing).finish_non_exhaustive()
    }
}

/// The result of [`open`].
#[derive(Clone, Debug)]
pub struct Opened {
    /// The rows.
    pub rows: Rows,
    /// The kind of file.
    pub kind: Kind,
    /// Names of the columns in order, if there are any; the columns of tables without names are numbered from `1`.
    pub columns: Vec<String>,
    /// Whether rows have labels: in the last column of dense rows, in [`Csr::labels`] of sparse rows.
    pub labelled: bool,
    /// The files of a folder, in order, with their numbers of rows.
    pub files: Vec<(String, u64)>,
    /// Number of rows dropped because a value was missing.
    pub dropped: u64,
    /// Number of missing values that were replaced.
    pub filled: u64,
}

/// Reads a file or folder of any kind.
///
/// ```
/// use qjam_readers::{OpenOptions, Rows, open};
/// let path = std::env::temp_dir().join(format!("qjam-readers-open-{}", std::process::id()));
/// std::fs::write(&path, "size,rooms,town\n70,3,Ely\n100,4,Bath\n")?;
/// let opened = open(&path, &OpenOptions { target: Some("town".into()), ..OpenOptions::default() })?;
/// let Rows::DenseF64(homes) = &opened.rows else { panic!("tables are of f64") };
/// assert_eq!(homes.chunk(0)?.row(1), [100.0, 4.0]);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Opened, ReadError> {
    let path = path.as_ref();
    let kind = options.kind.map_or_else(|| Kind::of(path), Ok)?;
    options.must_suit(path, kind)?;
    match options.dtype.map_or_else(|| natural(path, kind, options), Ok)? {
        Dtype::F32 => read::<f32>(path, kind, options),
        Dtype::F64 => read::<f64>(path, kind, options),
    }
}

/// The default type of the numbers.
fn natural(path: &Path, kind: Kind, options: &OpenOptions) -> Result<Dtype, ReadError> {
    let by_descr = |descr: &str| if descr == "<f4" { Dtype::F32 } else { Dtype::F64 };
    Ok(match kind {
        Kind::Npy => by_descr(Npy::new(path).descr()?),
        Kind::Npz if is_sparse(path, options)? => by_descr(Npz::new(path).descr("data")?),
        Kind::Npz => by_descr(Npz::new(path).descr(&array(path, options)?)?),
        Kind::Images | Kind::Audio => Dtype::F32,
        Kind::Csv | Kind::Libsvm | Kind::Parquet | Kind::Idx => Dtype::F64,
    })
}

/// `f32` or `f64`, with the variants of [`Rows`] for it.
#[cfg(feature = "images")]
trait Number: Real + crate::Pixel {
    fn dense(data: DataSet<Dense<Self>>) -> Rows;
    fn csr(data: DataSet<Csr<Self>>) -> Rows;
}
#[cfg(not(feature = "images"))]
trait Number: Real {
    fn dense(data: DataSet<Dense<Self>>) -> Rows;
    fn csr(data: DataSet<Csr<Self>>) -> Rows;
}

impl Number for f32 {
    fn dense(data: DataSet<Dense<f32>>) -> Rows {
        Rows::DenseF32(data)
    }
    fn csr(data: DataSet<Csr<f32>>) -> Rows {
        Rows::CsrF32(data)
    }
}

impl Number for f64 {
    fn dense(data: DataSet<Dense<f64>>) -> Rows {
        Rows::DenseF64(data)
    }
    fn csr(data: DataSet<Csr<f64>>) -> Rows {
        Rows::CsrF64(data)
    }
}

fn read<T: Number>(path: &Path, kind: Kind, options: &OpenOptions) -> Result<Opened, ReadError> {
    let of_rows = |data: DataSet<Dense<T>>, files: Vec<(String, u64)>| Opened {
        rows: T::dense(data),
        kind,
        columns: Vec::new(),
        labelled: false,
        files,
        dropped: 0,
        filled: 0,
    };
    match kind {
        Kind::Npy => {
            let mut reader = Npy::new(path).missing(options.missing);
            reader.settings = options.settings();
            Ok(opened(kind, reader.read::<T>()?))
        }
        Kind::Npz => {
            let mut reader = Npz::new(path).missing(options.missing);
            reader.settings = options.settings();
            if is_sparse(path, options)? {
                let (rows, columns, files) = (T::csr(reader.read_sparse::<T>()?), Vec::new(), Vec::new());
                return Ok(Opened { rows, kind, columns, labelled: false, files, dropped: 0, filled: 0 });
            }
            Ok(opened(kind, reader.read_real::<T>(&array(path, options)?)?))
        }
        Kind::Csv | Kind::Parquet => table::<T>(path, kind, options),
        Kind::Libsvm => {
            let mut reader = Libsvm::new(path);
            reader.settings = options.settings();
            reader = if options.zero_based { reader.zero_based() } else { reader };
            reader = if let Some(features) = options.features { reader.cols(features) } else { reader };
            let data = reader.read::<T>()?;
            let (columns, files) = (Vec::new(), Vec::new());
            Ok(Opened { rows: T::csr(data), kind, columns, labelled: true, files, dropped: 0, filled: 0 })
        }
        Kind::Idx => {
            let mut reader = Idx::new(path);
            reader.settings = options.settings();
            Ok(of_rows(reader.read_real::<T>()?, Vec::new()))
        }
        #[cfg(feature = "images")]
        Kind::Images => {
            let mut reader = crate::Images::new(path);
            reader.settings = options.settings();
            reader = if options.grey { reader.grey() } else { reader };
            if let Some((side, step)) = options.patches {
                reader = reader.patches(side, step);
            }
            if let Some((width, height)) = options.size {
                reader = reader.size(width, height);
            }
            let found = reader.read::<T>()?;
            Ok(of_rows(found.data, found.files.into_iter().zip(found.rows).collect()))
        }
        #[cfg(feature = "audio")]
        Kind::Audio => {
            let mut reader = crate::Audio::new(path);
            reader.settings = options.settings();
            let (window, step) = options.frames.unwrap_or((1024, 512));
            reader = match options.spectrum {
                Some(spectrum) => reader.spectrogram(window, step, spectrum),
                None => reader.frames(window, step),
            };
            let found = reader.read::<T>()?;
            Ok(of_rows(found.data, found.files.into_iter().zip(found.rows).collect()))
        }
        #[cfg(not(all(feature = "images", feature = "audio")))]
        kind => Err(not_built(path, kind)),
    }
}

#[cfg(not(all(feature = "images", feature = "audio", feature = "parquet")))]
fn not_built(path: &Path, kind: Kind) -> ReadError {
    let reason = format!("this program was built without the reader for {}", kind.name());
    ReadError::Options { path: path.into(), reason }
}

fn opened<T: Number>(kind: Kind, table: Table<T>) -> Opened {
    let Table { data, columns, labelled, dropped, filled } = table;
    Opened { rows: T::dense(data), kind, columns, labelled, files: Vec::new(), dropped, filled }
}

/// Reads a table, with its target last or left out.
fn table<T: Number>(path: &Path, kind: Kind, options: &OpenOptions) -> Result<Opened, ReadError> {
    let (mut without, mut target) = (options.without.clone(), options.target.clone());
    if options.labels == Labels::Out {
        without.extend(target.take());
    }
    let table = match kind {
        Kind::Csv => {
            let delimiter = match options.delimiter {
                Some(delimiter) => delimiter,
                None => kind::delimiter(path, &kind::start_of(path)?),
            };
            let mut reader = Csv::new(path).header(options.header).delimiter(delimiter);
            reader = reader.missing(options.missing).without(without);
            reader.settings = options.settings();
            reader = if let Some(comment) = options.comment { reader.comment(comment) } else { reader };
            reader = if let Some(names) = &options.columns { reader.columns(names) } else { reader };
            reader = if let Some(target) = target { reader.target(target) } else { reader };
            reader.read::<T>()?
        }
        #[cfg(feature = "parquet")]
        _ => {
            let mut reader = crate::Parquet::new(path).missing(options.missing).without(without);
            reader.settings = options.settings();
            reader = if let Some(names) = &options.columns { reader.columns(names) } else { reader };
            reader = if let Some(target) = target { reader.target(target) } else { reader };
            reader.read::<T>()?
        }
        #[cfg(not(feature = "parquet"))]
        _ => return Err(not_built(path, kind)),
    };
    Ok(opened(kind, table))
}

/// Whether an archive is a sparse matrix and no single array was requested.
fn is_sparse(path: &Path, options: &OpenOptions) -> Result<bool, ReadError> {
    Ok(options.array.is_none() && Npz::new(path).is_sparse()?)
}

/// The name of the array to read from an archive.
fn array(path: &Path, options: &OpenOptions) -> Result<String, ReadError> {
    if let Some(name) = &options.array {
        return Ok(name.clone());
    }
    let names = Npz::new(path).names()?;
    match &names[..] {
        [only] => Ok(only.clone()),
        [] => Err(ReadError::Empty { path: path.into(), what: "arrays" }),
        _ => Err(ReadError::Options {
            path: path.into(),
            reason: format!("it has several arrays, {}; choose one with `array`", names.join(", ")),
        }),
    }
}

impl OpenOptions {
    fn settings(&self) -> Settings {
        let storage = match (&self.keep_in, self.in_memory) {
            (Some(folder), _) => Storage::Folder(folder.clone()),
            (None, true) => Storage::Memory,
            (None, false) => Storage::Auto,
        };
        let tell = |tell: Tell| -> Box<dyn FnMut(Progress)> { Box::new(move |progress| tell(progress)) };
        Settings {
            storage,
            progress: self.progress.clone().map(tell),
            threads: self.threads,
            memory_max: self.memory_max,
            columns_max: self.features.map(|features| features as u64),
        }
    }

    /// Refuses options that do not apply to this kind of file.
    fn must_suit(&self, path: &Path, kind: Kind) -> Result<(), ReadError> {
        use Kind::{Audio, Csv, Idx, Images, Libsvm, Npy, Npz, Parquet};
        #[cfg(feature = "audio")]
        let spectrum = self.spectrum.is_some();
        #[cfg(not(feature = "audio"))]
        let spectrum = false;
        let chosen: [(bool, &str, &[Kind]); 14] = [
            (self.columns.is_some(), "columns", &[Csv, Parquet]),
            (!self.without.is_empty(), "without", &[Csv, Parquet]),
            (self.target.is_some(), "target", &[Csv, Parquet]),
            (self.missing != Missing::Error, "missing", &[Csv, Parquet, Npy, Npz]),
            (self.header != Header::Auto, "header", &[Csv]),
            (self.delimiter.is_some(), "delimiter", &[Csv]),
            (self.comment.is_some(), "comment", &[Csv]),
            (self.zero_based, "zero_based", &[Libsvm]),
            (self.features.is_some(), "features", &[Libsvm, Npy, Npz, Csv, Parquet, Idx]),
            (self.array.is_some(), "array", &[Npz]),
            (self.grey, "grey", &[Images]),
            (self.size.is_some(), "size", &[Images]),
            (self.patches.is_some(), "patches", &[Images]),
            (self.frames.is_some() || spectrum, "frames", &[Audio]),
        ];
        for (is_chosen, option, kinds) in chosen {
            if is_chosen && !kinds.contains(&kind) {
                let kinds: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
                let reason = format!(
                    "it is read as {}, to which `{option}` does not apply; it applies to {}",
                    kind.name(),
                    kinds.join(", ")
                );
                return Err(ReadError::Options { path: path.into(), reason });
            }
        }
        Ok(())
    }
}

impl Opened {
    /// The label of each row, if rows have labels. Reads all chunks, and needs eight bytes of memory per row.
    pub fn labels(&self) -> Result<Option<Vec<f64>>, ReadError> {
        fn room(records: u64) -> Result<Vec<f64>, ReadError> {
            let (mut labels, path) = (Vec::new(), Path::new("the labels of all rows"));
            crate::error::reserve(&mut labels, usize::try_from(records).unwrap_or(usize::MAX), path)?;
            Ok(labels)
        }
        fn last<T: Real>(data: &DataSet<Dense<T>>) -> Result<Vec<f64>, ReadError> {
            let data = data.labelled()?;
            let mut labels = room(data.records())?;
            for index in 0..data.len() {
                labels.extend(data.chunk(index)?.labels().map(Real::to_f64));
            }
            Ok(labels)
        }
        fn beside<T: Real>(data: &DataSet<Csr<T>>) -> Result<Vec<f64>, ReadError> {
            let mut labels = room(data.records())?;
            for index in 0..data.len() {
                labels.extend(
                    data.chunk(index)?.labels().unwrap_or_default().iter().map(|label| label.to_f64()),
                );
            }
            Ok(labels)
        }
        if !self.labelled {
            return Ok(None);
        }
        match &self.rows {
            Rows::DenseF32(data) => last(data),
            Rows::DenseF64(data) => last(data),
            Rows::CsrF32(data) => beside(data),
            Rows::CsrF64(data) => beside(data),
        }
        .map(Some)
    }
}
