//! Times the kernels alone, one thread: `cargo run --release --example kernels`.

use qjam_algos::kernels::multiply::{Left, Size, add_product};
use qjam_algos::kernels::{Level, tanh::tanh_in_place};
use std::time::Instant;

/// The fastest of several repetitions, in seconds.
fn fastest(mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..30 {
        let start = Instant::now();
        (0..100).for_each(|_| work());
        best = best.min(start.elapsed().as_secs_f64() / 100.0);
    }
    best
}

#[expect(clippy::print_stdout, reason = "the numbers are what this program is for")]
fn main() {
    let values = |n: usize| (0..n).map(|i| (i % 17) as f64 * 0.02 - 0.1).collect::<Vec<f64>>();
    let (a, b, mut c) = (values(64 * 64), values(64 * 64), vec![0.0; 64 * 64]);
    for level in Level::available() {
        for (name, size, left) in [
            ("64x64 * 64x32", Size { rows: 64, inner: 64, cols: 32 }, Left::Rows { values: &a, stride: 64 }),
            ("64x30 * 30x64", Size { rows: 64, inner: 30, cols: 64 }, Left::Rows { values: &a, stride: 32 }),
            (
                "30x64' * 64x64",
                Size { rows: 30, inner: 64, cols: 64 },
                Left::Columns { values: &a, stride: 32 },
            ),
        ] {
            let time = fastest(|| add_product(level, size, left, (&b, size.cols), (&mut c, size.cols)));
            let flops = 2.0 * (size.rows * size.inner * size.cols) as f64;
            println!("{level:?} {name}: {:.1} GFLOP/s", flops / time / 1e9);
        }
        let mut x = values(4096);
        let time = fastest(|| tanh_in_place(level, &mut x));
        println!("{level:?} tanh: {:.2} ns each", time * 1e9 / x.len() as f64);
    }
}
