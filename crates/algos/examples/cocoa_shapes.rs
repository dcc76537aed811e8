//! Rounds, passes and time of the linear learners on problems of a dozen shapes, tuned and with σ' = K added.
//!
//! `cocoa_shapes [WORKERS [PARTITIONS [EXCHANGE [NAME [log]]]]]`: `EXCHANGE` is what an exchange costs in passes (0.05); `log` shows
//! every round of the tuned fit. Times in the
//! table are made of counts, so they are the same on a busy machine: so many exchanges and passes until the objective is within
//! 1e-3 and 1e-6 of the optimum, in passes. `added` is plain CoCoA+ with one pass a round, `best` is the same with the best
//! of six amounts of work. Numbers below 1 in the last columns mean that the tuned fit was slower.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program to measure with")]

use qjam::{Csc, Csr, DataSet, Dense, Master, Rng};
use qjam_algos::linear::{
    Columns, Combine, Local, Loss, Objective, Params, Partitioned, Penalty, Scaling, Separable, fit,
};
use std::time::Duration;

/// How many passes the costs that are told to the tuner take: only ratios matter.
const PASS: Duration = Duration::from_millis(10);
const WORKS: [f64; 6] = [0.1, 0.3, 1.0, 2.0, 4.0, 10.0];
/// Who has not come so far after so many passes does not come so far (told as an infinite ratio).
const PASSES: f64 = 300.0;
const WITHIN: [f64; 2] = [1e-3, 1e-6];

struct Problem {
    name: &'static str,
    rows: Vec<Vec<(u32, f64)>>,
    cols: usize,
    targets: Vec<f64>,
    kind: Kind,
    lambda: f64,
    dense: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Squares(f64),
    Logistic(f64),
    Hinge,
    SquaredHinge,
}

impl Problem {
    /// Targets of a few true coefficients, and noise.
    fn new(
        name: &'static str,
        cols: usize,
        kind: Kind,
        lambda: f64,
        dense: bool,
        rows: Vec<Vec<(u32, f64)>>,
    ) -> Problem {
        let mut random = Rng::keyed(17, cols as u32 as u64, 0);
        let truth: Vec<f64> =
            (0..cols).map(|_| if random.uniform() < 0.1 { random.normal() } else { 0.0 }).collect();
        let fitted = |row: &[(u32, f64)]| row.iter().map(|(j, v)| v * truth[*j as usize]).sum::<f64>();
        let plain: Vec<f64> = rows.iter().map(|row| fitted(row)).collect();
        let spread = (plain.iter().map(|v| v * v).sum::<f64>() / plain.len() as f64).sqrt().max(1e-9);
        let targets = plain.iter().map(|v| v / spread + 0.3 * random.normal());
        let targets = match kind {
            Kind::Squares(_) => targets.collect(),
            _ => targets.map(|t| if t > 0.0 { 1.0 } else { -1.0 }).collect(),
        };
        Problem { name, rows, cols, targets, kind, lambda, dense }
    }
}

/// Rows with `per_row` entries each, columns drawn by `place` from a uniform number.
fn sparse(rows: usize, per_row: usize, mut place: impl FnMut(f64) -> u32) -> Vec<Vec<(u32, f64)>> {
    let mut random = Rng::keyed(11, rows as u64, per_row as u32);
    (0..rows)
        .map(|_| {
            let mut columns: Vec<u32> = (0..per_row).map(|_| place(random.uniform())).collect();
            columns.sort_unstable();
            columns.dedup();
            let norm = (columns.len() as f64).sqrt();
            columns.into_iter().map(|j| (j, (random.normal().abs() + 0.1) / norm)).collect()
        })
        .collect()
}

fn dense(
    rows: usize,
    cols: usize,
    mut value: impl FnMut(&mut Rng, usize, f64) -> f64,
) -> Vec<Vec<(u32, f64)>> {
    let mut random = Rng::keyed(12, rows as u64, cols as u32);
    (0..rows)
        .map(|_| {
            let mut last = 0.0;
            (0..cols)
                .map(|j| {
                    last = value(&mut random, j, last);
                    (j as u32, last)
                })
                .collect()
        })
        .collect()
}

fn problems() -> Vec<Problem> {
    let even = |cols: usize| move |u: f64| (u * cols as f64) as u32;
    let steep = |cols: usize| move |u: f64| ((cols as f64 + 1.0).powf(u * u) - 1.0) as u32;
    let heavy: Vec<f64> = {
        let mut random = Rng::keyed(5, 0, 0);
        (0..4000).map(|_| (1.5 * random.normal()).exp()).collect()
    };
    let mut rows = sparse(6_000, 40, even(4000));
    rows.iter_mut().flatten().for_each(|(j, v)| *v *= heavy[*j as usize]);
    let ar = |random: &mut Rng, _: usize, last: f64| 0.95 * last + 0.31 * random.normal();
    let plain = |random: &mut Rng, _: usize, _: f64| random.normal();
    let twice = |random: &mut Rng, j: usize, last: f64| if j % 2 == 1 { last } else { random.normal() };
    use Kind::{Hinge, Logistic, SquaredHinge, Squares};
    vec![
        Problem::new("tall lasso", 400, Squares(0.0), 3.0, false, sparse(30_000, 30, even(400))),
        Problem::new("wide lasso", 30_000, Squares(0.0), 0.02, false, sparse(1_500, 80, even(30_000))),
        Problem::new("steep ridge", 30_000, Squares(1.0), 0.1, false, sparse(8_000, 60, steep(30_000))),
        Problem::new("dense correlated ridge", 400, Squares(1.0), 1.0, true, dense(2_000, 400, ar)),
        Problem::new("dense correlated lasso", 400, Squares(0.0), 5.0, true, dense(2_000, 400, ar)),
        Problem::new("doubled columns, elastic net", 400, Squares(0.5), 2.0, true, dense(1_500, 400, twice)),
        Problem::new("few columns ridge", 12, Squares(1.0), 1.0, true, dense(40_000, 12, plain)),
        Problem::new("heavy-tailed lasso", 4_000, Squares(0.0), 0.5, false, rows),
        Problem::new("logistic L2", 4_000, Logistic(1.0), 0.5, false, sparse(8_000, 40, steep(4_000))),
        Problem::new("logistic L1, wide", 10_000, Logistic(0.0), 0.3, false, sparse(2_000, 60, even(10_000))),
        Problem::new("hinge", 2_000, Hinge, 0.5, false, sparse(8_000, 40, steep(2_000))),
        Problem::new("squared hinge, dense", 60, SquaredHinge, 0.1, true, dense(4_000, 60, plain)),
    ]
}

/// What it took to come within each distance: rounds, and passes.
#[derive(Clone, Copy, Debug, Default)]
struct Took([Option<(f64, f64)>; 2]);

impl Took {
    fn time(&self, i: usize, exchange: f64) -> f64 {
        self.0[i].map_or(f64::INFINITY, |(rounds, passes)| rounds * exchange + passes)
    }
}

fn compare<C: Columns>(
    m: &Master,
    data: &Partitioned<C>,
    objective: &Objective,
    problem: &Problem,
    (exchange, is_logged): (f64, bool),
) {
    let rounds = |n| Params::default().with_rounds_max(n).unwrap();
    let best = fit(m, data, objective, &rounds(20_000).with_tolerance(1e-10).unwrap(), |_| {}).unwrap();
    let targets = WITHIN.map(|within| best.objective + within * best.objective.abs());
    let run = |params: Params, is_logged: bool| {
        let (mut took, mut count, mut passes) = (Took::default(), 0.0, 0.0);
        let params = params.with_tolerance(0.0).unwrap().with_target(targets[1]);
        let found = fit(m, data, objective, &params, |seen| {
            (count, passes) = (count + 1.0, passes + seen.passes);
            if is_logged {
                println!("{passes:8.2} passes, {:.6e}: {}", seen.objective - best.objective, seen.choice);
            }
            for (i, target) in targets.iter().enumerate() {
                if seen.objective <= *target && took.0[i].is_none() {
                    took.0[i] = Some((count, passes));
                }
            }
        });
        (took, found.unwrap())
    };
    let (tuned, found) = run(rounds(20_000).with_costs(PASS.mul_f64(exchange), PASS), is_logged);
    let sigma = data.partitions() as f64;
    let added = WORKS.map(|work| {
        let params = rounds((PASSES / work) as usize).with_combine(Combine::Added);
        run(params.with_local(Local::Fixed { work, sigma }).unwrap(), false).0
    });
    print!("{:30} {:9.2e}", problem.name, best.gap() / best.objective.abs());
    for i in 0..2 {
        let (at, passes) = tuned.0[i].unwrap_or((f64::INFINITY, f64::INFINITY));
        let time = tuned.time(i, exchange);
        let fastest = (0..WORKS.len())
            .min_by(|a, b| added[*a].time(i, exchange).total_cmp(&added[*b].time(i, exchange)));
        let fastest = fastest.unwrap();
        print!(
            " | {at:5.0} {passes:7.1} {time:8.1} {:7.2} {:7.2} ({:.1})",
            added[2].time(i, exchange) / time,
            added[fastest].time(i, exchange) / time,
            WORKS[fastest]
        );
    }
    let last = found.choices.last().unwrap();
    println!(" | {:.2} {:.1} {:?}", last.work, last.sigma, best.outcome);
}

fn measure(m: &Master, problem: &Problem, partitions: usize, exchange: (f64, bool)) {
    let rows = problem.rows.len();
    let (mut starts, mut columns, mut values) = (vec![0_u64], vec![], vec![]);
    for row in &problem.rows {
        columns.extend(row.iter().map(|(j, _)| *j));
        values.extend(row.iter().map(|(_, v)| *v));
        starts.push(columns.len() as u64);
    }
    let x = DataSet::csr(&Csr::from_vecs(starts, columns, values, problem.cols, None).unwrap()).unwrap();
    let objective = |loss, terms| Objective { loss, terms, centred: false, free: false };
    let penalty =
        |eta| Separable::from(Penalty::elastic_net(problem.lambda, eta, Scaling::HalfSum, rows).unwrap());
    let objective = match problem.kind {
        Kind::Squares(eta) => objective(Loss::Squares { targets: problem.targets.clone() }, penalty(eta)),
        Kind::Logistic(eta) => objective(Loss::Logistic { labels: problem.targets.clone() }, penalty(eta)),
        Kind::Hinge => objective(Loss::norm(problem.cols), Separable::hinge(problem.lambda)),
        Kind::SquaredHinge => objective(Loss::norm(problem.cols), Separable::squared_hinge(problem.lambda)),
    };
    if matches!(problem.kind, Kind::Hinge | Kind::SquaredHinge) {
        let data = Partitioned::<Csc<f64>>::examples_of(&x, &problem.targets, 0.0, partitions).unwrap();
        compare(m, &data, &objective, problem, exchange);
    } else if problem.dense {
        let values = problem.rows.iter().flatten().map(|(_, v)| *v).collect();
        let rows = DataSet::dense(values, problem.cols).unwrap();
        let data = Partitioned::<Dense<f64>>::dense_columns_of(&rows, partitions).unwrap();
        compare(m, &data, &objective, problem, exchange);
    } else {
        let data = Partitioned::<Csc<f64>>::columns_of(&x, partitions).unwrap();
        compare(m, &data, &objective, problem, exchange);
    }
}

#[qjam::main]
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let text = |i: usize, otherwise: &str| args.get(i).cloned().unwrap_or_else(|| otherwise.into());
    let (partitions, exchange) = (text(1, "2").parse().unwrap(), text(2, "0.05").parse().unwrap());
    let m = Master::builder().no_run_file().connect(&text(0, "local:2")).unwrap();
    println!(
        "{:30} {:>9} | 1e-3: rounds, passes, time, added, best (at) | 1e-6: the same | work and σ' at the end",
        "problem", "gap"
    );
    for problem in problems().iter().filter(|p| p.name.contains(&text(3, ""))) {
        measure(&m, problem, partitions, (exchange, !text(4, "").is_empty()));
    }
}
