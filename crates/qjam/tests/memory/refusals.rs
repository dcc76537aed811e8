//! Rounds that cannot fit, before anything is sent.

use crate::{MIB, Numbers, sum};
use qjam::journal::What;
use qjam::memory::DoesNotFit;
use qjam::{DataSet, Error, Master};

fn refusal(error: &Error) -> &DoesNotFit {
    match error {
        Error::DoesNotFit(refusal) => refusal,
        other => panic!("{other}"),
    }
}

#[test]
fn a_chunk_larger_than_the_limit_is_refused_with_the_numbers() {
    let numbers = Numbers::new(64 * MIB);
    let m = Master::builder().memory_limit(24 * MIB).connect("proc:2").unwrap();
    let halves = numbers.data().partitions(2).unwrap();
    let error = m.run(sum, &(), &halves).unwrap_err();
    let began = m.journal().iter().any(|entry| matches!(entry.what, What::RoundStarted { .. }));
    assert!(!began && m.last_round().is_none(), "nobody was given anything to do");
    let found = refusal(&error);
    assert_eq!((found.limit_bytes, found.needed_bytes), (24 * MIB, 32 * MIB));
    assert_eq!((found.chunks_at_once, found.chunk_bytes, found.chunk_records), (1, 32 * MIB, 512 << 10));
    println!("{error}");
    // What the remedy says does it.
    let text = error.to_string();
    let records = text.split("chunk_records(").nth(1).unwrap().split(')').next().unwrap().parse().unwrap();
    let fits = numbers.data().chunk_records(records).unwrap();
    assert_eq!(m.run(sum, &(), &fits).unwrap(), m.run(sum, &(), &numbers.data()).unwrap());
}

#[test]
fn slots_count_together_where_all_are_at_work() {
    let numbers = Numbers::new(64 * MIB);
    let eighths = numbers.data().partitions(8).unwrap();
    let connect = |engine| Master::builder().memory_limit(30 * MIB).connect(engine).unwrap();
    let error = connect("proc:1*4").run(sum, &(), &eighths).unwrap_err();
    assert_eq!((refusal(&error).chunks_at_once, refusal(&error).needed_bytes), (4, 32 * MIB), "{error}");
    assert!(error.to_string().contains("fewer slots"), "{error}");
    // With as many slots as chunks it is not certain that one process has four at a time.
    for engine in ["proc:4", "proc:1*2"] {
        connect(engine).run(sum, &(), &eighths).unwrap_or_else(|e| panic!("{engine}: {e}"));
    }
}

#[test]
fn what_is_not_private_is_not_refused() {
    let m = Master::builder().memory_limit(24 * MIB).connect("proc:2,local:1").unwrap();
    let here = DataSet::dense(vec![1.0; 8 << 20], 8).unwrap().partitions(2).unwrap(); // 64 MiB
    assert_eq!(m.run(sum, &(), &here).unwrap(), f64::from(8 << 20));
    // Threads have no limit, and one of them may get the large chunk.
    let numbers = Numbers::new(40 * MIB);
    let uneven = numbers.data().chunk_records(30 << 14).unwrap();
    assert!(m.run(sum, &(), &uneven).is_ok());
}

#[test]
fn workers_that_come_later_are_asked_too() {
    let numbers = Numbers::new(64 * MIB);
    let halves = numbers.data().partitions(2).unwrap();
    let m = Master::builder().memory_limit(24 * MIB).connect("local:1").unwrap();
    let expected = m.run(sum, &(), &halves).unwrap();
    m.add_workers("proc:1").unwrap();
    assert!(m.remove_worker("local"));
    assert!(matches!(m.run(sum, &(), &halves).unwrap_err(), Error::DoesNotFit(_)));
    m.add_workers("local:1").unwrap();
    assert!(m.remove_worker("proc:0"));
    assert_eq!(m.run(sum, &(), &halves).unwrap(), expected);
}
