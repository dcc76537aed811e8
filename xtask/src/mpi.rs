//! Tests the engine for MPI ranks under a real `mpirun`: conformance, deaths of ranks, and two hosts.

use crate::failure::{AboutFile, Failure};
use crate::run::Run;
use crate::step::StepResult;
use crate::workspace::Workspace;
use crate::{setup, suite};

/// What needs an MPI library. Asked for in the whole workspace, as by other steps: then crates have the same features,
/// and none is compiled again.
const FEATURES: &str = "--workspace --features qjam-mpi/mpi,qjam-cli/mpi";
/// What has documentation with code for ranks, and who has the other crates built as they are elsewhere.
const DOCUMENTED: &str = "-p qjam-mpi -p qjam-cli --features qjam-mpi/mpi,qjam-cli/mpi";
/// So many ranks are started for conformance.
const RANKS: [u32; 3] = [1, 2, 4];

/// Builds with MPI and runs everything that needs ranks. That nobody is left is part of passing.
pub fn test(workspace: &Workspace) -> StepResult {
    setup::mpi(workspace)?;
    workspace.cargo(&format!("clippy {FEATURES} --all-targets -- -D warnings")).run()?;
    workspace.cargo(&format!("build {FEATURES} --bin qjam --example two_hosts")).limit_min(20).run()?;
    let mut said = String::new();
    for ranks in RANKS {
        let words = format!("test {FEATURES} --test promises -- --test-threads=1");
        let cargo =
            launched(workspace.cargo(&words)).env(&runner(), format!("mpirun --oversubscribe -n {ranks}"));
        said += &cargo.limit_min(10).tee_and_leave_nothing()?;
    }
    let ends = launched(workspace.cargo(&format!("test {FEATURES} --no-fail-fast --test ends --test ranks")));
    let ends = ends.env("QJAM_TEST_COMMAND", workspace.target.join("debug/qjam"));
    said += &ends.limit_min(10).tee_and_leave_nothing()?;
    said += &workspace.cargo(&format!("test {DOCUMENTED} --doc")).tee()?;
    Ok(format!("{}; {}", suite::summary(&said), two_hosts(workspace)?))
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
fn two_hosts(workspace: &Workspace) -> StepResult {
    setup::ssh_server(workspace)?;
    let folder = workspace.empty_folder("mpi-hosts")?;
    let script = folder.join("hosts.sh");
    std::fs::write(&script, SCRIPT).about(&script)?;
    let root = setup::sudo(workspace).ok_or_else(|| Failure::Missing {
        tool: "sudo that asks for no password".into(),
        remedy: "run this as root: hosts are made of network namespaces".into(),
    })?;
    let words: Vec<&str> = root.iter().copied().chain(["env", "OMPI_ALLOW_RUN_AS_ROOT=1"]).collect();
    let run = workspace.program(words[0]).args(&words[1..]).arg("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1").arg("sh");
    let run = run.arg(&script).arg(&folder).arg(workspace.target.join("debug/examples/two_hosts"));
    let said = run.limit_s(120).tee_and_leave_nothing()?;
    match said.lines().find(|line| line.starts_with("two hosts:")) {
        Some(line) => Ok(line.to_owned()),
        None => Err(Failure::Unexpected { what: said, expected: "a line that begins with `two hosts:`" }),
    }
}
