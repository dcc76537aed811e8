//! What workers say, and what the loop makes of it.

use super::Driver;
use crate::chunk::ChunkId;
use crate::dataset::CutData;
use crate::engine::order::Traffic;
use crate::engine::queue::SeatEvent;
use crate::engine::seat::{Notice, Said, SeatContext, SeatEngine};
use crate::execution::round::Effort;
use qjam_core::ids::{DataSetId, RoundId, SeatId, WorkerId};
use qjam_core::job::{Fault, FaultKind};
use qjam_core::journal::What;
use qjam_core::scheduler::Event;
use qjam_core::time::Span;
use qjam_core::wire::message::Restored;
use std::sync::Arc;
use std::time::Instant;

impl Driver {
    /// Calls the engine of a seat, and hears what comes of it.
    pub(super) fn with_seat(
        &mut self,
        seat: SeatId,
        f: impl FnOnce(&mut dyn SeatEngine, &mut SeatContext<'_>),
    ) {
        let started = self.decider.started;
        if self.seats.with(seat, started, false, f).is_some() {
            self.hear(seat);
        }
    }

    /// Tells a seat what another thread has done for its worker.
    pub(super) fn pass_on(&mut self, worker: WorkerId, event: SeatEvent) {
        let started = self.decider.started;
        let is_starting = self.decider.scheduler.is_starting(worker);
        let called = self
            .seats
            .with(worker.seat, started, is_starting, |engine, cx| engine.on_event(worker, event, cx));
        if called.is_some() {
            self.hear(worker.seat);
        }
    }

    /// Takes the next thing that a seat has to say; says whether there was one.
    pub(super) fn hear_next(&mut self, seat: SeatId) -> bool {
        let started = self.decider.started;
        let said = self.seats.with(seat, started, false, |engine, cx| engine.next(cx));
        let Some((Some((worker, said)), _)) = said else { return false };
        if let Err(why) = self.on_said(worker, said) {
            self.seats.with(seat, started, false, |engine, cx| engine.expel(worker, why, cx));
        }
        true
    }

    /// `Err` says how the worker broke the protocol.
    fn on_said(&mut self, worker: WorkerId, said: Said) -> Result<(), String> {
        match said {
            Said::Joined { slots } => self.on_joined(worker, slots),
            Said::Lost(death) => self.tell(Event::WorkerLost { worker, death }),
            Said::Unreachable(failure) => self.seats.set_failure(worker.seat, Some(*failure)),
            Said::Spoke => self.tell(Event::WorkerSpoke { worker }),
            Said::Missing { round, chunks, lasting } => {
                self.send_missing(worker, round, &chunks, lasting)?;
                self.tell(Event::WorkerSpoke { worker });
            }
            Said::Behind { round, question, partitions, only_mail } => {
                self.on_behind(worker, round, question, &partitions, only_mail)?;
                self.tell(Event::WorkerSpoke { worker });
            }
            Said::InterpreterLost { round, death } => {
                self.note(What::InterpreterLost { worker, round, death });
            }
            Said::Effort { round, blocks, effort, bytes } => {
                self.rounds.count(round, Traffic { bytes_in: bytes, ..Traffic::default() });
                self.count_effort(worker, round, blocks, effort);
            }
            Said::Part { round, node, ranges, value } => {
                let part = self.rounds.keep_part(value);
                self.tell(Event::PartDelivered { part, worker, round, node, ranges });
            }
            Said::Delivered { round } => self.on_delivered(worker, round),
            Said::Faulted { round, fault, is_ours } => {
                let worker = (!is_ours).then_some(worker);
                self.tell(Event::Faulted { worker, round, fault: *fault });
            }
            Said::Returned { round, returned } => self.tell(Event::Returned { worker, round, returned }),
            Said::LetGo { round } => {
                self.tell(Event::RoundLetGo { worker, round });
                // It may get no task for a while.
                self.notify(worker, Notice::ReuseArenas);
            }
            Said::Line(line) => self.log(worker, line),
            Said::LinesDropped(lines) => self.seats.count_dropped_lines(worker.seat, lines),
            Said::Interpreter(found) => self.on_interpreter(worker.seat, found),
            Said::Unreadable { dataset, index, why } => self.fail_over_chunk(dataset, index, &why),
            Said::Refused { chunk, why } => {
                for (dataset, index) in self.data.all_with(&chunk) {
                    self.fail_over_chunk(dataset, index, &why);
                }
            }
            Said::Trouble(text) => self.show(self.name_of(worker), text, true),
        }
        Ok(())
    }

    /// A worker that has no more of the round learns with its next task what it may write again.
    fn on_delivered(&mut self, worker: WorkerId, round: RoundId) {
        if self.decider.scheduler.holders(round).any(|(holder, _)| holder == worker) {
            self.notify(worker, Notice::ReuseArenas);
        }
    }

    fn on_joined(&mut self, worker: WorkerId, slots: u32) {
        self.seats.set_slots(worker.seat, slots);
        self.seats.set_failure(worker.seat, None);
        self.find_interpreter(worker);
        self.tell(Event::WorkerJoined { worker, slots });
    }

    /// Sends chunks that a worker lacks.
    fn send_missing(
        &mut self,
        worker: WorkerId,
        round: RoundId,
        missing: &[ChunkId],
        lasting: bool,
    ) -> Result<(), String> {
        let data = self.rounds.get(round).map(|round| round.order.data.clone());
        let found = match data {
            Some(data) => vec![(data.clone(), self.data.indices(&data.located, missing)?)],
            // The round was over before the host had looked everywhere. The next round over the same data waits for
            // these chunks, too.
            None if lasting => self.data.find_anywhere(missing),
            // The worker has been told to drop the round.
            None => Vec::new(),
        };
        for (data, indices) in found {
            self.send_chunks(worker, round, &data, &indices);
        }
        Ok(())
    }

    fn send_chunks(&mut self, worker: WorkerId, round: RoundId, data: &Arc<CutData>, indices: &[u32]) {
        let started = self.decider.started;
        let sent = self
            .seats
            .with(worker.seat, started, false, |engine, cx| engine.send_chunks(worker, data, indices, cx));
        if let Some(((), traffic)) = sent {
            self.rounds.count(round, traffic);
        }
    }

    /// A chunk cannot be had: rounds over its data set cannot end well.
    fn fail_over_chunk(&mut self, dataset: DataSetId, index: u32, why: &str) {
        let is_over_it = |round: &&super::rounds::Round| round.order.data.located == dataset;
        let rounds: Vec<RoundId> = self.rounds.open().filter(is_over_it).map(|r| r.order.round()).collect();
        for round in rounds {
            let fault = Fault { chunk: Some(index), ..Fault::new(FaultKind::Chunk, why.to_owned()) };
            self.tell(Event::Faulted { worker: None, round, fault });
        }
    }

    fn count_effort(&mut self, worker: WorkerId, id: RoundId, blocks: u32, effort: Effort) {
        self.tell(Event::Computed { worker, round: id, blocks, span: Span(effort.compute_us) });
        self.count_restored(worker, id, &effort.restored);
        if let Some(round) = self.rounds.get_mut(id) {
            if let Some(first_done) = &round.crowded {
                first_done.get_or_init(Instant::now);
            }
            *round.account.compute_us.entry(worker.seat).or_default() += effort.compute_us;
            round.account.report.cache_hits += u64::from(effort.hits);
            round.account.report.cache_misses += u64::from(effort.misses);
        }
    }

    /// A worker lacks states, or only mail: says how to make them, and what mail there is.
    fn on_behind(
        &mut self,
        worker: WorkerId,
        round: RoundId,
        question: u32,
        partitions: &[u32],
        only_mail: bool,
    ) -> Result<(), String> {
        let Some(recipe) = self.recipe(round, partitions, only_mail)? else { return Ok(()) };
        let notice = Notice::Recipe { round, question, recipe: Arc::new(recipe) };
        let started = self.decider.started;
        let sent =
            self.seats.with(worker.seat, started, false, |engine, cx| engine.notify(worker, notice, cx));
        if let Some(((), traffic)) = sent {
            self.rounds.count(round, traffic);
        }
        Ok(())
    }

    /// States were made again.
    pub(super) fn count_restored(&mut self, worker: WorkerId, round: RoundId, restored: &[Restored]) {
        let held = self.rounds.get(round).and_then(|round| round.held.as_ref());
        let Some(hold) = held.map(|held| held.task.hold) else { return };
        for &Restored { partition, from, steps } in restored {
            self.rounds.report(round, |report| {
                report.restored += 1;
                report.replayed += u64::from(steps);
            });
            self.note(What::Restored { hold, round, worker, partition, from, steps });
        }
    }
}
