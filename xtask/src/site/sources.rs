//! Puts the book's sources together as mdBook wants them.
//!
//! Pages keep their places in the repository, so their links hold as they are. The summary of the book is completed by what lies
//! elsewhere: the front page, the README and its like, the decisions, the examples, the API of the crates. A file that a page links
//! to, and that is no page, travels along.

use super::markdown;
use crate::failure::{AboutFile, Failure};
use crate::workspace::Workspace;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Where the settings, the style and the front page are.
const SITE: &str = "docs/site";
/// What a line of the front page begins with that stands for a block of the README, by its language.
const BLOCK: &str = "<!-- README: ";
/// Pages of the top folder, with their titles.
const TOP: &[(&str, &str)] = &[
    ("README.md", "README"),
    ("CHANGELOG.md", "Changelog"),
    ("SECURITY.md", "Who trusts whom: the exact list"),
    ("ARCHITECTURE.md", "Architecture"),
    ("CONTRIBUTING.md", "Contributing"),
];

/// Writes all to a folder.
pub fn assemble(workspace: &Workspace, to: &Path) -> Result<(), Failure> {
    let (root, src) = (&workspace.root, to.join("src"));
    for name in ["book.toml", "site.css"] {
        let from = root.join(SITE).join(name);
        std::fs::copy(&from, to.join(name)).about(&from)?;
    }
    let mut pages = vec![PathBuf::from(markdown::SUMMARY)];
    for folder in [markdown::BOOK, "docs/decisions"] {
        let path = root.join(folder);
        let entries = std::fs::read_dir(&path).about(&path)?.flatten().map(|entry| entry.path());
        let found = entries.filter(|path| path.extension().is_some_and(|kind| kind == "md"));
        pages.extend(found.filter_map(|path| path.strip_prefix(root).ok().map(Path::to_path_buf)));
    }
    pages.extend(TOP.iter().map(|(name, _)| PathBuf::from(name)));
    pages.sort();
    pages.dedup();
    let mut along = vec![PathBuf::from("docs/features.png")];
    for page in pages.iter().filter(|page| *page != Path::new(markdown::SUMMARY)) {
        let text = std::fs::read_to_string(root.join(page)).about(page)?;
        let folder = page.parent().unwrap_or(Path::new(""));
        let targets = markdown::links(&text).into_iter().filter(|target| markdown::is_ours(target));
        let files = targets.filter_map(|target| Some(PathBuf::from(target.split('#').next()?)));
        let files = files.map(|file| markdown::plain(&folder.join(file)));
        along.extend(files.filter(|file| root.join(file).is_file() && !pages.contains(file)));
        // What only we read has no colours, and a browser would complain.
        write(&src.join(page), &text.replace("```rooms\n", "```text\n"))?;
    }
    for file in &along {
        let there = src.join(file);
        folder_of(&there)?;
        std::fs::copy(root.join(file), &there).about(file)?;
    }
    gallery(workspace, &src.join("examples/gallery"))?;
    write(&src.join("rust-api.md"), &crates(root)?)?;
    write(&src.join("index.md"), &front(root)?)?;
    write(&src.join("SUMMARY.md"), &summary(root, &src)?)
}

/// The front page, with the README's program in it: that one is run by a test.
fn front(root: &Path) -> Result<String, Failure> {
    let (page, readme) = (root.join(SITE).join("index.md"), root.join("README.md"));
    let text = std::fs::read_to_string(&page).about(&page)?;
    let readme = std::fs::read_to_string(&readme).about(&readme)?;
    let mut out = String::new();
    for line in text.lines() {
        match line.strip_prefix(BLOCK).and_then(|rest| rest.strip_suffix(" -->")) {
            None => out.push_str(line),
            Some(language) => out.push_str(&block(&readme, language).ok_or(Failure::Unexpected {
                what: format!("README.md has no block of {language}"),
                expected: "the program of the front page",
            })?),
        }
        out.push('\n');
    }
    Ok(out)
}

/// The first block of a language, with its fences.
fn block(text: &str, language: &str) -> Option<String> {
    let fence = format!("```{language}\n");
    let start = text.find(&fence)?;
    let end = text[start + fence.len()..].find("\n```")?;
    Some(text[start..start + fence.len() + end + 4].to_owned())
}

/// One line for each crate.
fn crates(root: &Path) -> Result<String, Failure> {
    let mut out = String::from(
        "# Rust API\n\nWhat rustdoc makes of the comments in the sources. Programs use `qjam`; the learners are `qjam_algos`.\n\n| crate | about |\n|---|---|\n",
    );
    let folder = root.join("crates");
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(&folder).about(&folder)?.flatten().map(|e| e.path()).collect();
    found.sort();
    for path in found.into_iter().filter(|path| path.join("src/lib.rs").exists()) {
        let manifest = path.join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest).about(&manifest)?;
        let name = text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        // The native part of the Python package is not for Rust programs.
        let Some(name) = name.filter(|name| *name != "qjam-py") else { continue };
        let lib = path.join("src/lib.rs");
        let first = std::fs::read_to_string(&lib).about(&lib)?;
        let about = first.lines().find_map(|line| line.strip_prefix("//! ")).unwrap_or_default();
        let _ = writeln!(out, "| [`{}`](rust/{0}/index.html) | {about} |", name.replace('-', "_"));
    }
    Ok(out)
}

/// The table of contents: that of the book, and what lies elsewhere.
fn summary(root: &Path, src: &Path) -> Result<String, Failure> {
    let path = root.join(markdown::SUMMARY);
    let book = std::fs::read_to_string(&path).about(&path)?;
    let mut out = String::from("# Summary\n\n[qjam](index.md)\n");
    for line in book.lines().skip(1) {
        out.push_str(&line.replace("](", &format!("]({}/", markdown::BOOK)));
        out.push('\n');
    }
    out.push_str("- [Rust API](rust-api.md)\n\n# Examples\n\n");
    list(&mut out, src, "examples/gallery", "Examples in Python")?;
    out.push_str("\n# The project\n\n");
    for (name, title) in TOP {
        let _ = writeln!(out, "- [{title}]({name})");
    }
    list(&mut out, src, "docs/decisions", "Decisions")?;
    Ok(out)
}

/// A folder's first page, and below it its others.
fn list(out: &mut String, src: &Path, folder: &str, title: &str) -> Result<(), Failure> {
    let path = src.join(folder);
    let mut names: Vec<String> = std::fs::read_dir(&path)
        .about(&path)?
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let is_first = |name: &str| name == "README.md" || name == "index.md";
    for first in names.iter().filter(|name| is_first(name)) {
        let _ = writeln!(out, "- [{title}]({folder}/{first})");
    }
    for name in names.iter().filter(|name| name.ends_with(".md") && !is_first(name)) {
        let page = path.join(name);
        let text = std::fs::read_to_string(&page).about(&page)?;
        let heading = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(name);
        let _ = writeln!(out, "  - [{heading}]({folder}/{name})");
    }
    Ok(())
}

/// Pages of the examples.
fn gallery(workspace: &Workspace, to: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(to).about(to)?;
    let python = workspace.venv_program("python")?;
    workspace.program(python).arg("python/tools/gallery.py").arg(to).run().map(|_| ())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    folder_of(path)?;
    std::fs::write(path, text).about(path)
}

fn folder_of(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(Path::new(""));
    std::fs::create_dir_all(folder).about(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_found_by_its_language() {
        let text = "a\n```sh\nx\n```\n```python\ny\nz\n```\nb\n";
        assert_eq!(block(text, "python").unwrap(), "```python\ny\nz\n```");
        assert_eq!(block(text, "rust"), None);
    }
}
