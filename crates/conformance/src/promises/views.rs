//! Long results are read where their workers left them; what the user gets is the user's alone, and stays as it is.

use crate::Engine;
use crate::support::{Walk, bits, serial, signal};
use qjam::{Ctx, DataSet, Master, Nothing, Slab};
use rustix::process::Signal;
use std::time::Duration;

/// Another vector for every chunk and every round.
#[qjam::map]
fn scaled(theta: &[f64], _: &Nothing, ctx: &Ctx) -> Slab<f64> {
    let by = 0.1 * f64::from(ctx.chunk() + 1);
    theta.iter().map(|t| t * by).collect::<Vec<f64>>().into()
}

/// Only some chunks have something to say, so that it is taken over as it came.
#[qjam::map]
fn of_one(theta: &[f64], _: &Nothing, ctx: &Ctx) -> Option<Slab<f64>> {
    (ctx.chunk() == 5).then(|| theta.to_vec().into())
}

fn theta(round: usize, len: usize) -> Vec<f64> {
    (0..len).map(|i| (i + 1) as f64 / (round + 3) as f64).collect()
}

fn expected(theta: &[f64], tasks: &DataSet<Nothing>, round: usize) -> Vec<u8> {
    bits(&serial(scaled, theta, tasks, Walk { seed: 0, round: round as u64, chunk_bytes: 0 }))
}

pub(crate) fn results_of_many_rounds_at_once_do_not_overwrite_each_other(e: &Engine) {
    let tasks = DataSet::nothing(7).unwrap();
    for engine in e.few() {
        let m = e.connect(Master::builder(), engine);
        let pending: Vec<_> =
            (0..8).map(|n| m.submit(scaled, &theta(n, 9_000)[..], &tasks).unwrap()).collect();
        // All are kept, and looked at when workers have used their memory for others again and again.
        let values: Vec<_> = pending.into_iter().rev().map(|pending| pending.wait().unwrap()).collect();
        for _ in 0..8 {
            m.run(scaled, &vec![-1.0; 9_000][..], &tasks).unwrap();
        }
        for (n, value) in values.iter().rev().enumerate() {
            assert!(bits(value) == expected(&theta(n, 9_000), &tasks, n), "{engine}, round {n}");
        }
    }
}

pub(crate) fn what_is_taken_over_as_it_came_is_the_users_own(e: &Engine) {
    let tasks = DataSet::nothing(7).unwrap();
    for engine in e.few() {
        let m = e.connect(Master::builder().on_log(|_| {}), engine);
        let values: Vec<_> = (0..6)
            .map(|n| m.run(of_one, &theta(n, 20_000)[..], &tasks).unwrap().expect("chunk 5 has a value"))
            .collect();
        e.pids(&m).into_iter().for_each(|pid| signal(pid, Signal::KILL));
        for (n, value) in values.iter().enumerate() {
            assert!(value[..] == theta(n, 20_000)[..], "{engine}, round {n}");
        }
    }
}

pub(crate) fn results_may_become_longer_from_round_to_round(e: &Engine) {
    let tasks = DataSet::nothing(4).unwrap();
    let m = e.master(2);
    // In the frame, in the smallest arena, at its end, and beyond it.
    for (n, len) in [10, 4_090, 50_000, 131_060, 131_072, 300_000, 20].into_iter().enumerate() {
        let theta = theta(n, len);
        let value = m.run(scaled, &theta[..], &tasks).unwrap();
        assert!(bits(&value) == expected(&theta, &tasks, n), "{len} numbers");
    }
}

pub(crate) fn a_worker_that_is_killed_while_results_travel_leaves_the_bits_alone(e: &Engine) {
    let tasks = DataSet::nothing(6).unwrap();
    let theta = theta(1, 200_000);
    let expected = expected(&theta, &tasks, 0);
    let m = e.master(3);
    for n in 0..12_u64 {
        let pending = m.submit(scaled, &theta[..], &tasks).unwrap();
        std::thread::sleep(Duration::from_micros(n * 400));
        if let Some(pid) = e.pids(&m).get(n as usize % 3) {
            signal(*pid, Signal::KILL);
        }
        let value = pending.wait().unwrap_or_else(|e| panic!("round {n}: {e}"));
        assert!(bits(&value) == expected, "round {n}: other bits");
    }
}
