//! The writing half: a small body that grows, and borrowed slices that wait to be copied once.

use super::{ALIGN, INLINE_BYTES_MAX, Number, Width, Wire};
use crate::store::AlignedBuf;
use bytes::Bytes;

/// Takes in a value field by field and lays it out as one payload.
///
/// ```
/// use qjam::{Encoder, Wire};
/// let theta = vec![0.0_f64; 1_000_000];
/// let mut out = Encoder::new();
/// theta.encode(&mut out);                       // borrows the numbers, copies none
/// let mut region = vec![0; out.payload_bytes()];
/// out.write_to(&mut region);                    // the one copy
/// ```
#[derive(Debug)]
pub struct Encoder<'a> {
    body: Vec<u8>,
    buffers: Vec<&'a [u8]>,
    /// What they are for, where the name of the function does not say it.
    label: Option<&'a str>,
}

/// Bytes of the longest integer of variable length.
pub(super) const VARINT_BYTES_MAX: usize = 10;

/// Writes an integer in as many bytes as it needs, and says how many.
#[inline]
pub(super) fn varint(mut n: u64, out: &mut [u8]) -> usize {
    let mut at = 0;
    while n >= 0x80 {
        out[at] = n as u8 | 0x80;
        n >>= 7;
        at += 1;
    }
    out[at] = n as u8;
    at + 1
}

/// A signed integer as one that is small if its magnitude is.
#[inline]
pub(super) fn zigzag(n: i64) -> u64 {
    (n << 1 ^ n >> 63) as u64
}

impl Default for Encoder<'_> {
    fn default() -> Self {
        Encoder::new()
    }
}

impl<'a> Encoder<'a> {
    /// An empty one.
    pub fn new() -> Self {
        // Most bodies are small; this one grows once or never.
        Encoder { body: Vec::with_capacity(128), buffers: Vec::new(), label: None }
    }

    /// Says what the parameters are for, where one function does the work of many.
    #[doc(hidden)]
    pub fn set_label(&mut self, label: &'a str) {
        self.label = Some(label);
    }

    #[doc(hidden)]
    pub fn label(&self) -> Option<&'a str> {
        self.label
    }

    /// Writes one byte.
    pub fn put_u8(&mut self, byte: u8) {
        self.body.push(byte);
    }

    /// Writes bytes as they are, without their number. For what has a fixed width.
    pub fn put_fixed(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }

    /// Writes an integer in as many bytes as it needs, seven bits in each.
    pub fn put_varint(&mut self, n: u64) {
        if n < 0x80 {
            return self.body.push(n as u8);
        }
        let mut bytes = [0; VARINT_BYTES_MAX];
        let length = varint(n, &mut bytes);
        self.body.extend_from_slice(&bytes[..length]);
    }

    /// Writes a signed integer so that small magnitudes of either sign are short.
    pub fn put_signed(&mut self, n: i64) {
        self.put_varint(zigzag(n));
    }

    /// Writes the length of a sequence.
    pub fn put_length(&mut self, length: usize) {
        self.put_varint(length as u64);
    }

    /// Writes numbers with their count, as they lie in memory: one borrowed buffer, or a copy in the body when they
    /// are few.
    pub fn put_numbers<T: Number>(&mut self, numbers: &'a [T]) {
        self.put_length(numbers.len());
        let raw: &[u8] = bytemuck::cast_slice(numbers);
        if raw.len() < INLINE_BYTES_MAX {
            self.body.extend_from_slice(raw);
        } else {
            self.buffers.push(raw);
        }
    }

    /// Writes values whose type gives their width, with room for many of them at a time.
    pub(super) fn put_short<T: Wire>(&mut self, items: &[T]) {
        const BATCH_BYTES: usize = 16 << 10;
        let most = T::WIRE_WIDTH.bytes_max();
        if let Width::Exactly(bytes) = T::WIRE_WIDTH {
            self.body.reserve(items.len() * bytes);
        }
        for batch in items.chunks(BATCH_BYTES / most.max(1)) {
            let mut at = self.body.len();
            self.body.resize(at + batch.len() * most, 0);
            for item in batch {
                at += item.encode_short(&mut self.body[at..at + most]);
            }
            self.body.truncate(at);
        }
    }

    /// Lets `write` append to the body, and takes the body back to where it was if that fails.
    pub(super) fn append<E>(&mut self, write: impl FnOnce(Vec<u8>) -> Result<Vec<u8>, E>) -> Result<(), E> {
        // The writer consumes what it is given, also when it fails; so it gets a vector of its own.
        let written = write(Vec::new())?;
        self.body.extend_from_slice(&written);
        Ok(())
    }

    /// Length of the payload in bytes.
    pub fn payload_bytes(&self) -> usize {
        self.offsets().last().map_or(self.head_bytes(), |(offset, buffer)| offset + buffer.len())
    }

    /// Lays the payload out at the start of `out`. The bytes after it are left as they are.
    ///
    /// # Panics
    ///
    /// When `out` is shorter than [`payload_bytes`](Encoder::payload_bytes).
    pub fn write_to(&self, out: &mut [u8]) {
        let bytes = self.payload_bytes();
        assert!(out.len() >= bytes, "a payload of {bytes} bytes does not fit into {}", out.len());
        let mut at = 0;
        self.each_piece(|piece| {
            out[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        });
    }

    /// Hands out the payload piece by piece, in order.
    #[doc(hidden)]
    pub fn each_piece(&self, mut put: impl FnMut(&[u8])) {
        put(&(self.body.len() as u64).to_le_bytes());
        put(&(self.buffers.len() as u64).to_le_bytes());
        for buffer in &self.buffers {
            put(&(buffer.len() as u64).to_le_bytes());
        }
        put(&self.body);
        let mut at = self.head_bytes();
        for (offset, buffer) in self.offsets() {
            put(&[0; ALIGN][..offset - at]);
            put(buffer);
            at = offset + buffer.len();
        }
    }

    /// The part of the payload that begins at `from` and is as long as `out`.
    #[doc(hidden)]
    pub fn copy_range(&self, from: usize, out: &mut [u8]) {
        out.fill(0); // what lies between buffers
        let to = from + out.len();
        let mut put = |start: usize, bytes: &[u8]| {
            let (first, last) = (start.max(from), (start + bytes.len()).min(to));
            if first < last {
                out[first - from..last - from].copy_from_slice(&bytes[first - start..last - start]);
            }
        };
        put(0, &(self.body.len() as u64).to_le_bytes());
        put(8, &(self.buffers.len() as u64).to_le_bytes());
        for (n, buffer) in self.buffers.iter().enumerate() {
            put(16 + 8 * n, &(buffer.len() as u64).to_le_bytes());
        }
        put(16 + 8 * self.buffers.len(), &self.body);
        for (offset, buffer) in self.offsets() {
            put(offset, buffer);
        }
    }

    /// The payload in memory of its own, which starts at an address that 64 divides.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = AlignedBuf::zeroed(self.payload_bytes());
        self.write_to(out.as_mut_slice());
        out.into_bytes()
    }

    fn head_bytes(&self) -> usize {
        16 + 8 * self.buffers.len() + self.body.len()
    }

    /// Where each buffer goes.
    fn offsets(&self) -> impl Iterator<Item = (usize, &'a [u8])> + '_ {
        let mut at = self.head_bytes();
        self.buffers.iter().map(move |buffer| {
            let offset = at.next_multiple_of(ALIGN);
            at = offset + buffer.len();
            (offset, *buffer)
        })
    }
}
