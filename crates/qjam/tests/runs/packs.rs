//! A cache on the disk of a host that somebody writes to while a job uses it.
//!
//! The host is this machine: an `ssh` that runs its command here.

use super::{Folder, numbers, wave};
use qjam::{Dense, Master};
use qjam_conformance::program::{Program, command, say};
use qjam_conformance::support::wait_until;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// An `ssh` that leaves out its options and the host.
const SSH: &str = r#"
while [ "$1" != -- ]; do shift; done
shift 2
sh -c "$*"
"#;

fn packs(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("qjam/cache")).unwrap();
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "pack"))
        .collect()
}

/// The number that is changed, and what it becomes.
const NUMBER: f64 = 800.0;
const CHANGED: f64 = 801.0;

/// Changes a number in the cache, behind the back of whoever uses it.
fn change(cache: &Path) {
    let place = packs(cache).into_iter().find_map(|path| {
        let bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(8).position(|bytes| bytes == NUMBER.to_le_bytes())?;
        Some((path, at as u64))
    });
    let (path, at) = place.expect("the chunks are in the cache");
    let pack = std::fs::File::options().write(true).open(path).unwrap();
    pack.write_all_at(&CHANGED.to_le_bytes(), at).unwrap();
}

/// A sum. The chunk with the number that is changed is looked at only after the gate was opened, and each look is noted.
#[qjam::map]
fn gated(folder: &str, x: &Dense<f64>) -> f64 {
    let (folder, first) = (Path::new(folder), x.row(0)[0]);
    if (first - NUMBER).abs() < 1.5 {
        std::fs::write(folder.join("begun"), "").unwrap();
        wait_until("the gate is open", || folder.join("gate").exists());
        let seen = std::fs::File::options().append(true).create(true).open(folder.join("seen"));
        writeln!(seen.unwrap(), "{}", x.row(0)[0]).unwrap();
    }
    x.as_slice().iter().sum()
}

/// Runs a round on a host, and changes a number in its cache while a block that uses it is running.
pub(crate) fn spoilt_inside(cache: &str) {
    let (x, folder) = (numbers(), Path::new(cache));
    let m = Master::builder().no_run_file().connect("host*1").unwrap();
    m.run(wave, &[0.5][..], &x).unwrap();
    let pending = m.submit(gated, cache, &x).unwrap();
    wait_until("the block has begun", || folder.join("begun").exists());
    change(folder);
    std::fs::write(folder.join("gate"), "").unwrap();
    say(pending.wait().unwrap());
    say(std::fs::read_to_string(folder.join("seen")).unwrap().replace('\n', " "));
}

/// Runs rounds on a host, and changes a number in its cache after the first.
pub(crate) fn spoilt(cache: &str) {
    let (x, theta) = (numbers(), [0.5, 1.0, 2.0]);
    let m = Master::builder().no_run_file().connect("host").unwrap();
    let first = m.run(wave, &theta[..], &x).unwrap();
    change(Path::new(cache));
    for _ in 0..3 {
        let again = m.run(wave, &theta[..], &x).unwrap();
        say(if again == first { "same" } else { "other" });
    }
}

/// What a program says that uses this machine as a host, with a cache in a folder of its own.
fn said_by(program: &str) -> Vec<String> {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path()).unwrap();
    let script = folder.path().join("ssh");
    std::fs::write(&script, SSH).unwrap();
    let mut command = command(program, &folder.path().display().to_string());
    command.env("QJAM_SSH", format!("sh {}", script.display())).env("XDG_CACHE_HOME", folder.path());
    let (said, status) = Program::run(command).finish();
    assert!(status.success(), "{status}, {said:?}");
    said
}

#[test]
fn a_number_that_is_changed_in_a_cache_under_a_running_job_changes_no_result() {
    assert_eq!(said_by("spoilt"), ["same"; 3]);
}

#[test]
fn what_a_block_computed_from_a_chunk_that_was_changed_meanwhile_is_computed_again() {
    let said = said_by("spoilt inside");
    let sum: f64 = (0..1600).map(f64::from).sum();
    assert_eq!(said[0], sum.to_string(), "{said:?}");
    let seen: Vec<&str> = said[1].split_whitespace().collect();
    assert!(seen.first() == Some(&"801"), "the block did not see the change: {said:?}");
    assert!(seen.last() == Some(&"800"), "it was not computed again: {said:?}");
}
