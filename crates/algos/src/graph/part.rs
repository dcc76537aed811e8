//! Partitions of a graph: vertices, the edges that leave them, and where what these carry goes.
//!
//! A partition has a *table* with an entry for each vertex that its edges reach, grouped by the partitions of these vertices. A
//! letter has the values of one group. The receiver knows the vertices of each group, so no letter names them.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A range of vertices with their edges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The first of its vertices among all.
    pub(super) first: u32,
    /// Where the edges of each vertex begin, and where those of the last one end.
    offsets: Vec<u32>,
    /// For each edge, its entry of the table.
    entries: Vec<u32>,
    /// Where the group of each partition begins in the table, and where the last one ends.
    groups: Vec<u32>,
    /// For each partition, the own vertices that its letters have values for, in order, counted from the first.
    incoming: Vec<Vec<u32>>,
}

impl Part {
    /// How many vertices it has.
    pub(super) fn vertices(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The table entries of a vertex's edges.
    pub(super) fn edges_of(&self, vertex: usize) -> &[u32] {
        &self.entries[self.offsets[vertex] as usize..self.offsets[vertex + 1] as usize]
    }

    /// Length of the table.
    pub(super) fn table_len(&self) -> usize {
        self.groups.last().map_or(0, |end| *end as usize)
    }

    /// The table entries of each partition that has some.
    pub(super) fn groups(&self) -> impl Iterator<Item = (u32, Range<usize>)> + '_ {
        let group = |(partition, ends): (u32, &[u32])| (partition, ends[0] as usize..ends[1] as usize);
        (0..).zip(self.groups.windows(2)).map(group).filter(|(_, entries)| !entries.is_empty())
    }

    /// The own vertices that a partition's letters are about, in the order of its table.
    pub(super) fn incoming(&self, from: u32) -> &[u32] {
        self.incoming.get(from as usize).map_or(&[], Vec::as_slice)
    }
}

/// Cuts a graph of so many vertices into so many ranges of about equal work. The edges ascend.
pub(super) fn cut(edges: &[(u32, u32)], vertices: usize, partitions: usize) -> Vec<Part> {
    let firsts = ranges(edges, vertices, partitions);
    let owner = |vertex: u32| firsts.partition_point(|first| *first <= vertex) - 1;
    let mut parts = Vec::with_capacity(partitions);
    let mut tables = Vec::with_capacity(partitions);
    // The entry of each vertex in the table at hand.
    let mut entry_of = vec![0_u32; vertices];
    for n in 0..partitions {
        let (first, end) = (firsts[n], firsts.get(n + 1).map_or(vertices as u32, |first| *first));
        let begin = edges.partition_point(|(from, _)| *from < first);
        let own = &edges[begin..edges.partition_point(|(from, _)| *from < end)];
        let mut table: Vec<u32> = own.iter().map(|(_, to)| *to).collect();
        table.sort_unstable();
        table.dedup();
        (0..).zip(&table).for_each(|(entry, to)| entry_of[*to as usize] = entry);
        let offset = |vertex: u32| own.partition_point(|(from, _)| *from < vertex) as u32;
        let groups = firsts.iter().map(|first| table.partition_point(|to| to < first) as u32);
        parts.push(Part {
            first,
            offsets: (first..=end).map(offset).collect(),
            entries: own.iter().map(|(_, to)| entry_of[*to as usize]).collect(),
            groups: groups.chain([table.len() as u32]).collect(),
            incoming: vec![Vec::new(); partitions],
        });
        tables.push(table);
    }
    for (from, table) in tables.into_iter().enumerate() {
        for to in table {
            let part = &mut parts[owner(to)];
            let place = to - part.first;
            part.incoming[from].push(place);
        }
    }
    parts
}

/// The first vertex of each partition, so that all have about as many vertices and edges together, and none is empty.
fn ranges(edges: &[(u32, u32)], vertices: usize, partitions: usize) -> Vec<u32> {
    let all = (edges.len() + vertices) as u64;
    let mut firsts = vec![0];
    let (mut vertex, mut edge) = (0, 0);
    for n in 1..partitions {
        let share = all * n as u64 / partitions as u64;
        let last = vertices - (partitions - n);
        let least = firsts[n - 1] as usize + 1;
        while vertex < last && (vertex < least || ((vertex + edge) as u64) < share) {
            while edge < edges.len() && edges[edge].0 as usize == vertex {
                edge += 1;
            }
            vertex += 1;
        }
        firsts.push(vertex as u32);
    }
    firsts
}
