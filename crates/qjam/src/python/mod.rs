//! Python functions on workers: what of them travels, and who runs them.
//!
//! To the rest of the system a Python function is one Rust function, [`call`], whose parameters are a [`Call`]: the
//! user's code as bytes that only Python reads, and the user's parameters, pickled. It runs on any kind of chunk
//! ([`Raw`]) and gives a [`Value`], so scheduling, caching, reduction order and failures are those of every other
//! function.
//!
//! A slot hands calls to its own child interpreter, which lives as long as the slot. Chunks go there as shared memory;
//! parameters and results as pickles whose arrays lie beside them. Sums of numbers and arrays need no interpreter: a
//! value says what its numbers are, and neighbours are added here. What only Python can combine is combined by the
//! slot's child, and on the master by the interpreter of its process ([`Interpreter`]).
//!
//! ```text
//!   Call (code, parameters) ─▶ slot ─▶ child interpreter ─▶ Value ─▶ merged natively, by the child, or by the Interpreter
//!   Raw chunk, by its mapping ──┘
//! ```

#[expect(unsafe_code, reason = "functions are registered in a section of the executable")]
mod calls;

pub use calls::{Memory, call, step};
pub use qjam_data::chunk::Raw;
pub use qjam_data::dataset::Array;
pub use qjam_data::source::array::{Layout, checksum, standard_rows};
pub use qjam_data::source::slices::Slices;
pub use qjam_data::store::traffic::{Traffic, traffic};
pub use qjam_python::named;
pub use qjam_python::{
    Body, Call, Code, CodeId, Interpreter, InterpreterFacts, Leaf, Line, Log, Pickled, Raised, Setup, Table,
    Value, facts_of, set_interpreter, set_log, set_up, split_level,
};
#[doc(hidden)]
#[allow(deprecated, reason = "the old names are kept for one release")]
pub use qjam_python::{Host, set_host};
pub(crate) use qjam_python::{WorkerSetup, check, numerics};
