//! Engines that run whole rounds, instead of the scheduler.
//!
//! A [`Crew`] takes an [`Order`] and does it in its own way, from beginning to end, on the thread that calls it: the
//! thread that waits for the round if there is one, otherwise a thread of the master's. The master keeps what it keeps of
//! any round: run file, journal, report, states.

use super::caps::Caps;
use super::order::{Failure, Order, Outcome};
use super::params::CrewBuffer;
use crate::ctx::Cancelled;
use crate::execution::caught;
use crate::execution::chunks::OpenChunks;
use crate::execution::recipes::StateRecipe;
use bytes::Bytes;
use qjam_core::ids::{DataSetId, HoldId};
use qjam_core::job::FaultKind;
use std::ops::Range;
use std::sync::Arc;

/// Workers that do each round together.
///
/// Write one to run rounds where no engine of this crate can. [`Order::to_bytes`] describes a round to another process;
/// [`Order::run`] runs blocks there; [`Order::combine`] merges what they gave, with the bits of all other engines.
pub trait Crew: Send + Sync {
    /// What the workers can do.
    fn caps(&self) -> Caps;

    /// Who the workers are, in a fixed order.
    fn workers(&self) -> Vec<CrewWorker>;

    /// Runs a round to its end.
    fn run(&self, job: Assignment) -> Outcome;

    /// The workers that have come since so many were known, where workers come and go. Those that were known keep their positions.
    fn newcomers(&self, _known: usize) -> Vec<CrewWorker> {
        Vec::new()
    }

    /// Names of the workers that the round under way waits for.
    fn awaited(&self) -> Vec<String> {
        self.workers().into_iter().map(|worker| worker.name).collect()
    }

    /// Nobody will ask for this data set again.
    fn forget(&self, _dataset: DataSetId) {}

    /// Nobody will ask for these states again.
    fn release(&self, _hold: HoldId) {}

    /// Memory that parameters of this length should be written to; `Err` if there is none. `Ok(None)` if any will do.
    #[doc(hidden)]
    fn buffer(&self, _bytes: usize) -> Result<Option<Buffer>, Failure> {
        Ok(None)
    }
}

/// Memory of a crew's own choice.
#[doc(hidden)]
pub struct Buffer(pub(crate) Box<dyn CrewBuffer>);

/// A member of a crew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrewWorker {
    /// What messages call it.
    pub name: String,
    /// Its process, if it is one of its own.
    pub pid: Option<u32>,
    /// Whether it is on the master's machine.
    pub same_machine: bool,
    /// How many blocks it runs at once.
    pub slots: u32,
}

/// A round that a crew is to run.
pub struct Assignment {
    /// The round.
    pub order: Order,
    /// Returns true when nobody wants the round any more.
    pub cancelled: Arc<dyn Fn() -> bool + Send + Sync>,
    pub(crate) open: Arc<OpenChunks>,
    /// How to make the states, if a worker may lack them, and what mail there is.
    pub(crate) recipe: Option<StateRecipe>,
}

impl Assignment {
    /// The mail of the partitions, and how to make states that no worker has, in bytes for a [`Workplace`](super::Workplace).
    /// There is one if the round finds mail, or begins with states that rounds of an earlier run have left.
    pub fn recipe(&self) -> Option<Bytes> {
        self.recipe.as_ref().map(to_bytes)
    }

    /// The same for some of the partitions.
    pub fn recipe_for(&self, partitions: Range<u32>) -> Option<Bytes> {
        Some(to_bytes(&self.recipe.as_ref()?.only(&partitions.collect::<Vec<u32>>())))
    }
}

fn to_bytes(recipe: &StateRecipe) -> Bytes {
    let (pieces, _) = recipe.to_pieces(usize::MAX / 8);
    pieces.concat().into()
}

/// A round together with the crew that is to run it.
pub(crate) struct CrewJob {
    pub(crate) crew: Arc<dyn Crew>,
    pub(crate) assignment: Assignment,
}

impl CrewJob {
    /// Runs the round on this thread. It stops when `also` returns true, too.
    pub(crate) fn run(mut self, also: Option<Cancelled>) -> Outcome {
        if let Some(also) = also {
            let first = self.assignment.cancelled.clone();
            self.assignment.cancelled = Arc::new(move || first() || also());
        }
        let CrewJob { crew, assignment } = self;
        // Somebody waits for an outcome, whatever happens.
        caught(|| crew.run(assignment)).unwrap_or_else(|fault| {
            let why = format!("a defect of the workers' own: {}", fault.message);
            Outcome::of(Err(if fault.kind == FaultKind::Panic { Failure::Engine(why) } else { fault.into() }))
        })
    }
}
