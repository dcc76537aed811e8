//! Cost and gradient against their definition, against other programs, and against themselves cut differently.

use super::*;
use crate::kernels::Level;

fn noise(count: usize, seed: u64) -> Vec<f64> {
    let mut random = Rng::keyed(seed, 0, 0);
    (0..count).map(|_| random.uniform() * 1.2 - 0.6).collect()
}

fn params(visible: usize, hidden: usize) -> Params {
    Params::new(Shape::new(visible, hidden).unwrap())
}

fn bits(sums: &Sums) -> Vec<u64> {
    let vectors = [&sums.activation, &sums.g_w1, &sums.g_w2, &sums.g_b1, &sums.g_b2, &sums.m, &sums.m_b];
    let mut bits: Vec<u64> = vectors.into_iter().flatten().map(|v| v.to_bits()).collect();
    bits.extend([sums.rows, sums.recon.to_bits()]);
    bits
}

/// The cost as the formula is written, row by row.
fn plain_cost(params: &Params, theta: &[f64], rows: &[f64]) -> f64 {
    let shape = params.shape();
    let [w1, w2, b1, b2] = shape.parts(theta);
    let (visible, hidden) = (shape.visible(), shape.hidden());
    let n = (rows.len() / visible) as f64;
    let (mut recon, mut mean) = (0.0, vec![0.0; hidden]);
    for x in rows.chunks(visible) {
        let layer = |w: &[f64], b: &[f64], x: &[f64]| -> Vec<f64> {
            let rows = w.chunks(x.len()).zip(b);
            rows.map(|(w, b)| (b + w.iter().zip(x).map(|(w, x)| w * x).sum::<f64>()).tanh()).collect()
        };
        let a2 = layer(w1, b1, x);
        let a3 = layer(w2, b2, &a2);
        recon += x.iter().zip(&a3).map(|(x, a)| (x - a) * (x - a)).sum::<f64>();
        mean.iter_mut().zip(&a2).for_each(|(mean, a)| *mean += 0.5 * (1.0 + a) / n);
    }
    let rho = params.target();
    let penalty: f64 =
        mean.iter().map(|p| rho * (rho / p).ln() + (1.0 - rho) * ((1.0 - rho) / (1.0 - p)).ln()).sum();
    let squares: f64 = w1.iter().chain(w2).map(|w| w * w).sum();
    0.5 * recon / n + 0.5 * params.decay() * squares + params.sparsity() * penalty
}

#[test]
fn cost_is_the_formula() {
    for (visible, hidden, rows) in [(64, 30, 200), (5, 3, 70), (9, 17, 65), (1, 1, 1)] {
        let params = params(visible, hidden);
        let theta = initial(&params.shape(), 3);
        let x = noise(rows * visible, 4);
        let (cost, plain) = (cost_of_slice(&params, &theta, &x).0, plain_cost(&params, &theta, &x));
        assert!((cost - plain).abs() <= 1e-13 * plain.abs(), "{visible}-{hidden}: {cost} {plain}");
    }
}

#[test]
fn gradient_agrees_with_differences_of_the_cost() {
    let params = params(13, 6).with_target(0.1).unwrap();
    let x = noise(150 * 13, 5);
    // A point away from the all-positive start, with biases that are not zero.
    let theta: Vec<f64> = noise(params.shape().theta_len(), 6);
    let gradient = cost_of_slice(&params, &theta, &x).1;
    let step = 1e-5;
    for i in 0..theta.len() {
        let at = |shift: f64| {
            let mut moved = theta.clone();
            moved[i] += shift;
            cost_of_slice(&params, &moved, &x).0
        };
        let difference = (at(step) - at(-step)) / (2.0 * step);
        assert!((difference - gradient[i]).abs() < 1e-7, "{i}: {difference} {}", gradient[i]);
    }
}

#[test]
fn every_level_of_instructions_gives_the_same_bits() {
    for (visible, hidden, rows) in [(64, 30, 131), (7, 5, 9), (33, 8, 64)] {
        let shape = Shape::new(visible, hidden).unwrap();
        let (theta, x) = (initial(&shape, 1), noise(rows * visible, 2));
        let expected = bits(&sums_of_slice(Level::available()[0], shape, &theta, &x));
        for level in Level::available() {
            assert_eq!(bits(&sums_of_slice(level, shape, &theta, &x)), expected, "{level:?}");
        }
    }
}

#[test]
fn scratch_of_another_shape_or_chunk_leaves_no_trace() {
    let (small, large) = (Shape::new(6, 3).unwrap(), Shape::default());
    let (x_small, x_large) = (noise(6 * 10, 1), noise(64 * 100, 2));
    let fresh = std::thread::spawn({
        let x = x_small.clone();
        move || bits(&sums_of_slice(Level::best(), small, &initial(&small, 9), &x))
    });
    sums_of_slice(Level::best(), large, &initial(&large, 1), &x_large);
    sums_of_slice(Level::best(), small, &initial(&small, 2), &noise(6 * 70, 3));
    let used = bits(&sums_of_slice(Level::best(), small, &initial(&small, 9), &x_small));
    assert_eq!(fresh.join().unwrap(), used);
}

#[test]
fn batches_have_whole_tiles_and_about_as_many_rows_each() {
    let of = layers::Batch::rows_of;
    assert_eq!([0, 1, 128, 132, 133, 264, 265].map(of), [6, 6, 132, 132, 72, 132, 90]);
    for rows in 0..2000 {
        assert!(
            of(rows) <= layers::Batch::ROWS && rows.div_ceil(of(rows)) <= rows.div_ceil(layers::Batch::ROWS)
        );
    }
}

#[test]
fn rows_in_32_bits_give_the_bits_of_the_same_rows_in_64() {
    let shape = Shape::new(13, 5).unwrap();
    let narrow: Vec<f32> = noise(13 * 200, 8).into_iter().map(|v| v as f32).collect();
    let wide: Vec<f64> = narrow.iter().map(|v| f64::from(*v)).collect();
    let theta = initial(&shape, 1);
    let [a, b] = [
        sums_of_slice(Level::best(), shape, &theta, &narrow),
        sums_of_slice(Level::best(), shape, &theta, &wide),
    ];
    assert_eq!(bits(&a), bits(&b));
}

#[test]
fn the_first_number_that_is_none_is_named_by_row_and_column() {
    let params = params(4, 2);
    let mut rows = noise(4 * 1000, 3);
    rows[4 * 700 + 2] = f64::NAN;
    rows[4 * 800 + 1] = f64::INFINITY;
    let data = DataSet::dense(rows, 4).unwrap().chunk_records(64).unwrap();
    let master = Master::connect("local:2").unwrap();
    let error = fit(&master, &params, &data, initial(&params.shape(), 1), |_| ()).unwrap_err();
    assert!(error.to_string().contains("row 700, column 2 (counted from 0) is NaN"), "{error}");
}

#[test]
fn no_rows_are_zero_sums() {
    let shape = Shape::new(3, 2).unwrap();
    let sums = sums_of_slice(Level::best(), shape, &initial(&shape, 1), &[0.0_f64; 0]);
    assert_eq!((sums.rows, sums.recon), (0, 0.0));
    assert!(sums.g_w1.iter().chain(&sums.m_b).all(|v| *v == 0.0));
}

#[test]
fn values_that_are_not_numbers_reach_the_cost_and_do_not_panic() {
    let params = params(4, 2);
    let theta = initial(&params.shape(), 1);
    let (cost, _) = cost_of_slice(&params, &theta, &[0.1, f64::NAN, 0.2, 0.3]);
    assert!(cost.is_nan());
    let (cost, _) = cost_of_slice(&params, &theta, &[f64::INFINITY, 0.0, 0.2, 0.3]);
    assert!(!cost.is_finite());
}

// From a NumPy program of the same formulas over the same rows.
const COST: f64 = 88.66781283175698;
const NORM: f64 = 21.16794808013492;
const PLACES: [f64; 4] =
    [0.051345871345131855, 0.036409483315264536, 3.81311981630632, -0.013145073688701985];

#[test]
fn cost_and_gradient_are_those_of_numpy() {
    let params = Params::default();
    let (cost, gradient) = cost_of_slice(&params, &initial(&params.shape(), 11), &noise(1000 * 64, 12));
    let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
    for (name, ours, numpy) in [
        ("cost", cost, COST),
        ("norm", norm, NORM),
        ("W1[0]", gradient[0], PLACES[0]),
        ("W2[17]", gradient[1920 + 17], PLACES[1]),
        ("b1[3]", gradient[3840 + 3], PLACES[2]),
        ("b2[63]", gradient[3933], PLACES[3]),
    ] {
        assert!((ours - numpy).abs() <= 1e-12 * numpy.abs(), "{name}: {ours:e} {numpy:e}");
    }
}
