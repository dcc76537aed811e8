//! The shortest program that times a round: `cargo run --release --example rounds -- proc:4 8 2000`.
#![allow(clippy::print_stdout, reason = "that is what it is for")]
use qjam::{DataSet, Master, Nothing};
use std::time::Instant;

#[qjam::map]
fn double(v: &[f64], _: &Nothing) -> Vec<f64> {
    v.iter().map(|x| x * 2.0).collect()
}

#[qjam::main]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, workers, doubles, rounds] = &args[..] else {
        return Err("usage: rounds WORKERS DOUBLES ROUNDS".into());
    };
    let m = Master::connect(workers)?;
    let slots: u32 = m.workers().iter().map(|w| w.slots).sum();
    let (data, v) = (DataSet::nothing(slots as usize)?, vec![1.0; doubles.parse()?]);
    let mut times = Vec::new();
    for _ in 0..rounds.parse()? {
        let start = Instant::now();
        m.run(double, &v[..], &data)?;
        times.push(start.elapsed());
    }
    times.sort();
    println!("{:.1}", times[times.len() / 2].as_secs_f64() * 1e6);
    Ok(())
}
