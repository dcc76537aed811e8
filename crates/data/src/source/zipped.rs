//! Two data sets of equal cut, chunk by chunk in shared memory.

use super::cut::Rule;
use super::location::{Backing, ChunkEntry};
use super::{DataError, Source};
use crate::chunk::Header;
use crate::chunk::pair::{ALIGN, PairLayout};
use crate::store::{Region, RegionWriter};
use std::io::{BufWriter, Write};
use std::sync::Arc;

/// Pairs of chunks.
pub(crate) struct Zipped {
    region: Region,
    pieces: Vec<(Header, u64)>,
    records: u64,
}

impl Zipped {
    /// Copies the chunks of both data sets side by side.
    pub(crate) fn write(left: &[Arc<ChunkEntry>], right: &[Arc<ChunkEntry>]) -> Result<Self, DataError> {
        if left.len() != right.len() {
            return Err(DataError::ZipChunks { left: left.len(), right: right.len() });
        }
        let no_memory = |bytes| move |source| DataError::Memory { bytes, source };
        let mut out = BufWriter::with_capacity(1 << 18, RegionWriter::create().map_err(no_memory(0))?);
        let (mut at, mut records, mut pieces) = (0_u64, 0, Vec::with_capacity(left.len()));
        for (chunk, (left, right)) in left.iter().zip(right).enumerate() {
            let (here, there) = (left.header.records(), right.header.records());
            if here != there {
                return Err(DataError::ZipRecords { chunk, left: here, right: there });
            }
            let start = at.next_multiple_of(ALIGN);
            let PairLayout { header, front, left_at, right_at } = PairLayout::of(&left.header, &right.header);
            let parts = [(0, &front[..]), (left_at, &left.load()?[..]), (right_at, &right.load()?[..])];
            for (offset, part) in parts {
                let gap = (start + offset - at) as usize;
                out.write_all(&[0; ALIGN as usize][..gap]).map_err(no_memory(at))?;
                out.write_all(part).map_err(no_memory(at))?;
                at = start + offset + part.len() as u64;
            }
            pieces.push((header, start));
            records += here;
        }
        let writer = out.into_inner().map_err(|error| no_memory(at)(error.into_error()))?;
        let region = writer.seal().map_err(no_memory(at))?;
        Ok(Zipped { region, pieces, records })
    }
}

impl Source for Zipped {
    fn records(&self) -> u64 {
        self.records
    }

    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|(header, _)| header.bytes).sum()
    }

    fn cut(&self, rule: Rule) -> Result<Vec<ChunkEntry>, DataError> {
        match rule {
            Rule::Standard => Backing::Shared(self.region.clone()).name(self.pieces.clone()),
            Rule::Records(_) | Rule::Partitions(_) => Err(DataError::CutAgain),
        }
    }
}
