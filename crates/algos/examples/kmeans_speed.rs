//! Lloyd's algorithm from given centres: `kmeans_speed X.npy C.npy ITERATIONS WORKERS [plain]`.

#![allow(clippy::print_stdout, reason = "a program that prints what it measured")]

use qjam::{DataSet, Dense, Master};
use qjam_algos::clustering::kmeans::{Centres, Lloyd, Params};
use rustix::time::{ClockId, clock_gettime};
use std::time::Instant;

/// Seconds all threads of this process have computed.
fn computed() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[qjam::main]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, x, c, iterations, workers, rest @ ..] = &arguments[..] else {
        return Err("X.npy C.npy ITERATIONS WORKERS [plain]".into());
    };
    let x = DataSet::<Dense<f32>>::npy(x)?;
    let c = DataSet::<Dense<f32>>::npy(c)?.partitions(1)?.chunk(0)?;
    let centres = Centres::new(c.as_slice().to_vec(), c.cols()).ok_or("no centres")?;
    let params = Params::new(centres.len())?.with_pruning(rest.is_empty());
    let master = Master::connect(workers)?;
    let mut lloyd = Lloyd::from(&master, &params, &x, centres)?;
    let iterations: usize = iterations.parse()?;
    let mut best = f64::INFINITY;
    let all = Instant::now();
    for _ in 0..iterations {
        let (start, before) = (Instant::now(), computed());
        let seen = lloyd.step()?;
        let time = start.elapsed().as_secs_f64() * 1e3;
        best = best.min(time);
        let cpu = (computed() - before) * 1e3;
        println!(
            "{:3} {time:9.2} ms, cpu {cpu:9.2} ms, {:.3} computed, moved {:.3e}",
            seen.number, seen.computed, seen.moved
        );
    }
    let mean = all.elapsed().as_secs_f64() * 1e3 / iterations as f64;
    let hash = lloyd
        .centres()
        .values()
        .iter()
        .fold(0_u64, |h, v| (h ^ u64::from(v.to_bits())).wrapping_mul(0x100_0000_01b3).rotate_left(17));
    println!("{mean:.2} ms an iteration, best {best:.2}, inertia {:.9e}, hash {hash:016x}", lloyd.inertia()?);
    Ok(())
}
