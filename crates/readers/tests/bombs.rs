//! Small files that claim to be large, or unpack to very much: refused with a message, or read within bounds.
//!
//! Each file is opened by a program of its own whose address space is limited to 3 GiB; the program tells the message and the
//! most memory that it had. A process that aborts or is killed tells neither.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what went wrong by panicking, and what it measured"
)]

mod common;

use common::Folder;
use common::archive::{deflate, gzip, npy, zip};
use qjam_conformance::program::{self, Program};
use qjam_readers::{OpenOptions, open};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: program::Programs = &[("open", opened)];
qjam_conformance::hook!(PROGRAMS);

const LIMIT: u64 = 3 << 30;

/// Most memory that a file of a few kilobytes may take, with all that a test executable has besides.
const PEAK_MAX: u64 = 96 << 20;

/// Opens a file under the limit, and tells what came of it and the most memory that this took.
fn opened(argument: &str) {
    let (path, features) = argument.split_once('|').unwrap();
    // What is written is private all the same.
    rustix::process::umask(rustix::fs::Mode::empty());
    setrlimit(Resource::As, Rlimit { current: Some(LIMIT), maximum: Some(LIMIT) }).unwrap();
    let options = OpenOptions { features: features.parse().ok(), threads: Some(2), ..OpenOptions::default() };
    match open(path, &options) {
        Ok(opened) => program::say(format!("{} rows", opened.rows.records())),
        Err(error) => program::say(error),
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    program::say(line.split_whitespace().nth(1).unwrap());
}

/// What a program says of a file, and the bytes of memory it had at most.
fn told(path: &Path, features: Option<u64>, cache: &Path) -> (String, u64) {
    let features = features.map_or(String::new(), |features| features.to_string());
    let mut command = program::command("open", &format!("{}|{features}", path.display()));
    command.env("XDG_CACHE_HOME", cache);
    let (said, status) = Program::run(command).finish();
    assert!(status.success() && said.len() == 2, "{}: {status}, {said:?}", path.display());
    let peak = said[1].parse::<u64>().unwrap() << 10;
    println!("{}: {} MiB, {}", path.display(), peak >> 20, said[0]);
    (said[0].clone(), peak)
}

#[track_caller]
fn refused(folder: &Folder, name: &str, content: impl AsRef<[u8]>, features: Option<u64>, words: &[&str]) {
    let path = folder.file(name, content);
    let (message, peak) = told(&path, features, &folder.path().join("cache"));
    for word in words.iter().chain([&name]) {
        assert!(message.contains(word), "{word:?} is not in: {message}");
    }
    assert!(peak < PEAK_MAX, "{name}: {peak} bytes");
    assert!(!folder.path().join("cache").exists(), "{name} leaves nothing behind");
}

#[test]
fn arrays_that_claim_more_than_they_have_are_refused_before_memory_is_taken() {
    let folder = Folder::new();
    let claims = |shape: &str| npy("<f8", shape, &[0; 800]);
    let (endless, wide) = (claims("(40, 99999999999)"), claims("(2, 30000000)"));
    for (name, file) in [("endless.npy", &endless), ("wide.npy", &wide)] {
        refused(&folder, name, file, None, &["copy it again"]);
        refused(&folder, &format!("{name}.gz"), gzip(file), None, &["columns", "confirm it with `features`"]);
        // Confirmed, what is missing is missed.
        refused(&folder, &format!("{name}.gz"), gzip(file), Some(99_999_999_999), &["copy it again"]);
    }
    let idx = [&[0, 0, 14, 2][..], &3_u32.to_be_bytes(), &0x7fff_ffff_u32.to_be_bytes(), &[0; 64]].concat();
    refused(&folder, "x.idx.gz", gzip(&idx), None, &["2147483647 columns", "`features`"]);
    refused(&folder, "x.idx.gz", gzip(&idx), Some(1 << 31), &["copy it again"]);
    let archive = |content: &[u8]| zip(&[("x.npy", 8, content.to_vec(), deflate(content))]);
    refused(&folder, "x.npz", archive(&endless), None, &["shorter than its header says"]);
    // The list of an archive can lie, too: the bytes of the member when it is unpacked.
    let mut archive = archive(&endless);
    let list = archive.windows(4).rposition(|bytes| bytes == b"PK\x01\x02").unwrap();
    archive[list + 24..list + 28].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
    refused(&folder, "lies.npz", archive, None, &["cannot contain"]);
}

#[test]
fn indices_and_shapes_of_sparse_files_that_few_values_do_not_make_likely_are_refused() {
    let folder = Folder::new();
    for index in ["4294967294", "400000000"] {
        let text = format!("1 1:1 {index}:1\n");
        refused(&folder, "x.svm", text, None, &[index, "confirm it with `features`"]);
    }
    let scipy = |format: &str, shape: [i64; 2], starts: usize| {
        let shape: Vec<u8> = shape.iter().flat_map(|n| n.to_le_bytes()).collect();
        let mut ends = vec![0; starts * 4];
        ends[starts * 4 - 4] = 1;
        let members = [
            ("indices.npy", npy("<i4", "(1,)", &[0; 4])),
            ("row.npy", npy("<i4", "(1,)", &[0; 4])),
            ("col.npy", npy("<i4", "(1,)", &[0; 4])),
            ("indptr.npy", npy("<i4", &format!("({starts},)"), &ends)),
            ("format.npy", npy("|S3", "()", format.as_bytes())),
            ("shape.npy", npy("<i8", "(2,)", &shape)),
            ("data.npy", npy("<f8", "(1,)", &1_f64.to_le_bytes())),
        ];
        zip(&members.map(|(name, content)| (name, 8, content.clone(), deflate(&content))))
    };
    for format in ["csc", "coo"] {
        refused(&folder, "x.npz", scipy(format, [2_000_000_000, 3], 4), None, &["2000000000 rows", "tocsr"]);
    }
    for format in ["csr", "csc", "coo"] {
        refused(
            &folder,
            "x.npz",
            scipy(format, [3, 2_000_000_000], 4),
            None,
            &["2000000000 columns", "`features`"],
        );
    }
    refused(&folder, "x.npz", scipy("csr", [2_000_000_000, 3], 4), None, &["memory"]);
    // Confirmed, it is read.
    let path = folder.file("x.npz", scipy("csr", [3, 2_000_000_000], 4));
    assert_eq!(told(&path, Some(1 << 31), folder.path()).0, "3 rows");
}

#[test]
fn a_table_with_millions_of_columns_is_asked_about() {
    let folder = Folder::new();
    let text = format!("{}\n", ",".repeat(12 << 20));
    refused(&folder, "x.csv.gz", gzip(text.as_bytes()), None, &["12582913 columns", "`features`"]);
}

#[test]
#[cfg(feature = "images")]
fn a_picture_of_a_billion_pixels_is_refused() {
    let folder = Folder::new();
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, 30_000, 30_000);
    encoder.set_color(png::ColorType::Rgba);
    let mut writer = encoder.write_header().unwrap();
    writer.write_chunk(png::chunk::IDAT, &[0x78, 0x9c, 3, 0]).unwrap();
    drop(writer);
    folder.file("pictures/x.png", file);
    let (message, peak) = told(&folder.path().join("pictures"), None, folder.path());
    assert!(message.contains("30000 × 30000 pixels") && message.contains("resize it"), "{message}");
    assert!(peak < PEAK_MAX, "{peak} bytes");
}

#[test]
fn a_file_that_unpacks_to_more_than_half_of_the_disk_is_refused() {
    let folder = Folder::new();
    let values = 10_000_000;
    let content = npy("<f8", &format!("({values},)"), &vec![0; values * 8]);
    let path = folder.file("x.npz", zip(&[("x.npy", 8, content.clone(), deflate(&content))]));
    let cache = folder.path().join("cache");
    std::fs::create_dir(&cache).unwrap();
    // A disk of its own, with less room than twice the numbers.
    let script = "mount -t tmpfs -o size=110m none \"$1\" || { echo \"@ NOT TESTED\"; exit; }; exec \"$2\"";
    let mut command = Command::new("unshare");
    let root = rustix::process::geteuid().is_root();
    command.args(if root { &["-m"][..] } else { &["-r", "-m"] }).args(["sh", "-c", script, "sh"]);
    command.arg(&cache).arg(std::env::current_exe().unwrap()).env("XDG_CACHE_HOME", &cache);
    program::as_program(&mut command, "open", &format!("{}|", path.display()));
    let (said, status) = Program::run(command).finish();
    assert!(
        !said.is_empty() && said[0] != "NOT TESTED",
        "NOT TESTED, since this user may not mount anything"
    );
    assert!(status.success() && said[0].contains("more than half of the room on this disk"), "{said:?}");
}

/// Files of the cache folder, with their lengths.
fn converted(cache: &Path) -> Vec<(PathBuf, u64)> {
    let entries = std::fs::read_dir(cache.join("qjam/converted")).unwrap();
    entries.map(|entry| entry.unwrap()).map(|entry| (entry.path(), entry.metadata().unwrap().len())).collect()
}

#[test]
fn what_unpacks_to_more_than_memory_is_for_goes_to_a_private_file() {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let values = 10_000_000;
    let archive = {
        let content = npy("<f8", &format!("({values},)"), &vec![0; values * 8]);
        zip(&[("x.npy", 8, content.clone(), deflate(&content))])
    };
    // The least that such numbers take in a text, four times as much in memory.
    let text = gzip("1\n".repeat(values).as_bytes());
    for (name, content) in [("x.npz", archive), ("x.csv.gz", text)] {
        let folder = Folder::new();
        let (path, cache) = (folder.file(name, &content), folder.path().join("cache"));
        assert!(content.len() * 100 < values * 8, "{name} has {} bytes", content.len());
        // Folders that somebody made who did not think of others.
        std::fs::create_dir_all(cache.join("qjam/converted")).unwrap();
        for open in [cache.join("qjam"), cache.join("qjam/converted")] {
            std::fs::set_permissions(open, Permissions::from_mode(0o777)).unwrap();
        }
        let (message, peak) = told(&path, None, &cache);
        assert_eq!(message, format!("{values} rows"));
        // Numbers that were in memory before they were too many are not counted there: that is shared memory.
        assert!(peak < PEAK_MAX, "{name}: {peak} bytes");
        let files = converted(&cache);
        assert!(files.len() == 1 && files[0].1 > values as u64 * 8, "{files:?}");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
        for path in [&files[0].0, &cache.join("qjam/converted"), &cache.join("qjam")] {
            assert_eq!(mode(path) & 0o077, 0, "{} has mode {:o}", path.display(), mode(path));
        }
        // It is found again, unless others could have written it.
        let inode = || std::fs::metadata(&files[0].0).unwrap().ino();
        let before = inode();
        assert_eq!(told(&path, None, &cache).0, message);
        assert_eq!((converted(&cache), inode()), (files.clone(), before));
        std::fs::set_permissions(&files[0].0, Permissions::from_mode(0o666)).unwrap();
        assert_eq!(told(&path, None, &cache).0, message);
        assert!(mode(&files[0].0) & 0o077 == 0 && inode() != before, "it was made anew");
    }
}
