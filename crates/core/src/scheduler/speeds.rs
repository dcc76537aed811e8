//! The speed of each seat, measured in rounds over the same data.
//!
//! A speed is relative: blocks per slot and time, divided by the mean of all seats that took part. It belongs to a data set in one cut,
//! because chunks may differ in cost, and a seat with expensive chunks is slow with this data only. The shares of the next round follow
//! the speeds, but slowly and not for small differences, because moving a share means sending its chunks.

use crate::ids::{DataSetId, SeatId};
use std::collections::BTreeMap;

/// What a speed belongs to: the data set and the level of its blocks.
pub(crate) type Key = (DataSetId, u8);

/// For so many data sets speeds are remembered.
const KEYS_MAX: usize = 8;
/// Nobody counts as faster than so many times the mean, or slower.
const SPEED_MAX: f64 = 20.0;
/// How much of a new measurement is believed, unless it is plain: machines have other things to do, too.
const TRUST: f64 = 0.3;
/// A change by so many times is believed at once.
const PLAIN: f64 = 2.0;
/// How far somebody who did nothing is taken to be back at the mean after each round.
const FORGIVENESS: f64 = 0.1;
/// Shares are changed only for a change of speed of more than this.
const CHANGE_MIN: f64 = 0.1;
/// Where a seat has computed for less than this, what it took says little.
const MEASURED_US_MIN: u64 = 1_000;

/// What a seat did in a round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    /// Blocks it delivered.
    pub(crate) blocks: u64,
    /// Time that its busiest slot spent on them.
    pub(crate) busy_us: u64,
}

/// One seat.
#[derive(Clone, Copy, Debug)]
struct Speed {
    measured: f64,
    /// What the shares are cut by.
    applied: f64,
}

/// One data set.
#[derive(Debug, Default)]
struct Known {
    seats: BTreeMap<SeatId, Speed>,
    /// What a block took in a slot, in the last round.
    block_us: Option<u64>,
    /// When it was last asked for, in rounds.
    used: u64,
}

/// All that is known of speeds.
#[derive(Debug, Default)]
pub(crate) struct Speeds {
    known: BTreeMap<Key, Known>,
    rounds: u64,
}

impl Speeds {
    /// What to cut shares by.
    pub(crate) fn applied(&self, key: &Key, seat: SeatId) -> f64 {
        self.known.get(key).and_then(|known| known.seats.get(&seat)).map_or(1.0, |s| s.applied)
    }

    /// What a block may be expected to take in a slot of this seat.
    pub(crate) fn block_us(&self, key: &Key, seat: SeatId) -> Option<u64> {
        let known = self.known.get(key)?;
        let speed = known.seats.get(&seat).map_or(1.0, |s| s.measured);
        Some((known.block_us? as f64 / speed) as u64)
    }

    /// How many times the mean this seat does.
    pub(crate) fn measured(&self, key: &Key, seat: SeatId) -> f64 {
        self.known.get(key).and_then(|known| known.seats.get(&seat)).map_or(1.0, |s| s.measured)
    }

    /// A round is over: what each seat did, and with how many slots.
    pub(crate) fn learn(
        &mut self,
        key: Key,
        work: &BTreeMap<SeatId, Work>,
        slots: impl Fn(SeatId) -> Option<u32>,
    ) {
        if work.is_empty() {
            return;
        }
        // Blocks per microsecond, for each slot.
        let rates: BTreeMap<SeatId, (f64, u32)> = work
            .iter()
            .filter(|(_, w)| w.blocks > 0 && w.busy_us >= MEASURED_US_MIN)
            .filter_map(|(&seat, w)| {
                let slots = slots(seat)?;
                // Fewer blocks than slots keep only as many of them busy.
                let busy = w.blocks.min(u64::from(slots));
                Some((seat, (w.blocks as f64 / (w.busy_us * busy) as f64, slots)))
            })
            .collect();
        if rates.is_empty() {
            return;
        }
        self.rounds += 1;
        let slots_sum: f64 = rates.values().map(|(_, slots)| f64::from(*slots)).sum();
        let mean = rates.values().map(|(rate, slots)| rate * f64::from(*slots)).sum::<f64>() / slots_sum;
        let known = self.known.entry(key).or_default();
        (known.used, known.block_us) = (self.rounds, Some((1.0 / mean) as u64));
        for (seat, speed) in known.seats.iter_mut().filter(|(seat, _)| !rates.contains_key(seat)) {
            if work.contains_key(seat) {
                continue; // too little to tell
            }
            speed.measured += FORGIVENESS * (1.0 - speed.measured);
            speed.settle();
        }
        for (&seat, (rate, _)) in &rates {
            let now = (rate / mean).clamp(1.0 / SPEED_MAX, SPEED_MAX);
            let speed = known.seats.entry(seat).or_insert(Speed { measured: 1.0, applied: 1.0 });
            let is_plain = !(1.0 / PLAIN..=PLAIN).contains(&(now / speed.measured));
            speed.measured = if is_plain { now } else { speed.measured + TRUST * (now - speed.measured) };
            speed.settle();
        }
        if self.known.len() > KEYS_MAX {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.used).map(|(key, _)| *key);
            oldest.map(|key| self.known.remove(&key));
        }
    }

    /// A seat is no more, or somebody else may sit there.
    pub(crate) fn forget(&mut self, seat: SeatId) {
        for known in self.known.values_mut() {
            known.seats.remove(&seat);
        }
    }

    /// The speeds that are in use.
    pub(crate) fn all(&self) -> impl Iterator<Item = f64> + '_ {
        self.known.values().flat_map(|known| known.seats.values()).flat_map(|s| [s.measured, s.applied])
    }

    /// For how many data sets speeds are remembered.
    pub(crate) fn is_bounded(&self) -> bool {
        self.known.len() <= KEYS_MAX && self.all().all(|s| (1.0 / SPEED_MAX..=SPEED_MAX).contains(&s))
    }
}

impl Speed {
    fn settle(&mut self) {
        if (self.measured / self.applied - 1.0).abs() > CHANGE_MIN {
            self.applied = self.measured;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(seats: &[(u64, u64)]) -> BTreeMap<SeatId, Work> {
        (0..).zip(seats).map(|(n, &(blocks, busy_us))| (SeatId(n), Work { blocks, busy_us })).collect()
    }

    const KEY: Key = (DataSetId([1; 32]), 0);

    #[test]
    fn a_slow_seat_is_known_after_one_round_and_only_for_its_data() {
        let mut speeds = Speeds::default();
        speeds.learn(KEY, &work(&[(10, 10_000), (1, 10_000), (10, 10_000)]), |_| Some(1));
        let of = |seat| speeds.applied(&KEY, SeatId(seat));
        assert!(of(0) / of(1) > 5.0, "{} and {}", of(0), of(1));
        assert_eq!(speeds.applied(&(DataSetId([2; 32]), 0), SeatId(1)), 1.0);
        let block_us = speeds.block_us(&KEY, SeatId(1));
        assert!(block_us.is_some_and(|us| us.abs_diff(10_000) < 10), "{block_us:?}");
    }

    #[test]
    fn small_changes_move_nothing_and_short_rounds_say_nothing() {
        let mut speeds = Speeds::default();
        for n in 0..20 {
            speeds.learn(KEY, &work(&[(10, 10_000 + n * 30), (10, 10_000)]), |_| Some(1));
            speeds.learn(KEY, &work(&[(10, 10), (10, 900)]), |_| Some(1));
        }
        assert_eq!((speeds.applied(&KEY, SeatId(0)), speeds.applied(&KEY, SeatId(1))), (1.0, 1.0));
    }

    #[test]
    fn who_did_nothing_is_given_another_chance() {
        let mut speeds = Speeds::default();
        speeds.learn(KEY, &work(&[(1_000, 10_000), (1, 10_000)]), |_| Some(1));
        assert!(speeds.applied(&KEY, SeatId(1)) <= 0.05, "{}", speeds.applied(&KEY, SeatId(1)));
        for _ in 0..30 {
            speeds.learn(KEY, &work(&[(10, 10_000)]), |_| Some(1));
        }
        assert!(speeds.applied(&KEY, SeatId(1)) > 0.8 && speeds.is_bounded());
    }

    #[test]
    fn slots_are_not_speed() {
        let mut speeds = Speeds::default();
        speeds.learn(KEY, &work(&[(40, 10_000), (10, 10_000), (2, 10_000)]), |seat| {
            Some([4, 1, 4][seat.0 as usize])
        });
        let of = |seat| speeds.measured(&KEY, SeatId(seat));
        assert!((of(0) - of(1)).abs() < 0.01);
        assert!(of(0) / of(2) > 5.0, "two blocks in four slots");
    }

    #[test]
    fn only_the_last_data_sets_are_remembered() {
        let mut speeds = Speeds::default();
        for n in 0..100 {
            speeds.learn((DataSetId([n; 32]), 0), &work(&[(10, 10_000)]), |_| Some(1));
        }
        assert!(speeds.is_bounded());
    }
}
