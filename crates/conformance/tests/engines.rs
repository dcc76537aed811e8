//! The promises, on threads and processes of this machine and on mixtures of them; or on the engines that the environment
//! names, as `cargo xtask test --only hosts` does.

use qjam_conformance::support::pids;
use qjam_conformance::{Engine, run};
use std::process::ExitCode;

qjam_conformance::hook!();

/// Worker strings between semicolons, to be used instead of those of this machine.
const NAMED: &str = "QJAM_TEST_ENGINES";

fn main() -> ExitCode {
    match std::env::var(NAMED) {
        Ok(named) => {
            let shapes: Vec<&str> = named.split(';').collect();
            run(&[Engine::new("named", &shapes, |_| first_named())], &[])
        }
        Err(_) => run(&here(), &[]),
    }
}

/// What there is on any machine.
fn here() -> [Engine; 4] {
    let shapes = ["proc:1", "proc:2", "proc:3", "proc:2*2", "proc:8"];
    [
        Engine::new("threads", &["local:1", "local:2", "local:3", "local:8"], |n| format!("local:{n}")),
        Engine::new("processes", &shapes, |n| format!("proc:{n}")).victims(pids),
        Engine::new("mixed", &["proc:2,local:1"], |n| format!("proc:{},local:1", n.max(2) - 1)).victims(pids),
        Engine::new("auto", &["auto:proc:3", "auto:local:2"], |n| format!("auto:proc:{n}")).chooses(),
    ]
}

/// The first of those that were named: how many workers there are is theirs to say.
fn first_named() -> String {
    std::env::var(NAMED).unwrap_or_default().split(';').next().unwrap_or_default().to_owned()
}
