//! Arguments of `qjam graph`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

pub(super) const HELP: &str = "\
EDGES is a text file with an edge on each line, from which vertex to which: two whole numbers from 0 to 18446744073709551615, \
separated by spaces, tabs, commas or semicolons; optionally compressed by gzip or zstd. Lines that begin with # or % are \
skipped. Edges that come again are dropped.

The graph is kept by this process and divided among the workers; its partitions send each other mail. The result has the same \
bits on all workers.

Examples:
  qjam graph pagerank wiki-Vote.tsv.gz --out ranks.tsv
  qjam graph components roads.txt --workers proc:2 --out components.tsv --json";

/// `qjam graph …`.
#[derive(Debug, Subcommand)]
pub(crate) enum Graph {
    /// How important each vertex is: 1 - d + d times the sum of rank / out-edges of those that point to it
    Pagerank(Pagerank),
    /// Which vertices reach each other if edges have no direction: each gets the smallest vertex of its component
    Components(Components),
}

/// What both take.
#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// The edges
    #[arg(value_name = "EDGES")]
    pub(crate) edges: PathBuf,
    /// File for the result: a line for each vertex, in ascending order, with a tab in between
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// How many partitions the graph is cut into, at most 1024; by default one for 16384 edges, at most 64. Sums are rounded
    /// differently in another number of them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) partitions: Option<u32>,
    /// Workers, as a worker string: see `qjam --help`
    #[arg(long, default_value = "local", value_name = "WORKERS")]
    pub(crate) workers: String,
    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `qjam graph pagerank`.
#[derive(Debug, Args)]
pub(crate) struct Pagerank {
    #[command(flatten)]
    pub(crate) graph: GraphArgs,
    /// d: how much of its rank a vertex gives away, from 0 up to but not including 1
    #[arg(long, value_name = "D", default_value_t = 0.85)]
    pub(crate) damping: f64,
    /// End when ranks change by less than this in the mean
    #[arg(long, value_name = "CHANGE", default_value_t = 1e-12)]
    pub(crate) tolerance: f64,
    /// End after so many iterations in any case
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) iterations: u32,
}

/// `qjam graph components`.
#[derive(Debug, Args)]
pub(crate) struct Components {
    #[command(flatten)]
    pub(crate) graph: GraphArgs,
}

impl Graph {
    /// The workers, as they were typed.
    pub(crate) fn workers(&mut self) -> &mut String {
        match self {
            Graph::Pagerank(args) => &mut args.graph.workers,
            Graph::Components(args) => &mut args.graph.workers,
        }
    }
}
