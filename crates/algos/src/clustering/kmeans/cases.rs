//! Cases of k-means one by one: sparse rows, weights, rows that are skipped, centres that lose their rows.

use super::relocate::Far;
use super::*;
use crate::kernels::nearest::Real;
use qjam::{Csr, Dense, Reduce, Rng};

fn master() -> Master {
    Master::connect("local:2").unwrap()
}

/// Few of many columns in every row, as in texts: in dense and in sparse form, with labels that are weights.
fn texts(rows: usize, columns: usize) -> (Vec<f64>, Csr<f64>) {
    let mut random = Rng::keyed(11, 0, 0);
    let (mut dense, mut starts, mut places, mut values) = (vec![], vec![0], vec![], vec![]);
    for i in 0..rows {
        let subject = random.below(12) as usize;
        let mut row = vec![0.0; columns];
        // Some rows have nothing at all.
        for _ in 0..if i % 50 == 7 { 0 } else { 18 } {
            let word = (subject * columns / 12 + random.below(columns as u64 / 6) as usize) % columns;
            row[word] += 1.0 + random.uniform();
        }
        for (column, v) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
            places.push(column as u32);
            values.push(*v);
        }
        starts.push(places.len() as u64);
        dense.extend(row);
    }
    let labels = (0..rows).map(|i| (i % 4) as f64).collect();
    (dense, Csr::from_vecs(starts, places, values, columns, Some(labels)).unwrap())
}

fn centres<T: Real>(fit: &Fit<T>) -> Vec<u64> {
    fit.model.centres().values().iter().map(|v| v.to_f64().to_bits()).collect()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * a.abs()
}

#[test]
fn sparse_rows_end_where_the_same_rows_end_in_dense_form() {
    let m = master();
    let (values, sparse) = texts(700, 2_400);
    let dense = DataSet::dense(values.clone(), 2_400).unwrap();
    let sparse_data = DataSet::csr(&sparse).unwrap();
    // Otherwise only sums in full would have been tried.
    let first = Centres::new(values[..12 * 2_400].to_vec(), 2_400).unwrap();
    let part =
        lloyd::assign(&first.compared(true, false), &sparse_data.partitions(4).unwrap().chunk(1).unwrap());
    assert!(part.sums.is_empty() && !part.in_full().sums.is_empty());
    for start in [Start::PlusPlus, Start::Parallel, Start::Random] {
        let params = Params::new(12).unwrap().with_start(start).with_starts(2).unwrap().with_seed(4);
        let one = fit(&m, &params, &dense, |_| {}).unwrap();
        let other = fit(&m, &params, &sparse_data, |_| {}).unwrap();
        assert_eq!(centres(&one), centres(&other), "{start:?}");
        assert_eq!((one.iterations, one.outcome), (other.iterations, other.outcome), "{start:?}");
        assert!(close(one.inertia, other.inertia), "{} {}", one.inertia, other.inertia);
    }
    let params = Params::new(12).unwrap().with_batch_rows(64).unwrap();
    let one = fit_minibatch(&m, &params, &dense, |_| {}).unwrap();
    let other = fit_minibatch(&m, &params, &sparse_data, |_| {}).unwrap();
    assert_eq!(centres(&one), centres(&other));

    let model = other.model;
    let labels = model.predict(&values).unwrap();
    assert_eq!(model.predict_matrix(&sparse).unwrap(), labels);
    assert_eq!(model.predict_all(&m, &sparse_data).unwrap(), labels);
    let (far, near) = (model.transform(&values).unwrap(), model.transform_matrix(&sparse).unwrap());
    assert!(far.iter().zip(&near).all(|(a, b)| (a - b).abs() <= 1e-7), "distances");
    assert_eq!(model.transform_all(&m, &sparse_data).unwrap(), near);
    assert_eq!(model.transform_all(&m, &dense).unwrap(), far);
    assert!(close(model.inertia_all(&m, &sparse_data, false).unwrap(), model.inertia(&values).unwrap()));
    let narrow = Csr::from_vecs(vec![0, 1], vec![0], vec![1.0], 7, None).unwrap();
    let error = model.predict_matrix(&narrow).unwrap_err().to_string();
    assert!(error.contains("7 columns and the centres have 2400"), "{error}");
}

#[test]
fn labels_of_sparse_rows_are_ignored_or_their_weights() {
    let m = master();
    let (values, sparse) = texts(300, 60);
    let weighted: Vec<f64> = values
        .chunks(60)
        .enumerate()
        .flat_map(|(i, row)| row.iter().copied().chain([(i % 4) as f64]))
        .collect();
    let params = Params::new(6).unwrap().with_seed(1);
    let by_weight = params.with_weights_last(true);
    let dense = fit(&m, &by_weight, &DataSet::dense(weighted, 61).unwrap(), |_| {}).unwrap();
    let data = DataSet::csr(&sparse).unwrap();
    let found = fit(&m, &by_weight, &data, |_| {}).unwrap();
    assert_eq!(centres(&found), centres(&dense));
    assert!(close(found.inertia, dense.inertia));
    assert_eq!(found.sizes.iter().sum::<f64>(), 450.0);
    assert_eq!(found.model.labels(&m, &data, &by_weight).unwrap(), found.model.predict(&values).unwrap());
    assert!(close(found.model.inertia_all(&m, &data, true).unwrap(), found.inertia));
    let (starts, columns, numbers) = (sparse.starts(), sparse.columns(), sparse.values());
    let plain = Csr::from_vecs(starts.to_vec(), columns.to_vec(), numbers.to_vec(), 60, None).unwrap();
    let without = fit(&m, &params, &DataSet::csr(&plain).unwrap(), |_| {}).unwrap();
    assert_eq!(centres(&fit(&m, &params, &data, |_| {}).unwrap()), centres(&without));
    let error = fit(&m, &by_weight, &DataSet::csr(&plain).unwrap(), |_| {}).unwrap_err().to_string();
    assert!(error.contains("weights of sparse rows are their labels, and these rows have none"), "{error}");
}

#[test]
fn rows_without_values_are_one_cluster_at_the_origin() {
    let rows = Csr::<f32>::from_vecs(vec![0; 501], vec![], vec![], 9, None).unwrap();
    let found = fit(&master(), &Params::new(2).unwrap(), &DataSet::csr(&rows).unwrap(), |_| {}).unwrap();
    assert_eq!((found.inertia, found.empty), (0.0, 1));
    assert_eq!(found.model.centres().values(), [0.0; 18]);
}

#[test]
fn skipped_rows_leave_the_bits_of_data_that_never_had_them() {
    let m = master();
    let mut random = Rng::keyed(2, 0, 0);
    let good: Vec<f32> = (0..900 * 3).map(|_| random.normal() as f32).collect();
    let mut rows: Vec<Vec<f32>> = good.chunks(3).map(<[f32]>::to_vec).collect();
    for (at, bad) in [(0, f32::NAN), (400, f32::INFINITY), (903 - 1, f32::NEG_INFINITY)] {
        rows.insert(at, vec![1.0, bad, 2.0]);
    }
    let data = DataSet::dense(rows.concat(), 3).unwrap();
    let params = Params::new(7).unwrap();
    let error = fit(&m, &params, &data, |_| {}).unwrap_err().to_string();
    assert!(
        error.contains("row 0, column 1 (counted from 0) is NaN") && error.contains("skipped"),
        "{error}"
    );
    let skipping = params.with_skip_bad_rows(true);
    let found = fit(&m, &skipping, &data, |_| {}).unwrap();
    let expected = fit(&m, &params, &DataSet::dense(good.clone(), 3).unwrap(), |_| {}).unwrap();
    assert_eq!((centres(&found), found.skipped), (centres(&expected), 3));
    let labels = found.model.labels(&m, &data, &skipping).unwrap();
    let bad: Vec<usize> = (0..903).filter(|i| labels[*i] == NO_LABEL).collect();
    assert_eq!(bad, [0, 400, 902]);
    assert!(found.model.labels(&m, &data, &params).is_err());

    // The same by what is stored, with weights; a weight that is none is skipped too, a negative one never.
    let sparse = |weights: Vec<f32>| {
        let (starts, columns) = ((0..=903).map(|i| i * 3).collect(), [0, 1, 2].repeat(903));
        DataSet::csr(&Csr::from_vecs(starts, columns, rows.concat(), 3, Some(weights)).unwrap()).unwrap()
    };
    let error = fit(&m, &params, &sparse(vec![1.0; 903]), |_| {}).unwrap_err().to_string();
    assert!(error.contains("row 0, column 1 (counted from 0) is NaN"), "{error}");
    let by_weight = skipping.with_weights_last(true);
    assert_eq!(centres(&fit(&m, &by_weight, &sparse(vec![1.0; 903]), |_| {}).unwrap()), centres(&expected));
    let mut weights = vec![1.0; 903];
    weights[5] = f32::NAN;
    assert_eq!(fit(&m, &by_weight, &sparse(weights.clone()), |_| {}).unwrap().skipped, 4);
    weights[8] = -1.0;
    let error = fit(&m, &by_weight, &sparse(weights), |_| {}).unwrap_err().to_string();
    assert!(error.contains("the weight of row 8 (counted from 0) is -1"), "{error}");

    let data = DataSet::dense(vec![f32::NAN, 1.0, 2.0, f32::NAN], 1).unwrap();
    let error = fit(&m, &Params::new(3).unwrap().with_skip_bad_rows(true), &data, |_| {}).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("3 clusters of 2 rows (2 with numbers that are not finite were skipped)"),
        "{error}"
    );
    let data = DataSet::dense(vec![f32::NAN; 4], 1).unwrap();
    let error = fit(&m, &Params::new(1).unwrap().with_skip_bad_rows(true), &data, |_| {}).unwrap_err();
    assert!(error.to_string().contains("1 clusters of 0 rows"), "{error}");
}

#[test]
fn the_tolerance_is_a_share_of_the_variance_far_from_the_origin_too() {
    let m = master();
    let mut random = Rng::keyed(3, 0, 0);
    let near: Vec<f64> = (0..5_000 * 2).map(|_| random.normal()).collect();
    let variance = |offset: f64| {
        let data = DataSet::dense(near.iter().map(|v| v + offset).collect(), 2).unwrap();
        survey::look(&m, &survey::cut(&data).unwrap(), false, false).unwrap().variance
    };
    let (here, there) = (variance(0.0), variance(1e9));
    assert!((here - 1.0).abs() < 0.05 && (here - there).abs() < 1e-6, "{here} {there}");
    // A weight of 2 is the row twice, and 0 is none.
    let weighted: Vec<f64> =
        near.chunks(2).zip([0.0, 1.0, 2.0].iter().cycle()).flat_map(|(r, w)| [r[0], r[1], *w]).collect();
    let copies: Vec<f64> =
        near.chunks(2).zip([0, 1, 2].iter().cycle()).flat_map(|(r, n)| r.repeat(*n)).collect();
    let weighted = survey::look(&m, &DataSet::dense(weighted, 3).unwrap(), true, false).unwrap().variance;
    let copies = survey::look(&m, &DataSet::dense(copies, 2).unwrap(), false, false).unwrap().variance;
    assert!((weighted - copies).abs() < 1e-12, "{weighted} {copies}");
}

#[test]
fn a_batch_of_all_rows_moves_centres_to_the_mean_of_all_they_were_given() {
    let m = master();
    let params = Params::new(2).unwrap();
    let mut weights = vec![0.0; 2];
    let mut found = Centres::new(vec![0.0, 10.0], 1).unwrap();
    for rows in [vec![1.0, 2.0, 9.0], vec![3.0], vec![11.0, 13.0]] {
        let data = DataSet::dense(rows, 1).unwrap();
        found = learn(&m, &params, &data, &found, &mut weights).unwrap();
    }
    assert_eq!((found.values(), &weights[..]), (&[2.0, 11.0][..], &[3.0, 3.0][..]));
    let data = DataSet::dense(vec![1.0], 1).unwrap();
    let error = learn(&m, &params, &data, &found, &mut [0.0]).unwrap_err().to_string();
    assert!(error.contains("1 weights of earlier batches for 2 centres"), "{error}");
}

#[test]
fn centres_without_rows_take_the_farthest_ones_or_stay() {
    let m = master();
    let data = DataSet::dense(vec![0.0, 1.0, 2.0, 3.0, 50.0, 100.0], 1).unwrap();
    let first = Centres::new(vec![1.0, -900.0, -901.0], 1).unwrap();
    let params = Params::new(3).unwrap().with_tolerance(0.0).unwrap();
    let found = fit_from(&m, &params, &data, first.clone(), |_| {}).unwrap();
    assert_eq!(
        (found.model.centres().values(), found.inertia, found.empty),
        (&[1.5, 100.0, 50.0][..], 5.0, 0)
    );
    let kept = params.with_empty_clusters(EmptyClusters::Keep);
    let found = fit_from(&m, &kept, &data, first, |_| {}).unwrap();
    assert_eq!((found.model.centres().values()[1..].to_vec(), found.empty), (vec![-900.0, -901.0], 2));

    // The row of a centre that has one row only may go; then that centre stays. Rows that do not count are not taken.
    let data = DataSet::dense(vec![0.0, 1.0, 40.0, 1.0, 90.0, 0.0], 2).unwrap();
    let first = Centres::new(vec![0.0, 30.0, -500.0], 1).unwrap();
    let mut lloyd = Lloyd::from(&m, &params.with_weights_last(true), &data, first).unwrap();
    assert_eq!(lloyd.step().unwrap().empty, 1);
    assert_eq!(lloyd.centres().values(), [0.0, 30.0, 40.0]);
}

#[test]
fn the_farthest_rows_are_the_same_however_chunks_are_put_together() {
    let m = master();
    let mut random = Rng::keyed(9, 0, 0);
    // Whole numbers: many rows are equally far.
    let values: Vec<f32> = (0..4_000).map(|_| random.below(7) as f32).collect();
    let centres = Centres::new(vec![0.0, 1.0, 6.0, 2.0], 2).unwrap();
    let wanted = relocate::FarthestQuery { measure: Measure::new(&centres, false), count: 30 };
    let data = DataSet::dense(values, 2).unwrap();
    let whole = relocate::farthest(&wanted, &data.partitions(1).unwrap().chunk(0).unwrap());
    for parts in [2, 7, 64, 2_000] {
        let cut: DataSet<Dense<f32>> = data.partitions(parts).unwrap();
        assert_eq!(m.run(relocate::farthest::<Dense<f32>>, &wanted, &cut).unwrap(), whole, "{parts} parts");
        let all: Vec<Far<f32>> =
            (0..parts).map(|i| relocate::farthest(&wanted, &cut.chunk(i).unwrap())).collect();
        let from_the_right = all.into_iter().rev().reduce(|right, mut left| {
            left.merge(right);
            left
        });
        assert_eq!(from_the_right, Some(whole.clone()), "{parts} parts");
    }
}
