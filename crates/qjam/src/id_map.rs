//! Maps whose keys are numbers that this process gave out: rounds, seats, parts.
//!
//! The standard map defends itself against keys chosen by others so that they collide, which costs more than the rest of a lookup.
//! Keys that came from elsewhere belong in the standard map.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map from identifiers that this process numbers itself. They cannot be chosen so as to collide, so hashing them may be cheap.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Hashes small numbers by one multiplication.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        // The golden ratio spreads consecutive numbers over the high bits; the map's index is taken from the low ones.
        let spread = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }
}
