//! What workers' processes have in memory: looked at now and then, for the run file.
//!
//! Comes in: the numbers of processes on this machine. Goes out: records of the run file, which say of each seat what its process and
//! those it has started have. Looking costs tens of microseconds for a process. So it is done at most once a second, of at most
//! [`AT_ONCE`] processes in turn, and when workers have their tasks, so that no round waits for it; in a round that takes
//! longer than that the loop wakes for it. A run of many hours is looked at less often, so that its file stays short. Workers on other hosts
//! are not looked at, nor threads, whose memory is the master's.

use super::Driver;
use crate::memory::Usage;
use crate::runs::WorkerMemory;
use qjam_core::ids::SeatId;
use std::time::{Duration, Instant};

/// So long at least lies between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// A look comes after this part of the run's time, if that is longer.
const PART: u32 = 3600;
/// So many processes are looked at together.
const AT_ONCE: usize = 16;
/// In a round that goes on, the loop wakes for a look that is due for so long.
const PATIENCE: Duration = Duration::from_millis(250);

/// When memory is looked at next, and whose.
pub(super) struct MemoryLooks {
    began: Instant,
    due: Instant,
    /// The first seat of the next look.
    next: usize,
}

impl MemoryLooks {
    pub(super) fn new(now: Instant) -> MemoryLooks {
        MemoryLooks { began: now, due: now, next: 0 }
    }

    /// How long after `now` the loop should wake for a look, while a round goes on.
    pub(super) fn wakes_in(&self, now: Instant) -> Duration {
        (self.due + PATIENCE).saturating_duration_since(now)
    }

    /// Whether it is time to look; if so, the next time is set.
    fn is_due(&mut self, now: Instant, is_patient: bool) -> bool {
        let from = if is_patient { self.due } else { self.due + PATIENCE };
        if now < from {
            return false;
        }
        self.due = now + EVERY.max((now - self.began) / PART);
        true
    }

    /// The seats of a look, of so many.
    fn take(&mut self, seats: usize) -> impl Iterator<Item = usize> + use<> {
        let first = if self.next < seats { self.next } else { 0 };
        let count = seats.min(AT_ONCE);
        self.next = (first + count) % seats.max(1);
        (first..first + count).map(move |n| n % seats)
    }
}

impl Driver {
    /// Looks what workers have in memory, if that is due. `in_passing` says that workers have their tasks; otherwise somebody may wait, and
    /// a look is made only if it has been due for a while and a round goes on.
    pub(super) fn look_at_memory(&mut self, in_passing: bool) {
        if !self.recording.has_recorder() || !in_passing && self.rounds.open().next().is_none() {
            return;
        }
        if !self.recording.memory.is_due(Instant::now(), in_passing) {
            return;
        }
        let seats = self.recording.memory.take(self.seats.len());
        let look = |n: usize| {
            let seat = SeatId(n as u32);
            let usage = Usage::of_tree(self.seats.pids(seat).0?).ok()?;
            let Usage { private_bytes, shared_bytes, .. } = usage;
            Some(WorkerMemory { seat: seat.0, private_bytes, shared_bytes })
        };
        let workers = seats.filter_map(look).collect();
        self.recording.record_memory(workers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_a_second_apart_and_further_in_a_long_run() {
        let began = Instant::now();
        let mut looks = MemoryLooks::new(began);
        let at = |ms: u64| began + Duration::from_millis(ms);
        assert!(looks.is_due(at(0), true) && !looks.is_due(at(999), true));
        assert!(!looks.is_due(at(1100), false), "it may still be done in passing");
        assert_eq!(looks.wakes_in(at(1100)), Duration::from_millis(150));
        assert!(looks.is_due(at(1250), false) && !looks.is_due(at(2249), true));
        assert!(looks.is_due(at(36_000_000), true), "after ten hours");
        assert!(!looks.is_due(at(36_009_999), true) && looks.is_due(at(36_010_000), true));
    }

    #[test]
    fn many_seats_are_looked_at_in_turn() {
        let mut looks = MemoryLooks::new(Instant::now());
        let take = |looks: &mut MemoryLooks, seats| looks.take(seats).collect::<Vec<_>>();
        assert_eq!(take(&mut looks, 3), [0, 1, 2]);
        assert_eq!(take(&mut looks, 3), [0, 1, 2]);
        assert_eq!(take(&mut looks, 0), []);
        let mut looks = MemoryLooks::new(Instant::now());
        assert_eq!(take(&mut looks, 20), (0..16).collect::<Vec<_>>());
        assert_eq!(take(&mut looks, 20), (16..20).chain(0..12).collect::<Vec<_>>());
        assert_eq!(take(&mut looks, 20)[0], 12);
        assert_eq!(take(&mut looks, 2), [0, 1], "there are fewer now");
    }
}
