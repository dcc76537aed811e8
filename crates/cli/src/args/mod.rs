//! What can be typed.

mod data;
mod learners;
mod linear;

pub(crate) use data::Data;
pub(crate) use learners::{BenchKmeans, Fit, Inspect, Predict};
pub(crate) use linear::BenchCocoa;

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
  mpi         the ranks that mpirun started, if this program was built with MPI
  auto        as many threads of this machine as pay, or none but the caller's
  auto:proc:4,big  as many of these workers as pay

Colours and progress lines appear only on a terminal; NO_COLOR=1 turns colours off.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a sparse autoencoder on worker processes, kill one on the way, and show that the bits are the same
    Demo(Demo),
    /// See whether hosts would serve as workers: every step to them, what they have, how fast they are reached, and what
    /// to do about each problem
    #[command(after_help = CHECK_HELP)]
    Check(Check),
    /// Look at the cache of data on hosts, or on this machine; check, empty or cap it
    #[command(after_help = CACHE_HELP)]
    Cache(Cache),
    /// Remove all that is ours on hosts: the worker, its cache, their folders
    #[command(after_help = CLEAN_HELP)]
    Clean(Clean),
    /// List the runs of this user, also those that failed or were killed
    #[command(after_help = RUNS_HELP)]
    Runs(Runs),
    /// Show a run: where its time went, what happened to its workers, what it ran on what
    #[command(after_help = RUN_HELP)]
    Show(Show),
    /// Run the program of a killed or failed run again, and take from its file what it had found out
    #[command(after_help = RESUME_HELP)]
    Resume(Again),
    /// Run the program of a run again, and see whether every round has the same bits
    #[command(after_help = REPLAY_HELP)]
    Replay(Again),
    /// Fit a model to the data in a file
    #[command(subcommand, after_help = learners::FIT_HELP)]
    Fit(Fit),
    /// Ask a fitted model about the rows of a file
    #[command(after_help = learners::PREDICT_HELP)]
    Predict(Predict),
    /// Look into the file of a model
    #[command(after_help = learners::INSPECT_HELP)]
    Inspect(Inspect),
    /// Measure
    #[command(subcommand)]
    Bench(Bench),
}

const RUNS_HELP: &str = "\
Every run leaves one file in $XDG_DATA_HOME/qjam/runs or ~/.local/share/qjam/runs, at most 200 and 1 GiB: the oldest go. \
QJAM_RUNS names another folder; QJAM_RUNS=off leaves none.

Examples:
  qjam runs
  qjam runs --json | jq '.runs[] | select(.state == \"killed\") | .id'";

const RUN_HELP: &str = "\
A run is named by what `qjam runs` calls it, by the end of that, by `last`, or by the path of its file.

Examples:
  qjam show last
  qjam show a1b2c3 --rounds
  qjam show ./20261115T063324Z-a1b2c3.run --json";

const RESUME_HELP: &str = "\
The program runs from its beginning, with the same arguments in the same folder. A round with the same number, function, \
data, parameters and seed as in the file gets its value from there at once; the first that is another one, and all after \
it, are computed. So it comes to the same result as if nobody had killed it. It is refused when the executable has been \
changed since.

The exit code is that of the program.

Examples:
  qjam resume last
  qjam resume a1b2c3 --anyway";

const REPLAY_HELP: &str = "\
The program runs from its beginning, with the same arguments in the same folder, and computes everything. Then the hashes \
of all rounds' values are compared.

The exit code is 0 when all are equal, and 1 when one differs or none could be compared.

Examples:
  qjam replay last";

#[derive(Debug, ClapArgs)]
pub(crate) struct Runs {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Show {
    /// Which run
    pub(crate) run: String,
    /// List the rounds, too
    #[arg(long)]
    pub(crate) rounds: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Again {
    /// Which run
    pub(crate) run: String,
    /// Also when the executable is not the one that made it
    #[arg(long)]
    pub(crate) anyway: bool,
}

const CHECK_HELP: &str = "\
Goes the way a run goes: connects by your own ssh, copies this program there unless it is there, starts it, has it \
start a worker process, and ends it again. The copy and an empty cache stay for the next run; `qjam clean` removes them. \
All hosts are measured at once, so those behind one link share its speed.

The exit code is 0 when all hosts would serve, otherwise 1.

Examples:
  qjam check big
  qjam check ann@big:2222 small @hosts.txt
  qjam check --json big,small | jq '.hosts[] | select(.ok | not) | .failure'

QJAM_SSH names another ssh, perhaps with options: QJAM_SSH=\"ssh -F my_config\".
QJAM_WORKER names another executable to send.";

const CACHE_HELP: &str = "\
Chunks of data that were sent to a host stay on its disk, named by their content, so that a later run need not send \
them again. A cache never takes more than its cap; what was not used for longest goes first. This program goes to hosts \
where it is not yet, as for a run.

Examples:
  qjam cache big small            how much is there
  qjam cache                      the same on this machine, for whoever uses it as a host
  qjam cache --cap 20G big        let it take 20 GiB there from now on
  qjam cache --cap default big    and no longer
  qjam cache --verify @hosts.txt  compare every chunk with its name
  qjam cache --clear big          remove all chunks

The exit code is 0 when that was done everywhere and no chunk was damaged, otherwise 1.";

const CLEAN_HELP: &str = "\
A run that is going on there is not harmed, but the next one sends everything again.

The exit code is 0 when nothing of ours is left on any of the hosts, otherwise 1.

Examples:
  qjam clean big
  qjam clean @hosts.txt";

#[derive(Debug, ClapArgs)]
pub(crate) struct Check {
    /// Hosts, as in a worker string: `big`, `ann@big:2222`, `@hosts.txt`, or several with commas
    #[arg(required = true, value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Cache {
    /// Hosts, as in a worker string; this machine when none is given
    #[arg(value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
    /// Remove all chunks
    #[arg(long, group = "order")]
    pub(crate) clear: bool,
    /// Compare every chunk with its name; those that differ are not used any more
    #[arg(long, group = "order")]
    pub(crate) verify: bool,
    /// Let it take at most so many bytes of the disk from now on: a number, with K, M, G or T for powers of 1024; or
    /// `default`
    #[arg(long, group = "order", value_name = "BYTES", value_parser = cap)]
    pub(crate) cap: Option<Cap>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Clean {
    /// Hosts, as in a worker string: `big`, `ann@big:2222`, `@hosts.txt`, or several with commas
    #[arg(required = true, value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a cache may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cap {
    Default,
    Bytes(u64),
}

fn cap(text: &str) -> Result<Cap, String> {
    match text {
        "default" => Ok(Cap::Default),
        _ => bytes(text).map(Cap::Bytes).map_err(|e| format!("{e}, or `default`")),
    }
}

fn bytes(text: &str) -> Result<u64, String> {
    const WRONG: &str = "write a number of bytes like `500M` or `20G`";
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(WRONG.into()),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift));
    bytes.ok_or_else(|| WRONG.into())
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Demo {
    /// Where the work is done
    #[arg(long, default_value = "proc:2", value_name = "WORKERS")]
    pub(crate) workers: String,
    /// Say afterwards what was measured and how many workers follow from it, if they are `auto`
    #[arg(long)]
    pub(crate) explain: bool,
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
    /// Whether `auto` chooses well: jobs of 1 KiB to 1 GiB, by it and by every fixed number of workers
    Auto(Auto),
    /// How a real job scales: the sparse autoencoder by L-BFGS, against one worker and against processes that don't talk
    Autoencoder(Autoencoder),
    /// What an iteration of k-means costs, from given centres
    #[command(after_help = learners::BENCH_HELP)]
    Kmeans(BenchKmeans),
    /// How long ridge, lasso or elastic net take to an objective, and what they choose between two exchanges
    #[command(after_help = linear::HELP)]
    Cocoa(BenchCocoa),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Rounds {
    /// Where the work is done
    #[arg(long, value_name = "WORKERS")]
    pub(crate) workers: String,
    /// Say afterwards what was measured and how many workers follow from it, if they are `auto`
    #[arg(long)]
    pub(crate) explain: bool,
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
    /// Say afterwards what was measured and how many workers follow from it, if they are `auto`
    #[arg(long)]
    pub(crate) explain: bool,
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
pub(crate) struct Auto {
    /// What there is to choose from
    #[arg(long, value_name = "WORKERS")]
    pub(crate) workers: String,
    /// Leave out jobs of more than so many MiB
    #[arg(long, value_name = "N")]
    pub(crate) mib_max: Option<u64>,
    /// Fail where `auto` takes more than 1.25 times as long as the best fixed choice
    #[arg(long)]
    pub(crate) check: bool,
    /// Say for each job what was measured and what followed from it
    #[arg(long)]
    pub(crate) explain: bool,
    /// Print one line of JSON for each size
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
    /// Read the patches from this file, as `numpy.save` writes it; it is made if it is not there. Only the training is
    /// measured then, and what it takes of memory
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Let every worker process take at most so much memory: a number, with K, M, G or T for powers of 1024
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) memory_limit: Option<u64>,
    /// Say afterwards what was measured and how many workers follow from it, if they are `auto`
    #[arg(long)]
    pub(crate) explain: bool,
    /// How many evaluations of cost and gradient
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = value_parser!(u32).range(10..=1_000_000))]
    pub(crate) evaluations: u32,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_put_together_without_contradictions() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[test]
    fn caps_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64K", 64 << 10),
            ("500m", 500 << 20),
            ("20GiB", 20 << 30),
            ("1TB", 1 << 40),
        ] {
            assert_eq!(cap(text), Ok(Cap::Bytes(bytes)), "{text}");
        }
        assert_eq!(cap("default"), Ok(Cap::Default));
        for text in ["", "G", "-1", "+1G", "1.5G", "20X", "20GG", "99999999999T", "2 0", "none", "1ö"] {
            assert!(cap(text).is_err(), "{text}");
        }
    }
}
