//! One file per command.

mod bench_autoencoder;
mod bench_rounds;
mod bench_transfer;
mod demo;
mod training;

use crate::args::{Bench, Command};

pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Demo(args) => demo::run(&args),
        Command::Bench(Bench::Rounds(args)) => bench_rounds::run(&args),
        Command::Bench(Bench::Transfer(args)) => bench_transfer::run(&args),
        Command::Bench(Bench::Autoencoder(args)) => bench_autoencoder::run(&args),
    }
}
