//! The two functions that run all Python functions, and what they are given.

use super::params::OwnParams;
use super::pickled::{Pickled, put_bytes, take_bytes};
use super::raised::Raised;
use super::value::Value;
use super::{Host, slot};
use crate::codec::{DecodeError, Decoder, Encoder, Wire};
use crate::ctx::Ctx;
use crate::state::State;
use bytes::Bytes;
use qjam_data::chunk::Raw;
use std::sync::Arc;

/// The name of a piece of code: a hash of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodeId(pub [u8; 16]);

/// The user's code as it travels: functions, and the modules that go with them. Only Python reads it.
#[derive(Clone, Debug)]
pub struct Code {
    id: CodeId,
    blob: Bytes,
    /// What people call the function; stays on the master.
    name: Option<Arc<str>>,
}

impl Code {
    /// Names it.
    pub fn new(blob: Bytes) -> Self {
        let mut id = [0; 16];
        id.copy_from_slice(&blake3::hash(&blob).as_bytes()[..16]);
        Code { id: CodeId(id), blob, name: None }
    }

    /// The same, for messages.
    pub fn named(self, name: &str) -> Self {
        Code { name: Some(name.into()), ..self }
    }

    /// Its name.
    pub fn id(&self) -> CodeId {
        self.id
    }

    /// What Python reads.
    pub fn blob(&self) -> &Bytes {
        &self.blob
    }
}

/// What a round of a Python function is given.
#[derive(Clone, Debug)]
pub struct Call {
    /// The function.
    pub code: Code,
    /// Its parameters.
    pub params: Pickled,
    /// Whether threads of a process that has an interpreter of its own use that one.
    pub in_process: bool,
    /// The version of the interpreter that the code was made by: major and minor.
    pub version: (u8, u8),
    /// What `QJAM_REMOTE_PYTHON` says on the master.
    pub remote_python: Option<String>,
    /// What this process keeps of the parameters.
    own: OwnParams,
}

impl Call {
    /// A call of a function of this version of Python, by child interpreters.
    pub fn new(code: Code, params: Pickled, version: (u8, u8)) -> Self {
        Call { code, params, in_process: false, version, remote_python: None, own: OwnParams::default() }
    }
}

impl Wire for Call {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        if let Some(name) = &self.code.name {
            out.set_label(name);
        }
        put_bytes(&self.code.blob, out);
        self.params.encode(out);
        self.in_process.encode(out);
        self.version.encode(out);
        self.remote_python.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(Call {
            code: Code::new(take_bytes(input)?),
            params: Pickled::decode(input)?,
            in_process: bool::decode(input)?,
            version: Wire::decode(input)?,
            remote_python: Option::decode(input)?,
            own: OwnParams::default(),
        })
    }
}

/// What stays with a chunk between rounds of a Python function: its pickle, once there is one.
#[derive(Clone, Debug, Default)]
pub struct Memory(pub Option<Pickled>);

impl Wire for Memory {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        out.put_u8(u8::from(self.0.is_some()));
        if let Some(pickled) = &self.0 {
            pickled.encode(out);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(Memory(if input.take_u8()? == 0 { None } else { Some(Pickled::decode(input)?) }))
    }
}

impl State for Memory {
    type Chunk = Raw;

    /// Empty: the code that makes it comes with the first call.
    fn init(_: &Raw, _: &Ctx) -> Self {
        Memory(None)
    }
}

/// Runs a Python function on a chunk.
#[qjam::map]
pub fn call(call: &Call, chunk: &Raw, ctx: &Ctx) -> Value {
    let ran = match in_process(call) {
        Some(host) => host.map(call, chunk, ctx),
        None => slot::run(call, &call.own, chunk, None, ctx).map(|(value, _)| value),
    };
    ran.unwrap_or_else(|raised| raised.throw())
}

/// Runs a Python function on a chunk and the memory that stays with it.
#[qjam::map]
pub fn step(call: &Call, chunk: &Raw, memory: &mut Memory, ctx: &Ctx) -> Value {
    let before = memory.0.as_ref();
    let ran = match in_process(call) {
        Some(host) => host.step(call, chunk, before, ctx).map(|(value, after)| (value, Some(after))),
        None => slot::run(call, &call.own, chunk, Some(before), ctx),
    };
    let (value, after) = ran.unwrap_or_else(|raised| raised.throw());
    memory.0 = after;
    value
}

/// Whether a function is one of these.
pub(crate) fn is_call(name: &str) -> bool {
    name.starts_with(module_path!())
}

/// The interpreter of this process, if it is to run the call.
fn in_process(call: &Call) -> Option<&'static Arc<dyn Host>> {
    super::host().filter(|_| call.in_process)
}

/// Two neighbours as one, by an interpreter: this slot's own, or that of the process.
pub(super) fn merge(left: Value, right: Value) -> Result<Value, Raised> {
    match super::host() {
        Some(host) if !slot::has_child() => host.merge(left, right),
        _ => slot::merge(&left, &right),
    }
}
