//! Running a Python function, and combining what it gave: by this slot's interpreter, or by that of the process.

use super::call::Call;
use super::interpreter::{Interpreter, interpreter};
use super::pickled::Pickled;
use super::raised::Raised;
use super::slot;
use super::value::{Body, Value};
use qjam_data::chunk::Raw;
use qjam_data::ctx::Ctx;
use qjam_data::reduce::{MergeError, Reduce};
use std::sync::Arc;

/// Runs a Python function on a chunk.
pub fn map(call: &Call, chunk: &Raw, ctx: &Ctx) -> Result<Value, Raised> {
    match in_process(call) {
        Some(interpreter) => interpreter.map(call, chunk, ctx),
        None => slot::run(call, &call.own, chunk, None, ctx).map(|(value, _)| value),
    }
}

/// Runs a Python function on a chunk and the pickle that stays with it; gives the value, and the pickle as it is now.
pub fn step(
    call: &Call,
    chunk: &Raw,
    before: Option<&Pickled>,
    ctx: &Ctx,
) -> Result<(Value, Option<Pickled>), Raised> {
    match in_process(call) {
        Some(interpreter) => {
            interpreter.step(call, chunk, before, ctx).map(|(value, after)| (value, Some(after)))
        }
        None => slot::run(call, &call.own, chunk, Some(before), ctx),
    }
}

/// The interpreter of this process, if it is to run the call.
fn in_process(call: &Call) -> Option<&'static Arc<dyn Interpreter>> {
    interpreter().filter(|_| call.in_process)
}

/// Two neighbours as one, by an interpreter: this slot's own, or that of the process.
fn merge(left: Value, right: Value) -> Result<Value, Raised> {
    match interpreter() {
        Some(interpreter) if !slot::has_child() => interpreter.merge(left, right),
        _ => slot::merge(&left, &right),
    }
}

impl Reduce for Value {
    fn merge(&mut self, right: Self) {
        if !self.body.try_add(&right.body) {
            let left =
                std::mem::replace(self, Value { code: right.code, body: Body::Pickled(Pickled::default()) });
            match merge(left, right) {
                Ok(value) => *self = value,
                Err(raised) => raised.throw(),
            }
        }
    }

    fn try_merge(&mut self, right: Self) -> Result<(), MergeError> {
        self.merge(right);
        Ok(())
    }
}
