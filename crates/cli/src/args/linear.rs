//! Arguments of `qjam bench cocoa`. Parses and bounds single values; what they mean together is checked by the command.

use clap::{Args, ValueEnum, value_parser};
use qjam_algos::linear::{Combine, Tuning};
use std::path::PathBuf;

pub(super) const HELP: &str = "\
Minimises ½‖Aα − b‖² + λ (η/2 ‖α‖² + (1 − η) ‖α‖₁): η = 1 is ridge, η = 0 is lasso. The columns of A are divided into partitions. In \
every round each partition descends on its own columns, and one vector as long as b is exchanged.

H, the work between two exchanges, is given as a share of a partition's columns: --h 0.5 visits half of them per round, \
--h 2 visits all of them twice. If --h or --sigma is not given, it is chosen during the run, by counted work or, with --tuning clock, \
by measured time; --explain prints the choices.

The time excludes reading the data, partitioning the columns and sending them to the workers. `seconds` runs from the first \
round to the last: `worker_s` is the computing time of the slowest partition, `master_s` the master's own work, `overhead_s` \
the rest, including --delay-ms. `objective` and `gap` are computed afterwards from the data and the coefficients: the \
minimum is at most `gap` below `objective`. `h` and `sigma` are the last values used; `hash` is the hash of the coefficients.

Examples:
  qjam bench cocoa x.npz --labels b.npy --lambda 1 --eta 1 --target 4321.5 --workers local:2 --json
  qjam bench cocoa x.svm --lambda 0.05 --eta 0 --workers proc:2 --explain
  qjam bench cocoa x.svm --lambda 1 --eta 1 --workers big,small --tuning clock --delay-ms 5 --choices run.jsonl
  qjam bench cocoa x.svm --lambda 1 --eta 1 --workers local:1 --replay run.jsonl
  mpirun -n 2 qjam bench cocoa x.svm --lambda 1 --eta 1 --engine mpi --h 0.5 --sigma 2";

/// `qjam bench cocoa`.
#[derive(Debug, Args)]
pub(crate) struct BenchCocoa {
    /// The matrix A: a LIBSVM file, a sparse matrix saved by SciPy as .npz, or any other file of rows
    #[arg(value_name = "DATA")]
    pub(crate) data: PathBuf,
    /// The targets b, an .npy file with one number per row; by default the labels of the LIBSVM file
    #[arg(long, value_name = "B.npy")]
    pub(crate) labels: Option<PathBuf>,
    /// λ, greater than 0
    #[arg(long, value_name = "L", allow_negative_numbers = true)]
    pub(crate) lambda: f64,
    /// η, from 0 (lasso) to 1 (ridge)
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    pub(crate) eta: f64,
    /// Stop when the objective is at most this, instead of by the duality gap
    #[arg(long, value_name = "OBJECTIVE", allow_negative_numbers = true)]
    pub(crate) target: Option<f64>,
    /// Without a target: stop when the duality gap is at most this share of the objective
    #[arg(long, value_name = "SHARE", default_value_t = 1e-4, allow_negative_numbers = true)]
    pub(crate) tol: f64,
    /// Workers, as a worker string: see `qjam --help`
    #[arg(long, value_name = "WORKERS", required_unless_present = "engine")]
    pub(crate) workers: Option<String>,
    /// `mpi`: the same as --workers mpi, on all ranks of mpirun
    #[arg(long, value_name = "ENGINE", conflicts_with = "workers", value_parser = ["mpi"])]
    pub(crate) engine: Option<String>,
    /// Number of partitions of the columns; by default it follows from the size of the data. The result depends on it
    #[arg(long, value_name = "K", value_parser = value_parser!(u32).range(1..=1 << 20))]
    pub(crate) partitions: Option<u32>,
    /// Work between two exchanges, as a multiple of a partition's columns, instead of choosing it. If --combine is not
    /// `searched`, σ' then defaults to the number of partitions
    #[arg(long, value_name = "H", conflicts_with = "replay", allow_negative_numbers = true)]
    pub(crate) h: Option<f64>,
    /// σ': how cautious partitions are about each other's changes, from 1 to their number, instead of choosing it
    #[arg(long, value_name = "S", conflicts_with = "replay", allow_negative_numbers = true)]
    pub(crate) sigma: Option<f64>,
    /// What is taken as the cost of a round when H and σ' are chosen
    #[arg(long, value_enum, default_value_t = TuningArg::Counted)]
    pub(crate) tuning: TuningArg,
    /// How the changes of the partitions are combined
    #[arg(long, value_enum, default_value_t = CombineArg::Searched)]
    pub(crate) combine: CombineArg,
    /// Maximum number of rounds
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Extra delay per round in milliseconds, to simulate a slower exchange
    #[arg(long, value_name = "D", default_value_t = 0.0, value_parser = delay_ms, allow_negative_numbers = true)]
    pub(crate) delay_ms: f64,
    /// Seed for the order in which columns are visited
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// File to write every choice of H and σ' to, one JSON object per line
    #[arg(long, value_name = "FILE")]
    pub(crate) choices: Option<PathBuf>,
    /// Repeat the choices in a file written by --choices, which gives the same bits
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
    /// .npy file to write the coefficients to
    #[arg(long, value_name = "A.npy")]
    pub(crate) out: Option<PathBuf>,
    /// Print every choice of H and σ' with its reason
    #[arg(long)]
    pub(crate) explain: bool,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Serve a page about the run while it goes on, for a browser on this machine, and print its link
    #[arg(long)]
    pub(crate) dashboard: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum TuningArg {
    /// The work that was done, at fixed prices: the same choices and bits in every run
    Counted,
    /// Measured time: choices and bits differ between runs
    Clock,
}

impl From<TuningArg> for Tuning {
    fn from(arg: TuningArg) -> Tuning {
        match arg {
            TuningArg::Counted => Tuning::Counted,
            TuningArg::Clock => Tuning::Clock,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CombineArg {
    /// Added, then moved to the best point in the plane of this change and the previous one
    Searched,
    /// Added without scaling
    Added,
    /// Averaged
    Averaged,
}

impl From<CombineArg> for Combine {
    fn from(arg: CombineArg) -> Combine {
        match arg {
            CombineArg::Searched => Combine::Searched,
            CombineArg::Added => Combine::Added,
            CombineArg::Averaged => Combine::Averaged,
        }
    }
}

fn delay_ms(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|ms| (0.0..=60_000.0).contains(ms));
    number.ok_or_else(|| "give milliseconds, from 0 to 60000".into())
}
