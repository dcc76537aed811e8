//! Values one after the other, as postcard writes them.

use super::cut::{Packer, Rule};
use super::location::{Backing, ChunkEntry};
use super::{DataError, Source};
use crate::chunk::{Header, list_header};
use crate::store::{Region, RegionWriter};
use serde::Serialize;
use std::any::type_name;
use std::io::{BufWriter, Write};

/// Serialized records in shared memory.
pub(crate) struct Values {
    region: Region,
    /// Where each record ends.
    ends: Vec<u64>,
    /// Makes the header for so many records and bytes; knows the record's type.
    header: fn(u64, u64) -> Header,
}

impl Values {
    /// Writes records as they come, keeping none.
    pub(crate) fn collect<T: Serialize>(
        records: impl Iterator<Item = Result<T, DataError>>,
    ) -> Result<Self, DataError> {
        let no_memory = |bytes| move |source| DataError::Memory { bytes, source };
        let mut out = BufWriter::with_capacity(1 << 18, RegionWriter::create().map_err(no_memory(0))?);
        let mut ends = Vec::with_capacity(records.size_hint().0.min(1 << 20));
        let mut scratch = Vec::new();
        let mut at = 0;
        for (index, record) in records.enumerate() {
            scratch.clear();
            scratch = postcard::to_extend(&record?, scratch).map_err(|error| DataError::Record {
                index: index as u64,
                kind: type_name::<T>(),
                reason: error.to_string(),
            })?;
            out.write_all(&scratch).map_err(no_memory(at))?;
            at += scratch.len() as u64;
            ends.push(at);
        }
        if ends.is_empty() {
            return Err(DataError::Empty { what: "records" });
        }
        let writer = out.into_inner().map_err(|error| no_memory(at)(error.into_error()))?;
        let region = writer.seal().map_err(no_memory(at))?;
        Ok(Values { region, ends, header: list_header::<T> })
    }

    /// Where a record starts.
    fn start(&self, record: usize) -> u64 {
        if record == 0 { 0 } else { self.ends[record - 1] }
    }

    /// How many records each chunk gets.
    fn counts(&self, rule: Rule) -> Result<Vec<u64>, DataError> {
        if rule != Rule::Standard {
            return Ok(rule.counts(self.records(), 1)?.collect());
        }
        let mut packer = Packer::new(self.bytes());
        let mut counts = Vec::new();
        for record in 0..self.ends.len() {
            if packer.starts_chunk(self.ends[record] - self.start(record)) {
                counts.push(0);
            }
            if let Some(last) = counts.last_mut() {
                *last += 1;
            }
        }
        if counts.len() > u32::MAX as usize {
            return Err(DataError::TooManyChunks { chunks: counts.len() as u64 });
        }
        Ok(counts)
    }
}

impl Source for Values {
    fn records(&self) -> u64 {
        self.ends.len() as u64
    }

    fn bytes(&self) -> u64 {
        self.region.len() as u64
    }

    fn cut(&self, rule: Rule) -> Result<Vec<ChunkEntry>, DataError> {
        let mut first = 0;
        let pieces = self.counts(rule)?.into_iter().map(|count| {
            let start = self.start(first);
            first += count as usize;
            ((self.header)(count, self.start(first) - start), start)
        });
        Backing::Shared(self.region.clone()).name(pieces.collect())
    }
}
