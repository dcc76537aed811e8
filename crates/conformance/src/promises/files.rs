//! Data in files: larger than what workers keep, moved, changed and cut short.

use crate::Engine;
use crate::support::{Folder, Gate, Walk, bits, rugged, serial};
use qjam::job::FaultKind;
use qjam::{Ctx, DataSet, Dense, Error, Lines, Master};
use std::fs;
use std::path::Path;

#[qjam::map]
fn sums(scale: &f64, x: &Dense<f64>) -> (f64, u64) {
    (x.as_slice().iter().map(|v| v * scale).sum(), x.rows() as u64)
}

#[qjam::map]
fn lengths(_: &(), lines: &Lines) -> (u64, f64) {
    (lines.len() as u64, lines.iter().map(|l| 1.0 / (l.len() as f64 + 0.5)).sum())
}

fn write_raw(path: &Path, values: &[f64]) {
    fs::write(path, values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
}

fn write_npy(path: &Path, values: &[f64], cols: usize) {
    let shape = format!("({}, {cols})", values.len() / cols);
    let mut header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    fs::write(path, bytes).unwrap();
}

/// A value that any data set of the right kind gives afterwards: the master is still good.
fn is_well(m: &Master) {
    let x = DataSet::dense(vec![1.0; 12], 3).unwrap().partitions(4).unwrap();
    assert_eq!(m.run(sums, &2.0, &x).unwrap(), (24.0, 4));
}

pub(crate) fn files_larger_than_what_workers_keep_have_one_answer(e: &Engine) {
    let folder = Folder::new();
    let values = rugged(400_000); // 3.2 MB, of which a worker keeps 200 kB
    let (raw, npy, text) = (folder.file("x.raw"), folder.file("x.npy"), folder.file("x.txt"));
    write_raw(&raw, &values);
    write_npy(&npy, &values, 8);
    fs::write(&text, (0..60_000).map(|n| format!("{}\n", "x".repeat(n % 40))).collect::<String>()).unwrap();
    let x = DataSet::<Dense<f64>>::raw(&raw, 8).unwrap();
    let same = DataSet::<Dense<f64>>::npy(&npy).unwrap();
    assert_eq!((x.id(), x.bytes()), (same.id(), 3_200_000));
    let lines = DataSet::lines(&text).unwrap();
    let walk = Walk { seed: 0, round: 0, chunk_bytes: 0 };
    let expected = bits(&serial(sums, &0.3, &x, walk));
    let expected_lines = bits(&serial(lengths, &(), &lines, walk));
    for engine in e.shapes() {
        let m = e.connect(Master::builder().cache_limit(200_000), engine);
        for _ in 0..2 {
            assert!(bits(&m.run(sums, &0.3, &x).unwrap()) == expected, "{engine}: raw");
            assert!(bits(&m.run(sums, &0.3, &same).unwrap()) == expected, "{engine}: npy");
            assert!(bits(&m.run(lengths, &(), &lines).unwrap()) == expected_lines, "{engine}: lines");
        }
        let misses = m.last_round().unwrap().cache_misses;
        // On another host nothing is read into memory: chunks are mapped from the cache on its disk.
        assert!(
            misses > 0 || !e.caps.same_machine,
            "{engine}: everything was kept, under a limit that does not allow it"
        );
    }
}

pub(crate) fn a_file_that_changed_after_the_data_set_was_made_is_named(e: &Engine) {
    for engine in e.shapes() {
        let folder = Folder::new();
        let path = folder.file("changing.raw");
        // What is done to the file, and what the error says of it.
        let changes: [(&str, &dyn Fn()); 4] = [
            ("length", &|| write_raw(&path, &[1.0; 39_000])),
            ("another file", &|| {
                write_raw(&folder.file("other"), &[2.0; 40_000]);
                fs::rename(folder.file("other"), &path).unwrap();
            }),
            ("cannot be read", &|| fs::remove_file(&path).unwrap()),
            ("written", &|| {
                let mut bytes = fs::read(&path).unwrap();
                bytes[77] ^= 1;
                fs::write(&path, bytes).unwrap();
            }),
        ];
        let m = e.connect(Master::builder(), engine);
        for (n, (what, change)) in changes.into_iter().enumerate() {
            write_raw(&path, &vec![n as f64; 40_000]);
            let x = DataSet::<Dense<f64>>::raw(&path, 4).unwrap();
            change();
            let error = m.run(sums, &1.0, &x).unwrap_err();
            assert!(matches!(error, Error::Data(_)), "{engine}, {what}: {error}");
            let text = error.to_string();
            assert!(text.contains("changing.raw") && text.contains(what), "{engine}, {what}: {text}");
            is_well(&m);
        }
    }
}

pub(crate) fn a_file_that_changes_in_the_middle_of_a_round_is_named_with_the_chunk(e: &Engine) {
    #[qjam::map]
    fn held_up(gate: &str, x: &Dense<f64>, ctx: &Ctx) -> f64 {
        Gate::pass(gate, ctx.chunk());
        x.as_slice().iter().sum()
    }
    for engine in e.few() {
        let folder = Folder::new();
        let path = folder.file("changing.raw");
        let values = rugged(40_000);
        write_raw(&path, &values);
        let x = DataSet::<Dense<f64>>::raw(&path, 4).unwrap().partitions(60).unwrap();
        let m = e.connect(Master::builder(), engine);
        let gate = Gate::new();
        let round = m.submit(held_up, gate.path().as_str(), &x).unwrap();
        gate.wait_for(1);
        // Cut short and made whole again, as some editors do it.
        write_raw(&path, &values[..100]);
        write_raw(&path, &values);
        gate.open();
        let error = round.wait().unwrap_err();
        let Error::Fault(fault) = &error else { panic!("{engine}: {error}") };
        assert_eq!(fault.fault.kind, FaultKind::Chunk, "{engine}");
        assert!(fault.fault.chunk.is_some() && fault.chunk_id.is_some() && fault.worker.is_some());
        let text = error.to_string();
        assert!(
            text.contains("changing.raw") && text.contains("make the data set again"),
            "{engine}: {text}"
        );
        is_well(&m);
    }
}

pub(crate) fn the_same_content_in_another_file_is_read_from_there(e: &Engine) {
    for engine in e.shapes() {
        let folder = Folder::new();
        let (first, second) = (folder.file("first.raw"), folder.file("second.raw"));
        let values = rugged(40_000);
        write_raw(&first, &values);
        // A worker keeps one chunk at most, so that rounds read the file.
        let m = e.connect(Master::builder().cache_limit(0), engine);
        let x = DataSet::<Dense<f64>>::raw(&first, 4).unwrap();
        let expected = m.run(sums, &1.0, &x).unwrap();

        fs::rename(&first, &second).unwrap();
        let moved = DataSet::<Dense<f64>>::raw(&second, 4).unwrap();
        assert_eq!(m.run(sums, &1.0, &moved).map_err(|e| e.to_string()), Ok(expected), "{engine}: moved");

        drop((x, moved));
        fs::remove_file(&second).unwrap();
        write_raw(&second, &values);
        let again = DataSet::<Dense<f64>>::raw(&second, 4).unwrap();
        assert_eq!(m.run(sums, &1.0, &again).map_err(|e| e.to_string()), Ok(expected), "{engine}: rewritten");

        let in_memory = DataSet::dense(values.clone(), 4).unwrap();
        fs::remove_file(&second).unwrap();
        let run = m.run(sums, &1.0, &in_memory).map_err(|e| e.to_string());
        assert_eq!(run, Ok(expected), "{engine}: in memory");
    }
}
