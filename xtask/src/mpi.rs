//! The engine for ranks, under a real `mpirun`: conformance, ends, and two hosts.

use crate::failure::{AboutFile, Failure};
use crate::run::Run;
use crate::shop::Shop;
use crate::step::Outcome;
use crate::{setup, suite};

/// What needs an MPI library. Asked for in the whole workspace, as by other steps: then crates have the same features,
/// and none is compiled again.
const FEATURES: &str = "--workspace --features qjam-mpi/mpi,qjam-cli/mpi";
/// What has documentation with code for ranks, and who has the other crates built as they are elsewhere.
const DOCUMENTED: &str = "-p qjam-mpi -p qjam-cli --features qjam-mpi/mpi,qjam-cli/mpi";
/// So many ranks are started for conformance.
const RANKS: [u32; 3] = [1, 2, 4];

/// Builds with MPI and runs everything that needs ranks. That nobody is left is part of passing.
pub fn test(shop: &Shop) -> Outcome {
    setup::mpi(shop)?;
    shop.cargo(&format!("clippy {FEATURES} --all-targets -- -D warnings")).run()?;
    shop.cargo(&format!("build {FEATURES} --bin qjam --example two_hosts")).limit_min(20).run()?;
    let mut said = String::new();
    for ranks in RANKS {
        let words = format!("test {FEATURES} --test promises -- --test-threads=1");
        let cargo = launched(shop.cargo(&words)).env(&runner(), format!("mpirun --oversubscribe -n {ranks}"));
        said += &cargo.limit_min(10).tee_and_leave_nothing()?;
    }
    let ends = launched(shop.cargo(&format!("test {FEATURES} --no-fail-fast --test ends --test ranks")));
    let ends = ends.env("QJAM_TEST_COMMAND", shop.target.join("debug/qjam"));
    said += &ends.limit_min(10).tee_and_leave_nothing()?;
    said += &shop.cargo(&format!("test {DOCUMENTED} --doc")).tee()?;
    Ok(format!("{}; {}", suite::summary(&said), two_hosts(shop)?))
}

/// Cargo's name for what starts test executables.
fn runner() -> String {
    format!("CARGO_TARGET_{}_UNKNOWN_LINUX_GNU_RUNNER", std::env::consts::ARCH.to_uppercase())
}

/// What Open MPI wants to be told before root may use it.
fn launched(run: Run) -> Run {
    run.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
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
        tool: "sudo that asks for no password".into(),
        remedy: "run this as root: hosts are made of network namespaces".into(),
    })?;
    let words: Vec<&str> = root.iter().copied().chain(["env", "OMPI_ALLOW_RUN_AS_ROOT=1"]).collect();
    let run = shop.program(words[0]).args(&words[1..]).arg("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1").arg("sh");
    let run = run.arg(&script).arg(&folder).arg(shop.target.join("debug/examples/two_hosts"));
    let said = run.limit_s(120).tee_and_leave_nothing()?;
    match said.lines().find(|line| line.starts_with("two hosts:")) {
        Some(line) => Ok(line.to_owned()),
        None => Err(Failure::Unexpected { what: said, expected: "a line that begins with `two hosts:`" }),
    }
}
