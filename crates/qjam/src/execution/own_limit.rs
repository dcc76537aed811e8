//! How an executor keeps to its memory limit.
//!
//! The kernel counts what is private, by `RLIMIT_DATA`: an allocation beyond it fails, Rust's runtime says how large it
//! was, and the process ends. Shared memory is not in that count, so results that wait in this process's arenas are
//! counted here, and what is private may be that much less. Files that are mapped, as chunks of a host's cache are,
//! belong to the system, which takes their pages back when it needs them.

use crate::arenas::{OwnArenas, Placed};
use crate::codec::Encoder;
use crate::memory;
use qjam_system::data_limit;
use std::io;

/// The stack of a thread, as Rust's runtime makes it.
const STACK_BYTES: u64 = 2 << 20;

/// For last words there is more.
const ROOM_BYTES: u64 = 256 << 20;

/// The limit, and what of it is taken by shared memory.
#[derive(Debug)]
pub(super) struct OwnLimit {
    bytes_max: Option<u64>,
    shared_bytes: u64,
}

impl OwnLimit {
    /// Sets the limit of this process, which is about to start `threads` threads. Ends the process with a message if the
    /// limit is too low for that.
    pub(super) fn set(bytes_max: Option<u64>, threads: u32) -> io::Result<OwnLimit> {
        let limit = OwnLimit { bytes_max, shared_bytes: 0 };
        if let Some(bytes) = bytes_max {
            data_limit::set(bytes, bytes.saturating_add(ROOM_BYTES))?;
            let needed = memory::private_bytes().unwrap_or(0) + u64::from(threads) * STACK_BYTES;
            if needed > bytes {
                refuse(needed, "this program and its threads take more before anything has begun");
            }
        }
        Ok(limit)
    }

    /// How many bytes of chunks may stay open: at most `bytes_max`, and half of what the limit leaves after the start.
    pub(super) fn cache_bytes(&self, bytes_max: u64) -> u64 {
        self.bytes_max.map_or(bytes_max, |limit| {
            let taken = memory::private_bytes().unwrap_or(0);
            bytes_max.min(limit.saturating_sub(taken) / 2)
        })
    }

    /// So many bytes of the limit are in shared memory now.
    pub(super) fn shared(&mut self, bytes: u64) {
        let Some(bytes_max) = self.bytes_max.filter(|_| bytes != self.shared_bytes) else { return };
        self.shared_bytes = bytes;
        // It can only fail above the maximum, which this is not.
        let _ = data_limit::set(bytes_max.saturating_sub(bytes), bytes_max.saturating_add(ROOM_BYTES));
    }

    /// Whether so many more bytes of shared memory fit.
    fn fits(&self, more: u64) -> bool {
        let taken = || memory::private_bytes().unwrap_or(0).saturating_add(self.shared_bytes);
        more == 0 || self.bytes_max.is_none_or(|bytes_max| taken().saturating_add(more) <= bytes_max)
    }
}

impl OwnArenas {
    /// Writes a value into a free arena, if the limit allows, perhaps after room has been made.
    pub(super) fn place_within(
        &mut self,
        value: &Encoder<'_>,
        limit: &mut OwnLimit,
        make_room: impl FnOnce(),
    ) -> io::Result<Placed> {
        let placed = self.reserve(value.payload_bytes())?;
        let touched = self.touched_bytes();
        let more = touched.saturating_sub(limit.shared_bytes);
        if !limit.fits(more) {
            make_room();
            if !limit.fits(more) {
                refuse(more, "for a result on its way to the master");
            }
        }
        value.write_to(&mut self.memory(placed.arena)[..value.payload_bytes()]);
        limit.shared(touched);
        Ok(placed)
    }
}

/// Ends the process as Rust's runtime does when an allocation fails; whoever started it knows these words.
pub(super) fn refuse(bytes: u64, what: &str) -> ! {
    #[expect(clippy::print_stderr, reason = "a worker has no other way to say why it ends")]
    {
        eprintln!("{what}");
        eprintln!("memory allocation of {bytes} bytes failed");
    }
    std::process::abort()
}
