//! Workers on other hosts: their connections, and what goes over them.
//!
//! A seat on a host has a [`Link`] as long as its connection holds. Starting one takes a thread of its own, since it
//! waits for `ssh`; everything after that happens in the loop.

use super::{Driver, INLINE_BYTES_MAX, News, fault, token};
use crate::chunk::ChunkId;
use crate::dataset::CutData;
use crate::engine::HostAddress;
use crate::engine::proc::Line;
use crate::engine::ssh::StartFailure;
use crate::engine::ssh::link::{self, Came, Link};
use crate::engine::told::Portion;
use crate::master::options::LogLine;
use crate::transport::{Read, Source};
use crate::worker::round::Effort;
use bytes::Bytes;
use qjam_core::ids::{DataSetId, RoundId, SeatId, WorkerId};
use qjam_core::job::{Cause, Death, FaultKind};
use qjam_core::scheduler::Event;
use qjam_core::wire::message::{Outcome, Payload, Span, State, Task};
use qjam_core::wire::{FromHost, ToHost, ToMaster, ToWorker};
use rustix::event::epoll;
use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often connections are looked at: whether something should be said, and whether something was.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Reads in a row before looking at anything else.
const READS_MAX: usize = 16;
/// Which of a worker's descriptors a connection is, for epoll.
pub(super) const LINK: u64 = 3;

impl Driver {
    fn link(&mut self, seat: SeatId) -> Option<&mut Link> {
        self.seats.get_mut(seat.0 as usize)?.link.as_deref_mut()
    }

    /// The connection over which this worker is reached.
    pub(super) fn link_of(&mut self, worker: WorkerId) -> Option<&mut Link> {
        self.link(worker.seat).filter(|link| link.worker == Some(worker))
    }

    /// Starts a worker on a host, over the connection that is there or over a new one.
    pub(super) fn start_host(&mut self, worker: WorkerId, address: HostAddress) {
        let slots = self.slots_on(worker.seat);
        if let Some(link) = self.link(worker.seat) {
            link.start(worker, slots);
            return self.pump(worker.seat);
        }
        let news = self.news.clone();
        let stop = self.stop.clone();
        let shipped = self.options.ship.clone();
        let connect = move || {
            let result = link::connect(&address, shipped.as_deref(), &stop);
            news.put(News::Connected { worker, result: result.map(Box::new).map_err(Box::new) });
        };
        let started = std::thread::Builder::new().name("qjam-ssh".into()).spawn(connect);
        if let Err(e) = started {
            let death = Death::of(Cause::Start(format!("no thread for it: {e}")));
            self.tell(Event::WorkerLost { worker, death });
        }
    }

    /// How many slots the user asked for there; `None` for one per core.
    fn slots_on(&self, seat: SeatId) -> Option<u32> {
        self.seats.get(seat.0 as usize).filter(|here| here.seat.slots_given).map(|here| here.seat.slots)
    }

    pub(super) fn on_connected(&mut self, worker: WorkerId, result: Result<Box<Link>, Box<StartFailure>>) {
        let link = match result {
            Ok(link) if self.scheduler.is_starting(worker) => link,
            Ok(_) => return, // nobody waits for it any more; dropping it ends it
            Err(failure) => {
                let death = Death::of(Cause::Start(failure.to_string()));
                self.seats[worker.seat.0 as usize].failure = Some(*failure);
                return self.tell(Event::WorkerLost { worker, death });
            }
        };
        let [socket, stderr] = link.fds();
        let registered = epoll::add(&self.epoll, socket, token(worker, LINK), epoll::EventFlags::IN)
            .and_then(|()| epoll::add(&self.pipes, stderr, token(worker, LINK), epoll::EventFlags::IN));
        if let Err(e) = registered {
            let death = Death::of(Cause::Start(e.to_string()));
            return self.tell(Event::WorkerLost { worker, death });
        }
        let welcome = ToHost::Welcome {
            memory_bytes_max: self.options.memory_bytes_max,
            cache_bytes_max: self.cache_bytes_there(worker.seat, link.facts.memory_bytes),
            disk_bytes_max: self.options.disk_bytes_max,
            deliver_after_us: self.options.deliver_after.as_micros() as u64,
            lines_per_second_max: self.options.lines_per_second_max,
            runtime: self.options.python.setup(None),
        };
        let slots = self.slots_on(worker.seat);
        let here = &mut self.seats[worker.seat.0 as usize];
        here.generation = worker.incarnation;
        let link = here.link.insert(link);
        link.send(&welcome, Bytes::new(), None);
        link.start(worker, slots);
        self.links_due.get_or_insert_with(Instant::now);
        self.pump(worker.seat);
    }

    /// Sends what a connection takes, and asks to be told when it takes more.
    pub(super) fn pump(&mut self, seat: SeatId) {
        let Some(here) = self.seats.get_mut(seat.0 as usize) else { return };
        let Some(link) = &mut here.link else { return };
        let flushed = link.flush();
        let flags = match &flushed {
            Ok(false) => epoll::EventFlags::IN | epoll::EventFlags::OUT,
            _ => epoll::EventFlags::IN,
        };
        if here.wants_out != matches!(flushed, Ok(false)) {
            here.wants_out = !here.wants_out;
            let token = token(WorkerId { seat, incarnation: here.generation }, LINK);
            let _ = epoll::modify(&self.epoll, link.fds()[0], token, flags);
        }
        let failed = link.take_failed();
        if let Err(e) = flushed {
            return self.lose_link(seat, &e.to_string());
        }
        for (dataset, index, why) in failed {
            self.fail_over_chunk(dataset, index, why);
        }
    }

    /// A chunk cannot be had: rounds over its data set cannot end well.
    fn fail_over_chunk(&mut self, dataset: DataSetId, index: u32, why: String) {
        let rounds: Vec<RoundId> = self
            .rounds
            .iter()
            .filter(|(_, r)| r.data.located == dataset && !r.is_answered)
            .map(|(id, _)| *id)
            .collect();
        for round in rounds {
            let mut fault = fault(FaultKind::Chunk, why.clone());
            fault.chunk = Some(index);
            self.tell(Event::Faulted { worker: None, round, fault });
        }
    }

    /// A connection has something to say, or takes more.
    pub(super) fn on_link_ready(&mut self, generation: WorkerId, flags: epoll::EventFlags) {
        let seat = generation.seat;
        let here = self.seats.get(seat.0 as usize);
        if here.is_none_or(|here| here.link.is_none() || here.generation != generation.incarnation) {
            return; // of a connection that is no more
        }
        if flags.contains(epoll::EventFlags::OUT) {
            self.pump(seat);
        }
        if !flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            return;
        }
        for _ in 0..READS_MAX {
            let Some(link) = self.link(seat) else { return };
            let read = link.read();
            if let Err(why) = self.take_in(seat) {
                return self.lose_link(seat, &format!("it broke the protocol: {why}"));
            }
            match read {
                Ok(Read::Some) => {}
                Ok(Read::Nothing) => break,
                Ok(Read::Ended) => return self.lose_link(seat, "the connection ended"),
                Err(e) => return self.lose_link(seat, &e.to_string()),
            }
        }
        self.pump(seat);
    }

    /// Deals with everything that has come whole.
    fn take_in(&mut self, seat: SeatId) -> Result<(), String> {
        let mut piece_of = None;
        while let Some(link) = self.link(seat) {
            match link.next()? {
                None => break,
                Some(Came::Piece) => piece_of = link.worker,
                Some(Came::Message(message, tail, bytes)) => {
                    self.on_host_message(seat, *message, &tail, bytes)?;
                }
            }
        }
        if let Some(worker) = piece_of {
            // A long result is on its way.
            self.tell(Event::WorkerSpoke { worker });
        }
        Ok(())
    }

    /// What ssh and the host's standard error say: kept for the case that the connection is lost.
    pub(super) fn hear_words(&mut self, generation: WorkerId) {
        if let Some(here) = self.seats.get_mut(generation.seat.0 as usize)
            && here.generation == generation.incarnation
            && let Some(link) = &mut here.link
            && link.hear_words()
        {
            let _ = epoll::delete(&self.pipes, link.fds()[1]);
        }
    }

    fn on_host_message(
        &mut self,
        seat: SeatId,
        message: FromHost,
        tail: &Bytes,
        bytes: usize,
    ) -> Result<(), String> {
        match message {
            FromHost::Hello(_) => return Err("a second hello".into()),
            FromHost::Joined { worker, slots, pid } => {
                if slots == 0 || slots > crate::engine::SLOTS_MAX {
                    return Err(format!("a worker with {slots} slots"));
                }
                if let Some(link) = self.link_of(worker) {
                    link.pid = Some(pid);
                    link.drop_parts();
                    self.seats[seat.0 as usize].seat.slots = slots;
                    self.seats[seat.0 as usize].failure = None;
                    self.find_python(worker);
                    self.tell(Event::WorkerJoined { worker, slots });
                }
            }
            FromHost::Died { worker, death } => {
                if self.link_of(worker).is_some() {
                    self.tell(Event::WorkerLost { worker, death });
                }
            }
            FromHost::Worker { worker, message } => {
                if self.link_of(worker).is_some() {
                    self.on_far_message(worker, message, tail, bytes)?;
                }
            }
            FromHost::Lines { worker, lines, dropped } => {
                for line in lines {
                    self.log(worker, Line { text: line.text, is_error: line.is_error });
                }
                self.seats[seat.0 as usize].throttle.dropped += dropped;
            }
            FromHost::Refused { chunk, why } => {
                let sets: Vec<(DataSetId, u32)> = self
                    .known
                    .iter()
                    .filter_map(|(id, known)| Some((*id, *known.index.get(&chunk)?)))
                    .collect();
                for (dataset, index) in sets {
                    self.fail_over_chunk(dataset, index, why.clone());
                }
            }
            FromHost::Trouble(text) => {
                let worker = self.seats[seat.0 as usize].seat.name.clone();
                self.show(&LogLine { worker, text, is_error: true });
            }
            FromHost::OpenPart { .. } | FromHost::Beat { .. } | FromHost::Cached(_) => {}
        }
        Ok(())
    }

    fn on_far_message(
        &mut self,
        worker: WorkerId,
        message: ToMaster,
        tail: &Bytes,
        bytes: usize,
    ) -> Result<(), String> {
        match message {
            ToMaster::Hello { .. } => return Err("an executor's hello".into()),
            ToMaster::State(State::Running) | ToMaster::Pong => self.tell(Event::WorkerSpoke { worker }),
            ToMaster::State(State::Blocked { round, missing }) => {
                match self.look_up(round, &missing)? {
                    Some((data, indices)) => self.send_chunks(worker, round, &data, &indices),
                    // The host looked on its disk first, and the round was over before it had looked everywhere. It
                    // does not ask twice: the next round over the same data waits for these chunks, too.
                    None => {
                        for (data, indices) in self.look_up_anywhere(&missing) {
                            self.send_chunks(worker, round, &data, &indices);
                        }
                    }
                }
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
                self.on_far_result(worker, outcome, tail)?;
            }
            ToMaster::Error { round, fault } => {
                self.tell(Event::Faulted { worker: Some(worker), round, fault })
            }
            ToMaster::Returned { round, returned } => self.tell(Event::Returned { worker, round, returned }),
            ToMaster::Cancelled(round) => self.tell(Event::RoundLetGo { worker, round }),
            ToMaster::Runtime(found) => self.on_python(worker.seat, found),
        }
        Ok(())
    }

    /// Data sets that have these chunks, and where in them they are.
    fn look_up_anywhere(&self, missing: &[ChunkId]) -> Vec<(Arc<CutData>, Vec<u32>)> {
        let mut left: HashSet<&ChunkId> = missing.iter().collect();
        let mut found = Vec::new();
        for known in self.known.values() {
            let Some(data) = known.data.iter().find_map(Weak::upgrade) else { continue };
            let here = missing.iter().filter_map(|id| Some((id, *known.index.get(id)?)));
            let indices: Vec<u32> = here.filter(|(id, _)| left.remove(id)).map(|(_, index)| index).collect();
            if !indices.is_empty() {
                found.push((data, indices));
            }
        }
        found
    }

    fn send_chunks(&mut self, worker: WorkerId, round: RoundId, data: &Arc<CutData>, indices: &[u32]) {
        let Some(link) = self.link_of(worker) else { return };
        let before = link.bytes_out;
        let sent = link.send_chunks(data, indices);
        let bytes = link.bytes_out - before;
        if let Some(running) = self.rounds.get_mut(&round) {
            running.report.bytes_out += bytes;
            running.report.chunks_sent += sent;
        }
        self.pump(worker.seat);
    }

    fn on_far_result(&mut self, worker: WorkerId, outcome: Outcome, tail: &Bytes) -> Result<(), String> {
        let Outcome { round, parts, compute_us, cache_hits, cache_misses, restored } = outcome;
        let blocks = super::intake::blocks_in(&parts);
        self.count_effort(
            worker,
            round,
            blocks,
            Effort { compute_us, hits: cache_hits, misses: cache_misses, restored },
        );
        for part in parts {
            let value = match part.payload {
                Payload::Streamed { bytes } => {
                    if let Some(running) = self.rounds.get_mut(&round) {
                        running.report.bytes_in += bytes;
                    }
                    let Some(link) = self.link_of(worker) else { return Ok(()) };
                    link.take_part(bytes)?
                }
                Payload::Tail { offset, bytes } => {
                    let (from, to) = (offset as usize, offset as usize + bytes as usize);
                    if to > tail.len() {
                        return Err(format!("{:?} of a tail of {}", part.payload, tail.len()));
                    }
                    tail.slice(from..to)
                }
                Payload::Arena { .. } => return Err("an arena of another host".into()),
            };
            self.deliver(worker, round, part.node, part.spans, super::Value::Encoded(value));
        }
        Ok(())
    }

    pub(super) fn assign_host(&mut self, worker: WorkerId, round: RoundId, spans: &[Span]) {
        let Some(running) = self.rounds.get_mut(&round) else { return };
        let here = &mut self.seats[worker.seat.0 as usize];
        let Some(link) = here.link.as_mut().filter(|link| link.worker == Some(worker)) else { return };
        let before = link.bytes_out;
        let bytes = running.params_bytes as u64;
        let (params, tail) = if running.params_bytes > INLINE_BYTES_MAX {
            if !link.has_params(round) {
                let source: Box<dyn Source> = match &running.lent {
                    Some(lent) => Box::new(lent.pieces(bytes)),
                    None => Box::new(running.whole_params(&mut self.arenas)),
                };
                link.send_params(round, source);
            }
            (Payload::Streamed { bytes }, Bytes::new())
        } else {
            (Payload::Tail { offset: 0, bytes: bytes as u32 }, running.params.clone())
        };
        for Portion { spans, chunks } in
            link.told(running.data.located).tasks(&running.data, running.cut, spans)
        {
            let task = Task {
                order: running.head(round, self.options.seed),
                chunks,
                spans,
                params,
                released: Vec::new(),
            };
            let message = ToHost::Worker { worker, message: ToWorker::Task(task) };
            link.send(&message, tail.clone(), Some(round));
        }
        running.report.bytes_out += link.bytes_out - before;
        self.pump(worker.seat);
    }

    pub(super) fn call_off_host(&mut self, worker: WorkerId, round: RoundId, message: ToWorker) {
        let Some(running) = self.rounds.get(&round) else { return };
        let dataset = running.data.located;
        if let Some(link) = self.link_of(worker) {
            link.call_off(worker, round, message, &dataset);
            self.pump(worker.seat);
        }
    }

    /// Does something with every connection, and sends what comes of it.
    pub(super) fn each_link(&mut self, mut f: impl FnMut(&mut Link)) {
        for n in 0..self.seats.len() {
            if let Some(link) = &mut self.seats[n].link {
                f(link);
                if link.has_unsent() {
                    self.pump(SeatId(n as u32));
                }
            }
        }
    }

    /// Ends a worker on a host: the connection goes too when it is the connection that is silent.
    pub(super) fn end_host(&mut self, worker: WorkerId, cause: Option<Cause>) -> Death {
        let lively = self.link_of(worker).is_some_and(|link| link.is_lively());
        match cause {
            Some(cause @ Cause::Silent(_)) if !lively => {
                let words = self.drop_link(worker.seat);
                let words = if words.is_empty() { cause.to_string() } else { format!("{cause}; {words}") };
                Death::of(Cause::LinkLost(words))
            }
            cause => {
                if let Some(link) = self.link_of(worker) {
                    link.worker = None;
                    link.urgent(&ToHost::Kill { worker });
                    self.pump(worker.seat);
                }
                Death::of(cause.unwrap_or(Cause::Signal(9)))
            }
        }
    }

    /// Closes a connection; gives ssh's last words.
    pub(super) fn drop_link(&mut self, seat: SeatId) -> String {
        let Some(link) = self.seats.get_mut(seat.0 as usize).and_then(|here| {
            here.wants_out = false;
            here.link.take()
        }) else {
            return String::new();
        };
        let [socket, stderr] = link.fds();
        let _ = epoll::delete(&self.epoll, socket);
        let _ = epoll::delete(&self.pipes, stderr);
        link.end()
    }

    fn lose_link(&mut self, seat: SeatId, why: &str) {
        let Some(worker) = self.link(seat).map(|link| link.worker) else { return };
        let words = self.drop_link(seat);
        let words = if words.is_empty() { why.to_owned() } else { format!("{why}; {words}") };
        if let Some(worker) = worker {
            let death = Death::of(Cause::LinkLost(words));
            self.tell(Event::WorkerLost { worker, death });
        }
    }

    /// When connections should next be looked at.
    pub(super) fn look_in(&self) -> Option<Duration> {
        self.links_due.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Says something where nothing was said for a while, and gives up what has been silent for too long.
    pub(super) fn look_at_links(&mut self) {
        if self.links_due.is_none_or(|at| at > Instant::now()) {
            return;
        }
        let mut any = false;
        for n in 0..self.seats.len() {
            let seat = SeatId(n as u32);
            let Some(link) = self.link(seat) else { continue };
            any = true;
            if link.is_silent() {
                self.lose_link(seat, "it said nothing for 15 s");
            } else {
                link.beat_if_due();
                self.pump(seat);
            }
        }
        self.links_due = any.then(|| Instant::now() + LOOK_EVERY);
    }
}
