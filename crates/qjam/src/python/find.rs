//! Which interpreter runs a function here.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// An interpreter that was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Its file, or its name.
    pub(crate) executable: PathBuf,
    /// Where it looks for modules besides its own places.
    pub(crate) path: Vec<String>,
}

/// The first one that answers.
pub(crate) fn interpreter(version: (u8, u8), wanted: Option<&str>) -> Result<Found, String> {
    let (major, minor) = version;
    let mut names: Vec<String> = std::env::var("QJAM_PYTHON").into_iter().collect();
    names.extend(wanted.map(str::to_owned));
    names.extend([format!("python{major}.{minor}"), "python3".to_owned()]);
    let answers = |name: &&String| {
        let mut command = Command::new(name);
        command.arg("-V").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    match names.iter().find(answers) {
        Some(name) => Ok(Found { executable: name.into(), path: Vec::new() }),
        None => Err(format!("no Python interpreter was found; tried {}", names.join(", "))),
    }
}
