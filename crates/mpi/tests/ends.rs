//! However a run on ranks ends, it says why, with the right code, and nobody is left.
//!
//! This executable is started again by a real `mpirun`, with the name of a program in its environment.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "all of this is test: what is not there should end it"
)]

use qjam::{Ctx, DataSet, Master, Nothing};
use qjam_conformance::program::{Programs, as_program, say};
use qjam_conformance::support::{Gate, wait_until};
use qjam_mpi as _;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

qjam_conformance::hook!(PROGRAMS);

const MARK: &str = "QJAM_TEST_MARK";

// ---- programs ---------------------------------------------------------------------------------------------------

/// What this executable can be started as.
const PROGRAMS: Programs = &[
    ("waits", waits),
    ("aborts_inside", |_| {
        connect().run_each(abort_on, &1).unwrap();
    }),
    ("exits_inside", |_| {
        connect().run_each(exit_on, &(1, 3)).unwrap();
    }),
    ("panics", |_| {
        let _m = connect();
        panic!("rank 0 has had enough");
    }),
    ("exits", |_| {
        let m = connect();
        assert_eq!(m.run_each(one, &()).unwrap(), 3);
        std::process::exit(7)
    }),
    ("uses_nobody", |_| {
        assert_eq!(Master::connect("local:1").unwrap().run_each(one, &()).unwrap(), 1);
        say("ran");
    }),
    ("never_comes_back", |_| {
        let (m, gate) = (connect(), Gate::new());
        let pending = m.submit(stuck, &gate.path(), &DataSet::nothing(3).unwrap()).unwrap();
        gate.wait_for(2);
        // Before the end, which leaves no time for it.
        drop(gate);
        pending.cancel();
    }),
    ("cannot", |_| {
        let error = Master::connect("mpi").map(|_| ()).unwrap_err();
        say(error.to_string().replace('\n', " / "));
    }),
];

fn connect() -> Master {
    Master::connect("mpi").unwrap()
}

fn waits(marks: &str) {
    let m = connect();
    for worker in m.workers() {
        say(worker.pid.unwrap());
    }
    for _ in 0..3 {
        m.run_each(one, &()).unwrap();
    }
    say("ready");
    let _ = m.run_each(wait, &marks.to_owned());
}

#[qjam::map]
fn one(_: &(), _: &Nothing) -> u64 {
    1
}

#[qjam::map]
fn wait(marks: &String, _: &Nothing, ctx: &Ctx) -> u64 {
    println!("printed by {} before its end", ctx.chunk());
    std::fs::write(format!("{marks}at-{}", ctx.chunk()), []).unwrap();
    std::thread::sleep(Duration::from_secs(600));
    1
}

#[qjam::map]
fn exit_on(what: &(u32, u32), _: &Nothing, ctx: &Ctx) -> u64 {
    if ctx.chunk() == what.0 {
        std::process::exit(what.1 as i32);
    }
    std::thread::sleep(Duration::from_secs(600));
    1
}

#[qjam::map]
fn abort_on(chunk: &u32, _: &Nothing, ctx: &Ctx) -> u64 {
    if ctx.chunk() == *chunk {
        println!("about to abort");
        std::process::abort();
    }
    std::thread::sleep(Duration::from_secs(600));
    1
}

#[qjam::map]
fn stuck(marks: &String, _: &Nothing, ctx: &Ctx) -> u64 {
    while ctx.chunk() > 0 {
        let _ = std::fs::write(format!("{marks}at-{}", ctx.chunk()), []);
        std::thread::sleep(Duration::from_secs(600));
    }
    1
}

// ---- watching them ----------------------------------------------------------------------------------------------

struct Run {
    child: Child,
    mark: String,
}

/// How a run ended.
struct Ended {
    code: Option<i32>,
    out: String,
    errors: String,
}

/// This executable again, as one of the programs.
fn itself(launcher: &[&str], name: &str) -> Command {
    let mut words: Vec<std::ffi::OsString> = launcher.iter().map(Into::into).collect();
    words.push(std::env::current_exe().unwrap().into());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    as_program(&mut command, name, "");
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

fn mpirun(ranks: &str, name: &str) -> Command {
    itself(&["mpirun", "--oversubscribe", "-n", ranks], name)
}

impl Run {
    fn start(mut command: Command) -> Run {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        command.env(MARK, &mark).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Run { child: command.spawn().unwrap(), mark }
    }

    /// Waits for its end, and that nobody is left then.
    fn end(mut self, mut out: impl Read) -> Ended {
        let mut errors = self.child.stderr.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            errors.read_to_end(&mut text).unwrap();
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut text = Vec::new();
        out.read_to_end(&mut text).unwrap();
        let code = self.child.wait().unwrap().code();
        wait_until("the end of all its processes", || self.others().is_empty());
        Ended { code, out: String::from_utf8_lossy(&text).into_owned(), errors: reader.join().unwrap() }
    }

    /// Processes that belong to it.
    fn others(&self) -> Vec<u32> {
        let wanted = format!("{MARK}={}", self.mark);
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_marked = |pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
        };
        pids.filter(is_marked).collect()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for pid in self.others() {
            let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
        }
    }
}

fn ended(command: Command) -> Ended {
    let mut run = Run::start(command);
    let out = run.child.stdout.take().unwrap();
    run.end(out)
}

/// A folder that goes away with the test, however that ends.
struct Temporary(std::path::PathBuf);

impl Temporary {
    fn new(name: &str) -> Temporary {
        Temporary(std::env::temp_dir().join(format!("qjam-{name}-{}", std::process::id())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What programs say to the test.
fn said(out: &str) -> Vec<String> {
    out.lines().filter_map(|line| line.split_once("@ ")).map(|(_, text)| text.to_owned()).collect()
}

#[test]
fn a_killed_rank_ends_the_run_with_everybodys_last_words() {
    let folder = Temporary::new("mpi-runs");
    let runs = &folder.0;
    let gate = Gate::new();
    let mut command = mpirun("4", "waits");
    as_program(&mut command, "waits", &gate.path());
    command.env("QJAM_RUNS", runs);
    let mut run = Run::start(command);
    let mut out = BufReader::new(run.child.stdout.take().unwrap());
    let mut heard = Vec::new();
    while heard.last().is_none_or(|text| text != "ready") {
        let mut line = String::new();
        assert!(out.read_line(&mut line).unwrap() > 0, "it ended before it was ready");
        heard.extend(said(&line));
    }
    // All are in the round, and the run file says so.
    gate.wait_for(4);
    let file = || qjam::runs::Run::read(qjam::runs::list(runs).ok()?.first()?).ok();
    wait_until("that the round is in the file", || file().is_some_and(|file| file.open.len() == 1));
    let victim: i32 = heard[2].parse().unwrap();
    kill_process(Pid::from_raw(victim).unwrap(), Signal::KILL).unwrap();
    let Ended { code, errors, .. } = run.end(out);
    assert!(code != Some(0), "{errors}");
    for (rank, pid) in [(0, &heard[0]), (1, &heard[1]), (3, &heard[3])] {
        let words: Vec<&str> =
            errors.lines().filter(|l| l.contains(&format!("qjam: rank {rank} of 4 on"))).collect();
        assert_eq!(words.len(), 1, "{errors}");
        for part in [format!("process {pid}"), format!("block {rank} of round 3"), "wait".into()] {
            assert!(words[0].contains(&part), "{part}: {}", words[0]);
        }
        if rank > 0 {
            assert!(errors.contains(&format!("printed by {rank} before its end")), "{errors}");
        }
    }
    assert!(errors.contains("signal 9"), "the launcher says who died: {errors}");
    let files = qjam::runs::list(runs).unwrap();
    let file = qjam::runs::Run::read(&files[0]).unwrap();
    assert_eq!((file.workers.as_str(), file.rounds), ("mpi", 3));
    assert!(matches!(&file.open[..], [(3, function)] if function.ends_with("wait")), "{:?}", file.open);
}

#[test]
fn a_function_that_ends_its_process_ends_the_run_and_is_named() {
    let Ended { code, errors, .. } = ended(mpirun("3", "exits_inside"));
    assert!(code != Some(0), "{code:?}: {errors}");
    assert!(errors.contains("rank 1 of 3 on") && errors.contains("ended its own process"), "{errors}");
    assert!(errors.contains("block 1 of round 0") && errors.contains("exit_on"), "{errors}");
}

#[test]
fn a_crash_on_a_rank_is_told_with_what_was_printed_before_it() {
    let Ended { code, errors, .. } = ended(mpirun("2", "aborts_inside"));
    assert!(code != Some(0), "{code:?}: {errors}");
    assert!(errors.contains("about to abort") && errors.contains("rank 1 of 2 on"), "{errors}");
    assert!(errors.contains("aborted (signal 6)") && errors.contains("block 1 of round 0"), "{errors}");
}

#[test]
fn rank_0_may_end_by_a_panic_or_an_exit_with_its_own_code() {
    let Ended { code, out, errors, .. } = ended(mpirun("3", "panics"));
    assert_eq!(code, Some(101), "{out}{errors}");
    assert!(format!("{out}{errors}").contains("rank 0 has had enough"), "{out}{errors}");
    assert!(!errors.contains("was told to end"), "the others went home: {errors}");
    let Ended { code, errors, .. } = ended(mpirun("3", "exits"));
    assert_eq!(code, Some(7), "{errors}");
}

#[test]
fn ranks_that_are_not_wanted_go_home_with_the_program() {
    let Ended { code, out, errors, .. } = ended(mpirun("3", "uses_nobody"));
    assert_eq!(code, Some(0), "{out}{errors}");
    assert_eq!(said(&out), ["ran"], "one rank runs the program: {out}");
    assert_eq!(errors.matches("2 other ranks were started and have nothing to do").count(), 1, "{errors}");
}

#[test]
fn a_rank_that_never_comes_back_does_not_keep_the_program() {
    let Ended { code, errors, .. } = ended(mpirun("3", "never_comes_back"));
    assert!(code != Some(0), "{code:?}: {errors}");
    assert!(errors.contains("mpi:1@") && errors.contains("did not come back"), "{errors}");
}

#[test]
fn without_a_launcher_it_is_told_how_to_start_it() {
    let Ended { out, .. } = ended(itself(&[], "cannot"));
    let said = said(&out);
    assert!(said[0].contains("mpirun -n 4 ends-") && said[0].contains("mpirun is there"), "{said:?}");
    let mut command = itself(&[], "cannot");
    command.env("PATH", "/nowhere");
    let said = self::said(&ended(command).out);
    assert!(said[0].contains("there is no `mpirun` on the path"), "{said:?}");
}

#[test]
fn a_launcher_of_another_library_is_told_by_its_name() {
    let mut command = itself(&[], "cannot");
    // What MPICH's launcher would set; Open MPI does not look at it, and finds itself alone.
    command.env("PMI_RANK", "0").env("PMI_SIZE", "4");
    let Ended { code, errors, out, .. } = ended(command);
    assert_eq!(code, Some(2), "{out}{errors}");
    assert!(errors.contains("MPICH") && errors.contains("PMI_SIZE=4"), "{errors}");
    assert!(errors.contains("built against Open MPI"), "{errors}");
    assert!(said(&out).is_empty(), "the program was not begun");
}

/// The command, if this was started by the step that builds it.
#[test]
fn the_command_gives_the_same_rounds_under_mpirun() {
    let Some(command) = std::env::var_os("QJAM_TEST_COMMAND") else {
        panic!("QJAM_TEST_COMMAND must name a `qjam` built with MPI: `cargo xtask test --only mpi`")
    };
    assert!(Path::new(&command).exists(), "{}", command.display());
    let run = |launcher: &[&str], workers: &str| {
        let mut words: Vec<std::ffi::OsString> = launcher.iter().map(Into::into).collect();
        words.push(command.clone());
        let mut whole = Command::new(&words[0]);
        whole.args(&words[1..]).args(["bench", "rounds", "--workers", workers, "--rounds", "20", "--json"]);
        whole.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        ended(whole)
    };
    let Ended { code, out, errors, .. } = run(&["mpirun", "--oversubscribe", "-n", "4"], "mpi");
    assert_eq!(code, Some(0), "{out}{errors}");
    assert_eq!(out.matches("\"workers\":\"mpi\"").count(), 1, "{out}");
    let Ended { code, errors, .. } = run(&[], "mpi");
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("mpirun -n 4 qjam"), "{errors}");
}
