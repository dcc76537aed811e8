//! A step is a named thing to do; a run of steps ends with a table.
//!
//! Steps do not stop each other: whoever reads the table after an hour wants to know everything that is wrong, not
//! the first thing. How several run side by side is in [`crate::lanes`].

use crate::failure::Failure;
use crate::lanes;
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

/// Runs all of `steps`, prints the table, and says whether all passed.
pub fn run_all(shop: &Shop, steps: &[&'static Step]) -> bool {
    let began = Instant::now();
    let mut done: Vec<Done> = Vec::new();
    for group in steps.chunk_by(|a, b| a.lane != Lane::Alone && b.lane != Lane::Alone) {
        match group {
            [step] => {
                eprintln!("\n==> {}", step.name);
                done.push(run_here(shop, step));
            }
            group => done.extend(lanes::run(shop, group)),
        }
    }
    print!("\n{}", table(&done, began.elapsed()));
    done.iter().all(|(_, _, outcome)| outcome.is_ok())
}

/// Runs one, in this process.
pub fn run_here(shop: &Shop, step: &Step) -> Done {
    let began = Instant::now();
    let outcome = (step.run)(shop);
    if let Err(failure) = &outcome {
        eprintln!("FAILED {}: {failure}", step.name);
    }
    (step.name, began.elapsed(), outcome)
}

/// The table of what was done, and under it the failures with their reasons.
fn table(done: &[Done], all: Duration) -> String {
    let width = done.iter().map(|(name, ..)| name.len()).max().unwrap_or(0).max("step".len());
    let mut out = format!("{:<width$} {:>9}  result\n", "step", "seconds");
    for (name, took, outcome) in done {
        let result = match outcome {
            Ok(note) if note.is_empty() => "ok".to_string(),
            Ok(note) => format!("ok: {note}"),
            Err(_) => "FAILED".to_string(),
        };
        out += &format!("{name:<width$} {:>9.1}  {result}\n", took.as_secs_f64());
    }
    let failed: Vec<_> =
        done.iter().filter_map(|(name, _, o)| o.as_ref().err().map(|why| (name, why))).collect();
    let verdict = match failed.len() {
        0 => "all passed".to_string(),
        n => format!("{n} of {} FAILED", done.len()),
    };
    out += &format!("{:<width$} {:>9.1}  {verdict}\n", "all", all.as_secs_f64());
    for (name, why) in failed {
        out += &format!("\nFAILED {name}: {why}\n    again: cargo xtask test --only {name}\n");
    }
    out
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

    #[test]
    fn the_table_lists_failures_with_reasons() {
        let missing = Failure::Missing { tool: "spoon".into(), remedy: "bring one".into() };
        let done = [
            ("stir", Duration::from_millis(1500), Err(missing)),
            ("taste", Duration::from_millis(20), Ok("sweet".to_string())),
        ];
        let text = table(&done, Duration::from_secs(2));
        assert_eq!(
            text,
            "step    seconds  result\n\
             stir        1.5  FAILED\n\
             taste       0.0  ok: sweet\n\
             all         2.0  1 of 2 FAILED\n\
             \n\
             FAILED stir: spoon is missing: bring one\n    again: cargo xtask test --only stir\n"
        );
    }
}
