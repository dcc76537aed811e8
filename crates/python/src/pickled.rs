//! A Python object on its way: its pickle, and the buffers that lie beside it.

use bytes::Bytes;
use qjam_data::codec::{DecodeError, Decoder, Encoder, Slab, Wire};

/// A pickle of protocol 5 with its out-of-band buffers. Only Python reads it; here it is bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pickled {
    /// The pickle itself.
    pub stream: Bytes,
    /// Memory of the arrays in it, in the order of the pickle.
    pub buffers: Vec<Bytes>,
}

impl Pickled {
    /// Length of it all.
    pub fn bytes(&self) -> usize {
        self.stream.len() + self.buffers.iter().map(Bytes::len).sum::<usize>()
    }
}

pub(super) fn put_bytes<'a>(bytes: &'a Bytes, out: &mut Encoder<'a>) {
    <u8 as Wire>::encode_slice(bytes, out);
}

pub(super) fn take_bytes(input: &mut Decoder) -> Result<Bytes, DecodeError> {
    let slab: Slab<u8> = input.take_slab()?;
    Ok(slab.into_bytes())
}

impl Wire for Pickled {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        put_bytes(&self.stream, out);
        out.put_length(self.buffers.len());
        self.buffers.iter().for_each(|buffer| put_bytes(buffer, out));
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let stream = take_bytes(input)?;
        let count = input.take_varint()?;
        // Every buffer takes at least the byte that says how long it is, so a false count runs out of input.
        let mut buffers = Vec::new();
        for _ in 0..count {
            buffers.push(take_bytes(input)?);
        }
        Ok(Pickled { stream, buffers })
    }
}
