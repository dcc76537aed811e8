//! Starts a child interpreter.
//!
//! It gets its socket as standard input, a program of a few lines by `-c`, and the sources of all else over the socket:
//! no file is needed on the host. It is the first of a process group and of a family of its own. The first thing it does is to ask the kernel
//! to end it when the thread that started it ends.

use super::find;
use super::numerics;
use super::peer::Peer;
use super::printed::Printed;
use super::setup;
use super::welcomed::welcomed;
use qjam_system::family::Family;
use qjam_system::process::Process;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::pipe::PipeFlags;
use rustix::process::{Resource, Rlimit};
use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A file of the Python package. Where that is, the build script says.
macro_rules! module {
    ($path:literal) => {
        include_str!(concat!(env!("QJAM_PYTHON_PACKAGE"), "/", $path))
    };
}

/// The program.
const BEGINNING: &str = module!("_worker/start.py");

/// The modules it runs, each after those it needs.
const MODULES: &[(&str, &str)] = &[
    ("qjam.common.reducing", module!("common/reducing.py")),
    ("qjam._worker.loader", module!("_worker/loader.py")),
    ("qjam._worker.scripts", module!("_worker/scripts.py")),
    ("qjam._worker.context", module!("_worker/context.py")),
    ("qjam._worker.values", module!("_worker/values.py")),
    ("qjam._worker.chunks", module!("_worker/chunks.py")),
    ("qjam._worker.decoded", module!("_worker/decoded.py")),
    ("qjam._worker.memory", module!("_worker/memory.py")),
    ("qjam._worker.levels", module!("_worker/levels.py")),
    ("qjam._worker.raised", module!("_worker/raised.py")),
    ("qjam._worker.states", module!("_worker/states.py")),
    ("qjam._worker.stepping", module!("_worker/stepping.py")),
    ("qjam._worker.child", module!("_worker/child.py")),
];

/// What is before the name of a module that is run later.
const LATER: char = '?';

/// Modules that it runs when it needs them, which most interpreters never do.
const LATER_MODULES: &[(&str, &str)] = &[
    ("qjam._worker.guards", module!("_worker/guards.py")),
    ("qjam._worker.guards_numpy", module!("_worker/guards_numpy.py")),
    ("qjam._worker.guards_tables", module!("_worker/guards_tables.py")),
];

/// Where joblib puts arrays that its processes share.
const JOBLIB_FOLDER: &str = "JOBLIB_TEMP_FOLDER";

/// The interpreter that a call needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InterpreterRequest {
    pub(super) version: (u8, u8),
    pub(super) remote_python: Option<String>,
    /// Threads of libraries; 0 for the slot's share of the cores.
    pub(super) library_threads: u16,
}

/// An interpreter that has been started and has said nothing yet.
pub(super) struct Started {
    pub(super) process: Process,
    pub(super) peer: Arc<Peer>,
    pub(super) printed: Printed,
    /// For messages.
    pub(super) executable: PathBuf,
}

/// Starts one; says why not. Without a limit of its own it has that of this process.
pub(super) fn start(wanted: &InterpreterRequest, memory_bytes_max: Option<u64>) -> Result<Started, String> {
    let (executable, path, support) = match setup::current() {
        Some(setup) => (setup.executable.clone(), setup.path.clone(), setup.support.clone()),
        None => {
            let found = find::interpreter(wanted.version, wanted.remote_python.as_deref())?;
            let support = welcomed().map(|welcomed| welcomed.support.clone());
            (found.executable, found.path, support.unwrap_or_default())
        }
    };
    let failed = |e: io::Error| format!("the interpreter {} could not be started: {e}", executable.display());
    let started = || -> io::Result<_> {
        let (peer, theirs) = Peer::pair()?;
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&read, true)?;
        let mut command = Command::new(&executable);
        command.args(["-c", BEGINNING]).stdin(Stdio::from(theirs));
        command.stdout(Stdio::from(write.try_clone()?)).stderr(Stdio::from(write));
        let threads = match wanted.library_threads {
            0 => threads_per_slot(),
            threads => usize::from(threads),
        };
        let threads = threads.to_string();
        for name in numerics::THREADS.iter().filter(|name| std::env::var_os(name).is_none()) {
            command.env(name, &threads);
        }
        // What the user has set where the master is goes before what is set here.
        numerics::set(&mut command, welcomed().map_or(&[], |welcomed| &welcomed.numerics));
        // What joblib shares between processes ends with the interpreter, however that ends.
        let family = Family::new();
        if std::env::var_os(JOBLIB_FOLDER).is_none() {
            command.env(JOBLIB_FOLDER, family.folder());
        }
        // Nothing is done between fork and exec, so that it is no fork: libraries of the user's, of those for linear
        // algebra more than one, have handlers for forks that must not run on two threads at once, or hang.
        let process = Process::spawn(&mut command, family)?;
        drop(command);
        if let (Some(_), Some(pid)) = (memory_bytes_max, process.pid()) {
            let limit = Rlimit { current: memory_bytes_max, maximum: memory_bytes_max };
            rustix::process::prlimit(Some(pid), Resource::Data, limit)?;
        }
        let bundle = bundle(&path, &support)?;
        send_file(peer.socket.as_fd(), bundle.as_fd())?;
        Ok(Started { process, peer, printed: Printed::new(read), executable: executable.clone() })
    };
    started().map_err(failed)
}

/// Slots that are threads of this process.
static THREAD_SLOTS: AtomicUsize = AtomicUsize::new(0);

/// Tells that this process has so many more slots that are threads; fewer, if negative. A process whose only slot is its
/// main thread has none.
pub fn add_thread_slots(more: isize) {
    THREAD_SLOTS.fetch_add(more as usize, Relaxed); // wraps around, as it should
}

/// A slot's share of the cores.
fn threads_per_slot() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let others = welcomed().map_or(0, |welcomed| welcomed.slots_here as usize);
    (cores / THREAD_SLOTS.load(Relaxed).max(others).max(1)).max(1)
}

/// All that it is given at the start, as a file in memory: parts, each after its length.
fn bundle(path: &[String], support: &[u8]) -> io::Result<OwnedFd> {
    let mut bytes = Vec::new();
    let mut put = |part: &[u8]| {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    };
    put(support);
    put(path.join("\0").as_bytes());
    for (name, source) in MODULES {
        put(name.as_bytes());
        put(source.as_bytes());
    }
    for (name, source) in LATER_MODULES {
        put(format!("{LATER}{name}").as_bytes());
        put(source.as_bytes());
    }
    let mut file = File::from(rustix::fs::memfd_create(c"qjam-start", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(&bytes)?;
    Ok(file.into())
}

fn send_file(socket: BorrowedFd<'_>, file: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [file];
    control.push(SendAncillaryMessage::ScmRights(&fds));
    rustix::net::sendmsg(socket, &[IoSlice::new(b"s")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}
