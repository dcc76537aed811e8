//! A killed program that is run again comes to the same bits, and repeats at most one round.

use crate::{Folder, numbers, wave};
use qjam::runs::{Run, State};
use qjam::{Dense, Master};
use qjam_conformance::program::{Program, command, say};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const ROUNDS: usize = 25;
/// The number of the round after which a program waits to be killed.
const STAYS_AFTER: &str = "QJAM_TEST_STAYS_AFTER";

#[qjam::map]
fn slow_wave(theta: &[f64], x: &Dense<f64>) -> Vec<f64> {
    // Every chunk takes a while, so that a kill falls inside a round as often as not.
    std::thread::sleep(Duration::from_millis(2));
    wave(theta, x)
}

/// Rounds whose parameters are the values before.
pub(crate) fn descent(workers: &str) {
    let stays_after = std::env::var(STAYS_AFTER).ok().map(|round| round.parse::<usize>().unwrap());
    let m = Master::connect(workers).unwrap();
    let x = numbers();
    let mut theta = vec![0.5, 1.5, 2.5];
    for n in 0..ROUNDS {
        theta = m.run(slow_wave, &theta[..], &x).unwrap();
        theta.iter_mut().for_each(|t| *t = t.cos());
        say(format!("round {n}"));
        // It is there to be killed for as long as that takes.
        while stays_after == Some(n) {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }
    say(format!("bits {:?}", theta.iter().map(|t| t.to_bits()).collect::<Vec<_>>()));
}

fn prepared(folder: &Folder, workers: &str, resume: Option<&Path>) -> Command {
    let mut command = command("descent", workers);
    command.env("QJAM_RUNS", folder.path());
    if let Some(path) = resume {
        command.env("QJAM_RESUME", path);
    }
    command
}

fn start(folder: &Folder, workers: &str, resume: Option<&Path>) -> Program {
    Program::run(prepared(folder, workers, resume))
}

/// The last thing it says, and how many rounds it told before.
fn told(said: &[String]) -> (Option<&str>, u64) {
    let bits = said.iter().find_map(|s| s.strip_prefix("bits "));
    (bits, said.iter().filter(|s| s.starts_with("round ")).count() as u64)
}

/// Runs it and kills it when it has told of so many rounds, a moment and at most two rounds later; says how many it had told.
fn kill_after(mut command: Command, rounds: u64, moment: Duration) -> u64 {
    command.env(STAYS_AFTER, (rounds + 1).to_string());
    let mut program = Program::run(command);
    let heard = (0..rounds).map_while(|_| program.hear()).collect::<Vec<_>>();
    std::thread::sleep(moment);
    program.child.kill().unwrap();
    program.child.wait().unwrap();
    told(&heard).1 + told(&program.finish().0).1
}

#[test]
fn killed_at_any_moment_and_run_again_it_has_the_same_bits_and_repeats_at_most_one_round() {
    let folder = Folder::new();
    let mut undisturbed = start(&folder, "local:1", None);
    let said = undisturbed.finish().0;
    let (bits, rounds) = told(&said);
    assert_eq!(rounds, ROUNDS as u64);
    let (mut random, mut repeated, mut recalled) = (qjam::Rng::keyed(7, 0, 0), 0, Vec::new());
    for n in 0..20 {
        let folder = Folder::new();
        let workers = ["proc:2", "local:2", "proc:1*2"][n % 3];
        // Somewhere between two rounds or in one, wherever that is on this machine.
        let mut moment = || (random.below(ROUNDS as u64 - 1), Duration::from_micros(random.below(30_000)));
        let (rounds, later) = moment();
        let mut known = kill_after(prepared(&folder, workers, None), rounds, later);
        // Now and then the one that goes on is killed, too, perhaps before it has caught up.
        if n % 2 == 0 {
            let path = folder.last().map(|run| run.path);
            let (rounds, later) = moment();
            known = known.max(kill_after(prepared(&folder, workers, path.as_deref()), rounds, later));
        }
        let killed = folder.last();
        let finished = folder.runs().iter().map(|run| run.rounds).max();
        let mut program = start(&folder, workers, killed.as_ref().map(|run| run.path.as_path()));
        let said = program.finish().0;
        assert_eq!(told(&said).0, bits, "run {n} on {workers}");
        let run = folder.last().unwrap();
        assert_eq!((run.state, run.rounds), (State::Finished, ROUNDS as u64), "run {n}");
        let (Some(killed), Some(finished)) = (killed, finished) else { continue };
        assert!(killed.state == State::Killed || known == ROUNDS as u64, "run {n}: {killed:?}");
        assert_eq!(run.recalled, finished, "run {n}: what is in the files is used");
        assert!(run.recalled + 1 >= known, "run {n} on {workers}: {known} told, {} recalled", run.recalled);
        repeated += known.saturating_sub(run.recalled);
        recalled.push(run.recalled);
    }
    let inside = recalled.iter().filter(|n| (1..ROUNDS as u64).contains(n)).count();
    assert!(inside >= 5, "the kills came too early or too late to show anything: {recalled:?}");
    println!("{recalled:?} rounds recalled, {repeated} repeated");
}

#[test]
fn the_last_run_of_the_same_program_is_found_by_itself() {
    let folder = Folder::new();
    let prepared = || {
        let mut command = command("descent", "local:1");
        command.env("QJAM_RUNS", folder.path()).env("QJAM_RESUME", "last");
        command
    };
    let again = || Program::run(prepared());
    let mut first = prepared();
    first.env(STAYS_AFTER, "9");
    let mut first = Program::run(first);
    while first.hear().is_some_and(|said| said != "round 9") {}
    drop(first);
    let mut second = again();
    let (said, runs) = (second.finish().0, folder.runs());
    assert!(told(&said).0.is_some());
    // What it told of last need not have been written.
    assert!(runs[1].recalled >= 9, "{:?}", runs[1]);
    assert_eq!(runs[1].resumed.as_ref(), Some(&runs[0].id));
    // It came to its end, so there is nothing to go on from.
    again().finish();
    let third: Run = folder.last().unwrap();
    assert_eq!((third.recalled, third.resumed), (0, None));
}
