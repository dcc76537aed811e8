//! How fast rows find their nearest centres on one thread, in its own time: `nearest_speed ROWS DIMS CENTRES [REPEATS]`.

#![allow(clippy::print_stdout, reason = "a program that prints what it measured")]

use qjam::{Decoder, Encoder, Wire};
use qjam_algos::kernels::Level;
use qjam_algos::kernels::nearest::{Panels, Real, Rows};
use rustix::time::{ClockId, clock_gettime};

/// Seconds this thread has computed: on a busy machine the clock on the wall says little.
fn seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn measure<T: Real>(name: &str, level: Level, [rows, dims, k, repeats]: [usize; 4]) {
    let mut random = qjam::Rng::keyed(1, 0, 0);
    let mut noise = |len| -> Vec<T> { (0..len).map(|_| T::from_f64(random.uniform() - 0.5)).collect() };
    let (x, c) = (noise(rows * dims), noise(k * dims));
    let mut out = vec![0; rows];
    // As workers get them.
    let sent = Panels::new(&c, dims);
    let mut out_of_here = Encoder::new();
    sent.encode(&mut out_of_here);
    let panels = Decoder::new(out_of_here.to_bytes()).and_then(|mut input| Panels::<T>::decode(&mut input));
    let panels = panels.unwrap_or(sent.clone());
    let mut best = f64::INFINITY;
    for _ in 0..repeats {
        let start = seconds();
        T::nearest(level, &panels, Rows::new(&x, dims, dims), &mut out);
        best = best.min(seconds() - start);
    }
    let gflops = 2.0 * (rows * dims * k) as f64 / best / 1e9;
    println!("{name} {level:?}: {rows} x {dims}, {k} centres: {:.2} ms, {gflops:.1} GFLOP/s", best * 1e3);
}

fn main() {
    let mut sizes = [2048, 1000, 1000, 5];
    for (size, argument) in sizes.iter_mut().zip(std::env::args().skip(1)) {
        *size = argument.parse().unwrap_or(*size);
    }
    for level in Level::available().into_iter().skip(1) {
        measure::<f32>("f32", level, sizes);
        measure::<f64>("f64", level, sizes);
    }
}
