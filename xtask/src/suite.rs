//! Runs the unit, integration and documentation tests of the workspace.

use crate::failure::Failure;
use crate::step::StepResult;
use crate::workspace::Workspace;

/// Tells tests which Python has what their references need. Tests that need it fail without it.
const PYTHON: &str = "QJAM_TEST_PYTHON";

/// All tests. That none leaves a process behind is part of passing.
///
/// Integration tests mostly wait, for processes to start and to die; the others compute. So once everything is compiled the
/// two kinds run side by side, and their lines are mixed.
pub fn run(workspace: &Workspace) -> StepResult {
    let python = python(workspace)?;
    let cargo = |words: &str| {
        let cargo = workspace.cargo(&format!("test --workspace --no-fail-fast {words}"));
        cargo.env(PYTHON, &python).limit_min(20)
    };
    // Named one by one, since plain `cargo test` also builds what has no tests: examples, which lints have seen already,
    // and the native module.
    cargo("--lib --bins --tests --no-run").run()?;
    let outcomes = std::thread::scope(|scope| {
        let computing = scope.spawn(|| {
            let outcomes = ["--lib --bins", "--doc"].map(|kind| cargo(kind).tee_and_leave_nothing());
            outcomes.into_iter().collect::<Result<String, _>>()
        });
        // All but `hosts` and those that need an MPI library, which are steps of their own.
        let waiting = cargo("--exclude qjam-mpi --test [!h]*").tee_and_leave_nothing();
        let computing = computing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        [waiting, computing]
    });
    // Whoever reads the failures wants all of them.
    Ok(summary(&outcomes.into_iter().collect::<Result<String, _>>()?))
}

/// The tests that are marked as ignored because they take minutes: two hundred runs of chaos, twenty schedules of kills on
/// every engine. Not those in documentation: there the mark means
/// that the code is no program.
pub fn long(workspace: &Workspace) -> StepResult {
    let words = "test --workspace --release --tests --no-fail-fast -- --ignored --nocapture --test-threads=1";
    let text =
        workspace.cargo(words).env(PYTHON, python(workspace)?).limit_min(60).tee_and_leave_nothing()?;
    Ok(summary(&text))
}

fn python(workspace: &Workspace) -> Result<std::path::PathBuf, Failure> {
    workspace.venv_program("python")
}

/// Adds up the lines in which each test executable says how many passed.
pub fn summary(text: &str) -> String {
    let results = || text.lines().filter(|line| line.starts_with("test result:"));
    let count = |what: &str| -> u64 {
        let numbers = results().filter_map(|line| line.split(what).next()?.split_whitespace().last());
        numbers.filter_map(|number| number.parse::<u64>().ok()).sum()
    };
    let said = |n: u64, what: &str| if n == 0 { String::new() } else { format!(", {n} {what}") };
    let rest =
        said(count(" ignored"), "IGNORED") + &said(count(" not promised"), "not promised by an engine");
    format!("{} passed in {} executables{rest}", count(" passed"), results().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_all_executables_are_added_up() {
        let text = "running 2 tests\n\
            test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
            test result: ok. 40 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        assert_eq!(summary(text), "42 passed in 2 executables, 1 IGNORED");
        let text = "test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; 3 not promised; finished";
        assert_eq!(summary(text), "5 passed in 1 executables, 3 not promised by an engine");
    }
}
