//! Paths and programs of the repository: the target folder, installed tools, the Python environment.
//!
//! Goes out: paths, and [`Run`]s with the right folder and variables. Installs and changes nothing besides temporary folders.

use crate::failure::{AboutFile, Failure};
use crate::run::Run;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The paths that steps use.
pub struct Workspace {
    /// The repository.
    pub root: PathBuf,
    /// Cargo's target folder.
    pub target: PathBuf,
    /// Cargo's folder for release builds.
    pub release: PathBuf,
}

impl Workspace {
    /// Finds the paths. Cargo sets that of the repository; this executable is in the target folder, wherever that is configured to be.
    pub fn here() -> Result<Self, Failure> {
        let from_cargo = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let root = from_cargo.as_deref().and_then(Path::parent).map(Path::to_path_buf);
        let exe = std::env::current_exe().about("this executable")?;
        let profiles = exe.parent().and_then(Path::parent).map(Path::to_path_buf);
        match (root, profiles) {
            (Some(root), Some(target)) => Ok(Workspace { root, release: target.join("release"), target }),
            _ => {
                Err(Failure::Missing { tool: "cargo".into(), remedy: "start this with `cargo xtask`".into() })
            }
        }
    }

    /// The Python environment.
    pub fn venv(&self) -> PathBuf {
        self.target.join("venv")
    }

    /// A program of the Python environment, if it exists.
    pub fn venv_program(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.venv().join("bin").join(name);
        if path.exists() {
            return Ok(path);
        }
        let remedy = "run `cargo xtask setup --full` and see why it could not be installed".into();
        Err(Failure::Missing { tool: format!("{name} in {}", self.venv().display()), remedy })
    }

    /// The folder for tools installed by cargo.
    pub fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }

    /// A program to run in the repository, with our own tools first on the path. Run files go to the target folder instead of the
    /// user's folder.
    pub fn program(&self, program: impl AsRef<Path>) -> Run {
        let mut path = OsString::from(self.tools().join("bin"));
        if let Some(inherited) = std::env::var_os("PATH") {
            path.push(":");
            path.push(inherited);
        }
        Run::new(program.as_ref())
            .dir(&self.root)
            .env("PATH", path)
            .env("QJAM_RUNS", self.target.join("runs"))
    }

    /// Cargo with these arguments, separated by spaces.
    pub fn cargo(&self, words: &str) -> Run {
        self.program("cargo").args(words.split_whitespace())
    }

    /// A new empty folder for one step.
    pub fn empty_folder(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.target.join("xtask").join(name);
        if path.exists() {
            std::fs::remove_dir_all(&path).about(&path)?;
        }
        std::fs::create_dir_all(&path).about(&path)?;
        Ok(path)
    }
}
