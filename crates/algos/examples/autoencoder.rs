//! Times one cost and gradient of the sparse autoencoder on one thread: `cargo run --release --example autoencoder`.
//!
//! Rows of noise, cut into chunks of 128 as a data set of this size is, summed along in order.

use qjam::Rng;
use qjam_algos::kernels::Level;
use qjam_algos::neural::autoencoder::{Params, Sums, evaluate, initial, sums_of_slice};
use std::time::Instant;

fn add(total: &mut Sums, sums: &Sums) {
    total.rows += sums.rows;
    total.recon += sums.recon;
    for (total, sums) in [
        (&mut total.activation, &sums.activation),
        (&mut total.g_w1, &sums.g_w1),
        (&mut total.g_w2, &sums.g_w2),
        (&mut total.g_b1, &sums.g_b1),
        (&mut total.g_b2, &sums.g_b2),
        (&mut total.m, &sums.m),
        (&mut total.m_b, &sums.m_b),
    ] {
        total.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
    }
}

#[expect(clippy::print_stdout, reason = "the numbers are what this program is for")]
fn main() {
    let params = Params::default();
    let shape = params.shape();
    let theta = initial(&shape, 1);
    for rows in [1_000, 10_000, 100_000] {
        let mut random = Rng::keyed(2, 0, 0);
        let x: Vec<f64> = (0..rows * shape.visible()).map(|_| random.uniform() * 1.2 - 0.6).collect();
        for chunk_rows in [128, rows] {
            let mut best = f64::INFINITY;
            let mut cost = 0.0;
            for _ in 0..(500_000 / rows).max(5) {
                let start = Instant::now();
                let mut total: Option<Sums> = None;
                for chunk in x.chunks(chunk_rows * shape.visible()) {
                    let sums = sums_of_slice(Level::best(), shape, &theta, chunk);
                    match &mut total {
                        None => total = Some(sums),
                        Some(total) => add(total, &sums),
                    }
                }
                cost = total.map_or(0.0, |total| evaluate(&params, &theta, &total).0);
                best = best.min(start.elapsed().as_secs_f64());
            }
            // Five products as a NumPy program needs them; the sixth, which saves a round, is not counted.
            let flops = (rows * 10 * shape.weights()) as f64;
            println!(
                "{rows:>7} rows in chunks of {chunk_rows:>6}: {:8.3} ms, {:5.1} GFLOP/s (cost {cost:.6})",
                best * 1e3,
                flops / best / 1e9
            );
        }
    }
}
