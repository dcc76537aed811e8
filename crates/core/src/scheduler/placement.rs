//! Assignment of blocks to workers.
//!
//! Every worker gets one range of neighbouring blocks, in proportion to its slots. Neighbours have two advantages: a worker with whole
//! subtrees sends few roots, and it gets the same blocks in the next round, when it still has their chunks. Therefore a range also ends
//! at a multiple of a power of two if that costs little balance (at most a sixteenth of a share). Seats that were slow with the same
//! data get a smaller range.

use super::round::{Pace, RoundRecord};
use super::team::Team;
use super::{Action, Roster, Scheduler};
use crate::ids::{Block, RoundId, WorkerId};
use crate::journal::What;
use crate::lease::BlockRange;
use crate::time::Time;

impl Scheduler {
    /// Assigns all blocks of a round that no dependable worker has.
    pub(super) fn place(&mut self, now: Time, round: RoundId, out: &mut Vec<Action>) {
        let Some(record) = self.rounds.get_mut(&round) else { return };
        let roster = &mut self.roster;
        let needy = record.needy(|w| roster.is_suspect(w));
        if needy.is_empty() {
            return;
        }
        if record.spec.held.is_some() {
            return self.place_at_home(now, round, needy, out);
        }
        let (key, speeds) = (record.key(), &self.speeds);
        let team = Team::of(roster, record.spec.slots_max);
        let dependable = || roster.up().filter(|(id, _, w)| w.is_dependable() && team.has(*id));
        let slots: u32 = dependable().map(|(_, seat, _)| seat.slots).sum();
        // At most one block per slot: then every worker gets its share, regardless of speed.
        let is_one_each = record.blocks.len() as u32 <= slots;
        let weigh = |id: WorkerId, slots: u32| {
            f64::from(slots) * if is_one_each { 1.0 } else { speeds.applied(&key, id.seat) }
        };
        let loads: Vec<((WorkerId, f64), u32)> =
            dependable().map(|(id, seat, w)| ((id, weigh(id, seat.slots)), w.held())).collect();
        let able: Vec<(WorkerId, f64)> = loads.iter().map(|(worker, _)| *worker).collect();
        if able.is_empty() {
            return;
        }
        let (risky, plain): (Vec<Block>, Vec<Block>) =
            needy.iter().partition(|&&b| record.blocks[b as usize].kills > 0);
        // At the start of a round everybody has the place it had before. What is left over later goes to those who have
        // least, in the same order.
        let few = least_loaded(loads, if record.leased == 0 { able.len() } else { plain.len() });
        let mut runs = few.iter().zip(shares(&plain, &few)).peekable();
        let mut run_of = |worker: WorkerId| runs.next_if(|((of, _), _)| *of == worker).map(|(_, run)| run);
        let mut shares: Vec<Vec<Block>> =
            able.iter().map(|(id, _)| run_of(*id).unwrap_or_default()).collect();
        // A block that has killed goes last, so that its next victim has delivered everything else, and not to the
        // same seat each time, in case it was the seat; nor do all such blocks go to the same. While nothing at all has been delivered it goes first: a
        // function that kills on every block is found out after three deaths, not after two for each block.
        let deaths: usize = record.deaths.values().map(Vec::len).sum();
        for (n, &block) in risky.iter().enumerate() {
            let turn = n + deaths;
            let share = &mut shares[turn % able.len()];
            share.insert(if record.done == 0 { 0 } else { share.len() }, block);
        }
        for ((worker, _), blocks) in able.into_iter().zip(shares) {
            if !blocks.is_empty() {
                grant(roster, record, now, round, worker, &blocks, Why::Needed, out);
            }
        }
    }
}

/// Why a block is assigned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// No dependable worker has it.
    Needed,
    /// Its holder returned it unstarted.
    Stolen,
    /// Its holder is late.
    Backup,
}

#[expect(clippy::too_many_arguments, reason = "pieces of the scheduler, beside each other")]
pub(super) fn grant(
    roster: &mut Roster,
    record: &mut RoundRecord,
    now: Time,
    round: RoundId,
    worker: WorkerId,
    blocks: &[Block],
    why: Why,
    out: &mut Vec<Action>,
) {
    let apart = why == Why::Backup;
    let mut ranges: Vec<BlockRange> = Vec::new();
    let mut again = 0;
    for &block in blocks {
        let state = &mut record.blocks[block as usize];
        let attempt = state.grant(worker);
        again += u32::from(attempt > 1);
        let alone = state.kills > 0;
        match ranges.last_mut() {
            Some(last) if last.blocks().end == block && last.attempt == attempt && !last.alone && !alone => {
                last.len += 1;
            }
            _ => ranges.push(BlockRange { first: block, len: 1, attempt, alone, apart }),
        }
    }
    record.leased += blocks.len() as u32;
    let holder = roster.get_mut(worker).expect("blocks go to living workers");
    if holder.leases.is_empty() {
        // It was idle and owed nobody a word.
        (holder.heard, holder.pinged) = (now, now);
    }
    *holder.leases.entry(round).or_default() += blocks.len() as u32;
    record.paces.entry(worker).or_insert(Pace { since: now, progress: None }).progress = None;
    if again > 0 && why == Why::Needed {
        out.push(Action::Note(What::Retried { round, worker, blocks: again }));
    }
    out.push(Action::Assign { worker, round, ranges });
}

/// So many of these workers, those who have the fewest blocks for what they can do; in the order they were in.
pub(super) fn least_loaded(able: Vec<((WorkerId, f64), u32)>, wanted: usize) -> Vec<(WorkerId, f64)> {
    if wanted >= able.len() {
        return able.into_iter().map(|(worker, _)| worker).collect();
    }
    let load = |n: usize| f64::from(able[n].1) / able[n].0.1.max(1e-3);
    let mut order: Vec<usize> = (0..able.len()).collect();
    order.sort_by(|&a, &b| load(a).total_cmp(&load(b)));
    order.truncate(wanted);
    order.sort_unstable();
    order.into_iter().map(|n| able[n].0).collect()
}

/// Cuts a sorted list of blocks into one run per worker, in proportion to what each is expected to do.
pub(super) fn shares(blocks: &[Block], able: &[(WorkerId, f64)]) -> Vec<Vec<Block>> {
    if able.is_empty() {
        return Vec::new();
    }
    // In thousandths of a slot, so that the last run ends where the blocks do.
    let weight = |w: f64| ((w * 1e3) as u64).max(1);
    let weights: u64 = able.iter().map(|(_, w)| weight(*w)).sum();
    let n = blocks.len() as u64;
    let grain = ((n / able.len() as u64 / 16) + 1).next_power_of_two() >> 1;
    let mut sum = 0;
    let mut from = 0;
    let mut runs = Vec::with_capacity(able.len());
    for (_, w) in able {
        sum += weight(*w);
        let mut to = (n * sum + weights / 2) / weights;
        if grain > 1 && to < n {
            to = ((to + grain / 2) / grain * grain).clamp(from, n);
        }
        runs.push(blocks[from as usize..to as usize].to_vec());
        from = to;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SeatId;

    fn able(slots: &[u32]) -> Vec<(WorkerId, f64)> {
        let worker = |n| WorkerId { seat: SeatId(n), incarnation: 0 };
        (0..).zip(slots).map(|(n, &s)| (worker(n), f64::from(s))).collect()
    }

    #[test]
    fn shares_cover_every_block_once_and_are_even() {
        for n in 0..400u32 {
            for workers in 1..9 {
                let blocks: Vec<Block> = (0..n).collect();
                let runs = shares(&blocks, &able(&vec![1; workers]));
                assert_eq!(runs.concat(), blocks);
                let mean = f64::from(n) / workers as f64;
                for run in &runs {
                    assert!(
                        (run.len() as f64 - mean).abs() <= 1.0 + mean / 16.0,
                        "{n} over {workers}: {}",
                        run.len()
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_left_over_goes_to_those_who_have_least() {
        let loads = [5, 2, 0, 9, 2];
        let able = || able(&[1, 1, 1, 1, 2]).into_iter().zip(loads).collect();
        let seats = |wanted| -> Vec<u32> {
            least_loaded(able(), wanted).iter().map(|(worker, _)| worker.seat.0).collect()
        };
        assert_eq!(seats(1), [2]);
        assert_eq!(seats(3), [1, 2, 4]);
        assert_eq!(seats(9), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn shares_follow_the_slots() {
        let blocks: Vec<Block> = (0..80).collect();
        let lens: Vec<usize> = shares(&blocks, &able(&[1, 4, 3])).iter().map(Vec::len).collect();
        assert_eq!(lens, [10, 40, 30]);
    }
}
