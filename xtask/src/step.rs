//! Steps: named checks.
//!
//! A failing step does not stop the others, so that the table shows everything that is wrong. `lanes` runs several at the same time;
//! `table` runs all and prints the results.

use crate::failure::Failure;
use crate::workspace::Workspace;
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

/// Which steps run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Alone: it measures, or later steps need it.
    Alone,
    /// The lane of builds for tests, one step after the other.
    Tests,
    /// The lane of builds for users, one step after the other.
    Package,
}

/// The result of a step: its note for the table, or why it failed.
pub type StepResult = Result<String, Failure>;

/// A step.
pub struct Step {
    /// Its name in the table and for `--only`.
    pub name: &'static str,
    /// When it runs.
    pub tier: Tier,
    /// Its lane.
    pub lane: Lane,
    /// Earlier steps of the other lane that must have ended.
    pub after: &'static [&'static str],
    /// Whether it runs with low priority. For builds at the same time as tests, which are sooner over then.
    pub patient: bool,
    /// What it does.
    pub run: fn(&Workspace) -> StepResult,
}

impl Step {
    /// A step that runs alone.
    pub const fn new(name: &'static str, tier: Tier, run: fn(&Workspace) -> StepResult) -> Self {
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

    /// The same step, with low priority.
    pub const fn patient(mut self) -> Self {
        self.patient = true;
        self
    }
}

/// The steps of `lists` in one of `tiers`, in order; with `only`, just the one of that name.
pub fn choose(lists: &[&'static [Step]], tiers: &[Tier], only: Option<&str>) -> Vec<&'static Step> {
    let mut chosen: Vec<&'static Step> = lists.iter().flat_map(|list| list.iter()).collect();
    match only {
        // A step requested by name runs regardless of its tier.
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

/// A finished step: its name, duration and result.
pub type Done = (&'static str, Duration, StepResult);

/// Runs one, in this process.
pub fn run_here(workspace: &Workspace, step: &Step) -> Done {
    let began = Instant::now();
    let outcome = (step.run)(workspace);
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
