//! Configuration files: named clusters and defaults, each value with the file and line it comes from.
//!
//! In: the user's file (`~/.config/qjam/config.toml`), and the nearest `qjam.toml` in the working folder or above it. Out: a
//! [`Config`], or an error that names file and line. Whoever asks decides what a value is used for.
//!
//! The two files are not believed alike. The user's file says *where* to run: it names clusters and the `ssh` command. A
//! `qjam.toml` comes with a checkout that somebody else may have written, so it says *how* to run, and may name workers only on
//! this machine or by the name of one of the user's clusters. [`trust`](mod@trust) refuses files that others can write.
//!
//! ```
//! use qjam_config::{Config, Places};
//! # let folder = std::env::temp_dir().join(format!("qjam-config-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let file = folder.join("config.toml");
//! # { use std::os::unix::fs::OpenOptionsExt; use std::io::Write;
//! #   std::fs::OpenOptions::new().write(true).create(true).mode(0o600).open(&file)?.write_all(b"[clusters]\nlab = \"big*8, ann@lab3*4\"\n")?; }
//! let config = Config::read(&Places { user: Some(file), project: None })?;
//! assert_eq!(config.workers("lab,proc:2")?.text, "big*8,ann@lab3*4,proc:2");
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod edit;
mod file;
mod keys;
mod places;
pub mod trust;
mod workers;

pub use edit::{set, unset};
pub use keys::{KEYS, Key, bytes};
pub use places::{PROJECT_FILE, Places, VARIABLE};
pub use trust::Distrust;
pub use workers::{Workers, names_others};

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Beginning of the keys of named clusters.
pub const CLUSTERS: &str = "clusters.";
/// Longest file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A value, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key, for example `workers` or `clusters.lab`.
    pub key: String,
    /// The value, as it would be given on the command line.
    pub value: String,
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
}

impl Entry {
    /// Where the value stands, for people.
    pub fn source(&self) -> String {
        format!("{}, line {}", shortened(&self.file), self.line)
    }
}

/// A path with `~` for the home folder.
fn shortened(path: &Path) -> String {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    match home.as_deref().and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

/// Which file an entry stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    User,
    Project,
}

/// What the files say.
#[derive(Clone, Debug, Default)]
pub struct Config {
    user: Vec<Entry>,
    project: Vec<Entry>,
    ignored: Vec<Distrust>,
}

impl Config {
    /// What the files of this user and of the working folder say.
    pub fn load() -> Result<Config, ConfigError> {
        Config::read(&Places::here())
    }

    /// What these files say. A file that is not there says nothing.
    pub fn read(places: &Places) -> Result<Config, ConfigError> {
        let mut config = Config::default();
        if let Some(path) = &places.user
            && let Some(text) = trust::read_user(path)?
        {
            config.user = file::entries(path, &text, Layer::User)?;
        }
        if let Some(path) = &places.project {
            match trust::read_project(path)? {
                None => {}
                Some(Ok(text)) => {
                    config.project = file::entries(path, &text, Layer::Project)?;
                    workers::check_project(&config)?;
                }
                Some(Err(why)) => config.ignored.push(why),
            }
        }
        Ok(config)
    }

    /// The value of a key: that of the project's file, otherwise that of the user's.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.project.iter().chain(&self.user).find(|entry| entry.key == key)
    }

    /// All values in force, clusters last, each key once.
    pub fn entries(&self) -> Vec<&Entry> {
        let mut all: Vec<&Entry> = Vec::new();
        for entry in self.project.iter().chain(&self.user) {
            if !all.iter().any(|known| known.key == entry.key) {
                all.push(entry);
            }
        }
        all.sort_by_key(|entry| (entry.key.starts_with(CLUSTERS), entry.key.clone()));
        all
    }

    /// The cluster of this name.
    pub fn cluster(&self, name: &str) -> Option<&Entry> {
        self.user.iter().find(|entry| entry.key.strip_prefix(CLUSTERS) == Some(name))
    }

    /// A worker string without names of clusters.
    pub fn workers(&self, text: &str) -> Result<Workers<'_>, ConfigError> {
        workers::expand(self, text)
    }

    /// Files that were not believed. Nothing of them is used.
    pub fn ignored(&self) -> &[Distrust] {
        &self.ignored
    }
}

/// Why there is no configuration.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file says something that makes no sense.
    #[error("{}, line {line}: {what}", shortened(.file))]
    Wrong {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong, and what to write.
        what: String,
    },
    /// The user's file may have been written by somebody else.
    #[error("{0}")]
    NotTrusted(Distrust),
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", shortened(.file))]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("{} cannot be written: {source}", shortened(.file))]
    Unwritable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A name of a cluster is used in a way that makes no sense.
    #[error("{0}")]
    Workers(String),
    /// A value that was to be written makes no sense.
    #[error("{0}")]
    Refused(String),
}
