//! Workers combine what they have before they send it.

use crate::Engine;
use crate::support::rugged;
use qjam::{DataSet, Dense};
use std::time::Duration;

const WIDTH: usize = 10_000;

#[qjam::map]
fn wide(_: &(), x: &Dense<f64>) -> Vec<f64> {
    let v = x.as_slice()[0];
    (0..WIDTH).map(|n| v + n as f64).collect()
}

/// Partial results that came in, in units of one.
fn partials(e: &Engine, workers: usize, chunks: usize) -> f64 {
    let x = DataSet::dense(rugged(chunks), 1).unwrap().chunk_records(1).unwrap();
    let builder = e
        .quiet()
        .blocks_per_slot(64)
        // What is delivered early, lest a death cost too much, is not what is counted here; nor what is taken from one
        // that is slow because something else keeps this machine busy.
        .deliver_after(Duration::from_secs(600))
        .balance(false);
    let m = e.connect(builder, &e.of(workers));
    m.run(wide, &(), &x).unwrap();
    m.last_round().unwrap().bytes_in as f64 / (WIDTH * 8) as f64
}

pub(crate) fn each_worker_sends_about_one_partial_result(e: &Engine) {
    let came_in = partials(e, 4, 256);
    assert!(came_in <= 1.2 * 4.0, "{came_in:.2} partial results of 4 workers came in");
    for workers in [3, 5, 6, 7] {
        // As many chunks as make 64 blocks for each, and a number that nothing divides.
        let (even, odd) = (partials(e, workers, 64 * workers), partials(e, workers, 251));
        println!("{workers} workers: {even:.2} partial results of {} blocks, {odd:.2} of 251", 64 * workers);
        assert!(even <= 1.2 * workers as f64, "{even:.2} partial results of {workers} workers came in");
        // A run of blocks that begins and ends anywhere is at most two subtrees for each level of the tree.
        assert!(odd <= 16.0 * workers as f64, "{odd:.2} partial results of {workers} workers came in");
    }
}
