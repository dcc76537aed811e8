//! What qjam writes on this machine: run files, the cache, configuration; whether it can, and how much room there is.

use super::{Finding, State};
use crate::output;
use qjam::hosts::CacheOrder;
use qjam_config::{Config, Places};
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Less room than this does not last.
const ROOM_MIN: u64 = 1 << 30;

/// The folder of run files.
pub(super) fn runs() -> Finding {
    const NAME: &str = "run files";
    let Some(folder) = qjam::runs::folder() else {
        let off = std::env::var_os("QJAM_RUNS").is_some_and(|value| value == "off");
        return match off {
            true => Finding::works(NAME, "none are written, since QJAM_RUNS is `off`"),
            false => Finding::new(NAME, State::Warning, "none are written, since there is no home folder")
                .remedy("set HOME, XDG_DATA_HOME or QJAM_RUNS to a folder that you may write"),
        };
    };
    of(
        NAME,
        &folder,
        "set QJAM_RUNS to another folder, or to `off`; runs cannot be resumed without their files",
    )
}

/// The cache of chunks, which is used if this machine is somebody's host, and converted files.
pub(super) fn cache() -> Finding {
    const NAME: &str = "cache";
    let state = qjam::hosts::cache_here(CacheOrder::Survey);
    if let Some(trouble) = state.trouble {
        return Finding::new(NAME, State::Warning, trouble)
            .remedy("set XDG_CACHE_HOME to a folder that you may write; without it, data is sent and converted again in every run");
    }
    let folder = match state.folder.as_str() {
        "" => {
            let home = |name: &str| std::env::var_os(name).map(std::path::PathBuf::from);
            home("XDG_CACHE_HOME")
                .or_else(|| Some(home("HOME")?.join(".cache")))
                .map(|cache| cache.join("qjam"))
        }
        folder => Some(folder.into()),
    };
    let Some(folder) = folder else {
        return Finding::new(NAME, State::Warning, "there is no home folder")
            .remedy("set HOME or XDG_CACHE_HOME");
    };
    let finding = of(
        NAME,
        &folder,
        "set XDG_CACHE_HOME to another folder; without it, data is converted again in every run",
    );
    finding.fact("bytes", state.bytes).fact("cap_bytes", state.cap_bytes)
}

/// The configuration files.
pub(super) fn configuration() -> Finding {
    const NAME: &str = "configuration";
    let places = Places::here();
    let finding = match Config::read(&places) {
        Err(e) => Finding::new(NAME, State::Broken, e.to_string())
            .remedy("`qjam config check` says more once that is right"),
        Ok(config) if !config.ignored().is_empty() => {
            let why: Vec<String> = config.ignored().iter().map(ToString::to_string).collect();
            Finding::new(NAME, State::Warning, why.join("; "))
                .remedy("make it yours alone, or work in another folder")
        }
        Ok(config) => match config.entries().len() as u64 {
            0 => Finding::works(NAME, "no file sets anything"),
            n => {
                Finding::works(NAME, format!("{}; `qjam config show` lists them", output::count(n, "value")))
            }
        },
    };
    let shown = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
    finding.fact("user_file", shown(&places.user)).fact("project_file", shown(&places.project))
}

/// Whether a file can be made in a folder, or in the folder that it would be made in.
fn of(name: &'static str, folder: &Path, remedy: &str) -> Finding {
    // Without this, nothing is above a relative folder.
    let folder = &std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let present = folder.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/"));
    let probe = present.join(format!(".qjam-doctor-{}", std::process::id()));
    // Where the folder itself is to be made, a folder is what must be possible.
    let made = match present == folder {
        true => OpenOptions::new().write(true).create_new(true).mode(0o600).open(&probe).map(|_| ()),
        false => DirBuilder::new().mode(0o700).create(&probe),
    };
    let _ = if present == folder { std::fs::remove_file(&probe) } else { std::fs::remove_dir(&probe) };
    let room = rustix::fs::statvfs(present).map(|about| about.f_bavail.saturating_mul(about.f_frsize)).ok();
    let shown = folder.display();
    let with_facts = |finding: Finding| finding.fact("folder", shown.to_string()).fact("free_bytes", room);
    if let Err(e) = made {
        let what = match e.kind() {
            io::ErrorKind::StorageFull => "the disk is full".to_owned(),
            _ => e.to_string(),
        };
        return with_facts(
            Finding::new(name, State::Warning, format!("{shown}: nothing can be written: {what}"))
                .remedy(remedy),
        );
    }
    let free = room.map_or("an unknown number of bytes".into(), output::bytes);
    let finding = with_facts(Finding::works(name, format!("{shown}, {free} free")));
    match room {
        Some(room) if room < ROOM_MIN => finding.but("make room on that disk, or see `qjam cache`"),
        _ => finding,
    }
}
