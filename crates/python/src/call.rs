//! What a round of a Python function is given.

use super::code::Code;
use super::params::OwnParams;
use super::pickled::{Pickled, put_bytes, take_bytes};
use qjam_data::codec::{DecodeError, Decoder, Encoder, Wire};

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
    pub(crate) own: OwnParams,
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
