//! The expected value of a round: what a single process that never fails would compute.
//!
//! A value has two parts. The sum adds numbers of very different magnitudes, so that its bits depend on the order of addition. The
//! shape is a hash of the tree of merges, which also distinguishes orders that happen to round alike. [`serial`] traverses the tree
//! with its own recursion, without the code under test.

use crate::random::mix;
use qjam_core::reduce::{Cut, Node, Tree};
use std::ops::Range;

/// A partial result.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    /// A sum whose bits depend on the order.
    pub sum: f64,
    /// A hash of the merges that produced it.
    pub shape: u64,
}

/// How the values of the chunks of a block are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One value each, merged along the tree.
    Map,
    /// One accumulator, chunk after chunk.
    Fold,
}

impl Value {
    /// Before any chunk.
    const EMPTY: Value = Value { sum: 0.0, shape: 0x5eed };

    /// The value of a chunk in a round.
    pub fn of_chunk(key: u64, chunk: u32) -> Value {
        let bits = mix(key ^ mix(u64::from(chunk)));
        let exponent = (bits % 41) as i32 - 20;
        let fraction = (bits >> 12) as f64 / (1u64 << 52) as f64;
        let sign = if bits & 64 == 0 { 1.0 } else { -1.0 };
        Value { sum: sign * (1.0 + fraction) * 2f64.powi(exponent), shape: bits }
    }

    /// Merges the right neighbour into this value.
    pub fn merge(&mut self, right: Value) {
        self.sum += right.sum;
        self.shape = mix(self.shape.rotate_left(17).wrapping_mul(3) ^ right.shape.wrapping_mul(5));
    }

    /// Whether two values have the same bits.
    pub fn is_same(&self, other: &Value) -> bool {
        self.sum.to_bits() == other.sum.to_bits() && self.shape == other.shape
    }
}

/// The state of a chunk before any round.
pub fn made_state(seed: u64, chunk: u32) -> u64 {
    mix(seed ^ mix(u64::from(chunk) | 1 << 40))
}

/// The state of a chunk after a round.
pub fn next_state(state: u64, key: u64) -> u64 {
    mix(state.rotate_left(9) ^ key)
}

/// The expected value of a round over states, from the states it leaves.
pub fn serial_of_states(states: &[u64]) -> Value {
    walk_states(states, states.len().next_power_of_two())
}

fn walk_states(states: &[u64], width: usize) -> Value {
    if let [only] = states {
        return Value::of_chunk(*only, 0);
    }
    let half = width / 2;
    let (left, right) = states.split_at(half.min(states.len()));
    let mut value = walk_states(left, half);
    if !right.is_empty() {
        value.merge(walk_states(right, half));
    }
    value
}

/// The value of a block, computed with the tree of `core` as a real worker does.
pub fn block(key: u64, cut: Cut, mode: Mode, block: u32) -> Value {
    let chunks = cut.chunks_of(cut.node(block));
    match mode {
        Mode::Fold => fold(key, chunks),
        Mode::Map if chunks.len() == 1 => Value::of_chunk(key, chunks.start),
        Mode::Map => {
            let mut inner = Tree::new(Cut::new(cut.chunks, 0));
            for index in chunks {
                let merged =
                    inner.insert(Node { level: 0, index }, Value::of_chunk(key, index), |left, right| {
                        left.merge(right);
                        Ok::<(), ()>(())
                    });
                assert!(merged.is_ok(), "this merge cannot fail");
            }
            inner.take().pop().expect("a block has a chunk").1
        }
    }
}

fn fold(key: u64, chunks: Range<u32>) -> Value {
    let mut value = Value::EMPTY;
    chunks.for_each(|chunk| value.merge(Value::of_chunk(key, chunk)));
    value
}

/// The expected value of a round, bit for bit.
pub fn serial(key: u64, chunks: u32, level: u8, mode: Mode) -> Value {
    let mut top = level;
    while (1u64 << top) < u64::from(chunks) {
        top += 1;
    }
    walk(key, u64::from(chunks), level, mode, top, 0)
}

fn walk(key: u64, chunks: u64, level: u8, mode: Mode, height: u8, index: u64) -> Value {
    let start = index << height;
    if mode == Mode::Fold && height == level {
        return fold(key, start as u32..((index + 1) << height).min(chunks) as u32);
    }
    if height == 0 {
        return Value::of_chunk(key, start as u32);
    }
    let mut left = walk(key, chunks, level, mode, height - 1, index * 2);
    if (index * 2 + 1) << (height - 1) < chunks {
        left.merge(walk(key, chunks, level, mode, height - 1, index * 2 + 1));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_neighbours_the_wrong_way_round_shows() {
        let [a, b] = [0, 1].map(|c| Value::of_chunk(1, c));
        let (mut left, mut right) = (a, b);
        left.merge(b);
        right.merge(a);
        assert!(!left.is_same(&right));
    }

    #[test]
    fn the_sum_alone_depends_on_the_order() {
        let values: Vec<f64> = (0..64).map(|c| Value::of_chunk(9, c).sum).collect();
        let there: f64 = values.iter().sum();
        let back: f64 = values.iter().rev().sum();
        assert_ne!(there.to_bits(), back.to_bits());
    }

    #[test]
    fn blocks_in_order_give_the_serial_answer() {
        for mode in [Mode::Map, Mode::Fold] {
            for (chunks, level) in [(1, 0), (1, 3), (5, 0), (7, 1), (64, 2), (65, 4)] {
                let cut = Cut::new(chunks, level);
                let mut tree = Tree::new(cut);
                for b in 0..cut.blocks() {
                    let merge = |left: &mut Value, right| {
                        left.merge(right);
                        Ok::<(), ()>(())
                    };
                    tree.insert(cut.node(b), block(3, cut, mode, b), merge).unwrap();
                }
                let value = tree.take_root().unwrap();
                assert!(value.is_same(&serial(3, chunks, level, mode)), "{chunks} chunks, level {level}");
            }
        }
    }
}
