//! PageRank: a vertex is as important as those that point to it.
//!
//! The rank of v is 1 − d + d · Σ rank(u) / outdegree(u), over the edges u → v. Ranks begin with 1; nothing is given back for
//! vertices without edges, and the ranks do not add up to a fixed number. One iteration is one round: every partition reads
//! the sums of its vertices from its mail, and sends what its own vertices give to others.

use super::part::Part;
use super::{Direction, Graph, GraphError};
use qjam::{Ctx, List, Master, State, Wire};

/// How PageRank is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageRank {
    /// d above, from 0 up to but not including 1; by default 0.85.
    pub damping: f64,
    /// It ends when ranks change by less than this in the mean; by default 1e-12.
    pub tolerance: f64,
    /// It ends after so many iterations in any case; by default 1000.
    pub iterations_max: u32,
}

impl Default for PageRank {
    fn default() -> Self {
        PageRank { damping: 0.85, tolerance: 1e-12, iterations_max: 1000 }
    }
}

/// The rank of every vertex.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranks {
    /// Vertices and their ranks, in the order of the vertices.
    pub ranks: Vec<(u64, f64)>,
    /// How many iterations it took.
    pub iterations: u32,
    /// By how much ranks changed in the last one, in the mean.
    pub change: f64,
    /// Whether that is below the tolerance.
    pub converged: bool,
}

impl Ranks {
    /// The sum of all ranks.
    pub fn sum(&self) -> f64 {
        self.ranks.iter().map(|(_, rank)| rank).sum()
    }

    /// The first vertices by rank, the highest first; of equal ones the smallest number.
    pub fn top(&self, count: usize) -> Vec<(u64, f64)> {
        let mut all = self.ranks.clone();
        all.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(a.cmp(b)));
        all.truncate(count);
        all
    }
}

/// The ranks of a partition's vertices.
#[derive(Clone, Wire)]
struct OwnRanks(Vec<f64>);

impl State for OwnRanks {
    type Chunk = List<Part>;

    fn init(part: &List<Part>, _: &Ctx) -> Self {
        OwnRanks(vec![1.0; part[0].vertices()])
    }
}

#[derive(Wire)]
struct Iteration {
    damping: f64,
    /// The first one has no mail to begin with, and changes nothing.
    is_first: bool,
}

/// Takes in what the neighbours sent, and sends what the new ranks give to theirs. Gives the sum of all changes.
#[qjam::map]
fn iterate(task: &Iteration, part: &List<Part>, ranks: &mut OwnRanks, ctx: &Ctx) -> f64 {
    let part = &part[0];
    let mut change = 0.0;
    if !task.is_first {
        let mut sums = vec![0.0; part.vertices()];
        for letter in ctx.mail::<Vec<f64>>() {
            let places = part.incoming(letter.from);
            places.iter().zip(&letter.value).for_each(|(place, value)| sums[*place as usize] += value);
        }
        for (rank, sum) in ranks.0.iter_mut().zip(sums) {
            let new = 1.0 - task.damping + task.damping * sum;
            change += (new - *rank).abs();
            *rank = new;
        }
    }
    let mut table = vec![0.0; part.table_len()];
    for (vertex, rank) in ranks.0.iter().enumerate() {
        let edges = part.edges_of(vertex);
        let share = rank / edges.len() as f64;
        edges.iter().for_each(|entry| table[*entry as usize] += share);
    }
    for (partition, entries) in part.groups() {
        ctx.send(partition, &table[entries].to_vec());
    }
    change
}

impl PageRank {
    /// Computes the ranks. Not converging is an outcome, not an error.
    pub fn run(&self, master: &Master, graph: &Graph) -> Result<Ranks, GraphError> {
        let &PageRank { damping, tolerance, iterations_max } = self;
        let wrong = |option, value, must| Err(GraphError::Option { option, value, must });
        if !(0.0..1.0).contains(&damping) {
            return wrong("damping", damping, "at least 0 and below 1");
        }
        if tolerance.is_nan() || tolerance < 0.0 {
            return wrong("tolerance", tolerance, "at least 0");
        }
        let parts = graph.parts(Direction::Out)?;
        let mut held = master.hold::<OwnRanks>(&parts)?;
        held.run(iterate, &Iteration { damping, is_first: true })?;
        let (mut iterations, mut change) = (0, f64::INFINITY);
        while iterations < iterations_max && change >= tolerance {
            change = held.run(iterate, &Iteration { damping, is_first: false })? / graph.vertices() as f64;
            iterations += 1;
        }
        let ranks = held.collect()?.into_iter().flat_map(|own| own.0);
        let ranks = graph.ids().iter().copied().zip(ranks).collect();
        Ok(Ranks { ranks, iterations, change, converged: change < tolerance })
    }
}
