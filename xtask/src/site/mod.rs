//! The documentation site: the book, the API of the crates and of the Python package, and the examples, in one folder of files.
//!
//! `cargo xtask site` puts the book's sources together ([`sources`]), has mdBook make pages of them, copies what rustdoc has made beside
//! them, and looks at every link of every page ([`pages`]). [`markdown`] checks the sources alone, which takes no tool and no time, and is
//! part of the quick tests; the site itself and the browser that opens its pages are in the full ones.

pub mod markdown;
mod pages;
mod sources;

use crate::failure::{AboutFile, Failure};
use crate::package;
use crate::setup;
use crate::step::StepResult;
use crate::workspace::Workspace;
use std::path::{Path, PathBuf};

/// What opens the pages in a browser. By name, since it is not collected with the tests.
const BROWSER_TESTS: &str = "python/tests/site_pages.py";

/// Where rustdoc's pages look for a list of crates.
const LIST: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Rust API</title>\
<meta http-equiv=\"refresh\" content=\"0; url=../rust-api.html\"><h1>Rust API</h1><p><a href=\"../rust-api.html\">All crates</a></p></html>\n";

/// Where it is built.
pub fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("site")
}

/// Builds it.
pub fn build(workspace: &Workspace) -> StepResult {
    setup::python(workspace)?;
    setup::mdbook(workspace)?;
    markdown::check(workspace)?;
    let (sources, site) = (workspace.empty_folder("site-sources")?, folder(workspace));
    sources::assemble(workspace, &sources)?;
    if site.exists() {
        std::fs::remove_dir_all(&site).about(&site)?;
    }
    workspace.program("mdbook").arg("build").arg(&sources).arg("--dest-dir").arg(&site).run()?;
    workspace.cargo("doc --workspace --no-deps --locked").run()?;
    copy(&workspace.target.join("doc"), &site.join("rust"))?;
    // Rustdoc's pages lead to a list of all crates, which ours has.
    let list = site.join("rust/index.html");
    std::fs::write(&list, LIST).about(&list)?;
    let looked = pages::check(&site)?;
    Ok(format!("{}: {looked}", site.display()))
}

/// Builds it and opens its pages in a browser.
pub fn check(workspace: &Workspace) -> StepResult {
    let built = build(workspace)?;
    setup::browser(workspace)?;
    let opened = package::pytest(workspace, &workspace.venv(), &[BROWSER_TESTS])?;
    Ok(format!("{built}; in a browser {opened}"))
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(to).about(to)?;
    for entry in std::fs::read_dir(from).about(from)? {
        let path = entry.about(from)?.path();
        let Some(name) = path.file_name() else { continue };
        let there = to.join(name);
        if path.is_dir() {
            copy(&path, &there)?;
        } else if !name.to_string_lossy().starts_with('.') {
            std::fs::copy(&path, &there).about(&path)?;
        }
    }
    Ok(())
}
