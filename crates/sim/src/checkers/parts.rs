//! Checks which delivered parts count.

use super::picture::Picture;
use super::{Step, Verdict, promise};
use qjam_core::ids::{PartId, RoundId};
use qjam_core::reduce::Node;
use qjam_core::scheduler::{Action, Event};

/// Every delivered part is either accepted or discarded, once, and rightly so; nothing else is.
pub(super) fn is_answered_as_expected(step: &Step<'_>, expected: Option<bool>) -> Verdict {
    let said = step.actions.iter().filter_map(|action| match action {
        Action::Accept { part, round, node } => Some((true, *part, *round, *node)),
        Action::Discard { part, round, node } => Some((false, *part, *round, *node)),
        _ => None,
    });
    let said: Vec<(bool, PartId, RoundId, Node)> = said.collect();
    let wanted: Vec<(bool, PartId, RoundId, Node)> = match (step.event, expected) {
        (Event::PartDelivered { part, round, node, .. }, Some(counts)) => {
            vec![(counts, *part, *round, *node)]
        }
        _ => vec![],
    };
    promise!(
        said == wanted,
        "a_part_counts_if_and_only_if_its_blocks_are_held_as_named",
        "{:?}: (counts, part, round, node) should be {wanted:?}, is {said:?}",
        step.event
    );
    Ok(())
}

/// Accepted parts never overlap.
pub(super) fn accept(picture: &mut Picture, event: &Event, round: RoundId, node: Node) -> Verdict {
    let r = picture.rounds.get_mut(&round).filter(|r| r.answer.is_none());
    promise!(r.is_some(), "accepted_parts_belong_to_open_rounds", "{event:?}");
    let r = r.expect("it was just looked at");
    // By hand, since the tree's own arithmetic is under test too.
    let chunks = u64::from(r.cut.chunks);
    let start = (u64::from(node.index) << node.level).min(chunks);
    let end = ((u64::from(node.index) + 1) << node.level).min(chunks);
    for chunk in start..end {
        let covered = std::mem::replace(&mut r.covered[chunk as usize], true);
        promise!(
            !covered,
            "accepted_parts_are_disjoint",
            "{round}: chunk {chunk} is accepted again in {node:?}"
        );
    }
    Ok(())
}

/// A round is finished when every chunk is in.
pub(super) fn covers_everything(picture: &Picture, round: RoundId) -> Verdict {
    let lacking = picture.rounds[&round].covered.iter().position(|c| !c);
    promise!(lacking.is_none(), "a_finished_round_has_every_chunk", "{round} lacks chunk {lacking:?}");
    Ok(())
}
