//! Scratch memory that starts on a cache line.
//!
//! An ordinary vector starts anywhere, and then every 512-bit load of a row touches two lines; products run about a
//! fifth slower on it.

/// Bytes of a cache line and of the widest register.
const LINE_BYTES: usize = 64;

/// Zeros at first, on a 64-byte boundary, of fixed length.
#[derive(Debug, Default)]
pub struct Aligned<T = f64> {
    values: Vec<T>,
    start: usize,
    len: usize,
}

impl<T: Copy + Default> Aligned<T> {
    /// `len` zeros.
    pub fn zeros(len: usize) -> Aligned<T> {
        let values = vec![T::default(); len + LINE_BYTES / size_of::<T>()];
        // An allocator may decline to say; then the memory is as good as any other.
        let start = values.as_ptr().align_offset(LINE_BYTES).min(LINE_BYTES / size_of::<T>());
        Aligned { values, start, len }
    }
}

impl<T> std::ops::Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values[self.start..][..self.len]
    }
}

impl<T> std::ops::DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values[self.start..][..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::Aligned;

    #[test]
    fn memory_starts_on_a_cache_line_and_is_zero() {
        for len in [0, 1, 7, 8, 9, 1000] {
            let mut scratch: Aligned = Aligned::zeros(len);
            assert_eq!(scratch.as_ptr() as usize % 64, 0);
            assert_eq!(scratch.len(), len);
            assert!(scratch.iter().all(|v| *v == 0.0));
            scratch.fill(1.0);
        }
    }
}
