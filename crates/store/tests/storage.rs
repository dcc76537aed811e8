//! What the protocol relies on, of whatever storage is tested.

#![allow(clippy::unwrap_used, reason = "all of this is test")]

use bytes::Bytes;
use place::TestBucket;
use qjam_core::bucket::{Delivery, Listed, Storage};
use qjam_core::time::Span;
use qjam_store::run::block_on;
use qjam_store::{Bucket, Seal};
use std::collections::BTreeMap;
use std::sync::Mutex;

mod place;

const LONG: Span = Span::from_ms(600_000);

fn open(place: &TestBucket) -> Bucket {
    Bucket::open(&place.address(), "job", Seal::without_key()).unwrap()
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// The next message, which is there or comes by itself.
fn next(bucket: &Bucket, hidden: Span) -> Delivery<String> {
    loop {
        if let Some(delivery) = block_on(bucket.receive(hidden)).unwrap() {
            return delivery;
        }
    }
}

#[test]
fn blobs_are_written_once_read_listed_and_removed() {
    let place = TestBucket::new("blobs");
    let bucket = open(&place);
    block_on(async {
        assert_eq!(bucket.get("jobs/a/x").await.unwrap(), None);
        assert!(bucket.create("jobs/a/x", bytes("one")).await.unwrap());
        assert!(!bucket.create("jobs/a/x", bytes("two")).await.unwrap());
        assert_eq!(bucket.get("jobs/a/x").await.unwrap(), Some(bytes("one")));
        bucket.put("jobs/a/x", bytes("three")).await.unwrap();
        assert_eq!(bucket.get("jobs/a/x").await.unwrap(), Some(bytes("three")));
        bucket.put("jobs/a/deep/y", bytes("")).await.unwrap();
        bucket.put("jobs/ab", bytes("")).await.unwrap();
        let listed = bucket.list("jobs/a/").await.unwrap();
        assert!(listed.iter().all(|blob| blob.age < Span::from_ms(3_600_000)), "{listed:?}");
        let names = |listed: Vec<Listed>| listed.into_iter().map(|l| l.name).collect::<Vec<_>>();
        assert_eq!(names(listed), ["deep/y", "x"]);
        assert_eq!(names(bucket.list("nothing/").await.unwrap()), Vec::<String>::new());
        bucket.delete("jobs/a/deep/y").await.unwrap();
        bucket.delete("jobs/a/deep/y").await.unwrap();
        assert_eq!(bucket.get("jobs/a/deep/y").await.unwrap(), None);
        assert_eq!(names(bucket.list("jobs/a/").await.unwrap()), ["x"]);
    });
}

#[test]
fn large_blobs_come_back_as_they_were() {
    let place = TestBucket::new("large");
    let bucket = open(&place);
    let blob: Bytes = (0..12_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    block_on(async {
        bucket.put("jobs/a/large", blob.clone()).await.unwrap();
        assert!(bucket.get("jobs/a/large").await.unwrap() == Some(blob));
    });
}

#[test]
fn listings_of_many_blobs_are_whole() {
    let place = TestBucket::new("many");
    let bucket = open(&place);
    let names: Vec<String> = (0..1100).map(|n| format!("{n:05}")).collect();
    std::thread::scope(|scope| {
        for part in names.chunks(275) {
            let bucket = open(&place);
            scope.spawn(move || {
                for name in part {
                    block_on(bucket.put(&format!("jobs/many/{name}"), Bytes::new())).unwrap();
                }
            });
        }
    });
    let listed = block_on(bucket.list("jobs/many/")).unwrap();
    assert!(listed.into_iter().map(|blob| blob.name).eq(names));
}

#[test]
fn one_of_many_creates_a_blob() {
    let place = TestBucket::new("race");
    for turn in 0..5 {
        let won: usize = std::thread::scope(|scope| {
            let buckets: Vec<Bucket> = (0..4).map(|_| open(&place)).collect();
            let tries: Vec<_> = buckets
                .into_iter()
                .enumerate()
                .map(|(n, bucket)| {
                    scope.spawn(move || {
                        block_on(bucket.create(&format!("k/{turn}"), bytes(&n.to_string()))).unwrap()
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
    let place = TestBucket::new("queue");
    let sender = open(&place);
    for n in 0..60 {
        block_on(sender.send(&format!("message {n}"), Span(0))).unwrap();
    }
    let seen: Mutex<BTreeMap<String, u32>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (bucket, seen) = (open(&place), &seen);
            scope.spawn(move || {
                // One who finds nothing may have been late for all that it saw: others are still at it.
                while seen.lock().unwrap().len() < 60 {
                    let Some(delivery) = block_on(bucket.receive(LONG)).unwrap() else { continue };
                    assert_eq!(delivery.count, 1);
                    *seen.lock().unwrap().entry(delivery.text.clone()).or_default() += 1;
                    block_on(bucket.acknowledge(delivery)).unwrap();
                }
            });
        }
    });
    let seen = seen.into_inner().unwrap();
    assert!(seen.len() == 60 && seen.values().all(|count| *count == 1), "{seen:?}");
    assert!(block_on(sender.receive(LONG)).unwrap().is_none(), "what was dealt with came back");
}

#[test]
fn a_message_that_is_not_acknowledged_comes_back_and_its_old_receipt_is_void() {
    let place = TestBucket::new("back");
    let (one, other) = (open(&place), open(&place));
    block_on(one.send("task", Span(0))).unwrap();
    let mut first = next(&one, Span(1));
    let second = next(&other, LONG);
    assert_eq!((second.text.as_str(), first.count, second.count), ("task", 1, 2));
    block_on(async {
        assert!(!one.extend(&mut first, Span::from_ms(1000)).await.unwrap());
        one.acknowledge(first).await.unwrap();
        // The other still has it.
        let mut second = second;
        assert!(other.extend(&mut second, LONG).await.unwrap(), "it was taken away from the other");
        other.acknowledge(second).await.unwrap();
        assert!(one.receive(LONG).await.unwrap().is_none());
    });
}

#[test]
fn a_message_can_be_hidden_kept_and_given_up() {
    let place = TestBucket::new("hidden");
    let bucket = open(&place);
    block_on(async {
        bucket.send("later", LONG).await.unwrap();
        assert!(bucket.receive(Span(1)).await.unwrap().is_none());
        bucket.send("now", Span(0)).await.unwrap();
    });
    let mut delivery = next(&bucket, LONG);
    block_on(async {
        assert!(bucket.extend(&mut delivery, LONG).await.unwrap());
        assert!(bucket.receive(Span(1)).await.unwrap().is_none(), "it is kept");
        assert!(bucket.extend(&mut delivery, Span(0)).await.unwrap());
    });
    let again = next(&bucket, LONG);
    assert_eq!((again.text.as_str(), again.count), ("now", 2));
}

#[test]
fn queues_of_jobs_are_apart_and_can_be_removed() {
    let place = TestBucket::new("apart");
    let queue = |job: &str| Bucket::open(&place.address(), job, Seal::without_key()).unwrap();
    let (one, other) = (queue("one"), queue("other"));
    block_on(async {
        one.send("task", Span(0)).await.unwrap();
        assert!(other.receive(LONG).await.unwrap().is_none());
        other.remove_queue().await.unwrap();
        assert!(one.receive(LONG).await.unwrap().is_some());
        one.remove_queue().await.unwrap();
    });
}
