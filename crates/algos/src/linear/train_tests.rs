//! Training: weights and repetitions, scales, classes, words for what is wrong, and the two solvers against each other.

use super::*;
use qjam::{Csr, DataSet, Dense, Master, Rng, Rows};

struct Case {
    columns: usize,
    values: Vec<f64>,
    targets: Vec<f64>,
    labels: Vec<f64>,
    weights: Vec<f64>,
}

/// Columns of different scales and means, one of them empty, many zeros; whole numbers as weights, some of them 0.
fn case(rows: usize, columns: usize) -> Case {
    let mut random = Rng::keyed(11, 0, 0);
    let mut values = vec![0.0; rows * columns];
    for row in 0..rows {
        for column in 0..columns - 1 {
            if random.uniform() < 0.6 {
                values[row * columns + column] = (1.0 + column as f64) * (random.normal() + 0.5);
            }
        }
    }
    let truth: Vec<f64> = (0..columns).map(|_| 0.3 * random.normal()).collect();
    let dot = |row: usize| (0..columns).map(|c| values[row * columns + c] * truth[c]).sum::<f64>();
    let targets: Vec<f64> = (0..rows).map(|row| 1.0 + dot(row) + random.normal()).collect();
    let labels = targets.iter().map(|t| if *t > 1.5 { 7.0 } else { 3.0 }).collect();
    let weights = (0..rows).map(|row| [1.0, 0.0, 2.0, 3.0][row % 4]).collect();
    Case { columns, values, targets, labels, weights }
}

impl Case {
    fn dense(&self) -> DataSet<Dense<f64>> {
        DataSet::dense(self.values.clone(), self.columns).unwrap().chunk_records(17).unwrap()
    }

    fn sparse(&self) -> DataSet<Csr<f64>> {
        let (mut starts, mut columns, mut values) = (vec![0], vec![], vec![]);
        for row in self.values.chunks(self.columns) {
            for (column, value) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
                columns.push(column as u32);
                values.push(*value);
            }
            starts.push(columns.len() as u64);
        }
        DataSet::csr(&Csr::from_vecs(starts, columns, values, self.columns, None).unwrap()).unwrap()
    }

    /// Every row as often as its weight says.
    fn repeated(&self) -> Case {
        let times = || self.weights.iter().map(|weight| *weight as usize).enumerate();
        let of = |from: &[f64]| times().flat_map(|(row, n)| vec![from[row]; n]).collect::<Vec<f64>>();
        let rows = times().flat_map(|(row, n)| self.values[row * self.columns..][..self.columns].repeat(n));
        let (targets, labels) = (of(&self.targets), of(&self.labels));
        Case {
            values: rows.collect(),
            weights: vec![1.0; targets.len()],
            targets,
            labels,
            columns: self.columns,
        }
    }

    fn targets(&self, kind: Kind) -> &[f64] {
        if kind.classifies() { &self.labels } else { &self.targets }
    }
}

fn master() -> Master {
    Master::builder().no_run_file().connect("local:2").unwrap()
}

fn tight() -> Params {
    Params::default().with_tolerance(1e-16).unwrap().with_rounds_max(20_000).unwrap()
}

/// Specs of every kind of problem.
fn specs() -> Vec<Spec> {
    let mut specs: Vec<Spec> = Kind::ALL.into_iter().map(Spec::new).collect();
    specs.push(Spec::new(Kind::Logistic).with_l1_ratio(1.0).unwrap());
    specs.push(Spec::new(Kind::Logistic).with_l1_ratio(0.5).unwrap());
    specs.push(Spec::new(Kind::Svm).with_margin(Margin::Hinge));
    let lambda = |spec: Spec| match spec.kind() {
        Kind::Lasso | Kind::ElasticNet => spec.with_lambda(0.05).unwrap(),
        kind if kind.classifies() => spec.with_c(0.5).unwrap(),
        _ => spec,
    };
    specs.into_iter().map(|spec| lambda(spec).with_params(tight())).collect()
}

fn apart(a: &Trained, b: &Trained) -> f64 {
    let all =
        |t: &Trained| t.model.coefficients().iter().chain(t.model.intercepts()).copied().collect::<Vec<_>>();
    all(a).iter().zip(all(b)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

fn fitted(m: &Master, case: &Case, spec: &Spec, weighted: bool, sparse: bool) -> Trained {
    let weights = weighted.then_some(&case.weights[..]);
    let targets = case.targets(spec.kind());
    match sparse {
        true => train(m, &(&case.sparse()).into(), targets, weights, spec, |_| {}).unwrap(),
        false => train(m, &(&case.dense()).into(), targets, weights, spec, |_| {}).unwrap(),
    }
}

#[test]
fn weights_are_repetitions_and_zeros_are_rows_that_are_not_there() {
    let (case, m) = (case(60, 7), master());
    let repeated = case.repeated();
    for spec in specs() {
        for spec in [spec.clone(), spec.clone().with_intercept(false), spec.with_standardize(true)] {
            for solver in [Solver::Direct, Solver::Cocoa] {
                let Ok(spec) = spec.clone().with_solver(solver) else { continue };
                let weighted = fitted(&m, &case, &spec, true, solver == Solver::Cocoa);
                let expected = fitted(&m, &repeated, &spec, false, solver == Solver::Cocoa);
                let worst = apart(&weighted, &expected);
                let what =
                    format!("{:?} {:?} η {} intercept {}", spec.kind(), solver, spec.eta, spec.intercept);
                assert!(worst < 1e-6, "{what}: {worst:e}, {:?} {:?}", weighted.outcome, expected.outcome);
                let objective = (weighted.objective - expected.objective).abs() / expected.objective;
                assert!(objective < 1e-9, "{what}: {} and {}", weighted.objective, expected.objective);
            }
        }
    }
}

#[test]
fn both_solvers_come_to_the_same_point_and_certify_it() {
    let (case, m) = (case(80, 9), master());
    let has_both = |spec: &Spec| spec.clone().with_solver(Solver::Direct).is_ok();
    for spec in specs().into_iter().filter(has_both) {
        for intercept in [true, false] {
            let spec = spec.clone().with_intercept(intercept);
            let direct = fitted(&m, &case, &spec.clone().with_solver(Solver::Direct).unwrap(), true, false);
            let cocoa = fitted(&m, &case, &spec.clone().with_solver(Solver::Cocoa).unwrap(), true, true);
            let what = format!("{:?} η {} intercept {intercept}", spec.kind(), spec.eta);
            assert!(apart(&direct, &cocoa) < 1e-6, "{what}: {:e}", apart(&direct, &cocoa));
            assert!((direct.objective - cocoa.objective).abs() <= 1e-9 * direct.objective, "{what}");
            let small = if spec.eta == 0.0 { 1e-6 } else { 1e-10 };
            assert!(
                direct.gap <= small * direct.objective,
                "{what}: gap {:e} {:?}",
                direct.gap,
                direct.outcome
            );
            assert_eq!((direct.solver, cocoa.solver), (Solver::Direct, Solver::Cocoa));
        }
    }
}

#[test]
fn the_direct_solver_is_exact_whatever_the_tolerance_and_however_rows_are_cut() {
    let (case, m) = (case(60, 7), master());
    for kind in [Kind::Ridge, Kind::Lasso, Kind::ElasticNet] {
        let spec = Spec::new(kind).with_lambda(0.1).unwrap();
        let loose = fitted(&m, &case, &spec, true, false);
        let exact = fitted(&m, &case, &spec.clone().with_params(tight()), true, true);
        assert_eq!((loose.solver, loose.outcome), (Solver::Direct, Outcome::Converged));
        assert!(apart(&loose, &exact) < 1e-11, "{kind:?}: {:e}", apart(&loose, &exact));
        assert!(loose.rounds <= 3, "{kind:?}: {} rounds", loose.rounds);
    }
}

#[test]
fn standardized_columns_are_those_that_were_divided_before() {
    let (case, m) = (case(60, 7), master());
    let rows = case.targets.len() as f64;
    let deviation = |column: usize| {
        let values = || case.values.chunks(case.columns).map(move |row| row[column]);
        let mean = values().sum::<f64>() / rows;
        let variance = values().map(|v| (v - mean) * (v - mean)).sum::<f64>() / rows;
        if variance > 0.0 { variance.sqrt() } else { 1.0 }
    };
    let deviations: Vec<f64> = (0..case.columns).map(deviation).collect();
    let mut divided = Case {
        values: case.values.clone(),
        targets: case.targets.clone(),
        labels: case.labels.clone(),
        weights: vec![],
        columns: case.columns,
    };
    divided.values.iter_mut().enumerate().for_each(|(at, value)| *value /= deviations[at % case.columns]);
    for spec in specs() {
        for sparse in [false, true] {
            let expected = fitted(&m, &divided, &spec, false, sparse);
            let found = fitted(&m, &case, &spec.clone().with_standardize(true), false, sparse);
            for (j, (a, b)) in
                found.model.coefficients().iter().zip(expected.model.coefficients()).enumerate()
            {
                assert!((a * deviations[j] - b).abs() < 1e-6, "{:?} {j}: {a} {b}", spec.kind());
            }
            assert!((found.objective - expected.objective).abs() < 1e-8 * expected.objective);
        }
    }
}

#[test]
fn several_classes_have_a_model_each_and_empty_columns_nothing() {
    let (case, m) = (case(90, 5), master());
    let thirds: Vec<f64> = case
        .targets
        .iter()
        .map(|t| {
            if *t < 0.5 {
                -1.0
            } else if *t < 3.0 {
                0.5
            } else {
                10.0
            }
        })
        .collect();
    for kind in [Kind::Logistic, Kind::Svm] {
        for balanced in [false, true] {
            let spec = Spec::new(kind).with_balanced(balanced).with_params(tight());
            let spec = spec.with_multi_class(MultiClass::OneVsRest);
            let trained = train(&m, &(&case.dense()).into(), &thirds, None, &spec, |_| {}).unwrap();
            assert_eq!((trained.model.classes(), trained.model.outputs()), (&[-1.0, 0.5, 10.0][..], 3));
            let said = trained.model.predict(&m, &(&case.dense()).into()).unwrap();
            let right = said.iter().zip(&thirds).filter(|(a, b)| a == b).count();
            assert!(right > 45, "{kind:?}: {right} of 90");
            assert!(trained.model.coefficients().chunks(5).all(|row| row[4] == 0.0));
            // One of them alone is the same.
            let last: Vec<f64> = thirds.iter().map(|t| f64::from(*t == 10.0)).collect();
            let spec = spec.with_balanced(false);
            let alone = train(&m, &(&case.dense()).into(), &last, None, &spec, |_| {}).unwrap();
            let same = trained.model.coefficients()[10..].iter().zip(alone.model.coefficients());
            assert!(balanced || same.into_iter().all(|(a, b)| (a - b).abs() < 1e-7), "{kind:?}");
        }
    }
}

#[test]
fn paths_begin_where_the_first_coefficient_appears_and_come_to_what_single_fits_find() {
    let (case, m) = (case(60, 7), master());
    let (data, weights) = (case.sparse(), Some(&case.weights[..]));
    for spec in specs().into_iter().filter(|spec| spec.eta < 1.0) {
        for standardize in [false, true] {
            let spec = spec.clone().with_standardize(standardize);
            let targets = case.targets(spec.kind());
            let most = lambda_max(&m, &(&data).into(), targets, weights, &spec).unwrap();
            let at = |lambda: f64| {
                let spec = spec.clone().with_lambda(lambda).unwrap();
                train(&m, &(&data).into(), targets, weights, &spec, |_| {}).unwrap()
            };
            assert!(at(1.0001 * most).model.coefficients().iter().all(|a| *a == 0.0), "{:?}", spec.kind());
            assert!(at(0.99 * most).model.coefficients().iter().any(|a| *a != 0.0), "{:?}", spec.kind());
            let lambdas = grid(most, 0.05, 4);
            assert!((lambdas[3] / most - 0.05).abs() < 1e-12 && lambdas[0] == most);
            let path = train_path(&m, &(&data).into(), targets, weights, &spec, &lambdas, |_, _| {}).unwrap();
            for (lambda, found) in lambdas.iter().zip(&path) {
                assert!(apart(found, &at(*lambda)) < 1e-7, "{:?} {lambda}", spec.kind());
            }
        }
    }
    let ridge = lambda_max(&m, &(&data).into(), &case.targets, None, &Spec::new(Kind::Ridge)).unwrap();
    assert_eq!(ridge, f64::INFINITY);
}

#[test]
fn baselines_can_be_asked_for_and_come_near() {
    let (case, m) = (case(60, 4), master());
    for spec in specs() {
        let spec = spec.with_standardize(true);
        let best = fitted(&m, &case, &spec, true, false);
        for (solver, rounds, near) in [(Solver::MinibatchScd, 400, 0.1), (Solver::MinibatchSgd, 200, 0.3)] {
            let few = Params::default().with_rounds_max(rounds).unwrap();
            let spec = spec.clone().with_solver(solver).unwrap().with_params(few);
            let spec = Spec { work: Some(1.0), ..spec };
            let found = fitted(&m, &case, &spec, true, solver == Solver::MinibatchScd);
            let what = format!(
                "{:?} η {} {solver:?}: {} and {}",
                spec.kind(),
                spec.eta,
                found.objective,
                best.objective
            );
            assert_eq!((found.solver, found.rounds, found.outcome), (solver, rounds, Outcome::RoundsUsedUp));
            let free = solver == Solver::MinibatchSgd && spec.kind() == Kind::Svm;
            assert!(free || found.objective >= best.objective * (1.0 - 1e-9), "{what}");
            assert!(found.objective <= best.objective * (1.0 + near), "{what}");
            assert_eq!(found.gap.is_finite(), solver == Solver::MinibatchScd);
        }
    }
}

#[test]
fn what_cannot_be_learnt_from_is_named() {
    let (case, m) = (case(20, 4), master());
    let rows = case.dense();
    let refused = |targets: &[f64], weights: Option<&[f64]>, spec: &Spec| {
        train(&m, &(&rows).into(), targets, weights, spec, |_| {}).unwrap_err().to_string()
    };
    let ridge = Spec::new(Kind::Ridge);
    let said = refused(&case.targets[1..], None, &ridge);
    assert_eq!(said, "linear: 19 targets for 20 rows; there must be one for each");
    let said = refused(&case.targets, Some(&[1.0; 3]), &ridge);
    assert_eq!(said, "linear: 3 weights for 20 rows; there must be one for each");
    let mut weights = [1.0; 20];
    weights[4] = -1.0;
    let said = refused(&case.targets, Some(&weights), &ridge);
    assert_eq!(
        said,
        "linear: the weight of row 4 (counted from 0) is -1; weights must be finite and not negative"
    );
    let said = refused(&case.targets, Some(&[0.0; 20]), &ridge);
    assert_eq!(said, "linear: all 20 rows weigh 0; nothing can be learnt from them");
    let said = refused(&[5.0; 20], None, &Spec::new(Kind::Svm));
    assert_eq!(said, "linear: all rows are of class 5; there must be two classes at least");
    let mut targets = case.targets.clone();
    targets[3] = f64::INFINITY;
    let said = refused(&targets, None, &Spec::new(Kind::Lasso));
    assert_eq!(said, "linear: the target of row 3 (counted from 0) is inf; targets must be finite");
    let said = refused(&case.targets, None, &ridge.clone().with_start(vec![0.0; 3]));
    assert_eq!(said, "linear: 3 coefficients to begin with; there must be 4, one for each column and model");
    let mut values = case.values.clone();
    values[4 * 13 + 2] = f64::NAN;
    let bad = DataSet::dense(values, 4).unwrap();
    for solver in [Solver::Direct, Solver::Cocoa] {
        for standardize in [false, true] {
            let spec = ridge.clone().with_solver(solver).unwrap().with_standardize(standardize);
            let said = train(&m, &(&bad).into(), &case.targets, None, &spec, |_| {}).unwrap_err().to_string();
            assert!(said.contains("row 13, column 2 (counted from 0) is NaN"), "{said}");
        }
    }
    let spec = ridge.with_solver(Solver::Cocoa).unwrap().with_partitions(Some(9));
    let trained = train(&m, &(&rows).into(), &case.targets, None, &spec, |_| {}).unwrap();
    assert_eq!(
        (trained.partitions, &trained.remarks[..]),
        (4, &["4 partitions, not 9: there are no more columns".to_string()][..])
    );
}

#[test]
fn data_of_nothing_but_zeros_and_equal_columns_are_no_trouble() {
    let m = master();
    let zeros = DataSet::dense(vec![0.0; 12], 3).unwrap();
    let twins = DataSet::dense((0..12).map(|i| f64::from(i / 2)).collect(), 2).unwrap();
    for spec in specs() {
        for solver in [Solver::Auto, Solver::Cocoa] {
            let spec = spec.clone().with_solver(solver).unwrap();
            let targets = if spec.kind().classifies() { [0.0, 1.0, 1.0, 1.0] } else { [1.0, 3.0, 2.0, 6.0] };
            let trained = train(&m, &(&zeros).into(), &targets, None, &spec, |_| {}).unwrap();
            assert_eq!(trained.model.coefficients(), [0.0; 3], "{:?}", spec.kind());
            let expected = match spec.kind() {
                Kind::Svm => trained.model.intercepts()[0],
                Kind::Logistic => 3.0_f64.ln(),
                _ => 3.0,
            };
            assert!((trained.model.intercepts()[0] - expected).abs() < 1e-7, "{:?} {solver:?}", spec.kind());
            let targets = [targets, targets].concat();
            let spec = spec.clone().with_params(Params::default().with_tolerance(1e-9).unwrap());
            let trained = train(&m, &(&twins).into(), &targets[..6], None, &spec, |_| {}).unwrap();
            assert!(trained.model.coefficients().iter().all(|a| a.is_finite()), "{:?}", spec.kind());
        }
    }
}

#[test]
fn rows_of_32_bits_are_learnt_from_as_if_they_had_64() {
    let (mut case, m) = (case(60, 7), master());
    // Numbers that both have.
    case.values.iter_mut().for_each(|value| *value = f64::from(*value as f32));
    let narrow: Vec<f32> = case.values.iter().map(|value| *value as f32).collect();
    let dense = DataSet::dense(narrow.clone(), case.columns).unwrap().chunk_records(17).unwrap();
    let (mut starts, mut places, mut values) = (vec![0], vec![], vec![]);
    for row in narrow.chunks(case.columns) {
        for (column, value) in row.iter().enumerate().filter(|(_, value)| **value != 0.0) {
            places.push(column as u32);
            values.push(*value);
        }
        starts.push(places.len() as u64);
    }
    let sparse = DataSet::csr(&Csr::from_vecs(starts, places, values, case.columns, None).unwrap()).unwrap();
    let (dense_64, sparse_64) = (case.dense(), case.sparse());
    let three: Vec<f64> = case.targets.iter().map(|t| (t / 2.0).clamp(0.0, 2.0).floor()).collect();
    let weights = Some(&case.weights[..]);
    for spec in specs() {
        for solver in [Solver::Direct, Solver::Cocoa, Solver::Lbfgs] {
            let Ok(spec) = spec.clone().with_solver(solver) else { continue };
            let fixed = Spec { work: Some(1.0), sigma: Some(1.0), ..spec };
            let targets = if solver == Solver::Lbfgs { &three } else { case.targets(fixed.kind()) };
            for spec in [fixed.clone(), fixed.with_standardize(true)] {
                let pairs: [(Rows, Rows); 2] =
                    [((&dense).into(), (&dense_64).into()), ((&sparse).into(), (&sparse_64).into())];
                for (n, (of_32, of_64)) in pairs.into_iter().enumerate() {
                    let a = train(&m, &of_32, targets, weights, &spec, |_| {}).unwrap();
                    let b = train(&m, &of_64, targets, weights, &spec, |_| {}).unwrap();
                    let what = format!("{:?} {solver:?} η {} {n}", spec.kind(), spec.eta);
                    assert!(apart(&a, &b) < 1e-9, "{what}: {:e}", apart(&a, &b));
                    assert!((a.objective - b.objective).abs() <= 1e-12 * b.objective, "{what}");
                    assert_eq!(a.model.predict(&m, &of_32).unwrap(), a.model.predict(&m, &of_64).unwrap());
                }
            }
        }
    }
}

#[test]
fn the_cost_of_the_datas_shape_says_which_solver_and_the_bytes_how_many_partitions() {
    use super::choice::{Shape, choose};
    let l1 = || Spec::new(Kind::Logistic).with_l1_ratio(1.0).unwrap();
    let hinge = || Spec::new(Kind::Svm).with_margin(Margin::Hinge);
    let dense =
        |rows: f64, columns: usize| Shape { rows, columns, entries: rows * columns as f64, is_sparse: false };
    let sparse = |rows: f64, columns: usize, per_row: f64| Shape {
        rows,
        columns,
        entries: rows * per_row,
        is_sparse: true,
    };
    for (spec, shape, expected) in [
        (Spec::new(Kind::Ridge), dense(20_000.0, 200), Solver::Direct),
        (Spec::new(Kind::Ridge), dense(2000.0, 3000), Solver::NewtonCg),
        (Spec::new(Kind::Ridge), sparse(8000.0, 10_000, 100.0), Solver::NewtonCg),
        (Spec::new(Kind::Ridge), sparse(50_000.0, 300, 12.0), Solver::Direct),
        (Spec::new(Kind::Lasso), sparse(50_000.0, 300, 12.0), Solver::Direct),
        (Spec::new(Kind::Lasso), sparse(8000.0, 10_000, 100.0), Solver::Cocoa),
        (Spec::new(Kind::Logistic), sparse(50_000.0, 300, 12.0), Solver::Direct),
        (Spec::new(Kind::Logistic), sparse(11_314.0, 50_000, 120.0), Solver::NewtonCg),
        (l1(), sparse(50_000.0, 300, 12.0), Solver::Direct),
        (l1(), sparse(11_314.0, 50_000, 120.0), Solver::Cocoa),
        (Spec::new(Kind::Svm), sparse(50_000.0, 300, 12.0), Solver::Direct),
        (hinge(), sparse(50_000.0, 300, 12.0), Solver::Cocoa),
    ] {
        let (found, why) = choose(&spec, &shape).unwrap();
        assert_eq!(found, expected, "{:?} η {} {shape:?}: {why}", spec.kind(), spec.eta);
        // Another solver that was asked for is another solver.
        let asked = spec.with_solver(Solver::Cocoa).unwrap();
        assert_eq!(choose(&asked, &shape).unwrap().0, Solver::Cocoa);
    }
    assert_eq!([1, 1 << 18, 1 << 25].map(partitions_for), [1, 2, 9]);
    assert_eq!([1, 1 << 18, 1 << 25, (1 << 25) + 1].map(row_partitions_for), [1, 1, 1, 2]);
}

#[test]
fn conjugate_gradients_come_to_the_point_of_the_direct_solver_and_certify_it() {
    let (case, m) = (case(80, 9), master());
    let has_both = |spec: &Spec| spec.clone().with_solver(Solver::NewtonCg).is_ok();
    for spec in specs().into_iter().filter(has_both) {
        for spec in [spec.clone(), spec.clone().with_intercept(false), spec.with_standardize(true)] {
            for (weighted, sparse) in [(true, false), (false, true)] {
                let at =
                    |solver| fitted(&m, &case, &spec.clone().with_solver(solver).unwrap(), weighted, sparse);
                let (direct, rounds) = (at(Solver::Direct), at(Solver::NewtonCg));
                let what = format!("{:?} intercept {} sparse {sparse}", spec.kind(), spec.intercept);
                assert!(apart(&direct, &rounds) < 1e-8, "{what}: {:e}", apart(&direct, &rounds));
                assert!(rounds.gap <= 1e-12 * rounds.objective, "{what}: {:e}", rounds.gap);
                assert_eq!(rounds.solver, Solver::NewtonCg);
            }
        }
    }
}

#[test]
fn more_columns_than_rows_are_fitted_to_the_tolerance_in_few_rounds() {
    let m = master();
    let mut random = Rng::keyed(3, 0, 0);
    let (rows, columns) = (60, 200);
    let values: Vec<f64> = (0..rows * columns).map(|_| random.normal() + 3.0).collect();
    let targets: Vec<f64> = (0..rows).map(|_| random.normal()).collect();
    let data = DataSet::dense(values, columns).unwrap().chunk_records(13).unwrap();
    for tolerance in [1e-4, 1e-10] {
        let params = Params::default().with_tolerance(tolerance).unwrap();
        let spec = Spec::new(Kind::Ridge).with_solver(Solver::NewtonCg).unwrap().with_params(params);
        let found = train(&m, &(&data).into(), &targets, None, &spec, |_| {}).unwrap();
        assert_eq!(found.outcome, Outcome::Converged);
        assert!(found.gap <= tolerance * found.objective && found.rounds < 150, "{} rounds", found.rounds);
    }
}

#[test]
fn least_squares_without_a_penalty_recover_a_planted_line_and_of_many_optima_the_shortest() {
    let (case, m) = (case(80, 6), master());
    let planted: Vec<f64> = (0..6).map(|j| if j < 5 { f64::from(j) - 1.5 } else { 0.0 }).collect();
    let exact: Vec<f64> = case
        .values
        .chunks(6)
        .map(|row| 2.0 + row.iter().zip(&planted).map(|(x, a)| x * a).sum::<f64>())
        .collect();
    let none = Spec::new(Kind::Ridge).with_lambda(0.0).unwrap();
    for solver in [Solver::Auto, Solver::NewtonCg] {
        let spec = none.clone().with_solver(solver).unwrap();
        let found = train(&m, &(&case.dense()).into(), &exact, None, &spec, |_| {}).unwrap();
        let worst =
            found.model.coefficients().iter().zip(&planted).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst < 1e-7 && (found.model.intercepts()[0] - 2.0).abs() < 1e-7, "{solver:?}: {worst:e}");
        let noisy = train(&m, &(&case.dense()).into(), &case.targets, None, &spec, |_| {}).unwrap();
        assert_eq!(noisy.outcome, Outcome::Converged, "{solver:?}");
    }
    // Twins share what one of them would have.
    let twins = DataSet::dense((0..12).map(|i| f64::from(i / 2 % 4)).collect(), 2).unwrap();
    let found = train(&m, &(&twins).into(), &[0.0, 4.0, 8.0, 12.0, 0.0, 4.0], None, &none, |_| {}).unwrap();
    assert!(
        found.model.coefficients().iter().all(|a| (a - 2.0).abs() < 1e-9),
        "{:?}",
        found.model.coefficients()
    );
    let refused = none.with_solver(Solver::Cocoa).unwrap();
    let said = train(&m, &(&twins).into(), &[0.0; 6], None, &refused, |_| {}).unwrap_err().to_string();
    assert_eq!(said, "linear: cocoa needs an alpha over 0; give the solver auto, direct or newton-cg");
}

#[test]
fn coefficients_that_may_not_be_negative_are_those_of_the_columns_that_are_left() {
    let (case, m) = (case(80, 6), master());
    for kind in [Kind::Ridge, Kind::Lasso, Kind::ElasticNet] {
        for lambda in [0.0, 0.05] {
            let Ok(spec) = Spec::new(kind).with_lambda(lambda) else { continue };
            let spec = spec.with_positive(true).unwrap().with_params(tight());
            let found = fitted(&m, &case, &spec, true, true);
            let kept: Vec<usize> = (0..6).filter(|j| found.model.coefficients()[*j] > 0.0).collect();
            assert!(found.model.coefficients().iter().all(|a| *a >= 0.0) && kept.len() < 5, "{kind:?}");
            assert!(found.gap <= 1e-9 * found.objective, "{kind:?} {lambda}: {:e}", found.gap);
            let values = case.values.chunks(6).flat_map(|row| kept.iter().map(|j| row[*j])).collect();
            let data = DataSet::dense(values, kept.len()).unwrap();
            let free = spec.with_positive(false).unwrap();
            let weights = Some(&case.weights[..]);
            let expected = train(&m, &(&data).into(), &case.targets, weights, &free, |_| {}).unwrap();
            let same = kept.iter().zip(expected.model.coefficients());
            assert!(
                same.into_iter().all(|(j, b)| (found.model.coefficients()[*j] - b).abs() < 1e-7),
                "{kind:?}"
            );
        }
    }
    assert!(Spec::new(Kind::Svm).with_positive(true).is_err());
    let cocoa = Spec::new(Kind::Lasso).with_positive(true).unwrap().with_solver(Solver::Cocoa).unwrap();
    let said =
        train(&m, &(&case.dense()).into(), &case.targets, None, &cocoa, |_| {}).unwrap_err().to_string();
    assert_eq!(
        said,
        "linear: cocoa finds coefficients of any sign; with positive give the solver auto or direct"
    );
}

#[test]
fn a_fit_that_begins_at_the_optimum_makes_no_more_rounds_than_to_find_that_out() {
    let (case, m) = (case(80, 9), master());
    let tolerance = Params::default().with_tolerance(1e-6).unwrap();
    for spec in specs() {
        for solver in [Solver::Direct, Solver::NewtonCg, Solver::Cocoa] {
            let dual = spec.kind() == Kind::Svm && solver == Solver::Cocoa;
            let Ok(spec) = spec.clone().with_solver(solver) else { continue };
            if dual {
                continue;
            }
            let first = fitted(&m, &case, &spec, true, true);
            let again = spec.with_params(tolerance.clone()).with_start(first.model.coefficients().to_vec());
            let again = again.with_start_intercepts(first.model.intercepts().to_vec());
            let found = fitted(&m, &case, &again, true, true);
            let what = format!("{:?} {solver:?} η {}: {} rounds", again.kind(), again.eta, found.rounds);
            assert_eq!(found.outcome, Outcome::Converged, "{what}");
            // One looks at the data and one at the point; a logistic loss takes another for its bound.
            assert!(found.rounds <= 3, "{what}");
            assert!(apart(&found, &first) < 1e-4, "{what}");
        }
    }
}

/// At the optimum changes are nothing but rounding; a step along one of them once led far away, to an objective that was not that
/// of the coefficients.
#[test]
fn a_fit_that_goes_on_at_the_optimum_stays_there() {
    let (case, m) = (case(80, 9), master());
    let spec = |kind: Kind| Spec::new(kind).with_intercept(false).with_solver(Solver::Cocoa).unwrap();
    for kind in [Kind::Ridge, Kind::ElasticNet, Kind::Logistic] {
        for work in [1.0, 3.3, 6.5] {
            // Never by the gap: all rounds are made, or it is stalled.
            let local = Local::Fixed { work, sigma: 1.0 };
            let params = Params::default().with_tolerance(0.0).unwrap().with_rounds_max(300).unwrap();
            let spec = spec(kind).with_params(params.with_local(local).unwrap());
            let found = fitted(&m, &case, &spec, true, true);
            let fit = found.fit.as_ref().unwrap();
            let row = |row: &[f64]| row.iter().zip(&fit.coordinates).map(|(a, b)| a * b).sum::<f64>();
            let off = case.values.chunks(9).zip(&fit.product).map(|(of, product)| (row(of) - product).abs());
            assert!(off.fold(0.0, f64::max) < 1e-10, "{kind:?}, {work} passes a round");
        }
    }
}
