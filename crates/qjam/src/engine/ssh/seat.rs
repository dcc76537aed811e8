//! A seat whose worker is on another host.
//!
//! The seat has a [`Link`] as long as its connection holds. Making one takes a thread of its own, since it waits for `ssh`;
//! everything after that happens in the master's loop. The connection outlives executors: when one dies the supervisor says
//! so, and is asked for another.

use super::Patience;
use super::link::{self, Link};
use crate::dataset::CutData;
use crate::engine::HostAddress;
use crate::engine::caps::Caps;
use crate::engine::poller::is_readable;
use crate::engine::queue::{Event, SeatEvent};
use crate::engine::seat::{Gone, Notice, Said, SeatContext, SeatEngine, Share};
use crate::executor_process::TaskPart;
use crate::transport::Read;
use bytes::Bytes;
use qjam_core::ids::{RoundId, WorkerId};
use qjam_core::job::{Cause, Death};
use qjam_core::wire::host::SEGMENT_BYTES;
use qjam_core::wire::message::{Payload, Task};
use qjam_core::wire::{ToHost, ToWorker};
use rustix::event::epoll::EventFlags;
use std::collections::VecDeque;
use std::sync::Arc;

/// Reads in a row before the loop looks at anything else.
const READS_MAX: usize = 16;
/// The number of the connection, and of ssh's standard error among the pipes.
const LINK: u64 = 3;

/// A seat on another host.
pub(crate) struct HostSeat {
    address: HostAddress,
    /// Slots that the user asked for; `None` for one per core.
    slots: Option<u32>,
    pub(super) link: Option<Box<Link>>,
    /// The worker that the connection was made for: its descriptors are registered under that name.
    connected_for: WorkerId,
    /// Starts since the connection was lost; `None` if there has been none.
    starts_since: Option<u32>,
    /// Whether the poller watches for room to write.
    wants_room: bool,
    /// What to do once everything that came has been heard: why the connection is lost.
    ending: Option<String>,
    pub(super) said: VecDeque<(WorkerId, Said)>,
}

impl HostSeat {
    pub(crate) fn new(address: HostAddress, slots: Option<u32>) -> Self {
        let connected_for = WorkerId { seat: qjam_core::ids::SeatId(0), incarnation: 0 };
        let said = VecDeque::new();
        HostSeat {
            address,
            slots,
            link: None,
            connected_for,
            starts_since: None,
            wants_room: false,
            ending: None,
            said,
        }
    }

    /// The name that the connection goes by.
    pub(super) fn name(&self) -> WorkerId {
        self.connected_for
    }

    pub(super) fn say(&mut self, worker: WorkerId, said: Said) {
        self.said.push_back((worker, said));
    }

    /// The connection over which this worker is reached.
    pub(super) fn link_of(&mut self, worker: WorkerId) -> Option<&mut Link> {
        self.link.as_deref_mut().filter(|link| link.worker == Some(worker))
    }

    /// Does something with the connection of this worker, then sends what the connection takes.
    fn send(&mut self, worker: WorkerId, cx: &mut SeatContext<'_>, f: impl FnOnce(&mut Link)) {
        let Some(link) = self.link_of(worker) else { return };
        let before = link.bytes_out();
        f(link);
        cx.traffic.bytes_out += link.bytes_out() - before;
        self.pump(cx);
    }

    /// Sends what the connection takes, and watches for room if there is more.
    fn pump(&mut self, cx: &SeatContext<'_>) {
        let Some(link) = &mut self.link else { return };
        let flushed = link.flush();
        if self.wants_room != matches!(flushed, Ok(false)) {
            self.wants_room = !self.wants_room;
            cx.poller.watch_for_room(link.fds()[0], self.connected_for, LINK, self.wants_room);
        }
        let failed = link.take_failed();
        if let Err(e) = flushed {
            return self.lose(&e.to_string(), cx);
        }
        for (dataset, index, why) in failed {
            self.said.push_back((self.connected_for, Said::Unreadable { dataset, index, why }));
        }
    }

    /// Takes in a connection.
    fn connect(&mut self, worker: WorkerId, link: Box<Link>, cx: &mut SeatContext<'_>) {
        let [socket, stderr] = link.fds();
        let registered = cx.poller.add(socket, worker, LINK);
        if let Err(e) = registered.and_then(|()| cx.poller.add_pipe(stderr, worker, LINK)) {
            return self.say(worker, Said::Lost(Death::of(Cause::Start(e.to_string()))));
        }
        let settings = cx.settings;
        let limit = settings.memory_bytes_max;
        let welcome = ToHost::Welcome {
            memory_bytes_max: limit,
            cache_bytes_max: settings.cache_bytes(limit, link.facts.memory_bytes, cx.neighbours.workers),
            disk_bytes_max: settings.disk_bytes_max,
            deliver_after_us: settings.deliver_after_us(),
            lines_per_second_max: settings.lines_per_second_max,
            runtime: settings.python.setup(None),
        };
        (self.connected_for, self.ending, self.starts_since) = (worker, None, Some(0));
        let link = self.link.insert(link);
        link.send(&welcome, Bytes::new(), None);
        link.start(worker, self.slots);
        self.pump(cx);
    }

    /// Closes the connection; gives ssh's last words.
    fn disconnect(&mut self, cx: &SeatContext<'_>) -> String {
        self.wants_room = false;
        let Some(link) = self.link.take() else { return String::new() };
        let [socket, stderr] = link.fds();
        cx.poller.remove(socket);
        cx.poller.remove_pipe(stderr);
        link.end()
    }

    /// The connection is lost, and its worker with it.
    pub(super) fn lose(&mut self, why: &str, cx: &SeatContext<'_>) {
        let Some(worker) = self.link.as_ref().map(|link| link.worker) else { return };
        let words = self.disconnect(cx);
        if let Some(worker) = worker {
            self.say(worker, Said::Lost(Death::of(Cause::LinkLost(with_words(why, &words)))));
        }
    }

    /// Sends a short message, after everything about its round that is on its way.
    fn pass_on(
        &mut self,
        worker: WorkerId,
        round: Option<RoundId>,
        message: ToWorker,
        cx: &mut SeatContext<'_>,
    ) {
        self.send(worker, cx, |link| link.send(&ToHost::Worker { worker, message }, Bytes::new(), round));
    }
}

fn with_words(why: &str, words: &str) -> String {
    if words.is_empty() { why.to_owned() } else { format!("{why}; {words}") }
}

impl SeatEngine for HostSeat {
    fn caps(&self) -> Caps {
        Caps::HOSTS
    }

    fn machine(&self) -> Option<String> {
        Some(self.address.to_string())
    }

    /// Starts a worker over the connection that is there, or over a new one.
    fn start(&mut self, worker: WorkerId, cx: &mut SeatContext<'_>) {
        if let Some(link) = &mut self.link {
            link.start(worker, self.slots);
            return self.pump(cx);
        }
        let (queue, stop) = (cx.queue.clone(), cx.settings.stop.clone());
        let (address, shipped) = (self.address.clone(), cx.settings.ship.clone());
        // A host that was there answers soon, or is gone; then nobody should wait long to be told.
        let patience = match self.starts_since {
            Some(0 | 1) => Patience::SHORT,
            _ => Patience::USUAL,
        };
        self.starts_since = self.starts_since.map(|starts| starts.saturating_add(1));
        let connect = move || {
            let result = link::connect(&address, shipped.as_deref(), patience, &stop);
            let result = result.map(Box::new).map_err(Box::new);
            queue.put(Event::Seat(worker, SeatEvent::Connected(result)));
        };
        let started = std::thread::Builder::new().name("qjam-ssh".into()).spawn(connect);
        if let Err(e) = started {
            let death = Death::of(Cause::Start(format!("no thread for it: {e}")));
            self.say(worker, Said::Lost(death));
        }
    }

    fn assign(&mut self, worker: WorkerId, share: Share<'_>, cx: &mut SeatContext<'_>) {
        let Share { order, ranges, arenas, .. } = share;
        let round = order.round();
        self.send(worker, cx, |link| {
            let bytes = order.params.len() as u64;
            let (params, tail) = if order.params.is_long() {
                if !link.has_params(round) {
                    link.send_params(round, order.params.pieces(arenas));
                }
                (Payload::Streamed { bytes }, Bytes::new())
            } else {
                (Payload::Tail { offset: 0, bytes: bytes as u32 }, order.params.whole())
            };
            let known = link.known_chunks(order.data.located);
            for TaskPart { ranges, chunks } in known.tasks(&order.data, order.head.cut, &ranges) {
                let order = order.head.clone();
                let task = Task { order, chunks, ranges, params, released: Vec::new() };
                let message = ToHost::Worker { worker, message: ToWorker::Task(task) };
                link.send(&message, tail.clone(), Some(round));
            }
        });
    }

    fn notify(&mut self, worker: WorkerId, notice: Notice, cx: &mut SeatContext<'_>) {
        match notice {
            // Its supervisor asks it, every second.
            Notice::Ping | Notice::ReuseArenas => {}
            Notice::Cancel { round, dataset, is_patient } => {
                let message = if is_patient { ToWorker::Spare(round) } else { ToWorker::Cancel(round) };
                self.send(worker, cx, |link| link.call_off(worker, round, message, &dataset));
            }
            Notice::Recall { round, blocks } => {
                self.pass_on(worker, Some(round), ToWorker::Recall { round, blocks }, cx);
            }
            Notice::Apart { round, block } => {
                self.pass_on(worker, Some(round), ToWorker::Apart { round, block }, cx);
            }
            Notice::Recipe { round, question, recipe } => {
                let (pieces, bytes) = recipe.to_pieces(SEGMENT_BYTES);
                let mut offset = 0;
                self.send(worker, cx, |link| {
                    for piece in pieces {
                        let message = ToWorker::Recipe { round, question, offset, bytes };
                        offset += piece.len() as u64;
                        link.send(&ToHost::Worker { worker, message }, piece, Some(round));
                    }
                });
            }
            Notice::FindInterpreter => self.pass_on(worker, None, ToWorker::FindRuntime, cx),
        }
    }

    fn announce(&mut self, gone: Gone, cx: &mut SeatContext<'_>) {
        let Some(link) = &mut self.link else { return };
        match gone {
            Gone::Round(round) => link.close(round),
            Gone::DataSet(dataset) => link.forget(dataset),
            // One that is not through its handshake has no states.
            Gone::Hold(hold) => {
                if let Some(worker) = link.worker.filter(|_| link.pid.is_some()) {
                    let message = ToWorker::Release(hold);
                    link.send(&ToHost::Worker { worker, message }, Bytes::new(), None);
                }
            }
        }
        if link.has_unsent() {
            self.pump(cx);
        }
    }

    fn send_chunks(
        &mut self,
        worker: WorkerId,
        data: &Arc<CutData>,
        indices: &[u32],
        cx: &mut SeatContext<'_>,
    ) {
        let mut sent = 0;
        self.send(worker, cx, |link| sent = link.send_chunks(data, indices));
        cx.traffic.chunks_sent += sent;
    }

    fn on_event(&mut self, worker: WorkerId, event: SeatEvent, cx: &mut SeatContext<'_>) {
        match event {
            SeatEvent::Connected(Ok(link)) if cx.is_starting => self.connect(worker, link, cx),
            // Nobody waits for it any more; dropping it ends it.
            SeatEvent::Connected(Ok(_)) => {}
            SeatEvent::Connected(Err(failure)) => {
                let death = Death::of(Cause::Start(failure.to_string()));
                self.say(worker, Said::Unreachable(failure));
                self.say(worker, Said::Lost(death));
            }
            SeatEvent::Spawned(_) | SeatEvent::BlockDone(_) => {}
        }
    }

    fn on_ready(&mut self, worker: WorkerId, _: u64, flags: EventFlags, cx: &mut SeatContext<'_>) {
        if worker != self.connected_for || self.link.is_none() {
            return; // of a connection that is no more
        }
        if flags.contains(EventFlags::OUT) {
            self.pump(cx);
        }
        if !is_readable(flags) {
            return;
        }
        for _ in 0..READS_MAX {
            let Some(link) = &mut self.link else { return };
            let read = link.read();
            if let Err(why) = self.take_in() {
                self.ending = Some(format!("it broke the protocol: {why}"));
                return;
            }
            match read {
                Ok(Read::Some) => {}
                Ok(Read::Nothing) => break,
                Ok(Read::Ended) => self.ending = Some("the connection ended".into()),
                Err(e) => self.ending = Some(e.to_string()),
            }
            if self.ending.is_some() {
                return;
            }
        }
        self.pump(cx);
    }

    fn read_output(&mut self, worker: WorkerId, _: u64, cx: &mut SeatContext<'_>) {
        // What ssh and the host's standard error say is kept for the case that the connection is lost.
        if worker == self.connected_for
            && let Some(link) = &mut self.link
            && link.hear_words()
        {
            cx.poller.remove_pipe(link.fds()[1]);
        }
    }

    fn next(&mut self, cx: &mut SeatContext<'_>) -> Option<(WorkerId, Said)> {
        if self.said.is_empty()
            && let Some(why) = self.ending.take()
        {
            self.lose(&why, cx);
        }
        self.said.pop_front()
    }

    /// Ends a worker: the connection goes too when it is the connection that is silent.
    fn end(&mut self, worker: WorkerId, cause: Option<Cause>, cx: &mut SeatContext<'_>) -> Death {
        let Some(link) = self.link_of(worker) else {
            // Still being started; it is ended when it comes.
            return Death::of(cause.unwrap_or(Cause::Signal(9)));
        };
        match cause {
            Some(cause @ Cause::Silent(_)) if !link.is_lively() => {
                let words = self.disconnect(cx);
                Death::of(Cause::LinkLost(with_words(&cause.to_string(), &words)))
            }
            cause => {
                link.worker = None;
                link.urgent(&ToHost::Kill { worker });
                self.pump(cx);
                Death::of(cause.unwrap_or(Cause::Signal(9)))
            }
        }
    }

    fn expel(&mut self, _: WorkerId, why: String, cx: &mut SeatContext<'_>) {
        self.lose(&format!("it broke the protocol: {why}"), cx);
    }

    fn close(&mut self, cx: &mut SeatContext<'_>) {
        if let Some(worker) = self.occupant() {
            self.end(worker, Some(Cause::Unresponsive), cx);
        }
        self.disconnect(cx);
    }

    fn wants_ticks(&self) -> bool {
        self.link.is_some()
    }

    fn tick(&mut self, cx: &mut SeatContext<'_>) {
        let Some(link) = &mut self.link else { return };
        if link.is_silent() {
            self.lose("it said nothing for 15 s", cx);
        } else {
            link.beat_if_due();
            self.pump(cx);
        }
    }

    fn pids(&self) -> (Option<u32>, Option<u32>) {
        (None, self.link.as_ref().and_then(|link| link.pid))
    }

    fn occupant(&self) -> Option<WorkerId> {
        self.link.as_ref().and_then(|link| link.worker)
    }
}
