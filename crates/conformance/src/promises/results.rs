//! What a function gives comes home bit by bit: nested results, results of any size, and numbers that are none.

use crate::Engine;
use crate::support::{Walk, bits, check, rugged, serial};
use qjam::{Ctx, DataSet, Dense, Joined, List, Master, Nothing, Serde, Sum, Wire};
use std::collections::HashMap;
use std::time::Duration;

#[derive(Wire, Sum, Clone, Debug, Default, PartialEq)]
struct Layer {
    weights: Vec<f64>,
    bias: [f32; 2],
    seen: Option<u32>,
}

#[derive(Wire, Sum, Clone, Debug, Default, PartialEq)]
struct Net {
    layers: Vec<Layer>,
    loss: (f64, f32, i64),
    rows: u64,
    extra: Option<Box<Layer>>,
}

#[qjam::map]
fn nested(rate: &(f64, Option<Vec<f32>>), x: &Dense<f64>, ctx: &Ctx) -> Net {
    let layer = |salt: f64| Layer {
        weights: x.as_slice().iter().take(64).map(|v| v * salt * rate.0).collect(),
        bias: [x.as_slice()[0] as f32, rate.1.as_ref().map_or(0.1, |r| r[0])],
        seen: ctx.chunk().is_multiple_of(3).then_some(1),
    };
    Net {
        layers: (0..3).map(|n| layer(f64::from(n) + 0.3)).collect(),
        loss: (x.as_slice().iter().sum(), 0.1, -1),
        rows: x.rows() as u64,
        extra: (ctx.chunk() > 5).then(|| Box::new(layer(0.7))),
    }
}

/// Its merge keeps everything in order: it is associative, and nothing else.
#[qjam::map]
fn every_value(_: &(), x: &Dense<f64>) -> Joined<f64> {
    Joined(x.as_slice().to_vec())
}

/// Sums by key, in a map whose order is another in every process.
#[qjam::map]
fn by_remainder(classes: &u64, x: &List<u64>) -> HashMap<u64, f64> {
    let mut sums = HashMap::new();
    for v in x {
        *sums.entry(v % classes).or_default() += 1.0 / (*v as f64 + 0.3);
    }
    sums
}

#[qjam::map]
fn sums(_: &(), x: &Dense<f64>) -> (f64, [f64; 3]) {
    let v = x.as_slice();
    (v.iter().sum(), [v[0], v[1], -v[2]])
}

#[qjam::map]
fn wide(width: &u64, _: &Nothing, ctx: &Ctx) -> Vec<f64> {
    (0..*width).map(|n| 1.0 / (n as f64 + f64::from(ctx.chunk()) + 0.3)).collect()
}

#[qjam::map]
fn echo(params: &[f32], _: &Nothing) -> Vec<f32> {
    params.to_vec()
}

#[qjam::map]
fn text(_: &(), _: &Nothing, ctx: &Ctx) -> Serde<Vec<u64>> {
    Serde(vec![u64::from(ctx.chunk()); 3])
}

pub(crate) fn nested_results_have_one_value(e: &Engine) {
    let x = DataSet::dense(rugged(2_600), 2).unwrap().partitions(13).unwrap();
    check(e, "a net", nested, &(0.5, Some(vec![0.25])), &x);
    check(e, "a net", nested, &(0.5, None), &x);
    check(e, "a serde value", text, &(), &DataSet::nothing(9).unwrap());
}

pub(crate) fn maps_are_merged_key_by_key_and_have_the_same_bytes(e: &Engine) {
    let x = DataSet::list((0..9_000).map(|n| n * n % 7_919)).unwrap().partitions(13).unwrap();
    check(e, "a hash map", by_remainder, &257, &x);
}

/// A NaN with something in it, the smallest numbers, and both zeros among ordinary ones.
fn odd_numbers(count: usize) -> Vec<f64> {
    let odd = [
        f64::from_bits(0x7ff8_0000_dead_beef),
        f64::from_bits(0xfff8_0000_0000_0001),
        f64::INFINITY,
        f64::NEG_INFINITY,
        -0.0,
        0.0,
        f64::MIN_POSITIVE / 8.0,
        f64::MAX,
    ];
    rugged(count).into_iter().enumerate().map(|(n, v)| *odd.get(n % 11).unwrap_or(&v)).collect()
}

pub(crate) fn numbers_that_are_none_are_carried_bit_by_bit(e: &Engine) {
    let values = odd_numbers(5_000);
    let x = DataSet::dense(values.clone(), 5).unwrap().partitions(37).unwrap();
    check(e, "all values", every_value, &(), &x);
    check(e, "sums of them", sums, &(), &x);
    for engine in e.shapes() {
        let m = e.connect(Master::builder(), engine);
        let there_and_back = m.run(every_value, &(), &x).unwrap();
        assert!(bits(&there_and_back.0) == bits(&values), "{engine}: something was changed or moved");
    }
    let zeros = DataSet::dense(vec![-0.0; 60], 3).unwrap().partitions(8).unwrap();
    check(e, "negative zeros", sums, &(), &zeros);
}

pub(crate) fn however_often_results_are_delivered_the_bits_are_the_same(e: &Engine) {
    let x = DataSet::dense(rugged(8_000), 4).unwrap().partitions(77).unwrap();
    let walk = Walk { seed: 0, round: 0, chunk_bytes: 0 };
    let expected = bits(&serial(nested, &(0.5, None), &x, walk));
    for engine in e.shapes() {
        for (blocks, deliver_after) in [(1, Duration::MAX), (3, Duration::ZERO), (1_000, Duration::ZERO)] {
            let builder = Master::builder().blocks_per_slot(blocks).deliver_after(deliver_after);
            let value = e.connect(builder, engine).run(nested, &(0.5, None), &x).unwrap();
            assert!(bits(&value) == expected, "{engine}, {blocks} blocks a slot: other bits");
        }
    }
}

pub(crate) fn results_and_parameters_of_any_size_come_home(e: &Engine) {
    // Short ones travel in frames, long ones through shared memory; the bound is somewhere between.
    let tasks = DataSet::nothing(9).unwrap();
    for width in [0, 1, 4_000, 4_090, 4_096, 5_000, 40_000] {
        check(e, "a wide result", wide, &width, &tasks);
    }
    for len in [0, 1, 8_000, 8_192, 9_000, 50_000] {
        let params: Vec<f32> = (0..len).map(|n| n as f32 / 3.0).collect();
        check(e, "long parameters", echo, &params, &tasks);
    }
}
