//! Packs of the cache: any bytes as a file of a cache's folder, which is opened, searched and verified.
//!
//! No chunk that differs from its name counts as good, and memory is bounded by a multiple of the input.

use super::{bounded, folder, write};
use qjam_cache::{Cache, verify};
use qjam_core::chunk::Header;
use std::path::PathBuf;

const FACTOR: usize = 64;
/// Chunks are compared with their names in pieces of a megabyte.
const SLACK_BYTES: usize = 4 << 20;
const CAP_BYTES: u64 = 64 << 20;

fn pack() -> PathBuf {
    let folder = folder("pack").join("cache");
    std::fs::create_dir_all(&folder).expect("the folder for temporary files can be written to");
    folder.join("0123456789abcdef.pack")
}

/// Tries an input.
pub fn target(input: &[u8]) {
    write(&pack(), input);
    bounded(FACTOR * input.len() + SLACK_BYTES, || {
        let first = verify(&folder("pack")).expect("a pack is never an error");
        let mut cache = Cache::open(Some(&folder("pack")), CAP_BYTES);
        cache.refresh();
        drop(cache);
        let again = verify(&folder("pack")).expect("a pack is never an error");
        assert!(again.bad == 0 && again.good <= first.good, "damaged chunks are dead after the first look");
    });
}

/// Inputs to begin from: packs that a cache has written.
pub fn seeds() -> Vec<Vec<u8>> {
    let dir = folder("pack-seed");
    let mut cache = Cache::open(Some(&dir), CAP_BYTES);
    for length in [3_u64, 64, 200] {
        let content = vec![7; length as usize];
        let header = Header { kind: "raw".into(), dtype: "u8".into(), shape: vec![length], bytes: length };
        let id = qjam_core::chunk::ChunkId::of(&header, &content);
        if let Ok(mut arriving) = cache.begin(id, header) {
            let _ = cache.write(&mut arriving, &content);
            let _ = cache.finish(arriving);
        }
    }
    drop(cache);
    let files = std::fs::read_dir(dir.join("cache")).into_iter().flatten().flatten();
    let packs =
        files.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "pack"));
    packs.filter_map(|path| std::fs::read(path).ok()).collect()
}
