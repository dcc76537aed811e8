//! Optima: against a closed form, and against what an optimum must satisfy.

use crate::linear::*;
use qjam::{Csc, Csr, DataSet, Dense, Master, Rng};

/// Some columns that are nearly the same, one that is empty, and an intercept worth having.
struct Case {
    rows: usize,
    cols: usize,
    values: Vec<f64>,
    targets: Vec<f64>,
    labels: Vec<f64>,
}

impl Case {
    fn new(rows: usize, cols: usize) -> Case {
        let mut random = Rng::keyed(3, 0, 0);
        let mut values = vec![0.0; rows * cols];
        for row in 0..rows {
            for column in 0..cols - 1 {
                if random.uniform() < 0.3 {
                    values[row * cols + column] = random.normal() + 0.3;
                }
            }
            values[row * cols + 1] = values[row * cols] + 0.01 * random.normal();
        }
        let truth: Vec<f64> = (0..cols).map(|_| random.normal() * f64::from(random.below(3) == 0)).collect();
        let dot = |row: usize| (0..cols).map(|c| values[row * cols + c] * truth[c]).sum::<f64>();
        let targets: Vec<f64> = (0..rows).map(|row| 2.0 + dot(row) + random.normal()).collect();
        let labels = targets.iter().map(|t| if *t > 2.0 { 1.0 } else { -1.0 }).collect();
        Case { rows, cols, values, targets, labels }
    }

    fn csr(&self) -> DataSet<Csr<f64>> {
        let (mut starts, mut columns, mut values) = (vec![0], vec![], vec![]);
        for row in self.values.chunks(self.cols) {
            for (column, value) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
                columns.push(column as u32);
                values.push(*value);
            }
            starts.push(columns.len() as u64);
        }
        DataSet::csr(&Csr::from_vecs(starts, columns, values, self.cols, None).unwrap()).unwrap()
    }

    fn columns(&self, partitions: usize) -> Partitioned<Csc<f64>> {
        Partitioned::columns_of(&self.csr(), partitions).unwrap()
    }

    fn predicted(&self, learned: &Learned) -> Vec<f64> {
        let dot = |row: &[f64]| row.iter().zip(&learned.coefficients).map(|(x, a)| x * a).sum::<f64>();
        self.values.chunks(self.cols).map(|row| dot(row) + learned.intercept).collect()
    }

    /// Products of all columns with a vector.
    fn times(&self, w: &[f64]) -> Vec<f64> {
        let product = |c: usize| (0..self.rows).map(|r| self.values[r * self.cols + c] * w[r]).sum();
        (0..self.cols).map(product).collect()
    }
}

fn master() -> Master {
    Master::builder().no_run_file().connect("local:2").unwrap()
}

fn tight() -> Params {
    Params::default().with_tolerance(1e-11).unwrap().with_rounds_max(4000).unwrap()
}

/// Slopes of a smooth loss at the optimum must be met by the penalty's.
fn must_be_optimal(coefficients: &[f64], slopes: &[f64], penalty: &Penalty, within: f64) {
    for (j, (a, slope)) in coefficients.iter().zip(slopes).enumerate() {
        let wrong = match *a == 0.0 {
            true => (slope.abs() - penalty.l1()).max(0.0),
            false => (slope + penalty.l2() * a + penalty.l1() * a.signum()).abs(),
        };
        assert!(wrong <= within, "coordinate {j}: {a}, slope {slope}, wrong by {wrong:e}");
    }
}

#[test]
fn regression_meets_the_conditions_of_an_optimum() {
    let case = Case::new(120, 60);
    let m = master();
    for partitions in [1, 4, 15] {
        let data = case.columns(partitions);
        for eta in [1.0, 0.5, 0.0] {
            for intercept in [false, true] {
                let given = Given { lambda: 3.0, eta, scaling: Scaling::HalfSum, intercept };
                let learned = regress(&m, &data, &case.targets, &given, &tight(), |_| {}).unwrap();
                let what = format!("{partitions} partitions, η {eta}, intercept {intercept}");
                assert_eq!(learned.fit.outcome, Outcome::Converged, "{what}: gap {:e}", learned.gap);
                let residual: Vec<f64> =
                    case.predicted(&learned).iter().zip(&case.targets).map(|(p, t)| p - t).collect();
                let penalty = Penalty::elastic_net(3.0, eta, Scaling::HalfSum, 120).unwrap();
                must_be_optimal(&learned.coefficients, &case.times(&residual), &penalty, 2e-4);
                if intercept {
                    assert!(residual.iter().sum::<f64>().abs() < 1e-8, "{what}");
                }
                let square: f64 = learned.coefficients.iter().map(|a| a * a).sum();
                let size: f64 = learned.coefficients.iter().map(|a| a.abs()).sum();
                let objective = 0.5 * residual.iter().map(|r| r * r).sum::<f64>()
                    + 0.5 * penalty.l2() * square
                    + penalty.l1() * size;
                assert!((objective - learned.objective).abs() <= 1e-10 * objective, "{what}");
            }
        }
    }
}

/// Solves `(XᵀX + λ) a = Xᵀb` by elimination.
fn ridge_exactly(case: &Case, lambda: f64) -> Vec<f64> {
    let n = case.cols;
    let mut system: Vec<Vec<f64>> = (0..n)
        .map(|i| {
            let column: Vec<f64> = (0..case.rows).map(|r| case.values[r * n + i]).collect();
            let mut line = case.times(&column);
            line[i] += lambda;
            line.push(column.iter().zip(&case.targets).map(|(x, t)| x * t).sum());
            line
        })
        .collect();
    for i in 0..n {
        let pivot = system[i].clone();
        for line in system.iter_mut().skip(i + 1) {
            let factor = line[i] / pivot[i];
            line.iter_mut().zip(&pivot).for_each(|(a, b)| *a -= factor * b);
        }
    }
    let mut solution = vec![0.0; n];
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|j| system[i][j] * solution[j]).sum();
        solution[i] = (system[i][n] - known) / system[i][i];
    }
    solution
}

#[test]
fn ridge_is_the_solution_of_the_normal_equations() {
    let case = Case::new(120, 60);
    let expected = ridge_exactly(&case, 3.0);
    let given = Given { lambda: 3.0, eta: 1.0, scaling: Scaling::HalfSum, intercept: false };
    let rows = DataSet::dense(case.values.clone(), case.cols).unwrap();
    let dense = Partitioned::<Dense<f64>>::dense_columns_of(&rows, 3).unwrap();
    let (m, tight) = (master(), tight().with_tolerance(1e-15).unwrap());
    let from_sparse = regress(&m, &case.columns(3), &case.targets, &given, &tight, |_| {}).unwrap();
    let from_dense = regress(&m, &dense, &case.targets, &given, &tight, |_| {}).unwrap();
    for learned in [from_sparse, from_dense] {
        let worst =
            learned.coefficients.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst < 1e-6, "{worst:e}");
    }
}

#[test]
fn logistic_regression_meets_the_conditions_of_an_optimum() {
    let case = Case::new(150, 40);
    let m = master();
    for (eta, intercept) in [(1.0, true), (1.0, false), (0.5, true), (0.0, false), (0.0, true)] {
        let given = Given { lambda: 1.5, eta, scaling: Scaling::HalfSum, intercept };
        let params = tight();
        let learned = logistic(&m, &case.columns(3), &case.labels, &given, &params, |_| {}).unwrap();
        assert_eq!(learned.fit.outcome, Outcome::Converged, "η {eta}: gap {:e}", learned.gap);
        let slopes: Vec<f64> = case
            .predicted(&learned)
            .iter()
            .zip(&case.labels)
            .map(|(p, y)| -y / (1.0 + (y * p).exp()))
            .collect();
        let penalty = Penalty::elastic_net(1.5, eta, Scaling::HalfSum, 150).unwrap();
        must_be_optimal(&learned.coefficients, &case.times(&slopes), &penalty, 1e-4);
        assert!(!intercept || slopes.iter().sum::<f64>().abs() < 1e-9);
    }
}

#[test]
fn support_vector_machines_close_their_gap() {
    let case = Case::new(150, 40);
    let m = master();
    for margin in [Margin::Hinge, Margin::SquaredHinge] {
        for constant in [0.0, 1.0] {
            let examples = Partitioned::examples_of(&case.csr(), &case.labels, constant, 4).unwrap();
            let params = tight().with_tolerance(1e-9).unwrap();
            let learned = svm(&m, &examples, 0.7, margin, constant, &params, |_| {}).unwrap();
            let what = format!("{margin:?}, constant {constant}");
            assert_eq!(learned.fit.outcome, Outcome::Converged, "{what}: gap {:e}", learned.gap);
            let losses = case.predicted(&learned).into_iter().zip(&case.labels).map(|(p, y)| {
                let short = (1.0 - y * p).max(0.0);
                if margin == Margin::Hinge { short } else { short * short }
            });
            let weights: f64 = learned.coefficients.iter().map(|w| w * w).sum();
            let primal = 0.5 * (weights + learned.intercept * learned.intercept) + 0.7 * losses.sum::<f64>();
            // Nothing is below the dual, and the present point is at most a gap above it.
            let dual = -learned.fit.objective;
            assert!(primal >= dual - 1e-9 && primal - dual <= 3.0 * learned.gap + 1e-9, "{what}");
        }
    }
}

#[test]
fn what_lasso_leaves_out_is_exactly_zero() {
    let case = Case::new(120, 60);
    let given = Given { lambda: 12.0, eta: 0.0, scaling: Scaling::HalfSum, intercept: true };
    let params = tight().with_tolerance(1e-6).unwrap();
    for partitions in [1, 4] {
        let learned = regress(&master(), &case.columns(partitions), &case.targets, &given, &params, |_| {});
        let coefficients = learned.unwrap().coefficients;
        let zeros = coefficients.iter().filter(|a| **a == 0.0).count();
        let tiny = coefficients.iter().filter(|a| **a != 0.0 && a.abs() < 1e-5).count();
        assert!(zeros > 30 && tiny == 0, "{partitions} partitions: {zeros} zeros, {tiny} nearly");
    }
}

#[test]
fn a_larger_target_ends_sooner_and_too_few_rounds_are_an_outcome() {
    let case = Case::new(120, 60);
    let (m, data) = (master(), case.columns(2));
    let given = Given { lambda: 3.0, eta: 0.5, scaling: Scaling::HalfSum, intercept: false };
    let best = regress(&m, &data, &case.targets, &given, &tight(), |_| {}).unwrap();
    let near = tight().with_target(best.objective * 1.01);
    let reached = regress(&m, &data, &case.targets, &given, &near, |_| {}).unwrap();
    assert_eq!(reached.fit.outcome, Outcome::TargetReached);
    assert!(reached.fit.rounds < best.fit.rounds && reached.objective <= best.objective * 1.01);
    let few = tight().with_rounds_max(2).unwrap();
    let few = regress(&m, &data, &case.targets, &given, &few, |_| {}).unwrap();
    assert_eq!((few.fit.outcome, few.fit.rounds), (Outcome::RoundsUsedUp, 2));
}

#[test]
fn no_round_makes_the_objective_worse_however_bold_it_is() {
    let case = Case::new(120, 60);
    let m = master();
    for eta in [1.0, 0.5, 0.0] {
        let given = Given { lambda: 0.1, eta, scaling: Scaling::HalfSum, intercept: false };
        // Fifteen partitions that allow for nobody: added as they are, their changes would blow up.
        let bold = Local::Fixed { work: 4.0, sigma: 1.0 };
        let params = tight().with_local(bold).unwrap().with_rounds_max(60).unwrap();
        let mut last = f64::INFINITY;
        regress(&m, &case.columns(15), &case.targets, &given, &params, |seen| {
            let rounding = 1e-14 * last.abs();
            assert!(
                seen.objective <= last + rounding,
                "round {}: {} after {last}",
                seen.round,
                seen.objective
            );
            last = seen.objective;
        })
        .unwrap();
        let careful = Local::Fixed { work: 4.0, sigma: 15.0 };
        let params = params.with_local(careful).unwrap().with_combine(Combine::Added);
        let plain = regress(&m, &case.columns(15), &case.targets, &given, &params, |_| {}).unwrap();
        assert!(last <= plain.objective * (1.0 + 1e-3), "η {eta}: {last} and {}", plain.objective);
    }
}

#[test]
fn a_path_comes_to_the_same_points_in_fewer_rounds() {
    let case = Case::new(120, 60);
    let (m, data) = (master(), case.columns(3));
    let lambdas = [20.0, 10.0, 5.0, 2.5];
    let params = tight().with_tolerance(1e-8).unwrap();
    for (eta, intercept) in [(0.5, true), (0.0, false)] {
        let given = Given { lambda: 1.0, eta, scaling: Scaling::HalfSum, intercept };
        let path = path(&m, &data, &case.targets, &given, &lambdas, &params).unwrap();
        let (mut rounds, mut rounds_cold) = (0, 0);
        for (lambda, warm) in lambdas.iter().zip(&path) {
            let given = Given { lambda: *lambda, ..given };
            let cold = regress(&m, &data, &case.targets, &given, &params, |_| {}).unwrap();
            assert!((warm.objective - cold.objective).abs() <= 1e-7 * cold.objective, "λ {lambda}");
            assert!((warm.intercept - cold.intercept).abs() <= 1e-2);
            (rounds, rounds_cold) = (rounds + warm.fit.rounds, rounds_cold + cold.fit.rounds);
        }
        assert!(rounds < rounds_cold, "{rounds} and {rounds_cold}");
    }
}

#[test]
fn averaging_comes_to_the_same_point() {
    let case = Case::new(120, 60);
    let given = Given { lambda: 3.0, eta: 1.0, scaling: Scaling::HalfSum, intercept: false };
    let local = Local::Fixed { work: 1.0, sigma: 1.0 };
    let params = tight().with_combine(Combine::Averaged).with_local(local).unwrap();
    let params = params.with_tolerance(1e-8).unwrap();
    let averaged = regress(&master(), &case.columns(4), &case.targets, &given, &params, |_| {}).unwrap();
    assert_eq!(averaged.fit.outcome, Outcome::Converged);
    let best = regress(&master(), &case.columns(4), &case.targets, &given, &tight(), |_| {}).unwrap();
    assert!((averaged.objective - best.objective).abs() <= 1e-7 * best.objective);
}

#[test]
fn choices_played_again_give_the_same_bits() {
    let case = Case::new(120, 60);
    let (m, data) = (master(), case.columns(3));
    let given = Given { lambda: 1.0, eta: 0.5, scaling: Scaling::HalfSum, intercept: true };
    let params = tight().with_tolerance(1e-8).unwrap();
    let first = regress(&m, &data, &case.targets, &given, &params, |_| {}).unwrap();
    let replayed = params.with_local(Local::Replayed(first.fit.choices.clone())).unwrap();
    let again = regress(&m, &data, &case.targets, &given, &replayed, |_| {}).unwrap();
    assert_eq!(first.coefficients, again.coefficients);
    assert_eq!((first.fit.rounds, first.objective), (again.fit.rounds, again.objective));
}

#[test]
fn bad_input_is_named() {
    let case = Case::new(20, 5);
    let m = master();
    let given = Given { lambda: 1.0, eta: 0.5, scaling: Scaling::HalfSum, intercept: true };
    let refused = regress(&m, &case.columns(2), &case.targets[1..], &given, &tight(), |_| {}).unwrap_err();
    assert!(refused.to_string().contains("19 targets for 20 rows"), "{refused}");
    let mut targets = case.targets.clone();
    targets[7] = f64::NAN;
    let refused = regress(&m, &case.columns(2), &targets, &given, &tight(), |_| {}).unwrap_err();
    assert!(refused.to_string().contains("row 7"), "{refused}");
    let refused = logistic(&m, &case.columns(2), &case.targets, &given, &tight(), |_| {}).unwrap_err();
    assert!(refused.to_string().contains("label of row 0"), "{refused}");
    let wrong = Given { lambda: -1.0, ..given };
    assert!(regress(&m, &case.columns(2), &case.targets, &wrong, &tight(), |_| {}).is_err());
    assert_eq!(case.columns(50).partitions(), 5);
}

#[test]
fn data_of_nothing_but_zeros_is_no_trouble() {
    let x = Csr::<f64>::from_vecs(vec![0, 0, 0], vec![], vec![], 3, None).unwrap();
    let data = Partitioned::columns_of(&DataSet::csr(&x).unwrap(), 2).unwrap();
    for eta in [1.0, 0.0] {
        let given = Given { lambda: 1.0, eta, scaling: Scaling::HalfSum, intercept: true };
        let learned = regress(&master(), &data, &[1.0, 3.0], &given, &tight(), |_| {}).unwrap();
        assert_eq!((learned.coefficients, learned.intercept), (vec![0.0; 3], 2.0));
        assert_eq!(learned.objective, 1.0);
    }
}

/// The same rows so many times each.
fn repeated(case: &Case, times: &[usize]) -> Case {
    let rows: Vec<usize> =
        times.iter().enumerate().flat_map(|(row, n)| std::iter::repeat_n(row, *n)).collect();
    let line = |row: &usize| case.values[row * case.cols..(row + 1) * case.cols].to_vec();
    Case {
        rows: rows.len(),
        cols: case.cols,
        values: rows.iter().flat_map(line).collect(),
        targets: rows.iter().map(|row| case.targets[*row]).collect(),
        labels: rows.iter().map(|row| case.labels[*row]).collect(),
    }
}

#[test]
fn a_row_of_weight_two_is_two_rows_and_one_of_weight_zero_is_none() {
    let case = Case::new(80, 30);
    let times: Vec<usize> = (0..80).map(|row| row * 7 % 4).collect();
    let weights: Vec<f64> = times.iter().map(|n| *n as f64).collect();
    let (more, m, data) = (repeated(&case, &times), master(), case.columns(3));
    let apart = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    for eta in [1.0, 0.5, 0.0] {
        let terms = Separable::from(Penalty::elastic_net(2.0, eta, Scaling::HalfSum, 80).unwrap());
        let given = Given { lambda: 2.0, eta, scaling: Scaling::HalfSum, intercept: true };
        let squares = Loss::WeightedSquares { targets: case.targets.clone(), weights: weights.clone() };
        let expected = regress(&m, &more.columns(2), &more.targets, &given, &tight(), |_| {}).unwrap();
        let objective = Objective { loss: squares, terms, centred: false, free: true };
        let found = fit(&m, &data, &objective, &tight(), |_| {}).unwrap();
        assert_eq!(found.outcome, Outcome::Converged, "η {eta}: gap {:e}", found.gap());
        let worst = apart(&found.coordinates, &expected.coefficients);
        assert!(worst < 1e-3 && (found.constant - expected.intercept).abs() < 1e-3, "η {eta}: {worst:e}");
        assert!((found.objective - expected.objective).abs() <= 1e-9 * expected.objective);
        let labels = case.labels.iter().zip(&weights).map(|(y, w)| y * w).collect();
        let expected = logistic(&m, &more.columns(2), &more.labels, &given, &tight(), |_| {}).unwrap();
        let objective = Objective { loss: Loss::Logistic { labels }, ..objective };
        let found = fit(&m, &data, &objective, &tight(), |_| {}).unwrap();
        let worst = apart(&found.coordinates, &expected.coefficients);
        assert!(worst < 1e-3 && (found.constant - expected.intercept).abs() < 1e-3, "η {eta}: {worst:e}");
        assert!((found.objective - expected.objective).abs() <= 1e-9 * expected.objective);
    }
    for margin in [Margin::Hinge, Margin::SquaredHinge] {
        let examples = Partitioned::examples_of(&more.csr(), &more.labels, 1.0, 2).unwrap();
        let expected = svm(&m, &examples, 0.7, margin, 1.0, &tight(), |_| {}).unwrap();
        let examples = Partitioned::examples_of(&case.csr(), &case.labels, 1.0, 3).unwrap();
        let examples = examples.with_prices(weights.clone()).unwrap();
        let found = svm(&m, &examples, 0.7, margin, 1.0, &tight(), |_| {}).unwrap();
        assert_eq!(found.fit.outcome, Outcome::Converged, "{margin:?}: gap {:e}", found.gap);
        let worst = apart(&found.coefficients, &expected.coefficients);
        assert!(worst < 1e-4, "{margin:?}: {worst:e}");
        assert!((found.objective - expected.objective).abs() <= 1e-8 * expected.objective, "{margin:?}");
    }
}

#[test]
fn known_costs_make_known_choices() {
    let case = Case::new(120, 60);
    let given = Given { lambda: 1.0, eta: 0.0, scaling: Scaling::HalfSum, intercept: true };
    let run = |exchange: u64| {
        let params = tight().with_tolerance(1e-6).unwrap();
        let (exchange, pass) =
            (std::time::Duration::from_micros(exchange), std::time::Duration::from_millis(1));
        let params = params.with_costs(exchange, pass);
        regress(&master(), &case.columns(3), &case.targets, &given, &params, |_| {}).unwrap()
    };
    let (first, again, dear) = (run(50), run(50), run(20_000));
    assert_eq!((&first.fit.choices, first.coefficients), (&again.fit.choices, again.coefficients));
    assert!(dear.fit.rounds < first.fit.rounds && dear.fit.passes > first.fit.passes);
}

#[test]
fn small_fits_have_the_same_bits_each_time() {
    let case = Case::new(120, 60);
    let given = Given { lambda: 1.0, eta: 0.5, scaling: Scaling::HalfSum, intercept: true };
    let run =
        || regress(&master(), &case.columns(3), &case.targets, &given, &Params::default(), |_| {}).unwrap();
    let (first, again) = (run(), run());
    assert_eq!((first.coefficients, first.fit.choices), (again.coefficients, again.fit.choices));
}

#[test]
fn a_few_rows_with_an_intercept_come_to_their_optimum() {
    // Rows 1 2:1 9:2, 3, -1 2:0.5, 2 9:1 of nine columns.
    let x = Csr::from_vecs(vec![0, 2, 2, 3, 4], vec![1, 8, 1, 8], vec![1.0, 2.0, 0.5, 1.0], 9, None).unwrap();
    let x = DataSet::csr(&x).unwrap();
    let given = Given { lambda: 0.1, eta: 1.0, scaling: Scaling::HalfSum, intercept: true };
    let run = |partitions, params: &Params| {
        let data = Partitioned::columns_of(&x, partitions).unwrap();
        regress(&master(), &data, &[1.0, 3.0, -1.0, 2.0], &given, params, |_| {}).unwrap()
    };
    let expected = run(1, &tight()).objective;
    for tolerance in [1e-4, 1e-11, 1e-15] {
        for partitions in [2, 3, 9] {
            let learned = run(partitions, &tight().with_tolerance(tolerance).unwrap());
            let within = (2.0 * tolerance).max(1e-13) * expected;
            assert!((learned.objective - expected).abs() <= within, "{partitions}: {}", learned.objective);
            let along: f64 = learned.fit.product.iter().sum();
            assert!(along.abs() < 1e-12, "{along:e}");
        }
    }
}

#[test]
fn many_passes_a_round_with_an_intercept_come_to_the_optimum() {
    let case = Case::new(70, 9);
    let m = master();
    let rows = DataSet::dense(case.values.clone(), case.cols).unwrap();
    for (eta, tolerance) in [(1.0, 1e-4), (1.0, 1e-15), (0.5, 1e-15), (0.0, 1e-15)] {
        let given = Given { lambda: 1.0, eta, scaling: Scaling::HalfSum, intercept: true };
        for partitions in [1, 2] {
            let dense = Partitioned::<Dense<f64>>::dense_columns_of(&rows, partitions).unwrap();
            let few = Local::Fixed { work: 0.5, sigma: 1.0 };
            let few = tight().with_tolerance(1e-12).unwrap().with_local(few).unwrap();
            let expected = regress(&m, &dense, &case.targets, &given, &few, |_| {}).unwrap().objective;
            let many = Local::Fixed { work: 60.0, sigma: 1.0 };
            let many = tight().with_tolerance(tolerance).unwrap().with_local(many).unwrap();
            let learned = regress(&m, &dense, &case.targets, &given, &many, |_| {}).unwrap();
            let within = (2.0 * tolerance).max(1e-11) * expected;
            assert!((learned.objective - expected).abs() <= within, "η {eta}: {}", learned.objective);
            let residual = case.predicted(&learned).into_iter().zip(&case.targets).map(|(p, t)| p - t);
            let terms = Separable::from(Penalty::elastic_net(1.0, eta, Scaling::HalfSum, 70).unwrap());
            let told = 0.5 * residual.map(|r| r * r).sum::<f64>()
                + learned.coefficients.iter().map(|a| terms.value(*a)).sum::<f64>();
            assert!((told - learned.objective).abs() <= 1e-12 * told, "η {eta}: {told}");
        }
    }
}
