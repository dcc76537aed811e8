//! Searches for words that do not belong in the repository: paths of one machine, addresses of registries; and sees to it that
//! what our commands leave in a checkout is not taken for a part of it.
//!
//! Whoever clones the repository has none of these places. The patterns are written in two halves so that this file
//! does not contain them.

use crate::failure::{AboutFile, Failure};
use crate::step::StepResult;
use crate::workspace::Workspace;
use std::path::{Path, PathBuf};

/// Folders nobody wrote: build outputs, environments, what the fuzzer keeps, what builds of the Python package leave.
const SKIPPED_FOLDERS: &[&str] = &[
    ".git",
    "target",
    ".venv",
    "corpus",
    "artifacts",
    "__pycache__",
    "node_modules",
    "_vendor",
    "qjam.data",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".ipynb_checkpoints",
];

/// Files that cargo and git write: the one names its registry, the other, in a further work tree, where the first one is.
const SKIPPED_FILES: &[&str] = &["Cargo.lock", ".git"];

/// What to look for. Those that begin with a slash count only where an absolute path could begin.
const PATTERNS: &[&str] = &[
    concat!("../", "shared"),
    concat!("/", "work/"),
    concat!("/", "home/"),
    concat!("/", "root/"),
    concat!("/", "Users/"),
    concat!("issue", " #"),
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
];

/// What commands of the README write where they are run.
const LEFT_IN_A_CHECKOUT: &[&str] = &["features.png", "target/debug/qjam", ".venv/bin/python"];

/// Reads every text file of the repository.
pub fn check(workspace: &Workspace) -> StepResult {
    must_be_ignored(workspace)?;
    let mut files = Vec::new();
    collect(&workspace.root, &mut files)?;
    let mut places = Vec::new();
    let mut texts = 0;
    for path in &files {
        // What is not text has no words.
        let Ok(text) = String::from_utf8(std::fs::read(path).about(path)?) else { continue };
        texts += 1;
        let shown = path.strip_prefix(&workspace.root).unwrap_or(path).display();
        places.extend(
            found(&text).into_iter().map(|(line, pattern)| format!("{shown}:{line} has '{pattern}'")),
        );
    }
    if places.is_empty() { Ok(format!("{texts} files")) } else { Err(Failure::Hygiene { places }) }
}

/// Asks git whether it ignores what commands leave, by the repository's own list and in a repository of its own: sources need not
/// have come with one.
fn must_be_ignored(workspace: &Workspace) -> Result<(), Failure> {
    let (folder, list) = (workspace.empty_folder("ignored")?, workspace.root.join(".gitignore"));
    std::fs::copy(&list, folder.join(".gitignore")).about(&list)?;
    let git = |words: &[&str]| {
        let own = ["-c", "core.excludesFile=", "-c", "init.templateDir="];
        workspace.program("git").args(own).args(words).dir(&folder).without(&["GIT_"])
    };
    git(&["init", "-q"]).quiet()?;
    for file in LEFT_IN_A_CHECKOUT {
        git(&["check-ignore", "-q", file]).quiet().map_err(|_| Failure::Unexpected {
            what: format!("git does not ignore {file}"),
            expected: "what commands leave in a checkout in .gitignore",
        })?;
    }
    Ok(())
}

pub(crate) fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let mut entries: Vec<_> =
        std::fs::read_dir(folder).about(folder)?.collect::<Result<_, _>>().about(folder)?;
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        let kind = entry.file_type().about(&path)?;
        let listed = |list: &[&str]| list.iter().any(|skipped| name == *skipped);
        if kind.is_symlink() && !listed(SKIPPED_FOLDERS) {
            return Err(Failure::Unexpected {
                what: format!("{} is a symbolic link", path.display()),
                expected: "files alone: in some checkouts and archives a link is a file with its target as text",
            });
        } else if kind.is_dir() && !listed(SKIPPED_FOLDERS) {
            collect(&path, files)?;
        } else if kind.is_file() && !listed(SKIPPED_FILES) {
            files.push(path);
        }
    }
    Ok(())
}

/// Line numbers and patterns.
fn found(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for (i, line) in text.lines().enumerate() {
        for pattern in PATTERNS {
            let mut begins = line.match_indices(pattern).map(|(at, _)| &line[..at]);
            if begins.any(|before| !pattern.starts_with('/') || path_may_begin_after(before)) {
                found.push((i + 1, *pattern));
            }
        }
    }
    found
}

/// A slash after a letter or the like only separates: `net/…` is no absolute path.
fn path_may_begin_after(before: &str) -> bool {
    !before.ends_with(|c: char| c.is_alphanumeric() || "_.-})>*".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_one_machine_are_found_and_relative_ones_are_not() {
        let absolute = ["see /", "home/me/x and\n/", "work/y"].concat();
        assert_eq!(found(&absolute), [(1, PATTERNS[2]), (2, PATTERNS[1])]);
        let relative = ["net/", "work/x and ~/", "home and ", "{base}/", "home/x"].concat();
        assert_eq!(found(&relative), []);
    }

    #[test]
    fn links_are_refused() {
        let folder = std::env::temp_dir().join(format!("xtask-links-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("file"), "text").unwrap();
        let mut files = Vec::new();
        let plain = collect(&folder, &mut files).is_ok();
        std::os::unix::fs::symlink("file", folder.join("link")).unwrap();
        let linked = collect(&folder, &mut files);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(plain && !files.is_empty());
        assert!(linked.unwrap_err().to_string().contains("symbolic link"));
    }

    #[test]
    fn every_pattern_finds_itself() {
        for pattern in PATTERNS {
            assert!(found(pattern).contains(&(1, *pattern)), "{pattern}");
        }
    }
}
