//! Workers without a job cost next to nothing: they look around seldom, and their looks are counted, not timed.

use qjam_store::Address;
use qjam_store::serve::{ServeOptions, serve};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

qjam::worker_hook!();

const WORKERS: u32 = 50;
/// Looks of a worker that has just come: they become rarer by half each, from a millisecond to a second.
const FIRST_LOOKS: u32 = 20;
/// A worker is ended after so many.
const LOOKS: u32 = FIRST_LOOKS + 4;

#[test]
fn fifty_idle_workers_look_around_once_a_second_each() {
    let folder = std::env::temp_dir().join(format!("qjam-idle-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let began = Instant::now();
    let total = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for n in 0..WORKERS {
            let (total, folder) = (&total, folder.clone());
            scope.spawn(move || {
                let options = ServeOptions {
                    address: Address::Folder(folder),
                    key: None,
                    slots: 1,
                    cache_bytes: 1 << 20,
                    name: format!("w{n}"),
                    idle_exit: None,
                };
                let mut looks = 0;
                let goes_on = || {
                    looks += 1;
                    total.fetch_add(1, Relaxed);
                    looks < LOOKS
                };
                serve(&options, goes_on, |_| {}).expect("a bucket");
            });
        }
    });
    // A slow machine makes this time longer, and never shorter.
    let seconds = began.elapsed().as_secs_f64();
    let allowed = f64::from(WORKERS) * (f64::from(FIRST_LOOKS) + seconds);
    let total = f64::from(total.into_inner());
    assert!(total <= allowed, "{total} looks in {seconds:.1} s: others' comings and goings wake them");
    // Nothing is left of them.
    assert_eq!(std::fs::read_dir(folder.join("blobs/workers")).map_or(0, Iterator::count), 0);
    std::fs::remove_dir_all(&folder).expect("it can be removed");
}
