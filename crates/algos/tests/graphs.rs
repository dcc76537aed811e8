//! Graphs have one answer on all workers, also when worker processes are killed.

#![allow(clippy::unwrap_used, reason = "all of this is test")]

qjam::worker_hook!();

use qjam::{Master, Rng};
use qjam_algos::graph::{Components, Graph, PageRank, components};
use qjam_conformance::support::{losses, pids, signal, wait_until};
use rustix::process::Signal;

/// A graph whose vertices differ much in their numbers of edges.
fn graph() -> Graph {
    let mut rng = Rng::keyed(4, 0, 0);
    let mut draw = || rng.below(600) * rng.below(600) / 600;
    let edges: Vec<(u64, u64)> = (0..6_000).map(|_| (draw(), draw())).collect();
    Graph::from_edges(&edges).unwrap().partitions(5).unwrap()
}

fn answers(m: &Master) -> (Vec<u64>, Components) {
    let ranks = PageRank::default().run(m, &graph()).unwrap();
    assert!(ranks.converged && ranks.iterations > 10, "{} iterations", ranks.iterations);
    (ranks.ranks.iter().map(|(_, rank)| rank.to_bits()).collect(), components(m, &graph()).unwrap())
}

#[test]
fn graphs_have_one_answer_on_all_workers() {
    let alone = answers(&Master::connect("local:1").unwrap());
    for workers in ["local:2", "local:5", "proc:2", "proc:3"] {
        assert!(answers(&Master::connect(workers).unwrap()) == alone, "{workers}");
    }
    let m = Master::builder().on_log(|_| {}).connect("proc:3").unwrap();
    std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            for round in [3, 20, 45] {
                wait_until("the next rounds", || m.last_round().is_some_and(|report| report.round >= round));
                let before = losses(&m);
                wait_until("that somebody can be killed", || {
                    pids(&m).first().map(|pid| signal(*pid, Signal::KILL)).is_some()
                });
                wait_until("that the loss is noted", || losses(&m) > before);
            }
        });
        while !killer.is_finished() {
            assert!(answers(&m) == alone, "with workers killed");
        }
    });
    assert!(losses(&m) >= 3);
}
