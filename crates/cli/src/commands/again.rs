//! Running the program of a recorded run again: to go on from it, or to see whether it comes to the same.

use super::reading::quoted;
use super::runs::{named, short, word};
use crate::args::Again;
use crate::output;
use anyhow::{Context, bail, ensure};
use qjam::runs::{self, Round, Run, State};
use std::ffi::{OsStr, OsString};
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
    must_be_the_same(&run, args)?;
    let mut command = command(&run)?;
    command.env(runs::RESUME, absolute(&run.path)?).env_remove(runs::REPLAY);
    consent(&mut command, args);
    output::note(&format!(
        "going on from run {} ({}): {} finished",
        run.id,
        word(&run.state),
        output::count(run.rounds, "round")
    ));
    let before: Vec<PathBuf> = if args.json { listed() } else { Vec::new() };
    let status = started(&mut command, args.json, &run)?;
    if args.json {
        // What the program left: runs that went on from this one, oldest first.
        let new = listed().into_iter().filter(|path| !before.contains(path));
        let new =
            new.filter_map(|path| Run::read(&path).ok()).filter(|new| new.resumed.as_ref() == Some(&run.id));
        for new in new {
            output::json(&serde_json::json!({
                "event": "resumed", "run": new.id, "from": run.id, "state": word(&new.state),
                "rounds": new.rounds, "recalled": new.recalled, "failed": new.failed, "seconds": new.lasted_us as f64 / 1e6,
            }))?;
        }
        output::json(
            &serde_json::json!({ "event": "ended", "from": run.id, "exit": status.code(), "signal": status.signal() }),
        )?;
    }
    Ok(code(status))
}

/// Runs a program to its end. Where standard output is for JSON, what it prints goes to standard error.
fn started(command: &mut Command, json: bool, run: &Run) -> anyhow::Result<ExitStatus> {
    if json {
        command.stdout(std::io::stderr());
    }
    command.status().with_context(|| format!("cannot run {}", run.program.display()))
}

/// All run files that there are.
fn listed() -> Vec<PathBuf> {
    runs::folder().and_then(|folder| runs::list(&folder).ok()).unwrap_or_default()
}

/// Runs it again and compares.
pub(crate) fn replay(args: &Again) -> anyhow::Result<ExitCode> {
    let run = named(&args.run)?;
    if run.state == State::Running {
        bail!("run {} is still going on (process {})", run.id, run.pid);
    }
    must_be_the_same(&run, args)?;
    let folder = Scratch::make()?;
    let mut command = command(&run)?;
    command.env("QJAM_RUNS", &folder.0).env(runs::RECORD_COST, "inf").env_remove(runs::RESUME);
    // What the program measured, it is told again: it decides the same, and all rounds are computed.
    command.env(runs::REPLAY, absolute(&run.path)?);
    consent(&mut command, args);
    let status = started(&mut command, args.json, &run)?;
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
            if args.json {
                output::json(
                    &serde_json::json!({ "run": run.id, "equal": compared > 0, "compared": compared, "rounds": rounds }),
                )?;
                return Ok(if compared > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
            }
            let rest = rounds - compared;
            let more = if rest == 0 { String::new() } else { format!("; of {rest} no hash was recorded") };
            output::line(format!("{} equal: {compared} of {rounds} rounds compared{more}", output::good()));
            ensure!(compared > 0, "no round of run {} could be compared", run.id);
            Ok(ExitCode::SUCCESS)
        }
        Verdict::Differs { round, function, what } if args.json => {
            output::json(&serde_json::json!({
                "run": run.id, "equal": false, "round": round, "function": function, "why": what,
            }))?;
            Ok(ExitCode::FAILURE)
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

/// Tells the program what the user has agreed to.
fn consent(command: &mut Command, args: &Again) {
    if args.trust {
        command.env(runs::RESUME_TRUST, "1");
    }
    if args.anyway {
        command.env(runs::RESUME_ANYWAY, "1");
    }
}

/// The program as it was called.
fn command(run: &Run) -> anyhow::Result<Command> {
    if run.arguments.iter().any(|argument| argument.to_string_lossy().contains(runs::MASK)) {
        bail!(
            "the command line of run {} had a secret, which is not recorded; start the program yourself, with {}={} to go on \
             from this run: {}",
            run.id,
            runs::RESUME,
            run.id,
            shown(run)
        );
    }
    let mut command = Command::new(&run.program);
    command.args(&run.arguments);
    if run.directory.is_dir() {
        command.current_dir(&run.directory);
    }
    Ok(command)
}

/// The command line of a run, for a shell and for a terminal: nothing in it moves the cursor.
fn shown(run: &Run) -> String {
    let plain = |text: &OsStr| {
        let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
        quoted(&text.to_string_lossy().chars().map(escaped).collect::<String>())
    };
    let words = std::iter::once(run.program.as_os_str()).chain(run.arguments.iter().map(OsString::as_os_str));
    let words: Vec<String> = words.map(plain).collect();
    format!("cd {} && {}", plain(run.directory.as_os_str()), words.join(" "))
}

/// Refuses a file that others may have written, because it says what is run, and a program that has been changed since.
fn must_be_the_same(run: &Run, args: &Again) -> anyhow::Result<()> {
    let anyway = args.anyway;
    let distrust = runs::distrust(&run.path, runs::folder().as_deref());
    match &distrust {
        Some(_) if args.trust => output::note(&format!("running what the file says: {}", shown(run))),
        Some(why) => bail!(
            "{why}, and whoever wrote it chose what is run: {}\nIf that is what you want, --trust runs it",
            shown(run)
        ),
        None => {}
    }
    // Of a program that an interpreter runs, the library that computes is what was hashed.
    let (kind, path) = match &run.build {
        Some(build) => ("library", build),
        None => ("executable", &run.program),
    };
    let file = File::open(path).with_context(|| format!("the program {} is gone", path.display()))?;
    let Some(recorded) = &run.executable else {
        if anyway || (distrust.is_none() && runs::is_unchanged(run)) {
            return Ok(());
        }
        bail!(
            "run {} has no hash of its {kind}, and {} is not known to be the one that made it; --anyway runs it all the same",
            run.id,
            short(path)
        );
    };
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
