//! A program that cannot be its own worker is told so, instead of starting itself without end.
//!
//! This executable has no worker hook on purpose. Started as an executor it would run its tests like any program would
//! run its `main`, and get to the same `connect`.

use qjam::{Error, Master};

#[test]
fn a_program_without_the_hook_is_told_what_to_add() {
    for workers in ["proc:2", "local:1,proc:1"] {
        let error = Master::connect(workers).unwrap_err();
        assert!(matches!(error, Error::NotHooked), "{error}");
        let text = error.to_string();
        assert!(text.contains("#[qjam::main]") && text.contains("worker_hook!"), "{text}");
    }
    assert!(Master::connect("local:1").is_ok(), "threads need no hook");
}
