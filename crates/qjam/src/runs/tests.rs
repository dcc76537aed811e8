//! Files that were cut, damaged or written by others.

use super::reader::Reader;
use super::record::{self, Record, StoredValue};
use super::trust::Trust;
use super::{EarlierRun, Run, State, process};
use qjam_core::journal::RoundReport;
use std::io::Cursor;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// A file with a few rounds, and where each of its records ends.
fn sample() -> (Vec<u8>, Vec<usize>) {
    let (mut file, mut ends) = (record::head().to_vec(), vec![record::HEAD_BYTES as usize]);
    let mut put = |record: Record, tail: &[u8]| {
        let start = file.len();
        record.append(&mut file, |out| out.extend_from_slice(tail));
        record::seal(&mut file[start..]);
        ends.push(file.len());
    };
    put(Record::Began(Box::new(process::Program::default().began(0, "proc:2", 7, None))), b"");
    put(Record::Seat { seat: 0, name: "proc:0".into() }, b"");
    put(Record::Function { number: 0, name: "f".into() }, b"");
    put(Record::Data { number: 0, id: [7; 32], chunks: 3, bytes: 99 }, b"");
    for round in 0..3 {
        put(Record::RoundBegan { round, at_us: round * 10, function: 0, data: 0 }, b"");
        let report = RoundReport { round, total_us: 5, ..Default::default() };
        let (at_us, params) = (round * 10 + 5, Some([round as u8; 32]));
        let done =
            Record::RoundDone { round, at_us, params, report, kept: StoredValue::Bytes, recalled: false };
        put(done, &[round as u8; 100]);
    }
    put(Record::Ended { at_us: 30, error: None }, b"");
    (file, ends)
}

fn gather(bytes: &[u8]) -> Option<Run> {
    Run::gather(Cursor::new(bytes), Path::new("x.run")).ok()
}

fn records(bytes: &[u8]) -> usize {
    let Ok(mut reader) = Reader::new(Cursor::new(bytes), false) else { return 0 };
    std::iter::from_fn(|| reader.next()).count()
}

#[test]
fn a_file_that_was_cut_anywhere_is_good_up_to_its_last_whole_record() {
    let (file, ends) = sample();
    for cut in 0..=file.len() {
        let whole = ends.iter().skip(1).filter(|end| **end <= cut).count();
        assert_eq!(records(&file[..cut]), whole, "cut at {cut}");
        let run = gather(&file[..cut]);
        assert_eq!(run.is_some(), whole > 0, "cut at {cut}");
        let Some(run) = run else { continue };
        let last = ends.iter().rfind(|end| **end <= cut).copied().unwrap_or_default();
        assert_eq!(run.torn_bytes as usize, cut - last, "cut at {cut}");
        // Four records come before the first round, and each round has two.
        assert_eq!(run.rounds, (whole as u64).saturating_sub(4).min(6) / 2, "cut at {cut}");
        assert_eq!(run.state, if cut == file.len() { State::Finished } else { State::Killed });
    }
}

#[test]
fn no_damage_is_taken_for_good() {
    let (file, ends) = sample();
    for at in record::HEAD_BYTES as usize..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 0x40;
        let before = ends.iter().skip(1).filter(|end| **end <= at).count();
        assert_eq!(records(&damaged), before, "damage at {at}");
    }
}

#[test]
fn zeros_and_records_of_later_versions_do_no_harm() {
    let (mut file, ends) = sample();
    let whole = ends.len() - 1;
    // One that nobody knows yet, and one more that is good.
    let body = [99, 1, 2, 3];
    file.extend_from_slice(&(body.len() as u32).to_le_bytes());
    file.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    file.extend_from_slice(&body);
    let start = file.len();
    Record::Full { at_us: 1 }.append(&mut file, |_| {});
    record::seal(&mut file[start..]);
    file.extend_from_slice(&[0; 500]);
    assert_eq!(records(&file), whole + 1);
    let run = gather(&file).unwrap();
    assert_eq!((run.is_full, run.torn_bytes, run.bytes), (true, 500, file.len() as u64));
    // A length that the file cannot bear out.
    for length in [u32::MAX, 1 << 30, 501] {
        let mut file = file.clone();
        let at = file.len() - 500;
        file[at..at + 4].copy_from_slice(&length.to_le_bytes());
        assert_eq!(records(&file), whole + 1);
    }
}

#[test]
fn a_hash_of_pieces_is_the_hash_of_the_whole() {
    let value = (3_u32, vec![0.5_f64; 1000], "text".to_string(), vec![1_u8; 300]);
    let mut out = crate::Encoder::new();
    crate::Wire::encode(&value, &mut out);
    assert_eq!(super::hash(&out), *blake3::hash(&out.to_bytes()).as_bytes());
}

#[test]
fn a_run_that_has_ended_is_not_locked_by_a_process_that_is_being_started() {
    let temporary = Temporary(std::env::temp_dir().join(format!("qjam-runs-lock-{}", std::process::id())));
    let program = process::Program::default();
    let began = program.began(0, "proc:2", 7, None);
    let recorder = super::Recorder::create(&temporary.0, &program, began, f64::INFINITY).unwrap();
    let path = temporary.0.join(format!("{}.run", recorder.id));
    // As a child has it between `fork` and `exec`.
    let inherited = recorder.file().try_clone().unwrap();
    assert!(super::folder::is_living(&path));
    drop(recorder);
    assert!(!super::folder::is_living(&path), "the run has ended");
    drop(inherited);
}

fn doubled(v: &[f64], _: &crate::Nothing) -> Vec<f64> {
    v.iter().map(|x| x * 2.0).collect()
}

#[test]
#[ignore = "a measurement"]
fn recording_a_round_takes_microseconds() {
    let temporary = Temporary(std::env::temp_dir().join(format!("qjam-runs-cost-{}", std::process::id())));
    let folder = &temporary.0;
    let function = crate::Job::erase(doubled as fn(&[f64], &crate::Nothing) -> Vec<f64>);
    let data = crate::DataSet::nothing(4).unwrap();
    for (doubles, us_max) in
        [(8, 25.0), (400, f64::INFINITY), (4_000, f64::INFINITY), (40_000, f64::INFINITY)]
    {
        let program = process::Program::default();
        let began = program.began(0, "proc:2", 7, None);
        let mut recorder = super::Recorder::create(folder, &program, began, f64::INFINITY).unwrap();
        let params = vec![1.0; doubles];
        let value: crate::function::AnyBox = Box::new(vec![2.0; doubles]);
        let mut took_us = Vec::new();
        for round in 0..1000 {
            // As it is in a run: everything else happens in between.
            std::thread::sleep(std::time::Duration::from_millis(1));
            let start = std::time::Instant::now();
            recorder.round_began(round, &function, data.erased());
            let mut encoder = crate::Encoder::new();
            crate::Params::encode_params(&params, &mut encoder);
            let hash = recorder.hash_params(encoder.payload_bytes(), || super::hash(&encoder));
            let report = RoundReport { round, total_us: 1000, ..Default::default() };
            recorder.round_done(&report, hash, &function, &value, false);
            recorder.tend();
            took_us.push(start.elapsed().as_secs_f64() * 1e6);
        }
        took_us.sort_by(f64::total_cmp);
        let (median, mean) = (took_us[500], took_us.iter().sum::<f64>() / 1000.0);
        println!("{doubles} doubles each way: {median:.1} µs a round, {mean:.1} on average");
        assert!(median < us_max, "{doubles} doubles: {median} µs");
    }
}

/// A folder that goes away with the test, however that ends.
struct Temporary(std::path::PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A run that says it went on from another.
fn file_after(resumed: Option<&str>) -> Vec<u8> {
    let began = process::Program::default().began(0, "local:1", 7, resumed.map(Into::into));
    let mut file = record::head().to_vec();
    let start = file.len();
    Record::Began(Box::new(began)).append(&mut file, |_| {});
    record::seal(&mut file[start..]);
    file
}

#[test]
fn a_run_cannot_name_one_of_another_folder_or_user_as_the_one_before_it() {
    let top = std::env::temp_dir().join(format!("qjam-before-{}", std::process::id()));
    let (runs, other) = (top.join("runs"), top.join("other"));
    for folder in [&top, &runs, &other] {
        std::fs::DirBuilder::new().mode(0o700).create(folder).unwrap();
    }
    let write = |path: &Path, bytes: &[u8]| {
        std::fs::write(path, bytes).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    write(&runs.join("first.run"), &file_after(None));
    write(&other.join("first.run"), &file_after(None));
    let path = runs.join("second.run");
    let read = |before: &str, trust| {
        write(&path, &file_after(Some(before)));
        let mut words = Vec::new();
        let (run, ..) = EarlierRun::read(&path, trust, &mut words).unwrap();
        (run.has_before(), words.join("\n"))
    };
    assert_eq!(read("first", Trust::Own), (true, String::new()));
    assert_eq!(read("gone", Trust::Own), (false, String::new()));
    let absolute = other.join("first").display().to_string();
    for outside in ["../other/first", "./first", "", "..", &absolute] {
        let (is_read, words) = read(outside, Trust::Own);
        assert!(!is_read && words.contains("by a path"), "{outside}: {words}");
    }
    for mode in [0o620, 0o602] {
        std::fs::set_permissions(runs.join("first.run"), std::fs::Permissions::from_mode(mode)).unwrap();
        let (is_read, words) = read("first", Trust::Own);
        assert!(!is_read && words.contains("can be written by other users"), "{words}");
    }
    assert!(rustix::process::geteuid().is_root(), "NOT TESTED for lack of root: a run of another user");
    std::fs::set_permissions(runs.join("first.run"), std::fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::chown(runs.join("first.run"), Some(1234), None).unwrap();
    let (is_read, words) = read("first", Trust::Own);
    assert!(!is_read && words.contains("belongs to another user"), "{words}");
    assert_eq!(read("first", Trust::All), (true, String::new()), "unless the user says so");
    std::fs::remove_dir_all(&top).unwrap();
}
