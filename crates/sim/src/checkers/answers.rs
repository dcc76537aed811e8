//! Checks the answers to rounds.

use super::picture::{Picture, RoundPicture};
use super::{Truth, Verdict, blame, promise};
use crate::plan::RoundPlan;
use qjam_core::ids::{Block, RoundId, WorkerId};
use qjam_core::job::{Fault, FaultKind, RoundFailure};
use qjam_core::scheduler::{Config, Event};

/// How a round was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// With its value.
    Value,
    /// User code or data failed.
    Fault,
    /// This block killed too often.
    Poison(Block),
    /// Nobody was left.
    NoWorkers,
    /// As the user wished.
    Cancelled,
}

/// Each round is answered once. Cancelling an open one is answered at once.
fn answer(picture: &mut Picture, round: RoundId, answer: Answer) -> Verdict {
    let before = picture.rounds.get_mut(&round).map(|r: &mut RoundPicture| &mut r.answer);
    let Some(before) = before else {
        return Err(super::Violation::new(
            "only_submitted_rounds_are_answered",
            format!("{round}: {answer:?}"),
        ));
    };
    promise!(before.is_none(), "every_round_is_answered_once", "{round}: {before:?}, then {answer:?}");
    *before = Some(answer);
    Ok(())
}

/// A value is given only where there can be one. (Two halves that do not fit are found while merging.)
pub(super) fn finish(picture: &mut Picture, spec: &RoundPlan, round: RoundId) -> Verdict {
    answer(picture, round, Answer::Value)?;
    let impossible = spec.bad_params || !spec.poison.is_empty() || !spec.panics.is_empty();
    promise!(!impossible, "a_doomed_round_has_no_value", "{round}: {spec:?}");
    Ok(())
}

/// A failure is of the right kind and names the right things.
pub(super) fn fail(
    picture: &mut Picture,
    event: &Event,
    spec: &RoundPlan,
    round: RoundId,
    failure: &RoundFailure,
    config: &Config,
    truth: &Truth,
) -> Verdict {
    match failure {
        RoundFailure::Cancelled => {
            let asked = matches!(event, Event::RoundCancelled { round: r } if *r == round);
            promise!(asked, "only_the_user_cancels", "{round} after {event:?}");
            answer(picture, round, Answer::Cancelled)
        }
        RoundFailure::Fault { worker, fault } => {
            is_true(spec, round, *worker, fault)?;
            let reported = matches!(event, Event::Faulted { round: r, .. } if *r == round);
            promise!(reported, "faults_were_reported", "{round} after {event:?}");
            answer(picture, round, Answer::Fault)
        }
        RoundFailure::Poison { block, deaths } => {
            blame::is_just(picture, spec, round, *block, deaths, config, truth)?;
            answer(picture, round, Answer::Poison(*block))
        }
        RoundFailure::NoWorkers { .. } => {
            let left = picture.seats.iter().find(|(_, s)| !s.is_given_up).map(|(id, _)| *id);
            promise!(left.is_none(), "nobody_is_left_when_we_say_so", "{round}: {left:?} is not given up");
            answer(picture, round, Answer::NoWorkers)
        }
    }
}

/// A reported fault is one that the plan has.
fn is_true(spec: &RoundPlan, round: RoundId, worker: Option<WorkerId>, fault: &Fault) -> Verdict {
    let chunk_is_in = |block: &Block| {
        let chunks = spec.cut.chunks_of(spec.cut.node(*block));
        fault.chunk.is_some_and(|c| chunks.contains(&c))
    };
    let is_planned = match fault.kind {
        FaultKind::Panic => worker.is_some() && spec.panics.iter().any(chunk_is_in),
        FaultKind::Params => worker.is_some() && spec.bad_params,
        FaultKind::Merge => spec.bad_merge.is_some(),
        _ => false,
    };
    let is_here = fault.message == round.to_string();
    promise!(is_planned && is_here, "faults_name_what_failed", "{round}: {fault:?} from {worker:?}");
    Ok(())
}

/// A user who cancels an open round hears so at once.
pub(super) fn cancelling_answers(picture: &Picture, event: &Event) -> Verdict {
    if let Event::RoundCancelled { round } = event
        && let Some(r) = picture.rounds.get(round)
    {
        promise!(r.answer.is_some(), "cancelling_is_answered_at_once", "{round}");
    }
    Ok(())
}
