//! Arrows between names, and the cycles among them.

use std::collections::{BTreeMap, BTreeSet};

/// Who uses whom, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    arrows: BTreeMap<String, BTreeMap<String, u32>>,
}

impl Graph {
    /// A node, with or without arrows.
    pub fn node(&mut self, name: &str) {
        self.arrows.entry(name.to_owned()).or_default();
    }

    /// One more use of `to` by `from`. A use of itself is none.
    pub fn arrow(&mut self, from: &str, to: &str) {
        self.node(from);
        self.node(to);
        if from != to {
            *self.arrows.entry(from.to_owned()).or_default().entry(to.to_owned()).or_default() += 1;
        }
    }

    /// All nodes, in alphabetical order.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.arrows.keys().map(String::as_str)
    }

    /// Whom a node uses, and how often.
    pub fn uses(&self, from: &str) -> impl Iterator<Item = (&str, u32)> {
        self.arrows.get(from).into_iter().flatten().map(|(to, n)| (to.as_str(), *n))
    }

    /// All arrows.
    pub fn arrows(&self) -> impl Iterator<Item = (&str, &str)> {
        self.arrows.iter().flat_map(|(from, to)| to.keys().map(|to| (from.as_str(), to.as_str())))
    }

    /// The same without one arrow.
    pub fn remove(&mut self, from: &str, to: &str) -> bool {
        self.arrows.get_mut(from).is_some_and(|uses| uses.remove(to).is_some())
    }

    /// Groups of nodes that reach one another; each is at least one cycle.
    pub fn knots(&self) -> Vec<BTreeSet<&str>> {
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            self.nodes().map(|node| (node, self.reached(node))).collect();
        let mut knots: Vec<BTreeSet<&str>> = Vec::new();
        for node in self.nodes() {
            if knots.iter().any(|knot| knot.contains(node)) || !reach[node].contains(node) {
                continue;
            }
            knots.push(reach[node].iter().copied().filter(|other| reach[other].contains(node)).collect());
        }
        knots
    }

    /// All nodes that are reached from one by at least one arrow.
    fn reached<'g>(&'g self, from: &str) -> BTreeSet<&'g str> {
        let mut reached = BTreeSet::new();
        let mut left: Vec<&str> = self.uses(from).map(|(to, _)| to).collect();
        while let Some(node) = left.pop() {
            if reached.insert(node) {
                left.extend(self.uses(node).map(|(to, _)| to));
            }
        }
        reached
    }

    /// A shortest way from a node back to itself.
    pub fn cycle(&self, node: &str) -> Option<Vec<String>> {
        let mut ways: Vec<Vec<&str>> = vec![vec![node]];
        let mut seen = BTreeSet::new();
        let mut at = 0;
        while let Some(way) = ways.get(at).cloned() {
            at += 1;
            let last = way.last().copied()?;
            for (to, _) in self.uses(last) {
                if to == node {
                    return Some(way.iter().copied().chain([to]).map(str::to_owned).collect());
                }
                if seen.insert(to) {
                    ways.push([&way[..], &[to]].concat());
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(arrows: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::default();
        arrows.iter().for_each(|(from, to)| graph.arrow(from, to));
        graph
    }

    #[test]
    fn a_graph_that_only_goes_down_has_no_knots() {
        let graph = graph(&[("a", "b"), ("b", "c"), ("a", "c"), ("a", "a")]);
        assert!(graph.knots().is_empty());
        assert_eq!(graph.cycle("a"), None);
        assert_eq!(graph.arrows().count(), 3, "a use of itself is no arrow");
    }

    #[test]
    fn knots_are_found_with_their_shortest_cycle() {
        let graph =
            graph(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "c"), ("x", "a"), ("y", "x")]);
        assert_eq!(graph.knots(), [BTreeSet::from(["a", "b", "c", "d"])]);
        assert_eq!(graph.cycle("d").unwrap().join(" "), "d c d");
        assert_eq!(graph.cycle("a").unwrap().join(" "), "a b c a");
    }

    #[test]
    fn an_arrow_that_is_taken_out_opens_a_knot() {
        let mut graph = graph(&[("a", "b"), ("b", "a")]);
        assert!(graph.remove("b", "a") && !graph.remove("b", "a"));
        assert!(graph.knots().is_empty());
    }
}
