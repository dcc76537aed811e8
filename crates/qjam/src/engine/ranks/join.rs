//! Joining the other ranks before `main`, and leaving them at the end of the process.

use super::comm::{PROVIDERS, Unusable};
use super::fleet::Fleet;
use super::launch::{Launch, RanksError, find_mpirun};
use super::link::Link;
use super::serve::serve;
use super::wire::Hello;
use super::words::{self, Doing};
use crate::{VERSION, execution, memory, registry};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

/// What came of joining the others; empty where nobody launched this process, or it has no library for it.
static FLEET: OnceLock<Fleet> = OnceLock::new();

/// So long the end of a program waits for a round that nobody wants any more.
const LEAVES_WITHIN: Duration = Duration::from_secs(5);

/// The ranks, on rank 0.
pub(crate) fn fleet() -> Result<&'static Fleet, RanksError> {
    if let Some(fleet) = FLEET.get() {
        return Ok(fleet);
    }
    let program = std::env::args_os().next().unwrap_or_default();
    let program =
        std::path::Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    if PROVIDERS.is_empty() && program.starts_with("python") {
        let instead = "ranks run the command `qjam` or a program in Rust; from Python use `proc` or hosts";
        return Err(RanksError::Unsupported { what: "a Python program", instead });
    }
    if PROVIDERS.is_empty() {
        return Err(RanksError::NotBuilt { is_command: program == "qjam" });
    }
    if Launch::here().is_some() && !execution::is_hooked() {
        return Err(RanksError::NotHooked);
    }
    let library = PROVIDERS.first().map_or_else(String::new, |provider| (provider.library)());
    Err(RanksError::NotLaunched { program, library, mpirun: find_mpirun() })
}

/// What to say, once, to a program that has ranks and connects to other workers.
pub(crate) fn unused() -> Option<String> {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let others = FLEET.get().map_or(0, |fleet| fleet.size() - 1);
    let is_new = others > 0 && !TOLD.swap(true, Relaxed);
    is_new.then(|| {
        format!("{others} other ranks were started and have nothing to do: workers `mpi` would use them")
    })
}

/// Where a launcher has started this process with others: joins them, and serves, unless it is the first.
pub(crate) fn join_if_launched() {
    let (Some(provider), Some(launch)) = (PROVIDERS.first(), Launch::here()) else { return };
    let comm = match (provider.join)() {
        Ok(comm) => comm,
        Err(Unusable(why)) => give_up(&launch, &RanksError::Unusable { name: provider.name, why }),
    };
    let link = Arc::new(Link::new(comm));
    if link.size() == 1 && launch.size.is_some_and(|size| size > 1) {
        let error = RanksError::OtherLibrary { launch: launch.to_string(), library: link.library() };
        give_up(&launch, &error);
    }
    words::introduce(link.rank(), link.size(), &host());
    if link.rank() == 0 {
        words::doing(Doing::Program);
        link.at_exit(leave);
        let _ = FLEET.set(Fleet::new(link));
        return;
    }
    link.at_exit(ended_inside);
    std::panic::set_hook(Box::new(|info| match words::is_in_block() {
        true => drop(std::io::Write::write_all(&mut std::io::stderr(), format!("{info}\n").as_bytes())),
        false => super::prints::say_last(&format!(" cannot go on ({info})")),
    }));
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| serve(link.clone()))).is_err() {
        // Without a word to the library: so the launcher ends the others.
        std::process::exit(101);
    }
    words::doing(Doing::Nothing);
    link.leave();
    std::process::exit(0);
}

/// Says once, not by every process, why nothing can be done, and ends.
fn give_up(launch: &Launch, error: &RanksError) -> ! {
    if launch.rank == 0 {
        #[expect(clippy::print_stderr, reason = "there is no other way to say it before main")]
        {
            eprintln!("qjam: {error}");
        }
    }
    std::process::exit(2);
}

/// The end of rank 0's process, however it came to it, but for signals.
extern "C" fn leave() {
    let Some(fleet) = FLEET.get() else { return };
    if fleet.leave(LEAVES_WITHIN) {
        return;
    }
    let names = fleet.awaited().join(", ");
    let words = format!(
        "qjam: {names} did not come back from a round that nobody wants any more; all ranks are ended\n"
    );
    let _ = rustix::io::write(rustix::stdio::stderr(), words.as_bytes());
    fleet.abort(1)
}

/// The end of another rank's process: a function that ends its process ends the run.
extern "C" fn ended_inside() {
    if words::is_in_block() {
        super::prints::say_last(" ended its own process");
    }
}

/// Who this is.
pub(super) fn hello() -> Hello {
    static HELLO: LazyLock<Hello> = LazyLock::new(|| {
        let mut hasher = blake3::Hasher::new();
        let mut names: Vec<&str> = registry::names().collect();
        names.sort_unstable();
        for name in names {
            hasher.update(name.as_bytes()).update(b"\0");
        }
        let functions = hasher.finalize().to_hex();
        Hello {
            pid: std::process::id(),
            host: host(),
            machine: machine().to_owned(),
            build: format!("version {VERSION} with the functions {}", &functions.as_str()[..12]),
            memory_bytes: memory::Limit::here().bytes,
        }
    });
    HELLO.clone()
}

/// What tells this machine from others: what its kernel calls this time of being up, and its name.
pub(super) fn machine() -> &'static str {
    static MACHINE: LazyLock<String> = LazyLock::new(|| {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        // Containers may share a kernel and still not see each other's processes and files.
        format!("{}/{}", id.trim(), host())
    });
    &MACHINE
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Master;

    #[test]
    fn a_program_without_a_library_says_how_it_gets_one() {
        let said = Master::connect("mpi").map(|_| ()).unwrap_err().to_string();
        assert!(said.contains("built with MPI") && said.contains("`use qjam_mpi as _;`"), "{said}");
        let command = RanksError::NotBuilt { is_command: true }.to_string();
        assert!(command.contains("-p qjam-cli --features mpi"), "{command}");
    }

    #[test]
    fn who_this_is_does_not_change() {
        let (one, two) = (hello(), hello());
        assert_eq!((one.pid, &one.machine, &one.build), (two.pid, &two.machine, &two.build));
        assert!(one.build.contains(VERSION) && !one.host.is_empty() && one.memory_bytes > 0);
    }
}
