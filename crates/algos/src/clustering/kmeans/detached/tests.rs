use super::*;
use crate::clustering::kmeans::{fit, fit_from};
use qjam::engine::{StateSource, Workplace};
use qjam::fused::{FollowError, Followed};
use qjam::{Csr, Dense, Master};
use std::sync::Arc;

/// Runs a loop to its end on one workplace, each round in two halves and through bytes.
fn run<C: Points>(first: FusedRound, data: &DataSet<C>) -> Result<(LoopState, u64), FollowError> {
    let place = Workplace::new(2, 1 << 20).unwrap();
    let data = survey::cut(data).unwrap();
    let mut round = first;
    let mut rounds = 0;
    loop {
        rounds += 1;
        let bytes = round.to_bytes();
        round = FusedRound::from_bytes(&bytes).unwrap();
        assert_eq!(round.to_bytes(), bytes);
        let mut order = round.order().fork();
        for index in 0..order.cut().chunks {
            let content = data.erased().chunks[index as usize].load().unwrap();
            order.put_chunk(index, &content).unwrap();
        }
        let (order, blocks) = (Arc::new(order), round.order().blocks());
        let part =
            |blocks| place.run(&order, blocks, StateSource::default(), Arc::new(|| false)).unwrap().parts;
        let halves = [part(0..blocks / 2), part(blocks / 2..blocks)];
        let parts = order.merge(halves).unwrap();
        let again = order.parts_from_bytes(&order.parts_to_bytes(&parts).unwrap()).unwrap();
        match (round.follow(parts)?, round.follow(again)?) {
            (Followed::Round(next), Followed::Round(other)) => {
                assert_eq!(next.to_bytes(), other.to_bytes(), "two steppers agree");
                round = *next;
            }
            (Followed::Stop(kept), Followed::Stop(_)) => {
                return Ok((qjam::fused::kept(kept).unwrap(), rounds));
            }
            _ => panic!("one stepper stops and the other goes on"),
        }
    }
}

fn is_the_same<C: Points>(params: &Params, data: &DataSet<C>) {
    let master = Master::connect("local:2").unwrap();
    let wanted = fit(&master, params, data, |_| {}).unwrap();
    let (kept, rounds) = run(first_round(params, data, None).unwrap(), data).unwrap();
    let (found, _) = finished::<C::Number>(params, kept).unwrap();
    assert_eq!(found, wanted);
    assert!(rounds as usize > wanted.iterations + params.k());
}

/// Rows that follow from their positions, in a few clusters that do not touch.
fn rows(count: usize, cols: usize) -> Vec<f64> {
    let at = |n: usize| ((n * 7919 + n / 7) % 1009) as f64 / 100.0 + ((n / cols % 5) * 40) as f64;
    (0..count * cols).map(at).collect()
}

#[test]
fn a_loop_without_a_submitter_has_the_bits_of_a_fit() {
    let params = Params::new(7).unwrap().with_iterations_max(6).unwrap();
    is_the_same(&params, &DataSet::dense(rows(2_000, 3), 3).unwrap());
    let single: Vec<f32> = rows(1_500, 4).iter().map(|v| *v as f32).collect();
    is_the_same(&params.with_weights_last(true), &DataSet::<Dense<f32>>::dense(single, 4).unwrap());
    let starts = params.with_start(Start::Random).with_starts(3).unwrap().with_seed(5);
    is_the_same(&starts, &DataSet::dense(rows(1_000, 2), 2).unwrap());
}

#[test]
fn sparse_rows_and_centres_without_rows_are_looked_after() {
    let dense = rows(600, 3);
    let indptr: Vec<u64> = (0..=600).map(|n| 3 * n).collect();
    let columns: Vec<u32> = (0..1_800).map(|n| n % 3).collect();
    let sparse = Csr::from_vecs(indptr, columns, dense, 3, None).unwrap();
    let data = DataSet::csr(&sparse).unwrap();
    is_the_same(&Params::new(5).unwrap().with_iterations_max(4).unwrap(), &data);
    // Five different rows and eight centres: some are empty, and have none to take over.
    let few: Vec<f64> = (0..900).map(|n| f64::from(n % 5) * 10.0).collect();
    let data = DataSet::dense(few, 1).unwrap();
    is_the_same(&Params::new(8).unwrap(), &data);
    is_the_same(&Params::new(8).unwrap().with_empty_clusters(EmptyClusters::Keep), &data);
}

#[test]
fn given_centres_are_begun_from_and_a_start_that_leaves_one_empty_takes_the_farthest_row() {
    let data = DataSet::dense(rows(900, 2), 2).unwrap();
    let centres = Centres::new(vec![0.0, 0.0, 50.0, 50.0, 1e6, 1e6], 2).unwrap();
    let params = Params::new(3).unwrap();
    let master = Master::connect("local:2").unwrap();
    let wanted = fit_from(&master, &params, &data, centres.clone(), |_| {}).unwrap();
    let (kept, _) = run(first_round(&params, &data, Some(centres)).unwrap(), &data).unwrap();
    assert_eq!(finished::<f64>(&params, kept).unwrap().0, wanted);
}

#[test]
fn what_cannot_be_detached_or_fitted_is_said() {
    let data = DataSet::dense(rows(300, 2), 2).unwrap();
    let params = Params::new(3).unwrap();
    let refused = |params: &Params, data: &DataSet<Dense<f64>>| {
        first_round(params, data, None).err().expect("it is refused").to_string()
    };
    assert!(refused(&params.with_skip_bad_rows(true), &data).contains("cannot leave rows out"));
    assert!(refused(&params.with_start(Start::Parallel), &data).contains("k-means‖"));
    assert!(refused(&Params::new(301).unwrap(), &data).contains("301 clusters of 300 rows"));
    let mut bad = rows(300, 2);
    bad[401] = f64::NAN;
    let bad = DataSet::dense(bad, 2).unwrap();
    let said = run(first_round(&params, &bad, None).unwrap(), &bad).expect_err("it is refused").to_string();
    assert!(said.contains("row 200, column 1 (counted from 0) is NaN"), "{said}");
}
