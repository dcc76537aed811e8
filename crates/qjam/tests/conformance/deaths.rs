//! User code that ends its process: told with cause and chunks after three tries, and the master goes on.

use crate::support::{pids, within};
use qjam::job::{Activity, Cause};
use qjam::journal::What;
use qjam::{Ctx, DataSet, Error, Master, Nothing, Wire};
use std::time::{Duration, Instant};

/// Ways to go.
#[derive(Clone, Copy, Debug, Wire, PartialEq)]
enum Way {
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
fn go((way, from, to): &(Way, u32, u32), _: &Nothing, ctx: &Ctx) -> u64 {
    if !(*from..*to).contains(&ctx.chunk()) {
        return 1;
    }
    eprintln!("last words about chunk {}", ctx.chunk());
    match way {
        Way::Exit => std::process::exit(3),
        Way::Abort => std::process::abort(),
        Way::NullPointer => follow_null(),
        Way::Overflow => deeper(1),
        Way::Signal => {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            0
        }
        Way::Hog => std::hint::black_box(vec![ctx.chunk() as u8 + 1; HOG_BYTES]).len() as u64,
    }
}

fn is_well(m: &Master, after: &str) {
    let tasks = DataSet::nothing(64).unwrap();
    let run = m.run(go, &(Way::Exit, 0, 0), &tasks).map_err(|e| e.to_string());
    assert_eq!(run, Ok(64), "after {after}");
}

/// One chunk that kills, on processes of every shape. (A thread takes the whole program with it.)
fn check(way: Way, expected: impl Fn(&Cause) -> bool) {
    for engine in ["proc:1", "proc:3", "proc:2*2"] {
        let m = Master::builder().memory_limit(1 << 30).on_log(|_| {}).connect(engine).unwrap();
        let chunk = 17;
        let error = m.run(go, &(way, chunk, chunk + 1), &DataSet::nothing(64).unwrap()).unwrap_err();
        let Error::Poison { chunks, deaths } = &error else { panic!("{way:?} on {engine}: {error}") };
        assert!(chunks.contains(&chunk), "{way:?} on {engine}: {chunks:?}");
        assert_eq!(deaths.len(), 3, "{way:?} on {engine}");
        for (worker, death) in deaths {
            assert!(worker.starts_with("proc:"), "{worker}");
            assert!(expected(&death.cause), "{way:?} on {engine}: {death}");
            assert!(death.last_lines.iter().any(|l| l.starts_with("last words about chunk")), "{death:?}");
            assert_eq!(death.activity, Activity::Mapping);
        }
        assert!(error.to_string().contains("remedy"), "{error}");
        is_well(&m, &format!("{way:?} on {engine}"));
    }
}

#[test]
fn an_exit_is_told_with_its_code() {
    check(Way::Exit, |cause| *cause == Cause::Exited(3));
}

#[test]
fn an_abort_and_a_signal_are_told_with_their_number() {
    check(Way::Abort, |cause| *cause == Cause::Signal(6));
    check(Way::Signal, |cause| *cause == Cause::Signal(9));
}

#[test]
fn a_bad_pointer_and_a_full_stack_are_told_as_signals() {
    check(Way::NullPointer, |cause| *cause == Cause::Signal(11));
    // Where Rust's runtime notices it aborts; on a thread it did not start it cannot notice.
    check(Way::Overflow, |cause| matches!(cause, Cause::Signal(6 | 11)));
}

#[test]
fn an_allocation_over_the_limit_is_told_with_limit_and_size() {
    check(Way::Hog, |cause| {
        *cause == Cause::OutOfMemory { limit_bytes: 1 << 30, asked_bytes: HOG_BYTES as u64 }
    });
    let m = Master::builder().memory_limit(1 << 30).on_log(|_| {}).connect("proc:1").unwrap();
    let text = m.run(go, &(Way::Hog, 0, 1), &DataSet::nothing(1).unwrap()).unwrap_err().to_string();
    for part in ["out of memory", "3221225472", "1073741824", "chunks 0..1"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_function_that_closes_files_that_are_not_its_own_harms_its_process_only() {
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
    let m = Master::builder().on_log(|_| {}).connect("proc:2").unwrap();
    let started = Instant::now();
    let error = m.run(close_all, &(), &DataSet::nothing(8).unwrap()).unwrap_err();
    assert!(matches!(error, Error::Poison { .. } | Error::NoWorkers { .. }), "{error}");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    is_well(&m, "files were closed");
}

#[test]
fn a_function_that_always_kills_can_be_tried_again_and_again() {
    for engine in ["proc:1", "proc:2"] {
        let m = Master::builder().on_log(|_| {}).connect(engine).unwrap();
        for n in 0..6 {
            let error = m.run(go, &(Way::Exit, 0, 64), &DataSet::nothing(64).unwrap()).unwrap_err();
            assert!(matches!(error, Error::Poison { .. }), "{engine}, try {n}: {error}");
        }
        is_well(&m, "many deaths");
        assert!(!m.journal().iter().any(|e| matches!(e.what, What::SeatGivenUp(_))), "{engine}");
    }
}

#[test]
fn a_death_costs_only_what_was_not_delivered() {
    #[qjam::map]
    fn once(marks: &String, _: &Nothing, ctx: &Ctx) -> u64 {
        std::thread::sleep(Duration::from_millis(10));
        let first = std::fs::File::create_new(format!("{marks}/{}", ctx.chunk())).is_ok();
        if first && ctx.chunk() == 30 {
            std::process::exit(1);
        }
        u64::from(first)
    }
    let folder = crate::support::Folder::new();
    let marks = folder.file("").to_string_lossy().into_owned();
    let m =
        Master::builder().deliver_after(Duration::from_millis(20)).on_log(|_| {}).connect("proc:2").unwrap();
    let firsts = m.run(once, &marks, &DataSet::nothing(32).unwrap()).unwrap();
    // The one that died had finished 14 blocks before block 30, and kept at most three of them to itself.
    assert!(firsts >= 32 - 4, "{firsts} of 32 counted the first time they were run");
    let report = m.last_round().unwrap();
    assert_eq!(report.lost, 1);
    assert!(report.retries <= 5, "{} blocks were given out again", report.retries);
}

#[test]
fn a_worker_killed_while_idle_is_started_again() {
    let m = Master::connect("proc:3").unwrap();
    for n in 0..4 {
        let joined = || m.journal().iter().filter(|e| matches!(e.what, What::WorkerJoined(_))).count();
        assert!(within(Duration::from_secs(5), || joined() == 3 * (n + 1)), "kill {n}");
        std::thread::sleep(Duration::from_millis(50)); // who has joined has yet to sit down
        let before = pids(&m);
        for pid in &before {
            crate::support::signal(*pid, rustix::process::Signal::KILL);
        }
        let replaced = || {
            let now = pids(&m);
            now.len() == 3 && now.iter().all(|pid| !before.contains(pid))
        };
        assert!(within(Duration::from_secs(5), replaced), "kill {n}: {:?}", m.workers());
        is_well(&m, "idle workers were killed");
    }
    let idle = m.journal().into_iter().filter(|e| {
        matches!(&e.what, What::WorkerLost(_, d) if d.activity == Activity::Idle && d.cause == Cause::Signal(9))
    });
    assert!(idle.count() >= 10, "deaths while idle are told as such");
}

#[test]
fn all_workers_may_be_killed_at_once_and_often() {
    #[qjam::map]
    fn nap(_: &(), _: &Nothing) -> u64 {
        std::thread::sleep(Duration::from_millis(5));
        1
    }
    let m = Master::builder().on_log(|_| {}).connect("proc:3").unwrap();
    let tasks = DataSet::nothing(60).unwrap();
    for n in 0..8 {
        let pending = m.submit(nap, &(), &tasks).unwrap();
        // Twice in a round: a third death inside the same block would rightly be held against the block.
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(7 * n % 40));
            for pid in pids(&m) {
                crate::support::signal(pid, rustix::process::Signal::KILL);
            }
        }
        assert_eq!(pending.wait().map_err(|e| e.to_string()), Ok(60), "wave {n}");
    }
}

#[test]
fn workers_killed_faster_than_they_start_do_not_spoil_the_master() {
    let m = Master::builder().on_log(|_| {}).connect("proc:2").unwrap();
    let until = Instant::now() + Duration::from_millis(2_500);
    while Instant::now() < until {
        for pid in pids(&m) {
            crate::support::signal(pid, rustix::process::Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let run = || m.run(go, &(Way::Exit, 0, 0), &DataSet::nothing(64).unwrap());
    // The first round may find that nobody is left; that is an error of its own, and not for ever.
    if let Err(e) = run() {
        assert!(matches!(e, Error::NoWorkers { .. }), "{e}");
        assert_eq!(run().map_err(|e| e.to_string()), Ok(64));
    }
}
