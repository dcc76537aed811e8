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
//! slot's child, and on the master by the interpreter it lives in ([`Host`]).
//!
//! ```text
//!   Call (code, parameters) ─▶ slot ─▶ child interpreter ─▶ Value ─▶ merged natively, by the child, or by the Host
//!   Raw chunk, by its mapping ──┘
//! ```

mod answer;
#[expect(unsafe_code, reason = "functions are registered in a section of the executable")]
mod calls;
mod child;
pub(crate) mod find;
mod letter;
mod params;
mod peer;
mod pickled;
mod printed;
mod raised;
mod runtime;
mod setup;
mod slot;
mod start;
mod table;
mod value;
mod welcomed;

pub(crate) use calls::is_call;
pub use calls::{Call, Code, CodeId, Memory, call, step};
pub use pickled::Pickled;
pub use raised::Raised;
pub(crate) use runtime::{InterpreterFacts, WorkerSetup};
pub use setup::{Log, Setup, set_log, set_up};
pub(crate) use slot::limit_child;
pub(crate) use table::check;
pub use table::{Line, Table};
pub use value::{Body, Leaf, Value};
pub(crate) use welcomed::{welcome, welcomed};

pub use crate::source::array::{Layout, checksum, standard_rows};
pub use crate::source::slices::Slices;
pub use qjam_data::chunk::Raw;
pub use qjam_data::dataset::Array;

use crate::ctx::Ctx;
use std::sync::{Arc, OnceLock};

/// The interpreter that a master lives in: combines what only Python can, and runs functions in this process where that
/// was asked for.
pub trait Host: Send + Sync {
    /// The value of one chunk.
    fn map(&self, call: &Call, chunk: &Raw, ctx: &Ctx) -> Result<Value, Raised>;

    /// The value of one chunk and what has become of its memory; `None` is a memory before its first use.
    fn step(
        &self,
        call: &Call,
        chunk: &Raw,
        memory: Option<&Pickled>,
        ctx: &Ctx,
    ) -> Result<(Value, Pickled), Raised>;

    /// Two neighbours as one.
    fn merge(&self, left: Value, right: Value) -> Result<Value, Raised>;
}

static HOST: OnceLock<Arc<dyn Host>> = OnceLock::new();

/// Says that this process has an interpreter of its own. The first one counts.
pub fn set_host(host: Arc<dyn Host>) {
    let _ = HOST.set(host);
}

pub(crate) fn host() -> Option<&'static Arc<dyn Host>> {
    HOST.get()
}
