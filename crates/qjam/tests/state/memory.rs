//! States that do not fit are refused with the numbers.

use crate::counting::{Tally, add, data, plain};
use qjam::{Error, Master};

const MIB: usize = 1 << 20;

#[test]
fn states_that_do_not_fit_are_refused_with_the_numbers() {
    let m = Master::builder().memory_limit(192 << 20).on_log(|_| {}).connect("proc:2").unwrap();
    // Six of eight mebibytes, three times, on each of two: 144 of 192.
    let mut held = m.hold::<Tally>(&data(12, 8 * MIB)).unwrap();
    assert_eq!(held.run(add, &plain(1)).unwrap(), 12);
    drop(held);
    let error = m.hold::<Tally>(&data(20, 8 * MIB)).unwrap_err();
    let Error::StateMemory { worker, partitions: 10, bytes, limit } = &error else { panic!("{error}") };
    assert!(worker.starts_with("proc:") && *limit == 192 << 20, "{error}");
    assert!((8 * MIB as u64..9 * MIB as u64).contains(bytes), "{error}");
    // Nobody was harmed.
    assert!(m.hold::<Tally>(&data(12, 8 * MIB)).is_ok());
}

#[test]
fn who_takes_over_more_than_it_can_keep_says_so() {
    let m = Master::builder().memory_limit(192 << 20).on_log(|_| {}).connect("proc:2").unwrap();
    let mut held = m.hold::<Tally>(&data(12, 8 * MIB)).unwrap();
    held.run(add, &plain(1)).unwrap();
    assert!(m.remove_worker("proc:0"));
    let error = held.run(add, &plain(2)).unwrap_err();
    assert!(matches!(&error, Error::StateMemory { partitions: 12, .. }), "{error}");
}
