//! What an executor says, translated for the master's loop.

use super::ProcessSeat;
use crate::VERSION;
use crate::engine::seat::{PartValue, Said, SeatContext};
use crate::execution::round::Effort;
use crate::executor_process::ExecutorProcess;
use crate::transport::Attachment;
use bytes::Bytes;
use qjam_core::ids::WorkerId;
use qjam_core::wire::message::{Part, Payload, ResultMessage, State};
use qjam_core::wire::{ToMaster, ToWorker};
use rustix::fd::AsFd;
use std::sync::{Arc, Weak};

/// The next message that came whole, its tail, and the length of its frame.
pub(super) fn take_message(
    executor: &mut ExecutorProcess,
) -> Result<Option<(ToMaster, Bytes, usize)>, String> {
    let incoming = executor.inbox.next(ToMaster::from_frame).map_err(|e| e.to_string())?;
    Ok(incoming.map(|incoming| (incoming.message, incoming.tail, incoming.frame_bytes)))
}

/// How many blocks these subtrees cover.
pub(in crate::engine) fn blocks_in(parts: &[Part]) -> u32 {
    parts.iter().flat_map(|part| &part.ranges).map(|span| span.len).fold(0, u32::saturating_add)
}

impl ProcessSeat {
    pub(super) fn on_message(
        &mut self,
        worker: WorkerId,
        message: ToMaster,
        tail: &Bytes,
        bytes: usize,
        cx: &mut SeatContext<'_>,
    ) -> Result<(), String> {
        let Some(executor) = self.executor(worker) else { return Ok(()) };
        if !executor.joined && !matches!(message, ToMaster::Hello { .. }) {
            return Err("a message before its hello".into());
        }
        match message {
            ToMaster::Hello { slots, version, .. } => self.welcome(worker, slots, &version, cx)?,
            ToMaster::State(State::InterpreterLost { round, death }) => {
                self.say(worker, Said::InterpreterLost { round, death });
            }
            ToMaster::State(State::Running) | ToMaster::Pong => self.say(worker, Said::Spoke),
            ToMaster::State(State::Blocked { round, missing: chunks }) => {
                self.say(worker, Said::Missing { round, chunks, lasting: false });
            }
            ToMaster::State(State::Behind { round, question, partitions, only_mail }) => {
                self.say(worker, Said::Behind { round, question, partitions, only_mail });
            }
            ToMaster::Result(outcome) => self.on_result(worker, outcome, tail, bytes as u64, cx)?,
            ToMaster::Error { round, fault } => {
                self.say(worker, Said::Faulted { round, fault: Box::new(fault), is_ours: false });
            }
            ToMaster::Returned { round, returned } => self.say(worker, Said::Returned { round, returned }),
            ToMaster::Cancelled(round) => self.say(worker, Said::LetGo { round }),
            ToMaster::Runtime(_) => return Err("an interpreter that nobody had asked for".into()),
        }
        Ok(())
    }

    fn welcome(
        &mut self,
        worker: WorkerId,
        slots: u32,
        version: &str,
        cx: &mut SeatContext<'_>,
    ) -> Result<(), String> {
        let Some(executor) = self.executor(worker) else { return Ok(()) };
        if std::mem::replace(&mut executor.joined, true) || slots != executor.slots || version != VERSION {
            return Err(format!(
                "a hello with {slots} slots and version {version}; this is version {VERSION}"
            ));
        }
        let page = executor.page.as_fd().try_clone_to_owned().map_err(|e| e.to_string())?;
        let (settings, neighbours) = (cx.settings, cx.neighbours);
        let limit = settings.memory_bytes_max;
        let welcome = ToWorker::Welcome {
            worker,
            memory_bytes_max: limit,
            cache_bytes_max: settings.cache_bytes(limit, neighbours.memory_bytes, neighbours.workers),
            deliver_after_us: settings.deliver_after_us(),
            runtime: settings.python.setup(Some(neighbours.slots)),
        };
        self.send(worker, cx, |executor| {
            executor.send(&welcome, &[], vec![Attachment::File(Arc::new(page))])
        });
        self.say(worker, Said::Joined { slots });
        Ok(())
    }

    fn on_result(
        &mut self,
        worker: WorkerId,
        outcome: ResultMessage,
        tail: &Bytes,
        frame_bytes: u64,
        cx: &SeatContext<'_>,
    ) -> Result<(), String> {
        let ResultMessage { round, parts, compute_us, cache_hits: hits, cache_misses: misses, restored } =
            outcome;
        let effort = Effort { compute_us, hits, misses, restored };
        let blocks = blocks_in(&parts);
        // One that must not take much needs its arenas back at once.
        let is_limited = cx.settings.memory_bytes_max.is_some();
        let views = self.views_of(round).and_then(Weak::upgrade);
        let mut shared_bytes = 0;
        let mut said = Vec::with_capacity(parts.len());
        for Part { node, ranges, payload } in parts {
            let Some(executor) = self.executor(worker) else { return Ok(()) };
            let inbox = &mut executor.inbox;
            let mut value = executor.arenas.read(&payload, tail, || inbox.take_fd())?;
            if let Payload::Arena { arena, bytes, .. } = payload {
                match &views {
                    Some(views) => {
                        shared_bytes += bytes;
                        value = match is_limited {
                            false => executor.released.lease(value, arena, views),
                            true => executor.released.copied(&value, arena),
                        };
                    }
                    // The round is over, and nobody will look at it.
                    None => executor.released.put(arena),
                }
            }
            said.push(Said::Part { round, node, ranges, value: PartValue::Encoded(value) });
        }
        // Before the parts: the last of them may end the round.
        self.say(worker, Said::Effort { round, blocks, effort, bytes: frame_bytes + shared_bytes });
        self.said.extend(said.into_iter().map(|said| (worker, said)));
        if shared_bytes > 0 {
            self.say(worker, Said::Delivered { round });
        }
        Ok(())
    }
}
