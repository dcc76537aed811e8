//! The executable that travels: `qjam`, built so that it runs on any Linux of its CPU kind, whatever is installed there.
//!
//! The C library is linked in. Only this last linking is special, so the crates below are those of any release build: the
//! ordinary command and the wheel of the Python package share them, and the wheel's backend gives the same command.

use crate::elf;
use crate::failure::{AboutFile, Failure};
use crate::setup;
use crate::shop::Shop;
use crate::step::Outcome;
use std::path::PathBuf;

/// Something to learn from.
const DATA: &str = "docs/book/data/digits.csv.gz";

/// Builds it to `dist/qjam` in the target folder, and says how large it is and what it hashes to.
pub fn build(shop: &Shop) -> Outcome {
    let built = shop.release.join("qjam");
    let cargo = shop.cargo("rustc --release --locked --package qjam-cli --bin qjam");
    let cargo = cargo.args(["--", "-C", "target-feature=+crt-static", "-C", "strip=symbols"]);
    cargo.env("CARGO_TARGET_DIR", &shop.target).run()?;
    let bytes = std::fs::read(&built).about(&built)?;
    match elf::needs(&bytes) {
        Some(elf::Needs { interpreter: false, libraries: 0 }) => {}
        found => {
            let what = format!("{} needs {found:?}", built.display());
            return Err(Failure::Unexpected { what, expected: "neither interpreter nor libraries" });
        }
    }
    let path = path(shop);
    std::fs::create_dir_all(shop.target.join("dist")).about(&path)?;
    // Beside and renamed: whoever runs the old one meanwhile keeps it.
    let beside = path.with_extension("new");
    std::fs::copy(&built, &beside).about(&beside)?;
    std::fs::rename(&beside, &path).about(&path)?;
    let hash = shop.program("sha256sum").arg(&path).ask()?;
    let hash = hash.split_whitespace().next().unwrap_or_default();
    Ok(format!("{}, {} bytes, SHA-256 {hash}", path.display(), bytes.len()))
}

/// Builds it and runs it where there is nothing else: in an empty folder that it takes for the whole file system.
pub fn check(shop: &Shop) -> Outcome {
    let note = build(shop)?;
    let folder = shop.empty_folder("dist")?;
    std::fs::copy(path(shop), folder.join("qjam")).about(&folder)?;
    let sudo = setup::sudo(shop).ok_or_else(|| Failure::Missing {
        tool: "sudo that asks for no password".into(),
        remedy: "only root may change what the root folder is".into(),
    })?;
    let words: Vec<&str> = sudo.iter().chain(&["chroot"]).copied().collect();
    // As whoever called, who can then remove what it leaves.
    let id = |what: &str| shop.program("id").arg(what).ask().map(|id| id.trim().to_string());
    let user = format!("--userspec={}:{}", id("-u")?, id("-g")?);
    let there = |args: &[&str]| {
        let chroot = shop.program(words[0]).args(&words[1..]).arg(&user).arg(&folder);
        chroot.arg("/qjam").args(args).tee()
    };
    let version = there(&["--version"])?;
    if !version.starts_with("qjam ") {
        let what = format!("`qjam --version` in an empty folder said '{}'", version.trim());
        return Err(Failure::Unexpected { what, expected: "'qjam' and a number" });
    }
    // Reads a packed file, learns and writes, with nothing but itself.
    std::fs::copy(shop.root.join(DATA), folder.join("data.csv.gz")).about(&folder)?;
    let fit = there(&["fit", "kmeans", "data.csv.gz", "--k", "10", "--out", "data.model", "--json"])?;
    if !folder.join("data.model").exists() {
        let what = format!("`qjam fit` in an empty folder left no model and said '{}'", fit.trim());
        return Err(Failure::Unexpected { what, expected: "a file" });
    }
    Ok(note)
}

/// Where it is.
pub fn path(shop: &Shop) -> PathBuf {
    shop.target.join("dist/qjam")
}
