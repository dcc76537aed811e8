//! Results on their way up: each rank merges what comes from its right with what it has, along the tree of the data.

use super::link::{Link, SHORT_BYTES};
use super::share;
use super::sum::Summable;
use super::wire::{Failure, Gathered, RankEffort, RankLine, Upward, encoded, tag};
use super::words::{self, Doing};
use crate::codec::Encoder;
use crate::execution::caught;
use crate::execution::chunks::OpenChunks;
use crate::execution::round::{BlockRunner, Stopped};
use crate::function::merge_fault;
use crate::function::{AnyBox, Function};
use crate::source::location::ChunkEntry;
use bytes::Bytes;
use qjam_core::ids::RoundId;
use qjam_core::job::{Fault, FaultKind};
use qjam_core::reduce::{Cut, Node, Tree};
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a rank has of a round.
pub(super) struct Gathering {
    pub(super) round: RoundId,
    pub(super) function: Option<Function>,
    tree: Tree<AnyBox>,
    pub(super) failure: Option<Failure>,
    pub(super) efforts: Vec<RankEffort>,
    pub(super) lines: Vec<RankLine>,
    /// Bytes of values that came from others.
    pub(super) came_bytes: u64,
    /// Time spent reading and merging what others sent.
    pub(super) merging: Duration,
    /// Whether values stay where they are until it is decided what becomes of them; and whether they could be added up.
    pub(super) stays: bool,
    pub(super) summable: Summable,
}

impl Gathering {
    pub(super) fn new(round: RoundId, cut: Cut, stays: bool) -> Self {
        Gathering {
            round,
            function: None,
            tree: Tree::new(cut),
            failure: None,
            efforts: Vec::new(),
            lines: Vec::new(),
            came_bytes: 0,
            merging: Duration::ZERO,
            stays,
            summable: Summable::Nothing,
        }
    }

    /// Takes the values out.
    pub(super) fn take(&mut self) -> Vec<(Node, AnyBox)> {
        self.tree.take()
    }

    /// Puts the value in that all ranks have together.
    pub(super) fn set_root(&mut self, cut: Cut, value: AnyBox) {
        self.put(0, cut.root(), value);
    }

    /// Looks whether the library could add the values up.
    fn look_at_values(&mut self) {
        if !self.stays {
            return;
        }
        let values = self.tree.take();
        for (_, value) in &values {
            let length =
                value.downcast_ref::<Vec<f64>>().map_or(Summable::No, |v| Summable::Length(v.len() as u64));
            self.summable = self.summable.and(length);
        }
        for (node, value) in values {
            let kept = self.tree.insert(node, value, |_, _| Err(()));
            assert!(kept.is_ok(), "what was apart stays apart");
        }
    }

    /// Runs the blocks of this rank, and keeps what came of it.
    pub(super) fn run(
        &mut self,
        rank: u32,
        here: &BlockRunner,
        blocks: Range<u32>,
        open: &OpenChunks,
        chunk_at: &dyn Fn(u32) -> Option<Arc<ChunkEntry>>,
    ) {
        self.function = Some(here.function.clone());
        for block in blocks {
            words::block(block);
            let run = here.run(0, block, open, chunk_at);
            if let Err(stopped) = run {
                self.fail(match stopped {
                    Stopped::Fault(fault) => Failure::Fault(rank, *fault),
                    Stopped::Cancelled => Failure::Cancelled,
                });
                break;
            }
        }
        words::doing(Doing::Gathering);
        let _ = std::io::stdout().flush();
        let (parts, effort) = here.collect();
        self.efforts.push(RankEffort { rank, effort, sent_bytes: 0 });
        for (node, value) in parts {
            self.put(rank, node, value);
        }
        self.look_at_values();
    }

    /// The first fault counts, and a fault for more than a cancellation, which may be its consequence.
    pub(super) fn fail(&mut self, failure: Failure) {
        match (&self.failure, &failure) {
            (None, _) | (Some(Failure::Cancelled), Failure::Fault(..)) => self.failure = Some(failure),
            (Some(_), _) => {}
        }
    }

    fn put(&mut self, rank: u32, node: Node, value: AnyBox) {
        let Some(function) = &self.function else { return };
        // Around everything, because values of the user's types are dropped along the way, too.
        let put = caught(|| {
            self.tree.insert(node, value, |left, right| {
                caught(|| function.merge(left, right))?.map_err(|e| merge_fault(&e))
            })
        });
        if let Err(fault) = put.and_then(|put| put) {
            self.fail(Failure::Fault(rank, fault));
        }
    }

    /// Takes in what the ranks to the right have. `look` is called now and then while it waits.
    pub(super) fn gather(&mut self, link: &Link, mut look: impl FnMut(u32)) {
        let rank = link.rank();
        for from in share::sources(rank, link.size()) {
            loop {
                let (_, message) = link.wait(Some(from), tag::RESULT, || look(from));
                let Ok((upward, tail)) = postcard::take_from_bytes::<Upward>(message.as_ref()) else {
                    panic!("rank {from} sent results that cannot be read");
                };
                match upward {
                    Upward::Long { round, node, bytes } => {
                        assert!(
                            round == self.round,
                            "rank {from} is in {round}, and this one in {}",
                            self.round
                        );
                        let mut buf = link.pool.take(bytes).unwrap_or_else(|| {
                            panic!("no memory for a result of {bytes} bytes from rank {from}")
                        });
                        link.receive_long(from, buf.as_mut_slice());
                        self.take_in(rank, node, buf.into_bytes());
                    }
                    Upward::Rest(rest) => {
                        assert!(
                            rest.round == self.round,
                            "rank {from} is in {}, not {}",
                            rest.round,
                            self.round
                        );
                        let mut at = 0;
                        for (node, bytes) in rest.parts {
                            let end = at + bytes as usize;
                            // Where numbers may be looked at in place they must be aligned.
                            let mut buf =
                                link.pool.take(u64::from(bytes)).expect("memory for a short result");
                            buf.as_mut_slice().copy_from_slice(&tail[at..end]);
                            self.take_in(rank, node, buf.into_bytes());
                            at = end;
                        }
                        if let Some(failure) = rest.failure {
                            self.fail(failure);
                        }
                        self.summable = self.summable.and(rest.summable);
                        self.efforts.extend(rest.efforts);
                        self.lines.extend(rest.lines);
                        break;
                    }
                }
            }
        }
    }

    fn take_in(&mut self, rank: u32, node: Node, bytes: Bytes) {
        self.came_bytes += bytes.len() as u64;
        if self.failure.is_some() {
            return;
        }
        let Some(function) = self.function.clone() else { return };
        let start = Instant::now();
        let read = caught(|| function.decode(bytes))
            .and_then(|read| read.map_err(|e| Fault::new(FaultKind::Result, e.to_string())));
        match read {
            Ok(value) => self.put(rank, node, value),
            Err(fault) => self.fail(Failure::Fault(rank, fault)),
        }
        self.merging += start.elapsed();
    }

    /// Sends all of it to the rank that merges it next.
    pub(super) fn send(&mut self, link: &Link, to: u32) {
        let rank = link.rank();
        let (mut parts, mut tail, mut sent_bytes) = (Vec::new(), Vec::new(), 0);
        let values = if self.stays { Vec::new() } else { self.tree.take() };
        let function = self.function.clone().filter(|_| self.failure.is_none());
        for (node, value) in values {
            let Some(function) = &function else {
                let _ = caught(|| drop(value));
                continue;
            };
            let round = self.round;
            let send = caught(|| {
                function.encode(&value, &mut |encoder: &Encoder<'_>| {
                    let bytes = encoder.payload_bytes();
                    sent_bytes += bytes as u64;
                    if bytes <= SHORT_BYTES {
                        let at = tail.len();
                        tail.resize(at + bytes, 0);
                        encoder.write_to(&mut tail[at..]);
                        parts.push((node, bytes as u32));
                    } else {
                        let head = Upward::Long { round, node, bytes: bytes as u64 };
                        link.send(to, tag::RESULT, &encoded(&head));
                        link.send_encoded(to, encoder);
                    }
                });
                drop(value);
            });
            if let Err(fault) = send {
                self.fail(Failure::Fault(rank, fault));
            }
        }
        if let Some(own) = self.efforts.first_mut() {
            own.sent_bytes = sent_bytes;
        }
        let rest = Gathered {
            round: self.round,
            parts,
            failure: self.failure.clone(),
            efforts: std::mem::take(&mut self.efforts),
            lines: std::mem::take(&mut self.lines),
            summable: self.summable,
        };
        let mut message = encoded(&Upward::Rest(Box::new(rest)));
        message.extend_from_slice(&tail);
        link.send(to, tag::RESULT, &message);
    }

    /// The value, on the rank that has it all.
    pub(super) fn into_value(mut self) -> Result<AnyBox, Failure> {
        let root = self.tree.take_root();
        match self.failure {
            None => Ok(root.expect("all blocks are in, so the tree has its root")),
            Some(failure) => {
                let left = self.tree.take();
                let _ = caught(|| drop((root, left)));
                Err(failure)
            }
        }
    }
}
