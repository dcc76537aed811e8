//! Files that readers keep: damage is noticed and they are made anew, and several programs may make one at once.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

mod common;

use common::Folder;
use qjam_readers::{Csv, Libsvm};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// A table of several chunks.
fn table(folder: &Folder) -> PathBuf {
    let mut text = String::from("a,b,c\n");
    for i in 0..30_000 {
        writeln!(text, "{i},{},{}.5", i % 7, i % 100).unwrap();
    }
    folder.file("a.csv", text)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_damaged_file_is_noticed_wherever_the_damage_is_and_made_anew() {
    let folder = Folder::new();
    let (path, kept) = (table(&folder), folder.path().join("kept"));
    let read = || Csv::new(&path).keep_in(&kept).read::<f64>().unwrap();
    let first = read();
    assert!(first.data.len() > 3);
    let file = files(&kept)[0].clone();
    let whole = std::fs::read(&file).unwrap();
    let (id, chunks) = (first.data.id(), first.data.len());
    drop(first);
    let middle = whole.len() / 2;
    let mut changed = whole.clone();
    changed[middle] ^= 1;
    for damaged in [&changed[..], &whole[..middle], &whole[..whole.len() - 1], &[], b"nothing of ours"] {
        std::fs::write(&file, damaged).unwrap();
        let again = read();
        assert_eq!((again.data.id(), again.columns.len()), (id, 3));
        (0..chunks).for_each(|chunk| assert!(again.data.chunk(chunk).is_ok(), "chunk {chunk}"));
        assert_eq!(files(&kept), std::slice::from_ref(&file));
    }
    // What is whole is taken as it is.
    let before = std::fs::metadata(&file).unwrap();
    read();
    use std::os::unix::fs::MetadataExt;
    assert_eq!(std::fs::metadata(&file).unwrap().ino(), before.ino());
}

#[test]
fn several_readers_of_one_file_get_the_same_and_leave_one_file() {
    let folder = Folder::new();
    let (path, kept) = (table(&folder), folder.path().join("kept"));
    let ids: Vec<_> = std::thread::scope(|scope| {
        let read = || Csv::new(&path).threads(1).keep_in(&kept).read::<f32>().unwrap().data.id();
        let running: Vec<_> = (0..4).map(|_| scope.spawn(read)).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert_eq!(files(&kept).len(), 1);
}

#[test]
fn a_reading_that_fails_leaves_nothing_behind() {
    let folder = Folder::new();
    let kept = folder.path().join("kept");
    let path = folder.file("a.svm", "1 1:2\n1 2:x\n");
    assert!(Libsvm::new(&path).keep_in(&kept).read::<f64>().is_err());
    let mut text = "1,2\n".repeat(400_000);
    text.push_str("1,x\n");
    let path = folder.file("a.csv", text);
    assert!(Csv::new(&path).keep_in(&kept).read::<f64>().is_err());
    assert!(files(&kept).is_empty());
    // A folder that cannot be made is told.
    let message = Csv::new(&path).keep_in(path.join("in a file")).read::<f64>().unwrap_err().to_string();
    assert!(message.contains("in a file cannot be read: Not a directory"), "{message}");
}
