//! A cache on the disk of a host that somebody writes to while a job uses it.
//!
//! The host is this machine: an `ssh` that runs its command here.

use super::{Folder, numbers, wave};
use qjam::Master;
use qjam_conformance::program::{Program, command, say};
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

/// Runs rounds on a host, and changes a number in its cache after the first.
pub(crate) fn spoilt(cache: &str) {
    let (x, theta) = (numbers(), [0.5, 1.0, 2.0]);
    let m = Master::builder().no_run_file().connect("host").unwrap();
    let first = m.run(wave, &theta[..], &x).unwrap();
    let number = 800.0_f64.to_le_bytes();
    let place = packs(Path::new(cache)).into_iter().find_map(|path| {
        let bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(8).position(|bytes| bytes == number)?;
        Some((path, at as u64))
    });
    let (path, at) = place.expect("the chunks are in the cache");
    let pack = std::fs::File::options().write(true).open(path).unwrap();
    pack.write_all_at(&801.0_f64.to_le_bytes(), at).unwrap();
    for _ in 0..3 {
        let again = m.run(wave, &theta[..], &x).unwrap();
        say(if again == first { "same" } else { "other" });
    }
}

#[test]
fn a_number_that_is_changed_in_a_cache_under_a_running_job_changes_no_result() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path()).unwrap();
    let script = folder.path().join("ssh");
    std::fs::write(&script, SSH).unwrap();
    let mut command = command("spoilt", &folder.path().display().to_string());
    command.env("QJAM_SSH", format!("sh {}", script.display())).env("XDG_CACHE_HOME", folder.path());
    let (said, status) = Program::run(command).finish();
    assert!(status.success(), "{status}, {said:?}");
    assert_eq!(said, ["same"; 3]);
}
