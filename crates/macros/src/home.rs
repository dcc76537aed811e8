//! The path by which generated code reaches qjam: what the attribute says, or the name that the crate being compiled gave it.
//!
//! Cargo does not tell macros under which name a crate depends on theirs, so its `Cargo.toml` is read. Only what names
//! dependencies is understood of it. Where nothing is found, the name is `qjam`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

const PACKAGE: &str = "qjam";

/// The path of qjam in the crate that is being compiled.
pub(crate) fn path() -> TokenStream {
    // The folder of the crate last asked about, and what it calls us.
    static LAST: Mutex<Option<(String, String)>> = Mutex::new(None);
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let name = match &*last {
        Some((known, name)) if *known == folder => name.clone(),
        _ => {
            let name = name_for(Path::new(&folder));
            *last = Some((folder, name.clone()));
            name
        }
    };
    let name = format_ident!("{}", name);
    quote!(::#name)
}

/// What the crate in this folder calls qjam.
fn name_for(folder: &Path) -> String {
    let read = |folder: &Path| std::fs::read_to_string(folder.join("Cargo.toml")).ok();
    let own = read(folder).map(|manifest| dependencies(&manifest)).unwrap_or_default();
    let named = |found: &Dependency| found.package.as_deref() == Some(PACKAGE);
    let is_plain = |found: &Dependency| found.name == PACKAGE && found.package.is_none();
    if own.iter().any(is_plain) {
        return PACKAGE.into();
    }
    if let Some(renamed) = own.iter().find(|found| !found.of_workspace_table && named(found)) {
        return renamed.name.replace('-', "_");
    }
    // Dependencies that are inherited are renamed by the workspace.
    let inherited: Vec<&Dependency> = own.iter().filter(|found| found.is_inherited).collect();
    for manifest in folder.ancestors().filter(|_| !inherited.is_empty()).filter_map(read) {
        let shared =
            dependencies(&manifest).into_iter().filter(|found| found.of_workspace_table && named(found));
        let names: Vec<String> = shared.map(|found| found.name).collect();
        if let Some(found) = inherited.iter().find(|found| names.contains(&found.name)) {
            return found.name.replace('-', "_");
        }
    }
    PACKAGE.into()
}

/// One dependency, as a manifest names it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Dependency {
    name: String,
    /// The package, where it says that it is another.
    package: Option<String>,
    /// Whether the workspace says the rest.
    is_inherited: bool,
    /// Whether it stands in the workspace's table, for others to inherit.
    of_workspace_table: bool,
}

/// The dependencies of a manifest, in all its tables of them.
fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found: Vec<Dependency> = Vec::new();
    // The table that is being read: whether it is one of dependencies, and of which one.
    let (mut is_table, mut of, mut of_workspace_table) = (false, None, false);
    for line in manifest.lines().map(without_comment) {
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let parts = split_keys(header);
            let place = parts.iter().position(|part| part.ends_with("dependencies"));
            of_workspace_table = parts.first().is_some_and(|part| part == "workspace");
            is_table = place.is_some_and(|place| place + 1 == parts.len());
            of = place.filter(|place| place + 2 == parts.len()).map(|place| parts[place + 1].clone());
            if let Some(name) = &of {
                found.push(Dependency { name: name.clone(), of_workspace_table, ..Dependency::default() });
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let (keys, value) = (split_keys(key), value.trim());
        if of.is_some() {
            if let (Some(last), [key]) = (found.last_mut(), keys.as_slice()) {
                last.set(key, value);
            }
        } else if let (true, Some(name)) = (is_table, keys.first()) {
            let same = found
                .iter()
                .position(|old| old.name == *name && old.of_workspace_table == of_workspace_table);
            let place = same.unwrap_or_else(|| {
                found.push(Dependency { name: name.clone(), of_workspace_table, ..Dependency::default() });
                found.len() - 1
            });
            match keys.get(1) {
                Some(key) => found[place].set(key, value),
                None => {
                    let inner =
                        value.strip_prefix('{').and_then(|value| value.strip_suffix('}')).unwrap_or("");
                    for (key, value) in inner.split(',').filter_map(|field| field.split_once('=')) {
                        found[place].set(key.trim(), value.trim());
                    }
                }
            }
        }
    }
    found
}

impl Dependency {
    fn set(&mut self, key: &str, value: &str) {
        match key {
            "package" => {
                self.package = Some(value.trim_matches(['"', '\'']).into()).filter(|name| *name != self.name)
            }
            "workspace" => self.is_inherited = value == "true",
            _ => {}
        }
    }
}

/// A line without its comment. Names and quoted text with `#` do not occur in what is looked for.
fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or(line).trim()
}

/// The parts of a key: `target.'cfg(unix)'.dependencies` has three.
fn split_keys(key: &str) -> Vec<String> {
    let (mut parts, mut quote) = (vec![String::new()], None);
    for c in key.trim().chars() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('.', None) => parts.push(String::new()),
            (c, _) => parts.last_mut().expect("there is one").push(c),
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    /// What a crate with this manifest calls qjam, inside a workspace with the other one.
    #[track_caller]
    fn check(manifest: &str, workspace: &str, expected: &str) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let folder = std::env::temp_dir().join(format!("qjam-macros-{}-{number}", std::process::id()));
        let inner = folder.join("inner");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(inner.join("Cargo.toml"), manifest).unwrap();
        std::fs::write(folder.join("Cargo.toml"), workspace).unwrap();
        let name = name_for(&inner);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(name, expected, "{manifest}\n{workspace}");
    }

    #[test]
    fn a_renamed_dependency_is_found() {
        for (manifest, expected) in [
            ("[dependencies]\nqjam = \"0.1\"\n", "qjam"),
            ("[dependencies]\nqjam = { package = \"qjam\", version = \"0.1\" }\n", "qjam"),
            ("[dependencies]\njam = { package = \"qjam\", version = \"0.1\" } # ours\n", "jam"),
            ("[dependencies]\nmy-jam = { version = \"0.1\", features = [], package = 'qjam' }\n", "my_jam"),
            ("[dependencies.jam]\nversion = \"0.1\"\npackage = \"qjam\"\n", "jam"),
            ("[dev-dependencies]\njam.package = \"qjam\"\njam.path = \"..\"\n", "jam"),
            ("[target.'cfg(unix)'.dependencies]\njam = { package = \"qjam\" }\n", "jam"),
            ("[dependencies]\nqjam = \"0.1\"\njam = { package = \"qjam\" }\n", "qjam"),
            ("[dependencies]\nqjam = { package = \"other\" }\njam = { package = \"qjam\" }\n", "jam"),
            ("[package]\nname = \"qjam\"\n[features]\ndependencies = []\n", "qjam"),
            ("not = a [manifest", "qjam"),
            ("", "qjam"),
        ] {
            check(manifest, "", expected);
        }
    }

    #[test]
    fn a_dependency_that_the_workspace_renames_is_found() {
        let workspace =
            "[workspace.dependencies]\njam = { package = \"qjam\", path = \"qjam\" }\nserde = \"1\"\n";
        check("[dependencies]\njam = { workspace = true }\n", workspace, "jam");
        check("[dependencies]\nserde.workspace = true\njam.workspace = true\n", workspace, "jam");
        check("[dependencies]\nserde.workspace = true\n", workspace, "qjam");
        check("[dependencies]\nserde.workspace = true\n", "", "qjam");
        // A workspace that is its own package offers what it does not use.
        check(&format!("[dependencies]\nqjam = \"1\"\n{workspace}"), "", "qjam");
    }
}
