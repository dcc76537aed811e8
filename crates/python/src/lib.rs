//! Functions in Python: their code and values as they travel, and the child interpreters that run them.
//!
//! A [`Call`] is the user's code, as bytes that only Python reads, and the user's parameters, pickled. [`map`] and [`step`]
//! run it on a chunk and give a [`Value`]; `qjam` registers two functions that call these, so to the rest of the system
//! a Python function is a function like any other.
//!
//! A slot hands calls to its own child interpreter ([`slot`]), which lives as long as the slot's thread. Chunks go there as
//! shared memory; parameters and results as pickles whose arrays lie beside them. Sums of numbers and arrays need no
//! interpreter: a value says what its numbers are, and neighbours are added here. What only Python can combine is combined
//! by the slot's child, and on the master by the interpreter of its process ([`Interpreter`]).
//!
//! ```text
//!   Call (code, parameters) ─▶ slot ─▶ child interpreter ─▶ Value ─▶ merged natively, by the child, or by the Interpreter
//!   Raw chunk, by its mapping ──┘
//! ```
//!
//! This crate knows neither masters nor workers: what they tell each other about Python are bytes from here
//! ([`WorkerSetup`], [`InterpreterFacts`]).

mod answer;
mod call;
mod child;
mod code;
mod content;
mod find;
mod interpreter;
mod letter;
mod level;
pub mod named;
pub mod numerics;
mod params;
mod peer;
mod pickled;
mod printed;
mod raised;
mod running;
mod runtime;
mod setup;
mod slot;
mod start;
mod state;
mod stepping;
mod table;
mod value;
mod welcomed;

pub use call::Call;
pub use child::has_interpreter;
pub use code::{Code, CodeId};
pub use find::{facts, facts_of};
#[doc(hidden)]
pub use interpreter::Interpreter as Host;
#[allow(deprecated, reason = "the old name is kept for one release")]
pub use interpreter::set_host;
pub use interpreter::{Interpreter, set_interpreter};
pub use level::split_level;
pub use pickled::Pickled;
pub use raised::Raised;
pub use running::{map, settle, step};
pub use runtime::{InterpreterFacts, WorkerSetup};
pub use setup::{Log, Setup, set_log, set_up};
pub use slot::{limit_child, take_losses};
pub use start::add_thread_slots;
pub use state::ChunkState;
pub use table::{HostFacts, Line, Table, check};
pub use value::{Body, Leaf, Value};
pub use welcomed::welcome;
