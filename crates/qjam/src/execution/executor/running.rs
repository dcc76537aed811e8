//! What the machine wants done: blocks are run, on the main thread or in slots, and what came of them goes back to the machine.

use super::{Done, Executor, ExecutorError, lock};
use crate::execution::round::Stopped;
use crate::transport::Read;
use qjam_core::ids::{Block, RoundId};
use qjam_core::job::Activity;

use qjam_core::wire::ToMaster;
use qjam_core::wire::message::State;
use qjam_core::worker::{Action, Event};
use rustix::net::RecvFlags;
use std::io::{self, Write};
use std::sync::PoisonError;
use std::sync::atomic::Ordering::SeqCst;

impl Executor {
    /// Does what the machine wants until it wants nothing, or a block to be run on the main thread: says which.
    pub(super) fn work(&mut self) -> Result<Option<(RoundId, Block)>, ExecutorError> {
        while let Some(action) = self.todo.pop_front() {
            match action {
                Action::Run { round, block, .. } if self.threads.is_none() => {
                    return Ok(Some((round, block)));
                }
                Action::Run { round, block, .. } => self.run(round, block),
                Action::SetApart { round, block } => self.rounds[&round].0.set_apart(block),
                Action::Return { round, returned } => {
                    self.common.send(&ToMaster::Returned { round, returned }, &[], &[])?;
                }
                Action::Collect { round } => {
                    let collected = self.rounds[&round].0.collect();
                    let nodes = collected.0.iter().map(|(node, _)| *node).collect();
                    self.collected.insert(round, collected);
                    self.tell(Event::Collected { round, nodes });
                }
                Action::Send { round, parts } => {
                    self.common.now(Activity::Sending);
                    self.deliver(round, parts)?;
                }
                Action::Forget { round } => {
                    self.rounds.remove(&round);
                    self.collected.remove(&round);
                    self.arriving.retain(|(whose, _), _| *whose != round);
                }
                Action::LetGo { round } => self.common.send(&ToMaster::Cancelled(round), &[], &[])?,
                Action::Protest { why } => return Err(ExecutorError::Protocol(why)),
            }
        }
        Ok(None)
    }

    /// Prepares for running a block, in whatever slot it will be.
    pub(super) fn enter(
        &mut self,
        round: RoundId,
        block: Block,
    ) -> impl FnOnce(u32) -> Result<(), Stopped> + Send + 'static {
        let (here, entries) = self.rounds[&round].clone();
        let common = self.common.clone();
        common.page.set_activity(Activity::Mapping);
        common.busy.fetch_add(1, SeqCst);
        common.begun.fetch_add(1, SeqCst);
        if common.dozes.load(SeqCst)
            && let Some(watch) = common.watch.get()
        {
            watch.unpark();
        }
        self.is_inside = true;
        move |slot: u32| {
            common.page.enter(slot, round, block);
            let chunk_at =
                |index: u32| entries.read().unwrap_or_else(PoisonError::into_inner).get(&index).cloned();
            let result = here.run(slot, block, &common.open, &chunk_at);
            // What the function printed goes out before its result does.
            let _ = io::stdout().flush();
            common.page.leave(slot);
            common.busy.fetch_sub(1, SeqCst);
            result
        }
    }

    /// Has a thread run a block.
    pub(super) fn run(&mut self, round: RoundId, block: Block) {
        let job = self.enter(round, block);
        let common = self.common.clone();
        let threads = self.threads.as_ref().expect("the caller looked");
        let urgency = threads.urgency(1);
        let bound_to = self.rounds[&round].0.slot_of(block);
        threads.run_on(
            bound_to,
            Box::new(move |slot| {
                let urgency = urgency();
                let result = job(slot);
                let is_bad = result.is_err();
                lock(&common.done).push(Done { round, block, result });
                if is_bad || urgency.is_pressing() {
                    let _ = rustix::io::write(&common.bell, &1u64.to_ne_bytes());
                }
            }),
        );
    }

    /// The main thread has run a block.
    pub(super) fn leave(&mut self, done: Done) -> Result<(), ExecutorError> {
        self.is_inside = false;
        // Something may have come meanwhile, a cancellation say; after the last block it is soon enough after sending.
        if self.machine.has_unstarted() && self.read(RecvFlags::DONTWAIT)? == Read::Ended {
            std::process::exit(0);
        }
        self.take_messages()?;
        self.on_done(done)
    }

    pub(super) fn take_done(&mut self) -> Result<(), ExecutorError> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.common.bell, &mut count);
        let done = std::mem::take(&mut *lock(&self.common.done));
        for done in done {
            self.on_done(done)?;
            self.work()?;
        }
        Ok(())
    }

    pub(super) fn on_done(&mut self, Done { round, block, result }: Done) -> Result<(), ExecutorError> {
        let losses = self.rounds.get(&round).map(|(here, _)| here.take_losses());
        for death in losses.into_iter().flatten() {
            self.common.send(&ToMaster::State(State::InterpreterLost { round, death }), &[], &[])?;
        }
        match result {
            Ok(()) => self.tell(Event::BlockFinished { round, block }),
            Err(stopped) => {
                if let Stopped::Fault(fault) = stopped {
                    self.common.send(&ToMaster::Error { round, fault: *fault }, &[], &[])?;
                }
                // Where it was cancelled, the master's word of it is on its way.
                self.tell(Event::BlockFailed { round, block });
            }
        }
        Ok(())
    }
}
