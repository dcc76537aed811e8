//! The pure part of qjam: types, the state machines of master and worker, the wire format, and the fixed order of reduction.
//!
//! Comes in: events, the time and bytes, as arguments. Goes out: lists of actions. Nothing in this crate reads a clock, starts a
//! thread, or opens a file or socket. So the same code runs in the real engines and in the simulator, where a seed determines
//! everything.
//!
//! The modules follow the flow of data: a data set is cut into [`chunk`]s; a round over them is a [`job`]; the [`scheduler`] assigns
//! its blocks; [`wire`] defines the messages; a [`worker`] runs the blocks; [`reduce`] combines the results. The [`journal`] records
//! events, and the [`tuner`] measures how many workers pay off.

pub mod ids;
pub mod text;
pub mod time;

pub mod bucket;
pub mod chunk;
pub mod job;
pub mod lease;
pub mod lineage;
pub mod mail;
pub mod order;
pub mod records;
pub mod scheduler;
pub mod wire;
pub mod worker;

pub mod journal;
pub mod reduce;
pub mod tuner;
