//! What a function sees of its data: typed views over a chunk's bytes.
//!
//! The bytes come from a data set on the master or from a worker's cache, with the [`Header`] that names their kind.
//! [`Chunk::open`] compares the two and gives a view: [`Dense`] and sparse ([`Csr`], [`Csc`]) matrices and [`Lines`] stay
//! where the bytes are, a [`List`] is decoded once. Bytes that don't fit their header are a [`ChunkError`], never a panic.
//!
//! Every kind can also be made from values, so that a function over chunks is tested like any other function:
//!
//! ```
//! use qjam::Dense;
//!
//! #[qjam::map]
//! fn column_sums(_: &(), x: &Dense<f64>) -> Vec<f64> {
//!     let mut sums = vec![0.0; x.cols()];
//!     for row in x.rows_iter() {
//!         sums.iter_mut().zip(row).for_each(|(sum, v)| *sum += v);
//!     }
//!     sums
//! }
//!
//! let x = Dense::from_vec(vec![1.0, 2.0, 3.0, 4.0], 2).unwrap();
//! assert_eq!(column_sums(&(), &x), [4.0, 6.0]);
//! ```

mod dense;
mod error;
mod labelled;
mod lines;
mod list;
mod nothing;
pub(crate) mod pair;
mod raw;
pub(crate) mod sparse;

pub use dense::{Dense, Element};
pub use error::ChunkError;
pub use labelled::Labelled;
pub use lines::Lines;
pub use list::List;
pub use nothing::Nothing;
pub use pair::Pair;
pub use qjam_core::chunk::{ChunkId, Header};
pub use raw::Raw;
pub use sparse::{Csc, Csr};

pub(crate) use list::header as list_header;

use bytes::Bytes;

/// A view over a chunk's bytes, which is what a function takes as its second argument.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a kind of chunk",
    label = "expected `Dense<T>`, `Labelled<T>`, `Csr<T>`, `Csc<T>`, `List<T>`, `Lines`, `Pair<A, B>` or `Nothing`",
    note = "a function takes its chunk by reference as the second argument, for example `x: &qjam::Dense<f64>`"
)]
pub trait Chunk: Sized + Send + Sync + 'static {
    /// Checks that the bytes are what the header says and makes the view.
    fn open(header: &Header, bytes: Bytes) -> Result<Self, ChunkError>;
}

/// The checks that all kinds share: the kind itself, the number of dimensions, the number of bytes.
fn expect_kind<'h, const N: usize>(
    header: &'h Header,
    bytes: &Bytes,
    kind: &'static str,
) -> Result<&'h [u64; N], ChunkError> {
    if header.kind != kind {
        return Err(ChunkError::Kind { expected: kind, found: header.kind.clone() });
    }
    if header.bytes != bytes.len() as u64 {
        return Err(ChunkError::Bytes { expected: header.bytes, found: bytes.len() as u64 });
    }
    header.shape.as_slice().try_into().map_err(|_| ChunkError::Shape {
        kind,
        shape: header.shape.clone(),
        bytes: header.bytes,
    })
}
