//! Checks which blocks are blamed for deaths.

use super::picture::Picture;
use super::{Truth, Verdict, promise};
use crate::plan::RoundPlan;
use qjam_core::ids::{Block, RoundId, WorkerId};
use qjam_core::job::Death;
use qjam_core::scheduler::{Config, Event};

/// A block that has killed as often as we try has ended its round.
pub(super) fn killers_are_stopped(picture: &Picture, event: &Event, config: &Config) -> Verdict {
    let Event::WorkerLost { death, .. } = event else { return Ok(()) };
    for (round, block) in &death.inside {
        let Some(r) = picture.rounds.get(round).filter(|r| r.answer.is_none()) else { continue };
        let b = &r.blocks[*block as usize];
        promise!(
            b.done || (b.victims.len() as u32) < config.kills_max,
            "a_block_that_kills_is_stopped",
            "{round}: block {block} has killed {:?}",
            b.victims
        );
    }
    Ok(())
}

/// Who is named as killer has killed, as often as it takes; and not only by having been there.
///
/// A block that was merely running beside the poisonous one is suspected with it. From then on it runs alone, so at
/// most the copies it had at that time can die with it inside. If all its deaths are another block's doing, the innocent
/// was convicted.
pub(super) fn is_just(
    picture: &Picture,
    spec: &RoundPlan,
    round: RoundId,
    block: Block,
    deaths: &[(WorkerId, Death)],
    config: &Config,
    truth: &Truth,
) -> Verdict {
    let victims = &picture.rounds[&round].blocks[block as usize].victims;
    let named: Vec<WorkerId> = deaths.iter().map(|(w, _)| *w).collect();
    promise!(
        *victims == named && named.len() as u32 >= config.kills_max,
        "poison_names_its_victims",
        "{round}: block {block}, victims {victims:?}, named {named:?}"
    );
    let is_anothers = |w: &WorkerId| truth.poisoned.get(w).is_some_and(|killer| *killer != (round, block));
    // Two copies can die before anybody knows; a limit below three leaves no room to tell.
    promise!(
        spec.poison.contains(&block) || config.kills_max < 3 || !named.iter().all(is_anothers),
        "no_innocent_block_is_convicted",
        "{round}: block {block} died beside others each time: {named:?}"
    );
    Ok(())
}
