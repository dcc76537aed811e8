//! Checks the book's sources: every link leads to a file of the repository and to a heading of it, and every page is in the summary.
//!
//! Links to other sites are not looked at: their absence would be somebody else's fault, and tests need no network.

use crate::failure::{AboutFile, Failure};
use crate::hygiene;
use crate::step::StepResult;
use crate::workspace::Workspace;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// The pages of the book.
pub const BOOK: &str = "docs/book";
/// Their order.
pub const SUMMARY: &str = "docs/book/SUMMARY.md";

/// Looks at all pages.
pub fn check(workspace: &Workspace) -> StepResult {
    let root = &workspace.root;
    let mut files = Vec::new();
    hygiene::collect(&root.join("docs"), &mut files)?;
    let top = std::fs::read_dir(root).about(root)?.flatten().map(|entry| entry.path());
    files.extend(top.filter(|path| path.is_file()));
    let mut pages = BTreeMap::new();
    for path in files.into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "md")) {
        let text = std::fs::read_to_string(&path).about(&path)?;
        pages.insert(path.strip_prefix(root).unwrap_or(&path).to_path_buf(), text);
    }
    let mut wrong = Vec::new();
    let mut count = 0;
    for (page, text) in &pages {
        // The front page is put together elsewhere: its links are those of the site.
        if page.starts_with("docs/site") {
            continue;
        }
        for target in links(text).into_iter().filter(|target| is_ours(target)) {
            count += 1;
            if let Some(why) = broken(root, &pages, page, &target) {
                wrong.push(format!("{}: {target} {why}", page.display()));
            }
        }
    }
    wrong.extend(summary(&pages));
    match wrong.is_empty() {
        true => Ok(format!("{} pages, {count} links", pages.len())),
        false => Err(Failure::Unexpected { what: wrong.join("; "), expected: "links that lead somewhere" }),
    }
}

/// What the summary lacks, and what it has twice.
fn summary(pages: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let listed = pages.get(Path::new(SUMMARY)).map(|text| links(text)).unwrap_or_default();
    let times = |name: &str| listed.iter().filter(|target| *target == name).count();
    let book =
        pages.keys().filter(|page| page.parent() == Some(Path::new(BOOK)) && *page != Path::new(SUMMARY));
    let names = book.filter_map(|page| page.file_name()?.to_str());
    let wrong = names.filter_map(|name| match times(name) {
        1 => None,
        n => Some(format!("{SUMMARY} has {name} {n} times")),
    });
    wrong.collect()
}

/// Why a link leads nowhere.
fn broken(root: &Path, pages: &BTreeMap<PathBuf, String>, page: &Path, target: &str) -> Option<String> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let folder = page.parent().unwrap_or(Path::new(""));
    let path = if path.is_empty() { page.to_path_buf() } else { plain(&folder.join(path)) };
    if !root.join(&path).exists() {
        return Some("does not exist".into());
    }
    let text = pages.get(&path).filter(|_| !anchor.is_empty())?;
    let known = anchors(text).iter().any(|known| known == anchor);
    (!known).then(|| "has no such heading".into())
}

/// A path without `..`.
pub fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

/// Whether a link stays in the repository.
pub fn is_ours(target: &str) -> bool {
    !target.contains("://") && !target.starts_with("mailto:") && !target.is_empty()
}

/// The targets of links and pictures outside of code.
pub fn links(text: &str) -> Vec<String> {
    let text = without_code(text);
    let mut targets = Vec::new();
    for (at, _) in text.match_indices("](") {
        let rest = &text[at + 2..];
        let Some(end) = rest.find(')') else { continue };
        // A title may follow.
        targets.extend(rest[..end].split_whitespace().next().map(str::to_owned));
    }
    targets
}

/// The anchors of headings, as mdBook and most other readers make them.
fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let level = line.chars().take_while(|c| *c == '#').count();
        if !is_code && (1..=6).contains(&level) && line[level..].starts_with(' ') {
            let slug = slug(line[level..].trim());
            let same = anchors.iter().filter(|known| **known == slug).count();
            anchors.push(if same == 0 { slug } else { format!("{slug}-{same}") });
        }
        for mark in ["id=\"", "name=\""] {
            let named =
                line.match_indices(mark).filter_map(|(at, _)| line[at + mark.len()..].split('"').next());
            anchors.extend(named.map(str::to_owned));
        }
    }
    anchors
}

fn slug(heading: &str) -> String {
    // Of a link only its words count.
    let mut words = String::new();
    let mut rest = heading;
    while let Some(at) = rest.find("](") {
        words.push_str(&rest[..at]);
        rest = rest[at..].find(')').map_or("", |end| &rest[at + end + 1..]);
    }
    words.push_str(rest);
    let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

/// The text without blocks and spans of code.
fn without_code(text: &str) -> String {
    let mut out = String::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            // Spans: every second part between marks. A lone mark opens none.
            let parts: Vec<&str> = line.split('`').collect();
            let closed = if parts.len() % 2 == 1 { parts.len() } else { parts.len() - 1 };
            for (n, part) in parts.iter().enumerate() {
                if n % 2 == 0 || n >= closed {
                    out.push_str(part);
                }
            }
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(all: &[(&str, &str)]) -> BTreeMap<PathBuf, String> {
        all.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect()
    }

    #[test]
    fn links_are_found_outside_of_code() {
        let text = "[a](b.md#c) and `[x](y)`\n```\n[n](o)\n```\n![p](q.svg \"t\")\n[`s`](t.md)\n";
        assert_eq!(links(text), ["b.md#c", "q.svg", "t.md"]);
        assert!(is_ours("b.md") && is_ours("#c") && !is_ours("https://example.org"));
    }

    #[test]
    fn headings_have_the_anchors_that_readers_give_them() {
        let text = "# One: `two`, three\n## [Four](x.md) & five\n```\n# no\n```\n## Same\n## Same\n<a id=\"own\"></a>\n";
        assert_eq!(anchors(text), ["one-two-three", "four--five", "same", "same-1", "own"]);
    }

    #[test]
    fn files_and_headings_that_are_not_there_are_told() {
        let root = std::env::temp_dir();
        let all = pages(&[("docs/a.md", "# Here\n"), ("docs/b.md", "")]);
        let of = |target: &str| broken(&root, &all, Path::new("docs/b.md"), target);
        assert!(of("nowhere-at-all.md").is_some_and(|why| why.contains("does not exist")));
        assert_eq!(plain(Path::new("docs/book/../../x/./y")), Path::new("x/y"));
    }

    #[test]
    fn a_page_that_the_summary_lacks_or_has_twice_is_told() {
        let all = pages(&[
            (SUMMARY, "- [a](a.md)\n- [b](b.md)\n- [b](b.md)\n"),
            ("docs/book/a.md", ""),
            ("docs/book/b.md", ""),
            ("docs/book/c.md", ""),
        ]);
        let wrong = summary(&all);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].contains("b.md 2 times") && wrong[1].contains("c.md 0 times"), "{wrong:?}");
    }
}
