//! Checks what a block finds in its mail.

use super::{Verdict, promise};
use crate::letters::Letter;
use qjam_core::ids::{Block, RoundId, Version, WorkerId};
use qjam_core::mail::Inbox;
use std::collections::BTreeSet;

/// A block finds every letter that was sent to its partition in the round that left the states it begins with, once, in order,
/// and no other.
pub(crate) fn found(
    (worker, round, block, base): (WorkerId, RoundId, Block, Version),
    found: &Inbox<Letter>,
    expected: &Inbox<Letter>,
) -> Verdict {
    let who = || format!("{worker}: {round}, block {block} {base}: {found:?}, should be {expected:?}");
    let stranger = found.iter().find(|(_, letter)| Some(letter.round) != base.round());
    promise!(
        stranger.is_none_or(|(_, letter)| Version::after(letter.round) <= base),
        "no_letter_is_early",
        "{}",
        who()
    );
    promise!(stranger.is_none(), "no_letter_is_late", "{}", who());
    let distinct: BTreeSet<_> = found.iter().map(|(from, letter)| (from, letter.number)).collect();
    promise!(distinct.len() == found.len(), "no_letter_comes_twice", "{}", who());
    promise!(expected.iter().all(|letter| found.contains(letter)), "no_letter_is_lost", "{}", who());
    promise!(found.len() == expected.len(), "no_letter_goes_astray", "{}", who());
    promise!(found == expected, "letters_come_in_order", "{}", who());
    Ok(())
}
