//! The interpreter of the process that a master lives in, if it has one.

use super::call::Call;
use super::pickled::Pickled;
use super::raised::Raised;
use super::value::Value;
use qjam_data::chunk::Raw;
use qjam_data::ctx::Ctx;
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
