//! Arguments of the commands about this command itself: doctor, configuration, completions, manual pages.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

pub(super) const DOCTOR_HELP: &str = "\
Looks at this machine alone; `qjam check HOST` does the same for hosts. Programs that are not there are no fault: each line says \
what they would be for.

The exit code is 0 if worker processes can run here and what qjam writes has a place; otherwise 1.

Examples:
  qjam doctor
  qjam doctor --json | jq '.checks[] | select(.state != \"works\") | .remedy'";

pub(super) const CONFIG_HELP: &str = "\
Two files may set defaults; both are TOML, and neither need exist. The command line comes first, then the nearest `qjam.toml` in the \
working folder or above it, up to your home folder, then your own file, which `qjam config path` prints. QJAM_CONFIG names \
another instead of your own, or is `off`: then no file is read.

  workers = \"lab\"             # of `qjam fit` and `qjam predict`
  memory-limit = \"8G\"         # of each worker process of these
  host-cache = \"50G\"          # most bytes of the cache on each host of these
  tuning = \"counted\"          # of linear learners
  cache = \"2G\"                # of `qjam store serve`
  ssh = \"ssh -F lab_config\"   # your own file alone

  [clusters]                   # your own file alone
  lab = \"big*8, ann@lab3*4\"

A name of a cluster can stand wherever workers or hosts are named: `--workers lab`, `--workers auto:lab,proc:2`, `qjam check lab`.

A `qjam.toml` may come with files of somebody else. So it cannot say where data is sent or what is started: it names workers of \
this machine or one of your clusters, no hosts and no ssh. Files that other users own or can write are not used.

Examples:
  qjam config set clusters.lab 'big*8, ann@lab3*4'
  qjam config set workers auto:lab
  qjam config set --project tuning clock
  qjam config set --unset workers
  qjam config show";

pub(super) const COMPLETIONS_HELP: &str = "\
Examples:
  qjam completions bash > ~/.local/share/bash-completion/completions/qjam
  qjam completions zsh > ~/.zfunc/_qjam          # with ~/.zfunc in $fpath before compinit
  qjam completions fish > ~/.config/fish/completions/qjam.fish";

pub(super) const MAN_HELP: &str = "\
Examples:
  qjam man | man -l -
  qjam man --out ~/.local/share/man/man1         # then: man qjam-fit-kmeans";

/// `qjam doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `qjam config`.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Show all values in force, each with the file and line it comes from
    Show(Show),
    /// Print the path of your own file, which need not exist
    Path,
    /// Read the files as other commands do, and say whether they are right; the exit code is 1 if not
    Check,
    /// Set one value of a file, or remove it; all other lines stay as they are
    Set(Set),
}

/// `qjam config show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `qjam config set`.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// The key, for example `workers` or `clusters.lab`
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
    /// The value
    #[arg(value_name = "VALUE", required_unless_present = "unset")]
    pub(crate) value: Option<String>,
    /// Remove the key
    #[arg(long, conflicts_with = "value")]
    pub(crate) unset: bool,
    /// In `qjam.toml` of the working folder instead of your own file
    #[arg(long)]
    pub(crate) project: bool,
}

/// `qjam completions`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: ByShell,
}

/// Shells that words are completed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ByShell {
    Bash,
    Zsh,
    Fish,
}

/// `qjam man`.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Folder to write the pages of all commands to; it is made if it is not there
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
}
