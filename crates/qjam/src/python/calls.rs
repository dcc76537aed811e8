//! The two registered functions that run all Python functions.
//!
//! Their names, and that of [`Memory`], are in run files and in messages to workers; they stay.

use crate::codec::{DecodeError, Decoder, Encoder, Wire};
use crate::ctx::Ctx;
use crate::function::language::{LANGUAGES, Language};
use crate::function::state::State;
use linkme::distributed_slice;
use qjam_data::chunk::Raw;
use qjam_python::{Call, ChunkState, Pickled, Raised, Value};

/// What stays with a chunk between rounds of a Python function.
#[derive(Clone, Debug, Default)]
pub struct Memory(ChunkState);

impl Memory {
    /// Its pickle, once there is one; of a state that came from a worker.
    pub fn into_pickle(self) -> Option<Pickled> {
        self.0.pickle().cloned().flatten()
    }

    /// A state that may have come from another host: interpreters read it with guards ([`named`](qjam_python::named)).
    pub fn of_foreign_pickle(pickled: Pickled) -> Self {
        Memory(ChunkState::of_foreign_pickle(pickled))
    }
}

/// The first byte of an encoded state: there is none yet, it is one, it is one that is read with guards.
const NONE: u8 = 0;
const PICKLED: u8 = 1;
const FOREIGN: u8 = 2;

impl Wire for Memory {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        let pickled = self.0.pickle().expect("a state is settled before it is encoded");
        out.put_u8(match pickled {
            None => NONE,
            Some(_) if self.0.is_foreign() => FOREIGN,
            Some(_) => PICKLED,
        });
        if let Some(pickled) = pickled {
            pickled.encode(out);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match input.take_u8()? {
            NONE => Memory::default(),
            FOREIGN => Memory::of_foreign_pickle(Pickled::decode(input)?),
            _ => Memory(ChunkState::of_pickle(Some(Pickled::decode(input)?))),
        })
    }
}

impl State for Memory {
    type Chunk = Raw;
    const STAYS_IN_SLOT: bool = true;

    /// Empty: the code that makes it comes with the first call.
    fn init(_: &Raw, _: &Ctx) -> Self {
        Memory::default()
    }

    fn settle(&mut self, chunk: &Raw, ctx: &Ctx) {
        qjam_python::settle(chunk, &mut self.0, ctx).unwrap_or_else(|raised| raised.throw());
    }
}

/// Runs a Python function on a chunk.
#[qjam::map]
pub fn call(call: &Call, chunk: &Raw, ctx: &Ctx) -> Value {
    qjam_python::map(call, chunk, ctx).unwrap_or_else(|raised| raised.throw())
}

/// Runs a Python function on a chunk and the memory that stays with it.
#[qjam::map]
pub fn step(call: &Call, chunk: &Raw, memory: &mut Memory, ctx: &Ctx) -> Value {
    let ran = qjam_python::step(call, chunk, &memory.0, ctx);
    let (value, after) = ran.unwrap_or_else(|raised| raised.throw());
    memory.0 = after;
    value
}

/// What workers and engines know of Python.
#[distributed_slice(LANGUAGES)]
static PYTHON: Language = Language {
    owns: is_call,
    welcome: qjam_python::welcome,
    find: || qjam_python::facts().map(|facts| facts.to_bytes()),
    limit_memory: qjam_python::limit_child,
    add_thread_slots: qjam_python::add_thread_slots,
    take_losses: qjam_python::take_losses,
    has_interpreter: qjam_python::has_interpreter,
    fault: |payload, chunk| payload.downcast::<Raised>().map(|raised| raised.into_fault(chunk)),
};

/// Whether a function is one of these.
fn is_call(name: &str) -> bool {
    name.starts_with(module_path!())
}
