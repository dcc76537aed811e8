//! What goes wrong in a bucket.

use crate::random::Rng;

/// Kinds of faults, and how often. All stop at some time, after which every round must end.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Messages that are delivered to two workers at once, in percent.
    pub twice_percent: u64,
    /// Blobs that cannot be seen for a while after they were written, in percent.
    pub late_percent: u64,
    /// For how long at most.
    pub late_max_us: u64,
    /// Requests that fail, in percent.
    pub refused_percent: u64,
    /// A worker dies about every so often, all of them together; 0 for never.
    pub death_every_us: u64,
    /// Workers that take ten times as long as the others, in percent.
    pub slow_percent: u64,
    /// Blobs of results that somebody removes, in percent.
    pub removed_percent: u64,
    /// The submitter dies about every so often, and begins again; 0 for never.
    pub desertion_every_us: u64,
    /// Steps whose worker dies while it takes them or begins what follows, in percent.
    pub stepper_death_percent: u64,
    /// This task ends whoever runs it.
    pub poison: Option<u32>,
    /// Foreign messages among ours.
    pub foreign: u64,
    /// When the faults stop.
    pub until_us: u64,
}

impl Faults {
    /// None at all.
    pub const NONE: Faults = Faults {
        twice_percent: 0,
        late_percent: 0,
        late_max_us: 0,
        refused_percent: 0,
        death_every_us: 0,
        slow_percent: 0,
        removed_percent: 0,
        desertion_every_us: 0,
        stepper_death_percent: 0,
        poison: None,
        foreign: 0,
        until_us: 0,
    };

    /// Whether anything can go wrong.
    pub fn is_none(&self) -> bool {
        self.until_us == 0 && self.poison.is_none() && self.slow_percent == 0 && self.foreign == 0
    }

    /// Whether every message about a task is sent once: nobody dies, everything is seen at once, and no task takes so long that it seems
    /// lost.
    pub fn messages_are_sent_once(&self) -> bool {
        let Faults { late_percent, refused_percent, slow_percent, removed_percent, poison, .. } = *self;
        let deaths = self.death_every_us + self.desertion_every_us + self.stepper_death_percent;
        deaths + late_percent + refused_percent + slow_percent + removed_percent == 0 && poison.is_none()
    }

    /// Those of a seed: some of them, often none of a kind, in a tenth of the seeds none at all, and in another only messages that are delivered twice.
    pub fn draw(rng: &mut Rng) -> Faults {
        if rng.percent(10) {
            return Faults::NONE;
        }
        if rng.percent(11) {
            let until_us = rng.magnitude(1_000_000, 300_000_000);
            return Faults { twice_percent: rng.between(10, 60), until_us, ..Faults::NONE };
        }
        let mut sometimes = |max: u64| if rng.percent(50) { rng.between(1, max) } else { 0 };
        let (twice_percent, late_percent, refused_percent) = (sometimes(40), sometimes(40), sometimes(10));
        let (slow_percent, removed_percent, foreign) = (sometimes(40), sometimes(5), sometimes(5));
        let is_deadly = sometimes(2) > 0;
        let is_deserted = sometimes(2) > 0;
        let poison = if rng.percent(10) { Some(rng.below(64) as u32) } else { None };
        // Whether a task ends its workers shows only where they do not end by themselves and are not told twice.
        let (twice_percent, is_deadly) =
            if poison.is_some() { (0, false) } else { (twice_percent, is_deadly) };
        Faults {
            twice_percent,
            late_percent,
            late_max_us: rng.magnitude(10_000, 60_000_000),
            refused_percent,
            death_every_us: if is_deadly { rng.magnitude(200_000, 30_000_000) } else { 0 },
            slow_percent,
            removed_percent,
            desertion_every_us: if is_deserted { rng.magnitude(1_000_000, 60_000_000) } else { 0 },
            stepper_death_percent: if is_deadly { rng.between(1, 100) } else { 0 },
            poison,
            foreign,
            until_us: rng.magnitude(1_000_000, 300_000_000),
        }
    }
}
