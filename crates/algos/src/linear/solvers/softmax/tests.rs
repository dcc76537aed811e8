//! Logistic regression of several classes together, against its own conditions of an optimum.

use crate::linear::*;
use qjam::{Csr, DataSet, Master, Rng};

/// Rows with classes 0, 2, 4, …, which depend on a few columns, and weights.
struct Case {
    values: Vec<f64>,
    columns: usize,
    classes: usize,
    targets: Vec<f64>,
    weights: Vec<f64>,
}

fn case(rows: usize, columns: usize, classes: usize) -> Case {
    let mut random = Rng::keyed(17, rows as u64, classes as u32);
    let mut values = vec![0.0; rows * columns];
    for (at, value) in values.iter_mut().enumerate() {
        // One column is empty, and another is far from 0.
        let column = at % columns;
        if column != 2 && random.uniform() < 0.7 {
            *value = random.normal() + if column == 1 { 3.0 } else { 0.0 };
        }
    }
    let best = |row: &[f64], random: &mut Rng| {
        let score = |c: usize| {
            let along: f64 =
                row.iter().enumerate().map(|(j, x)| x * ((j * 7 + c * 5) % 4) as f64 / 3.0).sum();
            along + 0.3 * c as f64
        };
        let noisy: Vec<f64> = (0..classes).map(|c| score(c) + 1.5 * random.normal()).collect();
        (1..classes).fold(0, |best, c| if noisy[c] > noisy[best] { c } else { best })
    };
    let targets = values.chunks(columns).map(|row| 2.0 * best(row, &mut random) as f64).collect();
    let weights = (0..rows).map(|row| [1.0, 2.0, 0.0, 1.0, 3.0][row % 5]).collect();
    Case { values, columns, classes, targets, weights }
}

impl Case {
    fn dense(&self) -> DataSet<qjam::Dense<f64>> {
        DataSet::dense(self.values.clone(), self.columns).unwrap().chunk_records(11).unwrap()
    }

    fn sparse(&self) -> DataSet<Csr<f64>> {
        let (mut starts, mut places, mut values) = (vec![0], vec![], vec![]);
        for row in self.values.chunks(self.columns) {
            for (column, value) in row.iter().enumerate().filter(|(_, value)| **value != 0.0) {
                places.push(column as u32);
                values.push(*value);
            }
            starts.push(places.len() as u64);
        }
        DataSet::csr(&Csr::from_vecs(starts, places, values, self.columns, None).unwrap()).unwrap()
    }

    fn fitted(&self, m: &Master, spec: &Spec, weighted: bool, sparse: bool) -> Trained {
        let weights = weighted.then_some(&self.weights[..]);
        match sparse {
            true => train(m, &(&self.sparse()).into(), &self.targets, weights, spec, |_| {}).unwrap(),
            false => train(m, &(&self.dense()).into(), &self.targets, weights, spec, |_| {}).unwrap(),
        }
    }

    /// The objective and how far the point is from the conditions of an optimum, by the definition.
    fn judged(&self, trained: &Trained, spec: &Spec, weighted: bool) -> (f64, f64) {
        let (a, c, k) = (trained.model.coefficients(), trained.model.intercepts(), self.classes);
        let (l1, l2) = (spec.lambda() * (1.0 - spec.eta), spec.lambda() * spec.eta);
        let mut slopes = vec![0.0; k * (self.columns + 1)];
        let mut loss = 0.0;
        for (i, row) in self.values.chunks(self.columns).enumerate() {
            let w = if weighted { self.weights[i] } else { 1.0 };
            let v: Vec<f64> = (0..k)
                .map(|n| c[n] + row.iter().zip(&a[n * self.columns..]).map(|(x, a)| x * a).sum::<f64>())
                .collect();
            let most = v.iter().fold(f64::MIN, |most, v| most.max(*v));
            let all: f64 = v.iter().map(|v| (v - most).exp()).sum();
            let y = (self.targets[i] / 2.0) as usize;
            loss += w * (all.ln() + most - v[y]);
            for n in 0..k {
                let u = w * ((v[n] - most).exp() / all - f64::from(n == y));
                slopes[k * self.columns + n] += u;
                for (j, x) in row.iter().enumerate() {
                    slopes[n * self.columns + j] += u * x;
                }
            }
        }
        let square: f64 = a.iter().map(|a| a * a).sum();
        let size: f64 = a.iter().map(|a| a.abs()).sum();
        let mut wrong = 0.0_f64;
        for (slope, a) in slopes.iter().zip(a) {
            wrong = wrong.max(match *a == 0.0 {
                true => (slope.abs() - l1).max(0.0),
                false => (slope + l2 * a + l1 * a.signum()).abs(),
            });
        }
        if spec.intercept {
            wrong = slopes[k * self.columns..].iter().fold(wrong, |wrong, slope| wrong.max(slope.abs()));
        }
        // As scikit-learn tells it.
        ((loss + 0.5 * l2 * square + l1 * size) / spec.lambda(), wrong)
    }
}

fn master() -> Master {
    Master::builder().no_run_file().connect("local:2").unwrap()
}

fn tight(l1_ratio: f64) -> Spec {
    let params = Params::default().with_tolerance(1e-15).unwrap().with_rounds_max(3000).unwrap();
    Spec::new(Kind::Logistic).with_l1_ratio(l1_ratio).unwrap().with_c(0.5).unwrap().with_params(params)
}

fn apart(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn optima_of_all_classes_together_meet_their_conditions_and_both_solvers_find_them() {
    let m = master();
    for (classes, l1_ratio) in [(3, 0.0), (4, 0.0), (3, 1.0), (4, 1.0), (3, 0.4)] {
        let case = case(120, 6, classes);
        for (intercept, weighted) in [(true, false), (false, true), (true, true)] {
            let spec = tight(l1_ratio).with_intercept(intercept);
            let mut found: Vec<Trained> = vec![];
            for (solver, sparse) in
                [(Solver::Direct, false), (Solver::Lbfgs, false), (Solver::Lbfgs, true), (Solver::Direct, true)]
            {
                let spec = spec.clone().with_solver(solver).unwrap();
                let one = case.fitted(&m, &spec, weighted, sparse);
                let what =
                    format!("{classes} {l1_ratio} {intercept} {weighted} {solver:?} {sparse} {:?}", one.outcome);
                let (objective, wrong) = case.judged(&one, &spec, weighted);
                assert!(wrong < 1e-6, "{what}: slopes of {wrong:e} after {} rounds", one.rounds);
                assert!((one.objective - objective).abs() < 1e-11 * objective, "{what}");
                // With sizes alone, the bound is as far off as the steepest slope.
                let near = if l1_ratio == 1.0 { 1e-7 } else { 1e-12 };
                assert!(one.gap <= near * objective, "{what}: gap {:e}", one.gap);
                assert!(one.model.intercepts().iter().sum::<f64>().abs() < 1e-12, "{what}");
                assert!(intercept || one.model.intercepts().iter().all(|c| *c == 0.0), "{what}");
                assert!(one.model.is_softmax() && one.solver == solver && one.model.outputs() == classes);
                found.push(one);
            }
            for other in &found[1..] {
                // With sizes alone and an even number of classes there may be many optima.
                let by = apart(found[0].model.coefficients(), other.model.coefficients());
                assert!((l1_ratio == 1.0 && classes == 4) || by < 1e-6, "{classes} {l1_ratio}: {by:e}");
                assert!((found[0].objective - other.objective).abs() < 1e-11 * other.objective);
            }
        }
    }
}

#[test]
fn a_bound_is_below_the_optimum_however_early_it_is_taken() {
    let (m, case) = (master(), case(120, 6, 4));
    for l1_ratio in [0.0, 0.5, 1.0] {
        for intercept in [true, false] {
            let spec = tight(l1_ratio).with_intercept(intercept);
            let best = case.fitted(&m, &spec, true, false).objective;
            for (solver, rounds) in
                [(Solver::Lbfgs, 1), (Solver::Lbfgs, 4), (Solver::Lbfgs, 9), (Solver::Direct, 1), (Solver::Direct, 3)]
            {
                let few = Params::default().with_tolerance(1e-15).unwrap().with_rounds_max(rounds).unwrap();
                let spec = spec.clone().with_params(few).with_solver(solver).unwrap();
                let early = case.fitted(&m, &spec, true, true);
                let what = format!("{l1_ratio} {intercept} {solver:?} {rounds}");
                assert_eq!(early.outcome, Outcome::RoundsUsedUp, "{what}");
                assert!(early.objective - early.gap <= best * (1.0 + 1e-12), "{what}: {} {best}", early.gap);
                assert!(early.objective > best && early.gap < 1.1 * early.objective, "{what}");
            }
        }
    }
}

#[test]
fn weights_of_classes_scales_and_starts_are_what_they_are_for_two() {
    let (m, case) = (master(), case(120, 6, 3));
    for solver in [Solver::Direct, Solver::Lbfgs] {
        let spec = tight(0.3).with_solver(solver).unwrap();
        // Balanced classes are weights.
        let count = |class: f64| case.targets.iter().filter(|t| **t == class).count() as f64;
        let weights: Vec<f64> = case.targets.iter().map(|t| 120.0 / (3.0 * count(*t))).collect();
        let data = case.dense();
        let balanced =
            train(&m, &(&data).into(), &case.targets, None, &spec.clone().with_balanced(true), |_| {})
                .unwrap();
        let weighted = train(&m, &(&data).into(), &case.targets, Some(&weights), &spec, |_| {}).unwrap();
        assert!(apart(balanced.model.coefficients(), weighted.model.coefficients()) < 1e-9, "{solver:?}");
        // Divided columns are columns divided before.
        let standard = case.fitted(&m, &spec.clone().with_standardize(true), false, true);
        let deviation = |j: usize| {
            let of = || case.values.chunks(6).map(move |row| row[j]);
            let mean = of().sum::<f64>() / 120.0;
            (of().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 120.0).sqrt()
        };
        let scales: Vec<f64> = (0..6).map(|j| if deviation(j) > 0.0 { deviation(j) } else { 1.0 }).collect();
        let divided =
            DataSet::dense(case.values.iter().enumerate().map(|(at, x)| x / scales[at % 6]).collect(), 6);
        let divided = train(&m, &(&divided.unwrap()).into(), &case.targets, None, &spec, |_| {}).unwrap();
        let units = |(at, a): (usize, &f64)| a / scales[at % 6];
        let expected: Vec<f64> = divided.model.coefficients().iter().enumerate().map(units).collect();
        assert!(apart(standard.model.coefficients(), &expected) < 1e-7, "{solver:?}");
        // From where it ended there is nothing to do.
        let loose = spec.clone().with_params(Params::default().with_tolerance(1e-6).unwrap());
        let cold = case.fitted(&m, &loose, true, false);
        let warm = loose.with_start(cold.model.coefficients().to_vec());
        assert!(case.fitted(&m, &warm, true, false).rounds < cold.rounds, "{solver:?}");
    }
}

#[test]
fn two_classes_by_slopes_are_two_classes_by_anything_else() {
    let (m, case) = (master(), case(90, 5, 2));
    for l1_ratio in [0.0, 0.5, 1.0] {
        for intercept in [true, false] {
            let spec = tight(l1_ratio).with_intercept(intercept);
            let direct = case.fitted(&m, &spec, true, false);
            let slopes = case.fitted(&m, &spec.with_solver(Solver::Lbfgs).unwrap(), true, true);
            assert_eq!((slopes.solver, slopes.model.outputs()), (Solver::Lbfgs, 1));
            let by = apart(direct.model.coefficients(), slopes.model.coefficients());
            let constants = apart(direct.model.intercepts(), slopes.model.intercepts());
            assert!(by < 1e-6 && constants < 1e-6, "{l1_ratio}: {by:e} {constants:e}");
            assert!((direct.objective - slopes.objective).abs() < 1e-11 * direct.objective);
        }
    }
}

#[test]
fn all_classes_together_have_the_same_bits_on_any_workers() {
    let case = case(300, 9, 5);
    let bits = |workers: &str, solver: Solver, sparse: bool| {
        let m = Master::builder().no_run_file().connect(workers).unwrap();
        let spec = tight(0.2).with_solver(solver).unwrap();
        let found = case.fitted(&m, &spec, true, sparse);
        let numbers = found.model.coefficients().iter().chain(found.model.intercepts());
        (numbers.map(|a| a.to_bits()).collect::<Vec<u64>>(), found.gap.to_bits(), found.rounds)
    };
    for (solver, sparse) in [(Solver::Direct, false), (Solver::Lbfgs, false), (Solver::Lbfgs, true)] {
        assert_eq!(bits("local:1", solver, sparse), bits("local:3", solver, sparse), "{solver:?} {sparse}");
    }
}

#[test]
fn paths_of_all_classes_begin_where_the_first_coefficient_appears() {
    let (m, case) = (master(), case(120, 6, 3));
    let data = case.sparse();
    for (intercept, balanced) in [(true, false), (false, false), (true, true)] {
        let spec = tight(1.0).with_intercept(intercept).with_balanced(balanced);
        let most = lambda_max(&m, &(&data).into(), &case.targets, None, &spec).unwrap();
        let nonzero = |lambda: f64| {
            let spec = spec.clone().with_lambda(lambda).unwrap();
            case.fitted(&m, &spec, false, true).model.coefficients().iter().filter(|a| **a != 0.0).count()
        };
        assert_eq!(nonzero(1.0001 * most), 0, "{intercept} {balanced}");
        assert!(nonzero(0.99 * most) > 0, "{intercept} {balanced}");
    }
}

#[test]
fn what_cannot_be_done_together_is_said() {
    let (m, case) = (master(), case(60, 4, 3));
    let refused = |spec: Spec| {
        train(&m, &(&case.dense()).into(), &case.targets, None, &spec, |_| {}).unwrap_err().to_string()
    };
    let spec = Spec::new(Kind::Logistic);
    let said = refused(spec.clone().with_solver(Solver::Cocoa).unwrap());
    assert_eq!(
        said,
        "linear: cocoa tells one class from the rest at a time, and there are 3; give the solver auto, direct or lbfgs, or multi_class ovr"
    );
    let said = refused(spec.clone().with_multi_class(MultiClass::OneVsRest).with_solver(Solver::Lbfgs).unwrap());
    assert!(said.contains("lbfgs tells classes apart together"), "{said}");
    let said = Spec::new(Kind::Ridge).with_solver(Solver::Lbfgs).unwrap_err().to_string();
    assert!(said.contains("ridge is not looked for by lbfgs"), "{said}");
    let many: Vec<f64> = (0..1001).map(f64::from).collect();
    let rows = DataSet::dense(many.clone(), 1).unwrap();
    let said = train(&m, &(&rows).into(), &many, None, &spec, |_| {}).unwrap_err().to_string();
    assert!(said.contains("1001 classes are too many"), "{said}");
    let start = refused(spec.with_start(vec![0.0; 4]));
    assert!(start.contains("there must be 12"), "{start}");
}

#[test]
fn rows_that_are_parted_without_a_mistake_and_zeros_are_no_trouble() {
    let m = master();
    let parted = DataSet::dense((0..30).map(|i| f64::from(i % 3) * 1e3 + f64::from(i)).collect(), 1).unwrap();
    let targets: Vec<f64> = (0..30).map(|i| f64::from(i % 3)).collect();
    let zeros = DataSet::dense(vec![0.0; 60], 2).unwrap();
    for solver in [Solver::Auto, Solver::Lbfgs] {
        for c in [1e-3, 1.0, 1e6] {
            let spec = Spec::new(Kind::Logistic).with_c(c).unwrap().with_solver(solver).unwrap();
            let found = train(&m, &(&parted).into(), &targets, None, &spec, |_| {}).unwrap();
            assert_eq!(found.outcome, Outcome::Converged, "{solver:?} {c}");
            assert!(found.gap <= 1e-4 * found.objective && found.objective.is_finite());
            assert!(c < 1.0 || found.model.predict(&m, &(&parted).into()).unwrap() == targets, "{solver:?} {c}");
        }
        let spec = Spec::new(Kind::Logistic).with_solver(solver).unwrap();
        let uneven: Vec<f64> = (0..30).map(|i| f64::from(u8::from(i > 2) + u8::from(i > 9))).collect();
        let found = train(&m, &(&zeros).into(), &uneven, None, &spec, |_| {}).unwrap();
        assert_eq!(found.model.coefficients(), [0.0; 6]);
        let chances = found.model.probabilities(&m, &(&zeros).into()).unwrap();
        assert!(apart(&chances[..3], &[0.1, 7.0 / 30.0, 2.0 / 3.0]) < 1e-9, "{:?}", &chances[..3]);
    }
}
