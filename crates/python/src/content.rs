//! The hash of a chunk's content, by which interpreters keep what they have unpickled of it.
//!
//! Hashes of chunks in mapped regions, which never change, are computed once. Numbers of regions are not used again, so an entry
//! for a region that is gone is found by nobody.

use qjam_core::chunk::ChunkId;
use qjam_data::chunk::Raw;
use qjam_data::store::mapped;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Entries that are kept.
const KNOWN_MAX: usize = 1 << 16;

/// The name of a chunk without its last bytes, which is enough for one interpreter.
pub(super) type Content = [u8; 16];

/// Hashes by region, offset and length; `None` before the first.
type Known = Option<HashMap<(u64, usize, usize), Content>>;

static KNOWN: Mutex<Known> = Mutex::new(None);

/// The hash, if chunks of this kind are kept unpickled.
pub(super) fn of(chunk: &Raw) -> Option<Content> {
    if chunk.header.kind != "pickle5" {
        return None;
    }
    let place = mapped::find(&chunk.bytes).map(|(region, offset)| (region.id, offset, chunk.bytes.len()));
    if let Some(place) = place
        && let Some(known) = lock().get_or_insert_default().get(&place)
    {
        return Some(*known);
    }
    let mut content = [0; 16];
    content.copy_from_slice(&ChunkId::of(&chunk.header, &chunk.bytes).0[..16]);
    if let Some(place) = place {
        let mut known = lock();
        let known = known.get_or_insert_default();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(place, content);
    }
    Some(content)
}

fn lock() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}
