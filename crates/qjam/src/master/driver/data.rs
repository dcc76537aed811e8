//! Data sets that workers have been told about, and shared memory for parameters.

use super::Driver;
use super::admission::Admitted;
use crate::arenas::OwnArenas;
use crate::chunk::ChunkId;
use crate::dataset::CutData;
use crate::engine::seat::Gone;
use qjam_core::ids::DataSetId;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

/// One of them.
struct Known {
    /// Every owner: the same cut may be made several times.
    owners: Vec<Weak<CutData>>,
    index: HashMap<ChunkId, u32>,
    /// What it takes of memory, once that has been found to be there.
    admitted: Option<Admitted>,
}

/// All of them.
#[derive(Default)]
pub(super) struct KnownData {
    sets: HashMap<DataSetId, Known>,
    /// Shared memory that parameters are written to.
    pub(super) arenas: OwnArenas,
}

impl KnownData {
    /// Positions of these chunks in a data set; `Err` if one is not of it.
    pub(super) fn indices(&self, dataset: &DataSetId, chunks: &[ChunkId]) -> Result<Vec<u32>, String> {
        let known = self.sets.get(dataset).ok_or("a data set nobody knows")?;
        let find = |id: &ChunkId| {
            let index = known.index.get(id).copied();
            index.ok_or_else(|| format!("it asked for chunk {id}, which is not of its data set"))
        };
        chunks.iter().map(find).collect()
    }

    /// Data sets that have these chunks, and where in them they are.
    pub(super) fn find_anywhere(&self, chunks: &[ChunkId]) -> Vec<(Arc<CutData>, Vec<u32>)> {
        let mut left: HashSet<&ChunkId> = chunks.iter().collect();
        let mut found = Vec::new();
        for known in self.sets.values() {
            let Some(data) = known.owners.iter().find_map(Weak::upgrade) else { continue };
            let present = chunks.iter().filter_map(|id| Some((id, *known.index.get(id)?)));
            let indices: Vec<u32> =
                present.filter(|(id, _)| left.remove(id)).map(|(_, index)| index).collect();
            if !indices.is_empty() {
                found.push((data, indices));
            }
        }
        found
    }

    /// All data sets that have a chunk, and where.
    pub(super) fn all_with(&self, chunk: &ChunkId) -> Vec<(DataSetId, u32)> {
        self.sets.iter().filter_map(|(id, known)| Some((*id, *known.index.get(chunk)?))).collect()
    }

    /// What a data set was found to take of memory.
    pub(super) fn admitted(&mut self, dataset: &DataSetId) -> Option<&mut Option<Admitted>> {
        self.sets.get_mut(dataset).map(|known| &mut known.admitted)
    }

    /// Takes note of a data set. Gives those that nobody owns any more, with the chunks they had.
    fn remember(&mut self, data: &Arc<CutData>) -> Vec<(DataSetId, HashMap<ChunkId, u32>)> {
        if let Some(known) = self.sets.get_mut(&data.located) {
            if !known.owners.iter().any(|owner| std::ptr::eq(owner.as_ptr(), Arc::as_ptr(data))) {
                known.owners.retain(|owner| owner.strong_count() > 0);
                known.owners.push(Arc::downgrade(data));
            }
            return Vec::new();
        }
        let is_gone = |known: &Known| known.owners.iter().all(|owner| owner.strong_count() == 0);
        let gone: Vec<DataSetId> =
            self.sets.iter().filter(|(_, known)| is_gone(known)).map(|(id, _)| *id).collect();
        let index = (0..).zip(&data.chunks).map(|(n, c)| (c.id, n)).collect();
        let known = Known { owners: vec![Arc::downgrade(data)], index, admitted: None };
        let gone = gone.into_iter().filter_map(|id| Some((id, self.sets.remove(&id)?.index))).collect();
        self.sets.insert(data.located, known);
        gone
    }
}

impl Driver {
    /// Takes note of a data set, and has workers drop those that are gone.
    pub(super) fn remember(&mut self, data: &Arc<CutData>) {
        for (id, chunks) in self.data.remember(data) {
            self.seats.tools.open.forget(|chunk| chunks.contains_key(chunk));
            self.announce(Gone::DataSet(id));
        }
    }
}
