//! How a fit is run, checked when it is made.

use super::tuner::Choice;
use std::time::Duration;
use thiserror::Error;

/// Where the work of a round and σ' come from.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Local {
    /// Chosen while running.
    #[default]
    Tuned,
    /// The same for all rounds.
    Fixed {
        /// Passes over each partition in a round.
        work: f64,
        /// By how much partitions allow for the others: from 1 to their number, which is always safe.
        sigma: f64,
    },
    /// One of them the same for all rounds, the other chosen while running.
    Partly {
        /// Passes over each partition in a round, if they are given.
        work: Option<f64>,
        /// σ', if it is given.
        sigma: Option<f64>,
    },
    /// As an earlier run chose them, to the same bits.
    Replayed(Vec<Choice>),
}

/// What the tuner takes as the cost of a round, where it chooses work and σ'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Tuning {
    /// Counted work: exchanges, entries and coordinates visited, each at a fixed price. The choices, and so the bits of the
    /// result, follow from the data and the parameters; every run makes the same.
    #[default]
    Counted,
    /// Measured time. The choices suit the machine, the network and what else runs there, and differ from run to run. The
    /// measured times are recorded in the run file, so that a run that is resumed or replayed makes the same choices.
    Clock,
}

/// What is done with the partitions' changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Combine {
    /// Added, and then gone as far as pays: the lowest point of a plane, see [`search`](super::search).
    #[default]
    Searched,
    /// Added as they are (CoCoA+). With σ' below the number of partitions a round may make things worse; then it is taken back.
    Added,
    /// Averaged (CoCoA). Safe with σ' = 1.
    Averaged,
}

/// Settings of a fit. A value that exists is valid.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    tolerance: f64,
    target: Option<f64>,
    rounds_max: usize,
    local: Local,
    tuning: Tuning,
    combine: Combine,
    rests: bool,
    seed: u64,
    delay: Duration,
    costs: Option<(Duration, Duration)>,
}

/// What is wrong with a setting.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ParamsError {
    /// Not a tolerance.
    #[error("linear: the tolerance is {value}; give a finite number that is not negative")]
    Tolerance {
        /// What was given.
        value: f64,
    },
    /// No rounds.
    #[error("linear: 0 rounds; give at least 1")]
    NoRounds,
    /// Not an amount of work.
    #[error("linear: a round of {value} passes; give a positive number up to {}", Params::WORK_MAX)]
    Work {
        /// What was given.
        value: f64,
    },
    /// Not a σ'.
    #[error("linear: σ' is {value}; give a number from 1 to the number of partitions")]
    Sigma {
        /// What was given.
        value: f64,
    },
}

impl Default for Params {
    fn default() -> Self {
        Params {
            tolerance: 1e-4,
            target: None,
            rounds_max: 10_000,
            local: Local::Tuned,
            tuning: Tuning::Counted,
            combine: Combine::Searched,
            rests: true,
            seed: 0,
            delay: Duration::ZERO,
            costs: None,
        }
    }
}

impl Local {
    /// What was given of work and σ', for so many partitions. Where changes are not searched along, nothing makes up for a σ'
    /// that is too small: then it is not chosen, but the number of partitions.
    pub fn given(work: Option<f64>, sigma: Option<f64>, combine: Combine, partitions: usize) -> Local {
        match (work, sigma) {
            (None, None) => Local::Tuned,
            (Some(work), Some(sigma)) => Local::Fixed { work, sigma },
            (Some(work), None) if combine != Combine::Searched => {
                Local::Fixed { work, sigma: partitions as f64 }
            }
            (work, sigma) => Local::Partly { work, sigma },
        }
    }
}

impl Params {
    /// Most passes in one round.
    pub const WORK_MAX: f64 = 1e6;

    /// Stop when the duality gap is at most this share of the objective. 0: never by the gap.
    pub fn with_tolerance(self, tolerance: f64) -> Result<Params, ParamsError> {
        match tolerance.is_finite() && tolerance >= 0.0 {
            true => Ok(Params { tolerance, ..self }),
            false => Err(ParamsError::Tolerance { value: tolerance }),
        }
    }

    /// Stop when the objective, in the ½-sum form, is at most this.
    pub fn with_target(self, target: f64) -> Params {
        Params { target: Some(target), ..self }
    }

    /// Most rounds.
    pub fn with_rounds_max(self, rounds_max: usize) -> Result<Params, ParamsError> {
        match rounds_max {
            0 => Err(ParamsError::NoRounds),
            _ => Ok(Params { rounds_max, ..self }),
        }
    }

    /// Where the work of a round and σ' come from.
    pub fn with_local(self, local: Local) -> Result<Params, ParamsError> {
        let settings: Vec<(f64, f64)> = match &local {
            Local::Tuned => vec![],
            Local::Fixed { work, sigma } => vec![(*work, *sigma)],
            Local::Partly { work, sigma } => vec![(work.unwrap_or(1.0), sigma.unwrap_or(1.0))],
            Local::Replayed(choices) => choices.iter().map(|c| (c.work, c.sigma)).collect(),
        };
        for (work, sigma) in settings {
            if !(work > 0.0 && work <= Params::WORK_MAX) {
                return Err(ParamsError::Work { value: work });
            }
            if !(sigma >= 1.0 && sigma.is_finite()) {
                return Err(ParamsError::Sigma { value: sigma });
            }
        }
        Ok(Params { local, ..self })
    }

    /// What is done with the partitions' changes.
    pub fn with_combine(self, combine: Combine) -> Params {
        Params { combine, ..self }
    }

    /// Whether coordinates that hardly move are visited less often.
    pub fn with_rests(self, rests: bool) -> Params {
        Params { rests, ..self }
    }

    /// Seed of the order in which coordinates are visited.
    pub fn with_seed(self, seed: u64) -> Params {
        Params { seed, ..self }
    }

    /// What the tuner takes as the cost of a round.
    pub fn with_tuning(self, tuning: Tuning) -> Params {
        Params { tuning, ..self }
    }

    /// Sleeps so long in every round, as if the exchange took longer: to see what [`Tuning::Clock`] makes of it.
    pub fn with_delay(self, delay: Duration) -> Params {
        Params { delay, ..self }
    }

    /// Tells the tuner what an exchange and a pass over a partition take, instead of what [`Tuning`] says. Its choices then follow
    /// from the data and these, and so do the bits of the result.
    pub fn with_costs(self, exchange: Duration, pass: Duration) -> Params {
        Params { costs: Some((exchange, pass)), ..self }
    }

    /// Has costs counted or measured again.
    pub fn without_costs(self) -> Params {
        Params { costs: None, ..self }
    }

    pub(in crate::linear) fn costs(&self) -> Option<(f64, f64)> {
        self.costs.map(|(exchange, pass)| (exchange.as_secs_f64(), pass.as_secs_f64()))
    }
    pub(in crate::linear) fn tuning(&self) -> Tuning {
        self.tuning
    }
    pub(in crate::linear) fn tolerance(&self) -> f64 {
        self.tolerance
    }
    pub(in crate::linear) fn target(&self) -> Option<f64> {
        self.target
    }
    pub(in crate::linear) fn rounds_max(&self) -> usize {
        self.rounds_max
    }
    pub(in crate::linear) fn local(&self) -> &Local {
        &self.local
    }
    pub(in crate::linear) fn combine(&self) -> Combine {
        self.combine
    }
    pub(in crate::linear) fn rests(&self) -> bool {
        self.rests
    }
    pub(in crate::linear) fn seed(&self) -> u64 {
        self.seed
    }
    pub(in crate::linear) fn delay(&self) -> Duration {
        self.delay
    }
}
