//! What a host says, translated for the master's loop.

use super::link::{Came, Link};
use super::seat::HostSeat;
use crate::engine::SLOTS_MAX;
use crate::engine::seat::{PartValue, Said};
use crate::execution::round::Effort;
use bytes::Bytes;
use qjam_core::ids::WorkerId;
use qjam_core::wire::message::{Part, Payload, ResultMessage, State};
use qjam_core::wire::{FromHost, ToMaster};

impl HostSeat {
    /// Takes everything that has come whole.
    pub(super) fn take_in(&mut self) -> Result<(), String> {
        let mut piece_of = None;
        while let Some(link) = self.link.as_deref_mut() {
            match link.next()? {
                None => break,
                Some(Came::Piece) => piece_of = link.worker,
                Some(Came::Message(message, tail, bytes)) => self.on_message(*message, &tail, bytes)?,
            }
        }
        if let Some(worker) = piece_of {
            // A long result is on its way.
            self.say(worker, Said::Spoke);
        }
        Ok(())
    }

    fn on_message(&mut self, message: FromHost, tail: &Bytes, bytes: usize) -> Result<(), String> {
        match message {
            FromHost::Hello(_) => return Err("a second hello".into()),
            FromHost::Joined { worker, slots, pid } => {
                if slots == 0 || slots > SLOTS_MAX {
                    return Err(format!("a worker with {slots} slots"));
                }
                if let Some(link) = self.link_of(worker) {
                    link.pid = Some(pid);
                    link.drop_parts();
                    self.say(worker, Said::Joined { slots });
                }
            }
            FromHost::Died { worker, death } => {
                if self.link_of(worker).is_some() {
                    self.say(worker, Said::Lost(death));
                }
            }
            FromHost::Worker { worker, message } => {
                if self.link_of(worker).is_some() {
                    self.on_worker_message(worker, message, tail, bytes)?;
                }
            }
            FromHost::Lines { worker, lines, dropped } => {
                self.said.extend(lines.into_iter().map(|line| (worker, Said::Line(line))));
                self.say(worker, Said::LinesDropped(dropped));
            }
            FromHost::Refused { chunk, why } => self.say_of_host(Said::Refused { chunk, why }),
            FromHost::Trouble(text) => self.say_of_host(Said::Trouble(text)),
            FromHost::OpenPart { .. } | FromHost::Beat { .. } | FromHost::Cached(_) => {}
        }
        Ok(())
    }

    fn on_worker_message(
        &mut self,
        worker: WorkerId,
        message: ToMaster,
        tail: &Bytes,
        bytes: usize,
    ) -> Result<(), String> {
        let said = match message {
            ToMaster::Hello { .. } => return Err("an executor's hello".into()),
            ToMaster::State(State::InterpreterLost { round, death }) => {
                Said::InterpreterLost { round, death }
            }
            ToMaster::State(State::Running) | ToMaster::Pong => Said::Spoke,
            // The host looked on its disk first, and does not ask twice.
            ToMaster::State(State::Blocked { round, missing: chunks }) => {
                Said::Missing { round, chunks, lasting: true }
            }
            ToMaster::State(State::Behind { round, question, partitions, only_mail }) => {
                Said::Behind { round, question, partitions, only_mail }
            }
            ToMaster::Result(outcome) => return self.on_result(worker, outcome, tail, bytes as u64),
            ToMaster::Error { round, fault } => {
                Said::Faulted { round, fault: Box::new(fault), is_ours: false }
            }
            ToMaster::Returned { round, returned } => Said::Returned { round, returned },
            ToMaster::Cancelled(round) => Said::LetGo { round },
            ToMaster::Runtime(found) => Said::Interpreter(found),
        };
        self.say(worker, said);
        Ok(())
    }

    fn on_result(
        &mut self,
        worker: WorkerId,
        outcome: ResultMessage,
        tail: &Bytes,
        frame_bytes: u64,
    ) -> Result<(), String> {
        let ResultMessage { round, parts, compute_us, cache_hits: hits, cache_misses: misses, restored } =
            outcome;
        let effort = Effort { compute_us, hits, misses, restored };
        let blocks = crate::engine::proc::blocks_in(&parts);
        let (mut bytes, mut said) = (frame_bytes, Vec::with_capacity(parts.len()));
        for Part { node, ranges, payload } in parts {
            let Some(link) = self.link_of(worker) else { return Ok(()) };
            let (value, streamed) = value_of(link, &payload, tail)?;
            bytes += streamed;
            said.push(Said::Part { round, node, ranges, value: PartValue::Encoded(value) });
        }
        // Before the parts: the last of them may end the round.
        self.say(worker, Said::Effort { round, blocks, effort, bytes });
        for part in said {
            self.say(worker, part);
        }
        Ok(())
    }

    /// Says something that is about the host, whoever works there.
    fn say_of_host(&mut self, said: Said) {
        let worker = self.name();
        self.say(worker, said);
    }
}

/// The bytes of a part, and how many of them came before its message.
fn value_of(link: &mut Link, payload: &Payload, tail: &Bytes) -> Result<(Bytes, u64), String> {
    match *payload {
        Payload::Streamed { bytes } => Ok((link.take_part(bytes)?, bytes)),
        Payload::Tail { offset, bytes } => {
            let (from, to) = (offset as usize, offset as usize + bytes as usize);
            if to > tail.len() {
                return Err(format!("{payload:?} of a tail of {}", tail.len()));
            }
            Ok((tail.slice(from..to), 0))
        }
        Payload::Arena { .. } => Err("an arena of another host".into()),
    }
}
