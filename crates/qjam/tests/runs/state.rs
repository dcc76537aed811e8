//! A killed program that keeps states comes to the same bits when it is run again, and repeats little.

use crate::Folder;
use crate::ridge::Problem;
use qjam::Master;
use qjam::journal::What;
use qjam::runs::State;
use qjam_conformance::program::{Program, command, say};
use std::path::Path;

const ROUNDS: u64 = 150;

/// Ridge regression by columns.
pub(crate) fn stateful(workers: &str) {
    let m = Master::builder().on_log(|_| {}).connect(workers).unwrap();
    let solution = Problem::new(40, 4, 1).slowly(2_000).solve(&m, ROUNDS, |_| say("round")).unwrap();
    let replayed = m.journal().into_iter().map(|entry| match entry.what {
        What::Restored { steps, .. } => u64::from(steps),
        _ => 0,
    });
    say(format!("replayed {}", replayed.sum::<u64>()));
    say(format!("bits {:?}", solution.bits()));
}

fn start(folder: &Folder, resume: Option<&Path>) -> Program {
    let mut command = command("stateful", "proc:2");
    command.env("QJAM_RUNS", folder.path());
    if let Some(path) = resume {
        command.env("QJAM_RESUME", path);
    }
    Program::run(command)
}

#[test]
fn killed_at_any_moment_a_program_with_states_goes_on_with_the_same_bits() {
    let bits = |said: &[String]| said.iter().find_map(|s| s.strip_prefix("bits ").map(String::from));
    let folder = Folder::new();
    let undisturbed = bits(&start(&folder, None).finish().0);
    assert!(undisturbed.is_some());
    let (mut random, mut inside) = (qjam::Rng::keyed(9, 0, 0), 0);
    for n in 0..8 {
        let folder = Folder::new();
        let mut killed = start(&folder, None);
        // In the middle of some round.
        let rounds = 2 + random.below(ROUNDS - 10);
        assert_eq!((0..rounds).map_while(|_| killed.hear()).count() as u64, rounds);
        killed.child.kill().unwrap();
        killed.child.wait().unwrap();
        let path = folder.last().map(|run| run.path);
        let said = start(&folder, path.as_deref()).finish().0;
        assert_eq!(bits(&said), undisturbed, "run {n}");
        let run = folder.last().unwrap();
        assert_eq!((run.state, run.rounds), (State::Finished, ROUNDS), "run {n}");
        inside += u32::from((1..ROUNDS).contains(&run.recalled));
        let replayed = said.iter().find_map(|s| s.strip_prefix("replayed ")).unwrap_or("?");
        println!("run {n}: {} rounds recalled, {replayed} run again for the states", run.recalled);
    }
    assert!(inside >= 2, "the kills came too early or too late to show anything");
}
