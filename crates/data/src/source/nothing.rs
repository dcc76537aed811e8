//! Tasks without data.

use super::cut::Rule;
use super::location::{Backing, ChunkEntry};
use super::{DataError, Source};
use crate::chunk::Nothing;
use crate::store::Region;

/// So many chunks of nothing. They all have the same name; only their index tells them apart.
pub(crate) struct Tasks {
    count: u64,
    region: Region,
}

impl Tasks {
    pub(crate) fn new(count: u64) -> Result<Self, DataError> {
        if count == 0 {
            return Err(DataError::Empty { what: "tasks" });
        }
        let region = Region::copy_of(&[]).map_err(|source| DataError::Memory { bytes: 0, source })?;
        Ok(Tasks { count, region })
    }
}

impl Source for Tasks {
    fn records(&self) -> u64 {
        self.count
    }

    fn bytes(&self) -> u64 {
        0
    }

    fn cut(&self, rule: Rule) -> Result<Vec<ChunkEntry>, DataError> {
        let pieces = rule.counts(self.count, 1)?.map(|_| (Nothing::header(), 0));
        Backing::Shared(self.region.clone()).name(pieces.collect())
    }
}
