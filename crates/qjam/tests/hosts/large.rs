//! Payloads that are long: they arrive whole, and cost little more memory than themselves.

use crate::hosts::{Host, claim};
use crate::program::{self, Programs, say};
use qjam::{Ctx, DataSet, Dense, Master, Nothing};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// What a process may take beyond the payload itself.
const EXTRA_BYTES_MAX: u64 = 64 * MIB;

fn number(n: u64) -> f64 {
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as f64
}

#[qjam::map]
fn doubled(values: &[f64], _: &Nothing, ctx: &Ctx) -> Vec<f64> {
    let factor = f64::from(2 + ctx.chunk());
    values.iter().map(|v| v * factor).collect()
}

#[qjam::map]
fn sampled(values: &[f64], _: &Nothing) -> f64 {
    values.iter().step_by(512).sum()
}

#[qjam::map]
fn pages(_: &(), x: &Dense<u8>) -> Vec<u64> {
    let bytes = x.as_slice();
    let sum = bytes.iter().step_by(4096).map(|b| u64::from(*b)).sum();
    vec![bytes.len() as u64, sum, u64::from(bytes[bytes.len() - 1])]
}

#[test]
fn parameters_and_results_of_64_mib_make_the_trip() {
    let [c] = claim(["c"]);
    let m = Master::connect("c*1").unwrap();
    let values: Vec<f64> = (0..64 * MIB / 8).map(number).collect();
    let began = Instant::now();
    let got = m.run(doubled, &values[..], &DataSet::nothing(1).unwrap()).unwrap();
    let took = began.elapsed();
    assert!(got.len() == values.len() && got.iter().zip(&values).all(|(g, v)| *g == v * 2.0));
    println!("64 MiB there and back in {took:.1?}");
    drop(m);
    c.must_be_quiet();
}

/// Private memory of a process.
fn rss_anon(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// Has a program of ours do something, and gives what it says of it and the most private memory that it and the
/// processes of a host were seen to take during that, beyond what they had before.
fn watched(host: &Host, name: &str, argument: &str) -> (String, BTreeMap<String, u64>) {
    let mut program = program::start(name, argument);
    assert_eq!(program.hear().as_deref(), Some("ready"));
    let over = AtomicBool::new(false);
    let master = program.pid();
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut before: BTreeMap<u32, u64> = BTreeMap::new();
            let mut most: BTreeMap<String, u64> = BTreeMap::new();
            while !over.load(Relaxed) {
                let theirs = host.processes().into_iter().map(|p| (p.pid, format!("{:?}", p.kind)));
                for (pid, name) in theirs.chain([(master, "Master".to_owned())]) {
                    let now = rss_anon(pid);
                    let began_with = *before.entry(pid).or_insert(now);
                    let most = most.entry(name).or_default();
                    *most = (*most).max(now.saturating_sub(began_with));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            most
        });
        let said = program.hear().unwrap_or_default();
        over.store(true, Relaxed);
        let (_, status) = program.finish();
        assert!(status.success(), "{status}: {said}");
        (said, watcher.join().unwrap())
    })
}

/// Says that it begins, and leaves time to look at it before that.
fn ready() -> Instant {
    say("ready");
    std::thread::sleep(Duration::from_millis(300));
    Instant::now()
}

pub(crate) const PROGRAMS: Programs = &[
    ("chunk", |argument| {
        let (workers, path) = argument.split_once(' ').unwrap();
        let x = DataSet::<Dense<u8>>::raw(path, 4096).unwrap().partitions(1).unwrap();
        let m = Master::connect(workers).unwrap();
        let began = ready();
        let first = m.run(pages, &(), &x).unwrap();
        let sent = m.last_round().unwrap().chunks_sent;
        let took = began.elapsed().as_secs_f64();
        let second = m.run(pages, &(), &x).unwrap();
        let again = m.last_round().unwrap().chunks_sent;
        say(format!("{took:.1} {first:?} {second:?} {sent} {again}"));
    }),
    ("vector", |argument| {
        let (workers, bytes) = argument.split_once(' ').unwrap();
        let values: Vec<f64> = (0..bytes.parse::<u64>().unwrap() / 8).map(number).collect();
        let expected: f64 = values.iter().step_by(512).sum();
        let m = Master::connect(workers).unwrap();
        let began = ready();
        let got = m.run(sampled, &values[..], &DataSet::nothing(1).unwrap()).unwrap();
        say(format!("{:.1} {}", began.elapsed().as_secs_f64(), got == expected));
    }),
];

/// A file with holes, removed in the end.
struct Sparse(PathBuf);

impl Sparse {
    fn new(bytes: u64) -> Self {
        let path = std::env::temp_dir().join(format!("qjam-large-{}-{bytes}.raw", std::process::id()));
        let file = std::fs::File::create_new(&path).unwrap();
        let sparse = Sparse(path);
        file.set_len(bytes).unwrap();
        // Something in it that tells where it is.
        for at in (0..bytes).step_by(16 << 20) {
            file.write_all_at(&[1 | (at >> 24) as u8], at).unwrap();
        }
        file.write_all_at(&[77], bytes - 1).unwrap();
        sparse
    }
}

impl Drop for Sparse {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn shown(most: &BTreeMap<String, u64>) -> String {
    most.iter().map(|(name, bytes)| format!("{name} +{} MiB", bytes / MIB)).collect::<Vec<_>>().join(", ")
}

/// One chunk of so many bytes, and what it costs in memory.
fn chunk_of(bytes: u64) {
    let [d] = claim(["d"]);
    d.empty_cache();
    let file = Sparse::new(bytes);
    let (said, most) = watched(&d, "chunk", &format!("d*1 {}", file.0.display()));
    let (took, what) = said.split_once(' ').unwrap();
    println!("a chunk of {} MiB: {took} s; {}", bytes / MIB, shown(&most));
    let marks: u64 = (0..bytes).step_by(16 << 20).map(|at| u64::from(1 | (at >> 24) as u8)).sum();
    let sums = [bytes, marks, 77];
    assert_eq!(what, format!("{sums:?} {sums:?} 1 0"), "its length and sums, twice, and sent once");
    for (name, extra) in &most {
        assert!(*extra <= EXTRA_BYTES_MAX, "{name} took {} MiB more", extra / MIB);
    }
    d.must_be_quiet();
    d.empty_cache();
}

/// Parameters of so many bytes.
fn vector_of(bytes: u64) {
    let [d] = claim(["d"]);
    let (said, most) = watched(&d, "vector", &format!("d*1 {bytes}"));
    let (took, is_right) = said.split_once(' ').unwrap();
    println!("a vector of {} MiB: {took} s; {}", bytes / MIB, shown(&most));
    assert_eq!(is_right, "true");
    for (name, extra) in &most {
        assert!(*extra <= EXTRA_BYTES_MAX, "{name} took {} MiB more", extra / MIB);
    }
    d.must_be_quiet();
}

#[test]
fn a_long_chunk_and_a_long_vector_cost_little_memory_besides() {
    chunk_of(256 * MIB);
    vector_of(256 * MIB);
}

#[test]
#[ignore = "ten gigabytes over ssh take minutes"]
fn a_chunk_of_5_gib_costs_little_memory_besides() {
    chunk_of(5 << 30);
}

#[test]
#[ignore = "ten gigabytes over ssh take minutes"]
fn a_vector_of_5_gib_costs_little_memory_besides() {
    vector_of(5 << 30);
}
