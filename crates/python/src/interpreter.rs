//! The Python interpreter of the master's own process, if it has one.
//!
//! The native part of the Python package implements [`Interpreter`]; rounds use it to combine results and for `inproc` workers.

use super::call::Call;
use super::pickled::Pickled;
use super::raised::Raised;
use super::value::Value;
use qjam_data::chunk::Raw;
use qjam_data::ctx::Ctx;
use std::sync::{Arc, OnceLock};

/// The interpreter of the master's own process: combines results that only Python can combine, and runs functions of `inproc` workers.
pub trait Interpreter: Send + Sync {
    /// The value of one chunk.
    fn map(&self, call: &Call, chunk: &Raw, ctx: &Ctx) -> Result<Value, Raised>;

    /// The value of one chunk and its new state; `None` is the state before its first use.
    fn step(
        &self,
        call: &Call,
        chunk: &Raw,
        memory: Option<&Pickled>,
        ctx: &Ctx,
    ) -> Result<(Value, Pickled), Raised>;

    /// Combines two neighbouring values.
    fn merge(&self, left: Value, right: Value) -> Result<Value, Raised>;
}

static INTERPRETER: OnceLock<Arc<dyn Interpreter>> = OnceLock::new();

/// Registers the interpreter of this process. Only the first call has an effect.
pub fn set_interpreter(interpreter: Arc<dyn Interpreter>) {
    let _ = INTERPRETER.set(interpreter);
}

/// The old name of [`set_interpreter`].
#[deprecated(note = "renamed to `set_interpreter`")]
pub fn set_host(interpreter: Arc<dyn Interpreter>) {
    set_interpreter(interpreter);
}

pub(crate) fn interpreter() -> Option<&'static Arc<dyn Interpreter>> {
    INTERPRETER.get()
}
