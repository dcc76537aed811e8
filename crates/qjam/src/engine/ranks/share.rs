//! Who runs which blocks, and who hands what to whom. All ranks work it out alike from a few numbers.

use std::ops::Range;

/// Commands go to so many ranks from each.
const FAN: u32 = 8;

/// The blocks of a rank: neighbours, the same for every round over the same blocks. With fewer blocks than ranks the first
/// is rank 0's and the others are spread.
pub(super) fn share(blocks: u32, ranks: u32, rank: u32) -> Range<u32> {
    let at = |rank: u32| (u64::from(rank) * u64::from(blocks)).div_ceil(u64::from(ranks)) as u32;
    at(rank)..at(rank + 1)
}

/// Whether anybody but rank 0 has blocks.
pub(super) fn is_shared(blocks: u32, ranks: u32) -> bool {
    share(blocks, ranks, 0).end < blocks
}

/// Ranks that get commands from this one.
pub(super) fn below(rank: u32, ranks: u32) -> Range<u32> {
    let first = rank.saturating_mul(FAN).saturating_add(1);
    first.min(ranks)..first.saturating_add(FAN).min(ranks)
}

/// Who gives commands to this rank.
pub(super) fn above(rank: u32) -> Option<u32> {
    rank.checked_sub(1).map(|n| n / FAN)
}

/// Ranks whose results this one merges, in this order: each has collected those of the ranks after it, so that what comes
/// is always the right neighbour of what is there.
pub(super) fn sources(rank: u32, ranks: u32) -> impl Iterator<Item = u32> {
    let steps = if rank == 0 { u32::BITS } else { rank.trailing_zeros() };
    (0..steps).map_while(move |n| rank.checked_add(1 << n)).take_while(move |from| *from < ranks)
}

/// Who gets this rank's results.
pub(super) fn target(rank: u32) -> Option<u32> {
    (rank > 0).then(|| rank & (rank - 1))
}

/// The ranks whose results come through this one, itself included.
pub(super) fn through(rank: u32, ranks: u32) -> Range<u32> {
    let width = if rank == 0 { ranks } else { 1 << rank.trailing_zeros() };
    rank..rank.saturating_add(width).min(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_neighbours_and_make_up_the_whole() {
        for blocks in 1..40 {
            for ranks in 1..20 {
                let mut next = 0;
                for rank in 0..ranks {
                    let share = share(blocks, ranks, rank);
                    assert_eq!(share.start, next);
                    assert!(share.len() as u32 <= blocks.div_ceil(ranks));
                    next = share.end;
                }
                assert_eq!(next, blocks);
                assert!(!share(blocks, ranks, 0).is_empty(), "rank 0 has the first block");
                assert_eq!(is_shared(blocks, ranks), blocks > 1 && ranks > 1);
            }
        }
    }

    #[test]
    fn everybody_is_told_once_and_collected_once_from_the_right() {
        for ranks in 1..100 {
            let mut told = vec![0; ranks as usize];
            let mut collected = vec![0; ranks as usize];
            for rank in 0..ranks {
                for other in below(rank, ranks) {
                    assert_eq!(above(other), Some(rank));
                    told[other as usize] += 1;
                }
                let mut end = rank + 1;
                for from in sources(rank, ranks) {
                    assert_eq!(target(from), Some(rank));
                    assert_eq!(through(from, ranks).start, end, "the right neighbour of what is there");
                    end = through(from, ranks).end;
                    collected[from as usize] += 1;
                }
                assert_eq!(through(rank, ranks), rank..end);
            }
            assert!(told[0] == 0 && told[1..].iter().all(|n| *n == 1), "{ranks}: {told:?}");
            assert!(collected[0] == 0 && collected[1..].iter().all(|n| *n == 1), "{ranks}: {collected:?}");
        }
    }
}
