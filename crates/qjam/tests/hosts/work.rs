//! What is computed on the hosts: rounds whose bits depend on every bit before them.

use qjam::{DataSet, Dense, Master, Result, Sum, Wire};
use std::time::Duration;

/// Doubles of the parameters and of the results: too many for a frame, on either way.
pub(crate) const WIDTH: usize = 6_000;
const CHUNKS: usize = 48;

/// Parameters, and how long a chunk takes.
#[derive(Clone, Wire)]
pub(crate) struct Theta {
    values: Vec<f64>,
    chunk_ms: u64,
}

#[derive(Wire, Sum, Default)]
pub(crate) struct Moments {
    count: u64,
    sum: f64,
    products: f64,
}

/// A large result of large parameters.
#[qjam::map]
fn spread(theta: &Theta, x: &Dense<f64>) -> Vec<f64> {
    std::thread::sleep(Duration::from_millis(theta.chunk_ms));
    let p = &theta.values;
    let mut out = vec![0.0; p.len()];
    for (n, v) in x.as_slice().iter().enumerate() {
        out[(n * 31) % p.len()] += v * p[(n * 7) % p.len()];
    }
    out
}

/// A small result of small parameters.
#[qjam::fold]
fn moments(shift: &f64, x: &Dense<f64>, acc: &mut Moments) {
    for v in x.as_slice() {
        acc.count += 1;
        acc.sum += v - shift;
        acc.products += (v - shift) * acc.sum;
    }
}

/// Numbers of very different sizes, so that every order of adding them gives other bits.
pub(crate) fn rugged(count: usize, seed: u64) -> Vec<f64> {
    (0..count)
        .map(|n| {
            let spread = (n as u64 * 2_654_435_761 + seed * 7_919) % 1_000_003;
            spread as f64 / 7.0 * 10f64.powi((n % 13) as i32 - 6)
        })
        .collect()
}

pub(crate) fn data(seed: u64) -> DataSet<Dense<f64>> {
    DataSet::dense(rugged(120_000, seed), 10).and_then(|x| x.partitions(CHUNKS)).unwrap()
}

/// So many rounds of both kinds, each with parameters made of the results before it. The number stands for all bits.
pub(crate) fn compute(m: &Master, data: &DataSet<Dense<f64>>, rounds: u64, chunk_ms: u64) -> Result<u64> {
    compute_with(m, data, rounds, chunk_ms, |_| {})
}

/// The same; something is done before each round.
pub(crate) fn compute_with(
    m: &Master,
    data: &DataSet<Dense<f64>>,
    rounds: u64,
    chunk_ms: u64,
    mut before: impl FnMut(u64),
) -> Result<u64> {
    let mut theta = Theta { values: (0..WIDTH).map(|n| 1.0 / (n as f64 + 0.3)).collect(), chunk_ms };
    let mut hash = 0_u64;
    for round in 0..rounds {
        before(round);
        let wide = m.run(spread, &theta, data)?;
        let all = m.run(moments, &wide[round as usize % WIDTH], data)?;
        let step = 1e-3 / (1.0 + all.products.abs());
        theta.values.iter_mut().zip(&wide).for_each(|(t, w)| *t = (*t - step * w).sin());
        let bits = wide.iter().chain([&all.sum, &all.products]).map(|v| v.to_bits());
        hash = bits.fold(hash ^ all.count, |hash, bits| hash.rotate_left(5) ^ bits);
    }
    Ok(hash)
}

/// What the bits must be: threads of this process give them.
pub(crate) fn expected(data: &DataSet<Dense<f64>>, rounds: u64) -> u64 {
    compute(&Master::connect("local:2").unwrap(), data, rounds, 0).unwrap()
}
