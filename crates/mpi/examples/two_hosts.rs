//! Rounds on the ranks of several hosts: what each has to be told, and that the value is that of threads.

#![allow(clippy::print_stdout, reason = "it has something to say")]

use qjam::{Ctx, DataSet, Dense, Master, State, Wire};
use qjam_mpi as _;
use std::collections::BTreeSet;

#[qjam::map]
fn wave(theta: &[f64], x: &Dense<f64>) -> Vec<f64> {
    theta.iter().map(|t| x.as_slice().iter().map(|v| (t * v).sin()).sum()).collect()
}

#[derive(Clone, Wire)]
struct Position(f64);

impl State for Position {
    type Chunk = Dense<f64>;
    fn init(x: &Dense<f64>, _: &Ctx) -> Self {
        Position(x.as_slice()[0])
    }
}

#[qjam::map]
fn drift(by: &f64, x: &Dense<f64>, position: &mut Position) -> f64 {
    position.0 = position.0 * by + x.as_slice()[1];
    position.0
}

fn story(workers: &str) -> qjam::Result<(Vec<u64>, usize, u64)> {
    let m = Master::connect(workers)?;
    let x = DataSet::dense((0..300_000).map(|n| f64::from(n).sqrt()).collect(), 30)?.partitions(64)?;
    let theta: Vec<f64> = (0..5000).map(|n| 1.0 / f64::from(n + 1)).collect();
    let first = m.run(wave, &theta[..20], &x)?;
    let sent = m.last_round().map_or(0, |r| r.chunks_sent);
    let mut held = m.hold::<Position>(&x)?;
    let mut bits: Vec<u64> = first.iter().map(|v| v.to_bits()).collect();
    for n in 0..5 {
        bits.push(held.run(drift, &(0.9 + 0.01 * f64::from(n)))?.to_bits());
    }
    bits.extend(held.collect()?.iter().map(|s| s.0.to_bits()));
    let hosts: BTreeSet<String> =
        m.workers().into_iter().map(|w| w.name.split_once('@').map_or("", |(_, h)| h).to_owned()).collect();
    Ok((bits, hosts.len(), sent))
}

#[qjam::main]
fn main() -> qjam::Result<()> {
    let (bits, hosts, sent) = story("mpi")?;
    let (wanted, ..) = story("local:2")?;
    assert!(bits == wanted, "other bits than on threads");
    println!("two hosts: {hosts} names, {sent} chunks sent, {} values with the bits of threads", bits.len());
    Ok(())
}
