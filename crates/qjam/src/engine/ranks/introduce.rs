//! Chunks on their way to the ranks that need them.
//!
//! Rank 0 says where it has them. On its own machine a rank maps the same memory and opens the same files; on another it
//! opens a file only if that is the same one, which a shared file system has it be. What it cannot find so is sent, once,
//! and kept for as long as rank 0 has the data set.

use super::wire::{Introduced, Shown};
use crate::chunk::{ChunkId, Header};
use crate::source::location::{ChunkEntry, ChunkLocation, FileStamp};
use crate::store::{Region, RegionMut};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

/// Where chunks of one sent batch begin: where any numbers may.
const ALIGN: u64 = 64;

/// Tells where a chunk may be found.
pub(super) fn show(entry: &ChunkEntry) -> Shown {
    match &entry.place {
        _ if entry.header.bytes == 0 => Shown::Empty,
        ChunkLocation::Shared { region, offset } => match rustix::fs::fstat(region.fd()) {
            Ok(stat) => Shown::Memory {
                pid: std::process::id(),
                fd: region.fd().as_raw_fd(),
                device: stat.st_dev,
                inode: stat.st_ino,
                bytes: region.len() as u64,
                offset: *offset,
            },
            Err(_) => Shown::Nowhere,
        },
        ChunkLocation::File { path, offset, stamp } => {
            let FileStamp { device, inode, bytes, modified_ns } = *stamp;
            let path = path.as_os_str().as_bytes().to_vec();
            Shown::File { path, offset: *offset, stamp: (device, inode, bytes, modified_ns) }
        }
        ChunkLocation::Memory { .. } => Shown::Nowhere,
    }
}

/// The chunks of one data set that a rank has.
#[derive(Default)]
pub(super) struct WorkerData {
    pub(super) entries: HashMap<u32, Arc<ChunkEntry>>,
    /// Memory of rank 0, by device and inode.
    regions: HashMap<(u64, u64), Region>,
}

/// A chunk that has to be sent.
pub(super) struct Missing {
    pub(super) index: u32,
    id: ChunkId,
    header: Header,
}

impl WorkerData {
    /// Takes in what can be found; says what cannot.
    pub(super) fn find(&mut self, chunks: Vec<Introduced>, is_same_machine: bool) -> Vec<Missing> {
        let mut missing = Vec::new();
        for Introduced { index, id, header, place } in chunks {
            match self.place(place, &header, is_same_machine) {
                Some(place) => drop(self.entries.insert(index, Arc::new(ChunkEntry { id, header, place }))),
                None => missing.push(Missing { index, id, header }),
            }
        }
        missing
    }

    fn place(&mut self, place: Shown, header: &Header, is_same_machine: bool) -> Option<ChunkLocation> {
        match place {
            Shown::Empty => Some(ChunkLocation::Shared { region: Region::copy_of(&[]).ok()?, offset: 0 }),
            Shown::Memory { pid, fd, device, inode, bytes, offset } if is_same_machine => {
                let region = match self.regions.entry((device, inode)) {
                    Entry::Occupied(known) => known.get().clone(),
                    Entry::Vacant(place) => {
                        let path = format!("/proc/{pid}/fd/{fd}");
                        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                        let opened: OwnedFd = rustix::fs::open(path, flags, Mode::empty()).ok()?;
                        let stat = rustix::fs::fstat(&opened).ok()?;
                        // Another process may have that number where this one looks.
                        if (stat.st_dev, stat.st_ino) != (device, inode) {
                            return None;
                        }
                        place.insert(Region::open(opened, bytes as usize).ok()?).clone()
                    }
                };
                (offset + header.bytes <= region.len() as u64)
                    .then_some(ChunkLocation::Shared { region, offset })
            }
            Shown::File { path, offset, stamp: (device, inode, bytes, modified_ns) } => {
                let path = PathBuf::from(OsString::from_vec(path));
                let now = FileStamp::of(&std::fs::metadata(&path).ok()?);
                // Machines that share a file system number it differently. What is read is compared with its name.
                let wanted = FileStamp {
                    device: if is_same_machine { device } else { now.device },
                    inode,
                    bytes,
                    modified_ns,
                };
                (now == wanted).then(|| ChunkLocation::File { path: path.into(), offset, stamp: now })
            }
            Shown::Memory { .. } | Shown::Nowhere => None,
        }
    }

    /// Takes in what is sent, in memory that was set aside for it. `fill` gets each chunk's place in turn.
    pub(super) fn receive(
        &mut self,
        missing: Vec<Missing>,
        mut filling: RegionMut,
        mut fill: impl FnMut(&mut [u8]),
    ) -> Result<(), String> {
        let mut at = 0;
        for Missing { header, .. } in &missing {
            fill(&mut filling.as_mut_slice()[at as usize..(at + header.bytes) as usize]);
            at += header.bytes.next_multiple_of(ALIGN);
        }
        let region = filling.seal().map_err(|e| e.to_string())?;
        let mut offset = 0;
        for Missing { index, id, header } in missing {
            let bytes = header.bytes;
            if ChunkId::of(&header, &region.bytes(offset as usize..(offset + bytes) as usize)) != id {
                return Err(format!("chunk {index} is not what its name says: {id}"));
            }
            let place = ChunkLocation::Shared { region: region.clone(), offset };
            self.entries.insert(index, Arc::new(ChunkEntry { id, header, place }));
            offset += bytes.next_multiple_of(ALIGN);
        }
        Ok(())
    }
}

/// Memory for chunks that are to be sent.
pub(super) fn room_for(missing: &[Missing]) -> Result<RegionMut, String> {
    let total: u64 = missing.iter().map(|m| m.header.bytes.next_multiple_of(ALIGN)).sum();
    // Pages of a file in memory are there only when they are written to, and then it is too late to say no.
    let spare = crate::memory::Limit::here().bytes;
    if total > spare {
        return Err(format!("{total} bytes of chunks, and its machine has {spare} for everything"));
    }
    RegionMut::create(total as usize).map_err(|e| format!("no memory for {total} bytes of chunks: {e}"))
}
