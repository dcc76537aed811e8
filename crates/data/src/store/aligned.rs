//! Heap memory that starts at an address 64 divides, so that any numbers can lie in it and a cache line holds them.

use super::map::Map;
use bytes::Bytes;

/// One cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

#[expect(unsafe_code, reason = "bytemuck's derive would be a dependency for one type")]
// SAFETY: 64 bytes, for which all zeros is a value.
unsafe impl bytemuck::Zeroable for Line {}

#[expect(unsafe_code, reason = "bytemuck's derive would be a dependency for one type")]
// SAFETY: 64 bytes and nothing else: as long as it is aligned, hence without padding, and every pattern is a value.
unsafe impl bytemuck::Pod for Line {}

/// A zeroed buffer to fill, then to share.
pub struct AlignedBuf {
    lines: Vec<Line>,
    bytes: usize,
}

impl AlignedBuf {
    /// A buffer of so many bytes, all zero.
    pub fn zeroed(bytes: usize) -> Self {
        AlignedBuf { lines: bytemuck::zeroed_vec(bytes.div_ceil(size_of::<Line>())), bytes }
    }

    /// The same, for a length that somebody else chose: `None` when there is no such memory.
    pub fn try_zeroed(bytes: u64) -> Option<Self> {
        let bytes = usize::try_from(bytes).ok()?;
        let lines = bytemuck::try_zeroed_vec(bytes.div_ceil(size_of::<Line>())).ok()?;
        Some(AlignedBuf { lines, bytes })
    }

    /// The bytes, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.bytes]
    }

    /// The bytes, to be shared.
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for AlignedBuf {
    fn as_ref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.bytes]
    }
}

/// Whole pages of this process's own, for what is large and comes and goes.
///
/// An allocator keeps what is given back to it, and finds it too short for the next of the same length; these pages go
/// back to the system at once, so that a worker near its memory limit has what it has counted.
pub(crate) struct Pages(Map);

impl Pages {
    /// From this length on, the system calls are lost beside the filling.
    pub(crate) const BYTES_MIN: u64 = 64 << 10;

    /// Zeroed; `None` when there is no such memory.
    pub(crate) fn try_zeroed(bytes: u64) -> Option<Pages> {
        Map::private(usize::try_from(bytes).ok()?).ok().map(Pages)
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        self.0.as_mut_slice()
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_any_length_start_at_a_cache_line() {
        for bytes in [0, 1, 63, 64, 65, 1000, 1 << 20] {
            let mut buf = AlignedBuf::zeroed(bytes);
            buf.as_mut_slice().fill(7);
            let shared = buf.into_bytes();
            assert_eq!(shared.len(), bytes);
            assert!(shared.iter().all(|b| *b == 7));
            assert!(bytes == 0 || (shared.as_ptr() as usize).is_multiple_of(64));
        }
    }
}
