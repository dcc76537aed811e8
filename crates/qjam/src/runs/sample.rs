//! A run file with a record of every kind, the same each time: what the fuzz target of run files begins from.

use super::record::{self, Began, Record, StoredValue};
use qjam_core::ids::{SeatId, WorkerId};
use qjam_core::job::{Cause, Death};
use qjam_core::journal::{RoundReport, What};

pub(super) fn file() -> Vec<u8> {
    let worker = WorkerId { seat: SeatId(1), incarnation: 2 };
    let began = Began {
        unix_us: 1_794_724_404_000_000,
        pid: 77,
        process: 7,
        nth: 1,
        host: "here".into(),
        program: b"/usr/bin/program".to_vec(),
        program_bytes: 1000,
        program_changed_us: 2000,
        arguments: vec![b"fit".to_vec(), b"x.csv".to_vec()],
        directory: b"/people/ann".to_vec(),
        version: "0.1.0".into(),
        workers: "proc:2, big*4".into(),
        seed: 3,
        resumed: Some("20261115T063324Z-00ff1e".into()),
    };
    let report = RoundReport { round: 0, total_us: 5, ..RoundReport::default() };
    let done = |round, kept| Record::RoundDone {
        round,
        at_us: 20,
        params: Some([round as u8; 32]),
        report: RoundReport { round, ..report },
        kept,
        recalled: round == 1,
    };
    let round = |round| Record::RoundBegan { round, at_us: 10, function: 0, data: 0 };
    let death = Death { last_lines: vec!["a line".into()], ..Death::of(Cause::Signal(9)) };
    let records = [
        (Record::Began(Box::new(began)), &b""[..]),
        (Record::Executable([1; 32]), b""),
        (Record::Build(b"/usr/lib/library.so".to_vec()), b""),
        (Record::Seat { seat: 0, name: "proc:0".into() }, b""),
        (Record::Function { number: 0, name: "a::f".into() }, b""),
        (Record::Data { number: 0, id: [7; 32], chunks: 3, bytes: 99 }, b""),
        (Record::ChunkNames { number: 0, chunks_each: 1, names: vec![5, 6, 7] }, b""),
        (Record::Happened { at_us: 5, what: What::WorkerJoined(worker) }, b""),
        (Record::Happened { at_us: 6, what: What::WorkerLost(worker, death) }, b""),
        (round(0), b""),
        (done(0, StoredValue::Bytes), b"the value"),
        (Record::Shares { round: 0, shares: vec![(0, 3), (1, 4)] }, b""),
        (Record::Metric { at_us: 21, rounds: 1, name: "objective".into(), value: 0.5 }, b""),
        (round(1), b""),
        (done(1, StoredValue::Hash([2; 32])), b""),
        (round(2), b""),
        (Record::RoundFailed { round: 2, at_us: 30, error: "it panicked".into() }, b""),
        (Record::Waited { at_us: 31, text: "waiting for big".into() }, b""),
        (Record::Observed { name: "time".into(), value: Some(vec![1, 2, 3]) }, b""),
        (Record::Full { at_us: 40 }, b""),
        (Record::Counted { at_us: 41, finished: 9, failed: 1 }, b""),
        (Record::Ended { at_us: 50, error: Some("it failed".into()) }, b""),
    ];
    let mut file = record::head().to_vec();
    for (record, tail) in records {
        let start = file.len();
        record.append(&mut file, |out| out.extend_from_slice(tail));
        record::seal(&mut file[start..]);
    }
    file
}
