//! Mail between the partitions of a hold: letters on their way, and the letters that the rounds with a value have left.
//!
//! A block sends letters while it runs, and they travel with its value: an [`Outbox`] is merged along the same tree, so a
//! letter counts exactly if its block counts, and letters are ordered by sender and number whatever arrives first. When the
//! round has its value, the master commits the outbox of its root to a [`Mailroom`], under the version of the states that the
//! round has left. The next round begins with that version and finds these letters and no others. A round without a value
//! commits nothing, so the next one finds the same letters again.
//!
//! Letters are opaque here. Nothing in this module decides when a letter is forgotten but [`Mailroom::forget_before`]: a lost
//! partition is made again from a checkpoint, and every round since needs the letters that it found then.

use crate::ids::Version;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// A letter with its sender and its receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope<L> {
    /// The partition that sent it.
    pub from: u32,
    /// The partition that will find it.
    pub to: u32,
    /// Its content.
    pub letter: L,
}

/// Letters that neighbouring partitions have sent in one round, ordered by sender and, for each sender, as they were sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbox<L>(Vec<Envelope<L>>);

impl<L> Default for Outbox<L> {
    fn default() -> Self {
        Outbox(Vec::new())
    }
}

impl<L> Outbox<L> {
    /// Adds a letter. Senders must come in ascending order.
    pub fn put(&mut self, from: u32, to: u32, letter: L) {
        assert!(
            self.0.last().is_none_or(|last| last.from <= from),
            "partition {from} sends after a later one"
        );
        self.0.push(Envelope { from, to, letter });
    }

    /// Adds what the right neighbours have sent.
    pub fn merge(&mut self, right: Self) {
        if self.0.is_empty() {
            self.0 = right.0;
        } else {
            self.0.extend(right.0);
        }
    }

    /// Letters that came from outside; `None` if their senders are not in ascending order.
    pub fn of(envelopes: Vec<Envelope<L>>) -> Option<Self> {
        envelopes.is_sorted_by_key(|envelope| envelope.from).then_some(Outbox(envelopes))
    }

    /// The letters, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Envelope<L>> {
        self.0.iter()
    }

    /// Whether nobody has sent anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What a partition finds: senders and letters, in order.
pub type Inbox<L> = Vec<(u32, L)>;

/// The letters of one hold, by the version of the states that they were committed with, and by receiver.
#[derive(Clone, Debug)]
pub struct Mailroom<L> {
    sent: BTreeMap<Version, BTreeMap<u32, Inbox<L>>>,
}

impl<L> Default for Mailroom<L> {
    fn default() -> Self {
        Mailroom { sent: BTreeMap::new() }
    }
}

impl<L> Mailroom<L> {
    /// A round has its value and has left this version. The rounds that begin with it find these letters.
    pub fn commit(&mut self, version: Version, outbox: Outbox<L>) {
        if outbox.is_empty() {
            return;
        }
        let mut inboxes: BTreeMap<u32, Inbox<L>> = BTreeMap::new();
        for Envelope { from, to, letter } in outbox.0 {
            inboxes.entry(to).or_default().push((from, letter));
        }
        self.sent.insert(version, inboxes);
    }

    /// Whether a round that begins with this version finds letters in any partition.
    pub fn has_mail(&self, version: Version) -> bool {
        self.sent.contains_key(&version)
    }

    /// What a partition finds in rounds that begin with these versions; versions without letters are left out.
    pub fn inboxes(
        &self,
        versions: RangeInclusive<Version>,
        partition: u32,
    ) -> impl Iterator<Item = (Version, &Inbox<L>)> {
        let inbox = move |(version, inboxes): (&Version, _)| {
            let inboxes: &BTreeMap<u32, Inbox<L>> = inboxes;
            Some((*version, inboxes.get(&partition)?))
        };
        self.sent.range(versions).filter_map(inbox)
    }

    /// No partition will be made again from a version before this one: what rounds on those found is of no more use.
    pub fn forget_before(&mut self, version: Version) {
        self.sent.retain(|sent, _| *sent >= version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RoundId;

    fn after(round: u64) -> Version {
        Version::after(RoundId(round))
    }

    fn outbox(letters: &[(u32, u32, char)]) -> Outbox<char> {
        let mut outbox = Outbox::default();
        letters.iter().for_each(|(from, to, letter)| outbox.put(*from, *to, *letter));
        outbox
    }

    fn found(
        room: &Mailroom<char>,
        versions: RangeInclusive<Version>,
        partition: u32,
    ) -> Vec<(Version, String)> {
        let text =
            |inbox: &Inbox<char>| inbox.iter().map(|(from, letter)| format!("{from}{letter}")).collect();
        room.inboxes(versions, partition).map(|(version, inbox)| (version, text(inbox))).collect()
    }

    #[test]
    fn letters_are_found_by_sender_and_number_under_the_version_they_were_committed_with() {
        let mut room = Mailroom::default();
        let mut sent = outbox(&[(0, 1, 'a'), (0, 1, 'b'), (0, 0, 'c')]);
        sent.merge(outbox(&[(2, 1, 'd'), (3, 1, 'e')]));
        room.commit(after(4), sent);
        assert_eq!(found(&room, after(4)..=after(4), 1), [(after(4), "0a0b2d3e".into())]);
        assert_eq!(found(&room, after(4)..=after(4), 0), [(after(4), "0c".into())]);
        assert!(found(&room, after(4)..=after(4), 3).is_empty() && room.has_mail(after(4)));
        assert!(found(&room, Version::MADE..=after(3), 1).is_empty() && !room.has_mail(after(3)));
    }

    #[test]
    fn a_checkpoint_forgets_what_came_before_it_and_nothing_else() {
        let mut room = Mailroom::default();
        (1..=3).for_each(|round| room.commit(after(round), outbox(&[(0, 0, 'a')])));
        room.commit(after(4), Outbox::default());
        assert!(!room.has_mail(after(4)));
        room.forget_before(after(2));
        let left: Vec<Version> =
            found(&room, Version::MADE..=after(9), 0).into_iter().map(|(v, _)| v).collect();
        assert_eq!(left, [after(2), after(3)]);
    }

    #[test]
    fn letters_from_outside_must_be_in_order() {
        let letter = |from| Envelope { from, to: 0, letter: 'a' };
        assert!(Outbox::of(vec![letter(0), letter(0), letter(2)]).is_some());
        assert!(Outbox::of(vec![letter(1), letter(0)]).is_none());
    }
}
