//! Reading and writing frames with descriptors.

use crate::store::{AlignedBuf, Region};
use bytes::Bytes;
use qjam_core::wire::frame;
use qjam_core::wire::message::{KIND_TO_MASTER, KIND_TO_WORKER, MessageError};
use qjam_core::wire::{Frame, ToMaster, ToWorker};
use rustix::cmsg_space;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Most descriptors with one frame.
pub(crate) const FDS_MAX: usize = 64;
const READ_BYTES: usize = 64 << 10;

/// Something whose descriptor goes along.
#[derive(Clone, Debug)]
pub(crate) enum Attachment {
    Region(Region),
    File(Arc<OwnedFd>),
}

impl AsFd for Attachment {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Attachment::Region(region) => region.fd(),
            Attachment::File(file) => file.as_fd(),
        }
    }
}

/// A message that can be framed.
pub(crate) trait Message {
    const KIND: u8;
    fn body(&self) -> Vec<u8>;
}

impl Message for ToWorker {
    const KIND: u8 = KIND_TO_WORKER;
    fn body(&self) -> Vec<u8> {
        self.to_body()
    }
}

impl Message for ToMaster {
    const KIND: u8 = KIND_TO_MASTER;
    fn body(&self) -> Vec<u8> {
        self.to_body()
    }
}

fn send(
    socket: BorrowedFd<'_>,
    slices: &[IoSlice<'_>],
    attached: &[Attachment],
) -> rustix::io::Result<usize> {
    let fds: Vec<BorrowedFd<'_>> = attached.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        let pushed = control.push(SendAncillaryMessage::ScmRights(&fds));
        assert!(pushed, "{} descriptors in one frame", fds.len());
    }
    loop {
        match rustix::net::sendmsg(socket, slices, &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Sends a whole frame over a blocking socket. Says how many bytes that were.
pub(crate) fn send_all<M: Message>(
    socket: BorrowedFd<'_>,
    message: &M,
    tail: &[u8],
    attached: &[Attachment],
) -> io::Result<usize> {
    let body = message.body();
    let head = frame::header(M::KIND, &body, tail);
    let total = head.len() + body.len() + tail.len();
    let sent = send(socket, &[IoSlice::new(&head), IoSlice::new(&body), IoSlice::new(tail)], attached)?;
    if sent < total {
        let whole = [&head[..], &body, tail].concat();
        let mut at = sent;
        while at < total {
            at += send(socket, &[IoSlice::new(&whole[at..])], &[])?;
        }
    }
    Ok(total)
}

/// Frames on their way out over a socket that must not block.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: VecDeque<(Vec<u8>, usize, Vec<Attachment>)>,
}

impl Outbox {
    /// Sends a frame, or keeps what the socket does not take now. Says how long the frame is.
    pub(crate) fn send<M: Message>(
        &mut self,
        socket: BorrowedFd<'_>,
        message: &M,
        tail: &[u8],
        attached: Vec<Attachment>,
    ) -> io::Result<usize> {
        let body = message.body();
        let head = frame::header(M::KIND, &body, tail);
        let total = head.len() + body.len() + tail.len();
        let mut sent = 0;
        if self.waiting.is_empty() {
            match send(socket, &[IoSlice::new(&head), IoSlice::new(&body), IoSlice::new(tail)], &attached) {
                Ok(n) => sent = n,
                Err(Errno::AGAIN) => {}
                Err(e) => return Err(e.into()),
            }
        }
        if sent < total {
            // Descriptors went with the first byte, if that went.
            let attached = if sent == 0 { attached } else { Vec::new() };
            self.waiting.push_back(([&head[..], &body, tail].concat(), sent, attached));
        }
        Ok(total)
    }

    /// Sends what waits. Says whether everything is gone.
    pub(crate) fn flush(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        while let Some((bytes, at, attached)) = self.waiting.front_mut() {
            match send(socket, &[IoSlice::new(&bytes[*at..])], attached) {
                Ok(n) => {
                    *at += n;
                    attached.clear();
                    if *at == bytes.len() {
                        self.waiting.pop_front();
                    }
                }
                Err(Errno::AGAIN) => return Ok(false),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(true)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// A message that came in, with its tail.
#[derive(Debug)]
pub(crate) struct Incoming<M> {
    pub(crate) message: M,
    pub(crate) tail: Bytes,
    pub(crate) frame_bytes: usize,
}

/// Bytes and descriptors that came in and are not used up.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Room for bytes; those from `start` to `end` are waiting. Never cleared, since every round would pay for it.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    fds: VecDeque<OwnedFd>,
}

/// How a read ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// Bytes came.
    Some,
    /// Nothing is there now.
    Nothing,
    /// The other side is gone.
    Ended,
}

impl Inbox {
    /// Reads once.
    pub(crate) fn read(&mut self, socket: BorrowedFd<'_>, flags: RecvFlags) -> io::Result<Read> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > READ_BYTES {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.bytes.len() < self.end + READ_BYTES {
            self.bytes.resize(self.end + READ_BYTES, 0);
        }
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let result = loop {
            let slices = &mut [IoSliceMut::new(&mut self.bytes[self.end..])];
            match rustix::net::recvmsg(socket, slices, &mut control, flags | RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                other => break other,
            }
        };
        let got = match &result {
            Ok(message) => message.bytes,
            Err(_) => 0,
        };
        self.end += got;
        let message = match result {
            Ok(message) => message,
            Err(Errno::AGAIN) => return Ok(Read::Nothing),
            Err(Errno::CONNRESET) => return Ok(Read::Ended),
            Err(e) => return Err(e.into()),
        };
        for item in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = item {
                self.fds.extend(fds);
            }
        }
        if message.flags.contains(ReturnFlags::CTRUNC) {
            return Err(io::Error::other("descriptors were lost on the way: too many files are open"));
        }
        Ok(if got == 0 { Read::Ended } else { Read::Some })
    }

    /// The next whole frame, if there is one.
    pub(crate) fn next<M>(
        &mut self,
        parse: impl FnOnce(&Frame<'_>) -> Result<M, MessageError>,
    ) -> Result<Option<Incoming<M>>, MessageError> {
        let Some((frame, used)) = Frame::parse(&self.bytes[self.start..self.end])? else {
            return Ok(None);
        };
        let message = parse(&frame)?;
        // Copied to where numbers may lie.
        let mut tail = AlignedBuf::zeroed(frame.tail.len());
        tail.as_mut_slice().copy_from_slice(frame.tail);
        let tail = tail.into_bytes();
        self.start += used;
        Ok(Some(Incoming { message, tail, frame_bytes: used }))
    }

    /// The next descriptor, in the order they were sent.
    pub(crate) fn take_fd(&mut self) -> Option<OwnedFd> {
        self.fds.pop_front()
    }
}
