//! Chunks from a cloud, in the cache that this machine has on disk.
//!
//! Where blobs are not files, a chunk is fetched once and kept in the user's cache, by its name: workers that come back, and other
//! jobs over the same data, find it there. What comes from the bucket is compared with its name on the way in, and what others
//! have put into the cache before it is used.

use crate::pieces::Piece;
use qjam::engine::{LocatedChunk, MappedPack, Order};
use qjam::store::cache::{self, Cache, CachedChunk, DEFAULT_CAP_BYTES};
use qjam_core::chunk::{ChunkId, Header};
use std::collections::HashMap;
use std::io;

/// The cache, and what of it is mapped.
pub(crate) struct ChunkCache {
    cache: Cache,
    packs: HashMap<u64, MappedPack>,
}

impl ChunkCache {
    /// The cache of this user on this machine; in memory if there is no place for it on disk.
    pub(crate) fn open() -> ChunkCache {
        let cache = Cache::open(cache::home_dir().as_deref(), DEFAULT_CAP_BYTES);
        ChunkCache { cache, packs: HashMap::new() }
    }

    /// A chunk of an order, if it is here.
    pub(crate) fn find(&mut self, order: &Order, index: u32, id: &ChunkId) -> Option<LocatedChunk> {
        let found = self.cache.find(id)?;
        if !found.verified {
            let file = self.cache.file(found.pack)?;
            let is_good = Cache::check(&file, &found, id);
            self.cache.mark(id, is_good);
            if !is_good {
                return None;
            }
        }
        self.located(order, index, &found).ok()
    }

    /// Keeps the chunks of a piece, which must be what their names say.
    pub(crate) fn keep(
        &mut self,
        order: &Order,
        piece: &Piece,
        content: &[u8],
    ) -> io::Result<Vec<(ChunkId, LocatedChunk)>> {
        let named = order.chunk_names().zip(0..).skip(piece.chunks.start as usize).take(piece.chunks.len());
        let mut rest = content;
        let mut kept = Vec::new();
        for ((id, header), index) in named {
            let damaged = || io::Error::new(io::ErrorKind::InvalidData, "what is in the bucket is too short");
            let (own, others) = rest.split_at_checked(header.bytes as usize).ok_or_else(damaged)?;
            rest = others;
            let located = match self.find(order, index, &id) {
                Some(located) => located,
                None => self.keep_one(order, index, (id, header.clone()), own)?,
            };
            kept.push((id, located));
        }
        Ok(kept)
    }

    fn keep_one(
        &mut self,
        order: &Order,
        index: u32,
        (id, header): (ChunkId, Header),
        content: &[u8],
    ) -> io::Result<LocatedChunk> {
        let mut arriving = self.cache.begin(id, header)?;
        if let Err(e) = self.cache.write(&mut arriving, content) {
            self.cache.abandon(arriving);
            return Err(e);
        }
        let kept = self.cache.finish(arriving).map_err(io::Error::other)?;
        self.located(order, index, &kept)
    }

    /// What is wrong with the cache, told once.
    pub(crate) fn trouble(&mut self) -> Option<String> {
        self.cache.trouble()
    }

    fn located(&mut self, order: &Order, index: u32, found: &CachedChunk) -> io::Result<LocatedChunk> {
        if !self.packs.contains_key(&found.pack) {
            let file = self.cache.file(found.pack).ok_or_else(|| io::Error::other("the pack is not open"))?;
            self.packs.insert(found.pack, MappedPack::open(file.try_clone()?, found.pack_bytes)?);
        }
        Ok(order.chunk_in_pack(index, &self.packs[&found.pack], found.offset))
    }
}
