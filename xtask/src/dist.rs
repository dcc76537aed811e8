//! The portable executable: `qjam`, built to run on any Linux with the same kind of CPU, without installed libraries.
//!
//! The C library is linked statically. Only the final link differs from an ordinary release build, so the command and the wheel of the
//! Python package share the compiled crates.

use crate::elf;
use crate::failure::{AboutFile, Failure};
use crate::setup;
use crate::step::StepResult;
use crate::workspace::Workspace;
use std::path::PathBuf;

/// A data set to fit.
const DATA: &str = "docs/book/data/digits.csv.gz";

/// Builds it to `dist/qjam` in the target folder, and reports its size and hash.
pub fn build(workspace: &Workspace) -> StepResult {
    let built = workspace.release.join("qjam");
    let cargo = workspace.cargo("rustc --release --locked --package qjam-cli --bin qjam --features cloud");
    let cargo = cargo.args(["--", "-C", "target-feature=+crt-static", "-C", "strip=symbols"]);
    cargo.env("CARGO_TARGET_DIR", &workspace.target).run()?;
    let bytes = std::fs::read(&built).about(&built)?;
    match elf::needs(&bytes) {
        Some(elf::Needs { interpreter: false, libraries: 0 }) => {}
        found => {
            let what = format!("{} needs {found:?}", built.display());
            return Err(Failure::Unexpected { what, expected: "neither interpreter nor libraries" });
        }
    }
    let path = path(workspace);
    std::fs::create_dir_all(workspace.target.join("dist")).about(&path)?;
    // Written under another name and renamed, so that a running old one is not disturbed.
    let beside = path.with_extension("new");
    std::fs::copy(&built, &beside).about(&beside)?;
    std::fs::rename(&beside, &path).about(&path)?;
    let hash = workspace.program("sha256sum").arg(&path).ask()?;
    let hash = hash.split_whitespace().next().unwrap_or_default();
    Ok(format!("{}, {} bytes, SHA-256 {hash}", path.display(), bytes.len()))
}

/// Builds it and runs it in an empty root folder.
pub fn check(workspace: &Workspace) -> StepResult {
    let note = build(workspace)?;
    let folder = workspace.empty_folder("dist")?;
    std::fs::copy(path(workspace), folder.join("qjam")).about(&folder)?;
    let sudo = setup::sudo(workspace).ok_or_else(|| Failure::Missing {
        tool: "sudo that asks for no password".into(),
        remedy: "only root may change what the root folder is".into(),
    })?;
    let words: Vec<&str> = sudo.iter().chain(&["chroot"]).copied().collect();
    // As the calling user, who can then remove its files.
    let id = |what: &str| workspace.program("id").arg(what).ask().map(|id| id.trim().to_string());
    let user = format!("--userspec={}:{}", id("-u")?, id("-g")?);
    let there = |args: &[&str]| {
        let chroot = workspace.program(words[0]).args(&words[1..]).arg(&user).arg(&folder);
        chroot.arg("/qjam").args(args).tee()
    };
    let version = there(&["--version"])?;
    if !version.starts_with("qjam ") {
        let what = format!("`qjam --version` in an empty folder said '{}'", version.trim());
        return Err(Failure::Unexpected { what, expected: "'qjam' and a number" });
    }
    // Reads a compressed file, fits a model and writes it, without anything installed.
    std::fs::copy(workspace.root.join(DATA), folder.join("data.csv.gz")).about(&folder)?;
    let fit = there(&["fit", "kmeans", "data.csv.gz", "--k", "10", "--out", "data.model", "--json"])?;
    if !folder.join("data.model").exists() {
        let what = format!("`qjam fit` in an empty folder left no model and said '{}'", fit.trim());
        return Err(Failure::Unexpected { what, expected: "a file" });
    }
    Ok(note)
}

/// Its path.
pub fn path(workspace: &Workspace) -> PathBuf {
    workspace.target.join("dist/qjam")
}
