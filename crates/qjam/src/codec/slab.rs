//! Numbers seen in place: a typed view over bytes that someone else brought.

use super::Number;
use bytes::Bytes;
use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

/// Numbers in a shared run of bytes, used like a slice.
///
/// This is what a function's `&[f64]` parameters are on a worker: a view into the memory the payload arrived in. The
/// bytes are copied only when they start at an address where such numbers cannot lie.
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
}

impl<T: Number> Slab<T> {
    /// A view over bytes whose length is a multiple of the number's width.
    pub(crate) fn over(bytes: Bytes) -> Self {
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

    /// The bytes of the numbers, where they lie.
    pub(crate) fn into_bytes(self) -> Bytes {
        match self.held {
            Held::Shared(bytes) => bytes,
            Held::Copied(numbers) => Bytes::copy_from_slice(bytemuck::cast_slice(&numbers)),
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
        match &self.held {
            Held::Shared(bytes) => bytemuck::cast_slice(bytes),
            Held::Copied(numbers) => numbers,
        }
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
