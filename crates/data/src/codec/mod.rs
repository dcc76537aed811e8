//! How values become bytes and values again: parameters on their way out, partial results on their way home.
//!
//! A value is written into an [`Encoder`], which keeps two things apart: a small *body* for fields, counts and tags,
//! and *buffers*, which are the value's own numeric slices, borrowed and never copied while encoding. Both are laid
//! out together as one *payload*, a single run of bytes that a transport can send or a shared region can hold. The
//! receiving side opens the payload with a [`Decoder`].
//!
//! ```text
//!   offset 0    body length      u64
//!          8    buffer count n   u64
//!         16    n buffer lengths u64 each
//!               body
//!               every buffer, at the next offset that 64 divides (gaps are zero)
//! ```
//!
//! Numbers lie in a payload as they lie in memory, so master and workers must agree on byte order: little-endian, held
//! to at compile time. Slices shorter than [`INLINE_BYTES_MAX`] are copied into the body instead, because a buffer of
//! their own would cost more than it saves.
//!
//! What is read is never trusted: every length is compared with what the payload can hold before anything is
//! allocated, and whatever does not fit is a [`DecodeError`].
//!
//! ```
//! use qjam::{Decoder, Encoder, Wire};
//! let value = (7_u32, vec![0.5_f64; 1000], Some("text".to_string()));
//! let mut out = Encoder::new();
//! value.encode(&mut out);
//! let payload = out.to_bytes();
//!
//! let mut input = Decoder::new(payload).unwrap();
//! assert_eq!(<(u32, Vec<f64>, Option<String>)>::decode(&mut input).unwrap(), value);
//! input.finish().unwrap();
//! ```

mod decoder;
mod encoder;
mod error;
mod number;
mod params;
mod serde_value;
mod slab;
mod types;
mod width;

pub use decoder::Decoder;
pub use encoder::Encoder;
pub use error::DecodeError;
pub use number::Number;
pub use params::Params;
pub use serde_value::Serde;
pub use slab::Slab;
#[doc(hidden)]
pub use width::Width;

#[cfg(not(target_endian = "little"))]
compile_error!("qjam sends numbers as they lie in memory and is written for little-endian machines");

/// Slices of numbers shorter than this go into the body; longer ones are buffers of their own.
pub const INLINE_BYTES_MAX: usize = 256;

/// Every buffer starts at a multiple of this from the start of its payload.
pub const ALIGN: usize = 64;

/// How many boxes, vectors and maps may lie within one another. Garbage must not be able to use up the stack.
pub const DEPTH_MAX: u32 = 512;

/// How many elements of sequences in one payload may take no bytes at all (such as `()`). Theirs are the only counts
/// that the size of the payload says nothing about.
pub const FREE_ELEMENTS_MAX: u64 = 1 << 16;

/// How much memory a claimed length alone may take.
const PREALLOCATED_BYTES_MAX: usize = 16 << 10;

/// Something that can cross to a worker and back.
///
/// Derive it on your own structs and enums; numbers, text, vectors, arrays, tuples, options, boxes and maps
/// have it already. A type that has serde's traits instead travels inside [`Serde`].
///
/// ```
/// #[derive(qjam::Wire, Debug, PartialEq)]
/// enum Step {
///     Stop,
///     Move { by: Vec<f32>, rate: f64 },
/// }
///
/// let step = Step::Move { by: vec![1.0; 100], rate: 0.1 };
/// let mut out = qjam::Encoder::new();
/// qjam::Wire::encode(&step, &mut out);
/// let mut input = qjam::Decoder::new(out.to_bytes()).unwrap();
/// assert_eq!(<Step as qjam::Wire>::decode(&mut input).unwrap(), step);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot cross to a worker and back",
    label = "`qjam::Wire` is missing",
    note = "add `#[derive(qjam::Wire)]` to your type, or wrap a serde type in `qjam::Serde`"
)]
pub trait Wire: Sized + Send + 'static {
    /// Writes the value. Slices of numbers are borrowed from it for as long as the encoder lives.
    fn encode<'a>(&'a self, out: &mut Encoder<'a>);

    /// Reads a value written by `encode`.
    fn decode(input: &mut Decoder) -> Result<Self, DecodeError>;

    /// How long a value may be, for types whose values are short and have no buffers. Sequences of them are written and read
    /// without asking for room at every field; their bytes are the same.
    #[doc(hidden)]
    const WIRE_WIDTH: Width = Width::Any;

    /// Writes the value to the beginning of these bytes and says how many it took. They are as many as
    /// [`WIRE_WIDTH`](Wire::WIRE_WIDTH) says; only for types where it does.
    #[doc(hidden)]
    fn encode_short(&self, _: &mut [u8]) -> usize {
        unreachable!("a type that gives its width writes its values")
    }

    /// Reads a value of exactly these bytes, if they are one; only for types whose values all have the same width.
    #[doc(hidden)]
    fn decode_short(_: &[u8]) -> Option<Self> {
        unreachable!("a type that gives its width reads its values")
    }

    /// Writes a sequence; numbers do it as one raw buffer.
    #[doc(hidden)]
    fn encode_slice<'a>(items: &'a [Self], out: &mut Encoder<'a>) {
        out.put_length(items.len());
        match Self::WIRE_WIDTH {
            Width::Exactly(_) | Width::AtMost(_) => out.put_short(items),
            Width::Any => items.iter().for_each(|item| item.encode(out)),
        }
    }

    /// Reads a sequence written by `encode_slice`.
    #[doc(hidden)]
    fn decode_vec(input: &mut Decoder) -> Result<Vec<Self>, DecodeError> {
        let claimed = input.take_count()?;
        input.nested(|input| {
            if let Some(items) = input.take_short(claimed) {
                return Ok(items);
            }
            // A claim is believed as far as the rest of the input could bear it out, and only up to a few pages: claims
            // within claims must not add up. Beyond that the vector grows with what really arrives.
            let likely = input.left().min(PREALLOCATED_BYTES_MAX) / size_of::<Self>().max(1);
            let mut items = Vec::with_capacity(likely.min(usize::try_from(claimed).unwrap_or(usize::MAX)));
            for _ in 0..claimed {
                let before = input.left();
                items.push(Self::decode(input)?);
                if input.left() == before {
                    input.spend_free(1)?;
                }
            }
            Ok(items)
        })
    }
}

#[cfg(test)]
mod tests;
