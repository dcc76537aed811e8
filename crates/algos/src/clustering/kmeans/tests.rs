//! Lloyd's algorithm in so many words, and that ours does the same at every iteration, on ten kinds of data.

use super::lloyd::Sums;
use super::*;
use crate::kernels::sparse::Sparse;
use qjam::{Csr, Dense, Reduce, Rng};
use qjam_core::reduce::{Cut, Tree};

/// Numbers with their fused multiply-add.
trait Fused: Real {
    fn fused(self, factor: Self, term: Self) -> Self;
}
impl Fused for f32 {
    fn fused(self, factor: f32, term: f32) -> f32 {
        self.mul_add(factor, term)
    }
}
impl Fused for f64 {
    fn fused(self, factor: f64, term: f64) -> f64 {
        self.mul_add(factor, term)
    }
}

const KINDS: [&str; 10] = [
    "noise",
    "clusters",
    "clusters in many columns",
    "copies of few rows",
    "whole numbers with ties",
    "one column",
    "far from the origin",
    "tiny",
    "mostly zeros",
    "outliers",
];

/// Rows of a kind, their columns, and how many clusters to look for.
fn rows<T: Real>(kind: &str) -> (Vec<T>, usize, usize) {
    let mut random = Rng::keyed(KINDS.iter().position(|k| *k == kind).unwrap() as u64, 0, 0);
    let (n, dims, k) = match kind {
        "clusters in many columns" => (1100, 96, 70),
        "one column" => (900, 1, 7),
        "copies of few rows" => (600, 5, 40),
        _ => (1300, 12, 45),
    };
    let middles: Vec<f64> = (0..k * dims).map(|_| random.normal() * 5.0).collect();
    let mut values = Vec::new();
    for i in 0..n {
        let middle = random.below(k as u64) as usize;
        for p in 0..dims {
            let noise = random.normal();
            let v = match kind {
                "clusters" | "clusters in many columns" => middles[middle * dims + p] + noise,
                "copies of few rows" => middles[(i % 17) * dims + p],
                "whole numbers with ties" => (noise * 1.5).round(),
                "far from the origin" => 3000.0 + noise,
                "tiny" => noise * 1e-18,
                "mostly zeros" => {
                    if random.below(10) == 0 {
                        noise
                    } else {
                        0.0
                    }
                }
                "outliers" => noise * if i % 50 == 0 { 1000.0 } else { 1.0 },
                _ => noise,
            };
            values.push(T::from_f64(v));
        }
    }
    (values, dims, k)
}

/// One iteration by the definition: every distance, the first lowest, rows added in order, chunks along the tree.
fn plainly<T: Fused>(
    data: &DataSet<Dense<T>>,
    centres: &Centres<T>,
    empty_clusters: EmptyClusters,
) -> (Vec<u32>, Sums) {
    let (dims, k) = (centres.dims(), centres.len());
    let cut = Cut::new(data.len() as u32, 0);
    let mut tree = Tree::new(cut);
    let mut labels = Vec::new();
    for n in 0..data.len() {
        let mut part = Sums::new(k, dims);
        for row in data.chunk(n).unwrap().rows_iter() {
            let score = |j: usize| {
                let c = &centres.values()[j * dims..][..dims];
                let dot = row.iter().zip(c).fold(T::default(), |sum, (x, c)| x.fused(*c, sum));
                dot.fused(T::from_f64(-2.0), T::from_f64(crate::kernels::nearest::square(c)))
            };
            let nearest = (0..k).fold(0, |best, j| if score(j) < score(best) { j } else { best });
            labels.push(nearest as u32);
            part.weights[nearest] += 1.0;
            for (sum, v) in part.sums[nearest * dims..].iter_mut().zip(row) {
                *sum += v.to_f64();
            }
        }
        tree.insert(cut.node(n as u32), part, Reduce::try_merge).unwrap();
    }
    let mut sums = tree.take_root().unwrap();
    if empty_clusters == EmptyClusters::Farthest {
        plainly_relocated(data, centres, &labels, &mut sums);
    }
    (labels, sums)
}

/// The farthest row of all goes to the first empty centre, the next to the next.
fn plainly_relocated<T: Real>(
    data: &DataSet<Dense<T>>,
    centres: &Centres<T>,
    labels: &[u32],
    sums: &mut Sums,
) {
    let dims = centres.dims();
    let rows: Vec<Vec<T>> = (0..data.len())
        .flat_map(|n| data.chunk(n).unwrap().rows_iter().map(<[T]>::to_vec).collect::<Vec<_>>())
        .collect();
    let square =
        |i: usize| points::squared_distance(&rows[i], &centres.values()[labels[i] as usize * dims..][..dims]);
    let mut far: Vec<(f64, usize)> = (0..rows.len()).map(|i| (square(i), i)).filter(|f| f.0 > 0.0).collect();
    far.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let empty: Vec<usize> = (0..centres.len()).filter(|j| sums.weights[*j] == 0.0).collect();
    for (to, (_, i)) in empty.into_iter().zip(far) {
        let from = labels[i] as usize;
        for (p, v) in rows[i].iter().enumerate() {
            sums.sums[from * dims + p] -= v.to_f64();
            sums.sums[to * dims + p] = v.to_f64();
        }
        sums.weights[from] -= 1.0;
        sums.weights[to] = 1.0;
    }
}

/// The same rows by what is not zero in them.
fn sparse<T: Sparse>(values: &[T], dims: usize, labels: Option<Vec<T>>) -> Csr<T> {
    let (mut starts, mut columns, mut numbers) = (vec![0], vec![], vec![]);
    for row in values.chunks(dims) {
        for (column, v) in row.iter().enumerate().filter(|(_, v)| **v != T::default()) {
            columns.push(column as u32);
            numbers.push(*v);
        }
        starts.push(columns.len() as u64);
    }
    Csr::from_vecs(starts, columns, numbers, dims, labels).unwrap()
}

fn bits<T: Real>(values: &[T]) -> Vec<u64> {
    values.iter().map(|v| v.to_f64().to_bits()).collect()
}

fn check<T: Fused + Sparse>(workers: &str, empty_clusters: EmptyClusters) {
    let master = Master::connect(workers).unwrap();
    for kind in KINDS {
        let (values, dims, k) = rows::<T>(kind);
        let mut first = values[..k * dims].to_vec();
        // Two centres where no row is nearest to them: copies of another.
        first.copy_within(..dims, 2 * dims);
        first.copy_within(..dims, 4 * dims);
        let first = Centres::new(first, dims).unwrap();
        let by_places = survey::cut(&DataSet::csr(&sparse(&values, dims, None)).unwrap()).unwrap();
        let data = survey::cut(&DataSet::dense(values, dims).unwrap()).unwrap();
        assert!(data.len() > 1 && by_places.len() == data.len(), "{kind}: one chunk only");
        let params = Params::new(k).unwrap().with_empty_clusters(empty_clusters);
        let mut all = Lloyd::new(&master, data.clone(), first.clone(), &params.with_pruning(false));
        // Also where it would not pay.
        let mut pruned = [false, true].map(|screening| {
            let mut lloyd = Lloyd::new(&master, data.clone(), first.clone(), &params);
            (lloyd.pruning, lloyd.screening) = (Pruning::Resting(0), screening);
            lloyd
        });
        let mut all_sparse =
            Lloyd::new(&master, by_places.clone(), first.clone(), &params.with_pruning(false));
        let mut some_sparse = Lloyd::new(&master, by_places, first.clone(), &params);
        some_sparse.pruning = Pruning::Resting(0);
        let mut expected = first;
        let mut least = [1.0_f64; 2];
        for iteration in 1..=25 {
            let (labels, sums) = plainly(&data, &expected, empty_clusters);
            expected = expected.moved_to(&sums);
            let found =
                master.run(lloyd::label::<Dense<T>>, &all.centres().compared(true, false), &data).unwrap();
            assert_eq!(found.labels, labels, "{kind}, iteration {iteration}");
            all.step().unwrap();
            all_sparse.step().unwrap();
            some_sparse.step().unwrap();
            let kept = remembered(&some_sparse);
            assert!(
                kept.is_none_or(|kept| kept == labels),
                "{kind}, iteration {iteration}, sparse, with bounds"
            );
            for sparse in [&all_sparse, &some_sparse] {
                let found = bits(sparse.centres().values());
                assert_eq!(found, bits(expected.values()), "{kind}, iteration {iteration}, sparse");
            }
            assert_eq!(
                bits(all.centres().values()),
                bits(expected.values()),
                "{kind}, iteration {iteration}"
            );
            for (lloyd, least) in pruned.iter_mut().zip(&mut least) {
                let what = format!("{kind}, iteration {iteration}, screening: {}", lloyd.screening);
                *least = least.min(lloyd.step().unwrap().computed);
                assert!(remembered(lloyd).is_none_or(|kept| kept == labels), "{what}");
                assert_eq!(bits(lloyd.centres().values()), bits(expected.values()), "{what}");
            }
        }
        if kind.starts_with("clusters") {
            assert!(
                least.iter().all(|least| *least < 0.7),
                "{kind}: at least {least:?} of all distances were computed in every iteration"
            );
        }
    }
}

/// The labels that rows keep with their bounds, if they keep any now.
fn remembered<C: Points>(lloyd: &Lloyd<'_, C>) -> Option<Vec<u32>> {
    let Pruning::Kept { held, .. } = &lloyd.pruning else { return None };
    Some(held.collect().unwrap().iter().flat_map(|b| b.nearest().to_vec()).collect())
}

#[test]
fn every_iteration_is_lloyds_on_ten_kinds_of_data_in_single_precision() {
    check::<f32>("local:2", EmptyClusters::Farthest);
}

#[test]
fn every_iteration_is_lloyds_on_ten_kinds_of_data_in_double_precision() {
    check::<f64>("local:1", EmptyClusters::Keep);
}

fn master() -> Master {
    Master::connect("local:2").unwrap()
}

fn clusters() -> DataSet<Dense<f32>> {
    let (values, dims, _) = rows("clusters");
    DataSet::dense(values, dims).unwrap()
}

#[test]
fn every_start_finds_the_clusters_and_is_the_same_twice() {
    let (m, data) = (master(), clusters());
    let mut inertias = Vec::new();
    for start in [Start::PlusPlus, Start::Parallel, Start::Random] {
        let params = Params::new(45).unwrap().with_start(start).with_seed(3);
        let fitted = fit(&m, &params, &data, |_| {}).unwrap();
        assert_eq!(fitted, fit(&Master::connect("local:1").unwrap(), &params, &data, |_| {}).unwrap());
        let values = fitted.model.centres().values();
        assert!(values.iter().all(|v| v.is_finite()) && fitted.model.centres().len() == 45);
        inertias.push(fitted.inertia);
    }
    // Noise of variance 1 in 12 columns; a random start leaves some clusters without a centre.
    assert!(inertias[0] < 2.0 * 1300.0 * 12.0 && inertias[1] < 2.0 * 1300.0 * 12.0, "{inertias:?}");
    assert!(inertias[0] < inertias[2] && inertias[1] < inertias[2], "{inertias:?}");
}

#[test]
fn of_several_starts_the_best_is_kept() {
    let (m, data) = (master(), clusters());
    let params = Params::new(45).unwrap().with_start(Start::Random);
    let inertia = |params: &Params| fit(&m, params, &data, |_| {}).unwrap().inertia;
    let pairs =
        (0..4).map(|seed| params.with_seed(seed)).map(|p| (inertia(&p), inertia(&p.with_starts(4).unwrap())));
    let pairs: Vec<(f64, f64)> = pairs.collect();
    assert!(pairs.iter().all(|(one, best)| best <= one), "{pairs:?}");
    assert!(pairs.iter().any(|(one, best)| best < one), "{pairs:?}");
}

#[test]
fn a_row_of_weight_two_counts_as_two_rows() {
    let m = master();
    let (values, dims, k) = rows::<f64>("noise");
    let values = &values[..400 * dims];
    let (mut twice, mut weighted) = (Vec::new(), Vec::new());
    for (i, row) in values.chunks(dims).enumerate() {
        let copies = i % 3;
        (0..copies).for_each(|_| twice.extend_from_slice(row));
        weighted.extend_from_slice(row);
        weighted.push(copies as f64);
    }
    // A centre without rows takes over one row, which is half of what two copies are.
    let params =
        Params::new(k).unwrap().with_tolerance(0.0).unwrap().with_empty_clusters(EmptyClusters::Keep);
    let first = Centres::new(values[..k * dims].to_vec(), dims).unwrap();
    let data = DataSet::dense(twice, dims).unwrap();
    let one = fit_from(&m, &params, &data, first.clone(), |_| {}).unwrap();
    let data = DataSet::dense(weighted, dims + 1).unwrap();
    let other = fit_from(&m, &params.with_weights_last(true), &data, first, |_| {}).unwrap();
    assert_eq!((one.outcome, other.outcome), (Outcome::FixedPoint, Outcome::FixedPoint));
    assert!((one.inertia - other.inertia).abs() < 1e-9 * one.inertia, "{} {}", one.inertia, other.inertia);
    let drawn = fit(&m, &params.with_weights_last(true), &data, |_| {}).unwrap();
    assert!(drawn.inertia < 2.0 * one.inertia);
}

#[test]
fn batches_come_near_to_what_all_rows_give() {
    let (m, data) = (master(), clusters());
    let params = Params::new(45).unwrap();
    let all = fit(&m, &params, &data, |_| {}).unwrap();
    let params = params.with_iterations_max(12).unwrap().with_tolerance(0.0).unwrap();
    let params = params.with_patience(None).with_batch_rows(256).unwrap();
    let some = fit_minibatch(&m, &params, &data, |_| {}).unwrap();
    assert_eq!(some, fit_minibatch(&m, &params, &data, |_| {}).unwrap());
    assert_eq!(some.iterations, 61, "12 passes over 1300 rows by 256");
    assert!(some.inertia < 1.5 * all.inertia, "{} {}", some.inertia, all.inertia);
}

#[test]
fn what_cannot_be_used_is_refused_by_row_and_column() {
    let m = master();
    let params = Params::new(2).unwrap();
    let refuse = |values: Vec<f32>, cols, params: &Params| {
        fit(&m, params, &DataSet::dense(values, cols).unwrap(), |_| {}).unwrap_err().to_string()
    };
    let mut values = vec![1.0; 9_000];
    values[6_001] = f32::NAN;
    assert!(refuse(values.clone(), 3, &params).contains("row 2000, column 1 (counted from 0) is NaN"));
    values[6_001] = f32::INFINITY;
    assert!(refuse(values.clone(), 3, &params).contains("is inf"));
    values[6_001] = 1e19;
    assert!(refuse(values, 3, &params).contains("too large"));
    assert!(refuse(vec![1.0, 2.0, 3.0], 3, &params).contains("2 clusters of 1 rows"));
    let weighted = params.with_weights_last(true);
    assert!(
        refuse(vec![1.0, 1.0, 2.0, -3.0], 2, &weighted).contains("weight of row 1 (counted from 0) is -3")
    );
    assert!(refuse(vec![1.0, 0.0, 2.0, 0.0], 2, &weighted).contains("all weights are 0"));
    assert!(refuse(vec![1.0, 2.0], 1, &weighted).contains("no coordinates"));
    let data = DataSet::dense(vec![1.0, 1e308, 2.0, 1e308], 2).unwrap();
    assert!(fit(&m, &weighted, &data, |_| {}).unwrap_err().to_string().contains("too large"));
    let data = DataSet::dense(vec![0.0_f32; 30], 3).unwrap();
    let centres = Centres::new(vec![0.0; 4], 2).unwrap();
    let error = fit_from(&m, &params, &data, centres, |_| {}).unwrap_err().to_string();
    assert!(error.contains("2 first centres of 2 columns") && error.contains("3 columns"), "{error}");
    let centres = Centres::new(vec![0.0, f32::NAN, 0.0, 0.0, 0.0, 0.0], 3).unwrap();
    let error = fit_from(&m, &params, &data, centres, |_| {}).unwrap_err().to_string();
    assert!(error.contains("first centre 0, column 1"), "{error}");
}

#[test]
fn copies_of_one_row_make_one_cluster_and_empty_ones() {
    for start in [Start::PlusPlus, Start::Parallel, Start::Random] {
        let data = DataSet::dense(vec![2.5_f32; 4_000], 4).unwrap();
        let fit = fit(&master(), &Params::new(3).unwrap().with_start(start), &data, |_| {}).unwrap();
        assert_eq!((fit.inertia, fit.empty), (0.0, 2), "{start:?}");
        assert_eq!(fit.model.centres().values(), [2.5; 12]);
        assert_eq!(fit.model.predict(&[1.0; 4]).unwrap(), [0]);
    }
}

#[test]
fn a_model_comes_back_from_its_file_and_refuses_what_does_not_fit() {
    let fit = fit(&master(), &Params::new(5).unwrap(), &clusters(), |_| {}).unwrap();
    let file = crate::models::tests::Temporary::new("kmeans.model");
    let path = file.0.clone();
    fit.model.save(&path).unwrap();
    assert_eq!(Model::<f32>::load(&path).unwrap(), fit.model);
    assert_eq!(Model::<f64>::load(&path).unwrap().centres().len(), 5);
    let contents = crate::models::inspect(&path).unwrap();
    assert_eq!((contents.kind.as_str(), contents.version), ("kmeans", 1));
    assert_eq!(contents.tensors, [("centres".to_string(), "F32".to_string(), vec![5, 12])]);

    std::fs::remove_file(&path).unwrap();
    assert!(Model::<f32>::load(&path).unwrap_err().to_string().contains(".model"));

    let model = fit.model;
    assert!(model.predict(&[0.0; 13]).unwrap_err().to_string().contains("12 columns"));
    let error = model.predict_all(&master(), &DataSet::dense(vec![0.0; 20], 4).unwrap()).unwrap_err();
    assert!(error.to_string().contains("4 columns and the centres have 12"), "{error}");
    let mut row = vec![0.0; 12];
    assert_eq!(model.transform(&row).unwrap().len(), 5);
    assert!(model.predict(&[]).unwrap().is_empty());
    row[3] = f32::NAN;
    let bad = DataSet::dense([vec![0.0; 12], row.clone()].concat(), 12).unwrap();
    assert!(model.predict_all(&master(), &bad).unwrap_err().to_string().contains("row 1, column 3"));
    assert!(model.predict(&row).unwrap_err().to_string().contains("row 0, column 3"));
    let data = clusters();
    let labels = model.predict_all(&master(), &data).unwrap();
    let all: Vec<f32> = (0..data.len()).flat_map(|i| data.chunk(i).unwrap().as_slice().to_vec()).collect();
    assert_eq!(labels, model.predict(&all).unwrap());
    assert!((model.inertia(&all).unwrap() - fit.inertia).abs() < 1e-9 * fit.inertia);
}
