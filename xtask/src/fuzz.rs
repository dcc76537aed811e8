//! The fuzz targets: that they compile, always; that they find nothing in millions of inputs, with `--full`.
//!
//! The tests of the command run the same targets on ten thousand mutated files each (`crates/cli/tests/mutated.rs`), without
//! a fuzzing library. They live in a workspace of their own under `fuzz/`. Without a sanitizer (`-s none`) cargo-fuzz needs no nightly
//! toolchain: the code under test has next to no `unsafe`, and what is looked for are panics, endless loops and
//! allocations out of proportion to the input.

use crate::step::StepResult;
use crate::workspace::Workspace;

/// The targets, each with the length up to which inputs are tried and with how many: fewer for those that write a file for each
/// input. CONTRIBUTING.md says how many that are.
const TARGETS: &[(&str, u32, u32)] = &[
    ("csv", 1024, 2_000_000),
    ("edges", 1024, 2_000_000),
    ("frames", 4096, 2_000_000),
    ("idx", 512, 2_000_000),
    ("kept", 1024, 600_000),
    ("libsvm", 1024, 2_000_000),
    ("messages", 4096, 2_000_000),
    ("model_file", 1024, 2_000_000),
    ("npy", 1024, 2_000_000),
    ("npz", 2048, 600_000),
    ("order", 1024, 2_000_000),
    ("pack", 4096, 600_000),
    ("pickle_names", 1024, 2_000_000),
    ("picture", 1024, 600_000),
    ("run_file", 4096, 2_000_000),
    ("sound", 512, 600_000),
    ("state", 512, 600_000),
    ("table", 2048, 600_000),
    ("worker_string", 256, 2_000_000),
];

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
        TARGETS.iter().map(|(name, bytes_max, runs)| run_one(workspace, name, *bytes_max, *runs)).collect();
    outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
    let inputs: u32 = TARGETS.iter().map(|(_, _, runs)| runs).sum();
    Ok(format!("{} targets, {inputs} inputs", TARGETS.len()))
}

fn run_one(workspace: &Workspace, name: &str, bytes_max: u32, runs: u32) -> StepResult {
    let run = workspace.cargo("fuzz run -s none").arg(name).env("CARGO_TARGET_DIR", target(workspace));
    let mut options = vec![format!("-runs={runs}"), format!("-max_len={bytes_max}")];
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_inputs_is_what_the_documentation_says() {
        let inputs: u32 = TARGETS.iter().map(|(_, _, runs)| runs).sum();
        assert_eq!(
            inputs / 1_000_000,
            28,
            "CONTRIBUTING.md says `twenty-eight million`: bring both up to date"
        );
        let said = include_str!("../../CONTRIBUTING.md");
        assert!(said.contains("twenty-eight million fuzz inputs"), "CONTRIBUTING.md");
    }
}
