//! Applies each mutation of `crates/sim/mutations` to a copy of the state machines, and requires that a sweep finds it.
//!
//! `mutants [NAME...]` tries the mutations with these names, or all. The copy, with only core and sim, and its build are under the
//! target folder. Fails if a mutation survives, or if the unchanged copy does not pass.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a command; its output is its purpose"
)]

use qjam_sim::mutation::Mutation;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const SEEDS: &str = "0..2000";
/// The protocol of workers that share a bucket, which has a simulation of its own.
const BUCKET: &str = "crates/core/src/bucket/";
/// Time limit of a sweep, for state machines that loop inside one event.
const SWEEP_SECONDS_MAX: &str = "300";

/// The manifest of the copy: two crates, optimised for build time.
fn workspace(root: &str) -> String {
    let mut out = String::new();
    for line in root.lines().take_while(|line| !line.starts_with("[profile")) {
        if line.starts_with("members") {
            out += "members = [\"crates/core\", \"crates/sim\"]\n";
        } else if !line.starts_with("default-members") {
            out += &format!("{line}\n");
        }
    }
    out + "[profile.release]\nopt-level = 1\ncodegen-units = 16\nincremental = true\n"
}

/// Copies a folder, leaving files alone that are already the same: what has not changed is not built again.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&path, &target)?;
        } else {
            put(&target, &fs::read(&path)?)?;
        }
    }
    Ok(())
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) { Ok(()) } else { fs::write(path, bytes) }
}

struct Bench {
    root: PathBuf,
    tree: PathBuf,
    built: PathBuf,
}

/// The result of a sweep over a copy.
enum SweepResult {
    Passed,
    Failed { seed: String, check: String },
    NotBuilt(String),
}

impl Bench {
    fn new() -> io::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
        // This command lies in the target folder's release or debug folder.
        let target = std::env::current_exe()?;
        let target = target.parent().and_then(Path::parent).unwrap_or(Path::new("target"));
        let place = target.join("mutants");
        Ok(Bench { root, tree: place.join("tree"), built: place.join("built") })
    }

    fn mutations(&self) -> Result<Vec<Mutation>, Box<dyn std::error::Error>> {
        let mut paths: Vec<PathBuf> = fs::read_dir(self.root.join("crates/sim/mutations"))?
            .map(|e| e.map(|e| e.path()))
            .collect::<Result<_, _>>()?;
        paths.sort();
        let mut mutations = Vec::new();
        for path in paths {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            mutations.push(Mutation::parse(&name, &fs::read_to_string(&path)?)?);
        }
        Ok(mutations)
    }

    /// Copies the state machines and applies the mutation, if there is one.
    fn set_up(&self, mutation: Option<&Mutation>) -> Result<(), Box<dyn std::error::Error>> {
        fs::create_dir_all(&self.tree)?;
        put(
            &self.tree.join("Cargo.toml"),
            workspace(&fs::read_to_string(self.root.join("Cargo.toml"))?).as_bytes(),
        )?;
        put(&self.tree.join("Cargo.lock"), &fs::read(self.root.join("Cargo.lock"))?)?;
        for member in ["crates/core", "crates/sim"] {
            copy(&self.root.join(member), &self.tree.join(member))?;
        }
        if let Some(mutation) = mutation {
            let path = self.tree.join(&mutation.file);
            fs::write(&path, mutation.apply(&fs::read_to_string(&path)?)?)?;
        }
        Ok(())
    }

    /// Plays all seeds on the copy: those that a mistake in this file can make fail, or all.
    fn sweep(&self, of: Option<&Mutation>) -> io::Result<SweepResult> {
        let only: &[&str] = match of {
            Some(mutation) if mutation.file.starts_with(BUCKET) => &["--only", "bucket"],
            Some(_) => &["--only", "machines"],
            None => &[],
        };
        let build = Command::new("cargo")
            .args([
                "build",
                "--release",
                "--offline",
                "--quiet",
                "-p",
                "qjam-sim",
                "--bin",
                "sweep",
                "--target-dir",
            ])
            .arg(&self.built)
            .current_dir(&self.tree)
            .output()?;
        if !build.status.success() {
            return Ok(SweepResult::NotBuilt(String::from_utf8_lossy(&build.stderr).into_owned()));
        }
        let swept = Command::new("timeout")
            .arg(SWEEP_SECONDS_MAX)
            .arg(self.built.join("release/sweep"))
            .args(["--seeds", SEEDS, "--until-failure"])
            .args(only)
            .output()?;
        if swept.status.success() {
            return Ok(SweepResult::Passed);
        }
        let said = String::from_utf8_lossy(&swept.stdout);
        let line = said.lines().find_map(|line| line.strip_prefix("seed ")?.split_once(" failed: "));
        let (seed, check) = line.unwrap_or(("?", "it did not end"));
        let check = match check.strip_prefix("panic at ") {
            Some(panic) => panic.to_string(),
            None => check.split_once(": ").map_or(check, |(name, _)| name).to_string(),
        };
        Ok(SweepResult::Failed { seed: seed.into(), check })
    }
}

fn main() -> ExitCode {
    match try_all(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(2)
        }
    }
}

fn try_all(names: &[String]) -> Result<bool, Box<dyn std::error::Error>> {
    let bench = Bench::new()?;
    let mut mutations = bench.mutations()?;
    if !names.is_empty() {
        mutations.retain(|m| names.contains(&m.name));
    }
    if mutations.is_empty() {
        return Err(format!("there is no mutation called {}", names.join(" or ")).into());
    }
    bench.set_up(None)?;
    match bench.sweep(None)? {
        SweepResult::Passed => println!("without any mistake, seeds {SEEDS} pass"),
        SweepResult::Failed { seed, check } => {
            return Err(format!("without any mistake, seed {seed} fails: {check}").into());
        }
        SweepResult::NotBuilt(why) => return Err(format!("the copy cannot be built:\n{why}").into()),
    }
    let (mut caught, mut survived, mut not_built) = (0, 0, 0);
    println!("{:<36} {:<8} {:>5}  by", "mutation", "caught", "seed");
    for mutation in &mutations {
        bench.set_up(Some(mutation))?;
        let name = &mutation.name;
        match bench.sweep(Some(mutation))? {
            SweepResult::Passed => {
                survived += 1;
                println!("{name:<36} {:<8} {:>5}  {}", "NO", "-", mutation.why);
            }
            SweepResult::Failed { seed, check } => {
                caught += 1;
                println!(
                    "{name:<36} {:<8} {seed:>5}  {}",
                    "yes",
                    check.chars().take(110).collect::<String>()
                );
            }
            SweepResult::NotBuilt(why) => {
                not_built += 1;
                println!("{name:<36} {:<8} {:>5}  it cannot be built\n{why}", "NO", "-");
            }
        }
    }
    println!("{caught} caught, {survived} survived, {not_built} cannot be built");
    Ok(survived + not_built == 0)
}
