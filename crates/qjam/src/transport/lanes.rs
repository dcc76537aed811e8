//! Two lanes over one connection between hosts: what is urgent passes what is long.
//!
//! Short messages that do not depend on anything (signs of life, calls to stop) go into the urgent lane. Everything
//! else goes into the other, in order: long payloads piece by piece, and the messages that speak of them behind them.
//! A piece is made only when the connection has taken the one before it, so that a payload of gigabytes costs a buffer
//! of one piece. What belongs to a round that is over can be taken out again.

use bytes::Bytes;
use qjam_core::ids::RoundId;
use qjam_core::wire::frame;
use qjam_core::wire::host::{KIND_FROM_HOST, KIND_SEGMENT, KIND_TO_HOST, SEGMENT_BYTES};
use qjam_core::wire::{FromHost, ToHost};
use qjam_data::source::location::Pieces;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::{self, IoSlice};

/// Where a long payload comes from, piece by piece.
pub(crate) trait Source: Send {
    /// How many bytes are left.
    fn left(&self) -> u64;
    /// The next so many of them.
    fn take(&mut self, bytes: usize) -> Result<Bytes, String>;
}

/// The bytes of a chunk are a source.
impl Source for Pieces {
    fn left(&self) -> u64 {
        Pieces::left(self)
    }

    fn take(&mut self, bytes: usize) -> Result<Bytes, String> {
        Pieces::take(self, bytes)
    }
}

/// Memory is a source.
impl Source for Bytes {
    fn left(&self) -> u64 {
        self.len() as u64
    }

    fn take(&mut self, bytes: usize) -> Result<Bytes, String> {
        Ok(self.split_to(bytes))
    }
}

/// A payload on its way out.
pub(crate) struct Bulk {
    pub(crate) source: Box<dyn Source>,
    /// Whose it is, if it can be called off.
    pub(crate) round: Option<RoundId>,
    /// Given back when the last piece is gone, or a piece could not be had.
    pub(crate) ticket: u64,
}

/// A message that can be framed for another host.
pub(crate) trait HostMessage {
    const KIND: u8;
    fn body(&self) -> Vec<u8>;
    /// What is sent instead of the rest of a payload.
    fn abandon() -> Option<Self>
    where
        Self: Sized;
}

impl HostMessage for ToHost {
    const KIND: u8 = KIND_TO_HOST;
    fn body(&self) -> Vec<u8> {
        self.to_body()
    }
    fn abandon() -> Option<Self> {
        Some(ToHost::Abandon)
    }
}

impl HostMessage for FromHost {
    const KIND: u8 = KIND_FROM_HOST;
    fn body(&self) -> Vec<u8> {
        self.to_body()
    }
    fn abandon() -> Option<Self> {
        None
    }
}

struct Out {
    head: Vec<u8>,
    tail: Bytes,
    at: usize,
}

impl Out {
    fn new<M: HostMessage>(message: &M, tail: Bytes) -> Out {
        let body = message.body();
        let mut head = frame::header(M::KIND, &body, &tail).to_vec();
        head.extend_from_slice(&body);
        Out { head, tail, at: 0 }
    }

    fn segment(tail: Bytes) -> Out {
        Out { head: frame::header(KIND_SEGMENT, &[], &tail).to_vec(), tail, at: 0 }
    }

    fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }
}

enum Item {
    Message {
        out: Out,
        round: Option<RoundId>,
    },
    /// Its opening went, or goes, before it.
    Payload(Bulk),
}

/// Whether a payload was sent.
pub(crate) type SendResult = (u64, Result<(), String>);

/// Frames on their way to another host.
#[derive(Default)]
pub(crate) struct Lanes {
    current: Option<Out>,
    urgent: VecDeque<Out>,
    orderly: VecDeque<Item>,
    /// Payloads that are gone, or broke off.
    over: Vec<SendResult>,
}

impl Lanes {
    /// A message that may pass others. Says how many bytes it is.
    pub(crate) fn urgent<M: HostMessage>(&mut self, message: &M) -> u64 {
        let out = Out::new(message, Bytes::new());
        let bytes = out.len() as u64;
        self.urgent.push_back(out);
        bytes
    }

    /// A message in order; `round` if it can be called off.
    pub(crate) fn send<M: HostMessage>(&mut self, message: &M, tail: Bytes, round: Option<RoundId>) -> u64 {
        let out = Out::new(message, tail);
        let bytes = out.len() as u64;
        self.orderly.push_back(Item::Message { out, round });
        bytes
    }

    /// A payload in order, with the message that announces it.
    pub(crate) fn stream<M: HostMessage>(&mut self, opening: &M, bulk: Bulk) -> u64 {
        let bytes = bulk.source.left();
        let sent = self.send(opening, Bytes::new(), bulk.round);
        self.orderly.push_back(Item::Payload(bulk));
        sent + bytes
    }

    /// Takes out what belongs to a round and has not been sent. A payload that is half sent is broken off. Says whether
    /// there was anything.
    pub(crate) fn call_off<M: HostMessage>(&mut self, round: RoundId) -> bool {
        let before = self.orderly.len();
        // The opening of a payload that is first in line has been sent, or is being sent: it must be broken off.
        let opened = matches!(self.orderly.front(), Some(Item::Payload(bulk)) if bulk.round == Some(round));
        let over = &mut self.over;
        self.orderly.retain(|item| match item {
            Item::Message { round: whose, .. } => *whose != Some(round),
            Item::Payload(bulk) if bulk.round == Some(round) => {
                over.push((bulk.ticket, Err("called off".into())));
                false
            }
            Item::Payload(_) => true,
        });
        let any = self.orderly.len() < before;
        if let (true, Some(abandon)) = (opened, M::abandon()) {
            let out = Out::new(&abandon, Bytes::new());
            self.orderly.push_front(Item::Message { out, round: None });
        }
        any
    }

    /// Sends what the connection takes. Says whether everything is gone.
    pub(crate) fn flush<M: HostMessage>(
        &mut self,
        mut put: impl FnMut(&[IoSlice<'_>]) -> Result<usize, Errno>,
    ) -> io::Result<bool> {
        loop {
            let Some(out) = &mut self.current else {
                match self.next::<M>() {
                    Some(out) => self.current = Some(out),
                    None => return Ok(true),
                }
                continue;
            };
            let in_head = out.at.min(out.head.len());
            let in_tail = out.at - in_head;
            let sent = put(&[IoSlice::new(&out.head[in_head..]), IoSlice::new(&out.tail[in_tail..])]);
            match sent {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    out.at += n;
                    if out.at == out.len() {
                        self.current = None;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn next<M: HostMessage>(&mut self) -> Option<Out> {
        if let Some(out) = self.urgent.pop_front() {
            return Some(out);
        }
        loop {
            match self.orderly.front_mut()? {
                Item::Message { .. } => match self.orderly.pop_front() {
                    Some(Item::Message { out, .. }) => return Some(out),
                    _ => unreachable!("it was a message a moment ago"),
                },
                Item::Payload(bulk) => {
                    let left = bulk.source.left();
                    if left == 0 {
                        self.over.push((bulk.ticket, Ok(())));
                        self.orderly.pop_front();
                        continue;
                    }
                    match bulk.source.take(left.min(SEGMENT_BYTES as u64) as usize) {
                        Ok(piece) => return Some(Out::segment(piece)),
                        Err(why) => {
                            let round = bulk.round;
                            self.over.push((bulk.ticket, Err(why)));
                            self.orderly.pop_front();
                            // What speaks of it must not come without it.
                            self.orderly.retain(|item| match item {
                                Item::Message { round: whose, .. } => whose.is_none() || *whose != round,
                                Item::Payload(_) => true,
                            });
                            if let Some(abandon) = M::abandon() {
                                return Some(Out::new(&abandon, Bytes::new()));
                            }
                        }
                    }
                }
            }
        }
    }

    /// How many messages and payloads wait in order.
    pub(crate) fn waiting(&self) -> usize {
        self.orderly.len()
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.current.is_none() && self.urgent.is_empty() && self.orderly.is_empty()
    }

    /// Payloads that are gone or broke off since this was last asked.
    pub(crate) fn take_over(&mut self) -> Vec<SendResult> {
        std::mem::take(&mut self.over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Inbox;
    use qjam_core::wire::message::MessageError;

    fn bulk(bytes: usize, round: u64, ticket: u64) -> Bulk {
        let source = Bytes::from((0..bytes).map(|i| (i % 251) as u8).collect::<Vec<u8>>());
        Bulk { source: Box::new(source), round: Some(RoundId(round)), ticket }
    }

    /// What comes out while the connection takes so many bytes.
    fn take(lanes: &mut Lanes, mut room: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let put = |slices: &[IoSlice<'_>]| {
            let whole: Vec<u8> = slices.iter().flat_map(|s| s.to_vec()).collect();
            let n = whole.len().min(room).min(100_000);
            room -= n;
            bytes.extend_from_slice(&whole[..n]);
            if n == 0 { Err(Errno::AGAIN) } else { Ok(n) }
        };
        lanes.flush::<ToHost>(put).unwrap();
        bytes
    }

    fn in_words(bytes: &[u8]) -> Vec<String> {
        let mut inbox = Inbox::default();
        inbox.put(bytes);
        let mut said = Vec::new();
        let describe = |frame: &frame::Frame<'_>| -> Result<String, MessageError> {
            Ok(if frame.kind == KIND_SEGMENT {
                format!("segment {}", frame.tail.len())
            } else {
                format!("{:?}", ToHost::from_frame(frame)?)
            })
        };
        while let Some(words) = inbox.next_with(describe).unwrap() {
            said.push(words);
        }
        said
    }

    const OPEN: ToHost = ToHost::OpenNothing { bytes: 600_000 };
    const OPEN_SAID: &str = "OpenNothing { bytes: 600000 }";

    /// Takes everything that is whole once so many bytes have gone, and then the rest.
    fn drain_in_two(lanes: &mut Lanes, first: usize, between: impl FnOnce(&mut Lanes)) -> Vec<String> {
        let mut bytes = take(lanes, first);
        between(lanes);
        bytes.extend(take(lanes, usize::MAX));
        in_words(&bytes)
    }

    #[test]
    fn urgent_messages_pass_between_two_pieces() {
        let mut lanes = Lanes::default();
        lanes.stream(&OPEN, bulk(600_000, 1, 7));
        lanes.send(&ToHost::Bye, Bytes::new(), None);
        let said = drain_in_two(&mut lanes, 300_000, |lanes| {
            lanes.urgent(&ToHost::Beat { echo: 5 });
        });
        let expected =
            [OPEN_SAID, "segment 262144", "segment 262144", "Beat { echo: 5 }", "segment 75712", "Bye"];
        assert_eq!(said, expected);
    }

    #[test]
    fn a_payload_comes_whole_and_in_order() {
        let mut lanes = Lanes::default();
        lanes.stream(&OPEN, bulk(600_000, 1, 7));
        lanes.send(&ToHost::Bye, Bytes::new(), None);
        let said = in_words(&take(&mut lanes, usize::MAX));
        assert_eq!(said, [OPEN_SAID, "segment 262144", "segment 262144", "segment 75712", "Bye"]);
        assert_eq!(lanes.take_over(), [(7, Ok(()))]);
        assert!(lanes.is_empty());
    }

    #[test]
    fn what_is_called_off_is_not_sent_and_what_is_half_sent_is_broken_off() {
        let mut lanes = Lanes::default();
        lanes.stream(&OPEN, bulk(600_000, 1, 7));
        lanes.send(&ToHost::Closed { round: RoundId(1) }, Bytes::new(), Some(RoundId(1)));
        lanes.send(&ToHost::Bye, Bytes::new(), None);
        let said = drain_in_two(&mut lanes, 300_000, |lanes| {
            assert!(lanes.call_off::<ToHost>(RoundId(1)));
        });
        assert_eq!(said, [OPEN_SAID, "segment 262144", "segment 262144", "Abandon", "Bye"]);
        assert_eq!(lanes.take_over().len(), 1);

        lanes.stream(&OPEN, bulk(600_000, 2, 8));
        assert!(!lanes.call_off::<ToHost>(RoundId(3)));
        assert!(lanes.call_off::<ToHost>(RoundId(2)));
        assert_eq!(
            in_words(&take(&mut lanes, usize::MAX)),
            Vec::<String>::new(),
            "nothing of it was promised yet"
        );
    }
}
