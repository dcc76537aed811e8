//! What an executor knows of data sets: names of chunks, and where their bytes are.

use crate::chunk::{ChunkId, Header};
use crate::source::location::{ChunkEntry, ChunkLocation, FileStamp};
use crate::store::Region;
use qjam_core::ids::{DataSetId, RoundId};
use qjam_core::lease::BlockRange;
use qjam_core::reduce::Cut;
use qjam_core::wire::message::{self, Ref};
use rustix::fd::OwnedFd;
use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// Chunks of one data set, by index; slots look them up while the main thread adds.
pub(crate) type Entries = Arc<RwLock<HashMap<u32, Arc<ChunkEntry>>>>;

#[derive(Default)]
struct DataSetRecord {
    names: HashMap<u32, ChunkId>,
    entries: Entries,
}

/// Everything this executor has been told about data.
#[derive(Default)]
pub(crate) struct WorkerData {
    sets: HashMap<DataSetId, DataSetRecord>,
    /// Shared memory of the master, by number; a set's chunks may lie in several.
    regions: HashMap<u64, Region>,
    /// Who waits for a chunk that has been asked for.
    awaited: HashMap<ChunkId, Vec<(RoundId, DataSetId, u32)>>,
}

impl WorkerData {
    /// Takes in the names a task brought.
    pub(crate) fn introduce(&mut self, dataset: DataSetId, chunks: &[(u32, Vec<ChunkId>)]) {
        let set = self.sets.entry(dataset).or_default();
        for (first, ids) in chunks {
            set.names.extend((*first..).zip(ids.iter().copied()));
        }
    }

    pub(crate) fn entries(&mut self, dataset: DataSetId) -> Entries {
        self.sets.entry(dataset).or_default().entries.clone()
    }

    /// Chunks of these ranges that are not here, and the names to ask for (those not asked for already).
    pub(crate) fn missing(
        &mut self,
        round: RoundId,
        dataset: DataSetId,
        cut: Cut,
        ranges: &[BlockRange],
    ) -> Result<(Vec<u32>, Vec<ChunkId>), String> {
        let set = self.sets.entry(dataset).or_default();
        let entries = set.entries.read().unwrap_or_else(PoisonError::into_inner);
        let (mut missing, mut ask) = (Vec::new(), Vec::new());
        for block in ranges.iter().flat_map(BlockRange::blocks).take_while(|&b| b < cut.blocks()) {
            for index in cut.chunks_of(cut.node(block)) {
                if entries.contains_key(&index) {
                    continue;
                }
                let id = *set.names.get(&index).ok_or_else(|| format!("chunk {index} was never named"))?;
                let waiting = self.awaited.entry(id).or_default();
                // Once for each data set: what was asked for another may not come if that is dropped.
                if !waiting.iter().any(|(_, set, _)| *set == dataset) {
                    ask.push(id);
                }
                waiting.push((round, dataset, index));
                missing.push(index);
            }
        }
        Ok((missing, ask))
    }

    /// Takes in chunks that were asked for; says which rounds may go on with which.
    pub(crate) fn arrived(
        &mut self,
        refs: Vec<Ref>,
        mut take_fd: impl FnMut() -> Option<OwnedFd>,
    ) -> Result<HashMap<RoundId, Vec<u32>>, String> {
        let mut ready: HashMap<RoundId, Vec<u32>> = HashMap::new();
        for Ref { id, header, place } in refs {
            let place = match place {
                message::ByteLocation::Region { region, region_bytes, with_fd, offset } => {
                    if with_fd {
                        let fd = take_fd().ok_or("a message announced a descriptor and brought none")?;
                        let opened = Region::open(fd, region_bytes as usize)
                            .map_err(|e| format!("region {region}: {e}"))?;
                        self.regions.insert(region, opened);
                    }
                    self.inside(region, offset, &id, &header)?
                }
                message::ByteLocation::Pack { pack, pack_bytes, with_fd, offset } => {
                    if with_fd {
                        let fd = take_fd().ok_or("a message announced a descriptor and brought none")?;
                        let opened = Region::open_pack(fd, pack_bytes as usize)
                            .map_err(|e| format!("pack {pack}: {e}"))?;
                        self.regions.insert(pack, opened);
                    }
                    self.inside(pack, offset, &id, &header)?
                }
                message::ByteLocation::File { path, offset, stamp: (device, inode, bytes, modified_ns) } => {
                    ChunkLocation::File {
                        path: PathBuf::from(std::ffi::OsString::from_vec(path)).into(),
                        offset,
                        stamp: FileStamp { device, inode, bytes, modified_ns },
                    }
                }
            };
            let entry = Arc::new(ChunkEntry { id, header, place });
            // Nobody waits for it if its data set has been dropped meanwhile.
            for (round, dataset, index) in self.awaited.remove(&id).unwrap_or_default() {
                if let Some(set) = self.sets.get(&dataset) {
                    set.entries.write().unwrap_or_else(PoisonError::into_inner).insert(index, entry.clone());
                    ready.entry(round).or_default().push(index);
                }
            }
        }
        Ok(ready)
    }

    /// A place in a region that was introduced.
    fn inside(
        &self,
        region: u64,
        offset: u64,
        id: &ChunkId,
        header: &Header,
    ) -> Result<ChunkLocation, String> {
        let region =
            self.regions.get(&region).ok_or_else(|| format!("region {region} was never introduced"))?;
        if offset.checked_add(header.bytes).is_none_or(|end| end > region.len() as u64) {
            return Err(format!("chunk {id} lies outside its region"));
        }
        Ok(ChunkLocation::Shared { region: region.clone(), offset })
    }

    /// Drops a data set and regions; says which names nobody has any more.
    pub(crate) fn forget(&mut self, dataset: DataSetId, regions: &[u64]) -> HashSet<ChunkId> {
        for region in regions {
            self.regions.remove(region);
        }
        // What was asked for may never come now; who wants the same chunks for another data set asks again.
        self.awaited.retain(|_, waiting| {
            waiting.retain(|(_, set, _)| *set != dataset);
            !waiting.is_empty()
        });
        let Some(gone) = self.sets.remove(&dataset) else { return HashSet::new() };
        let mut unused: HashSet<ChunkId> = gone.names.into_values().collect();
        for id in self.sets.values().flat_map(|set| set.names.values()) {
            unused.remove(id);
        }
        unused
    }
}
