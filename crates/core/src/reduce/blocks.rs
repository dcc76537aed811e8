//! The size of blocks.
//!
//! The blocks of a map may be any aligned subtrees, because the tree always reaches down to the chunks; so their size is chosen for the
//! number of workers. The blocks of a fold determine which chunks share an accumulator, and therefore the result; so their size depends
//! only on the sizes of chunks and parameters, and on what the function says of its accumulator.

/// Bytes of data for each byte of a result: then combining results stays a small part of the work.
pub const DATA_PER_RESULT: u64 = 4;
/// A cut for long results has at least so many chunks, so that there is work for many.
pub const CHUNKS_LEAST: u32 = 16;
/// Blocks of more chunks than this would not fit one message.
const LEVEL_MAX: u8 = 14;

/// The level of a map's blocks: the largest that leaves at least this many blocks.
pub fn map_level(chunks: u32, blocks_wanted: u32) -> u8 {
    let per_block = chunks / blocks_wanted.max(1);
    (per_block.max(1).ilog2() as u8).min(LEVEL_MAX)
}

/// The level of a fold's blocks: as small as lets a block have [`DATA_PER_RESULT`] times the bytes of its accumulator. Its size is known only afterwards: the function says it, or the
/// parameters stand for it; in k-means, say, centres and sums are equally long.
pub fn fold_level(chunk_bytes: u64, accumulator_bytes: u64) -> u8 {
    let chunks = accumulator_bytes.saturating_mul(DATA_PER_RESULT).div_ceil(chunk_bytes.max(1)).max(1);
    chunks.min(1 << LEVEL_MAX).next_power_of_two().ilog2() as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::Cut;

    #[test]
    fn a_map_has_as_many_blocks_as_wanted_or_one_per_chunk() {
        for chunks in 1..2000 {
            for wanted in [1, 16, 64, 1000] {
                let blocks = Cut::new(chunks, map_level(chunks, wanted)).blocks();
                assert!(blocks >= wanted.min(chunks), "{chunks} chunks, {wanted} wanted: {blocks}");
                assert!(
                    blocks <= chunks && blocks <= 2 * wanted + 1,
                    "{chunks} chunks, {wanted} wanted: {blocks}"
                );
            }
        }
    }

    #[test]
    fn a_wide_accumulator_gets_large_blocks() {
        assert_eq!(fold_level(64 << 10, 8), 0);
        assert_eq!(fold_level(64 << 10, 16 << 10), 0);
        assert_eq!(fold_level(64 << 10, 8 << 20), 9);
        assert_eq!(fold_level(1, u64::MAX / 8), LEVEL_MAX);
        assert_eq!(fold_level(1, u64::MAX), LEVEL_MAX);
    }
}
