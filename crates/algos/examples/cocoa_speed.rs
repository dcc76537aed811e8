//! Time of ridge, lasso or elastic net to a given objective, on the columns of a sparse matrix in a file of numbers.
//!
//! `cocoa_speed FILE WORKERS PARTITIONS LAMBDA ETA TARGET [key=value …]` with `work`, `sigma`, `delay_ms`, `rounds`,
//! `tol`, `rests`, `f32`, `repeat`, `log`. The file has, little-endian and one after the other: rows, columns and entries
//! (`i64`), where each column starts and the last ends (`i64`), rows of the entries (`i32`), the entries and the targets (`f64`).

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program to measure with")]

use qjam::{Csc, Csr, DataSet, Master};
use qjam_algos::linear::{
    Columns, Local, Loss, Objective, Params, Partitioned, Penalty, Scaling, Value, fit,
};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// The rows of the matrix, and the targets.
fn read<T: Value>(path: &str) -> (Csr<T>, Vec<f64>) {
    let bytes = std::fs::read(path).unwrap();
    let mut at = 0;
    let mut take = |width: usize| {
        at += width;
        &bytes[at - width..at]
    };
    let mut whole = || i64::from_le_bytes(take(8).try_into().unwrap()) as usize;
    let (rows, cols, entries) = (whole(), whole(), whole());
    let starts: Vec<usize> = (0..=cols).map(|_| whole()).collect();
    let places: Vec<u32> = (0..entries).map(|_| u32::from_le_bytes(take(4).try_into().unwrap())).collect();
    let mut double = || f64::from_le_bytes(take(8).try_into().unwrap());
    let values: Vec<T> = (0..entries).map(|_| T::nearest(double())).collect();
    let targets = (0..rows).map(|_| double()).collect();
    let mut row_starts = vec![0_u64; rows + 1];
    places.iter().for_each(|row| row_starts[*row as usize + 1] += 1);
    (0..rows).for_each(|row| row_starts[row + 1] += row_starts[row]);
    let mut next = row_starts.clone();
    let (mut columns, mut by_row) = (vec![0_u32; entries], vec![T::default(); entries]);
    for column in 0..cols {
        for entry in starts[column]..starts[column + 1] {
            let to = &mut next[places[entry] as usize];
            (columns[*to as usize], by_row[*to as usize]) = (column as u32, values[entry]);
            *to += 1;
        }
    }
    (Csr::from_vecs(row_starts, columns, by_row, cols, None).unwrap(), targets)
}

fn measure<T: Value>(args: &[String])
where
    Csc<T>: Columns,
{
    let number = |i: usize| args[i].parse::<f64>().unwrap();
    let key = |name: &str| {
        args.iter().find_map(|arg| arg.strip_prefix(&format!("{name}="))).map(|v| v.parse::<f64>().unwrap())
    };
    let (x, targets) = read::<T>(&args[0]);
    let (rows, partitions) = (x.rows(), number(2) as usize);
    let data = Partitioned::columns_of(&DataSet::csr(&x).unwrap(), partitions).unwrap();
    let penalty = Penalty::elastic_net(number(3), number(4), Scaling::HalfSum, rows).unwrap();
    let objective =
        Objective { loss: Loss::Squares { targets }, terms: penalty.into(), centred: false, free: false };
    let mut params = Params::default()
        .with_tolerance(key("tol").unwrap_or(0.0))
        .unwrap()
        .with_target(number(5))
        .with_rounds_max(key("rounds").unwrap_or(3000.0) as usize)
        .unwrap()
        .with_rests(key("rests").unwrap_or(1.0) > 0.0)
        .with_delay(Duration::from_secs_f64(key("delay_ms").unwrap_or(0.0) / 1e3));
    if let (Some(work), Some(sigma)) = (key("work"), key("sigma")) {
        params = params.with_local(Local::Fixed { work, sigma }).unwrap();
    }
    let master = Master::builder().no_run_file().connect(&args[1]).unwrap();
    for _ in 0..key("repeat").unwrap_or(1.0) as usize {
        let begun_s = cpu_s();
        let found = fit(&master, &data, &objective, &params, |seen| {
            if key("log") == Some(2.0) {
                println!(
                    "{:4} {:.6} gap {:.3e} step {:.2} {:.2} passes {:.2} {:.2} ms σ' {:.1}",
                    seen.round,
                    seen.objective,
                    seen.gap,
                    seen.step.0,
                    seen.step.1,
                    seen.passes,
                    seen.seconds * 1e3,
                    seen.choice.sigma
                );
            }
        })
        .unwrap();
        if key("log").is_some() {
            found.choices.iter().for_each(|choice| println!("  {choice}"));
        }
        println!(
            "{} {:?}: {} rounds, {:.2} passes, {:.3} s (workers {:.3}, master {:.3}, rest {:.3}), {:.3} s of processor, objective {:.8}, gap {:.2e}, nonzero {}",
            args[1],
            found.outcome,
            found.rounds,
            found.passes,
            found.times.total_s,
            found.times.worker_s,
            found.times.master_s,
            found.times.overhead_s,
            cpu_s() - begun_s,
            found.objective,
            found.gap(),
            found.coordinates.iter().filter(|a| **a != 0.0).count()
        );
    }
}

#[qjam::main]
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "f32=1") { measure::<f32>(&args) } else { measure::<f64>(&args) }
}
