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
pub mod reduce;
pub mod registry;
mod rng;
pub mod store;

pub use chunk::{Chunk, ChunkError, Dense, Lines, List, Nothing};
pub use codec::{DecodeError, Decoder, Encoder, Params, Serde, Slab, Wire};
pub use ctx::Ctx;
pub use dataset::{DataSet, DataSetId};
pub use function::Job;
pub use qjam_macros::{Sum, Wire, fold, main, map};
pub use reduce::{MergeError, Reduce};
pub use registry::UnknownFunction;
pub use rng::Rng;
pub use source::{DataError, Records};

/// What the macros refer to. Not for use by hand; it may change at any time.
#[doc(hidden)]
pub mod __private {
    pub use crate::registry::{Entry, FUNCTIONS, build, kind_of, name_of};
    pub use linkme;
}
