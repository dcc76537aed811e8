//! Numbers seen in place: a typed view over bytes that someone else brought.

use super::{DecodeError, Decoder, Encoder, Number, Wire};
use crate::store::Spare;
use bytes::Bytes;
use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

/// Numbers in a shared run of bytes, used like a slice.
///
/// This is what a function's `&[f64]` parameters are on a worker: a view into the memory the payload arrived in. The
/// bytes are copied only when they start at an address where such numbers cannot lie.
///
/// It is also what long vectors in parameters and results of your own are best held in. Where a `Vec<f64>` is copied out of
/// the memory it arrived in, a `Slab<f64>` stays there; and two results that are added up are read where their workers
/// left them.
///
/// ```
/// #[derive(qjam::Wire, qjam::Sum)]
/// struct Gradient { sums: qjam::Slab<f64>, rows: u64 }
///
/// #[qjam::map]
/// fn gradient(theta: &[f64], _: &qjam::Nothing) -> Gradient {
///     let sums: Vec<f64> = theta.iter().map(|t| 2.0 * t).collect();
///     Gradient { sums: sums.into(), rows: 1 }
/// }
///
/// let m = qjam::Master::connect("local:2")?;
/// let found = m.run(gradient, &[1.0, 2.0][..], &qjam::DataSet::nothing(3)?)?;
/// assert_eq!(found.sums[..], [6.0, 12.0]);
/// # Ok::<(), qjam::Error>(())
/// ```
///
/// ```
/// use qjam::{Decoder, Encoder, Params};
/// let mut out = Encoder::new();
/// [1.5_f64, 2.5][..].encode_params(&mut out);
/// let slab = <[f64]>::decode_params(&mut Decoder::new(out.to_bytes()).unwrap()).unwrap();
/// assert_eq!(slab[..], [1.5, 2.5]);
/// ```
#[derive(Clone)]
pub struct Slab<T: Number> {
    held: Held<T>,
}

#[derive(Clone)]
enum Held<T> {
    /// Aligned for `T` and a whole number of them long.
    Shared(Bytes),
    Copied(Vec<T>),
    /// What two views came to: memory that is used again, with at least so many numbers.
    Summed(Spare, usize),
}

impl<T: Number> Held<T> {
    fn as_slice(&self) -> &[T] {
        match self {
            Held::Shared(bytes) => bytemuck::cast_slice(bytes),
            Held::Copied(numbers) => numbers,
            Held::Summed(spare, len) => &bytemuck::cast_slice(spare.as_slice())[..*len],
        }
    }

    /// The numbers, if they are ours alone.
    fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        match self {
            Held::Shared(_) => None,
            Held::Copied(numbers) => Some(numbers),
            Held::Summed(spare, len) => Some(&mut bytemuck::cast_slice_mut(spare.as_mut_slice())[..*len]),
        }
    }
}

impl<T: Number> Slab<T> {
    /// A view over bytes whose length is a multiple of the number's width.
    #[doc(hidden)]
    pub fn over(bytes: Bytes) -> Self {
        debug_assert!(
            bytes.len().is_multiple_of(size_of::<T>()),
            "{} bytes of {}",
            bytes.len(),
            size_of::<T>()
        );
        let held = match bytemuck::try_cast_slice::<u8, T>(&bytes) {
            Ok(_) => Held::Shared(bytes),
            Err(_) => Held::Copied(bytemuck::pod_collect_to_vec(&bytes)),
        };
        Slab { held }
    }

    /// Numbers in memory that is used again, which holds at least `len` of them.
    pub(crate) fn in_spare(memory: Spare, len: usize) -> Self {
        Slab { held: Held::Summed(memory, len) }
    }

    /// The numbers, if they are ours alone.
    pub(crate) fn own_mut(&mut self) -> Option<&mut [T]> {
        self.held.as_mut_slice()
    }

    /// The bytes of the numbers, where they lie.
    #[doc(hidden)]
    pub fn into_bytes(self) -> Bytes {
        match self.held {
            Held::Shared(bytes) => bytes,
            held => Bytes::copy_from_slice(bytemuck::cast_slice(held.as_slice())),
        }
    }

    /// The numbers as a vector; no copy if they came as one.
    pub fn into_vec(self) -> Vec<T> {
        match self.held {
            Held::Copied(numbers) => numbers,
            held => held.as_slice().to_vec(),
        }
    }

    /// Whether the numbers lie where their bytes came in, without a copy.
    pub fn is_shared(&self) -> bool {
        matches!(self.held, Held::Shared(_))
    }
}

impl<T: Number> Deref for Slab<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.held.as_slice()
    }
}

impl<T: Number> Borrow<[T]> for Slab<T> {
    fn borrow(&self) -> &[T] {
        self
    }
}

impl<T: Number> From<Vec<T>> for Slab<T> {
    fn from(numbers: Vec<T>) -> Self {
        Slab { held: Held::Copied(numbers) }
    }
}

impl<T: Number + fmt::Debug> fmt::Debug for Slab<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Number> Default for Slab<T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<T: Number> Wire for Slab<T> {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        out.put_numbers(self);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        input.take_slab()
    }
}
