//! Where things are: the repository, the target folder, the tools and the Python environment in it.

use crate::failure::{AboutFile, Failure};
use crate::run::Run;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The places that steps work in.
pub struct Shop {
    /// The repository.
    pub root: PathBuf,
    /// Cargo's target folder.
    pub target: PathBuf,
    /// Where cargo puts what it builds with the release profile.
    pub release: PathBuf,
}

impl Shop {
    /// Finds them. Cargo says where the repository is; this very executable lies in the target folder, wherever
    /// variables and settings have put that.
    pub fn here() -> Result<Self, Failure> {
        let from_cargo = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let root = from_cargo.as_deref().and_then(Path::parent).map(Path::to_path_buf);
        let exe = std::env::current_exe().about("this executable")?;
        let profiles = exe.parent().and_then(Path::parent).map(Path::to_path_buf);
        match (root, profiles) {
            (Some(root), Some(target)) => Ok(Shop { root, release: target.join("release"), target }),
            _ => {
                Err(Failure::Missing { tool: "cargo".into(), remedy: "start this with `cargo xtask`".into() })
            }
        }
    }

    /// The Python environment.
    pub fn venv(&self) -> PathBuf {
        self.target.join("venv")
    }

    /// A program of the Python environment, if it is there.
    pub fn venv_program(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.venv().join("bin").join(name);
        if path.exists() {
            return Ok(path);
        }
        let remedy = "run `cargo xtask setup --full` and see why it could not be installed".into();
        Err(Failure::Missing { tool: format!("{name} in {}", self.venv().display()), remedy })
    }

    /// Where tools installed by cargo go.
    pub fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }

    /// A program, run in the repository, with our own tools before the system's. Its runs are recorded under the target
    /// folder, and not among those of whoever tests.
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

    /// Cargo with these words, which are separated by spaces.
    pub fn cargo(&self, words: &str) -> Run {
        self.program("cargo").args(words.split_whitespace())
    }

    /// A folder for one step, made new and empty.
    pub fn empty_folder(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.target.join("xtask").join(name);
        if path.exists() {
            std::fs::remove_dir_all(&path).about(&path)?;
        }
        std::fs::create_dir_all(&path).about(&path)?;
        Ok(path)
    }
}
