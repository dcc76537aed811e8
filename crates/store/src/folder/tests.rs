//! What the protocol relies on, held to by real files and many threads.

use super::*;
use crate::run::block_on;
use std::collections::BTreeMap;
use std::sync::Mutex;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("qjam-store-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn open(&self) -> Folder {
        Folder::open(&self.0, "job").unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[test]
fn blobs_are_written_once_read_listed_and_removed() {
    let scratch = Scratch::new("blobs");
    let folder = scratch.open();
    block_on(async {
        assert_eq!(folder.get("jobs/a/x").await.unwrap(), None);
        assert!(folder.create("jobs/a/x", bytes("one")).await.unwrap());
        assert!(!folder.create("jobs/a/x", bytes("two")).await.unwrap());
        assert_eq!(folder.get("jobs/a/x").await.unwrap(), Some(bytes("one")));
        folder.put("jobs/a/x", bytes("three")).await.unwrap();
        folder.put("jobs/a/deep/y", bytes("")).await.unwrap();
        folder.put("jobs/ab", bytes("")).await.unwrap();
        let names = |listed: Vec<Listed>| listed.into_iter().map(|l| l.name).collect::<Vec<_>>();
        assert_eq!(names(folder.list("jobs/a/").await.unwrap()), ["deep/y", "x"]);
        assert_eq!(names(folder.list("jobs/a").await.unwrap()), ["/deep/y", "/x", "b"]);
        assert_eq!(names(folder.list("nothing/").await.unwrap()), Vec::<String>::new());
        folder.delete("jobs/a/deep/y").await.unwrap();
        folder.delete("jobs/a/deep/y").await.unwrap();
        assert!(!scratch.0.join("blobs/jobs/a/deep").exists(), "an empty folder is left");
    });
    drop(folder);
    assert_eq!(fs::read_dir(scratch.0.join("beside")).unwrap().count(), 0, "files are left");
}

#[test]
fn one_of_many_creates_a_blob() {
    let scratch = Scratch::new("race");
    for turn in 0..50 {
        let won: usize = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..4)
                .map(|n| {
                    let folder = scratch.open();
                    scope.spawn(move || {
                        let key = format!("k/{turn}");
                        block_on(folder.create(&key, bytes(&n.to_string()))).unwrap()
                    })
                })
                .collect();
            tries.into_iter().map(|t| usize::from(t.join().unwrap())).sum()
        });
        assert_eq!(won, 1);
    }
}

#[test]
fn every_message_is_taken_by_one_of_many() {
    let scratch = Scratch::new("queue");
    let sender = scratch.open();
    for n in 0..300 {
        block_on(sender.send(&format!("message {n}"), Span(0))).unwrap();
    }
    let seen: Mutex<BTreeMap<String, u32>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (folder, seen) = (scratch.open(), &seen);
            scope.spawn(move || {
                while let Some(delivery) = block_on(folder.receive(Span::from_ms(600_000))).unwrap() {
                    assert_eq!(delivery.count, 1);
                    *seen.lock().unwrap().entry(delivery.text.clone()).or_default() += 1;
                    block_on(folder.acknowledge(delivery)).unwrap();
                }
            });
        }
    });
    let seen = seen.into_inner().unwrap();
    assert!(seen.len() == 300 && seen.values().all(|count| *count == 1), "{seen:?}");
}

#[test]
fn a_message_that_is_not_acknowledged_comes_back_and_its_old_receipt_is_void() {
    let scratch = Scratch::new("back");
    let (one, other) = (scratch.open(), scratch.open());
    block_on(async {
        one.send("task", Span(0)).await.unwrap();
        let mut first = one.receive(Span(1)).await.unwrap().unwrap();
        let second = loop {
            if let Some(delivery) = other.receive(Span::from_ms(600_000)).await.unwrap() {
                break delivery;
            }
        };
        assert_eq!((second.text.as_str(), second.count), ("task", 2));
        assert!(!one.extend(&mut first, Span::from_ms(1000)).await.unwrap());
        one.acknowledge(first).await.unwrap();
        assert!(one.receive(Span(1)).await.unwrap().is_none(), "it was taken away from the other");
        other.acknowledge(second).await.unwrap();
    });
    assert_eq!(fs::read_dir(scratch.0.join("queues/job/taken")).unwrap().count(), 0);
}

#[test]
fn a_message_can_be_hidden_kept_and_given_up() {
    let scratch = Scratch::new("hidden");
    let folder = scratch.open();
    block_on(async {
        folder.send("later", Span::from_ms(600_000)).await.unwrap();
        assert!(folder.receive(Span(1)).await.unwrap().is_none());
        folder.send("now", Span(0)).await.unwrap();
        let mut delivery = folder.receive(Span(1)).await.unwrap().unwrap();
        assert!(folder.extend(&mut delivery, Span::from_ms(600_000)).await.unwrap());
        assert!(folder.receive(Span(1)).await.unwrap().is_none(), "it is kept");
        assert!(folder.extend(&mut delivery, Span(0)).await.unwrap());
        let again = folder.receive(Span(1)).await.unwrap().unwrap();
        assert_eq!((again.text.as_str(), again.count), ("now", 2));
    });
}

#[test]
fn foreign_files_in_the_queue_are_passed_over() {
    let scratch = Scratch::new("foreign");
    let folder = scratch.open();
    for name in ["x", "a.b.c", ".hidden", "9.9.9.9", "a.99999999999"] {
        fs::write(scratch.0.join("queues/job/ready").join(name), "?").unwrap();
        fs::write(scratch.0.join("queues/job/taken").join(name), "?").unwrap();
    }
    block_on(async {
        // Names that happen to be ours are messages; the protocol tells what they say.
        while let Some(delivery) = folder.receive(Span::from_ms(600_000)).await.unwrap() {
            assert_eq!(delivery.text, "?");
            folder.acknowledge(delivery).await.unwrap();
        }
        folder.send("ours", Span(0)).await.unwrap();
        assert_eq!(folder.receive(Span(1)).await.unwrap().unwrap().text, "ours");
    });
}

#[test]
fn whoever_waits_hears_of_a_message() {
    let scratch = Scratch::new("news");
    let (waits, sends) = (scratch.open(), scratch.open());
    // Whoever takes messages hears of them.
    assert!(block_on(waits.receive(Span::from_ms(60_000))).unwrap().is_none());
    let began = std::time::Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| block_on(waits.idle(Span::from_ms(60_000))));
        // However often it takes: the other may not listen yet.
        scope.spawn(|| block_on(sends.send("hello", Span(0))).unwrap());
    });
    assert!(began.elapsed() < Duration::from_secs(60), "it slept through it");
}

#[test]
fn a_message_that_somebody_else_took_is_none_and_the_next_one_is_found() {
    let scratch = Scratch::new("told");
    let [told, other] = [(); 2].map(|()| scratch.open());
    let receive = |folder: &Folder| block_on(folder.receive(Span::from_ms(60_000))).unwrap();
    assert!(receive(&told).is_none());
    block_on(other.send("first", Span(0))).unwrap();
    block_on(told.idle(Span::from_ms(60_000)));
    assert_eq!(receive(&other).map(|delivery| delivery.text), Some("first".into()));
    assert!(receive(&told).is_none());
    // Nobody waits for this one, so it is looked for.
    block_on(other.send("second", Span(0))).unwrap();
    let found = std::iter::repeat_with(|| {
        block_on(told.idle(Span::from_ms(10)));
        receive(&told)
    });
    assert_eq!(found.flatten().next().map(|delivery| delivery.text), Some("second".into()));
}
