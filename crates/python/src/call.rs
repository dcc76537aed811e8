//! What a round of a Python function is given.

use super::code::Code;
use super::params::OwnParams;
use super::pickled::{Pickled, put_bytes, take_bytes};
use bytes::Bytes;
use qjam_data::codec::{DecodeError, Decoder, Encoder, Wire};
use std::sync::{Arc, OnceLock};

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
    /// What random numbers are keyed by, if not by the number of the round: the caller's step, or the count of a loop.
    pub step: Option<u64>,
    /// Threads of libraries in the interpreter; 0 for the slot's share of the cores.
    pub library_threads: u16,
    /// What this process keeps of the parameters.
    pub(crate) own: OwnParams,
    copy: CallCopy,
}

/// The copy of a call that is kept beyond its round. A clone of the call has none yet.
#[derive(Debug, Default)]
struct CallCopy(OnceLock<Arc<Call>>);

impl Clone for CallCopy {
    fn clone(&self) -> Self {
        CallCopy::default()
    }
}

impl Call {
    /// A call of a function of this version of Python, by child interpreters.
    pub fn new(code: Code, params: Pickled, version: (u8, u8)) -> Self {
        Call {
            code,
            params,
            in_process: false,
            version,
            remote_python: None,
            step: None,
            library_threads: ONE_THREAD,
            own: OwnParams::default(),
            copy: CallCopy::default(),
        }
    }

    /// Length of code and parameters.
    pub(crate) fn bytes(&self) -> usize {
        self.code.blob().len() + self.params.bytes()
    }

    /// The same, to be kept beyond its round: in memory of its own, which all who keep it share.
    pub(crate) fn kept(&self) -> Arc<Call> {
        let copied = || {
            let Pickled { stream, buffers } = &self.params;
            let copy = |bytes: &Bytes| Bytes::copy_from_slice(bytes);
            let params = Pickled { stream: copy(stream), buffers: buffers.iter().map(copy).collect() };
            Arc::new(Call { code: self.code.copied(), params, ..self.clone() })
        };
        self.copy.0.get_or_init(copied).clone()
    }
}

/// Threads of libraries if nobody says how many: results may depend on them, so it is a number that no machine decides.
const ONE_THREAD: u16 = 1;

/// Flags of a call. What is as usual has no bytes, so a call is the same bytes as before there was a choice.
const IN_PROCESS: u8 = 1;
const HAS_STEP: u8 = 2;
const HAS_THREADS: u8 = 4;

impl Wire for Call {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        if let Some(name) = &self.code.name {
            out.set_label(name);
        }
        put_bytes(&self.code.blob, out);
        self.params.encode(out);
        let has_threads = self.library_threads != ONE_THREAD;
        out.put_u8(
            if self.in_process { IN_PROCESS } else { 0 }
                | if self.step.is_some() { HAS_STEP } else { 0 }
                | if has_threads { HAS_THREADS } else { 0 },
        );
        self.version.encode(out);
        self.remote_python.encode(out);
        if let Some(step) = &self.step {
            step.encode(out);
        }
        if has_threads {
            self.library_threads.encode(out);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let (code, params) = (Code::new(take_bytes(input)?), Pickled::decode(input)?);
        let flags = input.take_u8()?;
        if flags & !(IN_PROCESS | HAS_STEP | HAS_THREADS) != 0 {
            return Err(DecodeError::Range { kind: "the flags of a Python call" });
        }
        let (version, remote_python) = (Wire::decode(input)?, Option::decode(input)?);
        Ok(Call {
            code,
            params,
            in_process: flags & IN_PROCESS != 0,
            version,
            remote_python,
            step: if flags & HAS_STEP != 0 { Some(u64::decode(input)?) } else { None },
            library_threads: if flags & HAS_THREADS != 0 { u16::decode(input)? } else { ONE_THREAD },
            own: OwnParams::default(),
            copy: CallCopy::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(call: &Call) -> Bytes {
        let mut encoder = Encoder::default();
        call.encode(&mut encoder);
        encoder.to_bytes()
    }

    #[test]
    fn what_is_not_as_usual_survives_the_trip_and_what_is_has_no_bytes() {
        let usual = Call::new(Code::new(Bytes::from_static(b"code")), Pickled::default(), (3, 11));
        let lengths = [(None, 1), (Some(7), 1), (None, 0), (Some(u64::MAX - 1), 4)].map(|(step, threads)| {
            let call = Call { step, library_threads: threads, in_process: step.is_some(), ..usual.clone() };
            let mut input = Decoder::new(bytes_of(&call)).unwrap();
            let back = Call::decode(&mut input).unwrap();
            assert_eq!((back.step, back.library_threads, back.in_process), (step, threads, step.is_some()));
            bytes_of(&call).len()
        });
        assert!(lengths[1..].iter().all(|length| *length > lengths[0]), "{lengths:?}");
    }
}
