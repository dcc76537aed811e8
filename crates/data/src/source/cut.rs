//! The rule by which records become chunks. It looks at the data alone.

use super::DataError;

/// Chunks are not made smaller than this by default: below it, sending and naming them costs more than reading them.
const CHUNK_BYTES_LEAST: u64 = 64 << 10;

/// Nor larger than this: a chunk is what is read, cached and lost at once.
const CHUNK_BYTES_MOST: u64 = 16 << 20;

/// Between the two there are about this many chunks, enough to share out evenly among many workers.
const CHUNKS_WANTED: u64 = 1024;

/// Where a chunk should start, so that its rows lie on cache lines.
const ALIGN: u64 = 64;

/// How to cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// As fits the size of the data.
    Standard,
    /// So many records in every chunk but the last.
    Records(u64),
    /// So many chunks, as equal as can be.
    Partitions(u64),
}

impl Rule {
    /// How many records each chunk gets, when that does not depend on their sizes. `standard` is what the standard
    /// rule gives for this source.
    pub(crate) fn counts(self, records: u64, standard: u64) -> Result<Counts, DataError> {
        let (chunks, small, larger) = match self {
            Rule::Standard | Rule::Records(_) => {
                let each = if let Rule::Records(n) = self { n } else { standard };
                (records.div_ceil(each), each, 0)
            }
            Rule::Partitions(k) => {
                let k = k.min(records);
                (k, records / k, records % k)
            }
        };
        if chunks > u64::from(u32::MAX) {
            return Err(DataError::TooManyChunks { chunks });
        }
        Ok(Counts { chunks, small, larger, left: records })
    }
}

/// The numbers of records in the chunks, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    /// Chunks not yet given.
    chunks: u64,
    /// Records of a chunk.
    small: u64,
    /// How many of the next chunks get one record more.
    larger: u64,
    /// Records not yet given.
    left: u64,
}

impl Iterator for Counts {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.chunks = self.chunks.checked_sub(1)?;
        let extra = u64::from(self.larger > 0);
        self.larger -= extra;
        let count = (self.small + extra).min(self.left);
        self.left -= count;
        Some(count)
    }
}

/// Bytes per chunk by the standard rule.
pub(crate) fn chunk_bytes(total: u64) -> u64 {
    (total / CHUNKS_WANTED)
        .checked_next_power_of_two()
        .unwrap_or(CHUNK_BYTES_MOST)
        .clamp(CHUNK_BYTES_LEAST, CHUNK_BYTES_MOST)
}

/// Bytes per chunk for Python: fewer and larger ones than elsewhere, because calling a function there costs tens of
/// microseconds, and not so large that a few workers could not share them evenly.
pub(crate) fn python_chunk_bytes(total: u64) -> u64 {
    (total / 256).checked_next_power_of_two().unwrap_or(4 << 20).clamp(CHUNK_BYTES_LEAST, 4 << 20)
}

/// Rows per chunk by the standard rule, for rows of equal length.
pub(crate) fn chunk_rows(total: u64, row_bytes: u64) -> u64 {
    rows_in(chunk_bytes(total), row_bytes)
}

/// Rows of equal length in a chunk of about so many bytes.
pub(crate) fn rows_in(chunk_bytes: u64, row_bytes: u64) -> u64 {
    let rows = (chunk_bytes / row_bytes.max(1)).max(1);
    // So many rows fill whole cache lines; where fewer than that go into a chunk nothing can be done.
    let whole = ALIGN >> row_bytes.trailing_zeros().min(ALIGN.trailing_zeros());
    if rows < whole { rows } else { rows - rows % whole }
}

/// Cuts records of unequal length by the standard rule: as many as fit, at least one. Told the length of each record
/// in turn, it says when one starts a new chunk.
pub(crate) struct Packer {
    most: u64,
    filled: u64,
}

impl Packer {
    pub(crate) fn new(total: u64) -> Self {
        Packer { most: chunk_bytes(total), filled: 0 }
    }

    /// Whether this record starts a new chunk.
    pub(crate) fn starts_chunk(&mut self, record_bytes: u64) -> bool {
        // A record counts for at least a byte, so that even empty ones fill a chunk some day.
        let record_bytes = record_bytes.max(1);
        let starts = self.filled == 0 || self.filled.saturating_add(record_bytes) > self.most;
        self.filled = if starts { record_bytes } else { self.filled + record_bytes };
        starts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    #[test]
    fn chunk_bytes_follow_the_total_between_two_bounds() {
        for (total, expected) in [
            (0, 64 * KIB),
            (1, 64 * KIB),
            (64 * MIB, 64 * KIB),
            (64 * MIB + 1024, 128 * KIB),
            (100 * MIB, 128 * KIB),
            (1024 * MIB, MIB),
            (16 * 1024 * MIB, 16 * MIB),
            (u64::MAX, 16 * MIB),
        ] {
            assert_eq!(chunk_bytes(total), expected, "{total}");
        }
    }

    #[test]
    fn rows_start_on_cache_lines_where_they_can() {
        for (total, row_bytes, expected) in [
            (MIB, 8, 8192),  // a power of two already does
            (MIB, 24, 2728), // 65536 / 24 = 2730, and 8 rows of 24 bytes fill 3 lines
            (MIB, 1, 65536),
            (MIB, 3, 21824), // 21845 rounded down to a multiple of 64
            (MIB, 100, 640), // 655 rounded down to a multiple of 16
            (MIB, 64 * KIB, 1),
            (MIB, 60 * KIB + 8, 1), // one row, wherever it starts
            (MIB, 20 * KIB + 8, 3), // 8 rows would be too many
            (MIB, 10 * MIB, 1),
        ] {
            assert_eq!(chunk_rows(total, row_bytes), expected, "{total} {row_bytes}");
        }
    }

    #[test]
    fn partitions_are_contiguous_equal_and_exactly_as_many() {
        for records in 1..40 {
            for k in 1..50 {
                let counts: Vec<u64> = Rule::Partitions(k).counts(records, 1).unwrap().collect();
                assert_eq!(counts.len() as u64, k.min(records));
                assert_eq!(counts.iter().sum::<u64>(), records);
                assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
                assert!(counts.is_sorted_by(|a, b| a >= b));
            }
        }
    }

    #[test]
    fn counted_chunks_are_full_but_for_the_last() {
        let counts = |rule: Rule, records| rule.counts(records, 7).unwrap().collect::<Vec<_>>();
        assert_eq!(counts(Rule::Records(4), 10), [4, 4, 2]);
        assert_eq!(counts(Rule::Records(5), 10), [5, 5]);
        assert_eq!(counts(Rule::Records(u64::MAX), 10), [10]);
        assert_eq!(counts(Rule::Standard, 10), [7, 3]);
        assert!(matches!(Rule::Records(1).counts(1 << 33, 7), Err(DataError::TooManyChunks { .. })));
    }

    #[test]
    fn packer_fills_chunks_with_whole_records() {
        let mut packer = Packer::new(MIB);
        let starts: Vec<bool> =
            [30, 30, 4, 1, 200, 1, 63, 1].iter().map(|kib| packer.starts_chunk(kib * KIB)).collect();
        assert_eq!(starts, [true, false, false, true, true, true, false, true]);
    }

    #[test]
    fn records_without_bytes_fill_chunks_too() {
        let mut packer = Packer::new(0);
        assert_eq!((0..200_000).filter(|_| packer.starts_chunk(0)).count(), 4);
    }
}
