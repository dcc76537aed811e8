//! Arguments of `qjam evaluate`.

use super::{Data, bytes};
use clap::Args;
use std::path::PathBuf;

pub(super) const HELP: &str = "\
What is measured follows from the model:
  classes         accuracy; precision, recall and F1 of each class; the confusion
                  matrix; log loss if the model has probabilities; ROC AUC if it
                  has probabilities or decision values, for more than two classes
                  the mean of each class against the rest
  values          R², mean squared error, its root, mean absolute error
  clusters        rows of each cluster; inertia, or the model's own score;
                  silhouette
  decompositions  the share of the variance of these rows that is left in what
                  the model gives back

DATA is read in rounds and may be larger than memory. The targets, and the scores that a ROC curve is made of (up to 24 bytes \
a row), are kept by this process; a curve is counted exactly, whatever the number of workers. A silhouette compares all pairs \
of rows, so it is made of --sample rows.

Examples:
  qjam evaluate homes.model homes.csv --target price
  qjam evaluate digits.model test.npy --labels test-classes.npy --json
  qjam evaluate mails.model new.svm --picture mails.svg
  qjam evaluate x.model x.npy --sample 5000 --seed 1";

/// `qjam evaluate`.
#[derive(Debug, Args)]
pub(crate) struct Evaluate {
    /// The model file
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) data: Data,
    /// The targets: an .npy or text file with one number per row. For a table use --target instead; LIBSVM files contain them
    #[arg(long, value_name = "FILE")]
    pub(crate) labels: Option<PathBuf>,
    /// SVG file to draw: the confusion matrix and ROC curves, predicted against true values, or the rows of each cluster
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) picture: Option<PathBuf>,
    /// How many rows a silhouette and the points of a picture are made of at most
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(2..=100_000))]
    pub(crate) sample: u64,
    /// Chooses these rows
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Workers, as a worker string: see `qjam --help`
    #[arg(long, default_value = "local", value_name = "WORKERS")]
    pub(crate) workers: String,
    /// Memory limit of each worker process: a number, with K, M, G or T for powers of 1024. This process chooses how much it
    /// keeps of the data accordingly, but nothing holds it to the limit, nor the threads of `local`: use `proc` for that
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) memory_limit: Option<u64>,
    /// Most bytes that the cache on the disk of each host may take: a number, with K, M, G or T for powers of 1024; by default
    /// what `qjam cache --cap` has set there
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) host_cache: Option<u64>,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Tell what happens while it works, one line of JSON for each event on standard error, which has nothing else
    #[arg(long)]
    pub(crate) events: bool,
}
