//! The engine for ranks, under a real `mpirun`: conformance, ends, and two hosts.

use crate::failure::{AboutFile, Failure};
use crate::run::Run;
use crate::shop::Shop;
use crate::step::Outcome;
use crate::{setup, suite};
use std::path::PathBuf;

/// What is built and checked here and nowhere else: it needs an MPI library.
const CRATE: &str = "-p qjam-mpi";
/// So many ranks are started for conformance.
const RANKS: [u32; 3] = [1, 2, 4];
/// Promises of the shared files that are about other engines by name, or (with one rank) about values that travel.
const SKIPPED: &[&str] = &[
    "rounds_under_way_do_not_suffer",
    "rounds_with_long_parameters",
    "a_cut_that_was_made_twice",
    "masters_come_and_go",
];

/// Builds with MPI and runs everything that needs ranks. That nobody is left is part of passing.
pub fn test(shop: &Shop) -> Outcome {
    setup::mpi(shop)?;
    shop.cargo(&format!("clippy {CRATE} --all-targets -- -D warnings")).run()?;
    shop.cargo(&format!("doc {CRATE} --no-deps")).env("RUSTDOCFLAGS", "-D warnings").run()?;
    shop.cargo("build -p qjam-cli --features mpi").limit_min(20).run()?;
    let mut said = String::new();
    for ranks in RANKS {
        let launcher = format!("mpirun --oversubscribe -n {ranks}");
        let words = format!("test {CRATE} --test conformance -- --test-threads=1");
        let mut cargo = launched(shop.cargo(&words)).env(&runner(), launcher);
        for name in SKIPPED {
            cargo = cargo.args(["--skip", name]);
        }
        if ranks == 1 {
            cargo = cargo.args(["--skip", "user_code_that_panics_while_encoding"]);
        }
        said += &cargo.limit_min(10).tee_and_leave_nothing()?;
    }
    let ends =
        launched(shop.cargo(&format!("test {CRATE} --test ends"))).env("QJAM_TEST_COMMAND", command(shop));
    said += &ends.limit_min(10).tee_and_leave_nothing()?;
    let learners = launched(shop.cargo("test -p qjam-cli --features mpi --test ranks"));
    said += &learners.limit_min(10).tee_and_leave_nothing()?;
    let hosts = two_hosts(shop)?;
    Ok(format!("{}; {hosts}", suite::summary(&said)))
}

/// Cargo's name for what starts test executables.
fn runner() -> String {
    let target = format!("{}_unknown_linux_gnu", std::env::consts::ARCH);
    format!("CARGO_TARGET_{}_RUNNER", target.to_uppercase())
}

/// What Open MPI wants to be told before root may use it, and where there are fewer cores than ranks.
fn launched(run: Run) -> Run {
    run.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
}

fn command(shop: &Shop) -> PathBuf {
    shop.target.join("debug/qjam")
}

/// The shell script that makes two hosts of network namespaces, with an sshd each.
const SCRIPT: &str = include_str!("mpi_hosts.sh");

/// Ranks on two hosts, started over ssh: the same rounds as on this one.
fn two_hosts(shop: &Shop) -> Outcome {
    setup::ssh_server(shop)?;
    let folder = shop.empty_folder("mpi-hosts")?;
    let script = folder.join("hosts.sh");
    std::fs::write(&script, SCRIPT).about(&script)?;
    let root = setup::sudo(shop).ok_or_else(|| Failure::Missing {
        tool: "root, or a sudo that asks for no password".into(),
        remedy: "network namespaces are made by root".into(),
    })?;
    let words: Vec<&str> = root.iter().copied().chain(["sh"]).collect();
    let run = launched(shop.program(words[0]).args(&words[1..])).arg(&script).arg(&folder);
    let run = run.arg(shop.target.join("debug/examples/two_hosts"));
    let said = run.limit_s(60).tee_and_leave_nothing()?;
    match said.lines().find(|line| line.starts_with("two hosts:")) {
        Some(line) => Ok(line.to_owned()),
        None => Err(Failure::Unexpected { what: said, expected: "a line that begins with `two hosts:`" }),
    }
}
