//! Data: how values become bytes, how records become chunks, and where both lie.
//!
//! In the order in which the modules build on one another: [`store`] has memory that processes of a host share;
//! [`codec`] turns values into bytes and back; [`reduce`] says how two results become one; [`chunk`] has the typed views
//! that functions take; [`source`] reads records and cuts them into chunks; [`dataset`] is an ordered list of chunks,
//! [`derived`] one that is made from another when it is needed,
//! [`rows`] one of four kinds of these.
//! [`rng`] and [`ctx`] are what a function may know besides its data: random numbers, and which chunk of which round it
//! runs on; [`mail`] is what it finds from other chunks and sends to them.
//!
//! Users get all this from `qjam`, which passes on what is meant for them. This crate starts no process, opens no
//! socket, and knows neither workers nor rounds that are under way.

// The macros write `::qjam::…`; in the unit tests of this crate that must mean this crate.
#[cfg(test)]
extern crate self as qjam;

pub mod rng;

pub mod store;

pub mod codec;

pub mod reduce;

pub mod mail;

pub mod ctx;

pub mod chunk;

pub mod source;

pub mod dataset;

pub mod derived;

pub mod rows;

pub use chunk::{Chunk, ChunkError, Csc, Csr, Dense, Labelled, Lines, List, Nothing, Pair};
pub use codec::{DecodeError, Decoder, Encoder, Params, Serde, Slab, Wire};
pub use ctx::Ctx;
pub use dataset::{DataSet, DataSetId};
pub use derived::{Derived, Plan, Record, RecordFunction, Recorded, RoundData};
pub use mail::Letter;
#[cfg(test)]
use qjam_macros::Wire;
pub use reduce::{Joined, MergeError, Reduce};
pub use rng::Rng;
pub use rows::{Dtype, Rows};
pub use source::{DataError, Records};
