//! The reasons for a choice, as text.

use super::{Kind, Known, Team, Tuner, Work};
use std::fmt;

/// What is known of one kind of work, and what follows from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The function.
    pub function: String,
    /// Bytes of its data.
    pub bytes: u64,
    /// Chunks of its data.
    pub chunks: u32,
    /// Rounds so far.
    pub rounds: u64,
    /// What a round takes on one thread, by what was measured.
    pub serial_us: Option<f64>,
    /// Every number of workers that could be chosen, fewest first. The first is the caller's thread.
    pub predicted: Vec<Predicted>,
    /// Slots of the last choice; 0 is the caller's thread.
    pub choice: u32,
    /// Why.
    pub why: String,
    /// Time in rounds that were tried and turned out longer than the best known choice.
    pub lost_us: f64,
    /// Time of all rounds.
    pub spent_us: f64,
}

/// What a round should take with a number of workers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// How many slots; 0 is the caller's thread.
    pub slots: u32,
    /// What it costs beside the computing.
    pub overhead_us: f64,
    /// Computing of the slowest worker.
    pub worker_us: f64,
    /// Sending data that is not there yet.
    pub transfer_us: f64,
    /// How often it was tried.
    pub rounds: u32,
}

impl Predicted {
    /// All of it.
    pub fn total_us(&self) -> f64 {
        self.overhead_us + self.worker_us + self.transfer_us
    }
}

impl Tuner {
    pub(super) fn explained(&self, kind: &Kind, known: &Known) -> Explained {
        let Known { bytes, chunks, rounds, lost_us, spent_us, .. } = *known;
        let work = Work { kind: *kind, name: &known.name, bytes, chunks, can_inline: true };
        let serial_us = known.serial.get();
        let whole_us = serial_us.unwrap_or(0.0);
        let inline = Predicted {
            slots: 0,
            overhead_us: 0.0,
            worker_us: whole_us,
            transfer_us: 0.0,
            rounds: known.inline.visits,
        };
        let with = |team: &Team| {
            let tried = known.tried.get(&team.slots);
            let overhead_us = tried.and_then(|t| t.overhead.get());
            Predicted {
                slots: team.slots,
                overhead_us: overhead_us.unwrap_or_else(|| self.overhead_guess(known, team)),
                worker_us: whole_us
                    * tried.map_or_else(
                        || self.share_guess(known, &work, team),
                        |t| self.share(t, &work, team, whole_us),
                    ),
                transfer_us: self.transfer_us(known, team),
                rounds: tried.map_or(0, |t| t.visits),
            }
        };
        let predicted: Vec<Predicted> = std::iter::once(inline).chain(self.teams.iter().map(with)).collect();
        let choice = known.choice.unwrap_or(0);
        let varies = known.recent.range().map(|(least_us, most_us)| {
            format!(", and one thread took {} to {} lately", time(least_us), time(most_us))
        });
        Explained {
            why: why(&predicted, choice) + &varies.unwrap_or_default(),
            function: known.name.clone(),
            bytes,
            chunks,
            rounds,
            serial_us,
            predicted,
            choice,
            lost_us,
            spent_us,
        }
    }
}

/// A choice against the best of the others.
fn why(predicted: &[Predicted], choice: u32) -> String {
    let total = |p: &Predicted| p.total_us();
    let own = predicted.iter().find(|p| p.slots == choice);
    let others = predicted.iter().filter(|p| p.slots != choice);
    let next = others.min_by(|a, b| total(a).total_cmp(&total(b)));
    let (Some(own), Some(next)) = (own, next) else { return "there is nothing else to choose".into() };
    let (choice, other, us) = (workers(choice), workers(next.slots), time(total(next)));
    match next.rounds {
        _ if total(own) > total(next) && next.rounds > 0 => {
            format!("{choice}, to see what it takes; {other} should take {us}")
        }
        0 if total(own) > total(next) => {
            format!("{choice}, until trying {other}, perhaps {us}, is worth its risk")
        }
        0 => format!("{choice}, since {other}, never tried, would hardly take less than {us}"),
        _ => format!("{choice}, since {other}, the next best, would take {us}"),
    }
}

/// A number of slots in words.
pub(super) fn workers(slots: u32) -> String {
    match slots {
        0 => "inline".into(),
        1 => "1 slot".into(),
        n => format!("{n} slots"),
    }
}

/// Microseconds in words.
pub(super) fn time(us: f64) -> String {
    match us {
        us if us < 10.0 => format!("{us:.1} µs"),
        us if us < 1e3 => format!("{us:.0} µs"),
        us if us < 1e6 => format!("{:.2} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

fn bytes(n: u64) -> String {
    match n {
        0..1_024 => format!("{n} B"),
        1_024..1_048_576 => format!("{:.0} KiB", n as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.0} MiB", n as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", n as f64 / 1_073_741_824.0),
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explained { function, chunks, rounds, .. } = self;
        writeln!(f, "{function} over {} in {chunks} chunks, {rounds} rounds", bytes(self.bytes))?;
        for p in &self.predicted {
            let mark = if p.slots == self.choice { "→" } else { " " };
            let sent = match p.transfer_us {
                us if us > 0.0 => format!(" + {} to send data", time(us)),
                _ => String::new(),
            };
            let how = match p.rounds {
                0 => "not tried".into(),
                1 => "tried once".into(),
                n => format!("{n} rounds"),
            };
            writeln!(
                f,
                "  {mark} {:<9} {:>9} = {} computing + {} overhead{sent}; {how}",
                workers(p.slots),
                time(p.total_us()),
                time(p.worker_us),
                time(p.overhead_us),
            )?;
        }
        write!(f, "    {}; attempts cost {} of {}", self.why, time(self.lost_us), time(self.spent_us))
    }
}
