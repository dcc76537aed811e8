//! What is on its way to a host: the lanes of a link, when something was last said, and how much.

use crate::transport::{Bulk, Lanes};
use bytes::Bytes;
use qjam_core::ids::RoundId;
use qjam_core::wire::ToHost;
use rustix::fd::BorrowedFd;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use std::io;
use std::time::Instant;

/// The outward half of a link.
pub(super) struct Outgoing {
    pub(super) lanes: Lanes,
    /// When something was last said.
    pub(super) said: Instant,
    /// What has been given to it to send.
    pub(super) bytes: u64,
}

impl Outgoing {
    pub(super) fn new() -> Self {
        Outgoing { lanes: Lanes::default(), said: Instant::now(), bytes: 0 }
    }

    /// A message that passes those that wait.
    pub(super) fn urgent(&mut self, message: &ToHost) {
        self.said = Instant::now();
        self.bytes += self.lanes.urgent(message);
    }

    pub(super) fn send(&mut self, message: &ToHost, tail: Bytes, round: Option<RoundId>) {
        self.said = Instant::now();
        self.bytes += self.lanes.send(message, tail, round);
    }

    /// A message, and bytes that follow it in segments.
    pub(super) fn stream(&mut self, opening: &ToHost, bulk: Bulk) {
        self.said = Instant::now();
        self.bytes += self.lanes.stream(opening, bulk);
    }

    /// Sends what the connection takes. Says whether everything is gone.
    pub(super) fn flush(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        self.lanes.flush::<ToHost>(|slices| {
            rustix::net::sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)
        })
    }
}
