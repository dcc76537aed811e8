//! Checks the assignment of blocks, and when rounds are closed.

use super::picture::Picture;
use super::{Verdict, promise};
use qjam_core::ids::{RoundId, WorkerId};
use qjam_core::lease::BlockRange;

/// Blocks go to dependable workers, under a new attempt, and to a second one only if the first is silent or late.
pub(super) fn assign(
    picture: &mut Picture,
    worker: WorkerId,
    round: RoundId,
    ranges: &[BlockRange],
) -> Verdict {
    let holder = picture.workers.get(&worker);
    promise!(
        holder.is_some_and(|w| w.is_dependable()),
        "work_goes_to_the_living",
        "{worker} got {ranges:?} of {round}: {holder:?}"
    );
    let (workers, r) = (&picture.workers, picture.rounds.get_mut(&round));
    let Some(r) = r.filter(|r| r.answer.is_none()) else {
        return Err(super::Violation::new("only_open_rounds_are_given_out", format!("{round} to {worker}")));
    };
    for (n, range) in ranges.iter().flat_map(|s| s.blocks().map(move |b| (b as usize, s))) {
        let block = &mut r.blocks[n];
        promise!(!block.done, "done_blocks_are_not_given_out", "{round}: block {n} to {worker}");
        promise!(
            range.attempt == block.attempts + 1,
            "every_attempt_is_new",
            "{round}: block {n} to {worker} as {}, after {}",
            range.attempt,
            block.attempts
        );
        promise!(
            range.alone != block.victims.is_empty(),
            "blocks_that_killed_are_run_alone",
            "{round}: block {n} to {worker}: {range:?}, victims {:?}",
            block.victims
        );
        let is_needy = match block.holders[..] {
            [] => true,
            [(other, _)] => other != worker && workers.get(&other).is_none_or(|w| !w.is_dependable()),
            _ => false,
        };
        // Or who has it was late, and was told so.
        let is_late = range.apart
            && matches!(block.holders[..], [(other, _)] if other != worker && block.told_apart == Some(other));
        promise!(
            range.apart == is_late,
            "only_what_somebody_else_has_is_apart",
            "{round}: block {n} to {worker}: {range:?}, with {:?}",
            block.holders
        );
        promise!(
            is_needy || is_late,
            "a_second_copy_is_given_out_only_if_the_first_is_silent",
            "{round}: block {n} to {worker}, with {:?}",
            block.holders
        );
        block.attempts = range.attempt;
        block.holders.push((worker, range.attempt));
        *r.held.entry(worker).or_default() += 1;
    }
    Ok(())
}

/// A round is closed once, after it was answered and everybody gave back what they had.
pub(super) fn close(picture: &mut Picture, round: RoundId) -> Verdict {
    let r = picture.rounds.get_mut(&round);
    let is_over = r.as_ref().is_some_and(|r| r.answer.is_some() && !r.is_closed);
    promise!(is_over, "a_round_is_closed_once_and_after_its_answer", "{round}");
    let r = r.expect("it was just looked at");
    promise!(
        r.held.is_empty(),
        "no_round_is_closed_while_somebody_has_a_piece_of_it",
        "{round}: {:?}",
        r.held
    );
    r.is_closed = true;
    // Only the answer is wanted from here on.
    (r.blocks, r.covered) = (Vec::new(), Vec::new());
    picture.closed += 1;
    Ok(())
}

/// While somebody dependable is there, what a suspect has is with somebody else, too.
pub(super) fn silent_holders_are_doubled(picture: &Picture) -> Verdict {
    if picture.suspects == 0 || !picture.workers.values().any(|w| w.is_dependable()) {
        return Ok(());
    }
    for (round, r) in picture.rounds.iter().filter(|(_, r)| r.answer.is_none()) {
        for (n, block) in r.blocks.iter().enumerate().filter(|(_, b)| !b.done) {
            if let [(only, _)] = block.holders[..]
                && picture.workers.get(&only).is_some_and(|w| w.is_suspect && !w.is_dying)
                && !super::homes::is_waiting(picture, r, n as u32)
            {
                let what = format!("{round}: block {n} is with {only} alone, which is silent");
                return Err(super::Violation::new("blocks_of_a_silent_worker_are_given_to_others_too", what));
            }
        }
    }
    Ok(())
}
