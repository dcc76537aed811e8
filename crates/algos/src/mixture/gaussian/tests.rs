//! A round against the definition, planted components, and what is refused.

use super::*;
use crate::kernels::triangular::{cholesky, inverse};
use qjam::{Dense, Rng};

const ALL: [Covariance; 4] = [Covariance::Full, Covariance::Tied, Covariance::Diag, Covariance::Spherical];

fn master() -> Master {
    Master::builder().no_run_file().connect("local:2").unwrap()
}

/// Rows of three normal groups, off the origin.
fn groups(rows: usize, columns: usize, far: f64) -> Vec<f64> {
    let mut random = Rng::keyed(3, 0, 0);
    let mut values = Vec::with_capacity(rows * columns);
    for row in 0..rows {
        let group = row % 3;
        let first = random.normal();
        for column in 0..columns {
            let own = random.normal() * (1.0 + group as f64 / 2.0) + first * 0.5;
            values.push(far + own + if column % 3 == group { 6.0 } else { 0.0 });
        }
    }
    values
}

/// The inverse of the covariances of a component, and the logarithm of their determinant.
fn precision(gaussians: &Gaussians, component: usize) -> (Vec<f64>, f64) {
    let d = gaussians.columns;
    let all = &gaussians.covariances;
    let covariances: Vec<f64> = (0..d * d)
        .map(|at| {
            let on = f64::from(u8::from(at / d == at % d));
            match gaussians.covariance {
                Covariance::Full => all[component * d * d + at],
                Covariance::Tied => all[at],
                Covariance::Diag => on * all[component * d + at / d],
                Covariance::Spherical => on * all[component],
            }
        })
        .collect();
    let l = cholesky(&covariances, d).unwrap();
    let m = inverse(&l, d);
    let product = |i: usize, j: usize| (0..d).map(|p| m[p * d + i] * m[p * d + j]).sum();
    let determinant = (0..d).map(|i| 2.0 * l[i * d + i].ln()).sum();
    ((0..d * d).map(|at| product(at / d, at % d)).collect(), determinant)
}

/// What a round must lead to, by the definition: the components, and the mean log-likelihood before.
fn by_definition(rows: &[f64], before: &Gaussians, regularization: f64) -> (Gaussians, f64) {
    let (d, k, n) = (before.columns, before.len(), rows.len() / before.columns);
    let precisions: Vec<_> = (0..k).map(|component| precision(before, component)).collect();
    let (mut shares, mut likelihood) = (vec![], 0.0);
    for row in rows.chunks(d) {
        let logs: Vec<f64> = (0..k)
            .map(|c| {
                let apart: Vec<f64> = row.iter().zip(&before.means[c * d..]).map(|(x, m)| x - m).collect();
                let (inverse, determinant) = &precisions[c];
                let square: f64 = (0..d * d).map(|at| apart[at / d] * inverse[at] * apart[at % d]).sum();
                let constant = d as f64 * (2.0 * std::f64::consts::PI).ln();
                before.weights[c].ln() - 0.5 * (square + determinant + constant)
            })
            .collect();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = logs.iter().map(|log| (log - most).exp()).sum();
        likelihood += most + sum.ln();
        shares.extend(logs.iter().map(|log| (log - most).exp() / sum));
    }
    let counts: Vec<f64> = (0..k).map(|c| shares.iter().skip(c).step_by(k).sum()).collect();
    let mut means = vec![0.0; k * d];
    for (row, shares) in rows.chunks(d).zip(shares.chunks(k)) {
        (0..k * d).for_each(|at| means[at] += shares[at / d] * row[at % d] / counts[at / d]);
    }
    let mut full = vec![0.0; k * d * d];
    for (row, shares) in rows.chunks(d).zip(shares.chunks(k)) {
        for (at, sum) in full.iter_mut().enumerate() {
            let (c, i, j) = (at / (d * d), at / d % d, at % d);
            *sum += shares[c] * (row[i] - means[c * d + i]) * (row[j] - means[c * d + j]) / counts[c];
        }
    }
    full.iter_mut()
        .enumerate()
        .filter(|(at, _)| at / d % d == at % d)
        .for_each(|(_, v)| *v += regularization);
    let diagonal = |c: usize, j: usize| full[c * d * d + j * d + j];
    let weights: Vec<f64> = counts.iter().map(|count| count / n as f64).collect();
    let covariances = match before.covariance {
        Covariance::Tied => {
            (0..d * d).map(|at| (0..k).map(|c| weights[c] * full[c * d * d + at]).sum()).collect()
        }
        Covariance::Diag => (0..k * d).map(|at| diagonal(at / d, at % d)).collect(),
        Covariance::Spherical => {
            (0..k).map(|c| (0..d).map(|j| diagonal(c, j)).sum::<f64>() / d as f64).collect()
        }
        Covariance::Full => full,
    };
    let next = Gaussians::new(before.covariance, d, weights, means, covariances, regularization);
    (next.unwrap(), likelihood / n as f64)
}

fn near(found: &[f64], expected: &[f64], within: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= within * (1.0 + b.abs()), "{what}: {a} and {b}");
    }
}

fn params(covariance: Covariance, rounds: u64) -> Params {
    Params { max_iter: rounds, tol: 0.0, ..Params::new(3, covariance) }
}

#[test]
fn a_round_is_that_of_the_definition_for_all_covariances() {
    let (d, rows) = (5, groups(700, 5, 2.0));
    let data = DataSet::dense(rows.clone(), d).unwrap();
    let means: Vec<f64> = rows[..3 * d].to_vec();
    for covariance in ALL {
        let mut expected = Gaussians::round(covariance, d, means.clone(), 2.0).unwrap();
        expected.weights = vec![0.5, 0.2, 0.3];
        let given = Given { warm: Some((expected.clone(), f64::NEG_INFINITY)), ..Given::default() };
        let mut bounds = vec![];
        for _ in 0..4 {
            let (next, bound) = by_definition(&rows, &expected, 1e-6);
            expected = next;
            bounds.push(bound);
        }
        let fit = fit(&master(), &params(covariance, 4), &data, given, |_, _| {}).unwrap();
        let found = fit.model.gaussians();
        near(&fit.lower_bounds, &bounds, 1e-11, "bounds");
        near(&found.weights, &expected.weights, 1e-11, "weights");
        near(&found.means, &expected.means, 1e-11, "means");
        near(&found.covariances, &expected.covariances, 1e-10, "covariances");
    }
}

#[test]
fn planted_components_are_found_from_every_start() {
    let data = DataSet::dense(groups(6000, 4, -3.0), 4).unwrap();
    for init in [Init::KMeans, Init::PlusPlus, Init::Random, Init::RandomFromData] {
        let params =
            Params { init, starts: 4, seed: 1, tol: 1e-5, max_iter: 500, ..Params::new(3, Covariance::Full) };
        let fit = fit(&master(), &params, &data, Given::default(), |_, _| {}).unwrap();
        assert!(fit.converged && fit.barely_regular.is_empty(), "{init:?}");
        let gains = fit.lower_bounds.windows(2).map(|both| both[1] - both[0]);
        assert!(gains.fold(0.0, f64::min) > -1e-9, "{init:?}");
        for group in 0..3 {
            let planted: Vec<f64> = (0..4).map(|j| if j % 3 == group { 3.0 } else { -3.0 }).collect();
            let apart = |c: usize| -> f64 {
                fit.model.mean(c).iter().zip(&planted).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
            };
            let nearest = (0..3).min_by(|a, b| apart(*a).total_cmp(&apart(*b))).unwrap();
            assert!(
                apart(nearest) < 0.2 && (fit.model.weights()[nearest] - 1.0 / 3.0).abs() < 0.03,
                "{init:?}"
            );
        }
    }
}

#[test]
fn large_means_cost_no_digits() {
    // Multiples of 2⁻⁸, so that the rows far off are the same ones.
    let near_rows: Vec<f64> = groups(900, 4, 0.0).iter().map(|v| (v * 256.0).round() / 256.0).collect();
    let far_rows: Vec<f64> = near_rows.iter().map(|v| v + 1e8).collect();
    for covariance in ALL {
        let fit = |rows: &[f64]| {
            let data = DataSet::dense(rows.to_vec(), 4).unwrap();
            let start = Gaussians::round(covariance, 4, rows[..12].to_vec(), 4.0).unwrap();
            let given = Given { warm: Some((start, 0.0)), ..Given::default() };
            fit(&master(), &params(covariance, 10), &data, given, |_, _| {}).unwrap()
        };
        let (a, b) = (fit(&near_rows), fit(&far_rows));
        near(&b.lower_bounds, &a.lower_bounds, 1e-6, "bounds");
        near(&b.model.gaussians().covariances, &a.model.gaussians().covariances, 1e-5, "covariances");
    }
}

#[test]
fn shares_that_are_next_to_nothing_change_no_digit() {
    let mut rows = groups(300, 3, 0.0);
    rows.iter_mut().skip(2).step_by(9).for_each(|value| *value += 500.0);
    let data = DataSet::dense(rows.clone(), 3).unwrap();
    let means = vec![0.0, 0.0, 0.0, 5.0, 5.0, 500.0];
    let before = Gaussians::round(Covariance::Full, 3, means, 3.0).unwrap();
    let (expected, _) = by_definition(&rows, &before, 1e-6);
    let given = Given { warm: Some((before, 0.0)), ..Given::default() };
    let params = Params { components: 2, ..params(Covariance::Full, 1) };
    let fit = fit(&master(), &params, &data, given, |_, _| {}).unwrap();
    near(&fit.model.gaussians().covariances, &expected.covariances, 1e-9, "covariances");
}

#[test]
fn constant_columns_are_regularised_and_said_and_without_regularisation_refused() {
    let rows: Vec<f64> = groups(200, 2, 0.0).chunks(2).flat_map(|row| [row[0], row[1], 7.0]).collect();
    let data = DataSet::dense(rows, 3).unwrap();
    for covariance in ALL {
        let run = |reg_covar: f64| {
            let params = Params { reg_covar, components: 2, ..params(covariance, 5) };
            fit(&master(), &params, &data, Given::default(), |_, _| {})
        };
        let barely = run(1e-6).unwrap().barely_regular;
        match covariance {
            Covariance::Spherical => assert!(barely.is_empty() && run(0.0).is_ok()),
            Covariance::Tied => assert_eq!(barely, [0]),
            _ => assert_eq!(barely, [0, 1]),
        }
        if covariance == Covariance::Diag {
            let said = run(0.0).unwrap_err().to_string();
            assert!(said.contains("component 0 are singular") && said.contains("fewer components"), "{said}");
        }
    }
}

#[test]
fn rows_that_cannot_be_used_are_refused_in_words() {
    let said = |rows: Vec<f64>, columns: usize| {
        let data = DataSet::dense(rows, columns).unwrap();
        fit(&master(), &params(Covariance::Full, 3), &data, Given::default(), |_, _| {})
            .unwrap_err()
            .to_string()
    };
    let mut bad = groups(600, 3, 0.0);
    bad[3 * 400 + 1] = f64::NAN;
    assert!(said(bad, 3).contains("row 400, column 1 (counted from 0) is NaN"));
    assert!(said(vec![1.0, 2.0], 1).contains("3 components of 2 rows"));
    assert!(said(vec![1.0, 2.0], 2).contains("1 sample(s)"));
    let model = fit(
        &master(),
        &params(Covariance::Diag, 2),
        &DataSet::dense(groups(90, 3, 0.0), 3).unwrap(),
        Given::default(),
        |_, _| {},
    );
    let narrow = Dense::from_vec(vec![0.0; 4], 2).unwrap();
    let refused = model.unwrap().model.joint_of(&narrow).unwrap_err().to_string();
    assert!(refused.contains("has 2 columns and the model 3"), "{refused}");
}
