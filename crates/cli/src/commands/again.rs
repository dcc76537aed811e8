//! Running the program of a recorded run again: to go on from it, or to see whether it comes to the same.

use super::runs::{named, short, word};
use crate::args::Again;
use crate::output;
use anyhow::{Context, bail, ensure};
use qjam::runs::{self, Round, Run, State};
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

/// Goes on from a run.
pub(crate) fn resume(args: &Again) -> anyhow::Result<ExitCode> {
    let run = named(&args.run)?;
    match run.state {
        State::Running => bail!("run {} is still going on (process {})", run.id, run.pid),
        State::Finished if !args.anyway => {
            bail!("run {} has finished: there is nothing to go on with; `qjam replay` runs it again", run.id)
        }
        _ => {}
    }
    must_be_the_same(&run, args.anyway)?;
    let mut command = command(&run);
    command.env(runs::RESUME, absolute(&run.path)?);
    if args.anyway {
        command.env(runs::RESUME_ANYWAY, "1");
    }
    output::note(&format!(
        "going on from run {} ({}): {} finished",
        run.id,
        word(&run.state),
        output::count(run.rounds, "round")
    ));
    let status = command.status().with_context(|| format!("cannot run {}", run.program.display()))?;
    Ok(code(status))
}

/// Runs it again and compares.
pub(crate) fn replay(args: &Again) -> anyhow::Result<ExitCode> {
    let run = named(&args.run)?;
    if run.state == State::Running {
        bail!("run {} is still going on (process {})", run.id, run.pid);
    }
    must_be_the_same(&run, args.anyway)?;
    let folder = Scratch::make()?;
    let mut command = command(&run);
    command.env("QJAM_RUNS", &folder.0).env(runs::RECORD_COST, "inf").env_remove(runs::RESUME);
    let status = command.status().with_context(|| format!("cannot run {}", run.program.display()))?;
    if !status.success() {
        output::note(&format!("the program ended with {status}"));
    }
    // A program may have made several masters; the one that is meant has the same number.
    let is_meant = |new: &Run| new.nth == run.nth && new.program == run.program;
    let mut again = runs::list(&folder.0)?.into_iter().filter_map(|path| Run::read(&path).ok());
    let again = again.find(is_meant).context("the program made no such run this time")?;
    let verdict = compare(&Run::rounds(&run.path)?, &Run::rounds(&again.path)?);
    match verdict {
        Verdict::Equal { compared, rounds } => {
            let rest = rounds - compared;
            let more = if rest == 0 { String::new() } else { format!("; of {rest} no hash was recorded") };
            output::line(format!("{} equal: {compared} of {rounds} rounds compared{more}", output::good()));
            ensure!(compared > 0, "no round of run {} could be compared", run.id);
            Ok(ExitCode::SUCCESS)
        }
        Verdict::Differs { round, function, what } => {
            output::line(format!("{} round {round} ({function}) differs: {what}", output::bad()));
            Ok(ExitCode::FAILURE)
        }
    }
}

enum Verdict {
    Equal { compared: usize, rounds: usize },
    Differs { round: u64, function: String, what: String },
}

fn compare(before: &[Round], after: &[Round]) -> Verdict {
    let mut compared = 0;
    let finished = || before.iter().filter(|round| round.report.is_some());
    for old in finished() {
        let differs =
            |what: String| Verdict::Differs { round: old.round, function: old.function.clone(), what };
        let Ok(place) = after.binary_search_by_key(&old.round, |new| new.round) else {
            return differs("there was no such round this time".into());
        };
        let new = &after[place];
        if new.function != old.function {
            return differs(format!("this time it ran {}", new.function));
        }
        if new.data != old.data {
            return differs("this time it ran over other data".into());
        }
        if let (Some(a), Some(b)) = (&old.params, &new.params)
            && a != b
        {
            return differs("its parameters were others, so the program itself differs before it".into());
        }
        if let Some(error) = &new.error {
            return differs(format!("this time it failed: {error}"));
        }
        match (&old.result, &new.result) {
            (Some(a), Some(b)) if a == b => compared += 1,
            (Some(a), Some(b)) => {
                return differs(format!("its value was {}, and now it is {}", &a[..16], &b[..16]));
            }
            (Some(_), None) if new.report.is_none() => return differs("this time it did not finish".into()),
            _ => {}
        }
    }
    Verdict::Equal { compared, rounds: finished().count() }
}

/// The program as it was called.
fn command(run: &Run) -> Command {
    let mut command = Command::new(&run.program);
    command.args(&run.arguments);
    if run.directory.is_dir() {
        command.current_dir(&run.directory);
    }
    command
}

/// Refuses a program that has been changed since.
fn must_be_the_same(run: &Run, anyway: bool) -> anyhow::Result<()> {
    // Of a program that an interpreter runs, the library that computes is what was hashed.
    let (kind, path) = match &run.build {
        Some(build) => ("library", build),
        None => ("executable", &run.program),
    };
    let file = File::open(path).with_context(|| format!("the program {} is gone", path.display()))?;
    let Some(recorded) = &run.executable else { return Ok(()) };
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file).with_context(|| format!("cannot read {}", path.display()))?;
    if !anyway && hasher.finalize().to_hex().as_str() != recorded {
        bail!(
            "{} is not the {kind} that made run {}: its results may be others; --anyway runs it all the same",
            short(path),
            run.id
        );
    }
    Ok(())
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot find {}", path.display()))
}

fn code(status: ExitStatus) -> ExitCode {
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitCode::from(code as u8),
        (None, Some(signal)) => ExitCode::from(128u8.wrapping_add(signal as u8)),
        _ => ExitCode::FAILURE,
    }
}

/// A folder that is gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn make() -> anyhow::Result<Scratch> {
        let path = std::env::temp_dir().join(format!("qjam-replay-{}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
