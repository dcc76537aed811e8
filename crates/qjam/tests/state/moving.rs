//! Workers come and go, and states with them.

use crate::counting::{Tally, add, after, connect, data, plain};
use qjam::Master;
use qjam::journal::What;
use rustix::process::{Pid, Signal, kill_process};

/// Partitions that were made again so far, with how many steps each.
fn restored(m: &Master) -> Vec<(u32, u32)> {
    let journal = m.journal();
    let restored = journal.iter().filter_map(|entry| match entry.what {
        What::Restored { partition, steps, .. } => Some((partition, steps)),
        _ => None,
    });
    restored.collect()
}

#[test]
fn a_worker_that_is_sent_away_hands_its_states_over() {
    let m = connect("proc:3");
    let mut held = m.hold::<Tally>(&data(6, 100)).unwrap();
    for n in 0..5 {
        held.run(add, &plain(n)).unwrap();
    }
    assert!(m.remove_worker("proc:1"));
    assert_eq!(held.run(add, &plain(5)).unwrap(), 6 * after(&[0, 1, 2, 3, 4, 5]));
    let mut restored = restored(&m);
    restored.sort_unstable();
    assert_eq!(restored, [(2, 0), (3, 0)], "its own, from a checkpoint, and nothing run again");
}

#[test]
fn a_worker_that_comes_later_takes_its_share() {
    let m = connect("proc:2");
    let mut held = m.hold::<Tally>(&data(9, 100)).unwrap();
    held.run(add, &plain(0)).unwrap();
    m.add_workers("proc:1").unwrap();
    for n in 1..4 {
        held.run(add, &plain(n)).unwrap();
    }
    let moved: usize = m
        .journal()
        .iter()
        .map(|entry| match &entry.what {
            What::Moved { partitions, .. } => partitions.len(),
            _ => 0,
        })
        .sum();
    assert_eq!((moved, restored(&m).len()), (3, 3), "its share, once");
    assert!(held.collect().unwrap().iter().all(|t| t.sum == after(&[0, 1, 2, 3])));
}

#[test]
fn after_a_checkpoint_only_the_rounds_since_are_run_again() {
    for engine in ["proc:2", "proc:1*2"] {
        let m = connect(engine);
        let mut held = m.hold::<Tally>(&data(4, 100_000)).unwrap();
        for n in 0..10 {
            held.run(add, &plain(n)).unwrap();
            if n == 6 {
                held.checkpoint().unwrap();
            }
        }
        let pid = m.workers()[0].pid.unwrap();
        kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
        let all: Vec<u64> = (0..11).collect();
        assert_eq!(held.run(add, &plain(10)).unwrap(), 4 * after(&all), "{engine}");
        let restored = restored(&m);
        let lost = if engine == "proc:2" { 2 } else { 4 };
        assert!(restored.len() == lost && restored.iter().all(|(_, steps)| *steps == 3), "{restored:?}");
        let report = m.last_round().unwrap();
        assert_eq!((report.restored, report.replayed), (lost as u64, 3 * lost as u64));
    }
}
