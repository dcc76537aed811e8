//! Bytes in motion: frames over a Unix socket between the master and a process on the same host.
//!
//! Besides bytes such a socket carries file descriptors, so that parameters, results and chunks stay in shared memory
//! and only their place is told. A descriptor travels with the first byte of the frame that names it.

mod socket;

pub(crate) use socket::{Attachment, FDS_MAX, Inbox, Outbox, Read, send_all};
