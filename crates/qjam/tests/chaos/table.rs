//! Where the blows fell.

use crate::attack::{Aim, MasterAt};
use crate::run::RunResult;
use qjam::job::Activity;
use std::collections::BTreeMap;
use std::fmt;

const STATES: [Activity; 5] =
    [Activity::Starting, Activity::Receiving, Activity::Mapping, Activity::Sending, Activity::Idle];

/// Counts over many runs.
#[derive(Debug, Default)]
pub(crate) struct Table {
    runs: u64,
    /// Deaths of executors by state and cause.
    deaths: BTreeMap<(Activity, &'static str), u64>,
    /// Deaths of the master, by what it was at.
    masters: BTreeMap<MasterAt, u64>,
    /// How runs ended.
    ends: BTreeMap<String, u64>,
    slowest_ms: u64,
}

impl Table {
    pub(crate) fn of(outcomes: impl Iterator<Item = RunResult>) -> Self {
        let mut table = Table::default();
        for outcome in outcomes {
            table.runs += 1;
            for death in outcome.deaths {
                *table.deaths.entry(death).or_default() += 1;
            }
            if let Some(at) = outcome.master_killed_at {
                *table.masters.entry(at).or_default() += 1;
            }
            *table.ends.entry(outcome.end).or_default() += 1;
            table.slowest_ms = table.slowest_ms.max(outcome.took.as_millis() as u64);
        }
        table
    }

    pub(crate) fn add_all(&mut self, other: Table) {
        self.runs += other.runs;
        self.slowest_ms = self.slowest_ms.max(other.slowest_ms);
        other.deaths.into_iter().for_each(|(k, n)| *self.deaths.entry(k).or_default() += n);
        other.masters.into_iter().for_each(|(k, n)| *self.masters.entry(k).or_default() += n);
        other.ends.into_iter().for_each(|(k, n)| *self.ends.entry(k).or_default() += n);
    }

    fn count(&self, state: Activity, cause: &'static str) -> u64 {
        self.deaths.get(&(state, cause)).copied().unwrap_or(0)
    }

    /// A state in which fewer than this many were killed.
    pub(crate) fn least_hit(&self, least: u64) -> Option<Aim> {
        let executors = STATES.into_iter().find(|s| self.count(*s, "killed") < least).map(Aim::At);
        let masters = [MasterAt::Starting, MasterAt::Round, MasterAt::Rest].into_iter();
        let masters = masters.map(|at| (at, self.masters.get(&at).copied().unwrap_or(0)));
        executors.or_else(|| masters.into_iter().find(|(_, n)| *n < least).map(|(at, _)| Aim::Master(at)))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} runs, the slowest {:.1} s", self.runs, self.slowest_ms as f64 / 1e3)?;
        writeln!(f, "  executors          killed   lost while stopped")?;
        for state in STATES {
            let (killed, stopped) = (self.count(state, "killed"), self.count(state, "stopped"));
            writeln!(f, "  {:<14} {killed:>10} {stopped:>20}", format!("{state:?}"))?;
        }
        writeln!(f, "  masters killed: {:?}", self.masters)?;
        write!(f, "  ends: {:?}", self.ends)
    }
}
