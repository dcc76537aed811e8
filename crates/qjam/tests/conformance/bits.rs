//! The same bits whatever the workers.

use crate::ENGINES;
use qjam::{Ctx, DataSet, Dense, Lines, List, Master, Nothing};

#[qjam::map]
fn column_sums(scale: &[f64], x: &Dense<f64>) -> Vec<f64> {
    let mut sums = vec![0.0; x.cols()];
    for i in 0..x.rows() {
        for (sum, (v, s)) in sums.iter_mut().zip(x.row(i).iter().zip(scale)) {
            *sum += v * s;
        }
    }
    sums
}

fn matrix(rows: usize, cols: usize) -> Vec<f64> {
    (0..rows * cols)
        .map(|n| ((n * 2654435761) % 1000003) as f64 / 7.0 * 10f64.powi((n % 13) as i32 - 6))
        .collect()
}

#[test]
fn a_map_over_a_matrix_has_one_value() {
    let x = DataSet::dense(matrix(20_000, 7), 7).unwrap();
    let scale: Vec<f64> = (0..7).map(|n| 1.0 / (n as f64 + 3.0)).collect();
    let mut seen = Vec::new();
    for engine in ENGINES {
        let m = Master::connect(engine).unwrap();
        for _ in 0..3 {
            let sums = m.run(column_sums, &scale[..], &x).unwrap();
            seen.push((engine, sums.iter().map(|v| v.to_bits()).collect::<Vec<_>>()));
        }
    }
    for (engine, bits) in &seen {
        assert_eq!(*bits, seen[0].1, "{engine}");
    }
}
