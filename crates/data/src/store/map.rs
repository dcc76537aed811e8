//! A mapping as a slice of bytes: the one place where regions and arenas touch raw memory.

use rustix::mm::{MapFlags, ProtFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

/// A mapping and its length.
#[derive(Debug)]
pub(super) struct Map {
    start: NonNull<u8>,
    bytes: usize,
}

#[expect(unsafe_code, reason = "a mapping is not tied to a thread")]
// SAFETY: `Map` owns its mapping like a `Box<[u8]>` does; mapping and unmapping may happen on any thread.
unsafe impl Send for Map {}

#[expect(unsafe_code, reason = "a mapping is not tied to a thread")]
// SAFETY: through a shared reference a `Map` only gives shared slices, and writing needs `&mut`.
unsafe impl Sync for Map {}

impl Map {
    #[expect(unsafe_code, reason = "mapping memory is a raw system call")]
    pub(super) fn new(fd: &OwnedFd, bytes: usize, access: ProtFlags, flags: MapFlags) -> io::Result<Map> {
        if isize::try_from(bytes).is_err() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the kernel chooses the address, so no existing memory is touched. The file is a memfd that is ours,
        // or was checked to be sealed against shrinking.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), span(bytes), access, flags, fd, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Map { start, bytes })
    }

    /// Zeroed memory that is this process's own.
    #[expect(unsafe_code, reason = "mapping memory is a raw system call")]
    pub(super) fn private(bytes: usize) -> io::Result<Map> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the kernel chooses the address, so no existing memory is touched.
        let start = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), span(bytes), access, flags) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Map { start, bytes })
    }

    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    #[expect(unsafe_code, reason = "a mapping is a raw pointer and a length")]
    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: `start` is the start of a mapping of at least `bytes` bytes that lives as long as `self`; only the
        // types with a writable mapping call this, and `&mut self` keeps others of this process away.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl AsRef<[u8]> for Map {
    #[expect(unsafe_code, reason = "a mapping is a raw pointer and a length")]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `start` is the start of a readable mapping of at least `bytes` bytes that lives as long as `self`.
        // A sealed region never changes; what an arena shows changes only as its owner and readers agree.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Map {
    #[expect(unsafe_code, reason = "unmapping memory is a raw system call")]
    fn drop(&mut self) {
        // SAFETY: start and length are those of the mapping made in `new`, and nothing borrowed from `self` is left.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), span(self.bytes)) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// A mapping cannot be empty; one of no bytes takes a page that is never looked at.
fn span(bytes: usize) -> usize {
    bytes.max(1)
}
