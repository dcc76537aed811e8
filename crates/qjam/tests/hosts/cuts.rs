//! A cable that is pulled: for a while, and for ever.

use crate::hosts::{Process, claim, within};
use crate::work::{compute_with, data, expected};
use qjam::journal::{Entry, What};
use qjam::{Error, Master};
use qjam_conformance::HANG;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What became of a run during which a cable was pulled.
struct Ran {
    is_right: bool,
    /// Chunks sent after the cable was back.
    chunks_sent: u64,
    journal: Vec<Entry>,
    rounds: u64,
    took: Duration,
    /// How long the cable was out, if it was put back: longer than asked for on a machine that is busy enough.
    was_out: Duration,
    /// When the cable was pulled, as the journal counts.
    cut_at_us: u64,
}

/// Rounds on two hosts until some time after the cable of one is back.
fn run(hosts: [&'static str; 2], cut_for: Option<Duration>, after: Duration) -> Ran {
    let [a, b] = claim(hosts);
    // While a host is away the other may be sent its chunks; each has half of them before that.
    a.empty_cache();
    b.empty_cache();
    let x = data(7);
    // Nobody gets a copy of a block because its worker seems late: what is sent is sent because of the cut.
    let workers = format!("{}*1,{}*1", a.name, b.name);
    let m = Master::builder().balance(false).connect(&workers).unwrap();
    let began = Instant::now();
    let at = Duration::from_millis(700);
    let back = at + cut_for.unwrap_or(Duration::from_secs(16));
    let mut rounds = 0;
    let mut sent_before = None;
    let sent = || -> u64 {
        let reports = m.journal().into_iter().filter_map(|e| match e.what {
            What::Report(report) => Some(report.chunks_sent),
            _ => None,
        });
        reports.sum()
    };
    let mut hash = 0;
    let was_out = std::thread::scope(|scope| {
        let cut = scope.spawn(|| {
            std::thread::sleep(at);
            let cut = Instant::now();
            a.cut();
            if let Some(cut_for) = cut_for {
                std::thread::sleep(cut_for);
                a.restore();
            }
            cut.elapsed()
        });
        // The last round before the cable is back may take until long after that: TCP has grown patient.
        let mut rounds_after = 0;
        let is_lost = || m.journal().iter().any(|e| matches!(e.what, What::WorkerLost(..)));
        while began.elapsed() < back + after || rounds_after < 5 || (cut_for.is_none() && !is_lost()) {
            assert!(began.elapsed() < back + HANG, "nobody is lost");
            if began.elapsed() > back {
                sent_before.get_or_insert_with(sent);
                rounds_after += 1;
            }
            hash = compute_with(&m, &x, 1, 4, |_| {}).unwrap();
            rounds += 1;
        }
        cut.join().unwrap()
    });
    let ran = Ran {
        is_right: hash == expected(&x, 1),
        chunks_sent: sent() - sent_before.unwrap(),
        rounds,
        took: began.elapsed(),
        was_out,
        // The journal begins with the master, which is ready when its last worker has joined.
        cut_at_us: joined_at(&m.journal()) + at.as_micros() as u64,
        journal: m.journal(),
    };
    drop(m);
    a.restore();
    // The server's process for the old connection may not know yet, and is not ours.
    let gone = within(HANG, || !a.processes().iter().any(Process::is_ours));
    assert!(gone, "{:?}", a.processes());
    b.must_be_quiet();
    ran
}

fn joined_at(journal: &[Entry]) -> u64 {
    let joined = journal.iter().filter(|e| matches!(e.what, What::WorkerJoined(_)));
    joined.map(|e| e.at.0).nth(1).unwrap()
}

/// When a worker was lost after the cable was pulled, in seconds from then, and whether one joined after that.
fn lost(ran: &Ran) -> Vec<(f64, bool)> {
    let losses = ran.journal.iter().enumerate().filter(|(_, e)| matches!(e.what, What::WorkerLost(..)));
    let seconds = |us: u64| (us as f64 - ran.cut_at_us as f64) / 1e6;
    let joins_after = |n: usize| ran.journal[n..].iter().any(|e| matches!(e.what, What::WorkerJoined(_)));
    losses.map(|(n, e)| (seconds(e.at.0), joins_after(n))).collect()
}

#[test]
fn a_cable_that_is_pulled_for_six_seconds_is_ridden_out() {
    let mut ran = run(["a", "b"], Some(Duration::from_secs(6)), Duration::from_secs(2));
    // A host that hears nothing for 15 s ends, and rightly so: then the cable was not pulled for six seconds.
    for _ in 0..5 {
        if ran.was_out < Duration::from_secs(9) {
            break;
        }
        ran = run(["a", "b"], Some(Duration::from_secs(6)), Duration::from_secs(2));
    }
    println!(
        "{} rounds in {:.1?}; {} chunks sent again; lost {:?}",
        ran.rounds,
        ran.took,
        ran.chunks_sent,
        lost(&ran)
    );
    assert!(ran.is_right);
    assert_eq!(ran.chunks_sent, 0, "chunks are on the host's disk, and those of the other on its own");
    assert_eq!(lost(&ran).len(), 0, "{:?}", ran.journal);
}

#[test]
#[ignore = "a measurement, of a minute"]
fn a_cable_that_is_pulled_for_twenty_seconds_costs_no_chunk() {
    let ran = run(["a", "b"], Some(Duration::from_secs(20)), Duration::from_secs(12));
    println!(
        "{} rounds in {:.1?}; {} chunks sent again; lost {:?}",
        ran.rounds,
        ran.took,
        ran.chunks_sent,
        lost(&ran)
    );
    assert!(ran.is_right);
    let lost = lost(&ran);
    // The first try to reach it again may have ended while the cable was still out.
    assert!(lost[0].0 < 16.0 && lost.len() <= 2, "{lost:?}");
    assert!(lost.iter().all(|(_, joins)| *joins), "it joins again: {:?}", ran.journal);
}

#[test]
fn a_cable_that_is_pulled_for_ever_costs_the_host() {
    let ran = run(["far", "slow"], None, Duration::from_secs(1));
    println!("{} rounds in {:.1?}; lost after {:?}", ran.rounds, ran.took, lost(&ran));
    assert!(ran.is_right);
    let lost = lost(&ran);
    assert_eq!(lost.len(), 1, "{lost:?}");
}

#[test]
#[ignore = "a measurement, of half a minute"]
fn cables_that_are_all_pulled_are_told_and_waited_for_aloud() {
    let [a, b] = claim(["a", "b"]);
    let x = data(7);
    let waits: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = waits.clone();
    let builder = Master::builder().on_wait(move |wait| heard.lock().unwrap().push(wait.to_string()));
    let m = builder.connect("a*1,b*1").unwrap();
    compute_with(&m, &x, 1, 4, |_| {}).unwrap();
    a.cut();
    b.cut();
    let begun = Instant::now();
    let error = loop {
        if let Err(error) = compute_with(&m, &x, 1, 4, |_| {}) {
            break error;
        }
        assert!(begun.elapsed() < HANG, "nobody is lost");
    };
    let took = begun.elapsed();
    println!("told after {took:.1?}: {error}\n{:#?}", waits.lock().unwrap());
    a.restore();
    b.restore();
    assert!(matches!(error, Error::NoWorkers { .. }), "{error}");
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert!(waits.lock().unwrap().iter().any(|wait| wait.contains('a') && wait.contains('b')));
    assert_eq!(compute_with(&m, &x, 1, 4, |_| {}).unwrap(), expected(&x, 1), "they are tried once more");
    drop(m);
    for host in [a, b] {
        let gone = within(HANG, || !host.processes().iter().any(Process::is_ours));
        assert!(gone, "{:?}", host.processes());
    }
}
