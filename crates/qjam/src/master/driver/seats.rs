//! The seats, and what they use of the loop.
//!
//! A seat has a [`SeatRecord`], which anyone may read, and a [`SeatEngine`], which only [`Seats::with`] reaches: it hands the
//! engine its [`SeatContext`] and returns what travelled. Members of a crew have records alone. Seats are never taken out,
//! so a seat's number is its position; one that was removed says so.

use super::interpreters::Interpreter;
use crate::engine::crew::CrewWorker;
use crate::engine::order::Traffic;
use crate::engine::poller::Poller;
use crate::engine::queue::EventQueue;
use crate::engine::seat::{Neighbours, SeatContext, SeatEngine};
use crate::engine::settings::WorkerSettings;
use crate::engine::spawner::Spawner;
use crate::engine::{Caps, Seat, StartFailure};
use crate::execution::chunks::OpenChunks;
use crate::executor_process::Throttle;
use qjam_core::ids::{SeatId, WorkerId};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often seats that want ticks get them.
const TICK_EVERY: Duration = Duration::from_millis(500);
/// The position of the master's own machine among the machines.
const HERE: usize = 0;

/// What is known of a seat, whatever its engine.
pub(super) struct SeatRecord {
    pub(super) name: String,
    pub(super) slots: u32,
    pub(super) caps: Caps,
    /// Which of the machines it is on.
    machine: usize,
    pub(super) throttle: Throttle,
    /// Why the last attempt to reach its host failed.
    pub(super) failure: Option<StartFailure>,
    /// What is known of Python on its host.
    pub(super) interpreter: Interpreter,
    /// The user no longer wants it.
    pub(super) removed: bool,
    /// It may have something to say.
    pub(super) is_to_be_heard: bool,
}

/// A machine with workers of ours.
struct Machine {
    name: Option<String>,
    workers: usize,
    slots: u32,
}

/// What seats use of the loop.
pub(super) struct SeatTools {
    pub(super) poller: Poller,
    pub(super) queue: Arc<EventQueue>,
    pub(super) spawner: Spawner,
    pub(super) settings: WorkerSettings,
    /// Chunks that are open in this process.
    pub(super) open: Arc<OpenChunks>,
    /// Memory of this machine that workers may share.
    pub(super) memory_bytes: u64,
}

/// All seats.
pub(super) struct Seats {
    records: Vec<SeatRecord>,
    engines: Vec<Option<Box<dyn SeatEngine>>>,
    machines: Vec<Machine>,
    /// Counts how often seats were added or removed.
    pub(super) changes: u64,
    tick_at: Option<Instant>,
    pub(super) tools: SeatTools,
}

impl Seats {
    pub(super) fn new(tools: SeatTools) -> Seats {
        let here = Machine { name: None, workers: 0, slots: 0 };
        let (records, engines) = (Vec::new(), Vec::new());
        Seats { records, engines, machines: vec![here], changes: 0, tick_at: None, tools }
    }

    /// Adds a seat.
    pub(super) fn add(&mut self, seat: &Seat) -> SeatId {
        let engine = seat.open();
        let machine = self.machine(engine.as_ref().and_then(|engine| engine.machine()));
        let name = self.free_name(seat);
        let caps = engine.as_ref().map_or(seat.caps(), |engine| engine.caps());
        self.push(name, seat.slots, caps, machine, engine)
    }

    /// Adds the record of a crew's member.
    pub(super) fn add_member(&mut self, member: CrewWorker, caps: Caps) -> SeatId {
        let machine = self.machine((!member.same_machine).then(|| member.name.clone()));
        self.push(member.name, member.slots, caps, machine, None)
    }

    fn push(
        &mut self,
        name: String,
        slots: u32,
        caps: Caps,
        machine: usize,
        engine: Option<Box<dyn SeatEngine>>,
    ) -> SeatId {
        self.changes += 1;
        self.machines[machine].workers += 1;
        self.machines[machine].slots += slots;
        self.records.push(SeatRecord {
            name,
            slots,
            caps,
            machine,
            throttle: Throttle::default(),
            failure: None,
            interpreter: Interpreter::default(),
            removed: false,
            is_to_be_heard: false,
        });
        self.engines.push(engine);
        SeatId(self.records.len() as u32 - 1)
    }

    fn machine(&mut self, name: Option<String>) -> usize {
        let known = self.machines.iter().position(|machine| machine.name == name);
        known.unwrap_or_else(|| {
            self.machines.push(Machine { name, workers: 0, slots: 0 });
            self.machines.len() - 1
        })
    }

    /// The name of a seat, or, when another has it, the next one like it.
    fn free_name(&self, seat: &Seat) -> String {
        let is_free = |name: &str| self.records.iter().all(|record| record.name != name);
        if is_free(&seat.name) {
            return seat.name.clone();
        }
        (0..).map(|n| seat.next_name(n)).find(|name| is_free(name)).unwrap_or_default()
    }

    /// Marks a seat as removed; says whether it was there.
    pub(super) fn remove(&mut self, seat: SeatId) -> bool {
        let Some(record) = self.records.get_mut(seat.0 as usize).filter(|record| !record.removed) else {
            return false;
        };
        record.removed = true;
        self.changes += 1;
        self.machines[record.machine].workers -= 1;
        self.machines[record.machine].slots -= record.slots;
        true
    }

    /// How many there are, removed ones included.
    pub(super) fn count(&self) -> usize {
        self.records.len()
    }

    /// A worker has told how many slots it has.
    pub(super) fn set_slots(&mut self, seat: SeatId, slots: u32) {
        let Some(record) = self.records.get_mut(seat.0 as usize) else { return };
        if !record.removed {
            let machine = &mut self.machines[record.machine];
            machine.slots = machine.slots - record.slots + slots;
        }
        record.slots = slots;
    }

    /// How many seats there ever were.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn record(&self, seat: SeatId) -> Option<&SeatRecord> {
        self.records.get(seat.0 as usize)
    }

    /// Why the seat's worker could not be started; `None` once it was.
    pub(super) fn set_failure(&mut self, seat: SeatId, failure: Option<StartFailure>) {
        if let Some(record) = self.record_mut(seat) {
            record.failure = failure;
        }
    }

    /// Lines of the seat's worker that nobody will see.
    pub(super) fn count_dropped_lines(&mut self, seat: SeatId, lines: u64) {
        if let Some(record) = self.record_mut(seat) {
            record.throttle.dropped += lines;
        }
    }

    pub(super) fn record_mut(&mut self, seat: SeatId) -> Option<&mut SeatRecord> {
        self.records.get_mut(seat.0 as usize)
    }

    /// Seats that the user wants, in order.
    pub(super) fn wanted(&self) -> impl Iterator<Item = (SeatId, &SeatRecord)> {
        let numbered = self.records.iter().enumerate().map(|(n, record)| (SeatId(n as u32), record));
        numbered.filter(|(_, record)| !record.removed)
    }

    /// The same, of a range of seats.
    pub(super) fn wanted_in(&self, range: Range<usize>) -> impl Iterator<Item = (SeatId, &SeatRecord)> {
        self.wanted().filter(move |(seat, _)| range.contains(&(seat.0 as usize)))
    }

    /// The wanted seat of this name that the scheduler has.
    pub(super) fn named(&self, name: &str) -> Option<SeatId> {
        let is_meant = |(seat, record): &(SeatId, &SeatRecord)| {
            record.name == name && self.engines[seat.0 as usize].is_some()
        };
        self.wanted().find(is_meant).map(|(seat, _)| seat)
    }

    /// Numbers of the process on a seat: on this machine, and on another.
    pub(super) fn pids(&self, seat: SeatId) -> (Option<u32>, Option<u32>) {
        let engine = self.engines.get(seat.0 as usize).and_then(Option::as_ref);
        engine.map_or((None, None), |engine| engine.pids())
    }

    /// The worker on a seat, if it can be told something.
    pub(super) fn occupant(&self, seat: SeatId) -> Option<WorkerId> {
        self.engines.get(seat.0 as usize)?.as_ref()?.occupant()
    }

    /// Calls the engine of a seat; returns what it returned and what travelled.
    pub(super) fn with<R>(
        &mut self,
        seat: SeatId,
        started: Instant,
        is_starting: bool,
        f: impl FnOnce(&mut dyn SeatEngine, &mut SeatContext<'_>) -> R,
    ) -> Option<(R, Traffic)> {
        let n = seat.0 as usize;
        let engine = self.engines.get_mut(n)?.as_deref_mut()?;
        let SeatTools { poller, queue, spawner, settings, open, memory_bytes } = &self.tools;
        let Machine { workers, slots, .. } = self.machines[self.records[n].machine];
        let mut cx = SeatContext {
            started,
            poller,
            queue,
            spawner,
            settings,
            open,
            neighbours: Neighbours { workers, slots, memory_bytes: *memory_bytes },
            is_starting,
            traffic: Traffic::default(),
        };
        let result = f(engine, &mut cx);
        let traffic = cx.traffic;
        if self.tick_at.is_none() && engine.wants_ticks() {
            self.tick_at = Some(Instant::now() + TICK_EVERY);
        }
        Some((result, traffic))
    }

    /// When the next tick is due.
    pub(super) fn next_tick(&self) -> Option<Instant> {
        self.tick_at
    }

    /// Seats that should be ticked now.
    pub(super) fn due(&mut self, now: Instant) -> Vec<SeatId> {
        if self.tick_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let wants = |n: &usize| self.engines[*n].as_ref().is_some_and(|engine| engine.wants_ticks());
        let due: Vec<SeatId> = (0..self.engines.len()).filter(wants).map(|n| SeatId(n as u32)).collect();
        self.tick_at = (!due.is_empty()).then(|| now + TICK_EVERY);
        due
    }

    /// Slots of this machine's workers.
    pub(super) fn slots_here(&self) -> u32 {
        self.machines[HERE].slots
    }
}
