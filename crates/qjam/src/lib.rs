//! Run your own learning algorithm on more than one core and more than one machine.
//!
//! Write it once, as a function over a chunk of the data and a rule for combining its results; run it on threads, on
//! processes, on hosts over `ssh`, or on the ranks of `mpirun`. The result has the same bits on all of them and for any number
//! of workers, also when worker processes or hosts die during the run.
//!
//! ```
//! use qjam::{DataSet, Dense, Master, Sum, Wire};
//!
//! #[derive(Wire, Sum)]
//! struct Moments { rows: u64, sum: Vec<f64> }
//!
//! #[qjam::map]
//! fn moments(_: &(), x: &Dense<f64>) -> Moments {
//!     let mut sum = vec![0.0; x.cols()];
//!     for row in x.rows_iter() {
//!         sum.iter_mut().zip(row).for_each(|(s, v)| *s += v);
//!     }
//!     Moments { rows: x.rows() as u64, sum }
//! }
//!
//! #[qjam::main]
//! fn main() -> qjam::Result<()> {
//!     let m = Master::connect("proc:2")?;
//!     let x = DataSet::dense((0..30_000).map(f64::from).collect(), 3)?;
//!     let total = m.run(moments, &(), &x)?;
//!     assert_eq!((total.rows, total.sum[0]), (10_000, 149_985_000.0));
//!     Ok(())
//! }
//! ```
//!
//! | what | where |
//! |---|---|
//! | run rounds | [`Master`]: [`run`](Master::run), [`submit`](Master::submit), [`builder`](Master::builder); [worker strings](engine#worker-strings) |
//! | mark functions | [`#[map]`](macro@map), [`#[fold]`](macro@fold), [`register!`] for generic ones |
//! | be a worker | [`#[main]`](macro@main); [`worker_hook!`] in tests |
//! | keep state with the data | [`State`], [`Master::hold`], [`Held`] |
//! | data that follows from other data | [`Derived`], [`#[record]`](macro@record), [`register_record!`], [`Master::count`], [`Master::collect`], [`Master::take`] |
//! | mail between partitions | [`Ctx::send`], [`Ctx::mail`] |
//! | data | [`DataSet`], in chunks of [`Dense`], [`Labelled`], [`Csr`], [`Csc`], [`List`], [`Lines`] or [`Nothing`], or [`Pair`]s of these; [`Rows`] of either type; [`Records`] for your own |
//! | parameters and results | [`derive(Wire)`](macro@Wire), [`Serde`] for types that only serde knows |
//! | combining | [`derive(Sum)`](macro@Sum), [`Joined`], or [`Reduce`] by hand |
//! | random numbers, cancellation | [`Ctx`]; [`watched`] for what a library runs |
//! | loops of rounds that nobody waits for | [`fused`] |
//! | look after hosts | [`hosts`] |
//! | how much memory there is and is taken; how many cores | [`memory`], [`cores`] |
//! | what every run leaves, and going on from it | [`runs`] |
//! | what went wrong | [`Error`]; what happened: [`Master::journal`], [`journal`] |

// The macros write `::qjam::…`; inside this crate, its tests and its examples that must mean this crate.
#[allow(unused_extern_crates, reason = "used by what the macros write, which only tests may do")]
extern crate self as qjam;

pub mod source;

pub mod dataset;

#[doc(inline)]
pub use qjam_data::chunk;
#[doc(hidden)]
pub use qjam_data::codec;
#[doc(hidden)]
pub mod function;
pub mod registry;
#[doc(hidden)]
pub use function::state;
#[doc(hidden)]
pub mod store;

pub mod memory;
#[doc(inline)]
pub use qjam_system::cores;

mod arenas;
mod executor_process;
mod id_map;
mod process;
mod transport;

#[doc(hidden)]
mod execution;

pub mod engine;
#[doc(inline)]
pub use engine::fused;
pub mod worker;

pub mod hosts;

mod master;

pub mod runs;

#[doc(inline)]
pub use qjam_data::reduce;

pub mod python;

mod error;

pub use error::{Error, RemoteFault, Result, StartFailure, Step};
pub use function::Job;
pub use function::state::State;
pub use master::{
    Awaited, Builder, Held, LogLine, LongResults, Master, Pending, Waiting, WorkerInfo, watched,
};
pub use qjam_core::text::{is_obeyed, printable};
pub use qjam_core::tuner::{Explained, Predicted};
pub use qjam_core::{ids, job, journal};
#[doc(inline)]
pub use qjam_data::{
    Chunk, ChunkError, Csc, Csr, Ctx, DataError, DataSet, DataSetId, DecodeError, Decoder, Dense, Derived,
    Dtype, Encoder, Joined, Labelled, Letter, Lines, List, MergeError, Nothing, Pair, Params, Plan, Record,
    RecordFunction, Recorded, Records, Reduce, Rng, RoundData, Rows, Serde, Slab, Wire, with_rows,
};
pub use registry::UnknownFunction;

// What the modules of this crate know their data by.
pub(crate) use qjam_data::ctx;

/// Version of this package; master and workers must have the same.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Marks a function that gives one result per chunk.
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

/// Marks a function that adds chunks into an accumulator.
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

/// Marks a function over single records, for [derived](Derived) data sets: a parser, a filter, a row of features.
///
/// ```
/// #[qjam::record]
/// fn is_even(_: &(), number: &u64) -> bool {
///     number % 2 == 0
/// }
///
/// assert!(is_even(&(), &4));
/// ```
///
/// What cannot be run over records does not compile:
///
/// ```compile_fail,E0277
/// struct Opaque;
///
/// #[qjam::record]
/// fn of_opaque(_: &(), record: &Opaque) -> u64 {
///     1                                           // `Opaque` is neither cloned nor written down
/// }
/// ```
pub use qjam_macros::record;

pub use qjam_macros::{Wire, main};

/// Combines field by field.
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
    #[doc = include_str!("../../../docs/book/derived-data.md")]
    struct DerivedData;
    #[doc = include_str!("../../../docs/book/how-many-workers.md")]
    struct HowManyWorkers;
    #[doc = include_str!("../../../docs/book/running-on-your-hosts.md")]
    struct RunningOnYourHosts;
    #[doc = include_str!("../../../docs/book/memory.md")]
    struct Memory;
    #[doc = include_str!("../../../docs/book/runs.md")]
    struct Runs;
    #[doc = include_str!("../../../docs/book/mail.md")]
    struct Mail;
    #[doc = include_str!("../../../docs/book/state.md")]
    struct StateThatStays;
    #[doc = include_str!("../../../docs/book/when-something-goes-wrong.md")]
    struct WhenSomethingGoesWrong;
}
