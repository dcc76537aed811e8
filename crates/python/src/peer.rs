//! The socket to a child interpreter, and which mappings that has.
//!
//! A region that is unmapped here must not stay mapped there, or its memory would never be given back. The child may be
//! busy or idle for hours then, so it is told at once, by whichever thread lets go of the region: a message of its own
//! on the same socket, that the child reads when it comes to it.

use super::letter;
use qjam_data::store::mapped;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};

/// All children of this process.
static PEERS: Mutex<Vec<Weak<Peer>>> = Mutex::new(Vec::new());

/// Our end.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) socket: OwnedFd,
    mappings: Mutex<Mappings>,
}

/// What the other end has mapped.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    /// Numbers and lengths.
    pub(super) there: HashMap<u64, u64>,
    /// Numbers of regions and states that it has not been told to forget yet.
    pub(super) gone: Vec<u64>,
}

/// The number by which a child knows a region. Odd ones are memory that its slot writes again.
pub(super) fn number_of(region: u64) -> u64 {
    2 * (region + 1)
}

impl Peer {
    /// Both ends.
    pub(super) fn pair() -> io::Result<(Arc<Peer>, OwnedFd)> {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| mapped::on_unmap(unmapped));
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let peer = Arc::new(Peer { socket: ours, mappings: Mutex::default() });
        let mut peers = PEERS.lock().unwrap_or_else(PoisonError::into_inner);
        peers.retain(|peer| peer.strong_count() > 0);
        peers.push(Arc::downgrade(&peer));
        Ok((peer, theirs))
    }

    pub(super) fn mappings(&self) -> MutexGuard<'_, Mappings> {
        self.mappings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has it forget a state.
    pub(super) fn forget_state(&self, number: u64) {
        self.send_forget(number, &mut self.mappings());
    }

    fn forget(&self, number: u64) {
        let mut mappings = self.mappings();
        if mappings.there.remove(&number).is_some() {
            self.send_forget(number, &mut mappings);
        }
    }

    fn send_forget(&self, number: u64, mappings: &mut Mappings) {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        // A child that reads nothing for long learns it with its next call.
        if let Err(Errno::AGAIN | Errno::NOBUFS) = send(&self.socket, &letter::forget(number), flags) {
            mappings.gone.push(number);
        }
    }
}

/// Tells all children.
fn unmapped(region: u64) {
    let peers: Vec<_> = {
        let peers = PEERS.lock().unwrap_or_else(PoisonError::into_inner);
        peers.iter().filter_map(Weak::upgrade).collect()
    };
    peers.iter().for_each(|peer| peer.forget(number_of(region)));
}
