//! One file per command.

mod again;
mod answers;
mod bench_auto;
mod bench_autoencoder;
mod bench_cocoa;
mod bench_kmeans;
mod bench_memory;
mod bench_rounds;
mod bench_store;
mod bench_transfer;
mod cache;
mod certificate;
mod check;
mod choices;
mod clean;
mod compare;
mod completions;
mod config;
mod dashboard;
mod demo;
mod detached;
mod doctor;
mod evaluate;
mod fit;
mod graph;
mod hosts;
mod inspect;
mod metrics;
mod npy;
mod picture;
mod placing;
mod predict;
mod progress;
mod reading;
mod report;
mod runs;
mod show;
mod spent;
mod store;
mod supervised;
mod table;
mod top;
mod training;

use crate::args::{Bench, Command};
use std::process::ExitCode;

/// Runs a command. What it found may be a reason for an exit code that is not zero even when it did its work.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Demo(args) => demo::run(&args)?,
        Command::Check(args) => return check::run(&args),
        Command::Cache(args) => return cache::run(&args),
        Command::Clean(args) => return clean::run(&args),
        Command::Runs(args) => runs::run(&args)?,
        Command::Show(args) => show::run(&args)?,
        Command::Report(args) => report::run(&args)?,
        Command::Watch(args) => dashboard::watch(&args)?,
        Command::Top(args) => top::run(&args)?,
        Command::Compare(args) => return compare::run(&args),
        Command::Resume(args) => return again::resume(&args),
        Command::Replay(args) => return again::replay(&args),
        Command::Bench(Bench::Rounds(args)) => bench_rounds::run(&args)?,
        Command::Bench(Bench::Transfer(args)) => bench_transfer::run(&args)?,
        Command::Bench(Bench::Auto(args)) => return bench_auto::run(&args),
        Command::Bench(Bench::Autoencoder(args)) => bench_autoencoder::run(&args)?,
        Command::Bench(Bench::Kmeans(args)) => bench_kmeans::run(&args)?,
        Command::Bench(Bench::Cocoa(args)) => bench_cocoa::run(&args)?,
        Command::Store(args) => return store::run(&args),
        Command::Bench(Bench::Store(args)) => bench_store::run(&args)?,
        Command::Fit(args) => fit::run(&args)?,
        Command::Predict(args) => predict::run(&args)?,
        Command::Evaluate(args) => evaluate::run(&args)?,
        Command::Inspect(args) => inspect::run(&args)?,
        Command::Graph(args) => graph::run(&args)?,
        Command::Doctor(args) => return doctor::run(&args),
        Command::Config(args) => return config::run(&args),
        Command::Completions(args) => completions::completions(&args)?,
        Command::Man(args) => completions::man(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}
