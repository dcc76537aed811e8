//! What a function may take as its parameters: borrowed by the caller, owned again on the worker.

use super::{DecodeError, Decoder, Encoder, Number, Slab, Wire};
use std::borrow::Borrow;

/// The parameters of a function: anything with [`Wire`], and `[f64]`, `[u32]`… and `str`, which have no size of their
/// own and so are held on the worker as something that does.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the parameters of a function",
    label = "neither `qjam::Wire` nor a slice of numbers nor `str`",
    note = "add `#[derive(qjam::Wire)]` to your type; parameters are shared by threads, so they must be `Sync` too"
)]
pub trait Params {
    /// What a worker holds while the function runs.
    type Owned: Borrow<Self> + Send + Sync + 'static;

    /// Writes the parameters.
    fn encode_params<'a>(&'a self, out: &mut Encoder<'a>);

    /// Reads them on a worker.
    fn decode_params(input: &mut Decoder) -> Result<Self::Owned, DecodeError>;
}

impl<T: Wire + Sync> Params for T {
    type Owned = T;

    fn encode_params<'a>(&'a self, out: &mut Encoder<'a>) {
        self.encode(out);
    }

    fn decode_params(input: &mut Decoder) -> Result<T, DecodeError> {
        T::decode(input)
    }
}

impl<T: Number> Params for [T] {
    type Owned = Slab<T>;

    fn encode_params<'a>(&'a self, out: &mut Encoder<'a>) {
        out.put_numbers(self);
    }

    fn decode_params(input: &mut Decoder) -> Result<Slab<T>, DecodeError> {
        input.take_slab()
    }
}

impl Params for str {
    type Owned = String;

    fn encode_params<'a>(&'a self, out: &mut Encoder<'a>) {
        out.put_length(self.len());
        out.put_fixed(self.as_bytes());
    }

    fn decode_params(input: &mut Decoder) -> Result<String, DecodeError> {
        String::decode(input)
    }
}
