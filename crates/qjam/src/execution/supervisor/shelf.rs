//! The supervisor's disk: a thread that keeps the cache.
//!
//! Looking a chunk up means hashing it, and taking one in means writing it, and a disk may take its time for either.
//! The loop that keeps the connection alive must not wait for that, so it hands orders over and is rung when there is
//! an answer. How many bytes are on their way to the disk is counted, so that the loop stops reading when it is slow.

use super::stamps::{PackStamp, Stamps};
use crate::chunk::{ChunkId, Header};
use crate::store::cache::{self, Arriving, Cache, CachedChunk, FinishError};
use qjam_core::ids::WorkerId;
use qjam_core::wire::host::{CacheFacts, CacheOrder};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// A request of the supervisor to the thread that uses the disk.
pub(super) enum ShelfRequest {
    /// Begin, with at most so many bytes on disk.
    Open { bytes_max: Option<u64> },
    /// Which of these are here?
    Find(Vec<ChunkId>),
    /// A chunk arrives.
    Begin(ChunkId, Header),
    /// Its next bytes.
    Write(Vec<u8>),
    /// Its rest does not come.
    Abandon,
    /// These packs are not used any more.
    LetGo(Vec<u64>),
    /// See whether chunks are to be compared again.
    Recheck,
    /// What a user wants of the cache.
    Cache(CacheOrder),
}

/// A chunk and where it is.
pub(super) struct ShelvedChunk {
    pub(super) id: ChunkId,
    pub(super) header: Header,
    pub(super) pack: u64,
    pub(super) pack_bytes: u64,
    pub(super) file: Arc<OwnedFd>,
    pub(super) offset: u64,
}

/// What the disk has for the loop.
pub(super) enum ShelfReply {
    Here(Vec<ShelvedChunk>),
    Missing(Vec<ChunkId>),
    /// It cannot be used, for this reason.
    Refused(ChunkId, String),
    Trouble(String),
    Cached(CacheFacts),
    /// For whom chunks were compared again, and those that are not what their names say any more.
    Rechecked(WorkerId, Vec<ChunkId>),
}

/// The thread, as the loop sees it.
pub(super) struct Shelf {
    orders: Sender<ShelfRequest>,
    replies: Receiver<ShelfReply>,
    bell: Arc<OwnedFd>,
    queued: Arc<AtomicUsize>,
    stamps: Stamps,
    doubted: Arc<Mutex<Vec<HandedPacks>>>,
}

/// An executor, and the chunks that it uses of each pack.
pub(super) type HandedPacks = (WorkerId, Vec<(u64, Vec<ChunkId>)>);

impl Shelf {
    pub(super) fn start(dir: PathBuf) -> io::Result<Shelf> {
        let (stamps, doubted) = (Stamps::default(), Arc::new(Mutex::default()));
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let queued = Arc::new(AtomicUsize::new(0));
        let (orders, requests) = channel();
        let (to_loop, replies) = channel();
        let mut disk = DiskThread {
            dir,
            cache: None,
            arriving: None,
            replies: to_loop,
            bell: bell.clone(),
            queued: queued.clone(),
            stamps: stamps.clone(),
            doubted: doubted.clone(),
        };
        std::thread::Builder::new().name("qjam-shelf".into()).spawn(move || {
            for order in requests {
                // Results wait for this: it comes before what is still to be written.
                disk.recheck();
                disk.obey(order);
            }
        })?;
        Ok(Shelf { orders, replies, bell, queued, stamps, doubted })
    }

    pub(super) fn order(&self, order: ShelfRequest) {
        if let ShelfRequest::Write(bytes) = &order {
            self.queued.fetch_add(bytes.len(), Relaxed);
        }
        // The thread ends only with the process.
        let _ = self.orders.send(order);
    }

    /// Whether nobody else has written to a pack since its chunks were compared with their names.
    pub(super) fn holds(&self, pack: u64, file: &OwnedFd) -> bool {
        self.stamps.hold(pack, file)
    }

    /// Has chunks compared with their names again, if their packs have been written to.
    pub(super) fn recheck(&self, handed: HandedPacks) {
        self.doubted.lock().unwrap_or_else(PoisonError::into_inner).push(handed);
        self.order(ShelfRequest::Recheck);
    }

    /// Bytes on their way to the disk.
    pub(super) fn queued_bytes(&self) -> usize {
        self.queued.load(Relaxed)
    }

    pub(super) fn replies(&self) -> Vec<ShelfReply> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.bell, &mut count);
        self.replies.try_iter().collect()
    }
}

impl AsFd for Shelf {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

struct DiskThread {
    dir: PathBuf,
    cache: Option<Cache>,
    /// The chunk that arrives, with the bytes it still lacks.
    arriving: Option<(ChunkId, Arriving, u64)>,
    replies: Sender<ShelfReply>,
    bell: Arc<OwnedFd>,
    queued: Arc<AtomicUsize>,
    stamps: Stamps,
    doubted: Arc<Mutex<Vec<HandedPacks>>>,
}

impl DiskThread {
    fn say(&self, reply: ShelfReply) {
        tell(&self.replies, &self.bell, reply);
    }

    fn ring(&self) {
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    fn obey(&mut self, order: ShelfRequest) {
        match order {
            ShelfRequest::Open { bytes_max } => {
                let cap = bytes_max.unwrap_or(cache::DEFAULT_CAP_BYTES);
                self.cache = Some(Cache::open(Some(&self.dir), cap));
            }
            ShelfRequest::Find(ids) => self.find(ids),
            ShelfRequest::Begin(id, header) => self.begin(id, header),
            ShelfRequest::Write(bytes) => {
                self.write(&bytes);
                // The loop may be waiting for this to shrink.
                self.queued.fetch_sub(bytes.len(), Relaxed);
                self.ring();
            }
            ShelfRequest::Abandon => {
                if let (Some((_, arriving, _)), Some(cache)) = (self.arriving.take(), &mut self.cache) {
                    self.stamps.across(cache, false, |cache| cache.abandon(arriving));
                }
            }
            ShelfRequest::LetGo(packs) => {
                if let Some(cache) = &mut self.cache {
                    self.stamps.forget(&packs);
                    packs.into_iter().for_each(|pack| cache.let_go(pack));
                }
            }
            // Done already.
            ShelfRequest::Recheck => {}
            ShelfRequest::Cache(order) => {
                let facts = carry_out(&self.dir, order);
                self.say(ShelfReply::Cached(facts));
            }
        }
        if let Some(trouble) = self.cache.as_mut().and_then(Cache::trouble) {
            self.say(ShelfReply::Trouble(trouble));
        }
    }

    /// Looks for chunks and compares with their names those that nobody has compared yet.
    fn find(&mut self, ids: Vec<ChunkId>) {
        let Some(cache) = &mut self.cache else { return self.say(ShelfReply::Missing(ids)) };
        cache.refresh();
        // Comparing takes a while. What is not here can be on its way meanwhile.
        let (listed, absent): (Vec<ChunkId>, Vec<ChunkId>) =
            ids.into_iter().partition(|id| cache.find(id).is_some());
        let mut missing = Vec::new();
        let mut here = Vec::new();
        if !absent.is_empty() {
            tell(&self.replies, &self.bell, ShelfReply::Missing(absent));
        }
        for id in listed {
            match look_up(cache, &self.stamps, id) {
                Some(found) => here.push(found),
                None => missing.push(id),
            }
            if here.len() == 64 {
                tell(&self.replies, &self.bell, ShelfReply::Here(std::mem::take(&mut here)));
            }
        }
        if !here.is_empty() {
            self.say(ShelfReply::Here(here));
        }
        if !missing.is_empty() {
            self.say(ShelfReply::Missing(missing));
        }
    }

    fn begin(&mut self, id: ChunkId, header: Header) {
        let Some(cache) = &mut self.cache else { return };
        let bytes = header.bytes;
        match self.stamps.across(cache, true, |cache| cache.begin(id, header)) {
            Ok(arriving) => {
                self.arriving = Some((id, arriving, bytes));
                if bytes == 0 {
                    self.finish();
                }
            }
            Err(e) => self.say(ShelfReply::Refused(id, no_room(&e))),
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        let (Some((id, mut arriving, left)), Some(cache)) = (self.arriving.take(), &mut self.cache) else {
            return;
        };
        let written = self.stamps.across(cache, false, |cache| cache.write(&mut arriving, bytes));
        if let Err(e) = written {
            self.stamps.across(cache, false, |cache| cache.abandon(arriving));
            return self.say(ShelfReply::Refused(id, no_room(&e)));
        }
        let left = left.saturating_sub(bytes.len() as u64);
        self.arriving = Some((id, arriving, left));
        if left == 0 {
            self.finish();
        }
    }

    fn finish(&mut self) {
        let (Some((id, arriving, _)), Some(cache)) = (self.arriving.take(), &mut self.cache) else { return };
        let found = match self.stamps.across(cache, false, |cache| cache.finish(arriving)) {
            Ok(_) => look_up(cache, &self.stamps, id),
            Err(FinishError::Mismatch { .. }) => None,
            Err(FinishError::Io { source, .. }) => {
                return self.say(ShelfReply::Refused(id, no_room(&source)));
            }
        };
        let changed = || format!("its content is not what it was when the data set was made ({id})");
        match found {
            Some(found) => self.say(ShelfReply::Here(vec![found])),
            None => self.say(ShelfReply::Refused(id, changed())),
        }
    }
}

impl DiskThread {
    /// Compares chunks with their names again, of packs that others have written to.
    fn recheck(&mut self) {
        let doubted = std::mem::take(&mut *self.doubted.lock().unwrap_or_else(PoisonError::into_inner));
        for (worker, handed) in doubted {
            let bad = self.bad_chunks(handed);
            self.say(ShelfReply::Rechecked(worker, bad));
        }
    }

    fn bad_chunks(&mut self, handed: Vec<(u64, Vec<ChunkId>)>) -> Vec<ChunkId> {
        let mut bad = Vec::new();
        for (pack, ids) in handed {
            let Some(cache) = &mut self.cache else { continue };
            let Some(file) = cache.file(pack) else { continue };
            // Taken first: what is written while chunks are compared is seen the next time.
            let stamp = PackStamp::of(&*file);
            if self.stamps.hold(pack, &*file) {
                continue; // it was this process
            }
            cache.distrust(pack);
            self.stamps.set(pack, stamp);
            for id in ids {
                let spot = cache.find(&id).filter(|spot| spot.pack == pack);
                let good = spot.is_some_and(|spot| Cache::check(&file, &spot, &id));
                mark(cache, &self.stamps, &id, good);
                if !good {
                    bad.push(id);
                }
            }
        }
        bad
    }
}

fn tell(replies: &Sender<ShelfReply>, bell: &OwnedFd, reply: ShelfReply) {
    let _ = replies.send(reply);
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

fn no_room(error: &io::Error) -> String {
    format!("the host has no room for it, neither on disk nor in memory: {error}")
}

/// Does what a user wants of the cache, and says what it is like after that.
pub(crate) fn carry_out(dir: &Path, order: CacheOrder) -> CacheFacts {
    let mut facts = CacheFacts::default();
    let done = match order {
        CacheOrder::Survey => Ok(()),
        CacheOrder::Clear => cache::clear(dir).map(|bytes| facts.removed_bytes = bytes),
        CacheOrder::Verify => cache::verify(dir).map(|verified| {
            facts.verified = verified.good + verified.bad;
            facts.damaged = verified.bad;
        }),
        CacheOrder::Cap(bytes_max) => cache::set_cap(dir, bytes_max),
    };
    match done.and_then(|()| cache::survey(dir)) {
        Ok(report) => {
            facts.folder = report.dir.display().to_string();
            facts.packs = report.packs;
            facts.chunks = report.chunks;
            facts.bytes = report.bytes;
            facts.cap_bytes = report.cap_bytes;
            facts.free_bytes = free_bytes(&report.dir);
        }
        Err(e) => facts.trouble = Some(e.to_string()),
    }
    facts
}

/// What is free on the disk of a folder, or of the first around it that is there.
fn free_bytes(folder: &Path) -> u64 {
    let stat = folder.ancestors().find_map(|folder| rustix::fs::statvfs(folder).ok());
    stat.map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Takes note of what a chunk is like. One that is bad is marked in its pack.
fn mark(cache: &mut Cache, stamps: &Stamps, id: &ChunkId, good: bool) {
    match good {
        true => cache.mark(id, true),
        false => stamps.across(cache, true, |cache| cache.mark(id, false)),
    }
}

fn look_up(cache: &mut Cache, stamps: &Stamps, id: ChunkId) -> Option<ShelvedChunk> {
    let spot = cache.find(&id)?;
    let file = cache.file(spot.pack)?;
    // The stamp of a changed pack stays as it was until all chunks in use have been compared.
    let is_changed = stamps.is_changed(spot.pack, &*file);
    if !spot.verified || is_changed {
        let good = Cache::check(&file, &spot, &id);
        mark(cache, stamps, &id, good);
        if !good {
            return None;
        }
    }
    let CachedChunk { pack, pack_bytes, offset, header, .. } = spot;
    Some(ShelvedChunk { id, header, pack, pack_bytes, file, offset })
}
