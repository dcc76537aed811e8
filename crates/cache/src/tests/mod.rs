mod basics;
mod damage;
mod full;
mod private;
mod sharing;
mod speed;

use super::*;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A cap under which packs are of 1 MiB.
const SMALL_CAP: u64 = 8 << 20;

/// A directory of its own for each test.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new() -> TestFolder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("qjam-cache-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        TestFolder(path)
    }

    fn open(&self) -> Cache {
        self.open_with(DEFAULT_CAP_BYTES)
    }

    fn open_with(&self, cap_bytes: u64) -> Cache {
        Cache::open(Some(&self.0), cap_bytes)
    }

    fn packs(&self) -> Vec<PathBuf> {
        let mut packs: Vec<_> = std::fs::read_dir(self.0.join("cache"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ext| ext == "pack"))
            .collect();
        packs.sort();
        packs
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The chunk with this number: header, bytes, name.
fn chunk(number: u64, bytes: u64) -> (Header, Vec<u8>, ChunkId) {
    let header = Header { kind: "list".into(), dtype: "u8".into(), shape: vec![number], bytes };
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let payload: Vec<u8> = (0..bytes)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect();
    let id = ChunkId::of(&header, &payload);
    (header, payload, id)
}

fn add(cache: &mut Cache, number: u64, bytes: u64) -> (ChunkId, CachedChunk) {
    let (header, payload, id) = chunk(number, bytes);
    let mut arriving = cache.begin(id, header).unwrap();
    payload.chunks(10_000).for_each(|piece| cache.write(&mut arriving, piece).unwrap());
    (id, cache.finish(arriving).unwrap())
}

fn is_good(cache: &Cache, spot: &CachedChunk, id: &ChunkId) -> bool {
    Cache::check(&cache.file(spot.pack).unwrap(), spot, id)
}

fn has_good(cache: &mut Cache, id: &ChunkId) -> bool {
    cache.find(id).is_some_and(|spot| is_good(cache, &spot, id))
}

/// Programs that tests start: this executable again, which runs one of these before its `main`. Each is told a folder.
const PROGRAMS: &[(&str, Program)] = &[
    ("full disk", full::on_a_full_disk),
    ("read-only disk", full::on_a_read_only_disk),
    ("writer", sharing::writer),
    ("umask", private::under_a_umask),
];
type Program = fn(&Path);
const PROGRAM: &str = "QJAM_CACHE_TEST_PROGRAM";
const FOLDER: &str = "QJAM_CACHE_TEST_FOLDER";
/// What each says first.
const BEGUN: &str = "@ begun";

/// The variables that make this executable a program.
fn as_program(name: &str, folder: &Path) -> [(&'static str, std::ffi::OsString); 2] {
    [(PROGRAM, name.into()), (FOLDER, folder.into())]
}

extern "C" fn before_main() {
    let (Ok(name), Some(folder)) = (std::env::var(PROGRAM), std::env::var_os(FOLDER)) else { return };
    let (_, program) = PROGRAMS.iter().find(|(own, _)| *own == name).expect("a program of that name");
    println!("{BEGUN}");
    let ended = std::panic::catch_unwind(|| program(Path::new(&folder)));
    std::process::exit(if ended.is_ok() { 0 } else { 101 });
}

#[used]
#[expect(unsafe_code, reason = "there is no other way to run before main")]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;
