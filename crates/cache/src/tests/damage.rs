use super::*;
use std::os::unix::fs::symlink;

#[test]
fn a_flipped_byte_is_found_and_the_chunk_is_dead_for_all() {
    let place = TestFolder::new();
    let mut cache = place.open();
    let (bad, spot) = add(&mut cache, 1, 70_000);
    let (good, _) = add(&mut cache, 2, 70_000);
    drop(cache);
    let path = place.packs().remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[spot.offset as usize + 69_999] ^= 1;
    std::fs::write(&path, bytes).unwrap();

    let mut cache = place.open();
    let mut other = place.open();
    assert!(other.find(&good).is_some());
    assert!(!has_good(&mut cache, &bad));
    cache.mark(&bad, false);
    assert!(cache.find(&bad).is_none());
    assert!(other.find(&bad).is_none(), "another process looks at the record, too");
    let mut reopened = place.open();
    assert!(reopened.find(&bad).is_none() && has_good(&mut reopened, &good));
    assert_eq!(verify(&place.0).unwrap(), Verified { good: 1, bad: 0 });

    // Fetched again, it is found for good.
    add(&mut reopened, 1, 70_000);
    drop((cache, other, reopened));
    for _ in 0..2 {
        let mut cache = place.open();
        assert!(has_good(&mut cache, &bad) && has_good(&mut cache, &good));
    }
}

#[test]
fn verify_makes_bad_chunks_dead() {
    let place = TestFolder::new();
    let mut cache = place.open();
    let (bad, spot) = add(&mut cache, 1, 1000);
    let (good, _) = add(&mut cache, 2, 1000);
    drop(cache);
    let path = place.packs().remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[spot.offset as usize] ^= 0x80;
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(verify(&place.0).unwrap(), Verified { good: 1, bad: 1 });
    assert_eq!(verify(&place.0).unwrap(), Verified { good: 1, bad: 0 });
    let mut cache = place.open();
    assert!(cache.find(&bad).is_none() && has_good(&mut cache, &good));
}

/// A pack of three small chunks, as it is in the file when closed, and without its list.
fn small_pack() -> ([Vec<u8>; 2], Vec<(ChunkId, CachedChunk)>) {
    let place = TestFolder::new();
    let mut cache = place.open();
    let added: Vec<_> = [0, 100, 64].map(|bytes| add(&mut cache, bytes, bytes)).into();
    drop(cache);
    let closed = std::fs::read(&place.packs()[0]).unwrap();
    let records = added.last().map(|(_, spot)| (spot.offset + spot.header.bytes) as usize).unwrap();
    ([closed.clone(), closed[..records].to_vec()], added)
}

/// Opens a cache with this pack. A chunk that is found is good unless its payload is touched, and a touched payload
/// keeps no chunk from being found.
fn check_damaged(pack: &[u8], added: &[(ChunkId, CachedChunk)], touched: Option<usize>) {
    let place = TestFolder::new();
    std::fs::create_dir(place.0.join("cache")).unwrap();
    std::fs::write(place.0.join("cache/0123456789abcdef.pack"), pack).unwrap();
    let payload = |spot: &CachedChunk| spot.offset as usize..(spot.offset + spot.header.bytes) as usize;
    let within = |(_, spot): &(ChunkId, CachedChunk)| touched.is_some_and(|at| payload(spot).contains(&at));
    for turn in 0..2 {
        let mut cache = place.open();
        for chunk in added {
            let id = &chunk.0;
            let Some(spot) = cache.find(id) else {
                assert!(!added.iter().any(within) || turn == 1 && within(chunk), "{touched:?}");
                continue;
            };
            let good = is_good(&cache, &spot, id);
            assert_eq!(good, !within(chunk), "{touched:?}");
            cache.mark(id, good);
            assert_eq!(cache.find(id).is_some(), good);
        }
        // It can be used as before.
        let (id, _) = super::add(&mut cache, 77, 500);
        assert!(has_good(&mut cache, &id));
    }
}

#[test]
fn any_flipped_byte_costs_at_most_chunks() {
    let (packs, added) = small_pack();
    for pack in packs {
        for at in 0..pack.len() {
            for flip in [1, 0xff] {
                let mut damaged = pack.clone();
                damaged[at] ^= flip;
                check_damaged(&damaged, &added, Some(at));
            }
        }
    }
}

#[test]
fn any_truncation_costs_at_most_chunks() {
    let (packs, added) = small_pack();
    for pack in packs {
        for bytes in 0..pack.len() {
            check_damaged(&pack[..bytes], &added, None);
        }
    }
}

#[test]
fn noise_is_no_pack() {
    for number in 0..200 {
        check_damaged(&chunk(number, number * 13).1, &[], None);
    }
}

#[test]
fn links_and_pipes_are_left_alone() {
    let place = TestFolder::new();
    let mut cache = place.open();
    let (id, _) = add(&mut cache, 1, 1000);
    drop(cache);
    let elsewhere = TestFolder::new();
    std::fs::create_dir(elsewhere.0.join("cache")).unwrap();
    symlink(&place.packs()[0], elsewhere.0.join("cache/0123456789abcdef.pack")).unwrap();
    let pipe = elsewhere.0.join("cache/1123456789abcdef.pack");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    assert!(elsewhere.open().find(&id).is_none());

    let linked = TestFolder::new();
    symlink(place.0.join("cache"), linked.0.join("cache")).unwrap();
    let mut cache = linked.open();
    assert!(cache.find(&id).is_none());
    let trouble = cache.trouble().unwrap();
    assert!(trouble.contains("symbolic link") && trouble.contains("memory"), "{trouble}");
    assert!(add(&mut cache, 2, 10).1.verified);
    assert!(matches!(survey(&linked.0), Err(CacheError::NotOurs { .. })));
}
