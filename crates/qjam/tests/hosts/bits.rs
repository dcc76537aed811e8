//! The bits are those of threads and processes, whoever computes them.

use crate::hosts::claim;
use crate::work::{compute, data, expected};
use qjam::Master;
use std::time::Instant;

#[test]
fn hosts_processes_and_threads_give_the_same_bits() {
    let [a, b] = claim(["a", "b"]);
    let x = data(1);
    let expected = expected(&x, 4);
    for workers in ["proc:2", "a*2,b*2", "proc:1,a*1,local:1"] {
        let began = Instant::now();
        let m = Master::connect(workers).unwrap();
        let ready = began.elapsed();
        let hash = compute(&m, &x, 4, 0).unwrap();
        println!("{workers}: {hash:016x}, ready after {ready:.0?}, done after {:.0?}", began.elapsed());
        assert_eq!(hash, expected, "other bits on {workers}");
    }
    a.must_be_quiet();
    b.must_be_quiet();
}
