//! Workers combine what they have before they send it.

use crate::Engine;
use crate::support::{bits, rugged};
use qjam::journal::What;
use qjam::{DataSet, Dense, Job, Master, Reduce, Wire};
use std::time::Duration;

const WIDTH: usize = 10_000;

#[qjam::map]
fn wide(_: &(), x: &Dense<f64>) -> Vec<f64> {
    let v = x.as_slice()[0];
    (0..WIDTH).map(|n| v + n as f64).collect()
}

/// Partial results that came in, in units of one.
fn partials(e: &Engine, workers: usize, chunks: usize) -> f64 {
    let x = DataSet::dense(rugged(chunks), 1).unwrap().chunk_records(1).unwrap();
    let builder = e
        .quiet()
        .blocks_per_slot(64)
        // What is delivered early, lest a death cost too much, is not what is counted here; nor what is taken from one
        // that is slow because something else keeps this machine busy.
        .deliver_after(Duration::from_secs(600))
        .balance(false);
    let m = e.connect(builder, &e.of(workers));
    m.run(wide, &(), &x).unwrap();
    m.last_round().unwrap().bytes_in as f64 / (WIDTH * 8) as f64
}

pub(crate) fn each_worker_sends_about_one_partial_result(e: &Engine) {
    let came_in = partials(e, 4, 256);
    assert!(came_in <= 1.2 * 4.0, "{came_in:.2} partial results of 4 workers came in");
    for workers in [3, 5, 6, 7] {
        // As many chunks as make 64 blocks for each, and a number that nothing divides.
        let (even, odd) = (partials(e, workers, 64 * workers), partials(e, workers, 251));
        println!("{workers} workers: {even:.2} partial results of {} blocks, {odd:.2} of 251", 64 * workers);
        assert!(even <= 1.2 * workers as f64, "{even:.2} partial results of {workers} workers came in");
        // A run of blocks that begins and ends anywhere is at most two subtrees for each level of the tree.
        assert!(odd <= 16.0 * workers as f64, "{odd:.2} partial results of {workers} workers came in");
    }
}

/// A count that takes its time to be merged.
#[derive(Wire)]
struct Slow(u64);

impl Reduce for Slow {
    fn merge(&mut self, right: Self) {
        std::thread::sleep(Duration::from_millis(10));
        self.0 += right.0;
    }
}

#[qjam::map]
fn one(_: &(), _: &Dense<f64>) -> Slow {
    Slow(1)
}

/// Deliveries are asked for while slots are merging, so that there may be nothing to deliver.
pub(crate) fn every_chunk_is_counted_once_in_the_report(e: &Engine) {
    const CHUNKS: usize = 16;
    let x = DataSet::dense(rugged(CHUNKS), 1).unwrap().chunk_records(1).unwrap();
    for shape in e.shapes() {
        // A block that two workers run is counted twice.
        let m = e.connect(e.quiet().deliver_after(Duration::ZERO).balance(false), shape);
        for _ in 0..3 {
            assert_eq!(m.run(one, &(), &x).unwrap().0, CHUNKS as u64);
            let report = m.last_round().unwrap();
            let counted = report.cache_hits + report.cache_misses;
            assert_eq!(counted, CHUNKS as u64, "{shape}: {report:?}");
        }
    }
}

/// Adds every value to one of many sums.
fn spread(x: &Dense<f64>, sums: &mut Vec<f64>) {
    sums.resize(WIDTH, 0.0);
    x.as_slice().iter().enumerate().for_each(|(n, v)| sums[n * 7 % WIDTH] += v);
}

#[qjam::fold]
fn wide_sums(_: &(), x: &Dense<f64>, sums: &mut Vec<f64>) {
    spread(x, sums);
}

#[qjam::fold(accumulator_bytes = 8 * WIDTH)]
fn weighed_sums(_: &(), x: &Dense<f64>, sums: &mut Vec<f64>) {
    spread(x, sums);
}

/// The value of a fold, and its blocks.
fn folded<F, M>(m: &Master, f: F, x: &DataSet<Dense<f64>>) -> (Vec<u8>, u32)
where
    F: Job<M, Params = (), Chunk = Dense<f64>, Output = Vec<f64>, State = ()>,
{
    let value = bits(&m.run(f, &(), x).unwrap());
    let started = |what| if let What::RoundStarted { blocks, .. } = what { Some(blocks) } else { None };
    (value, m.journal().into_iter().rev().find_map(|entry| started(entry.what)).unwrap())
}

pub(crate) fn a_fold_that_says_how_wide_its_accumulator_is_has_fewer_and_the_same_bits_everywhere(
    e: &Engine,
) {
    // An accumulator is ten times as long as a chunk, so 64 chunks share one.
    let x = DataSet::dense(rugged(128_000), 1).unwrap().chunk_records(1000).unwrap();
    let mut first = None;
    for shape in e.shapes() {
        let m = e.connect(e.quiet(), shape);
        let found = [folded(&m, wide_sums, &x), folded(&m, weighed_sums, &x)];
        assert_eq!([found[0].1, found[1].1], [128, 2], "{shape}");
        assert!(*first.get_or_insert_with(|| found.clone()) == found, "{shape}: other bits");
    }
}

pub(crate) fn results_as_long_as_their_data_are_told_and_another_cut_mends_it(e: &Engine) {
    // A chunk has 8 000 bytes and a result 80 000.
    let x = DataSet::dense(rugged(128_000), 1).unwrap().chunk_records(1000).unwrap();
    for shape in e.shapes() {
        let m = e.connect(e.quiet(), shape);
        m.run(wide, &(), &x).unwrap();
        folded(&m, wide_sums, &x);
        folded(&m, weighed_sums, &x);
        let told = m.long_results();
        let [of_map, of_fold] = &told[..] else { panic!("{shape}: {told:?}") };
        assert!(of_map.function.ends_with("wide") && of_fold.function.ends_with("wide_sums"), "{told:?}");
        for long in &told {
            assert_eq!((long.results, long.data_bytes), (128, 1_024_000), "{shape}");
            assert!((80_000..81_000).contains(&long.result_bytes), "{shape}: {long}");
        }
        let advice = format!("16 chunks would do: `data.for_results_of({})`", of_map.result_bytes);
        assert!(of_map.to_string().contains(&advice), "{of_map}");
        let advice = format!("#[qjam::fold(accumulator_bytes = {})]", of_fold.result_bytes);
        assert!(of_fold.to_string().contains(&advice), "{of_fold}");
        let longer = x.for_results_of(of_map.result_bytes).unwrap();
        assert_eq!(longer.len(), 16);
        m.run(wide, &(), &longer).unwrap();
        assert_eq!(m.long_results(), told, "{shape}: nothing is said of that cut");
    }
}
