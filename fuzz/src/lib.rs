//! The fuzz targets, and what they share: a measure of how much memory an input makes a parser ask for.
//!
//! A few bytes that claim to be a gigabyte are the oldest trick against a parser. So each target states a bound on
//! what an input of a given length may cost, and [`bounded`] holds it to that.

pub mod targets;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, counting.
struct Counting;

/// Bytes allocated and not freed since the process began.
static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
/// The most that `LIVE_BYTES` has been since the last reset.
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn grown(bytes: usize) {
    let live = LIVE_BYTES.fetch_add(bytes, Relaxed) + bytes;
    PEAK_BYTES.fetch_max(live, Relaxed);
}

#[expect(unsafe_code, reason = "an allocator is unsafe by its nature; this one only counts and passes on")]
// SAFETY: every call goes to the system's allocator with the arguments it came with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller keeps the contract of this very method.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // Both the old and the new piece may be there while one is copied to the other.
        grown(new_size);
        LIVE_BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

/// Runs `work`, and asserts that at no moment it held more than `bytes_max` bytes that were not there before.
///
/// # Panics
/// When it did: that is the finding.
pub fn bounded<T>(bytes_max: usize, work: impl FnOnce() -> T) -> T {
    let before = LIVE_BYTES.load(Relaxed);
    PEAK_BYTES.store(before, Relaxed);
    let value = work();
    let held = PEAK_BYTES.load(Relaxed) - before;
    assert!(held <= bytes_max, "{held} bytes held at once, over the bound of {bytes_max}");
    value
}

/// Puts the inputs that a target begins from where libFuzzer looks for them.
///
/// # Panics
/// When they cannot be written.
pub fn plant(name: &str) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let write = |seeds: Vec<Vec<u8>>| -> std::io::Result<()> {
        std::fs::create_dir_all(&folder)?;
        for (index, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{index}")), seed)?;
        }
        Ok(())
    };
    let target = targets::ALL.iter().find(|target| target.name == name).expect("a target of that name");
    write((target.seeds)()).expect("the corpus can be written");
}

/// Panics in source files whose path has this part are no findings: the reader makes errors of them. libFuzzer's hook ends the process at
/// every other.
pub fn bear_panics_of(part: &'static str) {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |about| {
        if !about.location().is_some_and(|location| location.file().contains(part)) {
            hook(about);
        }
    }));
}
