//! An array in the user's memory as a data set, named again when its owner has written to it.
//!
//! Before a round [`Array::refresh`] looks: a small array is compared with its copy in shared memory, of a large one the
//! checksum of every chunk was kept. Only chunks that differ are named again. What nobody can write to is not looked at.
//!
//! Interpreters of this process map shared memory, and get a copy of all other chunks in every round. So a large array that
//! was left alone is copied into shared memory once, if memory allows it ([`Array::for_interpreters`]). Chunks that are
//! written to later lie in the user's memory again. The more often an array was written to, the more rounds it must be left
//! alone before it is copied the next time.
//!
//! The checksum is fast and not cryptographic. It guards against change, not against an adversary, who would be the
//! user; names stay cryptographic.

use super::{DataSet, rule};
use crate::chunk::{Header, Raw};
use crate::source::DataError;
use crate::source::array::{self, Layout, Residence, Rows};
use crate::source::location::{Backing, ChunkEntry, ChunkLocation, spread};
use crate::source::memory::UserMemory;
use crate::store::traffic;
use bytes::Bytes;
use qjam_system::memory::free_bytes;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_128;

/// An array in the user's memory as a data set, and what is needed to notice that it was written to.
#[derive(Debug)]
pub struct Array {
    memory: Bytes,
    layout: Layout,
    slice_size: Option<u64>,
    watch: Watch,
    set: DataSet<Raw>,
    /// Rounds of interpreters since it was written to, and how often it was.
    rounds: u32,
    changes: u32,
}

/// How changes are noticed.
#[derive(Debug)]
enum Watch {
    /// Nobody can write to it.
    Not,
    /// By comparing with the copy that the data set lies in.
    Copy,
    /// By the checksums of the chunks.
    Sums(Vec<u128>),
}

impl Array {
    /// Cuts and names an array, `slice_size` rows to a chunk or as fits its size. `may_change`: whether anybody may
    /// write to the memory as long as the data set is in use.
    ///
    /// ```
    /// use qjam::python::{Array, Layout};
    /// let layout =
    ///     Layout { kind: "ndarray".into(), dtype: "<i2".into(), shape: vec![3, 2], item_bytes: 2 };
    /// let array = Array::new(vec![0; 12].into(), layout, Some(2), false)?;
    /// assert_eq!((array.set().records(), array.set().len()), (3, 2));
    /// # Ok::<(), qjam::DataError>(())
    /// ```
    pub fn new(
        memory: Bytes,
        layout: Layout,
        slice_size: Option<u64>,
        may_change: bool,
    ) -> Result<Array, DataError> {
        if slice_size == Some(0) {
            return Err(DataError::ZeroCut { what: "chunks of 0 records" });
        }
        let (rows, residence) = array::over(&memory, layout.clone())?;
        let watch = match residence {
            Residence::Sealed => Watch::Not,
            _ if !may_change => Watch::Not,
            Residence::Copied => Watch::Copy,
            // Summed before it is named: what changes in between is seen the next time.
            Residence::InPlace => Watch::Sums(sums(&memory, &rows.pieces(rule(slice_size))?)),
        };
        let set = DataSet::cut(Arc::new(rows), rule(slice_size))?;
        Ok(Array { memory, layout, slice_size, watch, set, rounds: 0, changes: 0 })
    }

    /// The data set.
    pub fn set(&self) -> &DataSet<Raw> {
        &self.set
    }

    /// The same cut in memory that other processes can map. What is copied is compared with what was named, because the
    /// copy is what will be used from then on.
    pub fn shared(&self) -> Result<DataSet<Raw>, DataError> {
        if !self.is_in_place() {
            return Ok(self.set.clone());
        }
        let bytes = self.memory.len() as u64;
        let rows = Rows::over(Backing::Shared(array::copy(&self.memory)?), 0, self.layout.clone(), bytes)?;
        let entries: Vec<ChunkEntry> = (self.set.erased().chunks.iter())
            .map(|chunk| ChunkEntry {
                id: chunk.id,
                header: chunk.header.clone(),
                place: rows.backing.place(chunk.place.offset()),
            })
            .collect();
        if let Watch::Sums(sums) = &self.watch {
            traffic::note_summed(bytes);
            let chunks: Vec<_> = entries.iter().zip(sums).collect();
            let same = spread(&chunks, bytes, |(chunk, sum)| {
                chunk.load().is_ok_and(|bytes| xxh3_128(&bytes) == **sum)
            });
            if let Some(index) = same.iter().position(|same| !same) {
                return Err(DataError::ChangedMeanwhile { index });
            }
        }
        Ok(DataSet::made(entries, Arc::new(rows), Some(rule(self.slice_size))))
    }

    /// The same cut for a round of interpreters that this process starts. Counts the rounds: an array that was left alone is
    /// copied into memory that they map, unless less than its size would then be free. `lasting`: many rounds are known to
    /// come.
    pub fn for_interpreters(&mut self, lasting: bool) -> DataSet<Raw> {
        let waits = !lasting && self.rounds <= self.changes;
        self.rounds = self.rounds.saturating_add(1);
        if !waits && self.is_in_place() && free_bytes() / 2 > self.memory.len() as u64 {
            // A copy that cannot be had is done without; what changes meanwhile is found before the next round.
            if let Ok(shared) = self.shared() {
                self.set = shared;
            }
        }
        self.set.clone()
    }

    /// Whether chunks lie in the user's memory.
    fn is_in_place(&self) -> bool {
        self.set.erased().chunks.iter().any(|chunk| matches!(chunk.place, ChunkLocation::Memory { .. }))
    }

    /// The same array in another cut.
    pub fn recut(&self, slice_size: Option<u64>) -> Result<Array, DataError> {
        let may_change = !matches!(self.watch, Watch::Not);
        Array::new(self.memory.clone(), self.layout.clone(), slice_size, may_change)
    }

    /// Whether the memory is no longer what was named.
    pub fn changed(&self) -> bool {
        let chunks = &self.set.erased().chunks;
        match &self.watch {
            Watch::Not => false,
            Watch::Copy => spread(chunks, self.memory.len() as u64, |chunk| {
                let ChunkLocation::Shared { region, offset } = &chunk.place else { return true };
                let range = *offset as usize..(*offset + chunk.header.bytes) as usize;
                region.bytes(range.clone()) != self.memory[range]
            })
            .contains(&true),
            Watch::Sums(sums) => self.sums_now() != *sums,
        }
    }

    /// Looks whether the memory is still what was named; where it is not, chunks get their new names. Says whether that
    /// was so.
    pub fn refresh(&mut self) -> Result<bool, DataError> {
        let Array { memory, layout, .. } = &*self;
        let now = match &self.watch {
            Watch::Not => return Ok(false),
            Watch::Copy if !self.changed() => return Ok(false),
            Watch::Copy => Backing::Shared(array::copy(memory)?),
            // Another name for the same memory: what was copied of it before is of no use any more.
            Watch::Sums(_) => Backing::Memory(UserMemory::over(memory.clone())),
        };
        let rows = Rows::over(now, 0, layout.clone(), memory.len() as u64)?;
        let pieces = rows.pieces(rule(self.slice_size))?;
        let before = &self.set.erased().chunks;
        let (changed, new_sums) = match &self.watch {
            Watch::Sums(old) => {
                let new = self.sums_now();
                if new == *old {
                    return Ok(false);
                }
                (old.iter().zip(&new).map(|(old, new)| old != new).collect(), Some(new))
            }
            _ => {
                // The new copy with the old one: the memory itself may change at any moment.
                let differs = |chunk: &Arc<ChunkEntry>| {
                    let (ChunkLocation::Shared { region, offset }, Backing::Shared(now)) =
                        (&chunk.place, &rows.backing)
                    else {
                        return true;
                    };
                    let range = *offset as usize..(*offset + chunk.header.bytes) as usize;
                    region.bytes(range.clone()) != now.bytes(range)
                };
                (spread(before, memory.len() as u64, differs), None)
            }
        };
        let again: Vec<_> = pieces.into_iter().zip(before.iter().zip(changed)).collect();
        let entries = spread(&again, memory.len() as u64, |((header, offset), (before, changed))| {
            if *changed {
                let id = rows.backing.name_one(header, *offset)?;
                return Ok(ChunkEntry { id, header: header.clone(), place: rows.backing.place(*offset) });
            }
            let place = match (&self.watch, &before.place) {
                // Its copy in shared memory holds.
                (Watch::Sums(_), ChunkLocation::Shared { .. }) => before.place.clone(),
                _ => rows.backing.place(*offset),
            };
            Ok(ChunkEntry { id: before.id, header: header.clone(), place })
        });
        let entries = entries.into_iter().collect::<Result<Vec<_>, DataError>>()?;
        self.set = DataSet::of_chunks(entries, Arc::new(rows));
        if let Some(new) = new_sums {
            self.watch = Watch::Sums(new);
        }
        (self.rounds, self.changes) = (0, self.changes.saturating_add(1));
        Ok(true)
    }

    fn sums_now(&self) -> Vec<u128> {
        let pieces: Vec<(Header, u64)> =
            self.set.erased().chunks.iter().map(|c| (c.header.clone(), c.place.offset())).collect();
        sums(&self.memory, &pieces)
    }
}

fn sums(memory: &[u8], pieces: &[(Header, u64)]) -> Vec<u128> {
    traffic::note_summed(memory.len() as u64);
    spread(pieces, memory.len() as u64, |(header, offset)| {
        xxh3_128(&memory[*offset as usize..(offset + header.bytes) as usize])
    })
}

#[cfg(test)]
mod tests;
