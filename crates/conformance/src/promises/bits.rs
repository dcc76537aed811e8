//! Every kind of data set has one answer, that of a serial walk, whatever the workers.

use crate::Engine;
use crate::support::{Walk, bits, check, check_fold, rugged, serial};
use qjam::chunk::Element;
use qjam::{Ctx, DataSet, Dense, Joined, Lines, List, Master, Nothing, Records};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[qjam::map]
fn column_sums(scale: &[f64], x: &Dense<f64>) -> Vec<f64> {
    let mut sums = vec![0.0; x.cols()];
    for row in x.rows_iter() {
        for (sum, (v, s)) in sums.iter_mut().zip(row.iter().zip(scale)) {
            *sum += v * s;
        }
    }
    sums
}

/// A sum that depends on the order within the chunk, and the chunk's ends, for any element type.
#[qjam::map]
fn weighed<T: Element + AsF64>(_: &(), x: &Dense<T>) -> (f64, u64, Option<[f64; 2]>) {
    let values = x.as_slice();
    let sum = values.iter().enumerate().map(|(n, v)| v.as_f64() / (n as f64 + 0.7)).sum();
    let ends = [values[0].as_f64() * 0.1, values[values.len() - 1].as_f64() * 0.3];
    (sum, x.rows() as u64, Some(ends))
}
qjam::register!(weighed::<f64>, weighed::<f32>, weighed::<i32>, weighed::<i64>, weighed::<u8>);

trait AsF64 {
    fn as_f64(&self) -> f64;
}

macro_rules! as_f64 {
    ($($kind:ident)*) => {$(
        impl AsF64 for $kind {
            fn as_f64(&self) -> f64 {
                *self as f64
            }
        }
    )*};
}
as_f64!(f64 f32 i32 i64 u8);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Visit {
    who: String,
    pages: Vec<u16>,
    seconds: Option<f64>,
}

fn visit(n: usize) -> Visit {
    Visit {
        who: format!("user {}", n % 37),
        pages: (0..n % 5).map(|p| (p * n) as u16).collect(),
        seconds: (!n.is_multiple_of(3)).then(|| 1e6 / (n as f64 + 0.1)),
    }
}

#[qjam::map]
fn time_by_user(least: &f64, visits: &List<Visit>) -> BTreeMap<String, (f64, u64)> {
    let mut times = BTreeMap::<String, (f64, u64)>::new();
    for visit in visits {
        let entry = times.entry(visit.who.clone()).or_default();
        entry.0 += visit.seconds.filter(|s| s > least).unwrap_or(0.01);
        entry.1 += visit.pages.len() as u64;
    }
    times
}

struct Visits(usize);

impl Records for Visits {
    type Record = Visit;
    fn chunks(&self) -> usize {
        self.0
    }
    fn slice(&self, i: usize) -> std::io::Result<Visit> {
        Ok(visit(i))
    }
}

#[qjam::map]
fn words(prefix: &str, lines: &Lines) -> (u64, f64) {
    let words = lines.iter().flat_map(str::split_whitespace);
    words.filter(|w| w.starts_with(prefix)).fold((0, 0.0), |(n, s), w| (n + 1, s + 1.0 / w.len() as f64))
}

#[qjam::map]
fn noise(scale: &f64, _: &Nothing, ctx: &Ctx) -> Vec<f64> {
    let mut rng = ctx.rng();
    (0..20).map(|_| scale * rng.normal() + rng.uniform()).collect()
}

/// How many chunks there are, and which records this one has.
#[qjam::map]
fn numbered(_: &(), words: &List<String>, ctx: &Ctx) -> Joined<(u32, u64, u64)> {
    let records = ctx.records();
    assert_eq!(records.end - records.start, words.len() as u64, "of chunk {}", ctx.chunk());
    Joined(vec![(ctx.chunks(), records.start, records.end)])
}

#[qjam::map]
fn alone(_: &(), _: &Nothing, ctx: &Ctx) -> Joined<(u32, u64)> {
    Joined(vec![(ctx.chunks(), ctx.records().start)])
}

/// Sums of each residue class: the accumulator is as wide as the parameters.
#[qjam::fold]
fn binned(offsets: &[f64], x: &Dense<f64>, acc: &mut Vec<f64>, ctx: &Ctx) {
    acc.resize(offsets.len(), 0.0);
    for (n, v) in x.as_slice().iter().enumerate() {
        let bin = (n * 31 + ctx.chunk() as usize) % acc.len();
        acc[bin] += v - offsets[bin];
    }
}

pub(crate) fn a_matrix_of_any_element_has_one_answer(e: &Engine) {
    let values = rugged(70_000);
    let scale: Vec<f64> = (0..7).map(|n| 1.0 / (n as f64 + 3.0)).collect();
    check(e, "f64", column_sums, &scale[..], &DataSet::dense(values.clone(), 7).unwrap());
    check(e, "f64", weighed::<f64>, &(), &DataSet::dense(values.clone(), 1).unwrap());
    let halved = values.iter().map(|v| *v as f32).collect();
    check(e, "f32", weighed::<f32>, &(), &DataSet::<Dense<f32>>::dense(halved, 10).unwrap());
    let whole = values.iter().map(|v| *v as i32).collect();
    check(e, "i32", weighed::<i32>, &(), &DataSet::<Dense<i32>>::dense(whole, 4).unwrap());
    let long = values.iter().map(|v| (v * 1e9) as i64).collect();
    check(e, "i64", weighed::<i64>, &(), &DataSet::<Dense<i64>>::dense(long, 2).unwrap());
    let bytes = (0..300_000).map(|n| (n * 7 % 251) as u8).collect();
    check(e, "u8", weighed::<u8>, &(), &DataSet::<Dense<u8>>::dense(bytes, 3).unwrap());
}

pub(crate) fn records_lines_and_custom_data_have_one_answer(e: &Engine) {
    let visits = DataSet::list((0..20_000).map(visit)).unwrap();
    assert!(visits.len() > 3, "several chunks");
    check(e, "a list", time_by_user, &2.5, &visits);
    let custom = DataSet::custom(Visits(5_000)).unwrap();
    check(e, "custom records", time_by_user, &2.5, &custom.partitions(11).unwrap());
    let text: String = (0..30_000).map(|n| format!("line {n} has the word w{}\r\n", n % 77)).collect();
    check(e, "lines", words, "w", &DataSet::text(text).unwrap());
}

pub(crate) fn the_cut_that_was_asked_for_is_the_cut_that_is_run(e: &Engine) {
    let x = DataSet::dense(rugged(9_000), 3).unwrap();
    for k in [1, 2, 5, 64, 1000] {
        check(e, "partitions", column_sums, &[0.3, 0.2, 0.1], &x.partitions(k).unwrap());
    }
    check(e, "chunks of 7 rows", column_sums, &[0.3, 0.2, 0.1], &x.chunk_records(7).unwrap());
}

pub(crate) fn a_fold_has_one_answer_however_wide_its_accumulator_is(e: &Engine) {
    let x = DataSet::dense(rugged(256 * 256), 1).unwrap().chunk_records(256).unwrap();
    let chunk_bytes = 256 * 8;
    for width in [1, 100, 1_000, 20_000] {
        check_fold(e, "a fold", binned, &vec![0.125; width], &x, chunk_bytes);
    }
}

pub(crate) fn random_numbers_belong_to_seed_round_and_chunk(e: &Engine) {
    let tasks = DataSet::nothing(50).unwrap();
    check(e, "noise", noise, &3.0, &tasks);
    let walk = |seed, round| Walk { seed, round, chunk_bytes: 0 };
    let drawn = |seed, round| bits(&serial(noise, &3.0, &tasks, walk(seed, round)));
    assert!(drawn(17, 0) != drawn(17, 1) && drawn(17, 0) != drawn(18, 0));
}

pub(crate) fn a_function_knows_which_records_its_chunk_has(e: &Engine) {
    // By the standard rule, which packs as many as fit: hardly two chunks have equally many.
    let words = DataSet::list((0..40_000_usize).map(|n| "x".repeat(n * n % 31))).unwrap();
    assert!(words.len() > 4, "several chunks");
    check(e, "uneven chunks", numbered, &(), &words);
    check(e, "one shorter chunk", numbered, &(), &words.chunk_records(7_000).unwrap());
    check(e, "some chunks", numbered, &(), &words.selected(&[3, 1, 2]).unwrap());
    check(e, "no data", alone, &(), &DataSet::nothing(11).unwrap());
    let all = e.master(2).run(numbered, &(), &words).unwrap();
    let first: Vec<u64> = all.iter().map(|(_, first, _)| *first).collect();
    assert!(first.is_sorted_by(|a, b| a < b) && all.iter().all(|(chunks, ..)| *chunks == words.len() as u32));
}

pub(crate) fn a_run_without_data_runs_once_per_slot(e: &Engine) {
    #[qjam::map]
    fn one(value: &u64, _: &Nothing) -> u64 {
        *value
    }
    for engine in e.shapes() {
        let m = e.connect(Master::builder(), engine);
        let slots: u64 = m.workers().iter().map(|w| u64::from(w.slots)).sum();
        assert_eq!(m.run_each(one, &3).unwrap(), 3 * slots, "{engine}");
    }
}
