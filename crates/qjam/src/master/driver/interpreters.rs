//! The interpreters on hosts: what is known of them, and asking for it.
//!
//! Every worker on a host is asked once when it has joined, if the master has Python functions at all. It looks on a
//! thread of its own, so by the time of the first round the answer is usually here.

use super::Driver;
use super::seats::SeatRecord;
use crate::engine::seat::Notice;
use crate::error::Error;
use crate::master::options::Awaited;
use crate::python::{self, InterpreterFacts};
use qjam_core::ids::{SeatId, WorkerId};
use std::time::{Duration, Instant};

/// A host that has not said anything of its interpreter for so long is told as one without.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);
/// What was found so recently is not looked for again.
const FRESH: Duration = Duration::from_secs(1);

/// What is known of the interpreter on a seat's host.
#[derive(Clone, Debug, Default)]
pub(super) enum Interpreter {
    /// Nobody has asked.
    #[default]
    Unknown,
    /// Somebody is looking.
    Asked(Instant),
    /// What was found, and when.
    Found(Instant, Result<InterpreterFacts, String>),
}

impl Interpreter {
    fn found(&self) -> Result<&InterpreterFacts, &str> {
        match self {
            Interpreter::Found(_, found) => found.as_ref().map_err(String::as_str),
            Interpreter::Unknown | Interpreter::Asked(_) => Err("nothing was heard of its Python"),
        }
    }
}

impl Driver {
    /// Has a worker on another machine look for an interpreter, unless one is known to be there.
    pub(super) fn find_interpreter(&mut self, worker: WorkerId) {
        let Some(record) = self.seats.record(worker.seat).filter(|record| !record.caps.same_machine) else {
            return;
        };
        let is_known = matches!(record.interpreter, Interpreter::Found(_, Ok(_)));
        if self.options.workers.python.support.is_some() && !is_known {
            self.ask_for_interpreter(worker);
        }
    }

    fn ask_for_interpreter(&mut self, worker: WorkerId) {
        self.notify(worker, Notice::FindInterpreter);
        if let Some(record) = self.seats.record_mut(worker.seat) {
            record.interpreter = Interpreter::Asked(Instant::now());
        }
    }

    /// A host says what it found.
    pub(super) fn on_interpreter(&mut self, seat: SeatId, found: Result<Vec<u8>, String>) {
        let unread = || "its answer cannot be read".to_owned();
        let found = found.and_then(|bytes| InterpreterFacts::from_bytes(&bytes).ok_or_else(unread));
        if let Some(record) = self.seats.record_mut(seat) {
            record.interpreter = Interpreter::Found(Instant::now(), found);
        }
    }

    /// The interpreters that were found on other machines, each with the name of its worker.
    pub(crate) fn interpreters(&self) -> Vec<(String, InterpreterFacts)> {
        let found =
            |record: &SeatRecord| Some((record.name.clone(), record.interpreter.found().ok()?.clone()));
        self.far_seats().filter_map(|(_, record)| found(record)).collect()
    }

    /// Seats on other machines that have a worker.
    fn far_seats(&self) -> impl Iterator<Item = (SeatId, &SeatRecord)> {
        let is_up = |seat: SeatId| self.decider.scheduler.is_up(seat);
        self.seats.wanted().filter(move |(seat, record)| !record.caps.same_machine && is_up(*seat))
    }

    /// Those whose interpreters are not known yet.
    pub(super) fn without_interpreter(&self) -> Vec<Awaited> {
        let is_open = |record: &SeatRecord| match &record.interpreter {
            Interpreter::Unknown => true,
            Interpreter::Asked(at) => at.elapsed() < ANSWERS_WITHIN,
            Interpreter::Found(..) => false,
        };
        let open = self.far_seats().filter(|(_, record)| is_open(record));
        open.map(|(_, record)| Awaited {
            worker: record.name.clone(),
            blocks: 0,
            why: "its Python is being looked for".into(),
        })
        .collect()
    }

    /// Whether every host has answered, or had its time.
    pub(crate) fn knows_interpreters(&self) -> bool {
        self.without_interpreter().is_empty()
    }

    /// Whether all hosts have what a function needs; `None` while that is not known. Who lacks something is asked
    /// again, once, since what was missing may have been installed meanwhile.
    pub(crate) fn python_ready(&mut self, needs: &[String]) -> Option<Result<(), Error>> {
        let Some(&(_, version)) = self.options.workers.python.support.as_ref() else { return Some(Ok(())) };
        if !self.without_interpreter().is_empty() {
            return None;
        }
        let facts: Vec<_> =
            self.far_seats().map(|(_, record)| (record.name.as_str(), record.interpreter.found())).collect();
        let table = match python::check(&facts, needs, version) {
            Ok(()) => return Some(Ok(())),
            Err(table) => table,
        };
        let is_old = |record: &SeatRecord| match &record.interpreter {
            Interpreter::Found(at, _) => at.elapsed() > FRESH,
            Interpreter::Unknown | Interpreter::Asked(_) => false,
        };
        let bad = |name: &str| table.lines.iter().any(|line| line.host == name && !line.is_good());
        let again: Vec<WorkerId> = self
            .far_seats()
            .filter(|(_, record)| is_old(record) && bad(&record.name))
            .filter_map(|(seat, _)| self.seats.occupant(seat))
            .collect();
        if again.is_empty() {
            return Some(Err(Error::PythonMissing(Box::new(table))));
        }
        for worker in again {
            self.ask_for_interpreter(worker);
        }
        None
    }
}
