//! What the master says, as events for the machine: tasks and their parameters, chunks, recipes of states, cancellations.

use super::{Executor, ExecutorError};
use crate::execution::faults;
use crate::execution::recipes::{Arriving, StateRecipe};
use crate::execution::round::BlockRunner;
use crate::execution::states::RoundStates;
use crate::function::language;
use crate::registry;
use bytes::Bytes;
use qjam_core::ids::RoundId;
use qjam_core::job::{Fault, FaultKind};
use qjam_core::lease::BlockRange;
use qjam_core::order::OrderHead;
use qjam_core::wire::message::{State, Task};
use qjam_core::wire::{ToMaster, ToWorker};
use qjam_core::worker::Event;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The stack of the thread that looks for an interpreter: a process with a tight limit has room for it.
const STACK_BYTES: usize = 256 << 10;

impl Executor {
    pub(super) fn on_message(&mut self, message: ToWorker, tail: &Bytes) -> Result<(), ExecutorError> {
        match message {
            ToWorker::Task(task) => self.on_task(task, tail)?,
            ToWorker::Refs(refs) => {
                let inbox = &mut self.inbox;
                let ready = self.data.arrived(refs, || inbox.take_fd()).map_err(ExecutorError::Protocol)?;
                for (round, chunks) in ready {
                    self.tell(Event::ChunksArrived { round, chunks });
                }
            }
            ToWorker::Recipe { round, question, offset, bytes } => {
                self.on_recipe(round, question, (offset, bytes), tail)?;
            }
            ToWorker::Release(hold) => self.states.release(hold),
            ToWorker::Forget { dataset, regions } => {
                let gone = self.data.forget(dataset, &regions);
                self.common.open.forget(|id| gone.contains(id));
            }
            ToWorker::Released(arenas) => {
                self.release(arenas);
            }
            ToWorker::Cancel(round) | ToWorker::Spare(round) => self.tell(Event::CancelReceived { round }),
            ToWorker::Recall { round, blocks } => self.tell(Event::RecallReceived { round, blocks }),
            ToWorker::Apart { round, block } => self.tell(Event::ApartReceived { round, block }),
            ToWorker::Ping => self.common.send(&ToMaster::Pong, &[], &[])?,
            ToWorker::Bye => self.stopping = true,
            ToWorker::FindRuntime => self.find_runtime()?,
            ToWorker::Welcome { .. } => return Err(ExecutorError::Protocol("a second welcome".into())),
        }
        Ok(())
    }

    /// Has a thread of its own look for an interpreter: that takes a moment, and nobody else should wait for it.
    pub(super) fn find_runtime(&self) -> Result<(), ExecutorError> {
        let common = self.common.clone();
        let look = move || {
            // Should it fail, the main thread will see the same.
            let _ = common.send(&ToMaster::Runtime(language::find()), &[], &[]);
        };
        let started =
            std::thread::Builder::new().name("qjam-find".into()).stack_size(STACK_BYTES).spawn(look);
        started.map(drop).or_else(|e| {
            let why = format!("there is no thread to look for an interpreter: {e}");
            self.common.send(&ToMaster::Runtime(Err(why)), &[], &[])
        })
    }

    /// The master has taken these results; a round that gave short ones has none.
    pub(super) fn release(&mut self, arenas: Vec<u64>) {
        if arenas.is_empty() {
            return;
        }
        for arena in arenas {
            self.ours.release(arena);
        }
        self.memory.shared(self.ours.touched_bytes());
    }

    pub(super) fn on_task(&mut self, task: Task, tail: &Bytes) -> Result<(), ExecutorError> {
        let Task { order, chunks, ranges, params, released } = task;
        let OrderHead { round, cut, dataset, held, .. } = order;
        self.release(released);
        let inbox = &mut self.inbox;
        let params = self.theirs.read(&params, tail, || inbox.take_fd()).map_err(ExecutorError::Protocol)?;
        self.data.introduce(dataset, &chunks);
        if !self.rounds.contains_key(&round) {
            let fault = Fault::new;
            let opened = registry::lookup(&order.function)
                .map_err(|e| fault(FaultKind::UnknownFunction, e.to_string()))
                .and_then(|function| match faults::caught(None, || function.open_params(params))? {
                    Ok(params) => Ok((function, params)),
                    Err(e) => Err(fault(FaultKind::Params, e.to_string())),
                });
            let (function, params) = match opened {
                Ok(pair) => pair,
                // The machine never hears of it; the master will say that the round is over.
                Err(fault) => return self.common.send(&ToMaster::Error { round, fault }, &[], &[]),
            };
            let common = self.common.clone();
            // Once seen it stays: the page has room for the last few rounds only.
            let seen = AtomicBool::new(false);
            let cancelled = Arc::new(move || {
                seen.load(Relaxed)
                    || common.page.is_cancelled(round) && {
                        seen.store(true, Relaxed);
                        true
                    }
            });
            let here = BlockRunner::new(&order, function, params, self.slots, Some(cancelled))
                .holding(held.map(|held| RoundStates::new(held, self.states.clone())));
            self.rounds.insert(round, (Arc::new(here), self.data.entries(dataset)));
        }
        let (missing, ask) =
            self.data.missing(round, dataset, cut, &ranges).map_err(ExecutorError::Protocol)?;
        for names in ask.chunks(16 << 10) {
            let state = State::Blocked { round, missing: names.to_vec() };
            self.common.send(&ToMaster::State(state), &[], &[])?;
        }
        let behind = self.behind(round, &ranges)?;
        self.tell(Event::TaskReceived { round, cut, ranges, missing, behind });
        Ok(())
    }

    /// Asks how to make the states of these blocks that are not here, and for mail; says for which blocks.
    pub(super) fn behind(
        &mut self,
        round: RoundId,
        ranges: &[BlockRange],
    ) -> Result<Vec<u32>, ExecutorError> {
        let Some(held) = self.rounds.get(&round).and_then(|(here, _)| here.held.as_ref()) else {
            return Ok(Vec::new());
        };
        held.give(ranges.iter().map(|span| span.len).sum());
        let lacking = self.states.lacking(held.task, ranges.iter().flat_map(BlockRange::blocks));
        for (partitions, only_mail) in [(&lacking.states, false), (&lacking.mail_only, true)] {
            for partitions in partitions.chunks(64 << 10) {
                self.questions += 1;
                let (question, partitions) = (self.questions, partitions.to_vec());
                let state = State::Behind { round, question, partitions, only_mail };
                self.common.send(&ToMaster::State(state), &[], &[])?;
            }
        }
        Ok(lacking.all())
    }

    /// A piece of a recipe: at which offset, and of how many bytes.
    pub(super) fn on_recipe(
        &mut self,
        round: RoundId,
        question: u32,
        (offset, bytes): (u64, u64),
        piece: &Bytes,
    ) -> Result<(), ExecutorError> {
        let Some(here) = self.rounds.get(&round).map(|(here, _)| here.clone()) else {
            return Ok(()); // it was called off while this was on its way
        };
        let key = (round, question);
        if offset == 0 {
            match Arriving::new(bytes) {
                Some(arriving) => self.arriving.insert(key, arriving),
                None => {
                    let message = format!("no memory for a recipe of {bytes} bytes");
                    let kind = FaultKind::State;
                    let fault = Fault {
                        kind,
                        chunk: None,
                        message,
                        location: None,
                        backtrace: None,
                        carried: Vec::new(),
                    };
                    return self.common.send(&ToMaster::Error { round, fault }, &[], &[]);
                }
            };
        }
        let Some(arriving) = self.arriving.get_mut(&key) else { return Ok(()) };
        if !arriving.put(offset, piece).map_err(ExecutorError::Protocol)? {
            return Ok(());
        }
        let whole = self.arriving.remove(&key).map(Arriving::into_bytes).unwrap_or_default();
        let recipe = Arc::new(StateRecipe::from_bytes(&whole).map_err(ExecutorError::Protocol)?);
        if let Some(held) = &here.held {
            let chunks = held.take_in(&recipe);
            self.tell(Event::RecipesArrived { round, chunks });
        }
        Ok(())
    }
}
