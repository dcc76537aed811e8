//! The process that a person starts, and ends: it does nothing but wait for the worker, which is its child.
//!
//! However it ends, by a signal, with its terminal or with its machine's notice, the worker sees that a pipe between them is closed.
//! It puts its task back for others to take at once, and leaves. No signal needs to be caught for that.

use super::worker::{ServeOptions, serve};
use crate::StoreError;
use linkme::distributed_slice;
use qjam::engine::provider::{CrewEntry, ENTRIES};
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Makes an executable a worker: its options.
const WORKER: &str = "QJAM_STORE_WORKER";

#[distributed_slice(ENTRIES)]
static ENTRY: CrewEntry = CrewEntry { variable: WORKER, serve: serve_and_tell };

/// Serves in a child process until that, or this one, ends. Returns the code to exit with.
pub fn serve_in_child(options: &ServeOptions) -> Result<i32, StoreError> {
    let failed = |source| StoreError::System { what: "start a worker", source };
    let mut command = Command::new("/proc/self/exe");
    // A group of its own: keys on a terminal end this process, and the worker leaves in order.
    command.env(WORKER, super::to_text(options)).stdin(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(failed)?;
    // Open as long as this process lives; `wait` would close it.
    let alive = child.stdin.take();
    let status = child.wait().map_err(failed)?;
    drop(alive);
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

#[expect(clippy::print_stderr, reason = "a worker has no other way to say what is wrong")]
fn serve_and_tell(asked: &str) -> i32 {
    let Some(options) = super::from_text::<ServeOptions>(asked) else {
        eprintln!("qjam: a worker was started with something that this version does not understand");
        return 70;
    };
    let is_left = Arc::new(AtomicBool::new(false));
    let leaves = is_left.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().lock().read(&mut [0]);
        leaves.store(true, Relaxed);
    });
    match serve(&options, || !is_left.load(Relaxed), |text| eprintln!("qjam: {}", qjam::printable(text))) {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("error: {e}");
            1
        }
    }
}
