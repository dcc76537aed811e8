//! The mail of one block: the letters that a step finds, and those that it sends.
//!
//! A [`Post`] belongs to one run of one step. Comes in: the partition's inbox, still encoded. Goes out: an outbox of encoded
//! letters, which travels with the step's value, or the fault of a step that used mail in a way that cannot work. Letters
//! are encoded by the sender and decoded by the receiver, and by nobody in between.

use crate::codec::{DecodeError, Decoder, Encoder, Wire};
use crate::reduce::{MergeError, Reduce};
use crate::store::AlignedBuf;
use bytes::Bytes;
use qjam_core::job::{Fault, FaultKind};
use qjam_core::mail::{Envelope, Inbox, Outbox};
use std::any::{Any, type_name};
use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A letter that a partition finds, from [`Ctx::mail`](crate::Ctx::mail).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter<T> {
    /// The partition that sent it.
    pub from: u32,
    /// What it sent.
    pub value: T,
}

/// An encoded letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// What tells its type from others.
    pub kind: u64,
    /// The value's payload.
    pub content: Bytes,
}

/// What tells a type of letters from others: the same in every process of a program.
fn kind_of<T>() -> u64 {
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    type_name::<T>().bytes().fold(0xcbf2_9ce4_8422_2325, fnv)
}

fn payload<T: Wire>(value: &T) -> Bytes {
    let mut out = Encoder::new();
    value.encode(&mut out);
    out.to_bytes()
}

impl Sealed {
    fn new<T: Wire>(value: &T) -> Sealed {
        Sealed { kind: kind_of::<T>(), content: payload(value) }
    }

    pub(crate) fn open<T: Wire>(&self) -> Result<T, String> {
        if self.kind != kind_of::<T>() {
            return Err(format!("it is no `{}`", type_name::<T>()));
        }
        let read = || {
            let mut input = Decoder::new(self.content.clone())?;
            let value = T::decode(&mut input)?;
            input.finish()?;
            Ok(value)
        };
        read().map_err(|e: DecodeError| e.to_string())
    }
}

/// Letters as they travel with the value of a step.
impl Wire for Envelope<Sealed> {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        out.put_varint(self.from.into());
        out.put_varint(self.to.into());
        out.put_fixed(&self.letter.kind.to_le_bytes());
        out.put_numbers(&self.letter.content[..]);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let (from, to) = (u32::decode(input)?, u32::decode(input)?);
        let kind = u64::from_le_bytes(input.take_fixed()?);
        // Copied to where numbers can lie, and away from memory that is written again when the round is over.
        let content = input.take_slab::<u8>()?;
        let mut aligned = AlignedBuf::zeroed(content.len());
        aligned.as_mut_slice().copy_from_slice(&content);
        Ok(Envelope { from, to, letter: Sealed { kind, content: aligned.into_bytes() } })
    }
}

/// A value that more may be merged into before it is sent.
trait OpenLetter: Send {
    fn merge(&mut self, right: Box<dyn Any>) -> Result<(), MergeError>;
    fn seal(&self) -> Sealed;
}

impl<T: Wire + Reduce> OpenLetter for T {
    fn merge(&mut self, right: Box<dyn Any>) -> Result<(), MergeError> {
        self.try_merge(*right.downcast().expect("letters are merged with those of their own type"))
    }

    fn seal(&self) -> Sealed {
        Sealed::new(self)
    }
}

enum Draft {
    Sealed(Sealed),
    Open(Box<dyn OpenLetter>),
}

#[derive(Default)]
struct Sent {
    drafts: Vec<(u32, Draft)>,
    /// Where among the drafts those are that more may be merged into, by receiver and type.
    open: BTreeMap<(u32, u64), usize>,
    fault: Option<Fault>,
}

/// The mail of one run of a step.
pub struct Post {
    partition: u32,
    partitions: u32,
    is_carried: bool,
    inbox: Inbox<Sealed>,
    sent: Mutex<Sent>,
}

impl Post {
    /// Of a partition, one of so many, that finds these letters. Where mail is not carried, sending is a fault.
    pub fn new(partition: u32, partitions: u32, is_carried: bool, inbox: Inbox<Sealed>) -> Arc<Post> {
        Arc::new(Post { partition, partitions, is_carried, inbox, sent: Mutex::default() })
    }

    fn sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails the step when it returns; the first reason counts.
    fn object(&self, kind: FaultKind, message: String, at: &Location<'_>) {
        let fault = Fault {
            chunk: Some(self.partition),
            location: Some(at.to_string()),
            ..Fault::new(kind, message)
        };
        self.sent().fault.get_or_insert(fault);
    }

    /// Whether a letter can go there; otherwise the step fails.
    fn may_send(&self, to: u32, at: &Location<'_>) -> bool {
        let &Post { partition: from, partitions, .. } = self;
        if !self.is_carried {
            self.object(FaultKind::NoMail, "mail is not carried here".into(), at);
        } else if to >= partitions {
            let why = format!("partition {from} sent a letter to partition {to}, and there are {partitions}");
            self.object(FaultKind::NoReceiver { from, to, partitions }, why, at);
        }
        self.is_carried && to < partitions
    }

    pub(crate) fn send<T: Wire>(&self, to: u32, value: &T, at: &Location<'_>) {
        if self.may_send(to, at) {
            let sealed = Sealed::new(value);
            self.sent().drafts.push((to, Draft::Sealed(sealed)));
        }
    }

    pub(crate) fn send_merged<T: Wire + Reduce>(&self, to: u32, value: T, at: &Location<'_>) {
        if !self.may_send(to, at) {
            return;
        }
        let mut sent = self.sent();
        let Sent { drafts, open, .. } = &mut *sent;
        let place = *open.entry((to, kind_of::<T>())).or_insert(drafts.len());
        let merged = match drafts.get_mut(place) {
            Some((_, Draft::Open(letter))) => letter.merge(Box::new(value)),
            _ => {
                drafts.push((to, Draft::Open(Box::new(value))));
                Ok(())
            }
        };
        drop(sent);
        if let Err(e) = merged {
            self.object(FaultKind::Merge, format!("letters to partition {to}: {e}"), at);
        }
    }

    pub(crate) fn read<T: Wire>(&self, at: &Location<'_>) -> Vec<Letter<T>> {
        let open = |(from, sealed): &(u32, Sealed)| match sealed.open() {
            Ok(value) => Some(Letter { from: *from, value }),
            Err(why) => {
                let why = format!("a letter from partition {from} cannot be read: {why}");
                self.object(FaultKind::Mail, why, at);
                None
            }
        };
        self.inbox.iter().map_while(open).collect()
    }

    /// What the step has sent, in order.
    pub fn take_sent(&self) -> Outbox<Sealed> {
        let mut sent = self.sent();
        sent.open.clear();
        let drafts = std::mem::take(&mut sent.drafts);
        drop(sent);
        let mut outbox = Outbox::default();
        for (to, draft) in drafts {
            let sealed = match draft {
                Draft::Sealed(sealed) => sealed,
                Draft::Open(letter) => letter.seal(),
            };
            outbox.put(self.partition, to, sealed);
        }
        outbox
    }

    /// Why the step fails, if it used mail in a way that cannot work.
    pub fn take_fault(&self) -> Option<Fault> {
        self.sent().fault.take()
    }

    /// The same partition with letters in its inbox; for tests of functions.
    pub(crate) fn with_letters<T: Wire>(&self, letters: &[(u32, T)]) -> Arc<Post> {
        let inbox = letters.iter().map(|(from, value)| (*from, Sealed::new(value))).collect();
        Post::new(self.partition, self.partitions, self.is_carried, inbox)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ctx;

    #[test]
    fn letters_survive_the_trip_and_keep_their_order() {
        let ctx = Ctx::for_test(0, 0, 3);
        ctx.send(1, &vec![0.5_f64; 100]);
        ctx.send_merged(7, 2_u64);
        ctx.send(1, &vec![1.5_f64]);
        ctx.send_merged(7, 3_u64);
        let outbox: Vec<Envelope<Sealed>> = ctx.take_sent().iter().cloned().collect();
        let mut out = Encoder::new();
        outbox.encode(&mut out);
        let mut input = Decoder::new(out.to_bytes()).unwrap();
        let back = Vec::<Envelope<Sealed>>::decode(&mut input).unwrap();
        input.finish().unwrap();
        assert_eq!(back, outbox);
        assert_eq!(back.iter().map(|e| (e.from, e.to)).collect::<Vec<_>>(), [(3, 1), (3, 7), (3, 1)]);
        assert_eq!(back[1].letter.open::<u64>(), Ok(5), "both went as one");
        assert_eq!(back[2].letter.open::<Vec<f64>>(), Ok(vec![1.5]));
    }

    #[test]
    fn a_letter_is_read_as_what_it_was_sent_as_and_as_nothing_else() {
        let ctx = Ctx::for_test(0, 0, 0).with_mail(&[(2, 1.5_f64), (9, 2.5)]);
        let values: Vec<(u32, f64)> = ctx.mail().into_iter().map(|l| (l.from, l.value)).collect();
        assert_eq!(values, [(2, 1.5), (9, 2.5)]);
        assert!(ctx.mail::<u64>().is_empty());
        let post = Post::new(0, 1, true, vec![(2, Sealed::new(&1.5))]);
        assert!(post.read::<u64>(Location::caller()).is_empty());
        let fault = post.take_fault().unwrap();
        assert!(fault.kind == FaultKind::Mail && fault.message.contains("no `u64`"), "{fault:?}");
    }

    #[test]
    fn what_cannot_be_delivered_is_named_with_its_line() {
        let post = Post::new(2, 5, true, Vec::new());
        post.send(5, &1_u8, Location::caller());
        assert!(post.take_sent().is_empty());
        let fault = post.take_fault().unwrap();
        assert_eq!(fault.kind, FaultKind::NoReceiver { from: 2, to: 5, partitions: 5 });
        assert!(fault.location.unwrap().contains("mail.rs:"));
        let post = Post::new(2, 5, false, Vec::new());
        post.send(1, &1_u8, Location::caller());
        assert_eq!(post.take_fault().unwrap().kind, FaultKind::NoMail);
    }
}
