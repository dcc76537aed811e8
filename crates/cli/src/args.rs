//! What can be typed.

use clap::{Args as ClapArgs, Parser, Subcommand, value_parser};
use std::path::PathBuf;

/// Run learning algorithms on more than one core and more than one machine.
#[derive(Debug, Parser)]
#[command(name = "qjam", version, arg_required_else_help = true, after_help = WORKERS_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const WORKERS_HELP: &str = "\
Workers are named by a string, wherever --workers is asked for:
  local       threads of this process, one per core
  local:4     four threads of this process
  proc:4      four child processes
  proc:2*4    two child processes of four slots each
  proc        child processes, one per core
  big         the machine `big`, reached by your own ssh, one slot per core
  ann@big:2222*4  user, port and number of slots there
  @hosts.txt  what the file says, one or more to a line
  proc:2,big  both; commas join

Colours and progress lines appear only on a terminal; NO_COLOR=1 turns colours off.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a sparse autoencoder on worker processes, kill one on the way, and show that the bits are the same
    Demo(Demo),
    /// Measure
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Demo {
    /// Where the work is done
    #[arg(long, default_value = "proc:2", value_name = "WORKERS")]
    pub(crate) workers: String,
    /// How many image patches to learn from
    #[arg(long, default_value_t = 20_000, value_name = "N", value_parser = value_parser!(u64).range(1..=10_000_000))]
    pub(crate) patches: u64,
    /// How many evaluations of cost and gradient to spend
    #[arg(long, default_value_t = 150, value_name = "N", value_parser = value_parser!(u32).range(10..=1_000_000))]
    pub(crate) evaluations: u32,
    /// File for the picture of what was learned
    #[arg(long, default_value = "features.png", value_name = "FILE")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// What a round costs by itself: send doubles to every worker, double them, sum them up
    Rounds(Rounds),
    /// What it costs to bring data to workers, the first time and the next
    Transfer(Transfer),
    /// How a real job scales: the sparse autoencoder by L-BFGS, against one worker and against processes that don't talk
    Autoencoder(Autoencoder),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Rounds {
    /// Where the work is done
    #[arg(long, value_name = "WORKERS")]
    pub(crate) workers: String,
    /// How many doubles each way
    #[arg(long, default_value_t = 8, value_name = "D", value_parser = value_parser!(u64).range(0..=1 << 28))]
    pub(crate) doubles: u64,
    /// How many rounds to time
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = value_parser!(u64).range(1..=10_000_000))]
    pub(crate) rounds: u64,
    /// Let every worker sleep this long in every round
    #[arg(long, default_value_t = 0, value_name = "MS", value_parser = value_parser!(u64).range(0..=3_600_000))]
    pub(crate) sleep_ms: u64,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Transfer {
    /// Where the work is done
    #[arg(long, value_name = "WORKERS")]
    pub(crate) workers: String,
    /// How many MiB of data
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = value_parser!(u64).range(1..=1 << 24))]
    pub(crate) mib: u64,
    /// Cut the data into a single chunk
    #[arg(long)]
    pub(crate) one_chunk: bool,
    /// Send a vector of parameters instead of data
    #[arg(long, conflicts_with = "one_chunk")]
    pub(crate) vector: bool,
    /// Also send the same bytes to this host by plain ssh, and compare
    #[arg(long, value_name = "HOST")]
    pub(crate) beside: Option<String>,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Autoencoder {
    /// How many patches
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = value_parser!(u64).range(1..=10_000_000))]
    pub(crate) patches: u64,
    /// Where the work is done
    #[arg(long, value_name = "WORKERS")]
    pub(crate) workers: String,
    /// How many evaluations of cost and gradient
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = value_parser!(u32).range(10..=1_000_000))]
    pub(crate) evaluations: u32,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}
