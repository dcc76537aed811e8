//! Which arrows are allowed, as `ARCHITECTURE.md` says in its block of the kind `rooms`.
//!
//! ```text
//! [crates]                 who may use whom, one crate to a line
//! core:
//! qjam: core
//! [modules of qjam]        layers, the highest first: arrows go to lines further down
//! master
//! engine worker
//! [to cut]                 arrows that are there and should not be
//! qjam: worker -> engine
//! ```
//!
//! Behind `#` stands whatever the reader should know.

use super::graph::Graph;
use std::collections::BTreeMap;

/// The opening and the end of the block.
const FENCES: (&str, &str) = ("```rooms", "```");

/// What the block says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Every crate, and whom it may use.
    pub crates: BTreeMap<String, Vec<String>>,
    /// Of some crates, the layers of modules, the highest first.
    pub layers: BTreeMap<String, Vec<Vec<String>>>,
    /// Crate, module, and whom it should not use.
    pub to_cut: Vec<(String, String, String)>,
}

impl Rules {
    /// Reads the block; says what is wrong with it.
    pub fn read(document: &str) -> Result<Rules, String> {
        enum Section {
            None,
            Crates,
            Layers(String),
            ToCut,
        }
        let mut rules = Rules::default();
        let mut section = Section::None;
        let block = document.lines().skip_while(|line| line.trim() != FENCES.0).skip(1);
        let mut ends = false;
        for line in block {
            if line.trim() == FENCES.1 {
                ends = true;
                break;
            }
            let line = line.split('#').next().unwrap_or_default().trim();
            let words = || line.split_whitespace().map(str::to_owned);
            if line.is_empty() {
                continue;
            }
            if let Some(title) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                section = match title.split_whitespace().collect::<Vec<_>>()[..] {
                    ["crates"] => Section::Crates,
                    ["to", "cut"] => Section::ToCut,
                    ["modules", "of", name] => Section::Layers(name.to_owned()),
                    _ => {
                        return Err(format!(
                            "[{title}] is none of [crates], [modules of CRATE] and [to cut]"
                        ));
                    }
                };
                continue;
            }
            match &section {
                Section::None => return Err(format!("'{line}' stands before any [title]")),
                Section::Crates => {
                    let (name, uses) =
                        line.split_once(':').ok_or_else(|| format!("'{line}' has no colon"))?;
                    rules
                        .crates
                        .insert(name.trim().to_owned(), uses.split_whitespace().map(str::to_owned).collect());
                }
                Section::Layers(name) => {
                    rules.layers.entry(name.clone()).or_default().push(words().collect())
                }
                Section::ToCut => {
                    let arrow =
                        line.split_once(':').and_then(|(name, arrow)| Some((name, arrow.split_once("->")?)));
                    let (name, (from, to)) =
                        arrow.ok_or_else(|| format!("'{line}' is not 'CRATE: FROM -> TO'"))?;
                    rules.to_cut.push((name.trim().into(), from.trim().into(), to.trim().into()));
                }
            }
        }
        if ends { Ok(rules) } else { Err(format!("there is no whole block {} in it", FENCES.0)) }
    }

    /// Arrows between crates that are not allowed, and crates that are not named.
    pub fn wrong_crates(&self, graph: &Graph) -> Vec<String> {
        let unknown = graph.nodes().filter(|name| !self.crates.contains_key(*name));
        let unknown = unknown.map(|name| format!("crate {name} is not in the list of crates"));
        let arrows = graph.arrows().filter(|(from, to)| {
            self.crates.get(*from).is_some_and(|allowed| !allowed.iter().any(|name| name == to))
        });
        unknown
            .chain(arrows.map(|(from, to)| format!("crate {from} uses {to}, which is not allowed")))
            .collect()
    }

    /// Arrows between the modules of a crate that do not go down, and modules that are in no layer.
    pub fn wrong_modules(&self, name: &str, graph: &Graph) -> Vec<String> {
        let Some(layers) = self.layers.get(name) else { return Vec::new() };
        let layer = |module: &str| layers.iter().position(|layer| layer.iter().any(|m| m == module));
        let mut wrong = Vec::new();
        for module in graph.nodes().filter(|module| layer(module).is_none()) {
            wrong.push(format!("{name}: module {module} is in no layer"));
        }
        for (from, to) in graph.arrows() {
            if let (Some(above), Some(below)) = (layer(from), layer(to))
                && above >= below
            {
                wrong.push(format!("{name}: {from} uses {to}, which is not below it"));
            }
        }
        for module in layers.iter().flatten().filter(|module| !graph.nodes().any(|node| node == **module)) {
            wrong.push(format!("{name}: there is no module {module}"));
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "\
# Architecture

```rooms
[crates]
core:
qjam: core   # and no other
[modules of qjam]
master
engine worker
wire
[to cut]
qjam: worker -> engine  # some day
```
";

    fn graph(arrows: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::default();
        arrows.iter().for_each(|(from, to)| graph.arrow(from, to));
        graph
    }

    #[test]
    fn the_block_is_read() {
        let rules = Rules::read(DOCUMENT).unwrap();
        assert_eq!(rules.crates["qjam"], ["core"]);
        assert_eq!(rules.layers["qjam"][1], ["engine", "worker"]);
        assert_eq!(rules.to_cut, [("qjam".into(), "worker".into(), "engine".into())]);
    }

    #[test]
    fn a_block_that_is_not_there_or_says_nonsense_is_an_error() {
        for document in [
            "",
            "```rooms\n[crates]\n",
            "```rooms\n[rooms]\n```",
            "```rooms\nx: y\n```",
            "```rooms\n[crates]\nx\n```",
        ] {
            assert!(Rules::read(document).is_err(), "{document}");
        }
    }

    #[test]
    fn arrows_go_down_and_no_other_way() {
        let rules = Rules::read(DOCUMENT).unwrap();
        let good = graph(&[("master", "engine"), ("master", "worker"), ("worker", "wire")]);
        assert_eq!(rules.wrong_modules("qjam", &good), Vec::<String>::new());
        let bad = graph(&[("master", "engine"), ("engine", "worker"), ("wire", "new")]);
        assert_eq!(
            rules.wrong_modules("qjam", &bad),
            ["qjam: module new is in no layer", "qjam: engine uses worker, which is not below it"]
        );
    }

    #[test]
    fn crates_use_whom_they_may() {
        let rules = Rules::read(DOCUMENT).unwrap();
        let wrong = rules.wrong_crates(&graph(&[("qjam", "core"), ("core", "qjam"), ("new", "core")]));
        assert_eq!(
            wrong,
            ["crate new is not in the list of crates", "crate core uses qjam, which is not allowed"]
        );
    }
}
