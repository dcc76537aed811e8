//! The autoencoder's sums as rounds see them: cut into chunks, sent as bytes, added along the fixed tree.

use qjam::{DataSet, Decoder, Dense, Encoder, Master, Reduce, Rng, Wire};
use qjam_algos::neural::autoencoder::{
    FitError, Params, Shape, Sums, cost_of_slice, evaluate, fit, fit_by, initial, sums,
};
use qjam_algos::optimize::lbfgs::{Options, Outcome};
use qjam_core::reduce::{Cut, Node, Tree};

fn noise(count: usize, seed: u64) -> Vec<f64> {
    let mut random = Rng::keyed(seed, 0, 0);
    (0..count).map(|_| random.uniform() * 1.2 - 0.6).collect()
}

/// One round in this process, along the tree every engine walks.
fn serial(theta: &[f64], data: &DataSet<Dense<f64>>) -> Sums {
    let cut = Cut::new(data.len() as u32, 0);
    let mut tree = Tree::new(cut);
    for index in 0..cut.chunks {
        let partial = sums(theta, &data.chunk(index as usize).expect("a chunk in memory"));
        tree.insert(Node { level: 0, index }, partial, |left, right: Sums| left.try_merge(right))
            .expect("sums of one shape");
    }
    tree.take_root().expect("every chunk was put in")
}

#[test]
fn cost_and_gradient_do_not_depend_on_the_cut() {
    let params = Params::default();
    let theta = initial(&params.shape(), 1);
    let rows = noise(3000 * 64, 2);
    let (cost, gradient) = cost_of_slice(&params, &theta, &rows);
    let largest = gradient.iter().fold(0.0, |max: f64, g| max.max(g.abs()));
    let data = DataSet::dense(rows, 64).unwrap();
    for cut in [
        data.clone(),
        data.partitions(1).unwrap(),
        data.partitions(7).unwrap(),
        data.chunk_records(33).unwrap(),
    ] {
        let total = serial(&theta, &cut);
        assert_eq!(total.rows, 3000);
        let (cut_cost, cut_gradient) = evaluate(&params, &theta, &total);
        assert!((cut_cost - cost).abs() <= 1e-13 * cost, "{} chunks: {cut_cost} {cost}", cut.len());
        for (ours, whole) in cut_gradient.iter().zip(&gradient) {
            assert!((ours - whole).abs() <= 1e-13 * largest, "{} chunks: {ours} {whole}", cut.len());
        }
    }
}

#[test]
fn sums_arrive_as_they_were_sent() {
    let shape = Shape::new(9, 4).unwrap();
    let sent = sums(&initial(&shape, 1), &Dense::from_vec(noise(9 * 20, 3), 9).unwrap());
    let mut encoder = Encoder::new();
    sent.encode(&mut encoder);
    let mut decoder = Decoder::new(encoder.to_bytes()).unwrap();
    let received = Sums::decode(&mut decoder).unwrap();
    decoder.finish().unwrap();
    assert_eq!(sent, received);
}

#[test]
fn sums_of_another_shape_are_refused_by_name() {
    let [small, large] = [3, 4].map(|hidden| {
        let shape = Shape::new(9, hidden).unwrap();
        sums(&initial(&shape, 1), &Dense::from_vec(noise(9 * 20, 3), 9).unwrap())
    });
    let error = small.clone().try_merge(large).unwrap_err();
    assert!(error.to_string().contains("activation"), "{error}");
}

#[test]
#[should_panic(expected = "100 parameters are no autoencoder for rows of 9 columns")]
fn parameters_of_no_network_fail_with_both_numbers() {
    sums(&[0.0; 100], &Dense::from_vec(vec![0.0; 18], 9).unwrap());
}

#[test]
fn training_by_rounds_ends_where_training_in_this_process_does() {
    let shape = Shape::new(16, 6).unwrap();
    let params = Params::new(shape).with_stopping(Options { evaluations_max: 30, ..Options::default() });
    let data = DataSet::dense(noise(700 * 16, 4), 16).unwrap().chunk_records(50).unwrap();
    let round = |theta: &[f64]| Ok::<_, FitError>(serial(theta, &data));
    let here = fit_by(&params, initial(&shape, 1), round, |_| ()).unwrap();
    assert_eq!((here.minimum.outcome, here.minimum.evaluations), (Outcome::EvaluationsSpent, 30));
    for workers in ["local:1", "local:3"] {
        let master = Master::connect(workers).unwrap();
        let mut seen = 0;
        let there = fit(&master, &params, &data, initial(&shape, 1), |_| seen += 1).unwrap();
        assert_eq!(there, here, "{workers}");
        assert_eq!(seen, 30);
    }
}

#[test]
fn data_or_parameters_of_another_network_are_refused_before_any_round() {
    let master = Master::connect("local:1").unwrap();
    let params = Params::new(Shape::new(16, 6).unwrap());
    let data = DataSet::dense(noise(10 * 15, 4), 15).unwrap();
    let theta = initial(&params.shape(), 1);
    let error = fit(&master, &params, &data, theta.clone(), |_| ()).unwrap_err();
    assert!(matches!(error, FitError::Columns { found: 15, expected: 16 }), "{error}");
    let data = DataSet::dense(noise(10 * 16, 4), 16).unwrap();
    let error = fit(&master, &params, &data, theta[1..].to_vec(), |_| ()).unwrap_err();
    assert!(matches!(error, FitError::Model(_)), "{error}");
}
