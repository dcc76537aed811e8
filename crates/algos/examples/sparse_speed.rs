//! How fast sparse kernels are on one thread, in its own time: `sparse_speed ROWS COLUMNS VALUES_PER_ROW CENTRES [REPEATS]`.
//!
//! Columns are drawn as words are: a few of them often. With the environment variable `PEER` set to a folder, the matrix
//! and the centres are written there for another program.

#![allow(clippy::print_stdout, reason = "a program that prints what it measured")]

use qjam::{Csr, Rng};
use qjam_algos::kernels::Level;
use qjam_algos::kernels::nearest::Panels;
use qjam_algos::kernels::sparse::{self, Lines, Sparse};
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;

/// Seconds this thread has computed: on a busy machine the clock on the wall says little.
fn seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn text<T: Sparse>(rows: usize, columns: usize, stored: usize) -> Result<Csr<T>, qjam::ChunkError> {
    let mut random = Rng::keyed(1, 0, 0);
    let (mut starts, mut places, mut values) = (vec![0], vec![], vec![]);
    for _ in 0..rows {
        let count = stored / 2 + random.below(stored as u64 + 1) as usize;
        let mut row: Vec<u32> = (0..count)
            .map(|_| ((columns as f64).powf(random.uniform()) - 1.0) as u32 % columns as u32)
            .collect();
        row.sort_unstable();
        row.dedup();
        values.extend(row.iter().map(|_| T::from_f64(random.uniform())));
        places.extend_from_slice(&row);
        starts.push(places.len() as u64);
    }
    Csr::from_vecs(starts, places, values, columns, None)
}

fn best(repeats: usize, mut work: impl FnMut()) -> f64 {
    (0..repeats).fold(f64::INFINITY, |best, _| {
        let start = seconds();
        work();
        best.min(seconds() - start)
    })
}

fn measure<T: Sparse>(
    name: &str,
    [rows, columns, stored, k, repeats]: [usize; 5],
) -> Result<(), qjam::ChunkError> {
    let x = text::<T>(rows, columns, stored)?;
    let mut random = Rng::keyed(2, 0, 0);
    let b: Vec<T> = (0..columns * k).map(|_| T::from_f64(random.uniform())).collect();
    let tall: Vec<T> = (0..rows * k).map(|_| T::from_f64(random.uniform())).collect();
    let panels = Panels::new(&b, columns);
    let mut nearest = vec![0; rows];
    let mut out = vec![T::default(); rows * k];
    let mut turned = vec![T::default(); columns * k];
    let lines = Lines::from(&x);
    let times = [
        ("nearest", best(repeats, || T::nearest_lines(Level::best(), &panels, lines, &mut nearest))),
        ("times", best(repeats, || sparse::times(lines, &b, k, &mut out))),
        ("transposed", best(repeats, || sparse::transposed_times(lines, &tall, k, &mut turned))),
    ];
    for (what, time) in times {
        let gflops = 2.0 * (x.values().len() * k) as f64 / time / 1e9;
        println!(
            "{name} {what}: {} values, {k} wide: {:.2} ms, {gflops:.1} GFLOP/s",
            x.values().len(),
            time * 1e3
        );
    }
    Ok(())
}

/// The matrix for another program: raw numbers, one file each.
fn write(folder: &Path, x: &Csr<f32>) -> std::io::Result<()> {
    let bytes = |values: &[u64]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    std::fs::write(folder.join("starts.u64"), bytes(x.starts()))?;
    let columns: Vec<u8> = x.columns().iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(folder.join("columns.u32"), columns)?;
    let values: Vec<u8> = x.values().iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(folder.join("values.f32"), values)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut sizes = [20_000, 50_000, 100, 100, 3];
    for (size, argument) in sizes.iter_mut().zip(std::env::args().skip(1)) {
        *size = argument.parse()?;
    }
    if let Some(folder) = std::env::var_os("PEER") {
        write(Path::new(&folder), &text(sizes[0], sizes[1], sizes[2])?)?;
    }
    measure::<f32>("f32", sizes)?;
    measure::<f64>("f64", sizes)?;
    Ok(())
}
