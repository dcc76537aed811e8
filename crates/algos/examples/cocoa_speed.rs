//! Time of ridge, lasso or elastic net to a given objective, on the columns of a sparse matrix in a file of numbers.
//!
//! `cocoa_speed FILE WORKERS PARTITIONS LAMBDA ETA TARGET [key=value …]` with `work`, `sigma`, `delay_ms`, `rounds`,
//! `tol`, `rests`, `added`, `f32`, `repeat`, `log`. With `exchange_ms` and `pass_ms` the tuner is told these costs instead of measuring them;
//! and with `grid=1`, too, a table compares it with fixed amounts of work and σ' when an exchange takes 0, 5 and 50 ms
//! longer. That is made of counts, so a busy machine does not matter; `grid=2` also measures both with real delays. The file has, little-endian and one after the other: rows, columns and entries
//! (`i64`), where each column starts and the last ends (`i64`), rows of the entries (`i32`), the entries and the targets (`f64`).

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program to measure with")]

use qjam::{Csc, Csr, DataSet, Master};
use qjam_algos::linear::{
    Columns, Combine, Local, Loss, Objective, Params, Partitioned, Penalty, Scaling, Value, fit,
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
    if key("added").is_some() {
        params = params.with_combine(Combine::Added);
    }
    let costs = key("exchange_ms").zip(key("pass_ms"));
    let milliseconds = |ms: f64| Duration::from_secs_f64(ms / 1e3);
    if let Some((exchange, pass)) = costs {
        params = params.with_costs(milliseconds(exchange), milliseconds(pass));
    }
    let master = Master::builder().no_run_file().connect(&args[1]).unwrap();
    if let (Some(grid), Some((exchange, pass))) = (key("grid"), costs) {
        let run = |params: &Params| fit(&master, &data, &objective, params, |_| {}).unwrap();
        let mut fixed = vec![];
        for work in [0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0] {
            for sigma in if partitions > 2 { vec![1.0, 2.0, partitions as f64] } else { vec![1.0, 2.0] } {
                let local = Local::Fixed { work, sigma };
                let found = run(&params.clone().with_local(local.clone()).unwrap());
                println!(
                    "work {work:4.2} σ' {sigma}: {:4} rounds, {:6.2} passes",
                    found.rounds, found.passes
                );
                fixed.push((local, found.rounds as f64, found.passes));
            }
        }
        for delay in [0.0, 5.0, 50.0] {
            let time = |rounds: f64, passes: f64| rounds * (exchange + delay) + passes * pass;
            let told = params.clone().with_costs(milliseconds(exchange + delay), milliseconds(pass));
            let tuned = run(&told);
            let best = fixed.iter().min_by(|a, b| time(a.1, a.2).total_cmp(&time(b.1, b.2))).unwrap();
            let (ours, theirs) = (time(tuned.rounds as f64, tuned.passes), time(best.1, best.2));
            println!(
                "delay {delay} ms: tuned {ours:.0} ms ({} rounds, {:.2} passes), best {:?} {theirs:.0} ms, ratio {:.2}",
                tuned.rounds,
                tuned.passes,
                best.0,
                ours / theirs
            );
            if key("log").is_some() {
                tuned.choices.iter().for_each(|choice| println!("  {choice}"));
            }
            if grid > 1.0 {
                let real = params.clone().without_costs().with_delay(milliseconds(delay));
                let seconds = |params: &Params| {
                    let all = (0..5).map(|_| run(params).times.total_s);
                    all.fold(f64::INFINITY, f64::min)
                };
                let (ours, theirs) =
                    (seconds(&real), seconds(&real.clone().with_local(best.0.clone()).unwrap()));
                println!("  measured, best of 5: {ours:.3} s and {theirs:.3} s, ratio {:.2}", ours / theirs);
            }
        }
        return;
    }
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
