//! Tests the Python package in a new account with a new environment and nothing else installed.

use crate::demo;
use crate::failure::{AboutFile, Failure};
use crate::package;
use crate::run::Run;
use crate::setup;
use crate::step::StepResult;
use crate::workspace::Workspace;
use std::path::{Path, PathBuf};

/// The first five lines that anybody writes; the workers are filled in.
const FIVE_LINES: &str = "\
import numpy as np
from qjam import Master
with Master(WORKERS) as m:
    total = m.run(lambda weight, rows: weight * rows.sum(), 2.0, np.arange(1000.0).reshape(100, 10))
print('total', total)
";
/// What they come to.
const EXPECTED: &str = "total 999000.0";
/// The versions of Python that the one wheel is for.
const VERSIONS: &[&str] = &["3.9", "3.10", "3.11", "3.12", "3.13"];

/// A new account on this machine: the wheel and what pip brings with it, five lines on processes of this machine, and the demo, which is
/// the first thing that the documentation's front page names.
pub fn account(workspace: &Workspace) -> StepResult {
    let account = Account::new(workspace, "account")?;
    let packages = account.packages()?;
    account.five_lines("'local:2'")?;
    account.five_lines("'proc:2'")?;
    let version = account.program("qjam").arg("--version").ask()?;
    let demo = demo::check(account.program("qjam"), &account.home)?;
    Ok(format!(
        "pip brings {packages}; five lines have a result; the command says {}; its demo: {demo}",
        version.trim()
    ))
}

/// The wheel as a tool: pipx and uv give the command `qjam`, each in an environment of its own.
pub fn tool(workspace: &Workspace) -> StepResult {
    let wheel = package::built(workspace)?;
    let home = workspace.empty_folder("tool")?;
    let python = workspace.venv_program("python")?;
    workspace.program(&python).args(["-m", "venv"]).arg(home.join("installers")).run()?;
    let ours = |program: &str| {
        let run = workspace.program(home.join("installers/bin").join(program)).dir(&home);
        run.without(&["QJAM_", "PYTHON", "CARGO", "VIRTUAL_ENV", "PIPX_", "UV_TOOL"]).env("HOME", &home)
    };
    let quiet = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:"];
    ours("python").args(quiet).args(["pipx", "uv"]).run()?;
    // Where packages come from is pip's to know; uv has settings of its own.
    let index = ours("python").args(["-m", "pip", "config", "get", "global.index-url"]).ask().ok();
    let mut said = Vec::new();
    for (tool, words) in [("pipx", &["install", "--quiet"][..]), ("uv", &["tool", "install", "--quiet"])] {
        let bin = home.join(format!("{tool}-bin"));
        // Names of one tool mean nothing to the other.
        let run = |words: &[&str]| {
            let run = ours(tool).args(words).env("PIPX_BIN_DIR", &bin).env("PIPX_HOME", home.join("pipx"));
            let run = run
                .env("UV_TOOL_BIN_DIR", &bin)
                .env("UV_TOOL_DIR", home.join("uv"))
                .env("UV_PYTHON", &python);
            match &index {
                Some(index) => run.env("UV_DEFAULT_INDEX", index.trim()),
                None => run,
            }
        };
        run(words).arg(&wheel).run()?;
        let qjam = || workspace.program(bin.join("qjam")).dir(&home).env("HOME", &home);
        let version = qjam().arg("--version").ask()?;
        qjam().args(["doctor", "--json"]).ask()?;
        run(if tool == "uv" { &["tool", "uninstall", "qjam"] } else { &["uninstall", "qjam"] }).run()?;
        if bin.join("qjam").exists() {
            let what = format!("{tool} has left the command qjam");
            return Err(Failure::Unexpected { what, expected: "nothing after it was uninstalled" });
        }
        said.push(format!("{tool}: {}", version.trim()));
    }
    Ok(said.join(", "))
}

/// The same lines on hosts that have Python and NumPy and nothing of ours.
pub fn on_hosts(workspace: &Workspace, hosts: &[String], ssh: &str) -> StepResult {
    let account = Account::new(workspace, "account-for-hosts")?;
    let workers = format!("'{}'", hosts.iter().map(|host| format!("{host}*1")).collect::<Vec<_>>().join(","));
    let run = account.lines(&workers)?.env("QJAM_SSH", ssh).limit_s(120);
    right(&run.tee_and_leave_nothing()?)?;
    Ok(format!("a fresh account has a result from {}", hosts.join(" and ")))
}

/// The tests under every version of Python that can be had here; one that cannot is a failure.
pub fn versions(workspace: &Workspace) -> StepResult {
    let wheel = package::built(workspace)?;
    let mut notes = Vec::new();
    for version in VERSIONS {
        let interpreter = interpreter(workspace, version)?;
        let venv = workspace.target.join("venvs").join(version);
        if workspace.program(venv.join("bin/python")).args(["-m", "pip", "--version"]).ask().is_err() {
            workspace.program(&interpreter).args(["-m", "venv", "--clear"]).arg(&venv).run()?;
        }
        let pip = || workspace.program(venv.join("bin/python")).args(["-m", "pip", "install", "-q"]);
        let pip = || pip().args(["--disable-pip-version-check", "--only-binary", ":all:"]);
        pip().args(["numpy", "-r", setup::PACKAGE_TEST_PACKAGES]).run()?;
        pip().args(["--force-reinstall", "--no-deps"]).arg(&wheel).run()?;
        let said = package::pytest(workspace, &venv, &[&package::ELSEWHERE[..], &[package::TESTS]].concat())?;
        notes.push(format!("{version}: {said}"));
    }
    Ok(notes.join("; "))
}

/// An interpreter of this version: on the path, or where pyenv keeps its own.
fn interpreter(workspace: &Workspace, version: &str) -> Result<PathBuf, Failure> {
    let name = format!("python{version}");
    let question = "import sys, venv; print('%d.%d' % sys.version_info[:2])";
    let right = |path: &Path| {
        workspace.program(path).args(["-c", question]).ask().is_ok_and(|said| said.trim() == version)
    };
    let mut candidates = vec![PathBuf::from(&name)];
    if let Ok(root) = workspace.program("pyenv").arg("root").ask() {
        let folders =
            std::fs::read_dir(Path::new(root.trim()).join("versions")).into_iter().flatten().flatten();
        candidates.extend(folders.map(|folder| folder.path().join("bin").join(&name)));
    }
    let remedy = "install it with your system's package manager or pyenv".to_string();
    candidates.into_iter().find(|path| right(path)).ok_or(Failure::Missing { tool: name, remedy })
}

/// A home of its own with an environment that has nothing but the wheel and what it asks for.
struct Account<'a> {
    workspace: &'a Workspace,
    home: PathBuf,
}

impl<'a> Account<'a> {
    /// One in a folder of this name: steps may run side by side.
    fn new(workspace: &'a Workspace, name: &str) -> Result<Self, Failure> {
        let wheel = package::built(workspace)?;
        let account = Account { workspace, home: workspace.empty_folder(name)? };
        // Not by the name on the path, which may be a script that looks into the home of whoever calls it.
        account.system(workspace.venv_program("python")?).args(["-m", "venv", "qjam-env"]).run()?;
        let options = ["-m", "pip", "install", "-q", "--disable-pip-version-check"];
        account.program("python").args(options).arg(wheel).run()?;
        Ok(account)
    }

    /// A program with nothing in its environment that a new account would not have.
    fn system(&self, program: impl AsRef<Path>) -> Run {
        let run = self.workspace.program(program).dir(&self.home).without(&[
            "QJAM_",
            "PYTHON",
            "CARGO",
            "VIRTUAL_ENV",
        ]);
        run.env("HOME", &self.home)
    }

    fn program(&self, name: &str) -> Run {
        self.system(self.home.join("qjam-env/bin").join(name))
    }

    /// What pip has brought, besides itself.
    fn packages(&self) -> StepResult {
        let text = self.program("python").args(["-m", "pip", "list", "--format=freeze"]).ask()?;
        let names = text.lines().filter_map(|line| line.split("==").next());
        let names: Vec<&str> = names.filter(|name| !["pip", "setuptools", "wheel"].contains(name)).collect();
        if names != ["numpy", "qjam"] {
            let what = format!("pip brought {}", names.join(", "));
            return Err(Failure::Unexpected { what, expected: "numpy and qjam, and nothing else" });
        }
        Ok(names.join(" and "))
    }

    fn five_lines(&self, workers: &str) -> StepResult {
        right(&self.lines(workers)?.limit_s(120).tee_and_leave_nothing()?)
    }

    fn lines(&self, workers: &str) -> Result<Run, Failure> {
        let file = self.home.join("five_lines.py");
        std::fs::write(&file, FIVE_LINES.replace("WORKERS", workers)).about(&file)?;
        Ok(self.program("python").arg(file))
    }
}

fn right(text: &str) -> StepResult {
    if text.lines().any(|line| line == EXPECTED) {
        return Ok(String::new());
    }
    Err(Failure::Unexpected { what: "five lines of Python said something else".into(), expected: EXPECTED })
}
