//! Optimistic estimates for choices that were not measured, and when to try them.

use super::{
    BYTES_PER_US, Estimate, Handover, Known, LOOK_SHARE, LOST_SHARE, SEND_TIMES, TRY_BELOW, Team, Tuner, Work,
};

impl Tuner {
    /// What a round might take, seen favourably.
    pub(super) fn guess(&self, known: &Known, work: &Work<'_>, team: &Team, serial_us: f64) -> f64 {
        self.overhead_guess(known, team) + self.share_guess(known, work, team) * serial_us
    }

    pub(super) fn overhead_guess(&self, known: &Known, team: &Team) -> f64 {
        // As those of other sizes turned out for this work, or this one for other work.
        let nearest = known.tried.iter().filter(|(_, t)| !t.is_cold()).filter_map(|(slots, t)| {
            let other = self.teams.iter().find(|team| team.slots == *slots)?;
            let us = t.overhead.get()? * team.overhead_us() / other.overhead_us();
            Some((slots.abs_diff(team.slots), if other.distance == team.distance { us } else { return None }))
        });
        let nearest = nearest.min_by_key(|(distance, _)| *distance).map(|(_, us)| us);
        let usual = || self.overheads.get(&team.slots).and_then(Estimate::get);
        nearest.or_else(usual).unwrap_or(team.overhead_us())
    }

    pub(super) fn share_guess(&self, known: &Known, work: &Work<'_>, team: &Team) -> f64 {
        let perfect = |team: &Team| team.perfect_share(work);
        let tried = |team: &&Team| {
            let tried = known.tried.get(&team.slots).filter(|t| !t.is_cold());
            tried.map(|t| (t.share, **team))
        };
        let mut smaller = self.teams.iter().filter(|t| t.slots < team.slots).rev();
        match (smaller.next().as_ref().and_then(tried), smaller.next().as_ref().and_then(tried)) {
            // Where twice as many were no faster, four times as many are not either.
            (Some((near, _)), Some((far, _))) if near > 0.9 * far => near,
            // Cores that others use, too: whoever brings more workers gets more of them.
            (Some((share, near)), _) if share > 1.1 * perfect(&near) => {
                let least = 1.0 / f64::from(team.slots.min(work.chunks));
                least.max(share * f64::from(near.slots) / f64::from(team.slots))
            }
            _ => perfect(team),
        }
    }

    /// What sending the data takes that a team has not got.
    pub(super) fn transfer_us(&self, known: &Known, team: &Team) -> f64 {
        let is_far = |slots: &u32| self.teams.iter().any(|t| t.slots == *slots && t.far_share > 0.0);
        let there = match known.tried.keys().filter(|slots| is_far(slots)).count() {
            0 => 0.0,
            // Another number of workers: about half of it lies with the wrong ones.
            _ if !known.tried.contains_key(&team.slots) => 0.5,
            _ => 1.0,
        };
        let bytes = known.bytes as f64 * team.far_share * (1.0 - there);
        bytes / self.bytes_per_us.get().unwrap_or(BYTES_PER_US)
    }

    /// A number of workers that is worth trying, or trying again.
    pub(super) fn trial(&self, known: &Known, work: &Work<'_>, serial_us: f64, best_us: f64) -> Option<u32> {
        let may_risk = known.lost_us <= LOST_SHARE * known.spent_us;
        let past = known.rounds as f64 + 1.0;
        let mut trials: Vec<(f64, u32)> = Vec::new();
        for team in &self.teams {
            let tried = known.tried.get(&team.slots);
            let overhead_us = self.overhead_guess(known, team);
            let share = self.share_guess(known, work, team);
            // What may be gained each time, and what it may cost this time.
            let (hope_us, risk_us) = match tried {
                None if may_risk => {
                    let transfer_us = self.transfer_us(known, team);
                    let fear_us = 2.0 * overhead_us + serial_us + SEND_TIMES * transfer_us;
                    (overhead_us + share * serial_us, fear_us - best_us)
                }
                // What was spent to get it going is spent; the second time shows what it is worth.
                Some(t) if t.is_cold() => {
                    let hope_us =
                        overhead_us.min(t.overhead.get()?) + self.share(t, work, team, serial_us) * serial_us;
                    (hope_us, overhead_us)
                }
                Some(t) if may_risk && known.rounds >= t.again_at => {
                    let known_us = t.overhead.get()? + self.share(t, work, team, serial_us) * serial_us;
                    (0.7 * known_us, known_us - best_us)
                }
                _ => continue,
            };
            let pays = hope_us < TRY_BELOW * best_us && (best_us - hope_us) * past >= risk_us;
            // The next larger team here may get more of cores that others use, too. To see that costs little.
            let may_look =
                known.lost_us + overhead_us <= LOOK_SHARE * known.spent_us && hope_us < 1.1 * best_us;
            if pays || tried.is_none() && may_look && self.is_next(known, team) {
                trials.push((hope_us, team.slots));
            }
        }
        let inline = &known.inline;
        let is_due = known.rounds >= inline.again_at && known.choice != Some(0);
        if work.can_inline && is_due && may_risk && 0.7 * serial_us < TRY_BELOW * best_us {
            trials.push((0.7 * serial_us, 0));
        }
        trials.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, slots)| slots)
    }

    /// Whether a team is the one after that which is chosen, and needs nothing sent.
    pub(super) fn is_next(&self, known: &Known, team: &Team) -> bool {
        let mut chosen = self.teams.iter().skip_while(|t| known.choice != Some(t.slots));
        chosen.next().is_some() && chosen.next() == Some(team) && team.far_share == 0.0
    }

    /// To whom the caller's thread may hand over.
    pub(super) fn handovers(&self, known: &Known, work: &Work<'_>, serial_us: Option<f64>) -> Vec<Handover> {
        let may = serial_us.is_none() || known.lost_us <= LOST_SHARE * known.spent_us;
        let handover = |team: &Team| {
            let tried = known.tried.get(&team.slots).filter(|t| !t.is_cold());
            let overhead_us = tried.and_then(|t| t.overhead.get());
            let fixed_us = overhead_us.unwrap_or_else(|| self.overhead_guess(known, team));
            let share = tried.map_or_else(|| self.share_guess(known, work, team), |t| t.share);
            let risk_us = match tried {
                Some(_) => 0.0,
                None => fixed_us + SEND_TIMES * self.transfer_us(known, team),
            };
            let is_open = may || known.tried.contains_key(&team.slots);
            let hoped_share = share.min(team.perfect_share(work));
            Handover { slots: team.slots, fixed_us, share, hoped_share, risk_us, is_open }
        };
        self.teams.iter().map(handover).collect()
    }
}
