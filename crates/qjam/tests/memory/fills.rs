//! Ways to fill a worker's memory: each ends in an error with the numbers, and the master goes on.

use crate::{MIB, Numbers, sum};
use qjam::job::Cause;
use qjam::{Ctx, DataSet, Dense, Error, Master, Nothing};

const LIMIT: u64 = 24 * MIB;
const ENGINES: [&str; 2] = ["proc:2", "proc:1*2"];

/// Parameters that are copied into the worker's own memory.
#[derive(qjam::Wire)]
struct Theta {
    values: Vec<f64>,
}

#[qjam::map]
fn copied(theta: &Theta, _: &Nothing) -> f64 {
    theta.values[0]
}

/// Parameters that stay where they are.
#[qjam::map]
fn seen(theta: &[f64], _: &Nothing) -> f64 {
    theta.iter().sum()
}

/// A result of so many bytes, which nobody needs memory for but where it passes.
#[qjam::map]
fn long_result(bytes: &u64, _: &Nothing) -> Vec<u8> {
    vec![1; *bytes as usize]
}

#[qjam::fold]
fn long_accumulator(bytes: &u64, _: &Nothing, acc: &mut Vec<u8>) {
    acc.resize(*bytes as usize, 1);
}

/// Small pieces until there is no more, as a program does that keeps too much.
#[qjam::map]
fn pieces(_: &(), _: &Nothing, ctx: &Ctx) -> u64 {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    loop {
        kept.push(vec![ctx.chunk() as u8; 1000]);
        if kept.len() > 1 << 22 {
            return kept.len() as u64;
        }
    }
}

fn is_well(m: &Master, after: &str) {
    let run = m.run(seen, &[1.0, 2.0], &DataSet::nothing(8).unwrap()).map_err(|e| e.to_string());
    assert_eq!(run, Ok(24.0), "after {after}");
}

/// The error must be about memory, with the limit in it.
fn check(what: &str, run: impl Fn(&Master) -> Result<(), Error>) {
    for engine in ENGINES {
        let m = Master::builder().memory_limit(LIMIT).on_log(|_| {}).connect(engine).unwrap();
        let error = run(&m).expect_err(what);
        let deaths = match &error {
            Error::Poison { deaths, .. } | Error::NoWorkers { deaths } => deaths,
            other => panic!("{what} on {engine}: {other}"),
        };
        for (_, death) in deaths {
            // The C library may be the first to find no memory. It does not say how much it asked for.
            let is_told = |asked| asked > 0 || death.last_lines.iter().any(|line| line.contains("glibc"));
            let is_it = matches!(death.cause, Cause::OutOfMemory { limit_bytes: LIMIT, asked_bytes } if is_told(asked_bytes));
            assert!(is_it, "{what} on {engine}: {error}");
        }
        assert!(!deaths.is_empty() && error.to_string().contains("25165824"), "{what} on {engine}: {error}");
        is_well(&m, what);
    }
}

#[test]
fn long_parameters() {
    check("parameters", |m| {
        m.run(copied, &Theta { values: vec![1.0; 4 << 20] }, &DataSet::nothing(4).unwrap()).map(drop)
    });
    let m = Master::builder().memory_limit(LIMIT).connect("proc:2").unwrap();
    let theta = vec![1.0; 8 << 20]; // 64 MiB that are the master's
    assert_eq!(m.run(seen, &theta[..], &DataSet::nothing(2).unwrap()).unwrap(), f64::from(16 << 20));
}

#[test]
fn long_results() {
    check("a result", |m| m.run(long_result, &(2 * LIMIT), &DataSet::nothing(4).unwrap()).map(drop));
    // It fits, but not together with its way out.
    check("a result and its way", |m| {
        m.run(long_result, &(LIMIT * 5 / 8), &DataSet::nothing(1).unwrap()).map(drop)
    });
    let m = Master::builder().memory_limit(LIMIT).connect("proc:2").unwrap();
    for round in 0..20 {
        let bytes = LIMIT / 5 + round;
        let result = m.run(long_result, &bytes, &DataSet::nothing(2).unwrap()).unwrap();
        assert_eq!(result.len() as u64, bytes, "memory of results that were taken is there again");
    }
}

#[test]
fn long_accumulators() {
    check("an accumulator", |m| {
        m.run(long_accumulator, &(2 * LIMIT), &DataSet::nothing(4).unwrap()).map(drop)
    });
}

#[test]
fn many_small_pieces() {
    check("small pieces", |m| m.run(pieces, &(), &DataSet::nothing(2).unwrap()).map(drop));
}

#[test]
fn chunks_that_only_just_do_not_fit_together() {
    // One of 12 MiB fits; two at once do not, and beside what a process needs itself not even nearly.
    let numbers = Numbers::new(48 * MIB);
    let data = numbers.data().partitions(4).unwrap();
    let m = Master::builder().memory_limit(LIMIT).on_log(|_| {}).connect("proc:1*2").unwrap();
    let expected: f64 = (0..data.len()).map(|n| data.chunk(n).unwrap().as_slice().iter().sum::<f64>()).sum();
    match m.run(sum, &(), &data) {
        Ok(value) => assert_eq!(value, expected),
        Err(Error::Poison { deaths, .. }) => {
            assert!(deaths.iter().all(|(_, d)| matches!(d.cause, Cause::OutOfMemory { .. })), "{deaths:?}");
        }
        Err(other) => panic!("{other}"),
    }
    is_well(&m, "chunks that do not fit together");
}

#[test]
fn a_limit_below_what_the_program_needs_is_told_at_once() {
    for bytes in [4096, 65_536, MIB / 2] {
        let error = match Master::builder().memory_limit(bytes).on_log(|_| {}).connect("proc:1") {
            Err(error) => error,
            Ok(m) => m.run(seen, &[1.0], &DataSet::nothing(1).unwrap()).unwrap_err(),
        };
        println!("{bytes}: {error}");
        let text = error.to_string();
        assert!(matches!(error, Error::Start { .. } | Error::NoWorkers { .. }), "{bytes}: {text}");
        assert!(text.contains("out of memory") && text.contains(&bytes.to_string()), "{bytes}: {text}");
    }
}

#[test]
fn a_panic_near_the_limit_is_an_error_and_no_hang() {
    #[qjam::map]
    fn full_then_panic(_: &(), x: &Dense<f64>) -> f64 {
        let kept = std::hint::black_box(vec![1_u8; 12 << 20]);
        panic!("with {} bytes in hand and {} rows", kept.len(), x.rows());
    }
    let m = Master::builder().memory_limit(LIMIT).on_log(|_| {}).connect("proc:1*2").unwrap();
    let data = DataSet::dense(vec![0.0; 64], 8).unwrap().partitions(4).unwrap();
    let error = m.run(full_then_panic, &(), &data).unwrap_err();
    assert!(matches!(error, Error::Fault(_) | Error::Poison { .. }), "{error}");
    is_well(&m, "a panic");
}
