//! The interpreters on hosts: what is known of them, and asking for it.
//!
//! Every worker on a host is asked once when it has joined, if the master has Python functions at all. It looks on a
//! thread of its own, so by the time of the first round the answer is usually here.

use super::{Driver, SeatHere};
use crate::engine::SeatKind;
use crate::error::Error;
use crate::master::options::Awaited;
use crate::python::{self, InterpreterFacts};
use bytes::Bytes;
use qjam_core::ids::{SeatId, WorkerId};
use qjam_core::wire::{ToHost, ToWorker};
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
    /// How many slots this machine's workers have.
    pub(super) fn slots_here(&self) -> u32 {
        let here = self.seats.iter().filter(|here| !here.removed);
        here.filter(|here| !is_far(here)).map(|here| here.seat.slots).sum()
    }

    /// Has a worker on a host look for an interpreter, unless one is known to be there.
    pub(super) fn find_python(&mut self, worker: WorkerId) {
        let Some(here) = self.seats.get(worker.seat.0 as usize) else { return };
        if self.options.python.support.is_some() && !matches!(here.python, Interpreter::Found(_, Ok(_))) {
            self.ask_for_python(worker);
        }
    }

    fn ask_for_python(&mut self, worker: WorkerId) {
        let Some(link) = self.link_of(worker) else { return };
        link.send(&ToHost::Worker { worker, message: ToWorker::FindRuntime }, Bytes::new(), None);
        self.seats[worker.seat.0 as usize].python = Interpreter::Asked(Instant::now());
        self.pump(worker.seat);
    }

    /// A host says what it found.
    pub(super) fn on_python(&mut self, seat: SeatId, found: Result<Vec<u8>, String>) {
        let unread = || "its answer cannot be read".to_owned();
        let found = found.and_then(|bytes| InterpreterFacts::from_bytes(&bytes).ok_or_else(unread));
        self.seats[seat.0 as usize].python = Interpreter::Found(Instant::now(), found);
    }

    /// Hosts where somebody is at work, and what is known of their interpreters.
    fn far_seats(&self) -> impl Iterator<Item = (SeatId, &SeatHere)> {
        let seats = self.seats.iter().enumerate().map(|(n, here)| (SeatId(n as u32), here));
        seats.filter(|(seat, here)| is_far(here) && !here.removed && self.scheduler.is_up(*seat))
    }

    /// Those whose interpreters are not known yet.
    pub(super) fn without_python(&self) -> Vec<Awaited> {
        let is_open = |here: &SeatHere| match &here.python {
            Interpreter::Unknown => true,
            Interpreter::Asked(at) => at.elapsed() < ANSWERS_WITHIN,
            Interpreter::Found(..) => false,
        };
        let open = self.far_seats().filter(|(_, here)| is_open(here));
        open.map(|(_, here)| Awaited {
            worker: here.seat.name.clone(),
            blocks: 0,
            why: "its Python is being looked for".into(),
        })
        .collect()
    }

    /// Whether every host has answered, or had its time.
    pub(crate) fn knows_pythons(&self) -> bool {
        self.without_python().is_empty()
    }

    /// Whether all hosts have what a function needs; `None` while that is not known. Who lacks something is asked
    /// again, once, since what was missing may have been installed meanwhile.
    pub(crate) fn python_ready(&mut self, needs: &[String]) -> Option<Result<(), Error>> {
        let Some(&(_, version)) = self.options.python.support.as_ref() else { return Some(Ok(())) };
        if !self.without_python().is_empty() {
            return None;
        }
        let facts: Vec<_> =
            self.far_seats().map(|(_, here)| (here.seat.name.as_str(), here.python.found())).collect();
        let table = match python::check(&facts, needs, version) {
            Ok(()) => return Some(Ok(())),
            Err(table) => table,
        };
        let is_old = |here: &SeatHere| match &here.python {
            Interpreter::Found(at, _) => at.elapsed() > FRESH,
            Interpreter::Unknown | Interpreter::Asked(_) => false,
        };
        let bad = |name: &str| table.lines.iter().any(|line| line.host == name && !line.is_good());
        let again: Vec<WorkerId> = self
            .far_seats()
            .filter(|(_, here)| is_old(here) && bad(&here.seat.name))
            .filter_map(|(_, here)| here.link.as_ref()?.worker)
            .collect();
        if again.is_empty() {
            return Some(Err(Error::PythonMissing(Box::new(table))));
        }
        for worker in again {
            self.ask_for_python(worker);
        }
        None
    }
}

fn is_far(here: &SeatHere) -> bool {
    matches!(here.seat.kind, SeatKind::Host(_))
}
