//! The Python of some test hosts: the base interpreter of our own environment, and its NumPy.

use super::plan::{Host, Kind};
use crate::failure::{AboutFile, Failure};
use crate::setup;
use crate::workspace::Workspace;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where it is on our machine.
pub struct Python {
    /// The interpreter of our environment.
    pub environment: PathBuf,
    /// The one that it was made from.
    executable: PathBuf,
    /// The folder that belongs to that one.
    prefix: PathBuf,
    /// Major and minor.
    pub version: String,
    /// Where our environment has its packages.
    packages: PathBuf,
}

const QUESTION: &str = "import os, sys, sysconfig; print(os.path.realpath(sys.executable), sys.base_prefix, \
    '%d.%d' % sys.version_info[:2], sysconfig.get_paths()['platlib'], sep='\\n')";

impl Python {
    /// Makes sure of the environment, and looks where it comes from.
    pub fn find(workspace: &Workspace) -> Result<Self, Failure> {
        setup::python(workspace)?;
        let environment = workspace.venv_program("python")?;
        let said = workspace.program(&environment).args(["-c", QUESTION]).ask()?;
        let mut lines = said.lines().map(PathBuf::from);
        match (lines.next(), lines.next(), lines.next(), lines.next()) {
            (Some(executable), Some(prefix), Some(version), Some(packages)) => {
                let version = version.display().to_string();
                Ok(Python { environment, executable, prefix, version, packages })
            }
            _ => Err(Failure::Unexpected { what: format!("Python said {said:?}"), expected: "four lines" }),
        }
    }

    /// Puts the interpreter into the folder that becomes the host's `/usr/bin`.
    pub fn put_into(&self, bin: &Path) -> Result<(), Failure> {
        let name = format!("python{}", self.version);
        for name in [name.as_str(), "python3"] {
            let path = bin.join(name);
            // What is there may be of another version.
            let _ = std::fs::remove_file(&path);
            if self.is_the_systems() {
                std::fs::copy(&self.executable, &path).about(&path)?;
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).about(&path)?;
            } else {
                std::os::unix::fs::symlink(&self.executable, &path).about(&path)?;
            }
        }
        Ok(())
    }

    /// The system's libraries are on every host; those of another interpreter have to be brought there.
    fn is_the_systems(&self) -> bool {
        self.prefix == Path::new("/usr")
    }

    /// What `boot.sh` is told: which folder to bring, the version, and where packages are.
    pub fn variables(&self, host: &Host) -> [(&'static str, String); 3] {
        let when = |wanted: bool, text: String| if wanted { text } else { String::new() };
        let has_python = host.kind.has_python();
        let prefix = self.prefix.display().to_string();
        [
            ("python_prefix", when(has_python && !self.is_the_systems(), prefix)),
            ("python_version", when(has_python, self.version.clone())),
            ("python_packages", when(host.kind == Kind::Python, self.packages.display().to_string())),
        ]
    }
}
