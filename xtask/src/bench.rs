//! Benchmarks relative to peer programs, measured on the same machine in the same session.
//!
//! A ratio to a known program is meaningful on other machines, unlike a time in microseconds. Our program and the peer alternate, so
//! that a slow minute affects both.

use crate::failure::Failure;
use crate::hosts;
use crate::step::StepResult;
use crate::workspace::Workspace;

/// How often each program runs; the median counts.
const TURNS: usize = 3;

/// An empty round, few and many doubles each way, four workers, compared with broadcast and reduce of MPI: not slower than over TCP;
/// its shared memory, where ranks spin instead of sleeping, is shown beside it.
pub fn rounds(workspace: &Workspace) -> StepResult {
    workspace.cargo("build --release -p qjam-cli").run()?;
    let (qjam, python) = (workspace.release.join("qjam"), workspace.venv_program("python")?);
    let mut notes = Vec::new();
    for (doubles, rounds) in [("8", "2000"), ("1000000", "40")] {
        let size = ["--doubles", doubles, "--rounds", rounds];
        let theirs = |transport: &str| {
            let peer = workspace.program(&python).arg("bench/peer_rounds.py");
            let text = peer.args(["--workers", "4", "--transport", transport]).args(size).tee()?;
            number(&text, "median_us")
        };
        let ours = || {
            let run = workspace.program(&qjam).args(["bench", "rounds", "--json", "--workers", "proc:4"]);
            number(&run.args(size).tee_and_leave_nothing()?, "median_us")
        };
        for (transport, at_least) in [("tcp", 1.0), ("shared-memory", 0.0)] {
            let what = format!("{doubles} doubles beside {transport}");
            notes.push(compare(&what, at_least, ours, || theirs(transport))?);
        }
    }
    Ok(notes.join("; "))
}

/// A round with a Python function, few and many doubles each way, four workers, against the standard library's pool and
/// against Ray; Dask is shown beside them. We are to be twice as fast as the pool with few doubles, and not slower than Ray
/// with many.
pub fn python(workspace: &Workspace) -> StepResult {
    let python = workspace.venv_program("python")?;
    let mut notes = Vec::new();
    for (doubles, rounds, bars) in [("8", "500", [2.0, 0.0, 0.0]), ("1000000", "20", [0.0, 1.0, 0.0])] {
        let run = |kind: &str| {
            let run = workspace.program(&python).args(["bench/python_rounds.py", kind, "--workers", "4"]);
            let run = run.args(["--doubles", doubles, "--rounds", rounds]);
            number(&run.limit_min(10).tee_and_leave_nothing()?, "median_us")
        };
        for (peer, at_least) in ["pool", "ray", "dask"].into_iter().zip(bars) {
            let what = format!("{doubles} doubles beside {peer}");
            notes.push(compare(&what, at_least, || run("qjam"), || run(peer))?);
        }
    }
    Ok(notes.join("; "))
}

/// A short user program must be within a tenth of our own benchmark of rounds.
pub fn user_program(workspace: &Workspace) -> StepResult {
    workspace.cargo("build --release -p qjam-cli").run()?;
    workspace.cargo("build --release -p qjam --example rounds").run()?;
    let (qjam, example) = (workspace.release.join("qjam"), workspace.release.join("examples/rounds"));
    let benchmark = || {
        let run = workspace.program(&qjam).args(["bench", "rounds", "--json", "--workers", "proc:4"]);
        number(&run.args(["--doubles", "8", "--rounds", "5000"]).tee()?, "median_us")
    };
    let program = || {
        let text = workspace.program(&example).args(["proc:4", "8", "5000"]).tee()?;
        let found = text.lines().rev().find_map(|line| line.trim().parse().ok());
        found.ok_or(Failure::Unexpected {
            what: "no time in its output".to_string(),
            expected: "microseconds",
        })
    };
    compare("a program of thirty lines", 0.9, program, benchmark)
}

/// K-means against faiss, scikit-learn and others, on threads and on processes; the program knows the bars.
pub fn kmeans(workspace: &Workspace) -> StepResult {
    beside_peers(workspace, "kmeans")
}

/// Ridge and lasso against CoCoA over MPI, Snap ML and scikit-learn; what a round costs beside computing; and what is chosen
/// while running against what could have been.
pub fn cocoa(workspace: &Workspace) -> StepResult {
    beside_peers(workspace, "cocoa")
}

/// Cost and gradient of the sparse autoencoder, and a training with it, against NumPy and SciPy.
pub fn autoencoder(workspace: &Workspace) -> StepResult {
    beside_peers(workspace, "autoencoder")
}

/// Runs a comparison that has its own bars, keeps its numbers in the target folder, and notes the lines about the bars.
fn beside_peers(workspace: &Workspace, name: &str) -> StepResult {
    workspace.cargo("build --release -p qjam-cli").run()?;
    let program = workspace.program(workspace.venv_program("python")?).arg(format!("bench/{name}.py"));
    let program = program.args(["run", "--qjam"]).arg(workspace.release.join("qjam"));
    let program = program.arg("--json").arg(workspace.target.join("bench").join(name).with_extension("json"));
    Ok(bars(&program.limit_min(60).tee_and_leave_nothing()?))
}

/// Readers against polars and scikit-learn on the same files.
pub fn readers(workspace: &Workspace) -> StepResult {
    workspace.cargo("build --release -p qjam-readers --example read_speed").run()?;
    let program = workspace.program(workspace.venv_program("python")?).arg("bench/readers.py");
    let program = program.arg(workspace.release.join("examples/read_speed"));
    let program = program.arg("--json").arg(workspace.target.join("bench/readers.json"));
    Ok(bars(&program.limit_min(30).tee()?))
}

/// An empty round over eight connections, and the first transfer of data against plain ssh with the same cipher.
pub fn on_hosts(workspace: &Workspace) -> StepResult {
    workspace.cargo("build --release -p qjam-cli").run()?;
    let qjam = workspace.release.join("qjam");
    hosts::with_hosts(workspace, |dir, _| {
        let run = |words: &str| {
            let run =
                workspace.program(&qjam).args(words.split_whitespace()).env("QJAM_SSH", hosts::ssh(dir));
            run.tee_and_leave_nothing()
        };
        let rounds = "bench rounds --json --workers a*1,b*1,c*1,d*1,a*1,b*1,c*1,d*1";
        let times = (0..TURNS).map(|_| number(&run(rounds)?, "median_us")).collect::<Result<_, _>>()?;
        let round_us = median(times);
        let transfer = "bench transfer --json --mib 512 --workers a*1 --beside a";
        let ratios = (0..TURNS).map(|_| number(&run(transfer)?, "of_ssh")).collect::<Result<_, _>>()?;
        let of_ssh = median(ratios);
        let what =
            format!("a round over 8 connections {round_us:.0} us; first transfer {of_ssh:.2} x plain ssh");
        if round_us > 1000.0 {
            return Err(Failure::TooSlow { what, ratio: 1000.0 / round_us, at_least: 1.0 });
        }
        if of_ssh < 0.8 {
            return Err(Failure::TooSlow { what, ratio: of_ssh, at_least: 0.8 });
        }
        Ok(what)
    })
}

/// `auto` against every fixed number of workers, on threads, processes and hosts; the command itself fails where it is too
/// slow.
pub fn auto(workspace: &Workspace) -> StepResult {
    workspace.cargo("build --release -p qjam-cli").run()?;
    let qjam = workspace.release.join("qjam");
    hosts::with_hosts(workspace, |dir, _| {
        for workers in ["local:2", "proc:4", "a*2,b*2"] {
            let run = workspace.program(&qjam).args(["bench", "auto", "--check", "--workers", workers]);
            run.env("QJAM_SSH", hosts::ssh(dir)).tee_and_leave_nothing()?;
        }
        Ok("within 1.25 x of the best fixed choice from 1 KiB to 1 GiB".to_string())
    })
}

/// Measures both alternately; fails unless ours is `at_least` times as fast.
fn compare(
    what: &str,
    at_least: f64,
    ours: impl Fn() -> Result<f64, Failure>,
    theirs: impl Fn() -> Result<f64, Failure>,
) -> StepResult {
    let (mut ours_us, mut theirs_us) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        theirs_us.push(theirs()?);
        ours_us.push(ours()?);
    }
    let (ours_us, theirs_us) = (median(ours_us), median(theirs_us));
    let ratio = theirs_us / ours_us;
    let what = format!("{what}: {ours_us:.0} us, peer {theirs_us:.0} us");
    if ratio < at_least {
        return Err(Failure::TooSlow { what, ratio, at_least });
    }
    Ok(format!("{what}, {ratio:.2} x"))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The number after a key in the last line that has it. The lines are flat JSON written by our own programs.
fn number(text: &str, key: &str) -> Result<f64, Failure> {
    let key = format!("\"{key}\":");
    let found = text.lines().rev().find_map(|line| {
        let (_, rest) = line.split_once(&key)?;
        rest.split([',', '}']).next()?.trim().parse().ok()
    });
    found.ok_or(Failure::Unexpected { what: format!("no {key} in the output"), expected: "a line of JSON" })
}

/// What a comparison says of its bars: `pass    2.10 x, at least 2  what was compared`.
fn bars(text: &str) -> String {
    let met = text.lines().filter_map(|line| line.strip_prefix("pass "));
    met.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_lines_of_json() {
        let text = "warming up\n{\"doubles\": 8, \"median_us\": 91.5, \"p99_us\": 140}\n";
        assert_eq!(number(text, "median_us").unwrap(), 91.5);
        assert_eq!(number(text, "p99_us").unwrap(), 140.0);
        assert!(number(text, "mean_us").is_err());
    }

    #[test]
    fn bars_that_are_met_are_noted() {
        let text = "measuring\npass    2.10 x, at least 2  wide: ours beside theirs\n  password\npass  1.2 x  narrow\n";
        assert_eq!(bars(text), "2.10 x, at least 2 wide: ours beside theirs; 1.2 x narrow");
    }

    #[test]
    fn slower_than_asked_for_is_a_failure() {
        assert!(compare("x", 1.0, || Ok(10.0), || Ok(20.0)).is_ok());
        assert!(matches!(compare("x", 1.0, || Ok(20.0), || Ok(10.0)), Err(Failure::TooSlow { .. })));
    }
}
