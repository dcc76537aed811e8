//! Runs steps and prints the table of their results.

use crate::lanes;
use crate::step::{Done, Lane, Step, run_here};
use crate::workspace::Workspace;
use std::time::{Duration, Instant};

/// Runs all of `steps`, prints the table, and returns whether all passed.
pub fn run_all(workspace: &Workspace, steps: &[&'static Step]) -> bool {
    let began = Instant::now();
    let mut done: Vec<Done> = Vec::new();
    for group in steps.chunk_by(|a, b| a.lane != Lane::Alone && b.lane != Lane::Alone) {
        match group {
            [step] => {
                eprintln!("\n==> {}", step.name);
                done.push(run_here(workspace, step));
            }
            group => done.extend(lanes::run(workspace, group)),
        }
    }
    print!("\n{}", table(&done, began.elapsed()));
    done.iter().all(|(_, _, outcome)| outcome.is_ok())
}

/// The table of results, followed by the failures with their reasons.
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
    use crate::failure::Failure;

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
