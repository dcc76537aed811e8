//! The fuzz targets: that they compile, always; that they find nothing, with `--full`.
//!
//! They live in a workspace of their own under `fuzz/`. Without a sanitizer (`-s none`) cargo-fuzz needs no nightly
//! toolchain: the code under test has next to no `unsafe`, and what is looked for are panics, endless loops and
//! allocations out of proportion to the input.

use crate::step::StepResult;
use crate::workspace::Workspace;

/// The targets, each with the length up to which inputs are tried.
const TARGETS: &[(&str, u32)] = &[
    ("csv", 1024),
    ("frames", 4096),
    ("idx", 512),
    ("libsvm", 1024),
    ("messages", 4096),
    ("model_file", 1024),
    ("npy", 1024),
    ("run_file", 4096),
    ("worker_string", 256),
];

/// Inputs for each target: eighteen million in all.
const RUNS: u32 = 2_000_000;

/// Type-checks, lints and formats the targets.
pub fn check(workspace: &Workspace) -> StepResult {
    workspace.cargo("fmt --manifest-path fuzz/Cargo.toml --check").run()?;
    // Checking does not link, so the C++ part of the fuzzing library need not be built: the variable says that
    // somebody else has it.
    let clippy = workspace.cargo("clippy --manifest-path fuzz/Cargo.toml -- -D warnings");
    let elsewhere = target(workspace).join("libFuzzer.a");
    clippy.env("CARGO_TARGET_DIR", target(workspace)).env("CUSTOM_LIBFUZZER_PATH", elsewhere).run()
}

/// Runs them. A finding in one does not keep the others from looking.
pub fn run(workspace: &Workspace) -> StepResult {
    let outcomes: Vec<StepResult> =
        TARGETS.iter().map(|(name, bytes_max)| run_one(workspace, name, *bytes_max)).collect();
    outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(format!("{} targets, {RUNS} inputs each", TARGETS.len()))
}

fn run_one(workspace: &Workspace, name: &str, bytes_max: u32) -> StepResult {
    let run = workspace.cargo("fuzz run -s none").arg(name).env("CARGO_TARGET_DIR", target(workspace));
    let mut options = vec![format!("-runs={RUNS}"), format!("-max_len={bytes_max}")];
    // An input that takes over ten seconds is a finding.
    options.extend(["-timeout=10", "-verbosity=0", "-print_final_stats=1"].map(String::from));
    let words = format!("fuzz/{name}.dict");
    if workspace.root.join(&words).exists() {
        options.push(format!("-dict={words}"));
    }
    run.arg("--").args(options).limit_min(60).run()
}

fn target(workspace: &Workspace) -> std::path::PathBuf {
    workspace.target.join("fuzz")
}
