//! What can be typed about `qjam bench cocoa`.

use clap::{Args, ValueEnum, value_parser};
use qjam_algos::linear::Combine;
use std::path::PathBuf;

pub(super) const HELP: &str = "\
Minimises ½‖Aα − b‖² + λ (η/2 ‖α‖² + (1 − η) ‖α‖₁): η = 1 is ridge, η = 0 is lasso. Columns of A lie in partitions; in every \
round each partition goes downhill on its own columns, and one vector as long as b is exchanged.

H, the work between two exchanges, is told as a share of the columns of a partition: with --h 0.5 half of them are visited \
in a round, with --h 2 all of them twice. What is not given of --h and --sigma is chosen while it runs, and --explain says how.

Reading, dealing out columns and bringing them to the workers is not measured. `seconds` is from the first round to the \
last: `worker_s` the slowest partition's computing, `master_s` what the master does itself, `overhead_s` the rest, with \
the delay if there is one. `objective` and `gap` are computed from the data and the coefficients afterwards: no point is \
lower than the objective by more than the gap. `h` and `sigma` are the last that were used; `hash` is of the coefficients' bits.

Examples:
  qjam bench cocoa x.npz --labels b.npy --lambda 1 --eta 1 --target 4321.5 --workers local:2 --json
  qjam bench cocoa x.svm --lambda 0.05 --eta 0 --workers proc:2 --explain
  qjam bench cocoa x.svm --lambda 1 --eta 1 --workers big,small --delay-ms 5 --choices run.jsonl
  qjam bench cocoa x.svm --lambda 1 --eta 1 --workers local:1 --partitions 3 --replay run.jsonl
  mpirun -n 2 qjam bench cocoa x.svm --lambda 1 --eta 1 --engine mpi --h 0.5 --sigma 2";

/// `qjam bench cocoa`.
#[derive(Debug, Args)]
pub(crate) struct BenchCocoa {
    /// The matrix A: a LIBSVM file, or a sparse matrix that SciPy saved as .npz; any other file of rows is taken, too
    #[arg(value_name = "DATA")]
    pub(crate) data: PathBuf,
    /// The targets b, one for each row, as NumPy saved them; those of the LIBSVM file if nobody says
    #[arg(long, value_name = "B.npy")]
    pub(crate) labels: Option<PathBuf>,
    /// λ, over 0
    #[arg(long, value_name = "L", allow_negative_numbers = true)]
    pub(crate) lambda: f64,
    /// η, from 0 (lasso) to 1 (ridge)
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    pub(crate) eta: f64,
    /// Stop when the objective is at most this, and not at a certificate
    #[arg(long, value_name = "OBJECTIVE", allow_negative_numbers = true)]
    pub(crate) target: Option<f64>,
    /// Without a target: stop when the duality gap is at most this share of the objective
    #[arg(long, value_name = "SHARE", default_value_t = 1e-4, allow_negative_numbers = true)]
    pub(crate) tol: f64,
    /// Where the work is done
    #[arg(long, value_name = "WORKERS", required_unless_present = "engine")]
    pub(crate) workers: Option<String>,
    /// `mpi`: the same as --workers mpi, on all ranks of mpirun
    #[arg(long, value_name = "ENGINE", conflicts_with = "workers", value_parser = ["mpi"])]
    pub(crate) engine: Option<String>,
    /// How many parts the columns are dealt into; as many as workers have slots if nobody says. The bits follow from it
    #[arg(long, value_name = "K", value_parser = value_parser!(u32).range(1..=1 << 20))]
    pub(crate) partitions: Option<u32>,
    /// Visit so many times a partition's columns between two exchanges, instead of choosing it; where --combine is not
    /// searched, σ' is as many as partitions then if nobody says
    #[arg(long, value_name = "H", conflicts_with = "replay", allow_negative_numbers = true)]
    pub(crate) h: Option<f64>,
    /// By how much partitions allow for each other, from 1 to their number, instead of choosing it
    #[arg(long, value_name = "S", conflicts_with = "replay", allow_negative_numbers = true)]
    pub(crate) sigma: Option<f64>,
    /// What is done with the partitions' changes
    #[arg(long, value_enum, default_value_t = CombineArg::Searched)]
    pub(crate) combine: CombineArg,
    /// Most rounds
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Wait so long in every round, as if the exchange took longer
    #[arg(long, value_name = "D", default_value_t = 0.0, value_parser = delay_ms, allow_negative_numbers = true)]
    pub(crate) delay_ms: f64,
    /// Seed of the order in which columns are visited
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// File for every choice of H and σ', one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) choices: Option<PathBuf>,
    /// Choose as such a file says, which gives the same bits
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
    /// File for the coefficients, as NumPy reads it
    #[arg(long, value_name = "A.npy")]
    pub(crate) out: Option<PathBuf>,
    /// Say every choice of H and σ' and why it was made
    #[arg(long)]
    pub(crate) explain: bool,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CombineArg {
    /// Added, and then gone along as far as pays
    Searched,
    /// Added as they are
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
