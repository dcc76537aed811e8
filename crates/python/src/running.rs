//! Running a Python function, and combining what it gave: by this slot's interpreter, or by that of the process.

use super::call::Call;
use super::interpreter::{Interpreter, interpreter};
use super::pickled::Pickled;
use super::raised::Raised;
use super::slot;
use super::state::ChunkState;
use super::stepping;
use super::value::{Body, Value};
use qjam_data::chunk::Raw;
use qjam_data::ctx::Ctx;
use qjam_data::reduce::{MergeError, Reduce};
use std::sync::Arc;

/// Runs a Python function on a chunk.
pub fn map(call: &Call, chunk: &Raw, ctx: &Ctx) -> Result<Value, Raised> {
    match in_process(call) {
        Some(interpreter) => interpreter.map(call, chunk, ctx),
        None => slot::run(call, chunk, ctx),
    }
}

/// Runs a Python function on a chunk and its state; gives the value, and the state as it is then.
pub fn step(call: &Call, chunk: &Raw, before: &ChunkState, ctx: &Ctx) -> Result<(Value, ChunkState), Raised> {
    match in_process(call) {
        Some(interpreter) => {
            let pickled = before.pickle().and_then(Option::as_ref);
            let (value, after) = interpreter.step(call, chunk, pickled, ctx)?;
            Ok((value, ChunkState::of_pickle(Some(after))))
        }
        None => stepping::step(call, chunk, before, ctx),
    }
}

/// Has the state of a chunk pickled as it is now, where it is an object in an interpreter: [`ChunkState::pickle`] then gives it.
pub fn settle(chunk: &Raw, state: &mut ChunkState, ctx: &Ctx) -> Result<(), Raised> {
    stepping::settle(chunk, state, ctx)
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
