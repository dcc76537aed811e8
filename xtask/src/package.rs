//! The Python package: builds its wheel, and runs the tests on the installed wheel.
//!
//! The wheel is built as users build it, by pip and the backend in `python/build_backend`, so that this is tested too. It is installed
//! into the environment of the tests, which never import the package from the checkout.

use crate::elf;
use crate::failure::{AboutFile, Failure};
use crate::run::Run;
use crate::step::StepResult;
use crate::workspace::Workspace;
use std::path::{Path, PathBuf};

/// Where the tests are.
pub const TESTS: &str = "python/tests";
/// Those that need test hosts.
pub const HOST_TESTS: &str = "python/tests/test_hosts.py";
/// Those that need servers that stand for clouds.
pub const CLOUD_TESTS: &str = "python/tests/test_clouds.py";
/// Those that need Spark.
pub const SPARK_TESTS: &str = "python/tests/test_spark.py";
/// Those that need Spark and the jar for it.
pub const SPARK_STUDY_TESTS: &str = "python/tests/test_spark_study.py";
/// What looks at the clock.
const MEASURES: &str = "python/tests/measures.py";
/// The oldest C library that the wheel for others runs with.
const OLDEST: &str = "manylinux2014";
/// What the wheel must have besides the package's own files.
const CARRIED: &[&str] = &[
    "qjam/__init__.py",
    "qjam/_native.abi3.so",
    "qjam/_native.pyi",
    "qjam/_spark/task.py",
    "qjam/py.typed",
    "qjam/_vendor/cloudpickle/LICENSE",
    "qjam/_vendor/cloudpickle/cloudpickle.py",
    "data/scripts/qjam",
    "licenses/LICENSE-MIT",
    "licenses/LICENSE-APACHE",
];
/// Tests that other steps run.
pub const ELSEWHERE: [&str; 8] =
    ["--ignore", HOST_TESTS, "--ignore", CLOUD_TESTS, "--ignore", SPARK_TESTS, "--ignore", SPARK_STUDY_TESTS];
/// What it must not have.
const LEFT_OUT: &[&str] = &["__pycache__", "/tests/", "build_backend", ".cyclonedx.json"];

/// Builds the wheel for this machine and installs it for the tests.
pub fn install(workspace: &Workspace) -> StepResult {
    let wheel = build(workspace, "wheel", &[])?;
    let python = workspace.venv_program("python")?;
    let pip = workspace.program(&python).args(["-m", "pip", "install", "-q", "--disable-pip-version-check"]);
    pip.args(["--force-reinstall", "--no-deps"]).arg(&wheel).run()?;
    let version = workspace.program(workspace.venv_program("qjam")?).arg("--version").ask()?;
    Ok(format!("{}, {}", about(workspace, &wheel)?, version.trim()))
}

/// Builds the wheel for others, to `wheels` in the target folder: one for all versions of Python, and for old systems.
pub fn wheel(workspace: &Workspace) -> StepResult {
    crate::setup::python(workspace)?;
    let options = format!("--config-settings=build-args=--zig --compatibility {OLDEST}");
    let built = build(workspace, "portable-wheel", &[&options])?;
    let folder = workspace.target.join("wheels");
    std::fs::create_dir_all(&folder).about(&folder)?;
    let to = folder.join(built.file_name().unwrap_or_default());
    std::fs::copy(&built, &to).about(&to)?;
    Ok(format!("{}\n{}", to.display(), about(workspace, &to)?))
}

/// Packs the sources, builds the wheel from nothing but these, and compares it with the one built from the checkout.
pub fn from_sources(workspace: &Workspace) -> StepResult {
    let wanted = names_in(workspace, &built(workspace)?)?;
    let folder = workspace.empty_folder("sources")?;
    let python = workspace.venv_program("python")?;
    workspace.program(&python).args(["-m", "build", "--sdist", "--outdir"]).arg(&folder).arg(".").run()?;
    let archive = std::fs::read_dir(&folder).about(&folder)?.flatten().map(|entry| entry.path()).next();
    let archive = archive.unwrap_or_default();
    // Other folders, other crates: nothing of the checkout's builds may be mistaken for a part of this one.
    let target = workspace.target.join("from-sources");
    let pip = workspace.program(&python).args([
        "-m",
        "pip",
        "wheel",
        "-q",
        "--disable-pip-version-check",
        "--no-deps",
    ]);
    let pip = pip.arg("--wheel-dir").arg(&folder).arg(&archive);
    pip.env("CARGO_TARGET_DIR", &target).limit_min(20).run()?;
    let found = names_in(workspace, &wheel_in(&folder)?)?;
    if wanted != found {
        let differ = wanted.iter().filter(|name| !found.contains(name));
        let differ: Vec<&String> = differ.chain(found.iter().filter(|name| !wanted.contains(name))).collect();
        let what = format!("a wheel built from packed sources differs in {differ:?}");
        return Err(Failure::Unexpected { what, expected: "the same files" });
    }
    let size = std::fs::metadata(&archive).about(&archive)?.len() >> 10;
    Ok(format!("{size} KiB of sources make the same wheel of {} files", found.len()))
}

/// Formatting, names and types of everything in Python.
pub fn lint(workspace: &Workspace) -> StepResult {
    let folders =
        ["python", "bench", "examples"].into_iter().filter(|folder| workspace.root.join(folder).exists());
    workspace.program(workspace.venv_program("ruff")?).args(["check", "--no-cache"]).args(folders).run()?;
    workspace
        .program(workspace.venv_program("mypy")?)
        .env("MYPY_CACHE_DIR", workspace.target.join("mypy"))
        .run()?;
    let python = workspace.venv_program("python")?;
    pyright(workspace, workspace.program(workspace.venv_program("pyright")?))
        .arg("--pythonpath")
        .arg(python)
        .tee()?;
    Ok("ruff, mypy --strict and pyright find nothing".into())
}

/// All tests that need neither hosts nor clouds nor Spark, and the examples in documentation.
pub fn tests(workspace: &Workspace) -> StepResult {
    let own = pytest(workspace, &workspace.venv(), &[&ELSEWHERE[..], &[TESTS]].concat());
    let package = ["--doctest-modules", "--ignore-glob=*_vendor*", "--pyargs", "qjam"];
    // Whoever reads the failures wants all of them.
    let documentation = pytest(workspace, &workspace.venv(), &package);
    Ok(format!("{}; in documentation {}", own?, documentation?))
}

/// What is to take no longer than a blink. By name, since it is not collected with the tests.
pub fn measures(workspace: &Workspace) -> StepResult {
    pytest(workspace, &workspace.venv(), &[MEASURES])
}

/// The tests that need hosts: `dir` is where they are described.
pub fn host_tests(workspace: &Workspace, dir: &Path, ssh: &str) -> StepResult {
    let run = pytest_run(workspace, &workspace.venv(), &[HOST_TESTS])?;
    judge(&run.env("QJAM_TEST_HOSTS", dir).env("QJAM_SSH", ssh).limit_min(20).tee_and_leave_nothing()?)
}

/// The tests that need clouds, with what they are reached by.
pub fn cloud_tests(workspace: &Workspace, knows: impl FnOnce(Run) -> Run) -> StepResult {
    let run = pytest_run(workspace, &workspace.venv(), &[CLOUD_TESTS])?;
    judge(&knows(run).limit_min(20).tee_and_leave_nothing()?)
}

/// The tests that need Spark.
pub fn spark_tests(workspace: &Workspace) -> StepResult {
    let run = pytest_run(workspace, &workspace.venv(), &[SPARK_TESTS])?;
    judge(&run.limit_min(20).tee_and_leave_nothing()?)
}

/// The tests that need Spark, the jar and its library.
pub fn spark_study_tests(workspace: &Workspace, jar: &Path, native: &Path) -> StepResult {
    let run = pytest_run(workspace, &workspace.venv(), &[SPARK_STUDY_TESTS])?;
    let run = run.env("QJAM_TEST_SPARK_JAR", jar).env("QJAM_TEST_SPARK_NATIVE", native);
    judge(&run.limit_min(20).tee_and_leave_nothing()?)
}

/// Runs tests in an environment. That none is skipped and no process left behind is part of passing.
pub fn pytest(workspace: &Workspace, venv: &Path, words: &[&str]) -> StepResult {
    judge(&pytest_run(workspace, venv, words)?.limit_min(20).tee_and_leave_nothing()?)
}

fn pytest_run(workspace: &Workspace, venv: &Path, words: &[&str]) -> Result<Run, Failure> {
    let run = workspace.program(venv.join("bin/python")).args(["-m", "pytest", "--color=no"]).args(words);
    // Neither the user's own settings nor what a build has left beside the sources may matter.
    let run = run.env("PYTHONNOUSERSITE", "1").env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(pyright(workspace, run))
}

/// Lets pyright, which is written for another interpreter, keep that under the target folder.
fn pyright(workspace: &Workspace, run: Run) -> Run {
    run.env("PYRIGHT_PYTHON_CACHE_DIR", workspace.target.join("pyright"))
        .env("PYRIGHT_PYTHON_IGNORE_WARNINGS", "1")
}

/// The last line of pytest, `== 3 passed, 1 skipped in 0.12s ==`, without its ornaments. Some test must have passed, and
/// each that was asked for must have run.
fn judge(text: &str) -> StepResult {
    let said = text.lines().rev().find(|line| line.contains(" in ") && line.contains(" passed"));
    let said = said.map(|line| line.trim_matches(|c: char| c == '=' || c == ' ').to_string());
    let complaint =
        |what: String| Err(Failure::Unexpected { what, expected: "tests that run and pass, each of them" });
    match said {
        None => complaint("pytest ended well without a word of tests that passed".into()),
        Some(said) if ["skipped", "xfailed", "xpassed", "error"].iter().any(|word| said.contains(word)) => {
            complaint(format!("pytest says '{said}'"))
        }
        Some(said) => Ok(said),
    }
}

/// Has pip build the wheel into an empty folder of this name, with these further options.
fn build(workspace: &Workspace, name: &str, options: &[&str]) -> Result<PathBuf, Failure> {
    let folder = workspace.empty_folder(name)?;
    let pip = workspace.program(workspace.venv_program("python")?).args([
        "-m",
        "pip",
        "wheel",
        "--disable-pip-version-check",
    ]);
    let pip = pip.args(["-q", "--no-deps", "--wheel-dir"]).arg(&folder).args(options).arg(".");
    pip.env("CARGO_TARGET_DIR", &workspace.target).limit_min(20).run()?;
    wheel_in(&folder)
}

/// The wheel that an earlier step has built.
pub fn built(workspace: &Workspace) -> Result<PathBuf, Failure> {
    wheel_in(&workspace.target.join("xtask/wheel"))
}

fn wheel_in(folder: &Path) -> Result<PathBuf, Failure> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let wheel = entries.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "whl"));
    let remedy = "`cargo xtask test --only python-wheel` makes it".into();
    wheel.ok_or(Failure::Missing { tool: format!("a wheel in {}", folder.display()), remedy })
}

/// Looks into a wheel, and says how large it is and for whom.
fn about(workspace: &Workspace, wheel: &Path) -> StepResult {
    let names = names_in(workspace, wheel)?;
    if let Some(missing) = CARRIED.iter().find(|file| !names.iter().any(|name| name.ends_with(*file))) {
        return Err(Failure::Unexpected {
            what: format!("the wheel lacks {missing}"),
            expected: "all its parts",
        });
    }
    if let Some(extra) = names.iter().find(|name| LEFT_OUT.iter().any(|word| name.contains(word))) {
        return Err(Failure::Unexpected {
            what: format!("the wheel has {extra}"),
            expected: "only what users need",
        });
    }
    let executable =
        names.iter().find(|name| name.ends_with("scripts/qjam")).map(|name| unpacked(workspace).join(name));
    let bytes = executable.map(std::fs::read).transpose().about(unpacked(workspace))?.unwrap_or_default();
    match elf::needs(&bytes) {
        Some(elf::Needs { interpreter: false, libraries: 0 }) => {}
        found => {
            let what = format!("the executable in the wheel needs {found:?}");
            return Err(Failure::Unexpected { what, expected: "neither interpreter nor libraries" });
        }
    }
    let tag = wheel.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let tag = tag.split('-').skip(2).collect::<Vec<_>>().join("-");
    let size = std::fs::metadata(wheel).about(wheel)?.len() as f64 / f64::from(1 << 20);
    Ok(format!("{tag}, {} files, {size:.1} MiB, its executable is static", names.len()))
}

/// Where the wheel that was looked into last lies open.
fn unpacked(workspace: &Workspace) -> PathBuf {
    workspace.target.join("xtask/unpacked-wheel")
}

/// Unpacks a wheel, and names its files in order.
fn names_in(workspace: &Workspace, wheel: &Path) -> Result<Vec<String>, Failure> {
    let folder = workspace.empty_folder("unpacked-wheel")?;
    let python = workspace.venv_program("python")?;
    workspace.program(python).args(["-m", "zipfile", "-e"]).arg(wheel).arg(&folder).ask()?;
    let mut files = Vec::new();
    collect(&folder, &mut files)?;
    let shown = |file: &PathBuf| file.strip_prefix(&folder).unwrap_or(file).display().to_string();
    let mut names: Vec<String> = files.iter().map(shown).collect();
    names.sort();
    Ok(names)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    for entry in std::fs::read_dir(folder).about(folder)? {
        let path = entry.about(folder)?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_test_is_a_failure() {
        assert_eq!(
            judge("..\n===== 2 passed, 1 warning in 0.10s =====\n").unwrap(),
            "2 passed, 1 warning in 0.10s"
        );
        assert!(judge("===== 2 passed, 1 skipped in 0.10s =====\n").is_err());
        assert!(judge("===== 2 passed, 1 xfailed in 0.10s =====\n").is_err());
    }

    #[test]
    fn tests_that_did_not_run_have_not_passed() {
        assert!(judge("===== no tests ran in 0.01s =====\n").is_err());
        assert!(judge("").is_err());
    }
}
