//! A program that cannot be its own worker is told so, instead of starting itself without end.
//!
//! This executable has no worker hook on purpose. Started as an executor it runs its tests like any program would run
//! its `main`, and gets to the same `connect`.

use qjam::job::Cause;
use qjam::{Error, Master};
use std::time::{Duration, Instant};

#[test]
fn a_program_without_the_hook_is_told_what_to_add() {
    let started = Instant::now();
    let error = Master::connect("proc:2").unwrap_err();
    let Error::Start { worker, death } = &error else { panic!("{error}") };
    assert!(worker.starts_with("proc:"), "{worker}");
    // The test harness of the child prints to standard output before it comes to `connect`: that is what was seen.
    assert!(matches!(death.cause, Cause::Exited(70)), "{death}");
    let text = error.to_string();
    assert!(text.contains("#[qjam::main]") && text.contains("worker_hook!"), "{text}");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}
