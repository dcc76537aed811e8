//! Bytes in motion: frames over a Unix socket between processes of one host, and over anything between hosts.
//!
//! Besides bytes a Unix socket carries file descriptors, so that parameters, results and chunks stay in shared memory
//! and only their place is told. A descriptor travels with the first byte of the frame that names it. Between hosts
//! the bytes themselves travel, in [`lanes`], so that what is urgent passes what is long.

mod lanes;
mod socket;

pub(crate) use lanes::{Bulk, Lanes, Source};
pub(crate) use socket::{Attachment, FDS_MAX, Inbox, Outbox, Read, send_all};
