//! Hosts come and go while a run goes on, and nobody opens a port.

use crate::hosts::{Host, claim};
use crate::work::{compute, compute_with, data, expected};
use qjam::journal::What;
use qjam::{DataSet, Error, Master, Nothing};
use std::time::Duration;

#[test]
fn hosts_that_are_added_and_removed_leave_the_bits_alone() {
    let [c, d] = claim(["c", "d"]);
    let x = data(2);
    let expected = expected(&x, 8);
    let m = Master::connect("c*1,proc:1").unwrap();
    let hash = std::thread::scope(|scope| {
        let run = scope.spawn(|| compute(&m, &x, 8, 5));
        std::thread::sleep(Duration::from_millis(150));
        m.add_workers("d*2").unwrap();
        assert!(m.workers().iter().any(|w| w.name == "d" && w.slots == 2 && w.remote_pid.is_some()));
        std::thread::sleep(Duration::from_millis(150));
        assert!(m.remove_worker("c"));
        assert!(!m.remove_worker("c"), "it has gone");
        run.join().unwrap().unwrap()
    });
    assert_eq!(hash, expected);
    c.must_be_quiet();
    drop(m);
    d.must_be_quiet();
}

#[qjam::map]
fn where_am_i(_: &(), _: &Nothing) -> Vec<u64> {
    std::thread::sleep(Duration::from_millis(10));
    let mut on = vec![0; 2];
    let is_afar = std::env::current_exe().is_ok_and(|path| path.to_string_lossy().contains("/at-d/"));
    on[usize::from(is_afar)] = 1;
    on
}

#[test]
fn a_host_that_was_added_works_in_the_next_round() {
    let [c, d] = claim(["c", "d"]);
    // Each runs its share, however slow it is.
    let m = Master::builder().balance(false).connect("c*1").unwrap();
    let tasks = DataSet::nothing(16).unwrap();
    assert_eq!(m.run(where_am_i, &(), &tasks).unwrap(), [16, 0]);
    m.add_workers("d*1").unwrap();
    let on = m.run(where_am_i, &(), &tasks).unwrap();
    assert!(on[0] + on[1] == 16 && on[1] > 0, "{on:?}");
    assert!(m.remove_worker("d"));
    assert_eq!(m.run(where_am_i, &(), &tasks).unwrap(), [16, 0]);
    // And again, under the same name or another.
    m.add_workers("d*1").unwrap();
    let on = m.run(where_am_i, &(), &tasks).unwrap();
    assert!(on[0] + on[1] == 16 && on[1] > 0, "{on:?}");
    let error = m.add_workers("d:1*1").unwrap_err();
    assert!(matches!(error, Error::Hosts { .. }), "{error}");
    assert_eq!(m.workers().len(), 2, "one that cannot be reached is not taken on");
    assert_eq!(compute(&m, &data(2), 1, 0).unwrap(), expected(&data(2), 1));
    drop(m);
    c.must_be_quiet();
    d.must_be_quiet();
}

#[test]
fn every_host_that_was_asked_for_must_be_there_unless_fewer_will_do() {
    let [c] = claim(["c"]);
    let workers = "c*1,c:1*1";
    let error = Master::connect(workers).unwrap_err();
    println!("without: {error}");
    let Error::Hosts { failures } = &error else { panic!("{error}") };
    assert_eq!(failures.len(), 1, "{error}");
    c.must_be_quiet();
    let m = Master::builder().min_workers(1).connect(workers).unwrap();
    let x = data(2);
    assert_eq!(compute(&m, &x, 2, 0).unwrap(), expected(&x, 2));
    drop(m);
    let error = Master::builder().min_workers(2).connect(workers).unwrap_err();
    assert!(matches!(error, Error::Hosts { .. }), "{error}");
    c.must_be_quiet();
}

#[test]
fn nobody_listens_during_a_run() {
    let [a, b] = claim(["a", "b"]);
    let before: Vec<String> = [&a, &b].iter().map(|host| host.listening()).collect();
    let m = Master::connect("a*2,b*2").unwrap();
    let mut looked = 0;
    let x = data(3);
    let look = |hosts: [&Host; 2]| hosts.iter().map(|host| host.listening()).collect::<Vec<_>>();
    let hash = compute_with(&m, &x, 3, 0, |_| {
        assert_eq!(look([&a, &b]), before);
        looked += 1;
    });
    assert_eq!((hash.unwrap(), looked), (expected(&x, 3), 3));
    assert_eq!(look([&a, &b]), before);
    assert!(m.journal().iter().all(|e| !matches!(e.what, What::WorkerLost(..))));
    println!("{}", before.join(""));
    drop(m);
    a.must_be_quiet();
    b.must_be_quiet();
}
