//! Whether workers are there, and who they are.

use super::Driver;
use crate::engine::{Caps, StartFailure};
use crate::error::Error;
use crate::master::WorkerInfo;
use qjam_core::ids::{SeatId, WorkerId};
use qjam_core::job::{Cause, Death};
use std::collections::HashMap;
use std::ops::Range;

impl Driver {
    /// Whether enough seats have a worker, or why they will not.
    pub(crate) fn readiness(&self, of: Range<usize>) -> Option<Result<(), Error>> {
        if self.has_crew() {
            return Some(Ok(())); // its workers were met before there was a loop
        }
        let scheduler = &self.decider.scheduler;
        let seats: Vec<SeatId> = self.seats.wanted_in(of).map(|(seat, _)| seat).collect();
        let up = seats.iter().filter(|seat| scheduler.is_up(**seat)).count();
        if up == seats.len() {
            return Some(Ok(()));
        }
        let unknown = Death::of(Cause::Start("nobody knows why".into()));
        let far = scheduler.unstarted().map(|(worker, death)| (worker, death.clone()));
        let near = scheduler
            .given_up()
            .map(|(worker, death)| (worker, death.cloned().unwrap_or_else(|| unknown.clone())));
        let failed: HashMap<WorkerId, Death> =
            far.chain(near).filter(|(worker, _)| seats.contains(&worker.seat)).collect();
        if failed.is_empty() {
            return None;
        }
        if let Some(min) = self.options.workers_min {
            if up + failed.len() < seats.len() {
                return None; // it is not known yet who comes
            }
            if scheduler.up_count() >= min.max(1) {
                return Some(Ok(()));
            }
        }
        Some(Err(self.not_started(failed)))
    }

    /// All that went wrong, in the order of the seats.
    fn not_started(&self, failed: HashMap<WorkerId, Death>) -> Error {
        let mut failed: Vec<(WorkerId, Death)> = failed.into_iter().collect();
        failed.sort_by_key(|(worker, _)| worker.seat);
        let failure = |worker: &WorkerId| self.seats.record(worker.seat)?.failure.clone();
        let failures: Vec<(String, StartFailure)> =
            failed.iter().filter_map(|(worker, _)| Some((self.name_of(*worker), failure(worker)?))).collect();
        match failed.into_iter().next() {
            Some((worker, death)) if failures.is_empty() => {
                Error::Start { worker: self.name_of(worker), death }
            }
            _ => Error::Hosts { failures },
        }
    }

    /// All workers.
    pub(crate) fn workers(&self) -> Vec<WorkerInfo> {
        if let Some(crew) = self.crews.exclusive() {
            let info = |worker: crate::engine::CrewWorker| WorkerInfo {
                name: worker.name,
                pid: worker.pid.filter(|_| worker.same_machine),
                remote_pid: worker.pid.filter(|_| !worker.same_machine),
                slots: worker.slots,
            };
            let mut workers = crew.workers();
            workers.extend(crew.newcomers(workers.len()));
            return workers.into_iter().map(info).collect();
        }
        let info = |(seat, record): (SeatId, &super::seats::SeatRecord)| {
            let (pid, remote_pid) = self.seats.pids(seat);
            WorkerInfo { name: record.name.clone(), pid, remote_pid, slots: record.slots }
        };
        self.seats.wanted().map(info).collect()
    }

    /// What all workers together can do.
    pub(crate) fn caps(&self) -> Caps {
        let caps = self.seats.wanted().map(|(_, record)| record.caps);
        caps.reduce(Caps::and).unwrap_or(Caps::CREW)
    }
}
