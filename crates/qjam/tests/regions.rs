//! Shared memory: what is sealed stays as it is, and what is not is not mapped.

use qjam::store::{Arena, Region, RegionMut};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

fn again(fd: BorrowedFd<'_>) -> OwnedFd {
    fd.try_clone_to_owned().expect("another descriptor")
}

#[test]
fn what_is_written_is_what_others_read() {
    for bytes in [0, 1, 100, 4096, 1_000_000] {
        let mut filling = RegionMut::create(bytes).unwrap();
        filling.as_mut_slice().iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
        let region = filling.seal().unwrap();
        let other = Region::open(again(region.fd()), bytes).unwrap();
        assert_eq!((region.len(), other.len(), other.is_empty()), (bytes, bytes, bytes == 0));
        assert_eq!(region.bytes(0..bytes), other.bytes(0..bytes));
        assert_eq!(region.bytes(0..bytes), Region::copy_of(&region.bytes(0..bytes)).unwrap().bytes(0..bytes));
        assert!(other.bytes(0..bytes).iter().enumerate().all(|(i, byte)| *byte == i as u8));
    }
}

#[test]
fn a_sealed_region_cannot_be_changed_by_anyone() {
    let region = Region::copy_of(b"as it is").unwrap();
    let file = File::from(again(region.fd()));
    assert!(file.write_at(b"x", 0).is_err());
    assert!(file.set_len(3).is_err());
    assert!(file.set_len(100).is_err());
    assert_eq!(region.bytes(0..8), "as it is");
}

#[test]
fn parts_keep_the_memory_alive_and_are_not_copies() {
    let region = Region::copy_of(&[7; 10_000]).unwrap();
    let whole = region.bytes(0..10_000);
    let part = region.clone().bytes(5_000..6_000);
    assert_eq!(part.as_ptr() as usize, whole.as_ptr() as usize + 5_000);
    drop((region, whole));
    assert!(part.iter().all(|byte| *byte == 7));
}

#[test]
fn ranges_beyond_the_end_are_refused() {
    let region = Region::copy_of(b"12345").unwrap();
    assert_eq!(region.get(1..3).unwrap(), "23");
    assert!(region.get(3..6).is_none());
    assert!(region.get(usize::MAX - 1..usize::MAX).is_none());
    #[expect(clippy::reversed_empty_ranges, reason = "it must be refused too")]
    let backwards = region.get(3..1);
    assert!(backwards.is_none());
}

#[test]
fn memory_that_could_shrink_change_or_is_too_short_is_not_mapped() {
    let region = Region::copy_of(b"12345").unwrap();
    assert!(Region::open(again(region.fd()), 6).is_err());
    assert!(Region::open(again(region.fd()), usize::MAX).is_err());
    assert!(Region::open(again(region.fd()), 4).is_ok());

    let arena = Arena::create(100).unwrap();
    assert!(Region::open(again(arena.fd()), 100).is_err(), "an arena can be written to");
    assert!(Arena::open(again(arena.fd()), 101).is_err());

    let path = std::env::temp_dir().join(format!("qjam-region-{}", std::process::id()));
    let mut file = File::create_new(&path).unwrap();
    file.write_all(&[0; 100]).unwrap();
    let file = File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let error = Region::open(again(file.as_fd()), 100).unwrap_err();
    assert!(error.to_string().contains("sealed") || error.to_string().contains("seals"), "{error}");
    assert!(Arena::open(again(file.as_fd()), 100).is_err());
}

#[test]
fn an_arena_shows_what_was_written_last() {
    let mut arena = Arena::create(8192).unwrap();
    let view = Arena::open(again(arena.fd()), 8192).unwrap();
    for round in 1..=3_u8 {
        arena.as_mut_slice().fill(round);
        assert!(view.bytes(0..8192).iter().all(|byte| *byte == round));
        assert_eq!(arena.as_slice()[8191], round);
    }
    assert!(view.get(8000..8193).is_none());
    assert_eq!((arena.len(), view.len()), (8192, 8192));
    let file = File::from(again(arena.fd()));
    assert!(file.set_len(10).is_err());
}
