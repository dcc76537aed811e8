//! The smallest program for ranks: `mpirun -n 4 hello_ranks`.
//!
//! It is the same program that runs on threads or processes; `hello_ranks proc:4` shows that.

#![allow(clippy::print_stdout, reason = "it has something to say")]

use qjam::{DataSet, Dense, Master};
use qjam_mpi as _;

#[qjam::map]
fn squares(scale: &f64, x: &Dense<f64>) -> f64 {
    x.as_slice().iter().map(|v| scale * v * v).sum()
}

#[qjam::main]
fn main() -> qjam::Result<()> {
    let workers = std::env::args().nth(1).unwrap_or_else(|| "mpi".into());
    let m = Master::connect(&workers)?;
    let x = DataSet::dense((0..100_000).map(f64::from).collect(), 10)?;
    println!("{:?} on {} workers", m.run(squares, &2.0, &x)?, m.workers().len());
    Ok(())
}
