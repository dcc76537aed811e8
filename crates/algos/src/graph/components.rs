//! Weakly connected components: which vertices reach each other if edges have no direction.
//!
//! Every vertex has a label, at first its own place, and takes the smallest of its neighbours'. Within a partition labels spread
//! as far as they go in one round; between partitions they travel by mail, until nobody has anything to send. So the number of
//! rounds is about how often the way to a component's smallest vertex changes partitions, at most.

use super::part::Part;
use super::{Direction, Graph, GraphError};
use qjam::{Ctx, List, Master, State, Wire};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The component of every vertex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Components {
    /// Vertices and the smallest vertex of their component, in the order of the vertices.
    pub labels: Vec<(u64, u64)>,
    /// How many rounds it took.
    pub rounds: u32,
}

impl Components {
    /// The smallest vertex of each component and how many vertices it has, the largest component first.
    pub fn sizes(&self) -> Vec<(u64, usize)> {
        let mut sizes = BTreeMap::new();
        self.labels.iter().for_each(|(_, label)| *sizes.entry(*label).or_insert(0) += 1);
        let mut sizes: Vec<(u64, usize)> = sizes.into_iter().collect();
        sizes.sort_by_key(|(label, size)| (usize::MAX - size, *label));
        sizes
    }
}

/// The labels of a partition's vertices.
#[derive(Clone, Wire)]
struct Labels(Vec<u32>);

impl State for Labels {
    type Chunk = List<Part>;

    fn init(part: &List<Part>, _: &Ctx) -> Self {
        let part = &part[0];
        Labels((part.first..part.first + part.vertices() as u32).collect())
    }
}

/// New labels for some of the vertices that a partition's letters are about.
#[derive(Wire)]
struct News {
    /// Which of them.
    places: Vec<u32>,
    labels: Vec<u32>,
}

/// Spreads labels from vertices whose labels are new: all of them in the first round. Gives how many labels were sent.
#[qjam::map]
fn spread(is_first: &bool, part: &List<Part>, labels: &mut Labels, ctx: &Ctx) -> u64 {
    let (part, labels) = (&part[0], &mut labels.0);
    let mut changed: Vec<u32> = if *is_first { (0..part.vertices() as u32).collect() } else { Vec::new() };
    for letter in ctx.mail::<News>() {
        let own = part.incoming(letter.from);
        for (place, label) in letter.value.places.iter().zip(&letter.value.labels) {
            let vertex = own[*place as usize];
            if *label < labels[vertex as usize] {
                labels[vertex as usize] = *label;
                changed.push(vertex);
            }
        }
    }
    // The smallest label goes first and as far as it can: no vertex inside changes twice.
    changed.sort_unstable_by_key(|vertex| Reverse(labels[*vertex as usize]));
    let here = ctx.chunk();
    let inside = part.groups().find(|(partition, _)| *partition == here).map_or(0..0, |(_, entries)| entries);
    let own = part.incoming(here);
    let mut outside = vec![u32::MAX; part.table_len()];
    while let Some(vertex) = changed.pop() {
        let label = labels[vertex as usize];
        for &entry in part.edges_of(vertex as usize) {
            if inside.contains(&(entry as usize)) {
                let neighbour = own[entry as usize - inside.start];
                if label < labels[neighbour as usize] {
                    labels[neighbour as usize] = label;
                    changed.push(neighbour);
                }
            } else {
                let least = &mut outside[entry as usize];
                *least = label.min(*least);
            }
        }
    }
    let mut sent = 0;
    for (partition, entries) in part.groups().filter(|(partition, _)| *partition != here) {
        let news = (0..).zip(&outside[entries]).filter(|(_, label)| **label != u32::MAX);
        let (places, labels): (Vec<u32>, Vec<u32>) = news.map(|(place, label)| (place, *label)).unzip();
        if !places.is_empty() {
            sent += places.len() as u64;
            ctx.send(partition, &News { places, labels });
        }
    }
    sent
}

/// Finds the weakly connected components.
pub fn components(master: &Master, graph: &Graph) -> Result<Components, GraphError> {
    let parts = graph.parts(Direction::Both)?;
    let mut held = master.hold::<Labels>(&parts)?;
    let mut rounds = 1;
    let mut sent = held.run(spread, &true)?;
    while sent > 0 {
        sent = held.run(spread, &false)?;
        rounds += 1;
    }
    let labels = held.collect()?.into_iter().flat_map(|own| own.0);
    let id = |label: u32| graph.ids()[label as usize];
    let labels = graph.ids().iter().copied().zip(labels.map(id)).collect();
    Ok(Components { labels, rounds })
}
