//! States on other hosts: the bits of threads, whatever is killed.

use crate::hosts::{Host, Kind, claim};
use crate::ridge::Problem;
use qjam::journal::What;
use qjam::{Master, Rng};
use std::sync::mpsc::Receiver;

#[test]
fn states_on_hosts_have_the_bits_of_threads() {
    let [a, b] = claim(["a", "b"]);
    let problem = Problem::new(60, 6, 2);
    let alone = problem.solve(&Master::connect("local:1").unwrap(), 30, |_| {}).unwrap();
    for workers in ["a*1,b*2", "a*1,proc:1,local:1"] {
        let m = Master::connect(workers).unwrap();
        assert!(problem.solve(&m, 30, |_| {}).unwrap().bits() == alone.bits(), "other bits on {workers}");
    }
    a.must_be_quiet();
    b.must_be_quiet();
}

/// Kills somebody on one of the hosts whenever it is told to.
fn kill_some(hosts: [&Host; 2], told: Receiver<()>) -> u32 {
    let mut random = Rng::keyed(5, 0, 0);
    let mut done = 0;
    while told.recv().is_ok() {
        // Now and then the connection goes, too.
        let kind = if random.below(6) == 0 { Kind::Supervisor } else { Kind::Executor };
        done += hosts[random.below(2) as usize].signal(kind, "KILL").min(1) as u32;
    }
    done
}

#[test]
fn thirty_kills_on_hosts_leave_the_bits_alone() {
    let [a, b] = claim(["a", "b"]);
    let problem = || Problem::new(60, 6, 1);
    let rounds = 1_200;
    let alone = problem().solve(&Master::connect("local:1").unwrap(), rounds, |_| {}).unwrap();
    let m = Master::builder().on_log(|_| {}).connect("a*1,b*1,proc:1").unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let (solution, kills) = std::thread::scope(|scope| {
        let hosts = [&a, &b];
        let killer = scope.spawn(move || kill_some(hosts, told));
        // In one of forty rounds.
        let between = |round: u64| {
            if round % 40 == 5 {
                let _ = tell.send(());
            }
        };
        let solution = problem().slowly(3_000).solve(&m, rounds, between).unwrap();
        drop(tell);
        (solution, killer.join().unwrap())
    });
    assert!(solution.bits() == alone.bits(), "other bits after {kills} kills");
    let (mut restored, mut replayed, mut spent_us, mut worked_us) = (0, 0, 0, 0);
    for entry in m.journal() {
        match entry.what {
            What::Restored { steps, .. } => (restored, replayed) = (restored + 1, replayed + steps),
            What::Checkpointed { took_us, .. } => spent_us += took_us,
            What::Report(report) => worked_us += report.total_us,
            _ => {}
        }
    }
    let share = 100.0 * spent_us as f64 / worked_us as f64;
    println!(
        "{kills} kills in {rounds} rounds of {} us: {restored} partitions restored, {replayed} rounds of theirs run again; checkpoints {share:.2} % of the time",
        worked_us / rounds
    );
    assert!(kills >= 20 && restored > 0, "{kills} kills, {restored} restored");
    drop(m);
    a.must_be_quiet();
    b.must_be_quiet();
}
