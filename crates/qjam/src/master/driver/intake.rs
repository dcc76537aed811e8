//! Inwards: what sockets, pipes and threads bring.

use super::{Driver, News, SeatHere, Sitting, Value, executor_in, token};
use crate::VERSION;
use crate::chunk::ChunkId;
use crate::dataset::CutData;
use crate::engine::local::LocalSays;
use crate::engine::proc::{Executor, Spawned};
use crate::transport::{Attachment, Read};
use crate::worker::round::Effort;
use bytes::Bytes;
use qjam_core::ids::{PartId, RoundId, WorkerId};
use qjam_core::job::{Cause, Death};
use qjam_core::reduce::Node;
use qjam_core::scheduler::Event;
use qjam_core::time::Span;
use qjam_core::wire::message::{self, Outcome, Part, Payload, State};
use qjam_core::wire::{ToMaster, ToWorker};
use rustix::event::epoll;
use rustix::fd::AsFd;
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// Chunks of a data set, by index.
type Chunks = (Arc<CutData>, Vec<u32>);

impl Driver {
    pub(super) fn take_news(&mut self) {
        for news in self.news.take() {
            match news {
                News::LocalDone(done) => {
                    let (now, worker) = (self.now(), done.worker);
                    let mut says = Vec::new();
                    if let Some(SeatHere { sitting: Sitting::Local(local), .. }) =
                        self.seats.get_mut(worker.seat.0 as usize)
                        && local.worker == worker
                    {
                        local.done(now, done, &mut says);
                    }
                    self.hear_local(worker, says);
                    self.tell(Event::WorkerSpoke { worker });
                }
                News::Spawned { worker, result } => self.on_spawned(worker, result),
                News::Connected { worker, result } => self.on_connected(worker, result),
                News::RanksDone { round, outcome } => self.end_on_ranks(round, *outcome),
            }
        }
    }

    pub(super) fn on_spawned(&mut self, worker: WorkerId, result: io::Result<Spawned>) {
        let slots = self.seats[worker.seat.0 as usize].seat.slots;
        let executor =
            result.and_then(|spawned| Executor::new(worker, slots, spawned, self.options.memory_bytes_max));
        let registered = executor.and_then(|executor| {
            let [socket, stdout, stderr] = executor.fds();
            epoll::add(&self.epoll, socket, token(worker, 0), epoll::EventFlags::IN)?;
            epoll::add(&self.pipes, stdout, token(worker, 1), epoll::EventFlags::IN)?;
            epoll::add(&self.pipes, stderr, token(worker, 2), epoll::EventFlags::IN)?;
            Ok(executor)
        });
        match registered {
            Ok(executor) => {
                if !self.scheduler.is_starting(worker) {
                    return; // nobody waits for it any more; dropping it ends it
                }
                self.seats[worker.seat.0 as usize].sitting = Sitting::Proc(Box::new(executor));
            }
            Err(e) => {
                let death = Death::of(Cause::Start(e.to_string()));
                self.tell(Event::WorkerLost { worker, death });
            }
        }
    }

    pub(super) fn on_ready(&mut self, worker: WorkerId, flags: epoll::EventFlags) {
        let Some(executor) = executor_in(&mut self.seats, worker) else { return };
        if flags.contains(epoll::EventFlags::OUT) {
            match executor.flush() {
                Ok(true) => {
                    let _ = epoll::modify(
                        &self.epoll,
                        executor.fds()[0],
                        token(worker, 0),
                        epoll::EventFlags::IN,
                    );
                }
                Ok(false) => {}
                Err(e) => return self.check_sent(worker, Err(e)),
            }
        }
        if !flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            return;
        }
        let Some(executor) = self.executor(worker) else { return };
        let read = executor.read();
        self.take_messages(worker);
        if matches!(read, Ok(Read::Ended) | Err(_)) && self.executor(worker).is_some() {
            let death = self.end(worker, None);
            self.tell(Event::WorkerLost { worker, death });
        }
    }

    pub(super) fn take_messages(&mut self, worker: WorkerId) {
        loop {
            let Some(executor) = self.executor(worker) else { return };
            match executor.inbox.next(ToMaster::from_frame) {
                Ok(None) => return,
                Ok(Some(incoming)) => {
                    let outcome =
                        self.on_message(worker, incoming.message, &incoming.tail, incoming.frame_bytes);
                    if let Err(why) = outcome {
                        return self.expel(worker, why);
                    }
                }
                Err(e) => return self.expel(worker, e.to_string()),
            }
        }
    }

    /// Ends a worker that broke the protocol.
    pub(super) fn expel(&mut self, worker: WorkerId, why: String) {
        let death = self.end(worker, Some(Cause::Protocol(why)));
        self.tell(Event::WorkerLost { worker, death });
    }

    pub(super) fn on_message(
        &mut self,
        worker: WorkerId,
        message: ToMaster,
        tail: &Bytes,
        bytes: usize,
    ) -> Result<(), String> {
        let (cache_bytes_max, slots_here) = match message {
            ToMaster::Hello { .. } => (self.cache_bytes_here(), self.slots_here()),
            _ => (0, 0),
        };
        let Some(executor) = executor_in(&mut self.seats, worker) else { return Ok(()) };
        if !executor.joined && !matches!(message, ToMaster::Hello { .. }) {
            return Err("a message before its hello".into());
        }
        match message {
            ToMaster::Hello { slots, version, .. } => {
                if std::mem::replace(&mut executor.joined, true)
                    || slots != executor.slots
                    || version != VERSION
                {
                    return Err(format!(
                        "a hello with {slots} slots and version {version}; this is version {VERSION}"
                    ));
                }
                let page = executor.page.as_fd().try_clone_to_owned().map_err(|e| e.to_string())?;
                let welcome = ToWorker::Welcome {
                    worker,
                    memory_bytes_max: self.options.memory_bytes_max,
                    cache_bytes_max,
                    deliver_after_us: self.options.deliver_after.as_micros() as u64,
                    runtime: self.options.python.setup(Some(slots_here)),
                };
                let sent = executor.send(&welcome, &[], vec![Attachment::File(Arc::new(page))]);
                self.check_sent(worker, sent);
                self.tell(Event::WorkerJoined { worker, slots });
            }
            ToMaster::State(State::Running) | ToMaster::Pong => self.tell(Event::WorkerSpoke { worker }),
            ToMaster::State(State::Blocked { round, missing }) => {
                self.on_blocked(worker, round, &missing)?;
                self.tell(Event::WorkerSpoke { worker });
            }
            ToMaster::State(State::Behind { round, question, partitions }) => {
                self.on_behind(worker, round, question, &partitions)?;
                self.tell(Event::WorkerSpoke { worker });
            }
            ToMaster::Result(outcome) => {
                if let Some(running) = self.rounds.get_mut(&outcome.round) {
                    running.report.bytes_in += bytes as u64;
                }
                self.on_result(worker, outcome, tail)?;
            }
            ToMaster::Error { round, fault } => {
                self.tell(Event::Faulted { worker: Some(worker), round, fault })
            }
            ToMaster::Returned { round, returned } => self.tell(Event::Returned { worker, round, returned }),
            ToMaster::Cancelled(round) => self.tell(Event::RoundLetGo { worker, round }),
            ToMaster::Runtime(_) => return Err("an interpreter that nobody had asked for".into()),
        }
        Ok(())
    }

    pub(super) fn on_blocked(
        &mut self,
        worker: WorkerId,
        round: RoundId,
        missing: &[ChunkId],
    ) -> Result<(), String> {
        let Some((data, indices)) = self.look_up(round, missing)? else { return Ok(()) };
        let Some(executor) = self.executor(worker) else { return Ok(()) };
        let before = executor.bytes_out;
        let sent = executor.send_refs(&data, &indices);
        let bytes = executor.bytes_out - before;
        if let Some(running) = self.rounds.get_mut(&round) {
            running.report.bytes_out += bytes;
        }
        self.check_sent(worker, sent);
        Ok(())
    }

    /// The data set of a round and the indices of these chunks in it; `None` when the round closed while the question
    /// travelled: then the worker has been told to drop it.
    pub(super) fn look_up(&self, round: RoundId, missing: &[ChunkId]) -> Result<Option<Chunks>, String> {
        let Some(running) = self.rounds.get(&round) else { return Ok(None) };
        let data = running.data.clone();
        let known = self.known.get(&data.located).ok_or("a data set nobody knows")?;
        let find = |id: &ChunkId| {
            let index = known.index.get(id).copied();
            index.ok_or_else(|| format!("it asked for chunk {id}, which is not of its data set"))
        };
        let indices = missing.iter().map(find).collect::<Result<Vec<u32>, String>>()?;
        Ok(Some((data, indices)))
    }

    pub(super) fn on_result(
        &mut self,
        worker: WorkerId,
        outcome: Outcome,
        tail: &Bytes,
    ) -> Result<(), String> {
        let Outcome { round, parts, compute_us, cache_hits, cache_misses, restored } = outcome;
        let blocks = blocks_in(&parts);
        self.count_effort(
            worker,
            round,
            blocks,
            Effort { compute_us, hits: cache_hits, misses: cache_misses, restored },
        );
        let mut payloads = Vec::with_capacity(parts.len());
        {
            // One that must not take much needs its arenas back at once.
            let is_limited = self.options.memory_bytes_max.is_some();
            let Some(executor) = executor_in(&mut self.seats, worker) else { return Ok(()) };
            let mut running = self.rounds.get_mut(&round);
            for part in parts {
                let inbox = &mut executor.inbox;
                let mut payload = executor.arenas.read(&part.payload, tail, || inbox.take_fd())?;
                if let Payload::Arena { arena, bytes, .. } = part.payload {
                    match &mut running {
                        Some(running) => {
                            running.report.bytes_in += bytes;
                            payload = match is_limited {
                                false => executor.released.lease(payload, arena, &running.views),
                                true => executor.released.copied(&payload, arena),
                            };
                        }
                        // Nobody will look at it.
                        None => executor.released.put(arena),
                    }
                }
                payloads.push((part, payload));
            }
        }
        for (part, payload) in payloads {
            self.deliver(worker, round, part.node, part.spans, Value::Encoded(payload));
        }
        self.release_arenas(worker, round);
        Ok(())
    }

    /// Tells a worker that has more of the round to deliver which of its arenas it may use again. Otherwise it learns
    /// that with its next task, which costs nothing.
    fn release_arenas(&mut self, worker: WorkerId, round: RoundId) {
        let has_more = self.scheduler.holders(round).any(|(holder, _)| holder == worker);
        let Some(executor) = self.executor(worker) else { return };
        if has_more {
            let released = executor.released.take();
            if released.is_empty() {
                return;
            }
            let sent = executor.send(&ToWorker::Released(released), &[], Vec::new());
            self.check_sent(worker, sent);
        }
    }

    pub(super) fn deliver(
        &mut self,
        worker: WorkerId,
        round: RoundId,
        node: Node,
        spans: Vec<message::Span>,
        value: Value,
    ) {
        let part = PartId(self.next_part);
        self.next_part += 1;
        self.in_hand.insert(part, value);
        self.tell(Event::PartDelivered { part, worker, round, node, spans });
    }

    pub(super) fn count_effort(&mut self, worker: WorkerId, round: RoundId, blocks: u32, effort: Effort) {
        self.tell(Event::Computed { worker, round, blocks, span: Span(effort.compute_us) });
        self.count_restored(worker, round, &effort.restored);
        if let Some(running) = self.rounds.get_mut(&round) {
            if running.is_crowded {
                running.first_done.get_or_insert_with(Instant::now);
            }
            *running.compute_us.entry(worker.seat).or_default() += effort.compute_us;
            running.report.cache_hits += u64::from(effort.hits);
            running.report.cache_misses += u64::from(effort.misses);
        }
    }

    pub(super) fn hear_local(&mut self, worker: WorkerId, says: Vec<LocalSays>) {
        for said in says {
            match said {
                LocalSays::Effort { round, blocks, effort } => {
                    self.count_effort(worker, round, blocks, effort)
                }
                LocalSays::Part { round, delivery, value } => {
                    self.deliver(worker, round, delivery.node, delivery.spans, Value::Ready(value));
                }
                LocalSays::Faulted { round, fault } => {
                    self.tell(Event::Faulted { worker: Some(worker), round, fault })
                }
                LocalSays::Returned { round, returned } => {
                    self.tell(Event::Returned { worker, round, returned })
                }
                LocalSays::Behind { round, partitions } => self.on_local_behind(worker, round, &partitions),
                LocalSays::LetGo { round } => self.tell(Event::RoundLetGo { worker, round }),
            }
        }
    }
}

/// How many blocks these subtrees cover.
pub(super) fn blocks_in(parts: &[Part]) -> u32 {
    parts.iter().flat_map(|part| &part.spans).map(|span| span.len).fold(0, u32::saturating_add)
}
