//! Checks recalls and backups of blocks of slow workers.

use super::picture::{Picture, WorkerPicture};
use super::{Answer, Verdict, Violation, promise};
use qjam_core::ids::{Block, RoundId, WorkerId};
use qjam_core::lease::BlockRange;
use qjam_core::scheduler::Event;

/// Blocks are asked for when somebody has nothing to do, of one who has some, one question at a time.
pub(super) fn recall(picture: &mut Picture, worker: WorkerId, round: RoundId) -> Verdict {
    let holder = picture.workers.get(&worker);
    promise!(
        holder.is_some_and(WorkerPicture::is_dependable),
        "only_the_dependable_are_asked_for_blocks",
        "{worker}: {holder:?}"
    );
    let idle = picture.team(round).iter().any(|w| picture.is_idle(*w));
    promise!(idle, "blocks_are_asked_for_when_somebody_is_idle", "{worker} for blocks of {round}");
    let r = picture.rounds.get_mut(&round).filter(|r| r.answer.is_none());
    let Some(r) = r.filter(|r| r.held.contains_key(&worker)) else {
        return Err(Violation::new("only_holders_are_asked_for_blocks", format!("{worker}: {round}")));
    };
    promise!(r.asked.insert(worker), "nobody_is_asked_for_blocks_twice", "{worker}: {round}");
    Ok(())
}

/// What was given back goes to the idle as long as there are any, and back only if nobody else is there.
pub(super) fn goes_to_the_idle(picture: &Picture, event: &Event, to: WorkerId, round: RoundId) -> Verdict {
    let Event::Returned { worker, round: of, returned } = event else { return Ok(()) };
    if returned.ranges.is_empty() || *of != round {
        return Ok(());
    }
    let team = picture.team(round);
    promise!(
        to != *worker || team.iter().all(|id| id == worker),
        "nobody_gets_back_what_it_gave_back",
        "{worker}: {round}"
    );
    let idle = team.into_iter().find(|id| id != worker && picture.is_idle(*id));
    promise!(
        picture.is_idle(to) || idle.is_none(),
        "what_was_given_back_goes_to_the_idle",
        "{round} to {to}, though {idle:?} is idle"
    );
    Ok(())
}

/// What was given back is with somebody else at once.
pub(super) fn what_was_given_back_is_given_out(picture: &Picture, event: &Event) -> Verdict {
    let Event::Returned { round, returned, .. } = event else { return Ok(()) };
    let Some(r) = picture.rounds.get(round).filter(|r| r.answer.is_none()) else { return Ok(()) };
    if !picture.workers.values().any(WorkerPicture::is_dependable) {
        return Ok(());
    }
    let nobodys = |b: &Block| !r.blocks[*b as usize].done && r.blocks[*b as usize].holders.is_empty();
    let lost = returned.ranges.iter().flat_map(BlockRange::blocks).find(nobodys);
    promise!(lost.is_none(), "what_was_given_back_is_given_out", "{round}: block {lost:?}");
    Ok(())
}

/// A late block is doubled once, and only few of a round, and none that killed.
pub(super) fn apart(picture: &mut Picture, worker: WorkerId, round: RoundId, block: Block) -> Verdict {
    let r = picture.rounds.get_mut(&round).filter(|r| r.answer.is_none());
    let Some(r) = r else {
        return Err(Violation::new("only_open_rounds_are_backed_up", format!("{round} of {worker}")));
    };
    r.backups += 1;
    promise!(
        r.backups <= (r.blocks.len() / 10).max(1),
        "few_blocks_are_backed_up",
        "{round}: {} of {}",
        r.backups,
        r.blocks.len()
    );
    let b = &mut r.blocks[block as usize];
    let is_his = b.holders.len() == 1 && b.holders[0].0 == worker;
    promise!(
        is_his && !b.done && b.told_apart.is_none() && b.victims.is_empty(),
        "a_late_block_is_backed_up_once",
        "{round}: block {block} of {worker}: {b:?}"
    );
    b.told_apart = Some(worker);
    Ok(())
}

/// Only who was late with a round that has its value may take its time.
pub(super) fn only_the_late_are_spared(
    picture: &Picture,
    worker: WorkerId,
    round: RoundId,
    is_patient: bool,
) -> Verdict {
    let has_value = picture.rounds.get(&round).is_some_and(|r| r.answer == Some(Answer::Value));
    let is_dependable = picture.workers.get(&worker).is_some_and(WorkerPicture::is_dependable);
    promise!(
        is_patient == (has_value && is_dependable),
        "only_the_late_are_spared",
        "{worker}: {round}, patient {is_patient}, dependable {is_dependable}, with a value {has_value}"
    );
    Ok(())
}
