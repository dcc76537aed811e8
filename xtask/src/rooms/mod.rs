//! `cargo xtask rooms`: who uses whom, between crates and between the top-level modules of each, and whether that is
//! allowed.
//!
//! The graph comes from the manifests and from the paths in the source ([`source`]); tests count nowhere. The rules come
//! from a block in `ARCHITECTURE.md` ([`rules`]), which is documentation and rule in one. A cycle is wrong in every crate,
//! an arrow that the block does not allow is, too. Arrows that the block lists as still to be cut are told, and are wrong
//! once they are gone, so that the list stays true.

mod graph;
mod rules;
mod source;
mod tokens;
mod uses;

use crate::failure::{AboutFile, Failure};
use crate::step::StepResult;
use crate::workspace::Workspace;
use graph::Graph;
use rules::Rules;
use source::Crate;

/// The document with the rules.
const DOCUMENT: &str = "ARCHITECTURE.md";
/// It is a map, which a newcomer reads in one go: details belong into the modules.
const LINES_MAX: usize = 150;

/// Prints the graph, then checks it.
pub fn print(workspace: &Workspace) -> StepResult {
    let (crates, graph) = source::workspace(&workspace.root)?;
    println!("crates");
    print_graph(&graph);
    for each in &crates {
        println!("\nmodules of {} ({} lines)", each.name, each.lines);
        print_graph(&each.modules);
    }
    println!();
    judge(workspace, crates, &graph)
}

/// Checks it.
pub fn check(workspace: &Workspace) -> StepResult {
    let (crates, graph) = source::workspace(&workspace.root)?;
    judge(workspace, crates, &graph)
}

fn print_graph(graph: &Graph) {
    let width = graph.nodes().map(str::len).max().unwrap_or(0);
    for node in graph.nodes() {
        let uses: Vec<String> = graph.uses(node).map(|(to, n)| format!("{to} ({n})")).collect();
        println!("  {node:width$}  {}", uses.join(", "));
    }
}

fn judge(workspace: &Workspace, crates: Vec<Crate>, graph: &Graph) -> StepResult {
    let path = workspace.root.join(DOCUMENT);
    let text = std::fs::read_to_string(&path).about(&path)?;
    let rules =
        Rules::read(&text).map_err(|why| Failure::Rooms { wrong: vec![format!("{DOCUMENT}: {why}")] })?;
    let mut wrong = rules.wrong_crates(graph);
    let lines = text.lines().count();
    if lines >= LINES_MAX {
        wrong.push(format!("{DOCUMENT} has {lines} lines: it stays under {LINES_MAX}; move details into the modules they speak of"));
    }
    let (count, mut modules) = (crates.len(), 0);
    for mut each in crates {
        modules += each.modules.nodes().count();
        for (_, from, to) in rules.to_cut.iter().filter(|(name, ..)| *name == each.name) {
            if each.modules.remove(from, to) {
                println!("still to be cut: {}: {from} uses {to}", each.name);
            } else {
                wrong.push(format!(
                    "{}: {from} does not use {to} any more; take it off the list [to cut]",
                    each.name
                ));
            }
        }
        wrong.extend(rules.wrong_modules(&each.name, &each.modules));
        for knot in each.modules.knots() {
            let names: Vec<&str> = knot.iter().copied().collect();
            let cycle = names.first().and_then(|name| each.modules.cycle(name)).unwrap_or_default();
            wrong.push(format!(
                "{}: a cycle among {}, such as {}",
                each.name,
                names.join(", "),
                cycle.join(" -> ")
            ));
        }
    }
    match wrong.is_empty() {
        true => Ok(format!("{count} crates, {modules} modules, {} arrows to cut", rules.to_cut.len())),
        false => Err(Failure::Rooms { wrong }),
    }
}
