//! Processes that are stopped and not killed: whoever says nothing is given up, and whoever was asleep goes on.

use crate::hosts::{Kind, claim, ssh_children, within};
use crate::program::{self, Programs, say};
use crate::work::{compute, data, expected};
use qjam::Master;
use qjam::journal::What;
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// Somebody on a host stops for good while rounds run.
fn stopped(name: &'static str, kind: Kind) {
    let [host] = claim([name]);
    let x = data(9);
    let m = Master::builder().on_log(|_| {}).connect(&format!("{name}*1,proc:1")).unwrap();
    let expected = expected(&x, 3);
    assert_eq!(compute(&m, &x, 3, 5).unwrap(), expected);
    let began = Instant::now();
    let slowest = std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(host.signal(kind, "STOP"), 1));
        let mut slowest = Duration::ZERO;
        while began.elapsed() < Duration::from_secs(22) {
            let round = Instant::now();
            assert_eq!(compute(&m, &x, 3, 5).unwrap(), expected);
            slowest = slowest.max(round.elapsed());
        }
        slowest
    });
    let journal = m.journal();
    let lost: Vec<_> = journal.iter().filter(|e| matches!(e.what, What::WorkerLost(..))).collect();
    println!("{kind:?} stopped: the slowest rounds took {slowest:.1?}; {lost:?}");
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(slowest < Duration::from_secs(12), "others get its blocks after ten seconds");
    let last_join = journal.iter().rposition(|e| matches!(e.what, What::WorkerJoined(_))).unwrap();
    let last_loss = journal.iter().rposition(|e| matches!(e.what, What::WorkerLost(..))).unwrap();
    assert!(last_join > last_loss, "it is there again: {journal:?}");
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

/// A master that is suspended for so long, as a laptop is, and wakes up again.
fn asleep(for_s: u64) -> (u64, u64) {
    let [c] = claim(["c"]);
    let mut program = program::start("sleeper", "c*2");
    for _ in 0..4 {
        assert_eq!(program.hear().as_deref(), Some("right"));
    }
    let pid = Pid::from_raw(program.pid() as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_secs(for_s));
    let alive = c.processes().iter().filter(|p| p.is_ours()).count();
    kill_process(pid, Signal::CONT).unwrap();
    let (said, status) = program.finish();
    println!("asleep for {for_s} s, {alive} processes on the host at its end: {:?}", said.last());
    assert!(status.success(), "{status}");
    let end: Vec<u64> = said.last().unwrap().split(' ').skip(1).map(|n| n.parse().unwrap()).collect();
    c.must_be_quiet();
    (end[0], end[1])
}

#[test]
fn a_master_that_slept_for_five_seconds_goes_on() {
    assert_eq!(asleep(5), (0, 0));
}

#[test]
#[ignore = "it takes half a minute"]
fn a_master_that_slept_for_twenty_seconds_finds_its_host_again() {
    assert_eq!(asleep(20), (1, 0));
}

#[test]
#[ignore = "ssh takes ten seconds to find that a host is out of reach"]
fn a_master_that_is_dropped_while_a_host_is_awaited_leaves_no_ssh() {
    let [c, d] = claim(["c", "d"]);
    d.cut();
    let began = Instant::now();
    let m = std::thread::scope(|scope| {
        let connecting = scope.spawn(|| Master::builder().min_workers(1).connect("c*1,d*1"));
        connecting.join().unwrap()
    });
    println!("connected after {:.1?}", began.elapsed());
    let m = m.unwrap();
    // It is being tried again by now, or soon.
    std::thread::sleep(Duration::from_millis(1_500));
    let began = Instant::now();
    drop(m);
    println!("dropped in {:.0?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(2));
    let me = std::process::id();
    let to_d = || ssh_children(me).into_iter().any(|(_, command)| command.contains(" d "));
    assert!(within(Duration::from_secs(2), || !to_d()), "{:?}", ssh_children(me));
    d.restore();
    c.must_be_quiet();
    d.must_be_quiet();
}
