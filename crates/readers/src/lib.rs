//! Data sets from files in common formats.
//!
//! | files | reader |
//! |---|---|
//! | CSV, plain or compressed | [`Csv`] |
//! | LIBSVM and svmlight, plain or compressed, by rows or by columns | [`Libsvm`] |
//! | `.npy` of any type, plain or compressed | [`Npy`] |
//! | `.npz` archives, and sparse matrices saved by SciPy | [`Npz`] |
//! | IDX, the format of MNIST, plain or compressed | [`Idx`] |
//! | Parquet | [`Parquet`] |
//! | lists of edges, plain or compressed | [`edges()`] |
//! | folders of PNG and JPEG pictures | [`Images`] |
//! | folders of WAV files | [`Audio`] |
//!
//! [`open`] detects the kind of a file and reads it. (`.npy` and raw files of a known type need no reader:
//! [`DataSet::npy`](qjam::DataSet::npy), [`DataSet::raw`](qjam::DataSet::raw).)
//!
//! Comes in: the path of a file or folder, and options. Goes out: a data set of binary chunks, in memory or in a converted
//! file in the user's cache folder ([`qjam::source::kept`]). A file larger than memory is converted piece by piece, once.
//! Readers run on the master only, and use only the public interface of `qjam`.

mod blocks;
mod error;
mod folder;
#[cfg(feature = "audio")]
mod fourier;
mod gathered;
mod input;
mod missing;
mod open;
mod real;
mod settings;
mod table;

#[cfg(feature = "audio")]
pub mod audio;
pub mod csv;
pub mod edges;
pub mod idx;
#[cfg(feature = "images")]
pub mod images;
pub mod libsvm;
pub mod npy;
pub mod npz;
#[cfg(feature = "parquet")]
pub mod parquet;

#[cfg(feature = "audio")]
pub use audio::{Audio, Sounds, Spectrum};
pub use csv::{Csv, Header};
pub use edges::edges;
pub use error::{Problem, ReadError};
pub use idx::Idx;
#[cfg(feature = "images")]
pub use images::{Images, Pictures, Pixel};
pub use libsvm::{Columns, Libsvm};
pub use missing::Missing;
pub use npy::Npy;
pub use npz::Npz;
pub use open::{Dtype, Kind, Labels, OpenOptions, Opened, Rows, Tell, open};
#[cfg(feature = "parquet")]
pub use parquet::Parquet;
pub use real::Real;
pub use settings::Progress;
pub use table::Table;

/// The code in the book is run like any other example.
#[cfg(all(doctest, feature = "audio", feature = "images", feature = "parquet"))]
mod book {
    #[doc = include_str!("../../../docs/book/reading-data.md")]
    struct ReadingData;
}
