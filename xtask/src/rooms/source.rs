//! The workspace as it is written: its crates with whom they use, and the modules of each.

use super::graph::Graph;
use super::tokens::tokens;
use super::uses::{self, FileUses};
use crate::failure::{AboutFile, Failure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// One crate of the workspace.
pub struct Crate {
    /// The name of its folder.
    pub name: String,
    /// Its top-level modules.
    pub modules: Graph,
    /// Lines of its source, tests in it included.
    pub lines: usize,
}

/// All crates in the order of the workspace, and the arrows between them. What only tests use makes no arrow.
pub fn workspace(root: &Path) -> Result<(Vec<Crate>, Graph), Failure> {
    let manifest = root.join("Cargo.toml");
    let members = members(&fs::read_to_string(&manifest).about(&manifest)?);
    let name_of = |member: &str| member.rsplit('/').next().unwrap_or(member).to_owned();
    let mut packages = BTreeMap::new();
    for member in &members {
        let path = root.join(member).join("Cargo.toml");
        let text = fs::read_to_string(&path).about(&path)?;
        packages.insert(package(&text), name_of(member));
    }
    let (mut crates, mut graph) = (Vec::new(), Graph::default());
    for member in &members {
        let folder = root.join(member);
        let path = folder.join("Cargo.toml");
        let name = name_of(member);
        graph.node(&name);
        for used in dependencies(&fs::read_to_string(&path).about(&path)?) {
            if let Some(used) = packages.get(&used) {
                graph.arrow(&name, used);
            }
        }
        crates.push(read_crate(name, &folder.join("src"))?);
    }
    Ok((crates, graph))
}

/// The folders in `members = […]`.
fn members(manifest: &str) -> Vec<String> {
    let list = manifest.split_once("members = [").and_then(|(_, rest)| rest.split_once(']'));
    list.map_or("", |(list, _)| list)
        .split(',')
        .map(|m| m.trim().trim_matches('"').to_owned())
        .filter(|m| !m.is_empty())
        .collect()
}

/// The name of the package.
fn package(manifest: &str) -> String {
    let line = manifest.lines().find_map(|line| line.strip_prefix("name = "));
    line.unwrap_or_default().trim_matches('"').to_owned()
}

/// What it depends on, but for tests.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut counts = false;
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            counts = matches!(line.trim(), "[dependencies]" | "[build-dependencies]");
        } else if counts && let Some((name, _)) = line.split_once(['.', '=', ' ']) {
            found.push(name.trim().to_owned());
        }
    }
    found
}

fn read_crate(name: String, folder: &Path) -> Result<Crate, Failure> {
    let lib = folder.join("lib.rs");
    let root = if lib.is_file() { lib } else { folder.join("main.rs") };
    let mut files: Vec<(Vec<String>, FileUses)> = Vec::new();
    let mut lines = 0;
    let mut open: Vec<(Vec<String>, PathBuf, PathBuf)> = vec![(Vec::new(), root, folder.to_owned())];
    while let Some((module, path, inside)) = open.pop() {
        let text = fs::read_to_string(&path).about(&path)?;
        lines += text.lines().count();
        let uses = uses::read(&tokens(&text), &module);
        for child in &uses.modules {
            let below = child[module.len()..].iter().fold(inside.clone(), |at, part| at.join(part));
            let beside = below.with_extension("rs");
            let path = if beside.is_file() { beside } else { below.join("mod.rs") };
            open.push((child.clone(), path, below));
        }
        files.push((module, uses));
    }
    Ok(Crate { modules: arrows(&files), name, lines })
}

/// The arrows between top-level modules.
fn arrows(files: &[(Vec<String>, FileUses)]) -> Graph {
    let mut graph = Graph::default();
    let top_level = files.iter().flat_map(|(_, uses)| &uses.modules).filter(|module| module.len() == 1);
    let inline = files
        .iter()
        .flat_map(|(_, uses)| uses.paths.iter().map(|(module, _)| module))
        .filter(|m| !m.is_empty());
    top_level.chain(inline).for_each(|module| graph.node(&module[0]));
    // What the root passes on belongs to the module that it has it from.
    let mut passed_on: BTreeMap<&str, &str> = BTreeMap::new();
    for (module, uses) in files {
        for (at, name, path) in &uses.imports {
            if at.is_empty() {
                let first = path.iter().find(|word| !matches!(word.as_str(), "crate" | "self"));
                passed_on.insert(name, first.map_or("", String::as_str));
            }
        }
        if let Some(top) = module.first() {
            uses.macros.iter().for_each(|name| {
                passed_on.insert(name, top);
            });
        }
    }
    let is_module = |name: &str| graph.nodes().any(|node| node == name);
    let mut found = Vec::new();
    for (from, path) in files.iter().flat_map(|(_, uses)| &uses.paths) {
        let (Some(from), Some(to)) = (from.first(), path.first()) else { continue };
        let to = if is_module(to) { to } else { passed_on.get(to.as_str()).copied().unwrap_or_default() };
        if is_module(to) {
            found.push((from.as_str(), to));
        }
    }
    let found: Vec<(String, String)> = found.into_iter().map(|(from, to)| (from.into(), to.into())).collect();
    found.iter().for_each(|(from, to)| graph.arrow(from, to));
    graph
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(module: &str, source: &str) -> (Vec<String>, FileUses) {
        let module: Vec<String> =
            module.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let uses = uses::read(&tokens(source), &module);
        (module, uses)
    }

    #[test]
    fn arrows_are_between_top_level_modules_and_through_the_root() {
        let graph = arrows(&[
            file("", "mod a; mod b; mod c; pub use b::Thing; pub use outside::d; use crate::c as other;"),
            file("a", "mod x; use crate::Thing; use crate::d::E; use crate::hook;"),
            file("a::x", "use super::y; use super::super::c::z;"),
            file("b", "use crate::LIMIT;"),
            file("c", "#[macro_export] macro_rules! hook { () => { $crate::b::run() } }"),
        ]);
        let shown: Vec<String> = graph.arrows().map(|(from, to)| format!("{from}>{to}")).collect();
        assert_eq!(shown.join(" "), "a>b a>c");
    }

    #[test]
    fn manifests_say_whom_a_crate_uses() {
        let text = "[package]\nname = \"qjam-cli\"\n[features]\nmpi = []\n[dependencies]\nqjam.workspace = true\nqjam-mpi = { optional = true }\n[dev-dependencies]\nqjam-sim = \"1\"\n";
        assert_eq!(package(text), "qjam-cli");
        assert_eq!(dependencies(text), ["qjam", "qjam-mpi"]);
        assert_eq!(members("members = [\"crates/core\", \"xtask\"]\n"), ["crates/core", "xtask"]);
    }
}
