//! The `local` engine: slots that are threads of this process.
//!
//! Threads cannot be killed: a function that does not return is left to itself, its thread with it, and new threads take
//! the seat.

mod group;
mod words;

pub(crate) use group::BlockDone;
pub(super) use words::WORDS;

use super::caps::Caps;
use super::queue::SeatEvent;
use super::seat::{Gone, Notice, Said, SeatContext, SeatEngine, Share};
use crate::dataset::CutData;
use group::ThreadGroup;
use qjam_core::ids::WorkerId;
use qjam_core::job::{Cause, Death};
use rustix::event::epoll::EventFlags;
use std::collections::VecDeque;
use std::sync::Arc;

/// A seat whose worker is a group of threads.
pub(crate) struct ThreadSeat {
    slots: u32,
    group: Option<Box<ThreadGroup>>,
    said: VecDeque<(WorkerId, Said)>,
}

/// What a worker says goes here.
pub(super) struct Heard<'a> {
    worker: WorkerId,
    said: &'a mut VecDeque<(WorkerId, Said)>,
}

impl Heard<'_> {
    fn push(&mut self, said: Said) {
        self.said.push_back((self.worker, said));
    }
}

impl ThreadSeat {
    pub(crate) fn new(slots: u32) -> Self {
        ThreadSeat { slots, group: None, said: VecDeque::new() }
    }

    /// Does something with the threads of this worker, and keeps what they say to it.
    fn with(&mut self, worker: WorkerId, f: impl FnOnce(&mut ThreadGroup, &mut Heard<'_>)) {
        let Some(group) = self.group.as_deref_mut().filter(|group| group.worker == worker) else { return };
        f(group, &mut Heard { worker, said: &mut self.said });
    }
}

impl SeatEngine for ThreadSeat {
    fn caps(&self) -> Caps {
        Caps::THREADS
    }

    fn start(&mut self, worker: WorkerId, cx: &mut SeatContext<'_>) {
        let slots = self.slots;
        let said = match ThreadGroup::start(worker, slots, cx) {
            Ok(group) => {
                self.group = Some(Box::new(group));
                Said::Joined { slots }
            }
            Err(e) => Said::Lost(Death::of(Cause::Start(e.to_string()))),
        };
        self.said.push_back((worker, said));
    }

    fn assign(&mut self, worker: WorkerId, share: Share<'_>, cx: &mut SeatContext<'_>) {
        share.order.params.make_whole(share.arenas);
        let round = share.order.round();
        self.with(worker, |group, out| {
            if let Err(fault) = group.assign(cx.now(), share, out) {
                out.push(Said::Faulted { round, fault: Box::new(fault), is_ours: true });
            }
        });
    }

    fn notify(&mut self, worker: WorkerId, notice: Notice, cx: &mut SeatContext<'_>) {
        let now = cx.now();
        self.with(worker, |group, out| match notice {
            Notice::Ping => out.push(Said::Spoke),
            Notice::Cancel { round, .. } => group.cancel(now, round, out),
            Notice::Recall { round, blocks } => group.recall(now, round, blocks, out),
            Notice::Apart { round, block } => group.apart(now, round, block, out),
            Notice::Recipe { round, recipe, .. } => group.take_in(now, round, &recipe, out),
            Notice::ReuseArenas | Notice::FindInterpreter => {}
        });
    }

    fn announce(&mut self, gone: Gone, _: &mut SeatContext<'_>) {
        if let (Gone::Hold(hold), Some(group)) = (gone, &self.group) {
            group.release(hold);
        }
    }

    fn send_chunks(&mut self, _: WorkerId, _: &Arc<CutData>, _: &[u32], _: &mut SeatContext<'_>) {}

    fn on_event(&mut self, worker: WorkerId, event: SeatEvent, cx: &mut SeatContext<'_>) {
        if let SeatEvent::BlockDone(done) = event {
            self.with(worker, |group, out| {
                group.done(cx.now(), done, out);
                out.push(Said::Spoke);
            });
        }
    }

    fn on_ready(&mut self, _: WorkerId, _: u64, _: EventFlags, _: &mut SeatContext<'_>) {}

    fn next(&mut self, _: &mut SeatContext<'_>) -> Option<(WorkerId, Said)> {
        self.said.pop_front()
    }

    fn end(&mut self, worker: WorkerId, cause: Option<Cause>, _: &mut SeatContext<'_>) -> Death {
        self.group.take_if(|group| group.worker == worker);
        Death::of(cause.unwrap_or(Cause::Unresponsive))
    }

    fn expel(&mut self, _: WorkerId, why: String, _: &mut SeatContext<'_>) {
        panic!("the master's own threads broke the protocol: {why}");
    }

    fn close(&mut self, _: &mut SeatContext<'_>) {
        self.group = None;
    }

    fn occupant(&self) -> Option<WorkerId> {
        self.group.as_ref().map(|group| group.worker)
    }
}
