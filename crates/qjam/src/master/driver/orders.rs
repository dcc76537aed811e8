//! Outwards: starting and ending workers, giving them blocks, calling them off.

use super::{Driver, INLINE_BYTES_MAX, News, SeatHere, Sitting, fault, token};
use crate::engine::SeatKind;
use crate::engine::local::{LocalSays, LocalSeat, LocalTask};
use crate::engine::told::Portion;
use crate::transport::Attachment;
use crate::worker::caught;
use bytes::Bytes;
use qjam_core::ids::{Block, RoundId, WorkerId};
use qjam_core::job::{Cause, Death, FaultKind};
use qjam_core::scheduler::Event;
use qjam_core::time::{Span, Time};
use qjam_core::wire::message::{self, Payload, Task};
use qjam_core::wire::{ToHost, ToWorker};
use rustix::event::epoll;
use rustix::fd::AsFd;
use std::io;
use std::sync::Arc;

impl Driver {
    pub(super) fn is_local(&self, worker: WorkerId) -> bool {
        matches!(&self.seats[worker.seat.0 as usize].sitting, Sitting::Local(l) if l.worker == worker)
    }

    pub(super) fn start(&mut self, worker: WorkerId) {
        let seat = self.seats[worker.seat.0 as usize].seat.clone();
        match seat.kind {
            SeatKind::Proc => {
                if self.keeper.send((worker, seat)).is_err() {
                    let death = Death::of(Cause::Start("the thread that starts processes is gone".into()));
                    self.tell(Event::WorkerLost { worker, death });
                }
            }
            SeatKind::Host(address) => self.start_host(worker, address),
            SeatKind::Rank => panic!("the scheduler knows nothing of ranks"),
            SeatKind::Local => {
                let news = self.news.clone();
                let report = Arc::new(move |done, is_pressing: &dyn Fn() -> bool| {
                    news.put_and(News::LocalDone(done), is_pressing);
                });
                let deliver_after = Span(self.options.deliver_after.as_micros() as u64);
                let limit = self.options.memory_bytes_max;
                match LocalSeat::start(worker, seat.slots, deliver_after, self.open.clone(), report, limit) {
                    Ok(local) => {
                        self.seats[worker.seat.0 as usize].sitting = Sitting::Local(Box::new(local));
                        self.tell(Event::WorkerJoined { worker, slots: seat.slots });
                    }
                    Err(e) => {
                        let death = Death::of(Cause::Start(e.to_string()));
                        self.tell(Event::WorkerLost { worker, death });
                    }
                }
            }
        }
    }

    /// Ends whoever is there under this name and says how it was.
    pub(super) fn end(&mut self, worker: WorkerId, cause: Option<Cause>) -> Death {
        if self.link_of(worker).is_some() {
            return self.end_host(worker, cause);
        }
        let here = &mut self.seats[worker.seat.0 as usize];
        match &here.sitting {
            Sitting::Proc(executor) if executor.worker == worker => {}
            Sitting::Local(local) if local.worker == worker => {
                // Threads cannot be killed: they are left behind, and end when their function does.
                here.sitting = Sitting::Nobody;
                return Death::of(cause.unwrap_or(Cause::Unresponsive));
            }
            // Still being started; the process is ended when it comes.
            _ => return Death::of(cause.unwrap_or(Cause::Signal(9))),
        }
        let Sitting::Proc(executor) = std::mem::replace(&mut here.sitting, Sitting::Nobody) else {
            unreachable!("it was one a moment ago")
        };
        let [socket, stdout, stderr] = executor.fds();
        let _ = epoll::delete(&self.epoll, socket);
        let _ = epoll::delete(&self.pipes, stdout);
        let _ = epoll::delete(&self.pipes, stderr);
        let mut lines = Vec::new();
        let death = executor.end(cause, |line| lines.push(line));
        for line in lines {
            self.log(worker, line);
        }
        death
    }

    pub(super) fn assign(&mut self, worker: WorkerId, round: RoundId, spans: Vec<message::Span>) {
        if !self.rounds.contains_key(&round) {
            return;
        }
        if self.is_local(worker) {
            self.assign_local(worker, round, spans);
            return;
        }
        if self.link_of(worker).is_some() {
            self.assign_host(worker, round, &spans);
            return;
        }
        let sent = self.assign_proc(worker, round, &spans);
        self.check_sent(worker, sent);
    }

    pub(super) fn assign_local(&mut self, worker: WorkerId, round: RoundId, spans: Vec<message::Span>) {
        let running = self.rounds.get_mut(&round).expect("the caller looked");
        let params = match &running.opened {
            Some(params) => params.clone(),
            None => {
                let whole = running.whole_params(&mut self.arenas);
                let opened = caught(|| running.function.open_params(whole))
                    .and_then(|read| read.map_err(|e| fault(FaultKind::Params, e.to_string())));
                match opened {
                    Ok(params) => running.opened.insert(params).clone(),
                    Err(fault) => {
                        self.tell(Event::Faulted { worker: None, round, fault });
                        return;
                    }
                }
            }
        };
        let slots_max = running.chosen.as_ref().and_then(|chosen| chosen.slots_max());
        let threads_max = slots_max.map(|slots| self.threads_of(worker.seat, slots));
        let running = self.rounds.get_mut(&round).expect("the caller looked");
        let task = LocalTask {
            round,
            threads_max,
            cut: running.cut,
            function: running.function.clone(),
            params,
            data: running.data.clone(),
            seed: self.options.seed,
            spans,
            held: running.held.as_ref().map(|held| held.task),
        };
        let now = self.now();
        let mut says = Vec::new();
        if let Sitting::Local(local) = &mut self.seats[worker.seat.0 as usize].sitting {
            local.assign(now, task, &mut says);
        }
        self.hear_local(worker, says);
    }

    pub(super) fn assign_proc(
        &mut self,
        worker: WorkerId,
        round: RoundId,
        spans: &[message::Span],
    ) -> io::Result<()> {
        let running = self.rounds.get_mut(&round).expect("the caller looked");
        let Some(SeatHere { sitting: Sitting::Proc(executor), .. }) =
            self.seats.get_mut(worker.seat.0 as usize)
        else {
            return Ok(());
        };
        if running.params_bytes > INLINE_BYTES_MAX {
            running.place_params(&mut self.arenas)?;
        }
        let before = executor.bytes_out;
        executor.begin(round);
        for Portion { spans, chunks } in executor.told.tasks(&running.data, running.cut, spans) {
            let mut attached = Vec::new();
            let (params, tail) = match &running.placed {
                Some(placed) => {
                    let new = executor.introduced.insert(placed.arena);
                    if new {
                        attached.push(Attachment::File(placed.fd.clone()));
                    }
                    running.report.bytes_out += placed.bytes;
                    (placed.payload(new), &[][..])
                }
                None => {
                    (Payload::Tail { offset: 0, bytes: running.params.len() as u32 }, &running.params[..])
                }
            };
            let task = Task {
                order: running.head(round, self.options.seed),
                chunks,
                spans,
                params,
                released: executor.released.take(),
            };
            executor.send(&ToWorker::Task(task), tail, attached)?;
        }
        running.report.bytes_out += executor.bytes_out - before;
        Ok(())
    }

    pub(super) fn call_off(&mut self, worker: WorkerId, round: RoundId, is_patient: bool) {
        let message = if is_patient { ToWorker::Spare(round) } else { ToWorker::Cancel(round) };
        if let Some(executor) = self.executor(worker) {
            executor.mark_cancelled(round);
            let sent = executor.send(&message, &[], Vec::new());
            self.check_sent(worker, sent);
        } else if self.link_of(worker).is_some() {
            self.call_off_host(worker, round, message);
        } else {
            self.with_local(worker, |local, now, says| local.cancel(now, round, says));
        }
    }

    /// Asks a worker for blocks it has not started.
    pub(super) fn recall(&mut self, worker: WorkerId, round: RoundId, blocks: u32) {
        if !self.pass_on(worker, round, ToWorker::Recall { round, blocks }) {
            self.with_local(worker, |local, now, says| local.recall(now, round, blocks, says));
        }
    }

    /// Tells a worker that somebody else has a block, too.
    pub(super) fn set_apart(&mut self, worker: WorkerId, round: RoundId, block: Block) {
        if !self.pass_on(worker, round, ToWorker::Apart { round, block }) {
            self.with_local(worker, |local, now, says| local.apart(now, round, block, says));
        }
    }

    /// Sends a short message to a worker that is no thread of this process; says whether it is none.
    fn pass_on(&mut self, worker: WorkerId, round: RoundId, message: ToWorker) -> bool {
        if let Some(executor) = self.executor(worker) {
            let sent = executor.send(&message, &[], Vec::new());
            self.check_sent(worker, sent);
            return true;
        }
        let Some(link) = self.link_of(worker) else { return false };
        // In order: what it is about may be on its way.
        link.send(&ToHost::Worker { worker, message }, Bytes::new(), Some(round));
        self.pump(worker.seat);
        true
    }

    /// Does something with threads of this process, and hears what they say to that.
    pub(super) fn with_local(
        &mut self,
        worker: WorkerId,
        f: impl FnOnce(&mut LocalSeat, Time, &mut Vec<LocalSays>),
    ) {
        if !self.is_local(worker) {
            return;
        }
        let now = self.now();
        let mut says = Vec::new();
        if let Sitting::Local(local) = &mut self.seats[worker.seat.0 as usize].sitting {
            f(local, now, &mut says);
        }
        self.hear_local(worker, says);
    }

    /// Registers for writing while something waits, and treats an error as the end of the connection.
    pub(super) fn check_sent(&mut self, worker: WorkerId, sent: io::Result<()>) {
        match sent {
            Ok(()) => {
                let epoll = self.epoll.as_fd();
                if let Some(SeatHere { sitting: Sitting::Proc(executor), .. }) =
                    self.seats.get(worker.seat.0 as usize)
                    && executor.has_unsent()
                {
                    let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT;
                    let _ = epoll::modify(epoll, executor.fds()[0], token(worker, 0), flags);
                }
            }
            Err(_) => {
                let death = self.end(worker, None);
                self.tell(Event::WorkerLost { worker, death });
            }
        }
    }
}
