//! At the limits of a host: few files, little memory, many chunks. An error that tells, or the right value; never a hang.

use crate::Engine;
use crate::program::{Program, Programs, say};
use crate::support::rugged;
use qjam::job::Cause;
use qjam::{Ctx, DataSet, Dense, Error, Master, Nothing};
use rustix::process::{Resource, Rlimit, setrlimit};

#[qjam::map]
fn wide(params: &[f64], _: &Nothing) -> Vec<f64> {
    params.to_vec()
}

#[qjam::map]
fn weigh(scale: &f64, x: &Dense<f64>, ctx: &Ctx) -> (f64, u64, u64) {
    (x.as_slice()[0] * scale, u64::from(ctx.chunk()), 1)
}

pub(crate) const PROGRAMS: Programs = &[("few files", |workers| {
    for files in FILES {
        let limit = Rlimit { current: Some(files), maximum: Some(4096) };
        setrlimit(Resource::Nofile, limit).unwrap();
        say(format!("{files} {}", few_files(workers)));
    }
})];

/// From too few to start anything to more than enough, with all that is just not enough between.
const FILES: [u64; 9] = [3, 7, 12, 18, 21, 23, 25, 30, 80];

/// Connects and runs rounds that need more and more files, until something cannot be had.
fn few_files(workers: &str) -> String {
    let told = |e: Error| format!("error {}", e.to_string().lines().next().unwrap_or_default());
    let m = match Master::builder().on_log(|_| {}).connect(workers) {
        Ok(m) => m,
        Err(e) => return told(e),
    };
    for n in 0..10 {
        let tasks = match DataSet::nothing(6 + n) {
            Ok(tasks) => tasks,
            Err(e) => return told(e.into()),
        };
        let rounds: Vec<_> = (0..3).map(|_| m.submit(wide, &vec![1.0; 10_000], &tasks)).collect();
        for round in rounds {
            match round.and_then(|r| r.wait()) {
                Ok(value) => assert_eq!(value[0], (6 + n) as f64),
                Err(e) => return told(e),
            }
        }
    }
    "all".into()
}

pub(crate) fn with_few_files_there_is_an_error_or_the_value(e: &Engine) {
    let mut program = Program::start("few files", &e.of(3));
    let (said, status) = program.finish();
    assert!(status.success(), "{status}: {said:?}");
    let outcomes: Vec<&str> = said.iter().map(|line| line.split_once(' ').unwrap().1).collect();
    println!("{outcomes:#?}");
    assert_eq!(outcomes.len(), FILES.len(), "{outcomes:?}");
    assert!(outcomes[0].starts_with("error"), "three files are too few");
    assert_eq!(outcomes[FILES.len() - 1], "all", "eighty are enough");
    program.leaves_nothing("few files");
}

pub(crate) fn a_memory_limit_that_allows_nothing_is_told(e: &Engine) {
    let connected = e.quiet().memory_limit(4096).connect(&e.of(1));
    let error = match connected {
        Err(e) => e,
        Ok(m) => m.run(wide, &[1.0], &DataSet::nothing(2).unwrap()).unwrap_err(),
    };
    let deaths = match &error {
        Error::Start { death, .. } => vec![death],
        Error::NoWorkers { deaths } => deaths.iter().map(|(_, d)| d).collect(),
        _ => panic!("{error}"),
    };
    assert!(deaths.iter().all(|d| !matches!(d.cause, Cause::Silent(_))), "{error}");
}

pub(crate) fn a_hundred_thousand_chunks_have_one_answer(e: &Engine) {
    let n = 100_000;
    let values = rugged(n);
    let expected = (n * (n - 1) / 2) as u64;
    let x = DataSet::dense(values, 1).unwrap().chunk_records(1).unwrap();
    let m = e.master(2);
    for _ in 0..2 {
        let (_, sum, count) = m.run(weigh, &0.5, &x).unwrap();
        assert_eq!((sum, count), (expected, n as u64));
    }
}
