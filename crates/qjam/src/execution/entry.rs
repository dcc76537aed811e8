//! The first steps of a supervisor: the process on a host that an ssh connection ends in.
//!
//! The start of a host (`engine/ssh`) leaves a copy of the executable there and runs it with [`SUPERVISOR`] in its
//! environment. Before anything else the copy proves that it is whole, ties its life to the connection, tidies the
//! folder it lies in, and takes the connection away from standard input and output, where user code could reach it.
//! After the line that says `ready` only frames are written.

use super::supervisor;
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use thiserror::Error;

/// The environment variable that makes an executable a supervisor: version, nonce, hash of the executable, folder.
pub(crate) const SUPERVISOR: &str = "QJAM_SUPERVISOR";
/// What a supervisor ends with when its executable is not what was sent.
pub(crate) const DAMAGED: i32 = 71;
/// Builds that nobody has used for this long are removed.
const BUILD_KEPT: Duration = Duration::from_secs(14 * 24 * 3600);
/// Copies that were begun this long ago will not be finished any more.
const UNFINISHED_KEPT: Duration = Duration::from_secs(24 * 3600);

/// The connection, and the folder that is ours on this host.
pub(crate) struct Stdio {
    /// What the master sends.
    pub(crate) input: OwnedFd,
    /// What goes to the master.
    pub(crate) output: OwnedFd,
    /// Holds `bin` and `cache`.
    pub(crate) dir: PathBuf,
}

/// Why a supervisor gives up. The master sees the text in what ssh passes on of standard error.
#[derive(Debug, Error)]
pub(super) enum EntryError {
    #[error("started with `{0}`, which this version does not understand")]
    StartRequest(String),
    #[error("{step}: {source}")]
    Io { step: &'static str, source: io::Error },
}

fn io_at<E: Into<io::Error>>(step: &'static str) -> impl Fn(E) -> EntryError {
    move |source| EntryError::Io { step, source: source.into() }
}

/// Serves until the connection ends; gives the code to exit with.
pub(super) fn serve(asked: &OsStr) -> Result<i32, EntryError> {
    let StartRequest { nonce, hash, dir } = understand(asked)
        .ok_or_else(|| EntryError::StartRequest(asked.to_string_lossy().chars().take(80).collect()))?;
    let parent = getppid();
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(io_at("asking to die with the connection"))?;
    if getppid() != parent {
        return Ok(0);
    }
    let own = File::open("/proc/self/exe").map_err(io_at("opening the executable"))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(own).map_err(io_at("reading the executable"))?;
    if hasher.finalize().to_hex().as_str() != hash {
        say(rustix::stdio::stdout(), &nonce, "damaged").map_err(io_at("answering"))?;
        return Ok(DAMAGED);
    }
    tidy(&dir.join("bin"), &format!("worker-{hash}"), SystemTime::now());
    let (input, output) = take_stdio().map_err(io_at("taking over standard input and output"))?;
    say(output.as_fd(), &nonce, "ready").map_err(io_at("answering"))?;
    supervisor::serve(Stdio { input, output, dir }).map_err(io_at("serving the master"))?;
    Ok(0)
}

#[derive(Debug, PartialEq, Eq)]
struct StartRequest {
    nonce: String,
    hash: String,
    dir: PathBuf,
}

fn understand(asked: &OsStr) -> Option<StartRequest> {
    let mut fields = asked.as_bytes().splitn(4, |b| *b == b';');
    let mut field = || fields.next();
    let (b"1", nonce, hash, dir) = (field()?, hex(field()?)?, hex(field()?)?, field()?) else { return None };
    let dir = PathBuf::from(OsStr::from_bytes(dir));
    (nonce.len() >= 16 && hash.len() == 64 && dir.is_absolute()).then_some(StartRequest { nonce, hash, dir })
}

fn hex(field: &[u8]) -> Option<String> {
    let digits = field.iter().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b));
    (digits && field.len() <= 64).then(|| String::from_utf8_lossy(field).into_owned())
}

fn say(to: rustix::fd::BorrowedFd<'_>, nonce: &str, what: &str) -> io::Result<()> {
    File::from(to.try_clone_to_owned()?).write_all(format!("qjam-{nonce} {what}\n").as_bytes())
}

/// The connection, out of reach of user code: what it reads is empty, and what it prints goes where its errors go.
fn take_stdio() -> io::Result<(OwnedFd, OwnedFd)> {
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 10)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 10)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((input, output))
}

/// Marks our own build as used, and removes others that are not and copies that were never finished.
///
/// Whatever goes wrong here is no reason not to serve: another start tidies, too.
fn tidy(bin: &Path, own: &str, now: SystemTime) {
    let times = fs::FileTimes::new().set_modified(now);
    let _ = File::open(bin.join(own)).and_then(|file| file.set_times(times));
    let Ok(entries) = fs::read_dir(bin) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name == own || !name.starts_with("worker-") {
            continue;
        }
        let kept = if name.ends_with(".tmp") { UNFINISHED_KEPT } else { BUILD_KEPT };
        let changed = entry.metadata().and_then(|m| m.modified());
        // A time in the future is a clock that was set, and says nothing.
        if changed.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > kept)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_understood_or_refused() {
        let (nonce, hash) = ("0123456789abcdef", "a".repeat(64));
        let asked = |text: &str| understand(OsStr::new(text));
        let good =
            StartRequest { nonce: nonce.into(), hash: hash.clone(), dir: "/people/a b;c/.cache/qjam".into() };
        assert_eq!(asked(&format!("1;{nonce};{hash};/people/a b;c/.cache/qjam")), Some(good));
        for bad in [
            String::new(),
            "1".into(),
            format!("2;{nonce};{hash};/d"),
            format!("1;{nonce};{hash}"),
            format!("1;{nonce};{hash};d"),
            format!("1;{nonce};{};/d", "g".repeat(64)),
            format!("1;0123;{hash};/d"),
        ] {
            assert_eq!(asked(&bad), None, "{bad}");
        }
    }

    #[test]
    fn old_builds_go_and_young_ones_stay() {
        let bin = std::env::temp_dir().join(format!("qjam-tidy-{}", std::process::id()));
        fs::create_dir(&bin).unwrap();
        let now = SystemTime::now();
        let days = |n: u64| Duration::from_secs(n * 24 * 3600);
        for (name, age) in [
            ("worker-own", days(100)),
            ("worker-old", days(15)),
            ("worker-young", days(13)),
            ("worker-a.1.tmp", days(2)),
            ("worker-b.1.tmp", days(0)),
            ("something", days(100)),
        ] {
            let file = File::create(bin.join(name)).unwrap();
            file.set_times(fs::FileTimes::new().set_modified(now - age)).unwrap();
        }
        tidy(&bin, "worker-own", now);
        let mut left: Vec<_> = fs::read_dir(&bin).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["something", "worker-b.1.tmp", "worker-own", "worker-young"]);
        assert_eq!(
            fs::metadata(bin.join("worker-own")).unwrap().modified().unwrap(),
            now,
            "it was used just now"
        );
        fs::remove_dir_all(&bin).unwrap();
    }
}
