use super::*;
use std::os::fd::AsFd;

#[test]
fn chunks_survive_reopening() {
    let place = TestFolder::new();
    let mut cache = place.open();
    let sizes = [0, 1, 64, 70_000, 3_000_000];
    let added: Vec<_> = sizes.iter().map(|bytes| add(&mut cache, *bytes, *bytes)).collect();
    assert!(
        added.iter().all(|(id, spot)| spot.verified && spot.offset % 64 == 0 && is_good(&cache, spot, id))
    );
    drop(cache);

    let mut cache = place.open();
    for (id, before) in &added {
        let spot = cache.find(id).unwrap();
        assert!(!spot.verified);
        assert_eq!((&spot.header, spot.offset), (&before.header, before.offset));
        assert!(is_good(&cache, &spot, id));
        cache.mark(id, true);
        assert!(cache.find(id).unwrap().verified);
    }
    assert_eq!(cache.find(&chunk(99, 5).2).map(|spot| spot.offset), None);
    assert_eq!(cache.trouble(), None);
}

#[test]
fn a_closed_pack_is_as_long_as_what_is_in_it() {
    let place = TestFolder::new();
    let mut cache = place.open();
    add(&mut cache, 1, 1000);
    assert_eq!(place.packs()[0].metadata().unwrap().len(), 64 << 20);
    drop(cache);
    assert!(place.packs()[0].metadata().unwrap().len() < 2000);
}

#[test]
fn the_descriptor_that_is_handed_out_cannot_write() {
    let place = TestFolder::new();
    for mut cache in [place.open(), Cache::open(None, 0)] {
        let (_, spot) = add(&mut cache, 1, 1000);
        let file = cache.file(spot.pack).unwrap();
        assert!(rustix::io::pwrite(file.as_fd(), b"x", spot.offset).is_err());
        assert!(cache.file(99).is_none());
    }
}

#[test]
fn without_a_directory_all_is_in_memory() {
    let mut cache = Cache::open(None, DEFAULT_CAP_BYTES);
    let added: Vec<_> = (0..10).map(|n| add(&mut cache, n, 100_000).0).collect();
    assert!(added.iter().all(|id| has_good(&mut cache, id)));
    let usage = cache.usage();
    assert_eq!((usage.packs, usage.chunks, usage.disk_bytes, usage.dir), (1, 10, 0, None));
    assert!(usage.memory_bytes >= 1_000_000);
    assert_eq!(cache.trouble(), None);
}

#[test]
fn what_is_not_what_it_was_called_is_not_kept() {
    let place = TestFolder::new();
    let mut cache = place.open();
    let (header, payload, id) = chunk(1, 5000);
    let mut wrong = cache.begin(id, header.clone()).unwrap();
    cache.write(&mut wrong, &[7; 5000]).unwrap();
    let refused = cache.finish(wrong).unwrap_err();
    assert!(matches!(refused, FinishError::Mismatch { written: 5000, bytes: 5000, .. }), "{refused}");

    let mut short = cache.begin(id, header.clone()).unwrap();
    cache.write(&mut short, &payload[..4999]).unwrap();
    assert!(cache.write(&mut short, b"ab").is_err());
    assert!(cache.finish(short).is_err());

    let mut gone = cache.begin(id, header).unwrap();
    cache.write(&mut gone, &payload).unwrap();
    cache.abandon(gone);
    assert!(cache.find(&id).is_none());
    let (other, _) = add(&mut cache, 2, 100);
    drop(cache);
    let mut cache = place.open();
    assert!(cache.find(&id).is_none());
    assert!(has_good(&mut cache, &other));
}

#[test]
fn chunks_that_can_not_be_are_refused() {
    let mut cache = Cache::open(None, 0);
    let id = chunk(0, 0).2;
    let long = Header { kind: "list".into(), dtype: "u8".into(), shape: vec![], bytes: u64::MAX };
    assert!(cache.begin(id, long).is_err());
    let wordy = Header { kind: "x".repeat(2 << 20), dtype: "u8".into(), shape: vec![], bytes: 1 };
    assert!(cache.begin(id, wordy).is_err());
}

#[test]
fn two_chunks_may_arrive_at_once() {
    let place = TestFolder::new();
    let mut cache = place.open();
    let ((h1, p1, id1), (h2, p2, id2)) = (chunk(1, 3000), chunk(2, 4000));
    let mut first = cache.begin(id1, h1).unwrap();
    cache.write(&mut first, &p1[..1000]).unwrap();
    let mut second = cache.begin(id2, h2).unwrap();
    cache.write(&mut second, &p2).unwrap();
    cache.write(&mut first, &p1[1000..]).unwrap();
    cache.finish(second).unwrap();
    cache.finish(first).unwrap();
    assert!(has_good(&mut cache, &id1) && has_good(&mut cache, &id2));
    drop(cache);
    let mut cache = place.open();
    assert!(has_good(&mut cache, &id1) && has_good(&mut cache, &id2));
}

#[test]
fn many_small_runs_leave_one_pack() {
    let place = TestFolder::new();
    let mut ids = Vec::new();
    for n in 0..20 {
        let mut cache = place.open();
        assert!(ids.iter().all(|id| has_good(&mut cache, id)), "before run {n}");
        ids.push(add(&mut cache, n, 10_000).0);
        assert!(ids.iter().all(|id| has_good(&mut cache, id)), "in run {n}");
    }
    assert_eq!(place.packs().len(), 1);
}

#[test]
fn a_chunk_longer_than_a_pack_has_one_of_its_own() {
    let place = TestFolder::new();
    let mut cache = place.open_with(SMALL_CAP);
    let (small, _) = add(&mut cache, 1, 1000);
    let (big, spot) = add(&mut cache, 2, 3 << 20);
    let (next, _) = add(&mut cache, 3, 1000);
    assert!(spot.pack_bytes >= spot.offset + spot.header.bytes);
    drop(cache);
    let mut cache = place.open_with(SMALL_CAP);
    assert!([small, big, next].iter().all(|id| has_good(&mut cache, id)));
}

#[test]
fn places_beyond_4_gib_are_reached() {
    let place = TestFolder::new();
    let mut cache = place.open();
    let header = Header { kind: "list".into(), dtype: "u8".into(), shape: vec![1], bytes: 5 << 30 };
    let huge = ChunkId([7; 32]);
    let arriving = cache.begin(huge, header.clone()).unwrap();
    assert!(place.packs()[0].metadata().unwrap().len() > 5 << 30);
    cache.abandon(arriving);
    drop(cache);

    // 5 GiB of nothing, and a small chunk behind.
    let (small_header, payload, small) = chunk(1, 1000);
    let path = place.0.join("cache/0123456789abcdef.pack");
    let file = OwnedFd::from(std::fs::File::create(path).unwrap());
    let first = record::Record::encode(&huge, &header).unwrap();
    record::write_all_at(&file, &first, 0).unwrap();
    let second_at = record::aligned(first.len() as u64 + header.bytes);
    let second = record::Record::encode(&small, &small_header).unwrap();
    record::write_all_at(&file, &second, second_at).unwrap();
    record::write_all_at(&file, &payload, second_at + second.len() as u64).unwrap();
    drop(file);
    for _ in ["walked", "from the list"] {
        let mut cache = place.open();
        assert_eq!(cache.find(&huge).unwrap().header.bytes, 5 << 30);
        let spot = cache.find(&small).unwrap();
        assert!(spot.offset > 5 << 30 && spot.pack_bytes > spot.offset);
        assert!(is_good(&cache, &spot, &small));
    }
}

#[test]
fn the_command_line_can_look_check_empty_and_cap() {
    let place = TestFolder::new();
    assert_eq!(survey(&place.0).unwrap().packs, 0);
    assert_eq!(clear(&place.0).unwrap(), 0);
    assert_eq!(verify(&place.0).unwrap(), Verified::default());
    let mut cache = place.open_with(SMALL_CAP);
    let ids: Vec<_> = (0..30).map(|n| add(&mut cache, n, 100_000).0).collect();
    // While somebody uses it.
    let report = survey(&place.0).unwrap();
    assert_eq!((report.chunks, report.cap_bytes, report.cap_is_set), (30, DEFAULT_CAP_BYTES, false));
    assert_eq!(verify(&place.0).unwrap(), Verified { good: 30, bad: 0 });
    drop(cache);

    set_cap(&place.0, Some(2 << 20)).unwrap();
    let report = survey(&place.0).unwrap();
    assert!(report.cap_is_set && report.cap_bytes == 2 << 20 && report.bytes <= 2 << 20, "{report:?}");
    let mut cache = place.open();
    assert_eq!(cache.usage().cap_bytes, 2 << 20);
    let kept = ids.iter().find(|id| cache.find(id).is_some()).unwrap();

    assert_eq!(clear(&place.0).unwrap(), report.bytes);
    assert!(place.packs().is_empty());
    // What is in use stays so, what is not is gone.
    assert!(has_good(&mut cache, kept));
    cache.refresh();
    assert!(ids.iter().filter(|id| cache.find(id).is_some()).count() < 20);
    add(&mut cache, 50, 100);
    set_cap(&place.0, None).unwrap();
    assert!(!survey(&place.0).unwrap().cap_is_set);
}
