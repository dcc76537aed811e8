//! Workers may be killed at any time: the bits stay, and only what was lost is made again.

use crate::ridge::{Problem, Solution};
use qjam::ids::{SeatId, WorkerId};
use qjam::journal::{Entry, What};
use qjam::{Master, Rng};
use qjam_conformance::support::{unhurried, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::time::Duration;

const PARTITIONS: u32 = 8;

/// Runs the problem while somebody kills workers at random, so many times.
fn solve_with_kills(problem: &Problem, m: &Master, rounds: u64, kills: u32) -> (Solution, u32) {
    let (round_begins, begun) = std::sync::mpsc::channel();
    let (is_killed, killed) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let killer = scope.spawn(move || {
            let mut random = Rng::keyed(11, 0, 0);
            let mut done = 0;
            // One of so many rounds has a death in it, or just after it.
            while done < kills && begun.recv().is_ok() {
                std::thread::sleep(Duration::from_micros(random.below(6_000)));
                wait_until("that somebody can be killed", || {
                    let pids: Vec<u32> = m.workers().iter().filter_map(|w| w.pid).collect();
                    let Some(pid) = pids.get(random.below(pids.len().max(1) as u64) as usize) else {
                        return false;
                    };
                    kill_process(Pid::from_raw(*pid as i32).unwrap(), Signal::KILL).is_ok()
                });
                done += 1;
                let _ = is_killed.send(());
            }
            done
        });
        let every = (rounds / u64::from(kills + kills / 8 + 1)).max(1);
        // The next round but one does not begin before the death: none comes after the last round.
        let tell = |round: u64| match round % every {
            n if n == every - 1 => drop(round_begins.send(())),
            1 if round > every => drop(killed.recv()),
            _ => {}
        };
        let solution = problem.solve(m, rounds, tell).unwrap();
        drop(round_begins);
        (solution, killer.join().unwrap())
    })
}

/// What the journal has to say about states.
#[derive(Default)]
struct Account {
    restored: u32,
    replayed: u32,
    checkpoints: u32,
    /// Time of checkpoints, and of rounds.
    spent_us: u64,
    worked_us: u64,
}

impl Account {
    /// Adds it all up, and sees to it that only partitions that were lost were made again: whoever had them was lost, or
    /// they were moved.
    fn of(journal: &[Entry], seats: u32) -> Account {
        let mut account = Account::default();
        // Neighbours are together at first.
        let mut home: Vec<WorkerId> = (0..PARTITIONS)
            .map(|p| WorkerId { seat: SeatId(p * seats / PARTITIONS), incarnation: 0 })
            .collect();
        let (mut lost, mut moved) = (BTreeSet::new(), BTreeSet::<u32>::new());
        for entry in journal {
            match &entry.what {
                What::Restored { worker, partition, steps, .. } => {
                    account.restored += 1;
                    account.replayed += steps;
                    let had = std::mem::replace(&mut home[*partition as usize], *worker);
                    let is_lost = lost.contains(&had) || moved.remove(partition);
                    assert!(is_lost, "{worker} made {partition} again, and {had} still had it");
                }
                What::WorkerLost(worker, _) => {
                    lost.insert(*worker);
                }
                What::Moved { partitions, .. } => moved.extend(partitions),
                What::Checkpointed { took_us, .. } => {
                    account.checkpoints += 1;
                    account.spent_us += took_us;
                }
                What::Report(report) => account.worked_us += report.total_us,
                _ => {}
            }
        }
        account
    }
}

/// Gives the share of the time that checkpoints took.
fn check(rounds: u64, kills: u32) -> f64 {
    let problem = || Problem::new(64, PARTITIONS as usize, 1);
    let alone = problem().solve(&Master::connect("local:1").unwrap(), rounds, |_| {}).unwrap();
    let m = Master::builder().on_log(|_| {}).deadlines(unhurried()).connect("proc:4").unwrap();
    let (solution, killed) = solve_with_kills(&problem().slowly(2_000), &m, rounds, kills);
    assert!(solution.bits() == alone.bits(), "other bits after {killed} kills");
    let account = Account::of(&m.journal(), 4);
    let share = account.spent_us as f64 / account.worked_us as f64;
    println!(
        "{killed} kills in {rounds} rounds of {} us: {} partitions restored, {} rounds of theirs run again; {} checkpoints, {:.2} % of the time",
        account.worked_us / rounds,
        account.restored,
        account.replayed,
        account.checkpoints,
        share * 100.0
    );
    assert!(killed >= kills.min(20), "{killed} kills before it was over");
    assert!(account.restored >= killed / 2, "{} restored", account.restored);
    share
}

#[test]
fn thirty_random_kills_leave_the_bits_alone() {
    check(800, 30);
}

#[test]
#[ignore = "a measurement"]
fn checkpoints_take_little_time() {
    let share = check(800, 30);
    assert!(share > 0.0 && share <= 0.02, "{share}");
}

/// The same for longer, so that checkpoints come and go.
#[test]
#[ignore = "takes a minute"]
fn a_long_run_with_a_kill_every_moment_has_the_bits_of_an_undisturbed_one() {
    assert!(check(8_000, 400) > 0.0, "checkpoints were made");
}
