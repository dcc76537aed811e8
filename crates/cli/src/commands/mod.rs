//! One file per command.

mod bench_autoencoder;
mod bench_rounds;
mod bench_transfer;
mod cache;
mod check;
mod clean;
mod demo;
mod hosts;
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
        Command::Bench(Bench::Rounds(args)) => bench_rounds::run(&args)?,
        Command::Bench(Bench::Transfer(args)) => bench_transfer::run(&args)?,
        Command::Bench(Bench::Autoencoder(args)) => bench_autoencoder::run(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}
