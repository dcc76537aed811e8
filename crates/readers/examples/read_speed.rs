//! Reads a file and says how long it took: `read_speed csv|libsvm|parquet PATH [THREADS] [FOLDER]`.
//!
//! Used by `bench/readers.py`, which runs others on the same files. With a folder, the numbers are kept there and not in
//! memory.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example for a terminal")]

use qjam_readers::{Csv, Libsvm};
use std::time::Instant;

/// Seconds that all threads of this program have used so far.
fn processor() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kind, path, rest @ ..] = &args[..] else {
        panic!("read_speed csv|libsvm|parquet PATH [THREADS] [FOLDER]")
    };
    let threads: usize = rest.first().map_or(2, |n| n.parse().unwrap());
    let folder = rest.get(1);
    let bytes = std::fs::metadata(path).unwrap().len();
    let (start, used) = (Instant::now(), processor());
    let (records, id) = match kind.as_str() {
        "csv" => {
            let reader = Csv::new(path).threads(threads);
            let reader = if let Some(folder) = folder { reader.keep_in(folder) } else { reader.in_memory() };
            let data = reader.read::<f64>().unwrap().data;
            (data.records(), data.id())
        }
        "libsvm" => {
            let reader = Libsvm::new(path).threads(threads);
            let reader = if let Some(folder) = folder { reader.keep_in(folder) } else { reader.in_memory() };
            let data = reader.read::<f64>().unwrap();
            (data.records(), data.id())
        }
        #[cfg(feature = "parquet")]
        "parquet" => {
            let reader = qjam_readers::Parquet::new(path).threads(threads);
            let reader = if let Some(folder) = folder { reader.keep_in(folder) } else { reader.in_memory() };
            let data = reader.read::<f64>().unwrap().data;
            (data.records(), data.id())
        }
        other => panic!("{other}"),
    };
    let (seconds, used) = (start.elapsed().as_secs_f64(), processor() - used);
    println!(
        "{seconds:.4} s, {used:.4} s of processors, {:.0} MB/s, {records} records, {id:?}",
        bytes as f64 / seconds / 1e6
    );
}
