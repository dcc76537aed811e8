//! Rounds of jobs without a submitter, as they are in the bucket.
//!
//! The body of such an order is the most tasks that its rounds have, and a [`FusedRound`]. The number is chosen once, when the job is
//! submitted: the order that a step makes must not depend on who takes it.

use crate::ending::{ResultBlob, RoundEnd};
use bytes::Bytes;
use qjam::engine::{Failure, Order as EngineOrder, OrderError};
use qjam::fused::{FollowError, Followed, FusedRound, StepProgress};
use qjam_core::bucket::{Next, Order, Plan, RoundHead, Shape};

/// A round whose order has been read.
pub(crate) enum OpenedRound {
    /// A submitter waits for it.
    Plain(EngineOrder),
    /// A step follows it.
    Fused {
        /// Most tasks of a round.
        tasks_max: u32,
        /// The round.
        round: FusedRound,
    },
}

/// Why a step was not taken.
pub(crate) enum NoStep {
    /// The value cannot be read, or the step panicked.
    Failure(Failure),
    /// The step refuses, which whoever waits reads.
    Refused(Bytes),
}

impl OpenedRound {
    /// Reads the order of a round.
    pub(crate) fn read(order: &Order<Bytes>) -> Result<OpenedRound, OrderError> {
        if !order.head.fused {
            return EngineOrder::from_bytes(order.body()).map(OpenedRound::Plain);
        }
        let (tasks_max, round) = split(order.body()).ok_or(OrderError::Impossible("it is cut short"))?;
        Ok(OpenedRound::Fused { tasks_max, round: FusedRound::from_bytes(round)? })
    }

    /// What is run over the data.
    pub(crate) fn order(&self) -> &EngineOrder {
        match self {
            OpenedRound::Plain(order) => order,
            OpenedRound::Fused { round, .. } => round.order(),
        }
    }

    /// What follows the value.
    pub(crate) fn follow(&self, value: &[u8]) -> Result<Next<Bytes>, NoStep> {
        let OpenedRound::Fused { tasks_max, round } = self else {
            return Err(NoStep::Failure(Failure::Engine("this round has no step".into())));
        };
        let parts = ResultBlob::read(value).map_err(Failure::from);
        let parts = parts.and_then(|result| round.order().parts_from_bytes(result.parts));
        match round.follow(parts.map_err(NoStep::Failure)?) {
            Ok(Followed::Round(next)) => Ok(Next::Round(order_of(&next, *tasks_max))),
            Ok(Followed::Stop(kept)) => Ok(Next::Stop(kept)),
            Err(FollowError::Round(failure)) => Err(NoStep::Failure(failure)),
            Err(FollowError::Step(e)) => {
                Err(NoStep::Refused(RoundEnd::Refused { why: e.to_string() }.to_bytes()))
            }
        }
    }
}

/// A round of a loop as an order for the bucket. It follows from its arguments alone.
pub(crate) fn order_of(round: &FusedRound, tasks_max: u32) -> Order<Bytes> {
    let plan = Plan::new(round.order().cut(), tasks_max, Shape::SquareRoot);
    let body = [&tasks_max.to_le_bytes()[..], &round.to_bytes()].concat();
    Order::new(RoundHead { plan, fused: true }, &body)
}

/// How far the loop of an order is, if it says so.
pub(crate) fn progress_of(order: &Order<Bytes>) -> Option<StepProgress> {
    FusedRound::progress_in(split(order.body())?.1)
}

fn split(body: &[u8]) -> Option<(u32, &[u8])> {
    let (tasks_max, round) = body.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*tasks_max), round))
}
