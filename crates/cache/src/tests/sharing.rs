use super::*;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn what_one_writes_another_finds_after_looking_again() {
    let place = TestFolder::new();
    let (mut one, mut other) = (place.open(), place.open());
    let (first, _) = add(&mut one, 1, 1000);
    assert!(other.find(&first).is_none());
    other.refresh();
    assert!(has_good(&mut other, &first));
    let (second, _) = add(&mut one, 2, 1000);
    assert!(other.find(&second).is_none());
    other.refresh();
    assert!(has_good(&mut other, &second) && !other.find(&second).unwrap().verified);
    // A pack that is closed and then goes on, too.
    drop(one);
    let (third, _) = add(&mut place.open(), 3, 1000);
    other.refresh();
    assert!(has_good(&mut other, &third));
    // Both write; neither gets into the other's pack.
    let mut one = place.open();
    let ids: Vec<_> =
        (10..20).flat_map(|n| [add(&mut one, n, 1000).0, add(&mut other, 100 + n, 1000).0]).collect();
    one.refresh();
    other.refresh();
    assert!(ids.iter().all(|id| has_good(&mut one, id) && has_good(&mut other, id)));
}

#[test]
fn the_cap_holds_and_what_was_used_longest_ago_goes_first() {
    let place = TestFolder::new();
    let mut cache = place.open_with(SMALL_CAP);
    let mut ids: Vec<_> = (0..60).map(|n| add(&mut cache, n, 100_000).0).collect();
    drop(cache);
    // The first is used again, by somebody who goes on using it.
    std::thread::sleep(Duration::from_millis(20));
    let mut user = place.open_with(SMALL_CAP);
    assert!(user.find(&ids[0]).is_some());
    let mut cache = place.open_with(SMALL_CAP);
    for n in 100..140 {
        ids.push(add(&mut cache, n, 100_000).0);
        assert!(cache.usage().disk_bytes <= SMALL_CAP);
    }
    assert_eq!((cache.trouble(), cache.usage().memory_bytes), (None, 0));
    drop(cache);
    let mut cache = place.open_with(SMALL_CAP);
    let there: Vec<bool> = ids.iter().map(|id| cache.find(id).is_some()).collect();
    assert!(there[0] && has_good(&mut user, &ids[0]));
    assert!(!there[15] && !there[20] && there[60..].iter().all(|there| *there), "{there:?}");
    assert!(there[20..60].is_sorted(), "older ones are gone, younger ones are not: {there:?}");
}

#[test]
fn a_pack_is_in_use_for_as_long_as_a_descriptor_that_was_handed_out() {
    let place = TestFolder::new();
    let mut cache = place.open_with(SMALL_CAP);
    let (id, spot) = add(&mut cache, 1, 1000);
    let handed_out = cache.file(spot.pack).unwrap().try_clone().unwrap();
    drop(cache);
    set_cap(&place.0, Some(0)).unwrap();
    assert!(place.open().find(&id).is_some());
    drop(handed_out);
    set_cap(&place.0, Some(0)).unwrap();
    assert!(place.open().find(&id).is_none() && place.packs().is_empty());
}

#[test]
fn when_all_packs_are_in_use_it_goes_on_in_memory() {
    let place = TestFolder::new();
    let mut user = place.open_with(SMALL_CAP);
    (0..70).for_each(|n| drop(add(&mut user, n, 100_000)));
    let mut cache = place.open_with(SMALL_CAP);
    let ids: Vec<_> = (100..130).map(|n| add(&mut cache, n, 100_000).0).collect();
    assert!(cache.usage().disk_bytes <= SMALL_CAP && cache.usage().memory_bytes > 2_000_000);
    let trouble = cache.trouble().unwrap();
    assert!(trouble.contains("1.0 MiB are needed") && trouble.contains("cap of 8.0 MiB"), "{trouble}");
    assert!(trouble.contains(&place.0.display().to_string()), "{trouble}");
    assert_eq!(cache.trouble(), None);
    assert!(ids.iter().all(|id| has_good(&mut cache, id)));

    let (big, _) = add(&mut Cache::open(Some(&place.0), 100_000), 1, 200_000);
    assert!(place.open().find(&big).is_none());
}

#[test]
fn a_stuck_process_does_not_stop_others() {
    let place = TestFolder::new();
    let mut cache = place.open();
    let stuck = Folder::create(&place.0).unwrap().lock().unwrap();
    let (id, _) = add(&mut cache, 1, 1000);
    assert!(has_good(&mut cache, &id));
    assert!(cache.trouble().unwrap().contains("locked by another process"));
    drop(stuck);
}

/// The process that the test below kills.
pub(super) fn writer(dir: &Path) {
    let mut cache = Cache::open(Some(dir), SMALL_CAP);
    for n in 0..1_000_000 {
        add(&mut cache, n % 150, 1 + n % 100 * 997);
        if n == 0 {
            // From now on there is something to be found, whenever it is killed.
            println!("\nwriting");
        }
    }
}

#[test]
fn killed_writers_leave_only_whole_chunks() {
    let place = TestFolder::new();
    for turn in 0..12 {
        let start = || {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .envs(as_program("writer", &place.0))
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap());
            let mut line = String::new();
            while line.trim() != "writing" {
                line.clear();
                assert!(lines.read_line(&mut line).unwrap() > 0, "the writer did not start");
            }
            (child, lines)
        };
        // Two at once.
        let mut writers = [start(), start()];
        std::thread::sleep(Duration::from_millis(5 + turn * 7));
        for (child, lines) in &mut writers {
            child.kill().unwrap();
            child.wait().unwrap();
            lines.read_to_end(&mut Vec::new()).unwrap();
        }
        let mut cache = place.open_with(SMALL_CAP);
        let known: Vec<ChunkId> = cache.index.keys().copied().collect();
        assert!(!known.is_empty());
        assert!(known.iter().all(|id| has_good(&mut cache, id)), "turn {turn}");
        assert!(cache.usage().disk_bytes <= SMALL_CAP);
        assert_eq!(cache.trouble(), None);
        drop(cache);
        assert!(place.packs().iter().all(|pack| {
            let file = OwnedFd::from(std::fs::File::open(pack).unwrap());
            record::read_list(&file, pack.metadata().unwrap().len()).is_some()
        }));
    }
}

#[test]
fn what_is_forgotten_half_written_is_not_there() {
    let place = TestFolder::new();
    let mut cache = place.open();
    let (whole, _) = add(&mut cache, 1, 5000);
    let (header, payload, half) = chunk(2, 5000);
    let mut arriving = cache.begin(half, header).unwrap();
    cache.write(&mut arriving, &payload).unwrap();
    std::mem::forget((cache, arriving));
    let mut cache = place.open();
    assert!(has_good(&mut cache, &whole) && cache.find(&half).is_none());
    add(&mut cache, 2, 5000);
    assert!(has_good(&mut cache, &half));
}
