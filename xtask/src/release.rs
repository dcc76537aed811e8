//! A release, short of publishing it.
//!
//! [`check`] compares what a release says about itself: the versions of all crates, the citation, the changelog. [`packages`]
//! packs every crate that is published, in the order in which they depend on each other. [`rehearse`] does both, builds the wheel and the
//! executable, and puts all files with their checksums into one folder. What publishes them is the workflow `release`, which runs the same
//! commands.

use crate::failure::{AboutFile, Failure};
use crate::hygiene;
use crate::step::StepResult;
use crate::workspace::Workspace;
use crate::{dist, package};
use std::path::{Path, PathBuf};

/// Where the files of a release are gathered, in the target folder.
const FILES: &str = "release-files";
/// What is packed beside the executable.
const BESIDE: &[&str] = &["README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE-MIT", "LICENSE-APACHE"];
const WORKFLOWS: &str = ".github/workflows";
/// Most bytes that a registry takes for a crate.
const CRATE_BYTES_MAX: u64 = 10 << 20;

/// Makes or checks one part of a release.
type Part = fn(&Workspace) -> StepResult;
/// The parts, by name.
const PARTS: &[(&str, Part)] = &[("check", check), ("crates", packages), ("wheel", wheel), ("dist", archive)];

/// Does all of it, or one part.
pub fn rehearse(workspace: &Workspace, part: Option<&str>) -> StepResult {
    let chosen: Vec<_> = PARTS.iter().filter(|(name, _)| part.is_none_or(|part| part == *name)).collect();
    if chosen.is_empty() {
        return Err(Failure::Unexpected {
            what: format!("there is no part {}", part.unwrap_or_default()),
            expected: "check, crates, wheel or dist",
        });
    }
    let mut said = Vec::new();
    for (name, run) in chosen {
        said.push(format!("{name}: {}", run(workspace)?));
    }
    said.push(format!("checksums: {}", checksums(workspace)?));
    said.push("nothing was published".into());
    Ok(said.join("\n"))
}

/// Whether everything says the same of the release.
pub fn check(workspace: &Workspace) -> StepResult {
    let root = &workspace.root;
    let read = |name: &str| std::fs::read_to_string(root.join(name)).about(name);
    let manifest = read("Cargo.toml")?;
    let version = value(&manifest, "version").unwrap_or_default().to_owned();
    let mut wrong = Vec::new();
    for line in manifest.lines().filter(|line| line.starts_with("qjam") && line.contains("path =")) {
        if !line.contains(&format!("version = \"{version}\"")) {
            wrong.push(format!("Cargo.toml: `{line}` is not of version {version}"));
        }
    }
    let crates = crates(root)?;
    for (name, text) in crates.iter().filter(|(_, text)| is_published(text)) {
        for key in ["description", "license", "version"] {
            let has = text
                .lines()
                .any(|line| line.starts_with(&format!("{key} =")) || line.starts_with(&format!("{key}.")));
            if !has {
                wrong.push(format!("{name} has no {key}"));
            }
        }
    }
    for (name, _) in crates.iter().filter(|(_, text)| is_published(text)) {
        let folder = root.join("crates").join(name.strip_prefix("qjam-").unwrap_or(name)).join("src");
        let mut files = Vec::new();
        hygiene::collect(&folder, &mut files)?;
        for file in files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "rs")) {
            let depth = file.strip_prefix(&folder).unwrap_or(file).components().count();
            for outside in outside(&std::fs::read_to_string(file).about(file)?, depth) {
                wrong.push(format!(
                    "{} includes {outside}, which a packed crate does not have",
                    file.display()
                ));
            }
        }
    }
    if value(&read("CITATION.cff")?, "version") != Some(version.as_str()) {
        wrong.push(format!("CITATION.cff is not of version {version}"));
    }
    if !has_section(&read("CHANGELOG.md")?, &version) {
        wrong.push(format!("CHANGELOG.md has no section {version}, nor Unreleased, with something in it"));
    }
    let folder = root.join(WORKFLOWS);
    let workflows = std::fs::read_dir(&folder).about(&folder)?.count();
    match wrong.is_empty() {
        true => {
            let published = crates.iter().filter(|(_, text)| is_published(text)).count();
            Ok(format!("version {version}, {published} crates to publish, {workflows} workflows"))
        }
        false => {
            Err(Failure::Unexpected { what: wrong.join("; "), expected: "a release that agrees with itself" })
        }
    }
}

/// Packs every crate that is published. Cargo orders them, and resolves each against the others' packages.
pub fn packages(workspace: &Workspace) -> StepResult {
    let crates = crates(&workspace.root)?;
    let folder = workspace.target.join("package");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).about(&folder)?;
    }
    let _modules = PythonModules::beside_their_crate(workspace)?;
    let mut cargo = workspace.cargo("package --workspace --locked --no-verify --allow-dirty");
    for (name, _) in crates.iter().filter(|(_, text)| !is_published(text)) {
        cargo = cargo.args(["--exclude", name.as_str()]);
    }
    cargo.args(["--exclude", "xtask"]).env("CARGO_TARGET_DIR", &workspace.target).run()?;
    let mut sizes = Vec::new();
    for (name, _) in crates.iter().filter(|(_, text)| is_published(text)) {
        let packed = packed(&folder, name)?;
        let size = std::fs::metadata(&packed).about(&packed)?.len();
        if size > CRATE_BYTES_MAX {
            let what = format!("{} has {size} bytes", packed.display());
            return Err(Failure::Unexpected { what, expected: "at most 10 MiB, which a registry takes" });
        }
        sizes.push(size);
    }
    Ok(format!("{} crates, {} KiB", sizes.len(), sizes.iter().sum::<u64>() >> 10))
}

/// The Python modules that child interpreters run, where `crates/python` is packed with them: see its build script. They are removed
/// when this is dropped, since a checkout has them elsewhere.
struct PythonModules(PathBuf);

impl PythonModules {
    fn beside_their_crate(workspace: &Workspace) -> Result<PythonModules, Failure> {
        let modules = PythonModules(workspace.root.join("crates/python/package"));
        for part in ["_worker", "common"] {
            let (from, to) = (workspace.root.join("python/qjam").join(part), modules.0.join(part));
            std::fs::create_dir_all(&to).about(&to)?;
            for entry in std::fs::read_dir(&from).about(&from)?.flatten() {
                let path = entry.path();
                if path.extension().is_some_and(|kind| kind == "py") {
                    let copy = to.join(entry.file_name());
                    std::fs::copy(&path, &copy).about(&copy)?;
                }
            }
        }
        Ok(modules)
    }
}

impl Drop for PythonModules {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The package of a crate: its name, a version, `.crate`.
fn packed(folder: &Path, name: &str) -> Result<PathBuf, Failure> {
    let entries = std::fs::read_dir(folder).about(folder)?.flatten().map(|entry| entry.path());
    let is_it = |path: &PathBuf| {
        let file = path.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
        let rest = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('-')).unwrap_or_default();
        rest.starts_with(|c: char| c.is_ascii_digit()) && rest.ends_with(".crate")
    };
    let remedy = "see what `cargo package` says".into();
    entries.into_iter().find(is_it).ok_or(Failure::Missing { tool: format!("the package of {name}"), remedy })
}

/// The wheel for others.
fn wheel(workspace: &Workspace) -> StepResult {
    let said = package::wheel(workspace)?;
    let folder = workspace.target.join("wheels");
    for entry in std::fs::read_dir(&folder).about(&folder)?.flatten() {
        gather(workspace, &entry.path())?;
    }
    Ok(said)
}

/// The executable that runs anywhere, with licences, completions and manual pages, as one archive.
fn archive(workspace: &Workspace) -> StepResult {
    let said = dist::build(workspace)?;
    let manifest = std::fs::read_to_string(workspace.root.join("Cargo.toml")).about("Cargo.toml")?;
    let version = value(&manifest, "version").unwrap_or_default().to_owned();
    let name = format!("qjam-{version}-{}-linux", std::env::consts::ARCH);
    let folder = workspace.empty_folder("archive")?;
    let inner = folder.join(&name);
    let completions = inner.join("completions");
    std::fs::create_dir_all(&completions).about(&completions)?;
    let program = inner.join("qjam");
    std::fs::copy(dist::path(workspace), &program).about(&program)?;
    for file in BESIDE {
        std::fs::copy(workspace.root.join(file), inner.join(file)).about(file)?;
    }
    for (shell, file) in [("bash", "qjam.bash"), ("zsh", "_qjam"), ("fish", "qjam.fish")] {
        let script = workspace.program(&program).args(["completions", shell]).ask()?;
        std::fs::write(completions.join(file), script).about(file)?;
    }
    workspace.program(&program).args(["man", "--out"]).arg(inner.join("man/man1")).ask()?;
    let packed = folder.join(format!("{name}.tar.gz"));
    // The same files give the same archive.
    let tar = workspace.program("tar").args([
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--mtime=@0",
        "-czf",
    ]);
    tar.arg(&packed).arg("-C").arg(&folder).arg(&name).run()?;
    gather(workspace, &packed)?;
    Ok(said)
}

fn gather(workspace: &Workspace, file: &Path) -> Result<(), Failure> {
    let folder = workspace.target.join(FILES);
    std::fs::create_dir_all(&folder).about(&folder)?;
    let to = folder.join(file.file_name().unwrap_or_default());
    std::fs::copy(file, &to).about(&to).map(|_| ())
}

/// Checksums of all files that were gathered.
fn checksums(workspace: &Workspace) -> StepResult {
    let folder = workspace.target.join(FILES);
    std::fs::create_dir_all(&folder).about(&folder)?;
    let entries = std::fs::read_dir(&folder).about(&folder)?.flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name()).filter(|name| name != "SHA256SUMS").collect();
    names.sort();
    let text = match names.is_empty() {
        true => String::new(),
        false => workspace.program("sha256sum").dir(&folder).arg("--").args(&names).ask()?,
    };
    let path = folder.join("SHA256SUMS");
    std::fs::write(&path, text).about(&path)?;
    Ok(format!("{} of {} files", path.display(), names.len()))
}

/// Files outside of its crate that a source includes; it is so many names below the crate's `src`. Examples of the book, which only tests
/// of documentation compile, are none.
fn outside(source: &str, depth: usize) -> Vec<&str> {
    let lines = source.lines().filter(|line| !line.trim_start().starts_with("#[doc ="));
    let included =
        lines.flat_map(|line| ["include_str!(\"", "include_bytes!(\""].map(|mark| line.split_once(mark)));
    let paths = included.flatten().filter_map(|(_, rest)| rest.split('"').next());
    paths.filter(|path| path.matches("../").count() > depth).collect()
}

/// Names and manifests of all crates.
fn crates(root: &Path) -> Result<Vec<(String, String)>, Failure> {
    let folder = root.join("crates");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&folder).about(&folder)?.flatten() {
        let path = entry.path().join("Cargo.toml");
        let text = std::fs::read_to_string(&path).about(&path)?;
        found.push((value(&text, "name").unwrap_or_default().to_owned(), text));
    }
    found.sort();
    Ok(found)
}

fn is_published(manifest: &str) -> bool {
    !manifest.lines().any(|line| line.trim() == "publish = false")
}

/// The first value of a key, in TOML or YAML.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?.trim_start();
        let rest = rest.strip_prefix('=').or_else(|| rest.strip_prefix(':'))?;
        Some(rest.trim().trim_matches('"'))
    })
}

/// Whether a changelog says something of a version, or of the one that comes.
fn has_section(changelog: &str, version: &str) -> bool {
    let sections = changelog.split("\n## ").skip(1);
    let mut found = sections.filter(|section| {
        let title = section.lines().next().unwrap_or_default();
        title.starts_with("Unreleased") || title.split_whitespace().next() == Some(version)
    });
    found.any(|section| section.lines().skip(1).any(|line| !line.trim().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_sections_are_found() {
        assert_eq!(value("a = 1\nversion = \"0.1.0\"\n", "version"), Some("0.1.0"));
        assert_eq!(value("cff-version: 1.2.0\nversion: 0.1.0\n", "version"), Some("0.1.0"));
        assert!(has_section("# C\n\n## Unreleased\n\n- x\n", "0.1.0"));
        assert!(has_section("# C\n\n## 0.1.0 (today)\n\n- x\n", "0.1.0"));
        assert!(!has_section("# C\n\n## Unreleased\n\n## 0.0.9\n\n- x\n", "0.1.0"));
        let source = "x(include_str!(\"../a\"));\n#[doc = include_str!(\"../../../c\")]\n";
        assert_eq!(outside(source, 1), [] as [&str; 0]);
        assert_eq!(outside("include_str!(\"../../b\")", 1), ["../../b"]);
        assert!(!is_published("publish = false\n") && is_published("name = \"x\"\n"));
    }
}
