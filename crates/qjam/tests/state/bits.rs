//! The bits do not depend on the workers.

use crate::ridge::Problem;
use qjam::Master;

#[test]
fn every_engine_gives_the_same_bits() {
    let problem = Problem::new(60, 7, 2);
    let run = |workers: &str| {
        let m = Master::builder().seed(5).connect(workers).unwrap();
        problem.solve(&m, 25, |_| {}).unwrap_or_else(|e| panic!("{workers}: {e}"))
    };
    let alone = run("local:1");
    assert!(alone.objective < 180.0, "it does not descend: {}", alone.objective);
    for workers in ["local:3", "proc:1", "proc:3", "proc:2*2", "proc:2,local:2", "proc:9"] {
        assert!(run(workers).bits() == alone.bits(), "other bits on {workers}");
    }
}
