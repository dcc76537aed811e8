//! User code that ends its process: told with cause and chunks after three tries, and the master goes on.

use crate::Engine;
use crate::support::{Folder, signal, wait_until};
use qjam::job::{Activity, Cause};
use qjam::journal::What;
use qjam::{Ctx, DataSet, Error, Master, Nothing, Wire};
use std::collections::BTreeSet;
use std::time::Duration;

/// Ways in which a process ends.
#[derive(Clone, Copy, Debug, Wire, PartialEq)]
enum CrashKind {
    Exit,
    Abort,
    NullPointer,
    Overflow,
    Signal,
    Hog,
}

/// Bytes that nobody has.
const HOG_BYTES: usize = 3 << 30;

#[inline(never)]
#[expect(unconditional_recursion, reason = "the stack is to overflow")]
fn deeper(n: u64) -> u64 {
    let pages = std::hint::black_box([n; 64]);
    deeper(pages[3] + 1) + pages[5]
}

#[expect(unsafe_code, reason = "user code may contain mistakes that the compiler cannot see")]
fn follow_null() -> u64 {
    // SAFETY: none; this is the mistake, and it must end the process with a signal.
    unsafe { std::ptr::read_volatile(std::ptr::without_provenance::<u64>(8)) }
}

#[qjam::map]
fn go((kind, from, to): &(CrashKind, u32, u32), _: &Nothing, ctx: &Ctx) -> u64 {
    if !(*from..*to).contains(&ctx.chunk()) {
        return 1;
    }
    eprintln!("last words about chunk {}", ctx.chunk());
    match kind {
        CrashKind::Exit => std::process::exit(3),
        CrashKind::Abort => std::process::abort(),
        CrashKind::NullPointer => follow_null(),
        CrashKind::Overflow => deeper(1),
        CrashKind::Signal => {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            0
        }
        CrashKind::Hog => std::hint::black_box(vec![ctx.chunk() as u8 + 1; HOG_BYTES]).len() as u64,
    }
}

fn is_well(m: &Master, after: &str) {
    let tasks = DataSet::nothing(64).unwrap();
    let run = m.run(go, &(CrashKind::Exit, 0, 0), &tasks).map_err(|e| e.to_string());
    assert_eq!(run, Ok(64), "after {after}");
}

/// One chunk that kills, on processes of every shape. (A thread takes the whole program with it.)
fn check(e: &Engine, kind: CrashKind, expected: impl Fn(&Cause) -> bool) {
    for engine in e.few() {
        let m = e.connect(e.quiet().memory_limit(1 << 30), engine);
        let names: Vec<String> = m.workers().into_iter().map(|w| w.name).collect();
        let chunk = 17;
        let error = m.run(go, &(kind, chunk, chunk + 1), &DataSet::nothing(64).unwrap()).unwrap_err();
        let Error::Poison { chunks, deaths } = &error else { panic!("{kind:?} on {engine}: {error}") };
        assert!(chunks.contains(&chunk), "{kind:?} on {engine}: {chunks:?}");
        assert_eq!(deaths.len(), 3, "{kind:?} on {engine}");
        for (worker, death) in deaths {
            assert!(names.contains(worker), "{worker}");
            assert!(expected(&death.cause), "{kind:?} on {engine}: {death}");
            assert!(death.last_lines.iter().any(|l| l.starts_with("last words about chunk")), "{death:?}");
            assert_eq!(death.activity, Activity::Mapping);
        }
        assert!(error.to_string().contains("remedy"), "{error}");
        is_well(&m, &format!("{kind:?} on {engine}"));
    }
}

pub(crate) fn an_exit_is_told_with_its_code(e: &Engine) {
    check(e, CrashKind::Exit, |cause| *cause == Cause::Exited(3));
}

pub(crate) fn an_abort_and_a_signal_are_told_with_their_number(e: &Engine) {
    check(e, CrashKind::Abort, |cause| *cause == Cause::Signal(6));
    check(e, CrashKind::Signal, |cause| *cause == Cause::Signal(9));
}

pub(crate) fn a_bad_pointer_and_a_full_stack_are_told_as_signals(e: &Engine) {
    check(e, CrashKind::NullPointer, |cause| *cause == Cause::Signal(11));
    // Where Rust's runtime notices it aborts; on a thread it did not start it cannot notice.
    check(e, CrashKind::Overflow, |cause| matches!(cause, Cause::Signal(6 | 11)));
}

pub(crate) fn an_allocation_over_the_limit_is_told_with_limit_and_size(e: &Engine) {
    check(e, CrashKind::Hog, |cause| {
        *cause == Cause::OutOfMemory { limit_bytes: 1 << 30, asked_bytes: HOG_BYTES as u64 }
    });
    let m = e.connect(e.quiet().memory_limit(1 << 30), &e.of(1));
    let text = m.run(go, &(CrashKind::Hog, 0, 1), &DataSet::nothing(1).unwrap()).unwrap_err().to_string();
    for part in ["out of memory", "3221225472", "1073741824", "chunks 0..1"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

pub(crate) fn a_function_that_closes_files_that_are_not_its_own_harms_its_process_only(e: &Engine) {
    #[expect(unsafe_code, reason = "asking whether a file is open by its number")]
    fn borrowed(fd: i32) -> std::os::fd::BorrowedFd<'static> {
        // SAFETY: it is only asked whether it is open.
        unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) }
    }
    #[expect(unsafe_code, reason = "a mistake that programs make when they turn into daemons")]
    #[qjam::map]
    fn close_all(_: &(), _: &Nothing) -> u64 {
        use std::os::fd::{FromRawFd, OwnedFd};
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let open: Vec<i32> = open.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
        for fd in open.into_iter().filter(|fd| *fd > 2 && rustix::fs::fstat(borrowed(*fd)).is_ok()) {
            // SAFETY: none; these are somebody else's.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        1
    }
    let m = e.master(2);
    let error = m.run(close_all, &(), &DataSet::nothing(8).unwrap()).unwrap_err();
    assert!(matches!(error, Error::Poison { .. } | Error::NoWorkers { .. }), "{error}");
    is_well(&m, "files were closed");
}

pub(crate) fn a_function_that_always_kills_can_be_tried_again_and_again(e: &Engine) {
    for workers in [1, 2] {
        let m = e.master(workers);
        for n in 0..6 {
            let error = m.run(go, &(CrashKind::Exit, 0, 64), &DataSet::nothing(64).unwrap()).unwrap_err();
            assert!(matches!(error, Error::Poison { .. }), "{workers}, try {n}: {error}");
        }
        is_well(&m, "many deaths");
        assert!(!m.journal().iter().any(|e| matches!(e.what, What::SeatGivenUp(_))), "{workers}");
    }
}

pub(crate) fn a_death_costs_only_what_was_not_delivered(e: &Engine) {
    #[qjam::map]
    fn once(marks: &String, _: &Nothing, ctx: &Ctx) -> u64 {
        std::thread::sleep(Duration::from_millis(10));
        let first = std::fs::File::create_new(format!("{marks}/{}", ctx.chunk())).is_ok();
        if !first {
            std::fs::write(format!("{marks}/{} again", ctx.chunk()), []).unwrap();
        } else if ctx.chunk() == 30 {
            std::process::exit(1);
        }
        u64::from(first)
    }
    let folder = Folder::new();
    let marks = folder.file("").to_string_lossy().into_owned();
    // Everything is delivered as soon as it is done, and nobody does what another has begun.
    let m = e.connect(e.quiet().deliver_after(Duration::ZERO).balance(false), &e.of(2));
    let firsts = m.run(once, &marks, &DataSet::nothing(32).unwrap()).unwrap();
    let again = std::fs::read_dir(&marks).unwrap().count() as u64 - 32;
    // What counted the first time was not run a second time, and what did not was.
    assert_eq!(again, 32 - firsts, "{firsts} of 32 counted the first time they were run");
    // Of the sixteen blocks of the one that died, the last was not even begun.
    assert!((1..=15).contains(&again), "{again} were run again");
    let report = m.last_round().unwrap();
    assert_eq!(report.lost, 1);
    assert!(report.retries <= 16, "{} blocks were given out again", report.retries);
}

pub(crate) fn a_worker_killed_while_idle_is_started_again(e: &Engine) {
    let m = e.connect(e.quiet().balance(false), &e.of(3));
    for n in 0..4 {
        let joined = || m.journal().iter().filter(|e| matches!(e.what, What::WorkerJoined(_))).count();
        wait_until("that all have joined", || joined() == 3 * (n + 1));
        // All have work, and have had none since it was done.
        is_well(&m, "a start");
        let before = e.pids(&m);
        wait_until("that all are asleep", || before.iter().all(|pid| is_asleep(*pid)));
        for pid in &before {
            signal(*pid, rustix::process::Signal::KILL);
        }
        let replaced = || {
            let now = e.pids(&m);
            now.len() == 3 && now.iter().all(|pid| !before.contains(pid))
        };
        wait_until("that all are replaced", replaced);
        is_well(&m, "idle workers were killed");
    }
    let journal = m.journal();
    let deaths =
        journal.iter().filter_map(|e| if let What::WorkerLost(_, d) = &e.what { Some(d) } else { None });
    let (idle, other): (Vec<_>, Vec<_>) =
        deaths.partition(|d| d.activity == Activity::Idle && d.cause == Cause::Signal(9));
    assert_eq!(idle.len() + other.len(), 12);
    // One that is killed while it sits down again may be told as what it did last.
    assert!(idle.len() > other.len(), "deaths while idle are told as such: {other:?}");
}

/// Whether all threads of a process wait for something.
fn is_asleep(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
    })
}

pub(crate) fn all_workers_may_be_killed_at_once_and_often(e: &Engine) {
    #[qjam::map]
    fn nap(_: &(), _: &Nothing) -> u64 {
        std::thread::sleep(Duration::from_millis(5));
        1
    }
    let m = e.master(3);
    let tasks = DataSet::nothing(60).unwrap();
    for n in 0..8 {
        let pending = m.submit(nap, &(), &tasks).unwrap();
        // Twice in a round: a third death inside the same block would rightly be held against the block.
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(7 * n % 40));
            for pid in e.pids(&m) {
                signal(pid, rustix::process::Signal::KILL);
            }
        }
        assert_eq!(pending.wait().map_err(|e| e.to_string()), Ok(60), "wave {n}");
    }
}

pub(crate) fn workers_killed_faster_than_they_start_do_not_spoil_the_master(e: &Engine) {
    let m = e.master(2);
    let mut killed = BTreeSet::new();
    let given_up = || m.journal().iter().filter(|e| matches!(e.what, What::SeatGivenUp(_))).count();
    // Until so many have died that nobody can say that it happens now and then, or nobody is started any more.
    wait_until("many deaths", || {
        for pid in e.pids(&m) {
            signal(pid, rustix::process::Signal::KILL);
            killed.insert(pid);
        }
        killed.len() >= 24 || given_up() >= 2
    });
    assert!(killed.len() >= 6, "three deaths each before anybody is given up: {killed:?}");
    let run = || {
        m.run(go, &(CrashKind::Exit, 0, 0), &DataSet::nothing(64).unwrap()).map_err(|e| (e.to_string(), e))
    };
    // The first round may find that nobody is left: that is an error of its own, and not for ever.
    match run() {
        Ok(value) => assert_eq!(value, 64),
        Err((_, Error::NoWorkers { deaths })) => {
            assert!(!deaths.is_empty(), "it says how they died");
            assert_eq!(run().map_err(|(text, _)| text), Ok(64));
        }
        Err((text, _)) => panic!("{text}"),
    }
}
