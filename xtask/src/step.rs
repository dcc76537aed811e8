//! A step is a named thing to do.
//!
//! Steps do not stop each other: whoever reads the table after an hour wants to know everything that is wrong, not
//! the first thing. How several run side by side is in `lanes`, the table in `table`.

use crate::failure::Failure;
use crate::shop::Shop;
use std::time::{Duration, Instant};

/// When a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Always.
    Quick,
    /// With `--full`.
    Full,
    /// With `--full`, and by `cargo xtask bench`.
    Bench,
}

/// Beside what a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Beside nothing: it measures, or whatever comes later needs it.
    Alone,
    /// With what is compiled for tests, one step after the other.
    Tests,
    /// With what is compiled for users, one step after the other.
    Package,
}

/// What a step has to say for itself in the table, or why it failed.
pub type Outcome = Result<String, Failure>;

/// One thing to do.
pub struct Step {
    /// How the table and `--only` call it.
    pub name: &'static str,
    /// When it runs.
    pub tier: Tier,
    /// Beside what it runs.
    pub lane: Lane,
    /// Steps before it in the list, of the other lane, that must have ended.
    pub after: &'static [&'static str],
    /// Whether it leaves the processor to whoever wants it. For what compiles beside tests that look at the clock.
    pub patient: bool,
    /// What it does.
    pub run: fn(&Shop) -> Outcome,
}

impl Step {
    /// A step that runs alone.
    pub const fn new(name: &'static str, tier: Tier, run: fn(&Shop) -> Outcome) -> Self {
        Step { name, tier, lane: Lane::Alone, after: &[], patient: false, run }
    }

    /// The same step in a lane.
    pub const fn lane(mut self, lane: Lane) -> Self {
        self.lane = lane;
        self
    }

    /// The same step, once those of the other lane have ended.
    pub const fn after(mut self, names: &'static [&'static str]) -> Self {
        self.after = names;
        self
    }

    /// The same step, but it leaves the processor to others.
    pub const fn patient(mut self) -> Self {
        self.patient = true;
        self
    }
}

/// The steps of `lists` in one of `tiers`, in order; with `only`, just the one of that name.
pub fn choose(lists: &[&'static [Step]], tiers: &[Tier], only: Option<&str>) -> Vec<&'static Step> {
    let mut chosen: Vec<&'static Step> = lists.iter().flat_map(|list| list.iter()).collect();
    match only {
        // A step asked for by name runs whatever its tier.
        Some(name) => chosen.retain(|step| step.name == name),
        None => chosen.retain(|step| tiers.contains(&step.tier)),
    }
    chosen
}

/// All steps and when they run.
pub fn listing(lists: &[&[Step]]) -> String {
    let when = |tier| match tier {
        Tier::Quick => "always",
        Tier::Full => "with --full",
        Tier::Bench => "with --full, and by `bench`",
    };
    lists.iter().flat_map(|list| list.iter()).map(|s| format!("{:<18} {}\n", s.name, when(s.tier))).collect()
}

/// How a step went: its name, how long it took, and what came of it.
pub type Done = (&'static str, Duration, Outcome);

/// Runs one, in this process.
pub fn run_here(shop: &Shop, step: &Step) -> Done {
    let began = Instant::now();
    let outcome = (step.run)(shop);
    if let Err(failure) = &outcome {
        eprintln!("FAILED {}: {failure}", step.name);
    }
    (step.name, began.elapsed(), outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: &[Step] = &[
        Step::new("one", Tier::Quick, |_| Ok(String::new())),
        Step::new("two", Tier::Full, |_| Ok(String::new())),
    ];

    fn names(tiers: &[Tier], only: Option<&str>) -> Vec<&'static str> {
        choose(&[STEPS], tiers, only).iter().map(|step| step.name).collect()
    }

    #[test]
    fn a_tier_chooses_its_steps_and_a_name_chooses_one() {
        assert_eq!(names(&[Tier::Quick], None), ["one"]);
        assert_eq!(names(&[Tier::Quick, Tier::Full], None), ["one", "two"]);
        assert_eq!(names(&[Tier::Quick], Some("two")), ["two"]);
        assert!(names(&[Tier::Quick], Some("three")).is_empty());
    }
}
