//! The command line: subcommands, arguments and their help texts.
//!
//! Comes in: the words that the user typed. Goes out: [`Args`], checked one by one. Carries nothing out; that is `commands`.

mod data;
mod evaluate;
mod graph;
mod habits;
mod learners;
mod linear;
mod store;

pub(crate) use data::Data;
pub(crate) use evaluate::Evaluate;
pub(crate) use graph::{Components, Graph, GraphArgs, Pagerank};
pub(crate) use habits::{ByShell, Completions, Config, Doctor, Man, Set};
pub(crate) use learners::{BenchKmeans, Fit, Inspect, Predict};
pub(crate) use linear::BenchCocoa;
pub(crate) use store::{Attach, BucketAddress, Gc, Key, Resume, Serve, Status, Store};

use clap::{Args as ClapArgs, Parser, Subcommand, value_parser};
use qjam_config::bytes;
use std::path::PathBuf;

/// Run learning algorithms on several cores and several machines.
#[derive(Debug, Parser)]
#[command(name = "qjam", version, arg_required_else_help = true, after_help = WORKERS_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const WORKERS_HELP: &str = "\
The argument of --workers is a worker string:
  local       threads of this process, one per core
  local:4     four threads of this process
  proc        child processes, one per core
  proc:4      four child processes
  proc:2*4    two child processes with four slots each
  big         the host `big`, reached through your own ssh, one slot per core
  ann@big:2222*4  user, port and number of slots on a host
  @hosts.txt  the workers listed in the file, one or more per line
  proc:2,big  several workers, separated by commas
  mpi         the ranks started by mpirun, if this program was built with MPI
  lab         the cluster `lab` of your configuration file: see `qjam config --help`
  store:URL   whoever serves the bucket at URL: see `qjam store --help`
  auto        as many threads of this machine as pay off, or only the calling thread
  auto:proc:4,big  as many of these workers as pay off

Colours and progress lines appear only on a terminal; NO_COLOR=1 turns colours off. Help is as wide as the terminal; \
elsewhere as wide as COLUMNS says, or 100 columns.

Exit codes: 0 done; 1 it failed, or what was checked is not right; 2 the command line makes no sense. `resume`, `replay` and \
`store resume` have that of the program they start.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a sparse autoencoder on worker processes, kill one of them, and show that the result has the same bits
    Demo(Demo),
    /// Test whether hosts can be workers: each step of connecting, their resources, the speed of the link, and how to fix
    /// each problem
    #[command(after_help = CHECK_HELP)]
    Check(Check),
    /// Show, verify, clear or limit the cache of data on hosts or on this machine
    #[command(after_help = CACHE_HELP)]
    Cache(Cache),
    /// Remove everything that qjam stored on hosts: the program, the cache, their folders
    #[command(after_help = CLEAN_HELP)]
    Clean(Clean),
    /// List the runs of this user, including those that failed or were killed
    #[command(after_help = RUNS_HELP)]
    Runs(Runs),
    /// Show a run: its program, its data, where the time went, what happened to the workers
    #[command(after_help = RUN_HELP)]
    Show(Show),
    /// Write a page about a run: time of every round, what each worker did, objective, errors; opens in any browser, offline
    #[command(after_help = REPORT_HELP)]
    Report(Report),
    /// Serve a page about a run while it goes on, for a browser on this machine
    #[command(after_help = WATCH_HELP)]
    Watch(Watch),
    /// Show a run in the terminal while it goes on: rate, objective, workers
    #[command(after_help = TOP_HELP)]
    Top(Top),
    /// Compare two runs and name the first round in which they differ
    #[command(after_help = COMPARE_HELP)]
    Compare(Compare),
    /// Continue a killed or failed run: start its program again and take the recorded values from its file
    #[command(after_help = RESUME_HELP)]
    Resume(Again),
    /// Run the program of a run again, and compare the value of every round
    #[command(after_help = REPLAY_HELP)]
    Replay(Again),
    /// Fit a model to the data in a file
    #[command(subcommand, after_help = learners::FIT_HELP)]
    Fit(Fit),
    /// Apply a fitted model to the rows of a file
    #[command(after_help = learners::PREDICT_HELP)]
    Predict(Predict),
    /// Measure how good a model is on the rows of a file: accuracy, R², silhouette and the like
    #[command(after_help = evaluate::HELP)]
    Evaluate(Evaluate),
    /// Show what a model file contains
    #[command(after_help = learners::INSPECT_HELP)]
    Inspect(Inspect),
    /// Compute something about a graph whose edges are in a file: ranks, components
    #[command(subcommand, after_help = graph::HELP)]
    Graph(Graph),
    /// Workers that share nothing but storage, such as a folder: start them, see what they do, clear up
    #[command(subcommand, after_help = store::HELP)]
    Store(Store),
    /// Run a benchmark
    #[command(subcommand)]
    Bench(Bench),
    /// Tell what works on this machine, what is missing, and how to get it: cores, memory, Python, MPI, ssh, folders
    #[command(after_help = habits::DOCTOR_HELP)]
    Doctor(Doctor),
    /// Configuration files: named clusters and defaults
    #[command(subcommand, after_help = habits::CONFIG_HELP)]
    Config(Config),
    /// Print a script that completes this command's words in a shell
    #[command(after_help = habits::COMPLETIONS_HELP)]
    Completions(Completions),
    /// Print the manual page of this command, or write those of all its commands to a folder
    #[command(after_help = habits::MAN_HELP)]
    Man(Man),
}

const RUNS_HELP: &str = "\
Every run leaves a file in $XDG_DATA_HOME/qjam/runs or ~/.local/share/qjam/runs. At most 200 files and 1 GiB are kept; the \
oldest are deleted first. QJAM_RUNS sets another folder; QJAM_RUNS=off writes no files.

Examples:
  qjam runs
  qjam runs --json | jq '.runs[] | select(.state == \"killed\") | .id'";

const RUN_HELP: &str = "\
RUN is the name that `qjam runs` prints, the end of that name, `last`, or the path of the run file. Without RUN, \
the latest run is shown.

Examples:
  qjam show
  qjam show a1b2c3 --rounds
  qjam show ./20261115T063324Z-a1b2c3.run --json";

const REPORT_HELP: &str = "\
RUN is the name that `qjam runs` prints, the end of that name, `last`, or the path of the run file. Runs that failed, were killed \
or are still going on have a page, too. The page is one file that loads nothing from elsewhere.

Examples:
  qjam report                          # qjam-RUN.html of the latest run
  qjam report a1b2c3 --out fit.html --open";

const WATCH_HELP: &str = "\
The page has the views of `qjam report` and follows the run: also one that another program of yours has started, since it is read from \
the run file. It is served on one port of the loopback interface, and only to who has the whole link. To see it from another machine, \
forward the port: `ssh -L PORT:127.0.0.1:PORT HOST`. QJAM_DASHBOARD_LINK names the address of a proxy: see the page on runs in the book.

`--dashboard` on `fit`, `demo` and most benchmarks serves the same page beside their work.

Examples:
  qjam watch                           # the latest run
  qjam watch a1b2c3 --open
  qjam fit kmeans x.npy --k 20 --out x.model --dashboard";

const TOP_HELP: &str = "\
Keys: q ends, p pauses, arrows and Page Up and Down scroll through the workers. Where standard output is not a terminal, it prints a \
line every second until the run ends.

Examples:
  qjam top
  qjam top a1b2c3 --json | jq .rounds_per_second";

const COMPARE_HELP: &str = "\
Rounds are compared in order: function, data, parameters, value. If the data differ, the chunk is named.

The exit code is 0 if the runs are equal as far as their files tell, and 1 if they differ.

Examples:
  qjam compare a1b2c3 last
  qjam compare a1b2c3 last --json | jq .difference";

const RESUME_HELP: &str = "\
The program starts from the beginning, with the same arguments in the same folder. A round with the same number, function, \
data, parameters and seed as in the file takes its value from there; the first round that differs and all later ones are \
computed. So the result is the same as if the run had not been killed. If the executable has changed since, the command \
refuses to continue; see --anyway.

The exit code is that of the program.

Examples:
  qjam resume last
  qjam resume a1b2c3 --anyway";

const REPLAY_HELP: &str = "\
The program starts from the beginning, with the same arguments in the same folder, and computes everything. Then the \
hashes of the values of all rounds are compared.

The exit code is 0 if all are equal, and 1 if one differs or none can be compared.

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
    /// The run: a name, the end of a name, `last`, or a file
    #[arg(default_value = "last")]
    pub(crate) run: String,
    /// Also list the rounds
    #[arg(long)]
    pub(crate) rounds: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Report {
    /// The run: a name, the end of a name, `last`, or a file
    #[arg(default_value = "last")]
    pub(crate) run: String,
    /// Where to write the page; `-` is standard output [default: qjam-RUN.html]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Overwrite a file that is not a report
    #[arg(long)]
    pub(crate) force: bool,
    /// Open the page in a browser
    #[arg(long)]
    pub(crate) open: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Watch {
    /// The run: a name, the end of a name, `last` or `latest`, or a file
    #[arg(default_value = "last")]
    pub(crate) run: String,
    /// Open the page in a browser
    #[arg(long)]
    pub(crate) open: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Top {
    /// The run: a name, the end of a name, `last` or `latest`, or a file
    #[arg(default_value = "last")]
    pub(crate) run: String,
    /// Print a JSON object every second
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Compare {
    /// A run: a name, the end of a name, `last`, or a file
    pub(crate) first: String,
    /// The other one
    pub(crate) second: String,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Again {
    /// The run: a name, the end of a name, `last`, or a file
    pub(crate) run: String,
    /// Run even if the executable has changed since
    #[arg(long)]
    pub(crate) anyway: bool,
    /// Run what a file says that is not in the folder of runs or that others can write: whoever wrote it chose the command
    #[arg(long)]
    pub(crate) trust: bool,
    /// Print JSON objects; what the program prints goes to standard error
    #[arg(long)]
    pub(crate) json: bool,
}

const CHECK_HELP: &str = "\
Does what a run does: connects through your own ssh, copies this program to the host unless it is already there, starts \
it, starts a worker process, and ends both. The copy and an empty cache stay for the next run; `qjam clean` removes them. \
All hosts are measured at the same time, so hosts behind one link share its bandwidth.

The exit code is 0 if all hosts can be workers, otherwise 1.

Examples:
  qjam check big
  qjam check ann@big:2222 small @hosts.txt
  qjam check --json big,small | jq '.hosts[] | select(.ok | not) | .failure'

QJAM_SSH sets another ssh command, with options if needed: QJAM_SSH=\"ssh -F my_config\".
QJAM_WORKER sets another executable to send.";

const CACHE_HELP: &str = "\
Chunks of data that were sent to a host stay on its disk, named by the hash of their content, so that a later run need not \
send them again. A cache never exceeds its cap; the least recently used chunks are removed first. If this program is not on \
a host yet, it is copied there, as for a run.

Examples:
  qjam cache big small            show the size of the caches
  qjam cache                      show the cache on this machine
  qjam cache --cap 20G big        limit the cache to 20 GiB from now on
  qjam cache --cap default big    restore the default limit
  qjam cache --verify @hosts.txt  compare every chunk with its hash
  qjam cache --clear big          remove all chunks

The exit code is 0 if the command succeeded on every host and no chunk was damaged, otherwise 1.";

const CLEAN_HELP: &str = "\
A run that is using a host is not disturbed, but the next run sends everything again.

The exit code is 0 if no file of qjam is left on any host, otherwise 1.

Examples:
  qjam clean big
  qjam clean @hosts.txt";

#[derive(Debug, ClapArgs)]
pub(crate) struct Check {
    /// Hosts, as in a worker string: `big`, `ann@big:2222`, `@hosts.txt`, or several separated by commas
    #[arg(required = true, value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Cache {
    /// Hosts, as in a worker string; by default this machine
    #[arg(value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
    /// Remove all chunks
    #[arg(long, group = "order")]
    pub(crate) clear: bool,
    /// Compare every chunk with its hash; damaged chunks are no longer used
    #[arg(long, group = "order")]
    pub(crate) verify: bool,
    /// Limit the size of the cache on disk from now on: a number of bytes, with K, M, G or T for powers of 1024, or
    /// `default`
    #[arg(long, group = "order", value_name = "BYTES", value_parser = cap)]
    pub(crate) cap: Option<Cap>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Clean {
    /// Hosts, as in a worker string: `big`, `ann@big:2222`, `@hosts.txt`, or several separated by commas
    #[arg(required = true, value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// The size limit of a cache.
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

#[derive(Debug, ClapArgs)]
pub(crate) struct Demo {
    /// Workers, as a worker string: see `qjam --help`
    #[arg(long, default_value = "proc:2", value_name = "WORKERS")]
    pub(crate) workers: String,
    /// Print afterwards what was measured and which workers were chosen, with `auto`; and functions with very long results
    #[arg(long)]
    pub(crate) explain: bool,
    /// Number of image patches to learn from
    #[arg(long, default_value_t = 20_000, value_name = "N", value_parser = value_parser!(u64).range(1..=10_000_000))]
    pub(crate) patches: u64,
    /// Number of evaluations of cost and gradient
    #[arg(long, default_value_t = 150, value_name = "N", value_parser = value_parser!(u32).range(10..=1_000_000))]
    pub(crate) evaluations: u32,
    /// File to write the picture of the learned features to
    #[arg(long, default_value = "features.png", value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Serve a page about the run while it goes on, for a browser on this machine, and print its link
    #[arg(long)]
    pub(crate) dashboard: bool,
    /// Print one JSON object per event
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// The cost of a round: send doubles to every worker, double them, add them up
    Rounds(Rounds),
    /// The cost of sending data to workers, the first time and again
    Transfer(Transfer),
    /// The choices of `auto`: jobs of 1 KiB to 1 GiB, with `auto` and with every fixed number of workers
    Auto(Auto),
    /// How a real job scales: the sparse autoencoder by L-BFGS, compared with one worker and with independent processes
    Autoencoder(Autoencoder),
    /// The time of an iteration of k-means, from given centres
    #[command(after_help = learners::BENCH_HELP)]
    Kmeans(BenchKmeans),
    /// The time that ridge, lasso or elastic net take to reach an objective, and the work chosen between two exchanges
    #[command(after_help = linear::HELP)]
    Cocoa(BenchCocoa),
    /// What rounds through a bucket cost: mappers that sleep instead of computing, and prototypes that everybody reads
    #[command(after_help = STORE_BENCH_HELP)]
    Store(BenchStore),
}

const STORE_BENCH_HELP: &str = "\
Each mapper sleeps in every iteration and writes a result as large as the prototypes; results are merged in about √P groups, and \
whoever merges last writes the next prototypes. Mappers are threads of this command that share nothing but the bucket.

`wall_s` is the time from the first message to the last prototypes, `communication_s` what is left of it without the work, and \
`efficiency` the part of it that is work. With slow mappers the work is that of the others. The job is removed afterwards.

Examples:
  qjam bench store --mappers 120 --work-ms 1000 --iterations 10 --bytes 8000000 --store file:///mnt/share/qjam --json
  qjam bench store --mappers 16 --slow 1 --slowness 8 --no-backups --store file:///mnt/share/qjam";

#[derive(Debug, ClapArgs)]
pub(crate) struct BenchStore {
    /// Number of mappers
    #[arg(long, default_value_t = 16, value_name = "P", value_parser = value_parser!(u32).range(1..=4096))]
    pub(crate) mappers: u32,
    /// How long each mapper works in every iteration, in milliseconds
    #[arg(long, default_value_t = 1000, value_name = "MS", value_parser = value_parser!(u64).range(0..=3_600_000))]
    pub(crate) work_ms: u64,
    /// Number of iterations
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub(crate) iterations: u64,
    /// Size of the prototypes in bytes
    #[arg(long, default_value_t = 8_000_000, value_name = "N", value_parser = value_parser!(u64).range(8..=1 << 30))]
    pub(crate) bytes: u64,
    /// The bucket, for example file:///mnt/share/qjam
    #[arg(long, value_name = "URL")]
    pub(crate) store: String,
    /// Number of slow mappers
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) slow: u32,
    /// How many times as long slow mappers work
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = value_parser!(u32).range(1..=1000))]
    pub(crate) slowness: u32,
    /// Nobody runs a late task a second time
    #[arg(long)]
    pub(crate) no_backups: bool,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Rounds {
    /// Workers, as a worker string: see `qjam --help`
    #[arg(long, value_name = "WORKERS")]
    pub(crate) workers: String,
    /// Print afterwards what was measured and which workers were chosen, with `auto`; and functions with very long results
    #[arg(long)]
    pub(crate) explain: bool,
    /// Number of doubles sent each way
    #[arg(long, default_value_t = 8, value_name = "D", value_parser = value_parser!(u64).range(0..=1 << 28))]
    pub(crate) doubles: u64,
    /// Number of rounds to time
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = value_parser!(u64).range(1..=10_000_000))]
    pub(crate) rounds: u64,
    /// How long every worker sleeps in every round, in milliseconds
    #[arg(long, default_value_t = 0, value_name = "MS", value_parser = value_parser!(u64).range(0..=3_600_000))]
    pub(crate) sleep_ms: u64,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Serve a page about the run while it goes on, for a browser on this machine, and print its link
    #[arg(long)]
    pub(crate) dashboard: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Transfer {
    /// Workers, as a worker string: see `qjam --help`
    #[arg(long, value_name = "WORKERS")]
    pub(crate) workers: String,
    /// Print afterwards what was measured and which workers were chosen, with `auto`; and functions with very long results
    #[arg(long)]
    pub(crate) explain: bool,
    /// Size of the data in MiB
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = value_parser!(u64).range(1..=1 << 24))]
    pub(crate) mib: u64,
    /// Send the data as a single chunk
    #[arg(long)]
    pub(crate) one_chunk: bool,
    /// Send a vector of parameters instead of data
    #[arg(long, conflicts_with = "one_chunk")]
    pub(crate) vector: bool,
    /// Also send the same bytes to this host through plain ssh, and compare
    #[arg(long, value_name = "HOST")]
    pub(crate) beside: Option<String>,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Serve a page about the run while it goes on, for a browser on this machine, and print its link
    #[arg(long)]
    pub(crate) dashboard: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Auto {
    /// Workers to choose from, as a worker string
    #[arg(long, value_name = "WORKERS")]
    pub(crate) workers: String,
    /// Skip jobs larger than this many MiB
    #[arg(long, value_name = "N")]
    pub(crate) mib_max: Option<u64>,
    /// Fail if `auto` takes more than 1.25 times as long as the best fixed choice
    #[arg(long)]
    pub(crate) check: bool,
    /// Print for each job what was measured and what was chosen
    #[arg(long)]
    pub(crate) explain: bool,
    /// Print one line of JSON per size
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Autoencoder {
    /// Number of patches
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = value_parser!(u64).range(1..=10_000_000))]
    pub(crate) patches: u64,
    /// Workers, as a worker string: see `qjam --help`
    #[arg(long, value_name = "WORKERS")]
    pub(crate) workers: String,
    /// Read the patches from this .npy file, which is created if it does not exist. Then only the training is measured, with
    /// its memory use
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Memory limit of each worker process: a number, with K, M, G or T for powers of 1024
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) memory_limit: Option<u64>,
    /// Print afterwards what was measured and which workers were chosen, with `auto`; and functions with very long results
    #[arg(long)]
    pub(crate) explain: bool,
    /// Number of evaluations of cost and gradient
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = value_parser!(u32).range(10..=1_000_000))]
    pub(crate) evaluations: u32,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Serve a page about the run while it goes on, for a browser on this machine, and print its link
    #[arg(long)]
    pub(crate) dashboard: bool,
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
