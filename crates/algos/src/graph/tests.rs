//! Graphs against serial answers that know nothing of partitions.

use super::*;
use qjam::{Master, Rng};
use std::collections::BTreeMap;

/// A few vertices with many edges and many with few, in several components, with gaps between the numbers.
fn generated(seed: u64, vertices: u64, edges: usize) -> Vec<(u64, u64)> {
    let mut rng = Rng::keyed(seed, 0, 0);
    let mut draw = |group: u64| {
        let skewed = (rng.below(vertices) * rng.below(vertices)) / vertices;
        (group << 40) + skewed * 3
    };
    (0..edges as u64).map(|n| (draw(n % 3), draw(n % 3))).collect()
}

fn serial_ranks(edges: &[(u64, u64)], iterations: u32) -> BTreeMap<u64, f64> {
    let mut targets: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut unique = edges.to_vec();
    unique.sort_unstable();
    unique.dedup();
    for (from, to) in unique {
        targets.entry(from).or_default().push(to);
        targets.entry(to).or_default();
    }
    let mut ranks: BTreeMap<u64, f64> = targets.keys().map(|id| (*id, 1.0)).collect();
    for _ in 0..iterations {
        let mut next: BTreeMap<u64, f64> = targets.keys().map(|id| (*id, 0.0)).collect();
        for (from, to) in &targets {
            for to in to {
                *next.get_mut(to).unwrap() += ranks[from] / targets[from].len() as f64;
            }
        }
        ranks = next.into_iter().map(|(id, sum)| (id, 0.15 + 0.85 * sum)).collect();
    }
    ranks
}

/// Each vertex and the smallest of its component, by joining trees.
fn serial_components(edges: &[(u64, u64)]) -> BTreeMap<u64, u64> {
    fn root(parents: &BTreeMap<u64, u64>, mut id: u64) -> u64 {
        while parents[&id] != id {
            id = parents[&id];
        }
        id
    }
    let mut parents: BTreeMap<u64, u64> = edges.iter().flat_map(|(a, b)| [(*a, *a), (*b, *b)]).collect();
    for (a, b) in edges {
        let (a, b) = (root(&parents, *a), root(&parents, *b));
        parents.insert(a.max(b), a.min(b));
    }
    parents.keys().map(|id| (*id, root(&parents, *id))).collect()
}

#[test]
fn ranks_and_components_are_those_of_a_serial_program_for_any_number_of_partitions() {
    for (seed, vertices, count) in [(1, 5, 4), (2, 60, 200), (3, 400, 3_000)] {
        let edges = generated(seed, vertices, count);
        let (ranks, labels) = (serial_ranks(&edges, 25), serial_components(&edges));
        let m = Master::connect("local:2").unwrap();
        for partitions in [1, 2, 3, 7] {
            let graph = Graph::from_edges(&edges).unwrap();
            let graph = graph.clone().partitions(partitions.min(graph.vertices())).unwrap();
            let found = PageRank { iterations_max: 25, tolerance: 0.0, ..PageRank::default() };
            let found = found.run(&m, &graph).unwrap();
            assert_eq!((found.iterations, found.ranks.len()), (25, ranks.len()));
            for (id, rank) in found.ranks {
                assert!((rank - ranks[&id]).abs() <= 1e-12 * rank, "{id}: {rank}, {}", ranks[&id]);
            }
            let found = components(&m, &graph).unwrap();
            assert!(found.labels.iter().all(|(id, label)| labels[id] == *label), "{partitions} partitions");
            assert_eq!(found.labels.len(), labels.len());
        }
    }
}

#[test]
fn partitions_have_every_edge_once_and_about_equal_work() {
    let graph = Graph::from_edges(&generated(5, 1_000, 20_000)).unwrap();
    let graph = graph.partitions(4).unwrap();
    let parts = graph.parts(Direction::Out).unwrap();
    let parts: Vec<Part> = (0..4).map(|n| parts.chunk(n).unwrap()[0].clone()).collect();
    let edges = |part: &Part| (0..part.vertices()).map(|v| part.edges_of(v).len()).sum::<usize>();
    assert_eq!(parts.iter().map(edges).sum::<usize>(), graph.edges());
    assert_eq!(parts.iter().map(Part::vertices).sum::<usize>(), graph.vertices());
    let mean = (graph.edges() + graph.vertices()) / 4;
    for part in &parts {
        assert!(edges(part) + part.vertices() < 2 * mean, "{} edges", edges(part));
        let incoming: usize = (0..4).map(|from| part.incoming(from).len()).sum();
        let outgoing: usize =
            parts.iter().map(|other| other.groups().map(|(_, e)| e.len()).sum::<usize>()).sum();
        assert!(incoming <= outgoing);
    }
}

#[test]
fn a_long_path_is_one_component_in_few_rounds() {
    let edges: Vec<(u64, u64)> = (0..5_000).rev().map(|n| (n + 1, n)).collect();
    let graph = Graph::from_edges(&edges).unwrap().partitions(6).unwrap();
    let found = components(&Master::connect("local:2").unwrap(), &graph).unwrap();
    assert_eq!(found.sizes(), [(0, 5_001)]);
    assert!(found.rounds <= 8, "{} rounds", found.rounds);
}

#[test]
fn odd_graphs_have_answers_or_errors_that_say_why() {
    assert!(matches!(Graph::from_edges(&[]), Err(GraphError::Empty)));
    let m = Master::connect("local:1").unwrap();
    let loops = Graph::from_edges(&[(u64::MAX, u64::MAX), (3, 3)]).unwrap();
    let ranks = PageRank::default().run(&m, &loops).unwrap();
    assert!(ranks.ranks.iter().all(|(_, rank)| (rank - 1.0).abs() < 1e-9), "{ranks:?}");
    assert_eq!(components(&m, &loops).unwrap().sizes(), [(3, 1), (u64::MAX, 1)]);
    assert!(matches!(loops.clone().partitions(3), Err(GraphError::Partitions { found: 3, max: 2 })));
    let many = Graph::from_edges(&(0..2_000).map(|n| (n, n)).collect::<Vec<_>>()).unwrap();
    assert!(matches!(many.partitions(1_025), Err(GraphError::Partitions { found: 1_025, max: 1_024 })));
    assert!(matches!(loops.clone().partitions(0), Err(GraphError::Partitions { .. })));
    for damping in [-0.1, 1.0, f64::NAN] {
        let error = PageRank { damping, ..PageRank::default() }.run(&m, &loops).unwrap_err();
        assert!(error.to_string().starts_with("damping is"), "{error}");
    }
}
