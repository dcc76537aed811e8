//! Run your own learning algorithm on more than one core and more than one machine.

// The macros write `::qjam::…`; inside this crate, its tests and its examples that must mean this crate.
#[allow(unused_extern_crates, reason = "used by what the macros write, which only tests may do")]
extern crate self as qjam;

pub mod source;

pub mod dataset;

pub mod chunk;
pub mod codec;
mod ctx;
pub mod function;
pub mod registry;
mod rng;
pub mod store;

mod transport;

pub mod worker;

pub mod engine;

mod master;

pub mod reduce;

mod error;

pub use chunk::{Chunk, ChunkError, Dense, Lines, List, Nothing};
pub use codec::{DecodeError, Decoder, Encoder, Params, Serde, Slab, Wire};
pub use ctx::Ctx;
pub use dataset::{DataSet, DataSetId};
pub use error::{Error, RemoteFault, Result};
pub use function::Job;
pub use master::{Builder, LogLine, Master, Pending, WorkerInfo};
pub use qjam_core::{ids, job, journal};
pub use reduce::{MergeError, Reduce};
pub use registry::UnknownFunction;
pub use rng::Rng;
pub use source::{DataError, Records};

/// Version of this package; master and workers must have the same.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Example:
///
/// ```
/// use qjam::{Dense, List};
///
/// #[qjam::map]
/// fn squares(shift: &f64, x: &Dense<f64>) -> f64 {
///     x.as_slice().iter().map(|v| (v - shift) * (v - shift)).sum()
/// }
///
/// #[qjam::map]
/// fn count(_: &(), records: &List<String>) -> u64 {
///     records.len() as u64
/// }
///
/// // They stay ordinary functions.
/// let x = Dense::from_vec(vec![1.0, 2.0, 4.0], 1).unwrap();
/// assert_eq!(squares(&1.0, &x), 10.0);
/// ```
///
/// What cannot be run over chunks does not compile, and the message says which argument it is:
///
/// ```compile_fail,E0277
/// #[qjam::map]
/// fn longest(_: &(), x: &Vec<f64>) -> u64 {
///     x.len() as u64                              // `Vec<f64>` is not a kind of chunk
/// }
/// ```
pub use qjam_macros::map;

/// Example:
///
/// ```
/// use qjam::{Dense, Sum, Wire};
///
/// #[derive(Wire, Sum, Default)]
/// struct Moments { count: u64, sum: f64, squares: f64 }
///
/// #[qjam::fold]
/// fn moments(_: &(), x: &Dense<f64>, acc: &mut Moments) {
///     for v in x.as_slice() {
///         acc.count += 1;
///         acc.sum += v;
///         acc.squares += v * v;
///     }
/// }
///
/// let mut acc = Moments::default();
/// moments(&(), &Dense::from_vec(vec![1.0, 2.0, 4.0], 1).unwrap(), &mut acc);
/// assert_eq!((acc.count, acc.sum, acc.squares), (3, 7.0, 21.0));
/// ```
pub use qjam_macros::fold;

pub use qjam_macros::{Wire, main};

/// Example:
///
/// ```
/// use qjam::{MergeError, Reduce};
///
/// #[derive(qjam::Wire, qjam::Sum, Debug, PartialEq)]
/// struct Grad { value: f64, grad: Vec<f64>, rows: u64 }
///
/// let mut left = Grad { value: 1.0, grad: vec![1.0, 2.0], rows: 10 };
/// left.merge(Grad { value: 0.5, grad: vec![0.5, 0.5], rows: 7 });
/// assert_eq!(left, Grad { value: 1.5, grad: vec![1.5, 2.5], rows: 17 });
///
/// let error = left.try_merge(Grad { value: 0.0, grad: vec![], rows: 0 }).unwrap_err();
/// assert_eq!(error, MergeError::Lengths { path: "grad".into(), left: 2, right: 0 });
/// ```
pub use qjam_macros::Sum;

#[doc(hidden)]
pub mod __private;

/// The code in the README and the book is run like any other example.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/book/how-a-round-works.md")]
    struct HowARoundWorks;
    #[doc = include_str!("../../../docs/book/when-something-goes-wrong.md")]
    struct WhenSomethingGoesWrong;
}
