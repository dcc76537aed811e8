//! How much memory there is, how much is taken, and whether a round can fit into it at all.
//!
//! A program in a container, a batch job or a service has less memory than its machine: its control group, and every
//! group around that, may have a limit. [`Limit::here`] is the smallest of them all. From it come the defaults for what
//! workers keep open and the refusal of rounds that cannot fit, here and on other hosts; [`Usage`] says what a process
//! has of it.
//!
//! A round is refused with [`DoesNotFit`]. Only what is certain counts: chunks that are read from files are private memory of whoever opens them, and slots
//! work at the same time. What functions take for themselves is theirs to know. So a round that is refused could not
//! have run, and one that is not refused may still run out of memory.

use crate::dataset::CutData;
use crate::source::location::ChunkLocation;
use std::fmt;

pub(crate) use qjam_system::memory::{Kills, cache_bytes, private_bytes, size, swap_bytes};
pub use qjam_system::memory::{Limit, Usage, most_bytes};

/// What opening the chunks of a data set takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Chunks that are open at the same time.
    pub(crate) at_once: u32,
    /// Private bytes for that, at the very least: of the smallest chunks, so many.
    pub(crate) bytes: u64,
    /// The largest chunk: its bytes and records.
    pub(crate) chunk_bytes: u64,
    pub(crate) chunk_records: u64,
}

impl Needs {
    /// Of whoever has so many slots at work on this data, on the machine that it is on.
    pub(crate) fn of(data: &CutData, slots: u32) -> Needs {
        let in_files = data.chunks.iter().filter(|chunk| matches!(chunk.place, ChunkLocation::File { .. }));
        let Some(largest) = in_files.clone().max_by_key(|chunk| chunk.header.bytes) else {
            return Needs::default();
        };
        let mut sizes: Vec<u64> = in_files.map(|chunk| chunk.header.bytes).collect();
        let at_once = sizes.len().min(slots.max(1) as usize);
        sizes.select_nth_unstable(at_once - 1);
        Needs {
            at_once: at_once as u32,
            bytes: sizes[..at_once].iter().fold(0, |sum, bytes| sum.saturating_add(*bytes)),
            chunk_bytes: largest.header.bytes,
            chunk_records: largest.header.shape.first().copied().unwrap_or(0),
        }
    }
}

/// A round that cannot fit into memory. It was refused before anything was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DoesNotFit {
    /// Who would need too much: `proc:0`, or all on this machine together.
    pub who: String,
    /// What there is for it.
    pub limit_bytes: u64,
    /// What it needs at the very least.
    pub needed_bytes: u64,
    /// So much of that is for parameters.
    pub params_bytes: u64,
    /// How many chunks are open at the same time.
    pub chunks_at_once: u32,
    /// Bytes of the largest chunk.
    pub chunk_bytes: u64,
    /// Records of the largest chunk; 0 when that is not known.
    pub chunk_records: u64,
}

impl DoesNotFit {
    /// Records in a chunk of which so many as are open at once take half of what there is for them.
    fn records_that_fit(&self) -> u64 {
        let room = u128::from(self.limit_bytes.saturating_sub(self.params_bytes) / 2);
        let all = u128::from(self.chunk_bytes.max(1)) * u128::from(self.chunks_at_once.max(1));
        u64::try_from(u128::from(self.chunk_records) * room / all).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for DoesNotFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DoesNotFit { who, params_bytes, chunks_at_once, chunk_bytes, chunk_records, .. } = self;
        let (limit, needed) = (size(self.limit_bytes), size(self.needed_bytes));
        write!(
            f,
            "the round does not fit into memory: {who} may have {limit}, and it takes at least {needed}:"
        )?;
        if *chunks_at_once > 0 {
            let each = if *chunks_at_once == 1 { "chunk" } else { "chunks at once, each" };
            write!(f, " {chunks_at_once} {each} of up to {} ({chunk_records} records)", size(*chunk_bytes))?;
        }
        if *params_bytes > 0 {
            let and = if *chunks_at_once > 0 { " and" } else { "" };
            write!(f, "{and} parameters of {}", size(*params_bytes))?;
        }
        f.write_str("\n  remedy: ")?;
        if *chunks_at_once > 0 {
            match self.records_that_fit() {
                0 => f.write_str("not even one record at a time fits; ")?,
                records => {
                    write!(f, "cut the data into chunks of {records} records (`chunk_records({records})`), ")?
                }
            }
        }
        if *chunks_at_once > 1 {
            f.write_str("use fewer slots, ")?;
        }
        f.write_str(if *chunks_at_once > 0 { "or raise the limit" } else { "raise the limit" })
    }
}

impl std::error::Error for DoesNotFit {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataSet, Dense};

    #[test]
    fn only_what_is_certain_counts() {
        let path = std::env::temp_dir().join(format!("qjam-fit-{}", std::process::id()));
        std::fs::write(&path, vec![7_u8; 1050]).unwrap();
        let data = DataSet::<Dense<u8>>::raw(&path, 10).unwrap().chunk_records(20).unwrap(); // 5 of 200, one of 50
        let needs = |slots| {
            let needs = Needs::of(data.erased(), slots);
            (needs.at_once, needs.bytes, needs.chunk_bytes, needs.chunk_records)
        };
        assert_eq!(needs(1), (1, 50, 200, 20), "it may be the smallest");
        assert_eq!(needs(2), (2, 250, 200, 20));
        assert_eq!(needs(100), (6, 1050, 200, 20), "there are no more than there are");
        let here = DataSet::dense(vec![0.0_f64; 1000], 1).unwrap();
        assert_eq!(Needs::of(here.erased(), 4), Needs::default(), "what is shared is nobody's own");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_refusal_has_the_numbers_and_what_to_do() {
        let mut refusal = DoesNotFit {
            who: "proc:0".into(),
            limit_bytes: 16 << 20,
            needed_bytes: 40 << 20,
            params_bytes: 0,
            chunks_at_once: 2,
            chunk_bytes: 20 << 20,
            chunk_records: 1000,
        };
        assert_eq!(
            refusal.to_string(),
            "the round does not fit into memory: proc:0 may have 16.0 MiB, and it takes at least 40.0 MiB: \
             2 chunks at once, each of up to 20.0 MiB (1000 records)\n  \
             remedy: cut the data into chunks of 200 records (`chunk_records(200)`), use fewer slots, or raise the limit"
        );
        (refusal.chunks_at_once, refusal.chunk_records) = (1, 1);
        assert!(
            refusal.to_string().ends_with("not even one record at a time fits; or raise the limit"),
            "{refusal}"
        );
        (refusal.chunks_at_once, refusal.params_bytes) = (0, 40 << 20);
        assert!(
            refusal
                .to_string()
                .ends_with("at least 40.0 MiB: parameters of 40.0 MiB\n  remedy: raise the limit"),
            "{refusal}"
        );
    }
}
