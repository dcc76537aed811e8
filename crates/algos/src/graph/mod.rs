//! Graphs over partitions that write to each other.
//!
//! A [`Graph`] has its vertices in ranges, one per partition, with the edges that leave them. What an edge carries to a vertex
//! of another partition is combined there and goes as part of one letter ([`qjam::Ctx::send`]); which vertices its values are
//! for both sides know from the graph. The number of partitions depends on the graph alone, so all workers give one answer.
//!
//! Comes in: edges between vertices of any numbers. Goes out: a value for each vertex, in the order of their numbers.

mod components;
mod pagerank;
mod part;
#[cfg(test)]
mod tests;

pub use components::{Components, components};
pub use pagerank::{PageRank, Ranks};
pub use part::Part;

use qjam::{DataError, DataSet, List};
use thiserror::Error;

/// So many edges make a partition, up to [`OWN_CHOICE_MAX`] of them.
const EDGES_PER_PARTITION: usize = 16 << 10;
const OWN_CHOICE_MAX: usize = 64;
/// More cannot be asked for: all partitions keep lists about all others.
const PARTITIONS_MAX: usize = 1024;

/// Why there is no graph, or no answer about it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GraphError {
    /// It has no edges.
    #[error("the graph has no edges, so there is nothing to compute")]
    Empty,
    /// It has more than can be numbered.
    #[error("the graph has {found} {what}, and at most {max} can be numbered")]
    TooLarge {
        /// What there are too many of.
        what: &'static str,
        /// How many.
        found: usize,
        /// How many there may be.
        max: usize,
    },
    /// It cannot be cut into so many partitions.
    #[error("this graph can be cut into 1 to {max} partitions, not {found}")]
    Partitions {
        /// What was asked for.
        found: usize,
        /// As many as it has vertices, and at most 1024.
        max: usize,
    },
    /// An option has a value that makes no sense.
    #[error("{option} is {value}; it must be {must}")]
    Option {
        /// Which.
        option: &'static str,
        /// Its value.
        value: f64,
        /// What it must be.
        must: &'static str,
    },
    /// Its partitions could not be made.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A round failed.
    #[error(transparent)]
    Run(#[from] qjam::Error),
}

/// Which edges belong to a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Those that leave it.
    Out,
    /// Those that leave or reach it.
    Both,
}

/// A directed graph, each of its edges once.
///
/// ```
/// use qjam_algos::graph::{Graph, PageRank, components};
///
/// let graph = Graph::from_edges(&[(7, 1), (1, 9), (9, 7), (1, 7), (40, 41), (7, 1)])?;
/// assert_eq!((graph.vertices(), graph.edges(), graph.duplicates()), (5, 5, 1));
///
/// let m = qjam::Master::connect("local:2")?;
/// let ranks = PageRank::default().run(&m, &graph)?;
/// assert_eq!(ranks.top(1)[0].0, 7);
/// assert_eq!(components(&m, &graph)?.sizes(), [(1, 3), (40, 2)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Graph {
    /// The numbers of the vertices, ascending. Everywhere else a vertex is its place among them.
    ids: Vec<u64>,
    /// Ascending, each once.
    edges: Vec<(u32, u32)>,
    duplicates: usize,
    partitions: usize,
}

impl Graph {
    /// A graph of these edges, from the first vertex to the second. A vertex is whatever some edge names; edges from a vertex to
    /// itself are kept, and those that come again are dropped.
    pub fn from_edges(edges: &[(u64, u64)]) -> Result<Graph, GraphError> {
        if edges.is_empty() {
            return Err(GraphError::Empty);
        }
        let mut ids: Vec<u64> = edges.iter().flat_map(|(from, to)| [*from, *to]).collect();
        ids.sort_unstable();
        ids.dedup();
        check("vertices", ids.len())?;
        let place = |id: &u64| ids.partition_point(|other| other < id) as u32;
        let mut placed: Vec<(u32, u32)> = edges.iter().map(|(from, to)| (place(from), place(to))).collect();
        placed.sort_unstable();
        placed.dedup();
        check("edges", placed.len())?;
        let duplicates = edges.len() - placed.len();
        let partitions = (placed.len() / EDGES_PER_PARTITION).clamp(1, OWN_CHOICE_MAX).min(ids.len());
        Ok(Graph { ids, edges: placed, duplicates, partitions })
    }

    /// The same in so many partitions. Sums are rounded differently in another number of them.
    pub fn partitions(self, partitions: usize) -> Result<Graph, GraphError> {
        let max = self.ids.len().min(PARTITIONS_MAX);
        if partitions == 0 || partitions > max {
            return Err(GraphError::Partitions { found: partitions, max });
        }
        Ok(Graph { partitions, ..self })
    }

    /// The numbers of the vertices, ascending. Results are in this order.
    pub fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// How many vertices it has.
    pub fn vertices(&self) -> usize {
        self.ids.len()
    }

    /// How many edges it has.
    pub fn edges(&self) -> usize {
        self.edges.len()
    }

    /// How many edges came again and were dropped.
    pub fn duplicates(&self) -> usize {
        self.duplicates
    }

    /// Its partitions, one per chunk.
    pub fn parts(&self, direction: Direction) -> Result<DataSet<List<Part>>, GraphError> {
        let parts = match direction {
            Direction::Out => part::cut(&self.edges, self.ids.len(), self.partitions),
            Direction::Both => {
                let back = self.edges.iter().map(|(from, to)| (*to, *from));
                let mut both: Vec<(u32, u32)> = self.edges.iter().copied().chain(back).collect();
                both.sort_unstable();
                both.dedup();
                check("edges in both directions", both.len())?;
                part::cut(&both, self.ids.len(), self.partitions)
            }
        };
        Ok(DataSet::list(parts)?.chunk_records(1)?)
    }
}

fn check(what: &'static str, found: usize) -> Result<(), GraphError> {
    let max = u32::MAX as usize;
    if found > max { Err(GraphError::TooLarge { what, found, max }) } else { Ok(()) }
}
