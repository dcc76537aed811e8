//! The `proc` engine: workers that are child processes of the master.
//!
//! The master is their supervisor and talks to each [`ExecutorProcess`] over a socket. Chunks and long values stay in shared
//! memory; messages say where. Nothing listens anywhere; nothing is left when the master ends.

mod inward;
mod words;

pub(in crate::engine) use inward::blocks_in;
pub(super) use words::WORDS;

use super::caps::Caps;
use super::poller::is_readable;
use super::queue::SeatEvent;
use super::seat::{Gone, Notice, Said, SeatContext, SeatEngine, Share};
use crate::dataset::CutData;
use crate::executor_process::{ExecutorProcess, TaskPart};
use crate::transport::{Attachment, Read};
use qjam_core::ids::{RoundId, WorkerId};
use qjam_core::job::{Cause, Death};
use qjam_core::wire::ToWorker;
use qjam_core::wire::host::{Line, SEGMENT_BYTES};
use qjam_core::wire::message::{Payload, Task};
use rustix::event::epoll::EventFlags;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Weak};

/// Numbers of an executor's descriptors.
const SOCKET: u64 = 0;
const STDOUT: u64 = 1;
const STDERR: u64 = 2;

/// A seat whose worker is a child process.
pub(crate) struct ProcessSeat {
    slots: u32,
    executor: Option<Box<ExecutorProcess>>,
    said: VecDeque<(WorkerId, Said)>,
    /// Lines that user code printed, which come before anything else.
    lines: VecDeque<(WorkerId, Line)>,
    /// For each round that the executor has blocks of: whether the master still looks at its results.
    views: Vec<(RoundId, Weak<()>)>,
}

impl ProcessSeat {
    pub(crate) fn new(slots: u32) -> Self {
        ProcessSeat {
            slots,
            executor: None,
            said: VecDeque::new(),
            lines: VecDeque::new(),
            views: Vec::new(),
        }
    }

    fn executor(&mut self, worker: WorkerId) -> Option<&mut ExecutorProcess> {
        self.executor.as_deref_mut().filter(|executor| executor.worker == worker)
    }

    /// The views of a round's results, if the executor has blocks of it.
    fn views_of(&self, round: RoundId) -> Option<&Weak<()>> {
        self.views.iter().find(|(of, _)| *of == round).map(|(_, views)| views)
    }

    fn say(&mut self, worker: WorkerId, said: Said) {
        self.said.push_back((worker, said));
    }

    /// Does something with the executor that may send to it, and deals with what comes of that: counts bytes, watches for
    /// room while something waits to be sent, and takes an error for the end of the connection.
    fn send(
        &mut self,
        worker: WorkerId,
        cx: &mut SeatContext<'_>,
        f: impl FnOnce(&mut ExecutorProcess) -> io::Result<()>,
    ) {
        let Some(executor) = self.executor(worker) else { return };
        let before = executor.bytes_out;
        let sent = f(executor);
        cx.traffic.bytes_out += executor.bytes_out - before;
        match sent {
            Ok(()) if executor.has_unsent() => {
                cx.poller.watch_for_room(executor.fds()[0], worker, SOCKET, true);
            }
            Ok(()) => {}
            Err(_) => self.lose(worker, None, cx),
        }
    }

    /// Ends the executor and says so.
    fn lose(&mut self, worker: WorkerId, cause: Option<Cause>, cx: &mut SeatContext<'_>) {
        let death = self.end(worker, cause, cx);
        self.say(worker, Said::Lost(death));
    }

    /// Takes in a process that was started.
    fn seat(
        &mut self,
        worker: WorkerId,
        spawned: crate::process::Spawned,
        cx: &SeatContext<'_>,
    ) -> io::Result<()> {
        let executor = ExecutorProcess::new(worker, self.slots, spawned, cx.settings.memory_bytes_max)?;
        let [socket, stdout, stderr] = executor.fds();
        cx.poller.add(socket, worker, SOCKET)?;
        cx.poller.add_pipe(stdout, worker, STDOUT)?;
        cx.poller.add_pipe(stderr, worker, STDERR)?;
        // One that nobody waits for any more ends when it is dropped.
        if cx.is_starting {
            self.executor = Some(Box::new(executor));
        }
        Ok(())
    }
}

impl SeatEngine for ProcessSeat {
    fn caps(&self) -> Caps {
        Caps::PROCESSES
    }

    fn start(&mut self, worker: WorkerId, cx: &mut SeatContext<'_>) {
        if !cx.spawner.request(worker, self.slots) {
            let death = Death::of(Cause::Start("the thread that starts processes is gone".into()));
            self.say(worker, Said::Lost(death));
        }
    }

    fn assign(&mut self, worker: WorkerId, share: Share<'_>, cx: &mut SeatContext<'_>) {
        let Share { order, ranges, arenas, views, awake, .. } = share;
        if self.executor(worker).is_some() && self.views_of(order.round()).is_none() {
            self.views.push((order.round(), Arc::downgrade(views)));
        }
        let mut placed_bytes = 0;
        self.send(worker, cx, |executor| {
            order.params.share(arenas)?;
            executor.begin(order.round());
            executor.page.set_awake(awake);
            for TaskPart { ranges, chunks } in executor.known.tasks(&order.data, order.head.cut, &ranges) {
                let mut attached = Vec::new();
                let whole;
                let (params, tail) = match order.params.placed() {
                    Some(placed) => {
                        let new = placed.introduce(&mut executor.introduced);
                        if new {
                            attached.push(Attachment::File(placed.fd.clone()));
                        }
                        placed_bytes += placed.bytes;
                        (placed.payload(new), &[][..])
                    }
                    None => {
                        whole = order.params.whole();
                        (Payload::Tail { offset: 0, bytes: whole.len() as u32 }, &whole[..])
                    }
                };
                let released = executor.released.take();
                let task = Task { order: order.head.clone(), chunks, ranges, params, released };
                executor.send(&ToWorker::Task(task), tail, attached)?;
            }
            Ok(())
        });
        cx.traffic.bytes_out += placed_bytes;
    }

    fn notify(&mut self, worker: WorkerId, notice: Notice, cx: &mut SeatContext<'_>) {
        let message = match notice {
            Notice::Ping => ToWorker::Ping,
            Notice::Cancel { round, is_patient, .. } => {
                if let Some(executor) = self.executor(worker) {
                    executor.mark_cancelled(round);
                }
                if is_patient { ToWorker::Spare(round) } else { ToWorker::Cancel(round) }
            }
            Notice::Recall { round, blocks } => ToWorker::Recall { round, blocks },
            Notice::Apart { round, block } => ToWorker::Apart { round, block },
            Notice::Recipe { round, question, recipe } => {
                let (pieces, bytes) = recipe.to_pieces(SEGMENT_BYTES);
                let mut offset = 0;
                return self.send(worker, cx, |executor| {
                    for piece in pieces {
                        let message = ToWorker::Recipe { round, question, offset, bytes };
                        offset += piece.len() as u64;
                        executor.send(&message, &piece, Vec::new())?;
                    }
                    Ok(())
                });
            }
            Notice::ReuseArenas => {
                let Some(executor) = self.executor(worker) else { return };
                let released = executor.released.take();
                if released.is_empty() {
                    return;
                }
                ToWorker::Released(released)
            }
            Notice::FindInterpreter => return,
        };
        self.send(worker, cx, |executor| executor.send(&message, &[], Vec::new()));
    }

    fn announce(&mut self, gone: Gone, cx: &mut SeatContext<'_>) {
        if let Gone::Round(round) = gone {
            self.views.retain(|(of, _)| *of != round);
            return;
        }
        let Some(worker) = self.occupant() else { return };
        self.send(worker, cx, |executor| match gone {
            Gone::DataSet(dataset) => executor.forget(dataset),
            Gone::Hold(hold) if executor.joined => executor.send(&ToWorker::Release(hold), &[], Vec::new()),
            Gone::Hold(_) | Gone::Round(_) => Ok(()),
        });
    }

    fn send_chunks(
        &mut self,
        worker: WorkerId,
        data: &Arc<CutData>,
        indices: &[u32],
        cx: &mut SeatContext<'_>,
    ) {
        self.send(worker, cx, |executor| executor.send_refs(data, indices));
    }

    fn on_event(&mut self, worker: WorkerId, event: SeatEvent, cx: &mut SeatContext<'_>) {
        let SeatEvent::Spawned(spawned) = event else { return };
        if let Err(e) = spawned.and_then(|spawned| self.seat(worker, spawned, cx)) {
            self.say(worker, Said::Lost(Death::of(Cause::Start(e.to_string()))));
        }
    }

    fn on_ready(&mut self, worker: WorkerId, _: u64, flags: EventFlags, cx: &mut SeatContext<'_>) {
        let Some(executor) = self.executor(worker) else { return };
        if flags.contains(EventFlags::OUT) {
            match executor.flush() {
                Ok(true) => cx.poller.watch_for_room(executor.fds()[0], worker, SOCKET, false),
                Ok(false) => {}
                Err(_) => return self.lose(worker, None, cx),
            }
        }
        let Some(executor) = self.executor(worker).filter(|_| is_readable(flags)) else { return };
        // The end is dealt with when everything before it has been heard.
        executor.has_ended |= matches!(executor.read(), Ok(Read::Ended) | Err(_));
        executor.has_news = true;
    }

    fn read_output(&mut self, worker: WorkerId, _: u64, cx: &mut SeatContext<'_>) {
        let Some(executor) = self.executor.as_deref_mut().filter(|e| e.worker == worker) else { return };
        let lines = &mut self.lines;
        let ended = executor.read_lines(|line| lines.push_back((worker, line)));
        let [_, stdout, stderr] = executor.fds();
        for (pipe, _) in [stdout, stderr].into_iter().zip(ended).filter(|(_, ended)| *ended) {
            cx.poller.remove_pipe(pipe);
        }
    }

    fn end_lines(&mut self) {
        let Some(executor) = &mut self.executor else { return };
        let worker = executor.worker;
        self.lines.extend(executor.take_unfinished().into_iter().map(|line| (worker, line)));
    }

    fn take_lines(&mut self) -> Vec<(WorkerId, Line)> {
        self.lines.drain(..).collect()
    }

    fn next(&mut self, cx: &mut SeatContext<'_>) -> Option<(WorkerId, Said)> {
        loop {
            if let Some((worker, line)) = self.lines.pop_front() {
                return Some((worker, Said::Line(line)));
            }
            if let Some(said) = self.said.pop_front() {
                return Some(said);
            }
            let executor = self.executor.as_deref_mut().filter(|executor| executor.has_news)?;
            let worker = executor.worker;
            match inward::take_message(executor) {
                Ok(Some((message, tail, bytes))) => {
                    if let Err(why) = self.on_message(worker, message, &tail, bytes, cx) {
                        self.lose(worker, Some(Cause::Protocol(why)), cx);
                    }
                }
                Ok(None) => {
                    executor.has_news = false;
                    if executor.has_ended {
                        self.lose(worker, None, cx);
                    }
                }
                Err(why) => self.lose(worker, Some(Cause::Protocol(why)), cx),
            }
        }
    }

    fn end(&mut self, worker: WorkerId, cause: Option<Cause>, cx: &mut SeatContext<'_>) -> Death {
        let Some(executor) = self.executor.take_if(|executor| executor.worker == worker) else {
            // Still being started; the process is ended when it comes.
            return Death::of(cause.unwrap_or(Cause::Signal(9)));
        };
        let [socket, stdout, stderr] = executor.fds();
        cx.poller.remove(socket);
        cx.poller.remove_pipe(stdout);
        cx.poller.remove_pipe(stderr);
        self.views.clear();
        let lines = &mut self.lines;
        executor.end(cause, |line| lines.push_back((worker, line)))
    }

    fn expel(&mut self, worker: WorkerId, why: String, cx: &mut SeatContext<'_>) {
        self.lose(worker, Some(Cause::Protocol(why)), cx);
    }

    fn close(&mut self, cx: &mut SeatContext<'_>) {
        if let Some(worker) = self.occupant() {
            self.end(worker, Some(Cause::Unresponsive), cx);
        }
    }

    fn pids(&self) -> (Option<u32>, Option<u32>) {
        (self.executor.as_ref().map(|executor| executor.pid()), None)
    }

    fn occupant(&self) -> Option<WorkerId> {
        self.executor.as_ref().map(|executor| executor.worker)
    }
}
