//! Where run files are, what they are called, and which of them go when there are too many.

use super::{process, saved};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use std::collections::HashMap;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Names another folder, or says `off`.
pub(super) const RUNS: &str = "QJAM_RUNS";
const SUFFIX: &str = "run";
/// So many files and bytes may be there when a new run begins.
pub(super) const RUNS_MAX: usize = 200;
pub(super) const BYTES_MAX: u64 = 1 << 30;

/// Where run files go, according to the environment.
pub(super) enum RunFolder {
    Off,
    At(PathBuf),
    /// There is no home to put them into.
    Nowhere,
}

pub(super) fn place() -> RunFolder {
    match std::env::var_os(RUNS).filter(|v| !v.is_empty()) {
        Some(word) if word == "off" => RunFolder::Off,
        Some(path) => RunFolder::At(PathBuf::from(path)),
        None => {
            let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
            let data = variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share")));
            data.map_or(RunFolder::Nowhere, |data| RunFolder::At(data.join("qjam/runs")))
        }
    }
}

/// A file that is there.
pub(super) struct Listed {
    pub(super) path: PathBuf,
    pub(super) id: String,
    pub(super) bytes: u64,
}

/// The files in a folder, oldest first. Their names begin with the time.
pub(super) fn list(folder: &Path) -> io::Result<Vec<Listed>> {
    let entries = match std::fs::read_dir(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let own = rustix::process::geteuid().as_raw();
    let mut files = Vec::new();
    // What runs have beside their files counts with them.
    let mut beside: HashMap<String, u64> = HashMap::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if let Some(id) = saved::owner(&path) {
            *beside.entry(id.into()).or_default() += entry.metadata().map_or(0, |meta| meta.len());
        }
        if path.extension().is_none_or(|suffix| suffix != SUFFIX) {
            continue;
        }
        let Some(id) = path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned) else { continue };
        // Not through links: what is removed must be what was looked at.
        let Ok(meta) = entry.metadata() else { continue };
        if is_id(&id) && meta.is_file() && meta.uid() == own {
            files.push(Listed { path, id, bytes: meta.len() });
        }
    }
    for file in &mut files {
        file.bytes += beside.get(&file.id).copied().unwrap_or(0);
    }
    files.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(files)
}

/// Makes the file of a new run and locks it, after removing the oldest ones if there are too many.
pub(super) fn create(folder: &Path) -> io::Result<(File, String)> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    make_room(folder, RUNS_MAX, BYTES_MAX);
    loop {
        // Within a second the names go on in order, as far as three digits can tell; three more are by chance.
        let now_us = process::now_us();
        let (second, us) = (now_us / 1_000_000, now_us % 1_000_000);
        let id = format!("{}-{:03x}{:03x}", stamp(second), us * 4096 / 1_000_000, process::chance() & 0xfff);
        let path = path_of(folder, &id);
        let options = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match rustix::fs::open(&path, options, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => {
                // Nobody else knows the name yet; the lock lasts until this process ends, however it does.
                rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive)?;
                return Ok((File::from(fd), id));
            }
            Err(rustix::io::Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Removes the oldest files until one more fits, but none of a run that goes on.
pub(super) fn make_room(folder: &Path, runs_max: usize, bytes_max: u64) {
    let Ok(files) = list(folder) else { return };
    let (mut count, mut bytes) = (files.len(), files.iter().map(|f| f.bytes).sum::<u64>());
    for file in files {
        if count < runs_max && bytes <= bytes_max {
            return;
        }
        if !is_living(&file.path) && std::fs::remove_file(&file.path).is_ok() {
            remove_beside(folder, &file.id);
            count -= 1;
            bytes -= file.bytes;
        }
    }
}

/// Removes what a run has beside its file.
fn remove_beside(folder: &Path, id: &str) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    for path in entries.filter(|path| saved::owner(path) == Some(id)) {
        let _ = std::fs::remove_file(path);
    }
}

/// Opens a run file for reading. Nothing is followed that is a link, and nothing waited for that is no plain file.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no plain file"));
    }
    Ok(file)
}

/// Whether the one who writes this file still does.
pub(super) fn is_living(path: &Path) -> bool {
    open(path).is_ok_and(|file| is_locked(&file))
}

pub(super) fn is_locked(file: &File) -> bool {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let _ = rustix::fs::flock(file, FlockOperation::Unlock);
            false
        }
        Err(e) => e == rustix::io::Errno::WOULDBLOCK,
    }
}

/// Whether something is a folder that could hold runs.
pub(super) fn is_folder(path: &Path) -> bool {
    rustix::fs::statat(rustix::fs::CWD, path, AtFlags::empty())
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

pub(super) fn path_of(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.{SUFFIX}"))
}

/// `20261115T063324Z-a1b2c3`.
fn is_id(id: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let hex = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let shape = |id: &str| -> Option<bool> {
        let parts = [id.get(..8)?, id.get(8..9)?, id.get(9..15)?, id.get(15..17)?, id.get(17..)?];
        let [day, t, time, z, chance] = parts;
        Some(digits(day) && t == "T" && digits(time) && z == "Z-" && chance.len() == 6 && hex(chance))
    };
    shape(id).unwrap_or(false)
}

/// A time in seconds since 1970 as `20261115T063324Z`.
fn stamp(seconds: u64) -> String {
    let [year, month, day, hour, minute, second] = civil(seconds);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// A time in seconds since 1970 as year, month, day, hour, minute and second, universal time.
pub fn civil(seconds: u64) -> [u64; 6] {
    let (mut days, clock) = (seconds / 86_400, seconds % 86_400);
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length || year == 9999 {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length || month == 12 {
            break;
        }
        days -= length;
        month += 1;
    }
    [year, month, days + 1, clock / 3600, clock / 60 % 60, clock % 60]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_calendar_has_them() {
        assert_eq!(stamp(0), "19700101T000000Z");
        assert_eq!(stamp(951_782_399), "20000228T235959Z");
        assert_eq!(stamp(951_782_400), "20000229T000000Z");
        assert_eq!(stamp(1_794_724_404), "20261115T063324Z");
        assert_eq!(stamp(4_107_542_400), "21000301T000000Z");
        assert!(is_id(&format!("{}-00ff1e", stamp(1_794_724_404))));
        for wrong in
            ["", "20261115T063324Z-00ff1", "20261115T063324Z-00ff1g", "2026111ßT06324Z-00ff1e", "last"]
        {
            assert!(!is_id(wrong), "{wrong}");
        }
    }

    #[test]
    fn the_oldest_go_first_and_living_ones_stay() {
        let folder = std::env::temp_dir().join(format!("qjam-runs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let name = |n: u64| path_of(&folder, &format!("{}-00000{n}", stamp(n * 1000)));
        for n in 0..6 {
            std::fs::write(name(n), [0; 100]).unwrap();
        }
        std::fs::write(folder.join("notes.txt"), "mine").unwrap();
        let beside = |n: u64| name(n).with_extension("0.state");
        std::fs::write(beside(1), [0; 100]).unwrap();
        std::fs::write(beside(5), [0; 100]).unwrap();
        let held = File::options().read(true).write(true).open(name(0)).unwrap();
        rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(is_living(&name(0)) && !is_living(&name(1)));
        make_room(&folder, 5, u64::MAX);
        let left = || list(&folder).unwrap().into_iter().map(|f| f.path).collect::<Vec<_>>();
        assert_eq!(left(), [name(0), name(3), name(4), name(5)]);
        assert!(!beside(1).exists() && beside(5).exists(), "it goes with its run");
        make_room(&folder, 100, 350);
        assert_eq!(left(), [name(0), name(5)], "and counts with it");
        assert!(folder.join("notes.txt").exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
