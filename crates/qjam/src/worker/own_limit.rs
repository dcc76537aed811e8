//! How an executor keeps to its memory limit.
//!
//! The kernel counts what is private, by `RLIMIT_DATA`: an allocation beyond it fails, Rust's runtime says how large it
//! was, and the process ends. Shared memory is not in that count, so results that wait in this process's arenas are
//! counted here, and what is private may be that much less. Files that are mapped, as chunks of a host's cache are,
//! belong to the system, which takes their pages back when it needs them.

use super::arenas::{OwnArenas, Placed};
use crate::codec::Encoder;
use crate::memory;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::io;

/// The limit, and what of it is taken by shared memory.
#[derive(Debug)]
pub(super) struct OwnLimit {
    bytes_max: Option<u64>,
    shared_bytes: u64,
}

impl OwnLimit {
    /// Sets it for this process. One that is below what the process has already is its end.
    pub(super) fn set(bytes_max: Option<u64>) -> io::Result<OwnLimit> {
        let limit = OwnLimit { bytes_max, shared_bytes: 0 };
        if let Some(bytes) = bytes_max {
            setrlimit(Resource::Data, Rlimit { current: Some(bytes), maximum: Some(bytes) })?;
            let taken = memory::private_bytes().unwrap_or(0);
            if taken > bytes {
                refuse(taken, "this program takes more before it has begun anything");
            }
        }
        Ok(limit)
    }

    /// So many bytes of the limit are in shared memory now.
    pub(super) fn shared(&mut self, bytes: u64) {
        let Some(bytes_max) = self.bytes_max.filter(|_| bytes != self.shared_bytes) else { return };
        self.shared_bytes = bytes;
        let current = Some(bytes_max.saturating_sub(bytes));
        // It can only fail above the maximum, which this is not.
        let _ = setrlimit(Resource::Data, Rlimit { current, maximum: Some(bytes_max) });
    }

    /// Ends the process unless so many more bytes of shared memory fit.
    fn must_fit(&self, more: u64) {
        let Some(bytes_max) = self.bytes_max.filter(|_| more > 0) else { return };
        let taken = memory::private_bytes().unwrap_or(0).saturating_add(self.shared_bytes);
        if taken.saturating_add(more) > bytes_max {
            refuse(more, "for a result on its way to the master");
        }
    }
}

impl OwnArenas {
    /// Writes a value into a free arena, if the limit allows.
    pub(super) fn place_within(&mut self, value: &Encoder<'_>, limit: &mut OwnLimit) -> io::Result<Placed> {
        let placed = self.reserve(value.payload_bytes())?;
        let touched = self.touched_bytes();
        limit.must_fit(touched.saturating_sub(limit.shared_bytes));
        value.write_to(&mut self.memory(placed.arena)[..value.payload_bytes()]);
        limit.shared(touched);
        Ok(placed)
    }
}

/// Ends the process as Rust's runtime does when an allocation fails; whoever started it knows these words.
fn refuse(bytes: u64, what: &str) -> ! {
    #[expect(clippy::print_stderr, reason = "a worker has no other way to say why it ends")]
    {
        eprintln!("{what}");
        eprintln!("memory allocation of {bytes} bytes failed");
    }
    std::process::abort()
}
