//! Checks the pages of the site: every file that one of them names is there, and every heading of another that it leads to.

use crate::failure::{AboutFile, Failure};
use crate::step::StepResult;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Made by rustdoc, which checks links itself and makes some anchors by script: only files are looked for.
const RUSTDOC: &str = "rust";

/// Looks at all pages of a folder.
pub fn check(site: &Path) -> StepResult {
    let mut files = Vec::new();
    collect(site, &mut files)?;
    let names: BTreeSet<PathBuf> = files.iter().filter_map(|file| relative(site, file)).collect();
    let mut pages: BTreeMap<PathBuf, String> = BTreeMap::new();
    for name in names.iter().filter(|name| name.extension().is_some_and(|kind| kind == "html")) {
        let path = site.join(name);
        let bytes = std::fs::read(&path).about(&path)?;
        pages.insert(name.clone(), String::from_utf8_lossy(&bytes).into_owned());
    }
    let mut wrong = Vec::new();
    let mut count = 0u64;
    for (page, text) in &pages {
        // Shown under whatever address was asked for, so its links are those of the top folder.
        let from = if page == Path::new("404.html") { Path::new("index.html") } else { page };
        for target in targets(text).filter(|target| !is_made_up(page, target)) {
            count += 1;
            if let Some(why) = broken(&names, &pages, from, target) {
                wrong.push(format!("{}: {target} {why}", page.display()));
            }
        }
    }
    if !names.contains(Path::new("index.html")) {
        wrong.push("there is no front page".into());
    }
    match wrong.is_empty() {
        true => Ok(format!("{} pages, {count} links", pages.len())),
        false => {
            let shown: Vec<String> = wrong.iter().take(20).cloned().collect();
            let what = format!("{} links lead nowhere: {}", wrong.len(), shown.join("; "));
            Err(Failure::Unexpected { what, expected: "files and headings of the site" })
        }
    }
}

/// What rustdoc's pages load if it is there, lists of what implements a trait, and the top folder of the page that says what is gone.
fn is_made_up(page: &Path, target: &str) -> bool {
    (page.starts_with(RUSTDOC) && target.contains("trait.impl/"))
        || (page == Path::new("404.html") && (target == "/" || target.starts_with('#')))
}

fn relative(site: &Path, file: &Path) -> Option<PathBuf> {
    file.strip_prefix(site).ok().map(Path::to_path_buf)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    for entry in std::fs::read_dir(folder).about(folder)? {
        let path = entry.about(folder)?.path();
        if path.is_dir() { collect(&path, files)? } else { files.push(path) }
    }
    Ok(())
}

/// What a page links to or loads, but other sites and what scripts make up.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let marks = [" href=\"", " src=\""];
    let all = marks.into_iter().flat_map(move |mark| {
        text.match_indices(mark).filter_map(move |(at, _)| text[at + mark.len()..].split('"').next())
    });
    all.filter(|target| {
        let is_elsewhere = target.contains("://")
            || ["mailto:", "data:", "javascript:", "//"].iter().any(|s| target.starts_with(s));
        !is_elsewhere && !target.is_empty() && !target.contains("${")
    })
}

fn broken(
    names: &BTreeSet<PathBuf>,
    pages: &BTreeMap<PathBuf, String>,
    page: &Path,
    target: &str,
) -> Option<String> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = path.split('?').next().unwrap_or(path);
    let folder = page.parent().unwrap_or(Path::new(""));
    let path = match path {
        "" => page.to_path_buf(),
        _ => super::markdown::plain(&folder.join(decoded(path))),
    };
    let path =
        if path.as_os_str().is_empty() || target.ends_with('/') { path.join("index.html") } else { path };
    if !names.contains(&path) {
        return Some("is not there".into());
    }
    if anchor.is_empty() || page.starts_with(RUSTDOC) || path.starts_with(RUSTDOC) {
        return None;
    }
    let text = pages.get(&path)?;
    let anchor = decoded(anchor);
    let is_there = text.contains(&format!("id=\"{anchor}\"")) || text.contains(&format!("name=\"{anchor}\""));
    (!is_there).then(|| "has no such heading".into())
}

/// `%20` and the like.
fn decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.replace("&amp;", "&").into_bytes().into_iter();
    while let Some(byte) = bytes.next() {
        let digits = match byte {
            b'%' => bytes.next().zip(bytes.next()),
            _ => None,
        };
        let value = digits.and_then(|(a, b)| u8::from_str_radix(std::str::from_utf8(&[a, b]).ok()?, 16).ok());
        out.push(value.unwrap_or(byte));
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_pages_lead_to_files_and_headings_or_are_told() {
        let page = "<a href=\"b.html#x\"><a href=\"https://e.org\"><img src=\"c%20d.svg\"><a href=\"#own\"><h1 id=\"own\"><a href=\"gone.html\"><a href=\"b.html#y\">";
        let names = ["a.html", "b.html", "c d.svg"].map(PathBuf::from).into();
        let pages = BTreeMap::from([
            (PathBuf::from("a.html"), page.into()),
            (PathBuf::from("b.html"), "<h2 id=\"x\">".into()),
        ]);
        let wrong: Vec<&str> =
            targets(page).filter(|t| broken(&names, &pages, Path::new("a.html"), t).is_some()).collect();
        assert_eq!(wrong, ["gone.html", "b.html#y"]);
    }
}
