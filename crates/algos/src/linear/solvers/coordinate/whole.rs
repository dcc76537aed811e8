//! Whether changes are taken whole.
//!
//! The lowest point of a plane gains the most in a round. But a coordinate that belongs at 0, and whose descent went exactly
//! there, is then left beside it, and so are many that are in one another's way, such as columns that are there twice. Where that is
//! the case, plain rounds come to the end sooner: partitions allow for all others, and their changes are added as they are.
//! Which of the two it is shows in what they gain in a pass, a few passes of one beside a few of the other. Nothing of this
//! depends on time: choices played again lead to the same rounds.
//!
//! Trials come too late for columns that are alike and lie in several partitions, where terms have squares, too. Squares say how
//! such columns share what they explain together. Whoever takes bold steps first takes it all, which is the longest way from
//! sharing, and coordinate by coordinate the way back takes as many passes as squares are weaker than the columns. Partitions that allow for
//! all others share nearly evenly from the beginning. So there the first passes are whole.

/// Passes of the opening.
const OPENING: f64 = 2.0;
/// Passes of a stretch that is compared, at least; and rounds.
const PASSES: f64 = 1.0;
const ROUNDS: usize = 2;
/// Passes until the first trial, and between trials at most.
const WAIT_FIRST: f64 = 3.0;
const WAIT_MOST: f64 = 48.0;
/// A trial that gains so much more wins.
const CLEARLY: f64 = 1.1;

/// Rounds in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    gain: f64,
    passes: f64,
    rounds: usize,
}

impl Stretch {
    fn is_long(&self) -> bool {
        self.passes >= PASSES && self.rounds >= ROUNDS
    }

    fn rate(&self) -> f64 {
        self.gain / self.passes
    }
}

/// Where it is between two trials.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// So many passes of the opening to go.
    Opens(f64),
    /// So many passes to go.
    Waits(f64),
    /// The stretch before a trial, the trial, and the stretch after it.
    Before(Stretch),
    During(f64, Stretch),
    After(f64, f64, Stretch),
}

/// Decides for each round whether its change is taken whole.
#[derive(Clone, Debug)]
pub struct Whole {
    usual: bool,
    stage: Stage,
    wait: f64,
}

impl Whole {
    /// For so many partitions. The changes of a single one are in nobody's way. `opens`: whether the first passes are whole.
    pub fn new(partitions: usize, opens: bool) -> Self {
        let stage = if opens { Stage::Opens(OPENING) } else { Stage::Waits(WAIT_FIRST - PASSES) };
        Whole { usual: partitions == 1, stage, wait: WAIT_FIRST }
    }

    /// Whether the next change is to be taken whole.
    pub fn is_next(&self) -> bool {
        match self.stage {
            Stage::Opens(_) => true,
            Stage::During(..) => !self.usual,
            _ => self.usual,
        }
    }

    /// Learns what a round came to.
    pub fn learn(&mut self, gain: f64, passes: f64) {
        let add =
            |s: Stretch| Stretch { gain: s.gain + gain, passes: s.passes + passes, rounds: s.rounds + 1 };
        self.stage = match self.stage {
            Stage::Opens(left) if left > passes => Stage::Opens(left - passes),
            Stage::Opens(_) => Stage::Waits(WAIT_FIRST - PASSES),
            Stage::Waits(left) if left > passes => Stage::Waits(left - passes),
            Stage::Waits(_) => Stage::Before(Stretch::default()),
            Stage::Before(stretch) => match add(stretch) {
                before if before.is_long() => Stage::During(before.rate(), Stretch::default()),
                before => Stage::Before(before),
            },
            Stage::During(before, stretch) => match add(stretch) {
                trial if trial.is_long() => Stage::After(before, trial.rate(), Stretch::default()),
                trial => Stage::During(before, trial),
            },
            Stage::After(before, trial, stretch) => match add(stretch) {
                after if after.is_long() => self.judge(trial, (before * after.rate()).sqrt()),
                after => Stage::After(before, trial, after),
            },
        };
    }

    fn judge(&mut self, trial: f64, usual: f64) -> Stage {
        if trial > CLEARLY * usual {
            self.usual = !self.usual;
            self.wait = WAIT_FIRST;
        }
        self.wait = (2.0 * self.wait).min(WAIT_MOST);
        Stage::Waits(self.wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left after so many passes, if whole and other rounds leave these shares of it.
    fn left(whole: f64, other: f64, passes: usize) -> f64 {
        let (mut mode, mut left) = (Whole::new(2, false), 1.0);
        for _ in 0..4 * passes {
            let share: f64 = if mode.is_next() { whole } else { other };
            let gain = left * (1.0 - share.powf(0.25));
            left -= gain;
            mode.learn(gain, 0.25);
        }
        left
    }

    #[test]
    fn the_better_way_is_found() {
        let passes = 100;
        for (whole, other) in [(0.7, 0.9), (0.9, 0.7), (0.5, 0.95)] {
            let best = f64::min(whole, other).powi(passes);
            let found = left(whole, other, passes as usize);
            assert!(found.ln() < 0.85 * best.ln(), "{whole} {other}: {found:e} and {best:e}");
        }
    }
}
