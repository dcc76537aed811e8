//! Gradients against differences, and what sums must not depend on.

use super::*;
use crate::evaluate::{Options, evaluate};
use crate::options::{Settings, Spelling};
use qjam::{Csr, Dense, Rng, Rows};

fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut random = Rng::keyed(seed, 0, 0);
    (0..count).map(|_| random.normal()).collect()
}

/// A model of every kind of output and unit, with targets for so many rows.
fn cases(rows: usize) -> Vec<(PerceptronModel, Vec<f64>)> {
    let mut cases = vec![];
    for activation in Activation::ALL {
        for output in Output::ALL {
            for hidden in [&[][..], &[5], &[4, 3]] {
                let (outputs, classes) = match output {
                    Output::Softmax => (3, vec![0.0, 1.0, 2.0]),
                    Output::Logistic => (1, vec![0.0, 1.0]),
                    Output::Squares | Output::Poisson => (2, vec![]),
                };
                let sizes = [&[3], hidden, &[outputs]].concat();
                let network = Network::new(&sizes, activation, output).unwrap();
                let theta = numbers(network.len(), 3).iter().map(|v| v * 0.7).collect();
                let targets = match output {
                    Output::Softmax => (0..rows).map(|i| (i % 3) as f64).collect(),
                    Output::Logistic => (0..rows).map(|i| (i % 2) as f64).collect(),
                    Output::Squares => numbers(2 * rows, 5),
                    Output::Poisson => (0..2 * rows).map(|i| (i % 4) as f64).collect(),
                };
                cases.push((PerceptronModel::new(network, theta, classes), targets));
            }
        }
    }
    cases
}

#[test]
fn gradients_are_those_of_central_differences() {
    const STEP: f64 = 1e-6;
    let master = Master::connect("local:1").unwrap();
    let data = DataSet::dense(numbers(3 * 21, 1), 3).unwrap();
    let weights: Vec<f64> = (0..21).map(|i| f64::from(i % 3) * 0.5 + 0.25).collect();
    for (model, targets) in cases(21) {
        let value = |theta: Vec<f64>| {
            let moved = PerceptronModel::new(model.network().clone(), theta, model.classes().to_vec());
            loss(&master, &moved, 0.3, &data, &targets, Some(&weights)).unwrap()
        };
        let (_, gradient) = value(model.theta().to_vec());
        for at in 0..model.theta().len() {
            let [up, down] = [STEP, -STEP].map(|step| {
                let mut theta = model.theta().to_vec();
                theta[at] += step;
                value(theta).0
            });
            let slope = (up - down) / (2.0 * STEP);
            let apart = (slope - gradient[at]).abs();
            assert!(
                apart < 1e-6 * (1.0 + slope.abs()),
                "{:?}: {at}: {slope} {}",
                model.network(),
                gradient[at]
            );
        }
    }
}

#[test]
fn sums_do_not_depend_on_how_rows_are_stored_or_batched() {
    // More rows than a batch has, and than are summed before gradients are handed over.
    let (rows, columns) = (2500, 3);
    let values: Vec<f64> = numbers(rows * columns, 8).iter().map(|v| (v * 16.0).round() / 16.0).collect();
    let master = Master::connect("local:2").unwrap();
    let dense = DataSet::dense(values.clone(), columns).unwrap();
    let narrow: DataSet<Dense<f32>> =
        DataSet::dense(values.iter().map(|v| *v as f32).collect(), columns).unwrap();
    let starts = (0..=rows).map(|row| (row * columns) as u64).collect();
    let places = (0..rows * columns).map(|at| (at % columns) as u32).collect();
    let sparse = DataSet::csr(&Csr::from_vecs(starts, places, values, columns, None).unwrap()).unwrap();
    for (model, targets) in cases(rows) {
        let (of_dense, slopes) = loss(&master, &model, 0.1, &dense, &targets, None).unwrap();
        let (of_sparse, sparse_slopes) = loss(&master, &model, 0.1, &sparse, &targets, None).unwrap();
        let (of_narrow, narrow_slopes) = loss(&master, &model, 0.1, &narrow, &targets, None).unwrap();
        assert!((of_dense - of_sparse).abs() < 1e-12 * of_dense.abs(), "{of_dense} {of_sparse}");
        assert!((of_dense - of_narrow).abs() < 1e-5 * of_dense.abs(), "{of_dense} {of_narrow}");
        for ((dense, sparse), narrow) in slopes.iter().zip(&sparse_slopes).zip(&narrow_slopes) {
            assert!((dense - sparse).abs() < 1e-11 * (1.0 + dense.abs()), "{dense} {sparse}");
            assert!((dense - narrow).abs() < 1e-4 * (1.0 + dense.abs()), "{dense} {narrow}");
        }
    }
}

#[test]
fn rows_that_are_picked_count_as_they_do_alone() {
    let values = numbers(40 * 3, 4);
    let all = Dense::from_vec(values.clone(), 3).unwrap();
    let network = Network::new(&[3, 4, 1], Activation::Tanh, Output::Squares).unwrap();
    let theta = network.initial(3);
    let targets = numbers(3, 9);
    let rows = vec![7, 0, 39];
    let picked: Vec<f64> = rows.iter().flat_map(|row| values[*row as usize * 3..][..3].to_vec()).collect();
    let alone = Dense::from_vec(picked, 3).unwrap();
    let request = Request { starts: vec![0, 3], targets, ..Request::of(network, theta) };
    let ctx = qjam::Ctx::for_test(0, 0, 0);
    let expected = slopes(&request, &alone, &ctx);
    assert_eq!(slopes(&Request { rows, ..request }, &all, &ctx), expected);
}

#[test]
fn probabilities_of_two_classes_are_those_of_a_softmax_of_two() {
    let network = Network::new(&[2, 1], Activation::Relu, Output::Logistic).unwrap();
    let model = PerceptronModel::new(network, vec![1.0, -2.0, 0.5], vec![3.0, 8.0]);
    let x = Dense::from_vec(vec![1.0, 0.0, 0.0, 1.0], 2).unwrap();
    let sums = model.sums_of(&x).unwrap();
    assert_eq!(sums, [1.5, -1.5]);
    let crate::learner::Answer::Doubles(found, 2) =
        model.answered(crate::learner::Question::Probabilities, sums.clone())
    else {
        panic!("probabilities are numbers")
    };
    let expected = 1.0 / (1.0 + (-1.5_f64).exp());
    assert!((found[1] - expected).abs() < 1e-15 && (found[2] - expected).abs() < 1e-15, "{found:?}");
    let predicted = model.answered(crate::learner::Question::Predict, sums);
    assert_eq!(predicted, crate::learner::Answer::Values(vec![8.0, 3.0]));
}

#[test]
fn kept_rows_of_no_weight_are_refused() {
    let mut settings = Settings::new(Kind::Regressor.table(), Spelling::Command);
    for (name, value) in [("hidden", "2"), ("max-iter", "2"), ("early-stopping", "true")] {
        settings.set_text(name, value).unwrap();
    }
    let params = Params::from_settings(Kind::Regressor, &settings).unwrap();
    let master = Master::builder().no_run_file().connect("local:1").unwrap();
    let (data, targets) = (DataSet::dense(numbers(40, 1), 1).unwrap(), numbers(40, 2));
    let fitted = |weights: &[f64]| {
        let weights = Some(weights);
        fit(&master, Kind::Regressor, &params, &data, &targets, weights, Progress::default(), |_| {})
    };
    // Every row alone is one of the four that are kept, or is not.
    let told = |row: usize| {
        fitted(&(0..40).map(|at| f64::from(at == row)).collect::<Vec<_>>()).map(|fit| fit.scores)
    };
    let (refused, judged): (Vec<_>, Vec<_>) = (0..40).map(told).partition(Result::is_err);
    assert_eq!((refused.len(), judged.len()), (36, 4));
    assert!(judged.into_iter().flatten().flatten().all(f64::is_finite));
    let said = refused.into_iter().find_map(Result::err).unwrap().to_string();
    assert!(said.contains("0 of 40 rows would be kept"), "{said}");
}

#[test]
fn models_of_several_numbers_for_each_row_have_no_scores() {
    let mut settings = Settings::new(Kind::Regressor.table(), Spelling::Command);
    settings.set_text("hidden", "2").unwrap();
    settings.set_text("max-iter", "2").unwrap();
    let params = Params::from_settings(Kind::Regressor, &settings).unwrap();
    let master = Master::builder().no_run_file().connect("local:1").unwrap();
    let (data, targets) = (DataSet::dense(numbers(40, 1), 1).unwrap(), numbers(80, 2));
    let progress = Progress::default();
    let fitted = fit(&master, Kind::Regressor, &params, &data, &targets, None, progress, |_| {}).unwrap();
    let options = Options { targets: Some(&targets[..40]), ..Options::default() };
    let said = evaluate(&master, &fitted.model, &Rows::from(&data), &options).unwrap_err().to_string();
    assert!(said.contains("gives 2 numbers for each row"), "{said}");
}
