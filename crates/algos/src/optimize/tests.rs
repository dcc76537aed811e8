//! The usual hard functions for all methods, and what each promises.

use super::first_order::{Adam, Sgd};
use super::minimize::{Criteria, Method, Minimum, Objective, Outcome, minimize};
use std::convert::Infallible;

type Value = Result<f64, Infallible>;

fn rosenbrock(x: &[f64], g: &mut [f64]) -> Value {
    g.fill(0.0);
    let mut value = 0.0;
    for i in 0..x.len() - 1 {
        let (a, b) = (1.0 - x[i], x[i + 1] - x[i] * x[i]);
        value += a * a + 100.0 * b * b;
        g[i] += -2.0 * a - 400.0 * b * x[i];
        g[i + 1] += 200.0 * b;
    }
    Ok(value)
}

fn beale(x: &[f64], g: &mut [f64]) -> Value {
    g.fill(0.0);
    let mut value = 0.0;
    for (power, constant) in [(1, 1.5), (2, 2.25), (3, 2.625)] {
        let missed = constant - x[0] + x[0] * x[1].powi(power);
        value += missed * missed;
        g[0] += 2.0 * missed * (x[1].powi(power) - 1.0);
        g[1] += 2.0 * missed * x[0] * f64::from(power) * x[1].powi(power - 1);
    }
    Ok(value)
}

/// A quadratic whose curvatures go from 1 to a million.
fn ellipse(x: &[f64], g: &mut [f64]) -> Value {
    let mut value = 0.0;
    for (i, (x, g)) in x.iter().zip(g).enumerate() {
        let (curvature, away) = (10.0_f64.powf(6.0 * i as f64 / 19.0), x - (i as f64 * 0.7).sin());
        value += 0.5 * curvature * away * away;
        *g = curvature * away;
    }
    Ok(value)
}

/// Logistic regression of forty rows with a penalty.
fn logistic(w: &[f64], g: &mut [f64]) -> Value {
    g.iter_mut().zip(w).for_each(|(g, w)| *g = 0.1 * w);
    let mut value = 0.05 * w.iter().map(|w| w * w).sum::<f64>();
    for row in 0..40 {
        let x: Vec<f64> = (0..w.len()).map(|j| ((row * 7 + j * 13) as f64 * 0.61).sin()).collect();
        let sign = if (row * row) % 3 == 0 { 1.0 } else { -1.0 };
        let margin: f64 = sign * x.iter().zip(w).map(|(x, w)| x * w).sum::<f64>();
        value += (-margin).exp().ln_1p();
        let slope = -sign / (1.0 + margin.exp());
        g.iter_mut().zip(&x).for_each(|(g, x)| *g += slope * x);
    }
    Ok(value)
}

fn precise() -> Criteria {
    Criteria { gradient_max: 1e-7, decrease: 0.0, iterations_max: 20_000, evaluations_max: 60_000 }
}

fn run(method: &Method, x: Vec<f64>, f: impl FnMut(&[f64], &mut [f64]) -> Value) -> Minimum {
    minimize(method, &precise(), x, f, |_| true).unwrap()
}

const SECOND_ORDER: [Method; 3] = [Method::Lbfgs { memory: 10 }, Method::ConjugateGradient, Method::NewtonCg];

#[test]
fn hard_functions_are_minimised() {
    for method in SECOND_ORDER {
        for start in [vec![-1.2, 1.0], vec![-1.2, 1.0, -0.5, 2.0, 0.3]] {
            let found = run(&method, start, rosenbrock);
            assert!(found.x.iter().all(|x| (x - 1.0).abs() < 1e-5), "{method:?}: {found:?}");
        }
        let found = run(&method, vec![1.0, 1.0], beale);
        assert!((found.x[0] - 3.0).abs() < 1e-5 && (found.x[1] - 0.5).abs() < 1e-5, "{method:?}: {found:?}");
        let found = run(&method, vec![0.0; 20], ellipse);
        assert!(found.value < 1e-12, "{method:?}: {:?} {}", found.outcome, found.value);
    }
}

#[test]
fn all_methods_find_the_minimum_of_a_logistic_regression() {
    let expected = run(&Method::default(), vec![0.0; 6], logistic);
    assert_eq!(expected.outcome, Outcome::FlatGradient);
    let gentle = [
        Method::Sgd(Sgd::new(6, 0.9, true).with_rate(0.01)),
        Method::Adam(Adam::new(6).with_rate(0.01)),
        Method::Fista { l1: 0.0 },
    ];
    for method in SECOND_ORDER.into_iter().chain(gentle) {
        let found = run(&method, vec![0.0; 6], logistic);
        assert!(found.outcome.converged(), "{method:?}: {:?} {}", found.outcome, found.value);
        assert!(
            (found.value - expected.value).abs() < 1e-10,
            "{method:?}: {} {}",
            found.value,
            expected.value
        );
        for (ours, theirs) in found.x.iter().zip(&expected.x) {
            assert!((ours - theirs).abs() < 1e-5, "{method:?}: {ours} {theirs}");
        }
        assert_eq!(found.history.len(), found.iterations + 1, "{method:?}");
    }
}

#[test]
fn a_price_on_sizes_makes_coordinates_zero() {
    // Half of the squared distance to a point: the minimum is the point, drawn towards 0 by the price.
    let point = [3.0, -0.4, 0.9, -2.0];
    let away = |x: &[f64], g: &mut [f64]| {
        g.iter_mut().zip(x).zip(point).for_each(|((g, x), point)| *g = x - point);
        Ok::<f64, Infallible>(0.5 * g.iter().map(|g| g * g).sum::<f64>())
    };
    let found = run(&Method::Fista { l1: 1.0 }, vec![0.5; 4], away);
    assert!(found.outcome.converged(), "{:?}", found.outcome);
    for (x, expected) in found.x.iter().zip([2.0, 0.0, 0.0, -1.0]) {
        assert!((x - expected).abs() < 1e-6, "{:?}", found.x);
    }
    assert_eq!((found.x[1], found.x[2]), (0.0, 0.0));
    let total: f64 = 0.5 * (1.0 + 0.16 + 0.81 + 1.0) + 3.0;
    assert!((found.value - total).abs() < 1e-6, "{} {total}", found.value);
    // A flat gradient at the start is not the end of it.
    let found = run(&Method::Fista { l1: 1.0 }, point.to_vec(), away);
    assert!((found.x[0] - 2.0).abs() < 1e-6, "{:?}", found.x);
}

/// A function that knows its Hessian.
struct Exact {
    products: usize,
}

impl Objective<Infallible> for Exact {
    fn evaluate(&mut self, x: &[f64], gradient: &mut [f64]) -> Value {
        ellipse(x, gradient)
    }

    fn hessian_times(&mut self, _: &[f64], vector: &[f64], product: &mut [f64]) -> Result<bool, Infallible> {
        self.products += 1;
        for (i, (product, v)) in product.iter_mut().zip(vector).enumerate() {
            *product = 10.0_f64.powf(6.0 * i as f64 / 19.0) * v;
        }
        Ok(true)
    }
}

#[test]
fn products_with_the_hessian_spare_evaluations() {
    let from_gradients = run(&Method::NewtonCg, vec![0.0; 20], ellipse);
    let found =
        minimize(&Method::NewtonCg, &precise(), vec![0.0; 20], Exact { products: 0 }, |_| true).unwrap();
    assert!(found.value < 1e-12, "{found:?}");
    assert!(
        found.evaluations < from_gradients.evaluations / 2,
        "{} {}",
        found.evaluations,
        from_gradients.evaluations
    );
}

#[test]
fn runs_end_where_criteria_and_observers_say() {
    let methods = SECOND_ORDER.into_iter().chain([
        Method::Adam(Adam::new(2)),
        Method::Sgd(Sgd::new(2, 0.5, false).with_rate(1e-4)),
        Method::Fista { l1: 0.1 },
    ]);
    for method in methods {
        for limit in [0, 1, 2, 7, 30] {
            let mut calls = 0;
            let counted = |x: &[f64], g: &mut [f64]| {
                calls += 1;
                rosenbrock(x, g)
            };
            let criteria = Criteria { evaluations_max: limit, ..precise() };
            let found = minimize(&method, &criteria, vec![-1.2, 1.0], counted, |_| true).unwrap();
            assert_eq!(
                (found.outcome, found.evaluations, calls),
                (Outcome::EvaluationsSpent, limit, limit),
                "{method:?}"
            );
        }
        let criteria = Criteria { iterations_max: 3, ..precise() };
        let found = minimize(&method, &criteria, vec![-1.2, 1.0], rosenbrock, |_| true).unwrap();
        assert_eq!(
            (found.outcome, found.iterations, found.history.len()),
            (Outcome::IterationsSpent, 3, 4),
            "{method:?}"
        );
        let mut seen = 0;
        let found = minimize(&method, &precise(), vec![-1.2, 1.0], rosenbrock, |step| {
            seen += 1;
            assert_eq!(step.iteration + 1, seen, "{method:?}");
            seen < 3
        });
        assert_eq!(found.unwrap().outcome, Outcome::Stopped, "{method:?}");
        let found = run(&method, vec![f64::NAN, 0.0], rosenbrock);
        assert_eq!((found.outcome, found.evaluations), (Outcome::NotFinite, 1), "{method:?}");
        let failing = |_: &[f64], _: &mut [f64]| Err::<f64, &str>("no");
        assert_eq!(minimize(&method, &precise(), vec![0.0; 2], failing, |_| true), Err("no"));
    }
}

#[test]
fn steps_that_are_too_long_are_told_and_not_borne() {
    let method = Method::Sgd(Sgd::new(2, 0.9, false).with_rate(10.0));
    let found = run(&method, vec![-1.2, 1.0], rosenbrock);
    assert_eq!(found.outcome, Outcome::NotFinite);
    assert!(found.x.iter().all(|x| x.is_finite()) && found.value.is_finite());
}

#[test]
fn a_wrong_gradient_ends_without_descent_and_without_hanging() {
    for method in SECOND_ORDER {
        let upside_down = |x: &[f64], g: &mut [f64]| {
            let value = ellipse(x, g);
            g.iter_mut().for_each(|g| *g = -*g);
            value
        };
        let found = run(&method, vec![0.0; 20], upside_down);
        assert!(!found.outcome.converged(), "{method:?}: {:?}", found.outcome);
    }
}
