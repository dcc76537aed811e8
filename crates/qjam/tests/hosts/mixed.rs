//! Many rounds at once over data sets that come and go and share chunks, some of them cancelled, while executors die:
//! what is told, asked for, kept and forgotten must agree on both sides, whatever the order.

use crate::hosts::{Host, Kind, claim};
use crate::program::{self, Programs, say};
use qjam::journal::What;
use qjam::{DataSet, Dense, Master, Pending, Rng};
use qjam_conformance::HANG;
use std::time::{Duration, Instant};

const COLS: usize = 64;
/// Rows to a chunk: 8 KiB.
const ROWS: usize = 16;
/// Different chunks that data sets are made of.
const POOL: u64 = 400;

#[qjam::map]
fn weigh(weights: &[f64], x: &Dense<f64>) -> Vec<f64> {
    let at = |n: usize| weights[n % weights.len()];
    let sum: f64 = x.as_slice().iter().enumerate().map(|(n, v)| v * at(n)).sum();
    // As wide as the parameters: long ones make long results.
    weights.iter().map(|w| w + sum).collect()
}

fn chunk(kind: u64, n: u64) -> impl Iterator<Item = f64> {
    (0..(ROWS * COLS) as u64)
        .map(move |i| ((i * 7_919 + n * 104_729 + kind * 1_299_709) % 9_973) as f64 / 8.0)
}

/// A few chunks of the pool, in some order.
struct Picked {
    data: DataSet<Dense<f64>>,
    chunks: Vec<u64>,
}

fn pick(rng: &mut Rng, kind: u64) -> Picked {
    let chunks: Vec<u64> = (0..1 + rng.below(60)).map(|_| rng.below(POOL)).collect();
    let values = chunks.iter().flat_map(|n| chunk(kind, *n)).collect();
    Picked { data: DataSet::dense(values, COLS).and_then(|x| x.chunk_records(ROWS)).unwrap(), chunks }
}

/// What a round must give, to the last bit: all numbers are such that no sum is rounded.
fn right(weights: &[f64], kind: u64, chunks: &[u64]) -> Vec<f64> {
    let at = |n: usize| weights[n % weights.len()];
    let sum = |n: &u64| chunk(kind, *n).enumerate().map(|(i, v)| v * at(i)).sum::<f64>();
    let total: f64 = chunks.iter().map(sum).sum();
    weights.iter().map(|w| w * chunks.len() as f64 + total).collect()
}

struct Round {
    pending: Pending<Vec<f64>>,
    weights: Vec<f64>,
    chunks: Vec<u64>,
}

/// What went on.
#[derive(Debug, Default)]
struct Tally {
    right: u64,
    cancelled: u64,
    killed: u64,
    masters: u64,
}

fn mix(hosts: [&Host; 2], for_s: u64, seed: u64) -> Tally {
    let mut rng = Rng::keyed(seed, 0, 0);
    let mut tally = Tally::default();
    let end = Instant::now() + Duration::from_secs(for_s);
    while Instant::now() < end {
        tally.masters += 1;
        // A pool of its own for each master, so that its chunks are not there yet.
        let kind = u64::from(std::process::id()) * 100 + tally.masters;
        let workers = hosts.map(|host| format!("{}*{}", host.name, 1 + rng.below(2))).join(",");
        let m = Master::builder().on_log(|_| {}).connect(&workers).unwrap();
        let mut sets: Vec<Picked> = Vec::new();
        let mut rounds: Vec<Round> = Vec::new();
        // A third death inside the same block would rightly be held against the block.
        let mut kills = 0;
        for _ in 0..300 {
            if sets.len() < 2 || rng.below(8) == 0 {
                sets.push(pick(&mut rng, kind));
            }
            match rng.below(20) {
                0..8 => {
                    let set = &sets[rng.below(sets.len() as u64) as usize];
                    // Short ones go inside frames, long ones in segments.
                    let width = if rng.below(3) == 0 { 6_000 } else { 7 };
                    let weights: Vec<f64> = (0..width).map(|n| ((n * 31) % 17) as f64).collect();
                    let pending = m.submit(weigh, &weights[..], &set.data).unwrap();
                    rounds.push(Round { pending, weights, chunks: set.chunks.clone() });
                }
                8..15 if !rounds.is_empty() => {
                    let n = rng.below(rounds.len() as u64) as usize;
                    let Round { mut pending, weights, chunks } = rounds.swap_remove(n);
                    let value = pending.wait_at_most(HANG).unwrap_or_else(|e| panic!("{e}"));
                    let Some(value) = value else { panic!("a round hangs on {workers}: {:#?}", tail(&m)) };
                    assert!(value == right(&weights, kind, &chunks), "wrong bits on {workers}");
                    tally.right += 1;
                }
                15..17 if !rounds.is_empty() => {
                    let n = rng.below(rounds.len() as u64) as usize;
                    rounds.swap_remove(n).pending.cancel();
                    tally.cancelled += 1;
                }
                17 if sets.len() > 2 => {
                    sets.swap_remove(rng.below(sets.len() as u64) as usize);
                }
                18 if rng.below(8) == 0 && kills < 2 => {
                    kills += 1;
                    hosts[rng.below(2) as usize].signal(Kind::Executor, "KILL");
                    tally.killed += 1;
                }
                _ => std::thread::sleep(Duration::from_micros(rng.below(3_000))),
            }
        }
    }
    tally
}

fn tail(m: &Master) -> Vec<String> {
    let journal = m.journal();
    journal.iter().rev().take(20).map(|entry| format!("{entry:?}")).collect()
}

#[test]
fn rounds_at_once_over_shared_chunks_are_right() {
    let [c, d] = claim(["c", "d"]);
    println!("{:?}", mix([&c, &d], 3, 1));
    c.must_be_quiet();
    d.must_be_quiet();
}

#[test]
#[ignore = "it takes a minute"]
fn many_rounds_at_once_over_shared_chunks_are_right() {
    let [far, slow] = claim(["far", "slow"]);
    for seed in 2..6 {
        println!("{:?}", mix([&far, &slow], 15, seed));
    }
    far.must_be_quiet();
    slow.must_be_quiet();
}

#[test]
fn hundreds_of_rounds_over_as_many_data_sets_can_wait_at_once() {
    let [c] = claim(["c"]);
    let m = Master::connect("c*2").unwrap();
    let kind = u64::from(std::process::id()) * 100;
    let began = Instant::now();
    let rounds: Vec<(Pending<Vec<f64>>, Vec<u64>)> = (0..700)
        .map(|n| {
            let chunks = vec![2 * n, 2 * n + 1];
            let values = chunks.iter().flat_map(|n| chunk(kind, *n)).collect();
            let data = DataSet::dense(values, COLS).and_then(|x| x.chunk_records(ROWS)).unwrap();
            (m.submit(weigh, &[1.0, 2.0], &data).unwrap(), chunks)
        })
        .collect();
    for (round, chunks) in rounds {
        assert!(round.wait().unwrap() == right(&[1.0, 2.0], kind, &chunks));
    }
    println!("700 rounds in {:.1?}", began.elapsed());
    assert!(m.journal().iter().all(|e| !matches!(e.what, What::WorkerLost(..))), "{:?}", tail(&m));
    drop(m);
    c.must_be_quiet();
}

/// Open files and private memory, in KiB, of the master and of the processes of a host.
fn held(host: &Host) -> Vec<(String, u64, u64)> {
    let theirs =
        host.processes().into_iter().filter(|p| p.is_ours()).map(|p| (format!("{:?}", p.kind), p.pid));
    let mut all: Vec<(String, u64, u64)> = theirs
        .chain([("Master".to_owned(), std::process::id())])
        .map(|(name, pid)| {
            let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64;
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
            (name, files, line.split_whitespace().next().unwrap().parse().unwrap())
        })
        .collect();
    all.sort();
    all
}

pub(crate) const PROGRAMS: Programs = &[("many rounds", |argument| {
    let [c] = claim(["c"]);
    let m = Master::connect("c*2").unwrap();
    let kind = u64::from(std::process::id()) * 100;
    let mut rng = Rng::keyed(3, 0, 0);
    let mut rounds = |times: u64| {
        for n in 0..times {
            // Data that comes and goes, short and long parameters, some of it called off.
            let set = pick(&mut rng, kind);
            let weights = vec![1.0; if n % 2 == 0 { 6_000 } else { 3 }];
            let round = m.submit(weigh, &weights[..], &set.data).unwrap();
            if n % 5 == 0 { round.cancel() } else { drop(round.wait().unwrap()) }
        }
        held(&c)
    };
    let before = rounds(200);
    let after = rounds(argument.parse().unwrap());
    for ((name, files, kib), (_, files_after, kib_after)) in before.into_iter().zip(after) {
        say(format!("{name} {files} {files_after} {kib} {kib_after}"));
    }
})];

#[test]
fn data_that_comes_and_goes_holds_nobody_up() {
    hold_no_more_after("100");
}

#[test]
#[ignore = "it takes half a minute"]
fn thousands_of_rounds_hold_no_more_than_hundreds() {
    hold_no_more_after("3000");
}

fn hold_no_more_after(rounds: &str) {
    let mut program = program::start("many rounds", rounds);
    let (said, status) = program.finish();
    println!("{said:#?}");
    assert!(status.success() && said.len() == 4, "{status}: {said:?}");
    for line in said {
        let numbers: Vec<u64> = line.split(' ').skip(1).map(|n| n.parse().unwrap()).collect();
        assert!(numbers[1] <= numbers[0] + 8, "open files of {line}");
        assert!(numbers[3] <= numbers[2] + (8 << 10), "memory of {line}");
    }
}
