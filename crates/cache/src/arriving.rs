//! Chunks on their way into the cache: their bytes as they come, and the commit.

use super::index::Entry;
use super::record::{self, Record};
use super::{Cache, CachedChunk, STEP_BYTES, size};
use qjam_core::chunk::{ChunkId, Hasher, Header};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A chunk that is arriving. It ends with [`Cache::finish`] or [`Cache::abandon`].
#[must_use]
pub struct Arriving {
    id: ChunkId,
    header: Header,
    hasher: Hasher,
    /// What commits the record.
    area: Vec<u8>,
    pack: u64,
    /// Where its record begins.
    at: u64,
    file: Arc<OwnedFd>,
    on_disk: bool,
    written: u64,
}

impl Arriving {
    fn record_bytes(&self) -> u64 {
        record_bytes(&self.area, &self.header)
    }

    fn payload_at(&self) -> u64 {
        self.at + self.area.len() as u64
    }
}

/// Why a chunk did not get into the cache.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    /// What arrived is not what was announced.
    #[error(
        "chunk {id} arrived damaged: {written} of {bytes} bytes, and they hash to {found}; it is to be sent again"
    )]
    Mismatch {
        /// The name that was announced.
        id: ChunkId,
        /// The name of what arrived.
        found: ChunkId,
        /// Bytes that arrived.
        written: u64,
        /// Bytes that were announced.
        bytes: u64,
    },
    /// Neither disk nor memory takes it.
    #[error("chunk {id} cannot be kept: {source}")]
    Io {
        /// The chunk.
        id: ChunkId,
        /// What the system said.
        source: io::Error,
    },
}

impl Cache {
    /// Makes room for a chunk that is about to arrive. An error means that not even memory is to be had, or that there
    /// can be no such chunk.
    pub fn begin(&mut self, id: ChunkId, header: Header) -> io::Result<Arriving> {
        let area = Record::encode(&id, &header)?;
        let pack = self.room_for(record_bytes(&area, &header))?;
        self.arrive_in(pack, id, header, area)
    }

    /// Takes in the next bytes. When the disk fails, what has come so far moves to memory.
    pub fn write(&mut self, arriving: &mut Arriving, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() as u64 > arriving.header.bytes - arriving.written {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "more bytes than the chunk has"));
        }
        self.put(arriving, Part::Payload(bytes))?;
        arriving.hasher.update(bytes);
        arriving.written += bytes.len() as u64;
        Ok(())
    }

    /// Commits a chunk that has arrived, if it is what its name says.
    pub fn finish(&mut self, mut arriving: Arriving) -> Result<CachedChunk, FinishError> {
        let id = arriving.id;
        let found = std::mem::replace(&mut arriving.hasher, Hasher::new(&arriving.header)).finish();
        if found != id {
            let (written, bytes) = (arriving.written, arriving.header.bytes);
            self.abandon(arriving);
            return Err(FinishError::Mismatch { id, found, written, bytes });
        }
        if let Err(source) = self.put(&mut arriving, Part::Area) {
            self.abandon(arriving);
            return Err(FinishError::Io { id, source });
        }
        self.index.insert(id, Entry { pack: arriving.pack, at: arriving.at, verified: true });
        self.settle(arriving.pack);
        Ok(CachedChunk {
            pack: arriving.pack,
            pack_bytes: self.packs.get(&arriving.pack).map_or(0, |pack| pack.span_bytes),
            offset: arriving.payload_at(),
            header: arriving.header,
            verified: true,
        })
    }

    /// Lets go of a chunk that does not arrive after all.
    pub fn abandon(&mut self, arriving: Arriving) {
        if let Some(pack) = self.packs.get_mut(&arriving.pack) {
            pack.give_up(arriving.at);
        }
        self.settle(arriving.pack);
    }

    /// Nothing arrives in this pack any more. If another one was begun meanwhile, it is closed.
    fn settle(&mut self, number: u64) {
        let is_current = self.current == Some(number) || self.current_memory == Some(number);
        if let Some(pack) = self.packs.get_mut(&number) {
            pack.arriving = false;
            if !is_current {
                pack.close(self.folder.as_deref());
            }
        }
    }

    fn arrive_in(&mut self, pack: u64, id: ChunkId, header: Header, area: Vec<u8>) -> io::Result<Arriving> {
        let missing = || io::Error::other("the pack is not open");
        let to = self.packs.get_mut(&pack).ok_or_else(missing)?;
        let file = to.writer.clone().ok_or_else(missing)?;
        let at = to.reserve(record_bytes(&area, &header));
        let hasher = Hasher::new(&header);
        Ok(Arriving { id, header, hasher, area, pack, at, file, on_disk: to.name.is_some(), written: 0 })
    }

    /// Writes a part of a record, making room on a full disk and moving to memory when that does not help.
    fn put(&mut self, arriving: &mut Arriving, part: Part<'_>) -> io::Result<()> {
        loop {
            let (bytes, at) = match part {
                Part::Payload(bytes) => (bytes, arriving.payload_at() + arriving.written),
                Part::Area => (&*arriving.area, arriving.at),
            };
            let full = |e: &io::Error| {
                let number = Errno::from_io_error(e);
                number == Some(Errno::NOSPC) || number == Some(Errno::DQUOT)
            };
            match self.write_at(arriving, bytes, at) {
                Err(e) if arriving.on_disk && full(&e) && self.evict_oldest() => {}
                Err(e) if arriving.on_disk => self.move_to_memory(arriving, &e)?,
                done => return done,
            }
        }
    }

    fn write_at(&mut self, arriving: &Arriving, bytes: &[u8], at: u64) -> io::Result<()> {
        #[cfg(test)]
        if let Some(left) = self.disk_left_bytes.as_mut().filter(|_| arriving.on_disk) {
            *left = left.checked_sub(bytes.len() as u64).ok_or(Errno::NOSPC)?;
        }
        record::write_all_at(&*arriving.file, bytes, at)
    }

    fn evict_oldest(&mut self) -> bool {
        let Some(folder) = &self.folder else { return false };
        let Some(name) = folder.lock().ok().and_then(|locked| folder.evict_oldest(&locked)) else {
            return false;
        };
        self.forget_names(&[name]);
        true
    }

    /// Goes on in memory, with what has already been written of this chunk.
    fn move_to_memory(&mut self, arriving: &mut Arriving, error: &io::Error) -> io::Result<()> {
        let needed = size(arriving.header.bytes);
        let path = self.folder.as_ref().map(|folder| folder.path.display().to_string()).unwrap_or_default();
        self.disk_is_off(format!("a chunk of {needed} cannot be written to the cache in {path}: {error}"));
        let pack = self.memory_for(arriving.record_bytes())?;
        let (id, header) = (arriving.id, arriving.header.clone());
        let moved = self.arrive_in(pack, id, header, arriving.area.clone())?;
        let mut buffer = vec![0; STEP_BYTES];
        let mut done = 0;
        while done < arriving.written {
            let step = (arriving.written - done).min(STEP_BYTES as u64);
            let piece = &mut buffer[..step as usize];
            record::read_exact_at(&*arriving.file, piece, arriving.payload_at() + done)?;
            record::write_all_at(&*moved.file, piece, moved.payload_at() + done)?;
            done += step;
        }
        // The hasher has seen these bytes; it goes along.
        let hasher = std::mem::replace(&mut arriving.hasher, Hasher::new(&arriving.header));
        let moved = Arriving { hasher, written: arriving.written, ..moved };
        let left = std::mem::replace(arriving, moved);
        self.abandon(left);
        if let Some(old) = self.current.take()
            && let Some(pack) = self.packs.get_mut(&old)
        {
            pack.close(self.folder.as_deref());
        }
        Ok(())
    }
}

/// The bytes to write next: of the payload, or those that commit the record.
#[derive(Clone, Copy)]
enum Part<'a> {
    Payload(&'a [u8]),
    Area,
}

fn record_bytes(area: &[u8], header: &Header) -> u64 {
    record::aligned(area.len() as u64 + header.bytes)
}
