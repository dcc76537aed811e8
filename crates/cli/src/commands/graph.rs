//! `qjam graph`: ranks and components of the graph whose edges are in a file.

use super::{placing, reading};
use crate::args::{Components, Graph, GraphArgs, Pagerank};
use crate::output;
use anyhow::{Context, ensure};
use qjam::Master;
use qjam_algos::graph::{self, PageRank};
use serde::Serialize;
use std::fmt::Display;
use std::io::Write;

/// How many vertices are printed.
const SHOWN: usize = 10;

#[derive(Serialize)]
struct RanksJson {
    vertices: usize,
    edges: usize,
    iterations: u32,
    change: f64,
    converged: bool,
    sum: f64,
    top: Vec<(u64, f64)>,
}

#[derive(Serialize)]
struct ComponentsJson {
    vertices: usize,
    edges: usize,
    rounds: u32,
    components: usize,
    largest: Vec<(u64, usize)>,
}

/// Runs the command.
pub(crate) fn run(args: &Graph) -> anyhow::Result<()> {
    match args {
        Graph::Pagerank(args) => pagerank(args),
        Graph::Components(args) => components(args),
    }
}

fn pagerank(args: &Pagerank) -> anyhow::Result<()> {
    let (master, graph) = begin(&args.graph)?;
    let options =
        PageRank { damping: args.damping, tolerance: args.tolerance, iterations_max: args.iterations };
    let found = options.run(&master, &graph)?;
    drop(master);
    write(&args.graph, found.ranks.iter())?;
    let (sum, top) = (found.sum(), found.top(SHOWN));
    let (vertices, edges) = (graph.vertices(), graph.edges());
    let graph::Ranks { iterations, change, converged, .. } = found;
    if args.graph.json {
        return output::json(&RanksJson { vertices, edges, iterations, change, converged, sum, top });
    }
    heading(&args.graph, &graph);
    let how = if converged { "converged" } else { "not converged" };
    output::line(format!(
        "{how} after {}, last change {change:.1e}; sum of ranks {sum:.6}",
        output::count(iterations.into(), "iteration")
    ));
    output::table(["vertex", "rank"], top.iter().map(|(id, rank)| [id.to_string(), format!("{rank:.6}")]));
    Ok(())
}

fn components(args: &Components) -> anyhow::Result<()> {
    let (master, graph) = begin(&args.graph)?;
    let found = graph::components(&master, &graph)?;
    drop(master);
    write(&args.graph, found.labels.iter())?;
    let mut largest = found.sizes();
    let count = largest.len();
    largest.truncate(SHOWN);
    let (vertices, edges, rounds) = (graph.vertices(), graph.edges(), found.rounds);
    if args.graph.json {
        return output::json(&ComponentsJson { vertices, edges, rounds, components: count, largest });
    }
    heading(&args.graph, &graph);
    let (found, rounds) = (output::count(count as u64, "component"), output::count(rounds.into(), "round"));
    output::line(format!("{found} after {rounds}"));
    output::table(
        ["smallest vertex", "vertices"],
        largest.iter().map(|(id, size)| [id.to_string(), size.to_string()]),
    );
    Ok(())
}

/// Reads the graph and connects.
fn begin(args: &GraphArgs) -> anyhow::Result<(Master, graph::Graph)> {
    let shown = args.edges.display();
    ensure!(args.edges.exists(), "{shown} does not exist; check the path of the file of edges");
    if let Some(path) = &args.out {
        reading::can_be_written("--out", path)?;
        let is_input = path.exists() && path.canonicalize()? == args.edges.canonicalize()?;
        ensure!(!is_input, "--out {shown} is the file of edges and would be lost; name another file");
    }
    let graph = graph::Graph::from_edges(&qjam_readers::edges(&args.edges)?)?;
    let graph = match args.partitions {
        Some(partitions) => graph.partitions(partitions as usize)?,
        None => graph,
    };
    if graph.duplicates() > 0 {
        output::note(&format!(
            "{} came again and {} dropped",
            output::count(graph.duplicates() as u64, "edge"),
            if graph.duplicates() == 1 { "was" } else { "were" }
        ));
    }
    let builder = Master::builder().on_wait(|waiting| output::waiting(&waiting.to_string()));
    Ok((builder.connect(&args.workers)?, graph))
}

/// Writes the result, if that is wanted.
fn write<'a, V: Display + 'a>(
    args: &GraphArgs,
    lines: impl Iterator<Item = &'a (u64, V)>,
) -> anyhow::Result<()> {
    let Some(path) = &args.out else { return Ok(()) };
    let mut lines = lines;
    placing::write(path, |out| lines.try_for_each(|(id, value)| writeln!(out, "{id}\t{value}")))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn heading(args: &GraphArgs, graph: &graph::Graph) {
    output::heading(&format!(
        "{}: {}, {}",
        args.edges.display(),
        match graph.vertices() {
            1 => "1 vertex".into(),
            n => format!("{n} vertices"),
        },
        output::count(graph.edges() as u64, "edge")
    ));
}
