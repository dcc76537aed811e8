//! The promises of all engines, on a bucket that workers share: a folder, or a cloud that `QJAM_TEST_STORE` names.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is test")]

use place::TestBucket;
use qjam_conformance::{Engine, run};
use qjam_store::serve::{ServeOptions, serve};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

mod place;

qjam_conformance::hook!();

/// Workers end when their master has been gone for this long.
const IDLE_EXIT: Duration = Duration::from_secs(20);

/// The buckets of all masters, which are removed at the end.
static PLACES: Mutex<Vec<TestBucket>> = Mutex::new(Vec::new());

/// A bucket with so many workers, which serve as long as there is a master.
fn bucket(workers: u32) -> String {
    let place = TestBucket::new("promises");
    for worker in 0..workers {
        let options = ServeOptions {
            address: place.address(),
            key: None,
            slots: 1,
            cache_bytes: 1 << 28,
            name: format!("w{worker}"),
            idle_exit: Some(IDLE_EXIT),
        };
        std::thread::spawn(move || serve(&options, || true, |_| {}));
    }
    let url = place.url();
    PLACES.lock().unwrap_or_else(PoisonError::into_inner).push(place);
    url
}

fn main() -> ExitCode {
    // Servers of clouds on this machine are slow, and every promise is a few thousand requests.
    let shapes: &[&str] =
        if place::kind() == "folder" { &["store:1", "store:2", "store:3"] } else { &["store:2"] };
    let store = Engine::with(
        "store",
        shapes,
        |n| format!("store:{n}"),
        |builder, shape| {
            let count = shape.trim_start_matches("store:").parse().unwrap();
            builder.connect(&format!("store:{}", bucket(count)))
        },
    );
    let code = run(&[store], &[]);
    PLACES.lock().unwrap_or_else(PoisonError::into_inner).clear();
    code
}
