//! Who this process is: what a run file says of it, and what a resumed run must find again.

use super::record::{Began, Hash};
use super::secrets;
use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::fs::File;
use std::hash::BuildHasher;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

/// This executable, also when another build has taken its name.
const THIS: &str = "/proc/self/exe";

/// A number that nobody else has.
pub(super) fn chance() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// The number that all masters of this process share.
fn process() -> u64 {
    static NUMBER: OnceLock<u64> = OnceLock::new();
    *NUMBER.get_or_init(chance)
}

/// How many masters this process has made before this one.
pub(super) fn next_master() -> u32 {
    static MASTERS: AtomicU32 = AtomicU32::new(0);
    MASTERS.fetch_add(1, Relaxed)
}

/// How this process would be started again, and what tells its build from another one.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    program: PathBuf,
    arguments: Vec<OsString>,
    build: Arc<Build>,
}

impl Default for Program {
    /// This executable.
    fn default() -> Self {
        Program {
            program: std::env::current_exe().unwrap_or_default(),
            arguments: std::env::args_os().skip(1).collect(),
            build: Build::at(Path::new(THIS)),
        }
    }
}

impl Program {
    /// A program that an interpreter runs: the interpreter, its arguments, and the library that computes.
    pub(crate) fn new(program: PathBuf, arguments: Vec<OsString>, build: &Path) -> Self {
        Program { program, arguments, build: Build::at(build) }
    }

    pub(super) fn program(&self) -> Vec<u8> {
        self.program.clone().into_os_string().into_vec()
    }

    /// As they are recorded: without known secrets.
    pub(super) fn arguments(&self) -> Vec<Vec<u8>> {
        secrets::masked(&self.arguments)
    }

    /// The program and its arguments, as they are recorded.
    pub(crate) fn command(&self) -> Vec<OsString> {
        std::iter::once(self.program()).chain(self.arguments()).map(OsString::from_vec).collect()
    }

    pub(super) fn build(&self) -> &Arc<Build> {
        &self.build
    }

    /// What a file says first.
    pub(super) fn began(&self, nth: u32, workers: &str, seed: u64, resumed: Option<String>) -> Began {
        let file = std::fs::metadata(&self.build.path);
        Began {
            unix_us: now_us(),
            pid: std::process::id(),
            process: process(),
            nth,
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            program: self.program(),
            program_bytes: file.as_ref().map_or(0, MetadataExt::size),
            program_changed_us: file.map_or(0, |f| (f.mtime() * 1_000_000 + f.mtime_nsec() / 1000) as u64),
            arguments: self.arguments(),
            directory: std::env::current_dir().unwrap_or_default().into_os_string().into_vec(),
            version: crate::VERSION.into(),
            workers: workers.into(),
            seed,
            resumed,
        }
    }
}

/// Microseconds since 1970.
pub(super) fn now_us() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64)
}

/// The file that computes: this executable, or the library in an interpreter's process.
#[derive(Debug)]
pub(super) struct Build {
    path: PathBuf,
    asked: OnceLock<()>,
    hash: OnceLock<Option<Hash>>,
}

impl Build {
    /// One for each file, however many masters ask.
    fn at(path: &Path) -> Arc<Build> {
        static KNOWN: Mutex<Vec<Arc<Build>>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(build) = known.iter().find(|build| build.path == path) {
            return build.clone();
        }
        let new = Build { path: path.to_owned(), asked: OnceLock::new(), hash: OnceLock::new() };
        let new = Arc::new(new);
        known.push(new.clone());
        new
    }

    /// Its path, unless it is the program itself.
    pub(super) fn path(&self) -> Option<&Path> {
        Some(self.path.as_path()).filter(|path| *path != THIS)
    }

    /// Its hash, if somebody has computed it by now. The first call sees to that, on a thread of its own: nobody who
    /// starts should wait for it.
    pub(super) fn hash(self: &Arc<Self>) -> Option<Hash> {
        self.asked.get_or_init(|| {
            let build = self.clone();
            let hash = move || {
                build.hash_now();
            };
            let _ = std::thread::Builder::new().name("qjam-hash".into()).spawn(hash);
        });
        *self.hash.get()?
    }

    /// The same for who cannot do without it.
    pub(super) fn hash_now(&self) -> Option<Hash> {
        *self.hash.get_or_init(|| hash_of(&File::open(&self.path).ok()?).ok())
    }
}

pub(super) fn hash_of(file: &File) -> io::Result<Hash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file)?;
    Ok(*hasher.finalize().as_bytes())
}
