//! Processes that are stopped and not killed: whoever says nothing is given up, and whoever was asleep goes on.

use crate::hosts::{Kind, claim};
use crate::program::{self, Programs, say};
use crate::work::{compute, data, expected};
use qjam::Master;
use qjam::journal::{Entry, What};
use qjam_conformance::HANG;
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// Somebody on a host stops for good while rounds run.
fn stopped(name: &'static str, kind: Kind) {
    let [host] = claim([name]);
    let x = data(9);
    let m = Master::builder().on_log(|_| {}).connect(&format!("{name}*1,proc:1")).unwrap();
    let expected = expected(&x, 3);
    assert_eq!(compute(&m, &x, 3, 5).unwrap(), expected);
    assert_eq!(host.signal(kind, "STOP"), 1);
    let first = |is: fn(&What) -> bool| m.journal().iter().position(|e| is(&e.what));
    let lost = || first(|what| matches!(what, What::WorkerLost(..)));
    let joined_again = || {
        let lost = lost()?;
        m.journal()[lost..].iter().position(|e| matches!(e.what, What::WorkerJoined(_)))
    };
    let end = Instant::now() + 2 * HANG;
    while joined_again().is_none() {
        assert!(Instant::now() < end, "{kind:?} stopped, and nobody takes its place: {:?}", m.journal());
        assert_eq!(compute(&m, &x, 3, 5).unwrap(), expected);
    }
    let journal = m.journal();
    let losses = journal.iter().filter(|e| matches!(e.what, What::WorkerLost(..))).count();
    assert_eq!(losses, 1, "{journal:?}");
    // Rounds go on as soon as it is suspected, while it is still waited for.
    let suspected = first(|what| matches!(what, What::WorkerSuspected(_))).unwrap();
    let over = |e: &Entry| matches!(e.what, What::RoundOver { finished: true, .. });
    assert!(journal[suspected..lost().unwrap()].iter().any(over), "{journal:?}");
    drop(m);
    host.must_be_quiet();
}

#[test]
#[ignore = "each takes half a minute"]
fn an_executor_that_is_stopped_is_replaced() {
    stopped("c", Kind::Executor);
}

#[test]
#[ignore = "each takes half a minute"]
fn a_supervisor_that_is_stopped_is_replaced() {
    stopped("d", Kind::Supervisor);
}

pub(crate) const PROGRAMS: Programs = &[("sleeper", |workers| {
    let x = data(10);
    let expected = expected(&x, 2);
    let m = Master::builder().on_log(|_| {}).connect(workers).unwrap();
    let mut sent = Vec::new();
    for _ in 0..15 {
        assert_eq!(compute(&m, &x, 2, 5).unwrap(), expected);
        sent.push(
            m.journal()
                .into_iter()
                .filter_map(|e| match e.what {
                    What::Report(report) => Some(report.chunks_sent),
                    _ => None,
                })
                .sum::<u64>(),
        );
        say("right");
    }
    let lost = m.journal().into_iter().filter(|e| matches!(e.what, What::WorkerLost(..))).count();
    say(format!("end {lost} {}", sent[14] - sent[2]));
})];

/// A master that is suspended for so long, as a laptop is, and wakes up again: how many workers it lost, how many chunks it
/// sent again, and how long it was suspended, which is longer on a machine that is busy enough.
fn asleep(for_s: u64) -> ((u64, u64), Duration) {
    let [c] = claim(["c"]);
    let mut program = program::start("sleeper", "c*2");
    for _ in 0..4 {
        assert_eq!(program.hear().as_deref(), Some("right"));
    }
    let pid = Pid::from_raw(program.pid() as i32).unwrap();
    let stopped = Instant::now();
    kill_process(pid, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_secs(for_s));
    let alive = c.processes().iter().filter(|p| p.is_ours()).count();
    kill_process(pid, Signal::CONT).unwrap();
    let slept = stopped.elapsed();
    let (said, status) = program.finish();
    println!("asleep for {for_s} s, {alive} processes on the host at its end: {:?}", said.last());
    assert!(status.success(), "{status}");
    let end: Vec<u64> = said.last().unwrap().split(' ').skip(1).map(|n| n.parse().unwrap()).collect();
    c.must_be_quiet();
    ((end[0], end[1]), slept)
}

#[test]
fn a_master_that_slept_for_five_seconds_goes_on() {
    let (mut end, mut slept) = asleep(5);
    // A host that hears nothing for 15 s ends, and rightly so: then the master did not sleep for five seconds.
    for _ in 0..5 {
        if slept < Duration::from_secs(9) {
            break;
        }
        (end, slept) = asleep(5);
    }
    assert_eq!(end, (0, 0));
}

#[test]
#[ignore = "it takes half a minute"]
fn a_master_that_slept_for_twenty_seconds_finds_its_host_again() {
    assert_eq!(asleep(20).0, (1, 0));
}
