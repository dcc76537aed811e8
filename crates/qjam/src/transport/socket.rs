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
    /// Room for bytes to come, and what came before moved out of its way.
    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > READ_BYTES {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.bytes.len() < self.end + READ_BYTES {
            self.bytes.resize(self.end + READ_BYTES, 0);
        }
    }

    /// Reads once from a pipe or socket that brings bytes only.
    pub(crate) fn read_bytes(&mut self, from: BorrowedFd<'_>) -> io::Result<Read> {
        self.make_room();
        match rustix::io::retry_on_intr(|| rustix::io::read(from, &mut self.bytes[self.end..])) {
            Ok(0) => Ok(Read::Ended),
            Ok(bytes) => {
                self.end += bytes;
                Ok(Read::Some)
            }
            Err(Errno::AGAIN) => Ok(Read::Nothing),
            Err(Errno::CONNRESET) => Ok(Read::Ended),
            Err(e) => Err(e.into()),
        }
    }

    /// Reads once.
    pub(crate) fn read(&mut self, socket: BorrowedFd<'_>, flags: RecvFlags) -> io::Result<Read> {
        self.make_room();
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
        // A frame brings at most so many, and what came before it has been taken.
        if self.fds.len() > 2 * FDS_MAX {
            return Err(io::Error::other("more descriptors came than were announced"));
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
        self.next_with(|frame| {
            let message = parse(frame)?;
            // Copied to where numbers may lie.
            let mut tail = AlignedBuf::zeroed(frame.tail.len());
            tail.as_mut_slice().copy_from_slice(frame.tail);
            let frame_bytes = frame::HEADER_BYTES + frame.body.len() + frame.tail.len();
            Ok(Incoming { message, tail: tail.into_bytes(), frame_bytes })
        })
    }

    /// Does something with the next whole frame where it lies, if there is one.
    pub(crate) fn next_with<R>(
        &mut self,
        use_it: impl FnOnce(&Frame<'_>) -> Result<R, MessageError>,
    ) -> Result<Option<R>, MessageError> {
        let Some((frame, used)) = Frame::parse(&self.bytes[self.start..self.end])? else {
            return Ok(None);
        };
        let result = use_it(&frame)?;
        self.start += used;
        Ok(Some(result))
    }

    /// Takes in bytes that somebody else has read already.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes.truncate(self.end);
        self.bytes.extend_from_slice(bytes);
        self.end = self.bytes.len();
    }

    /// The next descriptor, in the order they were sent.
    pub(crate) fn take_fd(&mut self) -> Option<OwnedFd> {
        self.fds.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;
    use std::os::unix::net::UnixStream;

    /// A file in memory that says which it is.
    fn numbered(n: u64) -> Attachment {
        let fd = rustix::fs::memfd_create("n", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&fd, n).unwrap();
        Attachment::File(Arc::new(fd))
    }

    /// Sends frames of all lengths through a socket that takes little at a time; everything must come out in order.
    fn check(seed: u64, outbox_is_used: bool) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&ours, 4096).unwrap();
        ours.set_nonblocking(outbox_is_used).unwrap();
        let frames = 60;
        let mut rng = Rng::keyed(seed, 0, 0);
        let mut draw = |n| {
            let order = 1 + rng.below(19);
            (n, rng.below(1 << order) as usize, rng.below(4))
        };
        let plan: Vec<(u64, usize, u64)> = (0..frames).map(&mut draw).collect();
        let expected = plan.clone();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut outbox = Outbox::default();
                for (n, bytes, fds) in plan {
                    let tail: Vec<u8> = (0..bytes).map(|i| (i as u64 * 7 + n) as u8).collect();
                    let attached: Vec<Attachment> = (0..fds).map(|f| numbered(n * 10 + f)).collect();
                    let message = ToMaster::Cancelled(qjam_core::ids::RoundId(n));
                    if outbox_is_used {
                        outbox.send(ours.as_fd(), &message, &tail, attached).unwrap();
                    } else {
                        send_all(ours.as_fd(), &message, &tail, &attached).unwrap();
                    }
                }
                while !outbox.flush(ours.as_fd()).unwrap() {
                    std::thread::yield_now();
                }
            });
            let mut inbox = Inbox::default();
            let mut came = expected.into_iter();
            while inbox.read(theirs.as_fd(), RecvFlags::empty()).unwrap() != Read::Ended {
                while let Some(incoming) = inbox.next(ToMaster::from_frame).unwrap() {
                    let (n, bytes, fds) = came.next().unwrap();
                    assert_eq!(incoming.message, ToMaster::Cancelled(qjam_core::ids::RoundId(n)));
                    assert_eq!(incoming.tail.len(), bytes);
                    assert!(incoming.tail.iter().enumerate().all(|(i, b)| *b == (i as u64 * 7 + n) as u8));
                    for f in 0..fds {
                        let fd = inbox.take_fd().expect("a descriptor comes with the frame that has it");
                        assert_eq!(rustix::fs::fstat(&fd).unwrap().st_size as u64, n * 10 + f);
                    }
                }
            }
            assert!(came.next().is_none() && inbox.take_fd().is_none());
        });
    }

    #[test]
    fn frames_and_descriptors_come_in_the_order_they_were_sent() {
        for seed in 0..6 {
            check(seed, true);
            check(seed, false);
        }
    }

    #[test]
    fn a_frame_that_breaks_off_is_not_a_frame() {
        let whole = frame::encode(KIND_TO_MASTER, &ToMaster::Pong.to_body(), &[7; 100]);
        for end in 0..whole.len() {
            let (ours, theirs) = UnixStream::pair().unwrap();
            rustix::io::write(&ours, &whole[..end]).unwrap();
            drop(ours);
            let mut inbox = Inbox::default();
            while inbox.read(theirs.as_fd(), RecvFlags::empty()).unwrap() != Read::Ended {
                assert!(inbox.next(ToMaster::from_frame).unwrap().is_none());
            }
        }
    }

    #[test]
    fn sending_to_nobody_is_an_error_and_no_signal() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert!(send_all(ours.as_fd(), &ToMaster::Pong, &[], &[]).is_err());
        assert!(Outbox::default().send(ours.as_fd(), &ToMaster::Pong, &[], Vec::new()).is_err());
    }
}
