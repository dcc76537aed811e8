//! One round of a loop: its order, what the loop keeps, and what follows.

use super::step::{Call, CallStates, EndedRound, Next, StepError, StepProgress, encoded, erased, lookup};
use crate::chunk::Chunk;
use crate::dataset::{CutData, DataSet};
use crate::engine::params::Parameters;
use crate::engine::{Failure, Order, OrderError, Parts, Value};
use crate::execution::caught;
use crate::function::Mode;
use crate::registry;
use bytes::Bytes;
use qjam_core::ids::{HoldId, RoundId, Version};
use qjam_core::order::{HeldTask, MailTask, OrderHead};
use qjam_core::reduce::{Cut, blocks};
use serde::{Deserialize, Serialize};
use std::any::TypeId;
use std::sync::Arc;
use thiserror::Error;

/// A round of a loop.
pub struct FusedRound {
    loop_state: LoopState,
    order: Order,
}

/// What a loop has besides the order of its round.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LoopState {
    /// The step, by its path in the program.
    step: String,
    /// What the loop keeps between its rounds.
    kept: Vec<u8>,
    /// The states that the last call with states begins with, and its round.
    states: Option<(HeldTask, RoundId)>,
    progress: Option<StepProgress>,
}

/// What follows a round.
pub enum Followed {
    /// Another one.
    Round(Box<FusedRound>),
    /// Nothing: this is what the loop kept last, for [`kept`](super::kept) to read.
    Stop(Bytes),
}

/// Why nothing follows a round.
#[derive(Debug, Error)]
pub enum FollowError {
    /// The results are not the value of a round, or the step panicked.
    #[error("{}", text(.0))]
    Round(Failure),
    /// The step says so.
    #[error(transparent)]
    Step(#[from] StepError),
}

fn text(failure: &Failure) -> &str {
    match failure {
        Failure::Fault { fault, .. } => &fault.message,
        Failure::Cancelled => "nobody wants it any more",
        Failure::Engine(why) => why,
    }
}

impl FusedRound {
    /// The first round of a loop over a data set.
    pub fn first<F, T, C>(step: F, kept: &T, call: Call, data: &DataSet<C>) -> Result<FusedRound, StepError>
    where
        F: Fn(T, EndedRound) -> Result<Next<T>, StepError> + Copy + Send + Sync + 'static,
        T: crate::Wire,
        C: Chunk,
    {
        let name = erased(step).name;
        lookup(name)?;
        if call.function.chunk_type() != TypeId::of::<C>() {
            return Err(StepError::Chunks { function: call.function.name().to_owned() });
        }
        let loop_state =
            LoopState { step: name.to_owned(), kept: encoded(kept).to_vec(), states: None, progress: None };
        loop_state.round(RoundId(0), call, data.erased().clone())
    }

    /// What workers run.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// How far the loop is, if it says so.
    pub fn progress(&self) -> Option<&StepProgress> {
        self.loop_state.progress.as_ref()
    }

    /// The oldest states that some call of the loop may still begin with.
    pub fn states(&self) -> Option<HeldTask> {
        self.loop_state.states.map(|(task, _)| task)
    }

    /// Everything but the contents of chunks.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = postcard::to_stdvec(&self.loop_state).expect("names and bytes can be encoded");
        bytes.extend_from_slice(&self.order.to_bytes());
        bytes
    }

    /// Rebuilds a round. The contents of its chunks are brought to its order.
    pub fn from_bytes(bytes: &[u8]) -> Result<FusedRound, OrderError> {
        let (loop_state, order) =
            postcard::take_from_bytes::<LoopState>(bytes).map_err(OrderError::Malformed)?;
        Ok(FusedRound { loop_state, order: Order::from_bytes(order)? })
    }

    /// What the bytes of a round say of the loop's progress, also if this program cannot run the round.
    pub fn progress_in(bytes: &[u8]) -> Option<StepProgress> {
        postcard::take_from_bytes::<LoopState>(bytes).ok()?.0.progress
    }

    /// Takes the step, with the parts of all blocks.
    pub fn follow(&self, parts: Parts) -> Result<Followed, FollowError> {
        let FusedRound { loop_state, order } = self;
        let value = match order.combine([parts]).map_err(FollowError::Round)? {
            Value::Whole(value) => value,
            Value::Begun(_) => return Err(FollowError::Round(Failure::Engine("blocks are missing".into()))),
        };
        let fault = |fault: qjam_core::job::Fault| FollowError::Round(fault.into());
        let (value, _) = order.function.unpost(value);
        let params = order.params.open(&order.function).map_err(fault)?;
        let step = lookup(&loop_state.step)?;
        let next =
            caught(|| (step.take)(&loop_state.kept, EndedRound { params, value })).map_err(fault)??;
        match next {
            Next::Stop(kept) => Ok(Followed::Stop(kept)),
            Next::Round { kept, call, progress } => {
                if call.function.chunk_type() != order.function.chunk_type() {
                    return Err(StepError::Chunks { function: call.function.name().to_owned() }.into());
                }
                let loop_state = LoopState { kept: kept.to_vec(), progress, ..loop_state.clone() };
                let round = RoundId(order.round().0 + 1);
                Ok(Followed::Round(Box::new(loop_state.round(round, call, order.data.clone())?)))
            }
        }
    }
}

impl LoopState {
    /// A round of the loop. Nothing in it depends on who makes it.
    fn round(mut self, round: RoundId, call: Call, data: Arc<CutData>) -> Result<FusedRound, StepError> {
        // Nobody is there who could keep mail from one round to the next.
        let held = |hold, base| HeldTask { hold, base, mail: MailTask::NotCarried };
        let held = match (call.states, self.states) {
            (CallStates::None, _) => None,
            (CallStates::Last, Some((last, left_by))) => Some(held(last.hold, Version::after(left_by))),
            // The number of a round is the number of no other hold.
            (CallStates::New | CallStates::Last, _) => Some(held(HoldId(round.0), Version::MADE)),
        };
        if let Some(held) = held {
            self.states = Some((held, round));
        }
        let chunks = data.chunks.len() as u32;
        let level = match call.function.mode() {
            Mode::Map | Mode::Step => 0,
            Mode::Fold => {
                let chunk_bytes = data.chunks.iter().map(|chunk| chunk.header.bytes).max().unwrap_or(0);
                blocks::fold_level(chunk_bytes, call.accumulator_bytes.unwrap_or(call.params.len() as u64))
            }
        };
        let head = OrderHead {
            round,
            function: call.function.name().into(),
            seed: 0,
            dataset: data.located,
            cut: Cut::new(chunks, level),
            held,
            slots_max: None,
            records: Some(data.records.clone()),
            lineage: data.lineage.as_deref().cloned().map(Box::new),
        };
        let function = registry::lookup(&head.function)?;
        let order = Order { head, function, data, params: Parameters::of(call.params) };
        Ok(FusedRound { loop_state: self, order })
    }
}
