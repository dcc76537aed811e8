//! Chunks that a host has are not sent again: not in the next run, not by another master, not after a fault.

use crate::hosts::{Host, claim};
use crate::program::{self, Programs, say};
use qjam::{DataSet, Dense, LogLine, Master};
use qjam_conformance::HANG;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const ROW: usize = 64;
const CHUNKS: usize = 1_000;
/// Rows of 512 bytes: chunks of 16 KiB.
const ROWS: usize = CHUNKS * 32;

#[qjam::map]
fn sum(_: &(), x: &Dense<f64>) -> f64 {
    x.as_slice().iter().sum()
}

/// Sixteen megabytes in a thousand chunks, of this kind; in one row something is added.
fn data(kind: u64, changed: Option<usize>) -> DataSet<Dense<f64>> {
    let number = |n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as f64 / 1e3;
    let mut values: Vec<f64> = (0..(ROWS * ROW) as u64).map(|n| number(n ^ (kind << 40))).collect();
    if let Some(row) = changed {
        values[row * ROW] += 1e9;
    }
    DataSet::dense(values, ROW).and_then(|x| x.partitions(CHUNKS)).unwrap()
}

/// What a run computed and sent.
#[derive(Debug)]
struct RunTraffic {
    sum: u64,
    bytes_out: u64,
    chunks_sent: u64,
}

fn run(m: &Master, x: &DataSet<Dense<f64>>) -> RunTraffic {
    let sum = m.run(sum, &(), x).unwrap().to_bits();
    let report = m.last_round().unwrap();
    RunTraffic { sum, bytes_out: report.bytes_out, chunks_sent: report.chunks_sent }
}

pub(crate) const PROGRAMS: Programs = &[("sum", |argument| {
    let mut words = argument.split(' ');
    let (workers, kind) = (words.next().unwrap(), words.next().unwrap().parse().unwrap());
    let changed = words.next().and_then(|row| row.parse().ok());
    let x = data(kind, changed);
    let RunTraffic { sum, bytes_out, chunks_sent } = run(&Master::connect(workers).unwrap(), &x);
    say(format!("{sum} {bytes_out} {chunks_sent}"));
})];

/// A run in a process of its own.
fn run_apart(workers: &str, kind: u64, changed: Option<usize>) -> RunTraffic {
    let changed = changed.map_or(String::new(), |row| row.to_string());
    let mut program = program::start("sum", &format!("{workers} {kind} {changed}"));
    let (said, status) = program.finish();
    assert!(status.success() && said.len() == 1, "{status} {said:?}");
    let numbers: Vec<u64> = said[0].split(' ').map(|n| n.parse().unwrap()).collect();
    RunTraffic { sum: numbers[0], bytes_out: numbers[1], chunks_sent: numbers[2] }
}

fn here(x: &DataSet<Dense<f64>>) -> u64 {
    Master::connect("local:2").unwrap().run(sum, &(), x).unwrap().to_bits()
}

type LogLines = Arc<Mutex<Vec<LogLine>>>;

/// A master with a limit for the host's disk, whose lines are kept.
fn listening(workers: &str, disk_limit: Option<u64>) -> (Master, LogLines) {
    let kept: LogLines = Arc::default();
    let keep = kept.clone();
    let mut builder = Master::builder().on_log(move |line| keep.lock().unwrap().push(line.clone()));
    if let Some(limit) = disk_limit {
        builder = builder.disk_limit(limit);
    }
    (builder.connect(workers).unwrap(), kept)
}

#[test]
fn a_second_run_sends_next_to_nothing_and_a_changed_row_its_chunk() {
    let [c] = claim(["c"]);
    c.empty_cache();
    let x = data(1, None);
    let first = run_apart("c*2", 1, None);
    let second = run_apart("c*2", 1, None);
    let third = run_apart("c*2", 1, Some(17_017));
    println!("first {first:?}\nsecond {second:?}\na row changed {third:?}");
    assert_eq!((first.sum, first.chunks_sent), (here(&x), CHUNKS as u64));
    assert_eq!((second.sum, second.chunks_sent), (first.sum, 0));
    assert!(second.bytes_out < x.bytes() / 100, "{second:?} of {}", x.bytes());
    assert_eq!((third.sum, third.chunks_sent), (here(&data(1, Some(17_017))), 1));
    c.must_be_quiet();
}

#[test]
fn a_flipped_byte_costs_one_chunk() {
    let [c] = claim(["c"]);
    c.empty_cache();
    let x = data(2, None);
    let first = run_apart("c*2", 2, None);
    let packs = c.packs();
    let pack = packs.iter().max_by_key(|path| path.metadata().unwrap().len()).expect("a pack");
    let file = std::fs::File::options().read(true).write(true).open(pack).unwrap();
    let mut byte = [0];
    // In the middle of a chunk in the middle of the pack: a thousand times 16 KiB and a record's head.
    file.read_exact_at(&mut byte, 8 << 20).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], 8 << 20).unwrap();
    let second = run_apart("c*2", 2, None);
    let third = run_apart("c*2", 2, None);
    println!("{packs:?}: after a flipped byte {second:?}, then {third:?}");
    assert_eq!((first.sum, second.sum, third.sum), (here(&x), first.sum, first.sum));
    assert_eq!((second.chunks_sent, third.chunks_sent), (1, 0));
}

#[test]
fn two_masters_at_once_share_what_the_host_has() {
    let [d] = claim(["d"]);
    d.empty_cache();
    let (x, y) = (data(3, None), data(4, None));
    let seen: Vec<(RunTraffic, RunTraffic)> = std::thread::scope(|scope| {
        let both = [&x, &y].map(|own| {
            let (x, y) = (&x, &y);
            scope.spawn(move || {
                let m = Master::connect("d*1").unwrap();
                let first = run(&m, own);
                // What the other has brought meanwhile, or is bringing.
                let other = if std::ptr::eq(own, x) { y } else { x };
                (first, run(&m, other))
            })
        });
        both.into_iter().map(|run| run.join().unwrap()).collect()
    });
    println!("{seen:?}");
    let sums = [here(&x), here(&y)];
    assert_eq!([seen[0].0.sum, seen[0].1.sum], sums);
    assert_eq!([seen[1].1.sum, seen[1].0.sum], sums);
    let later = run_apart("d*1", 3, None).chunks_sent + run_apart("d*1", 4, None).chunks_sent;
    assert_eq!(later, 0);
    d.must_be_quiet();
}

/// A run that must go on in memory, and say so.
fn goes_on_in_memory(host: &Host, kind: u64, disk_limit: Option<u64>, says: &[&str]) {
    let x = data(kind, None);
    let (m, kept) = listening(&format!("{}*2", host.name), disk_limit);
    let seen = run(&m, &x);
    let again = run(&m, &x);
    let lines = kept.lock().unwrap().clone();
    println!("{:?}, {:?}: {:?}", seen, again, lines.iter().map(|l| &l.text).collect::<Vec<_>>());
    assert_eq!((seen.sum, again.sum), (here(&x), seen.sum));
    assert_eq!(again.chunks_sent, 0, "what is in memory is there for the run");
    let told = lines.iter().filter(|l| l.worker == host.name && says.iter().all(|s| l.text.contains(s)));
    assert_eq!(told.count(), 1, "it is said once: {lines:?}");
}

#[test]
fn a_limit_is_kept_and_the_rest_stays_in_memory() {
    let [c] = claim(["c"]);
    c.empty_cache();
    goes_on_in_memory(&c, 5, Some(4 << 20), &["memory"]);
    let taken: u64 = c.packs().iter().map(|path| path.metadata().unwrap().len()).sum();
    println!("{taken} bytes on disk");
    assert!(taken <= 4 << 20, "{taken} bytes on disk");
}

/// Undoes what was done to a host, even when the test fails.
struct Undo<'a>(&'a Host, String);

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        self.0.sh(&self.1);
    }
}

#[test]
fn a_full_disk_and_one_that_cannot_be_written_cost_no_run() {
    let [c] = claim(["c"]);
    c.empty_cache();
    let cache = format!("{}/.cache/qjam/cache", c.home_there());
    // Somebody has been there before, so that the folder is there.
    run_apart("c*1", 6, Some(1));
    {
        let _undo = Undo(&c, format!("umount -l {cache}"));
        let uid = c.uid();
        c.sh(&format!("mount -t tmpfs -o size=2m,mode=700,uid={uid},gid={uid} full {cache}"));
        goes_on_in_memory(&c, 6, None, &["memory"]);
        c.must_be_quiet();
    }
    {
        let _undo = Undo(&c, format!("umount -l {cache}"));
        c.sh(&format!("mount --bind {cache} {cache} && mount -o remount,bind,ro {cache}"));
        goes_on_in_memory(&c, 7, None, &["memory"]);
        c.must_be_quiet();
    }
}

#[test]
fn a_round_that_is_cancelled_while_a_host_looks_for_chunks_does_not_harm_the_next() {
    let [_d] = claim(["d"]);
    run_apart("d*1", 8, None);
    for (n, ms) in [1, 3, 10, 20, 40, 80].into_iter().enumerate() {
        // Most of it is there and is compared with its names, which takes a while; some is not.
        let m = Master::connect("d*1").unwrap();
        let x = data(8, Some(100 + n));
        let round = m.submit(sum, &(), &x).unwrap();
        std::thread::sleep(Duration::from_millis(ms));
        round.cancel();
        // What the host says of the cancelled round comes when nobody here knows it any more.
        std::thread::sleep(Duration::from_millis(200));
        let began = Instant::now();
        let mut again = m.submit(sum, &(), &x).unwrap();
        let value = again.wait_at_most(HANG).unwrap();
        assert_eq!(value.map(f64::to_bits), Some(here(&x)), "cancelled after {ms} ms; it hangs");
        println!("cancelled after {ms} ms; the next took {:.0?}", began.elapsed());
    }
}
