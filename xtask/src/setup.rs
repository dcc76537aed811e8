//! Installs what the steps need, if it is missing.
//!
//! Python packages go into an environment under the target folder, cargo's tools beside it. System packages are installed only if the
//! system lacks something itself.

use crate::failure::{AboutFile, Failure};
use crate::step::StepResult;
use crate::workspace::Workspace;
use std::path::{Path, PathBuf};

/// Python packages that tests compare with.
const TEST_PACKAGES: &str = "bench/requirements-test.txt";
/// Packages that the tests of the Python package need.
pub const PACKAGE_TEST_PACKAGES: &str = "python/tests/requirements.txt";
/// The server that speaks like S3.
const CLOUD_PACKAGES: &str = "crates/store/tests/requirements.txt";
/// Spark with its driver in Python.
const SPARK_PACKAGES: &str = "python/tests/requirements-spark.txt";
/// What draws the pictures of the study.
const PAPER_PACKAGES: &str = "bench/requirements-paper.txt";
/// The server that speaks like Azure's storage.
const AZURITE: &str = "azurite@3.35.0";
/// What makes pages of the book.
const MDBOOK: &str = "0.5.4";
/// Additional Python packages of the peer programs.
const PEER_PACKAGES: &str = "bench/requirements-peers.txt";

/// Installs rustfmt and clippy.
pub fn rust_tools(workspace: &Workspace) -> StepResult {
    for (words, component) in [("fmt --version", "rustfmt"), ("clippy --version", "clippy")] {
        if workspace.cargo(words).ask().is_err() {
            workspace.program("rustup").args(["component", "add", component]).run()?;
        }
    }
    let version = workspace.cargo("--version").ask()?;
    Ok(version.trim().to_string())
}

/// Installs the Python environment and the packages that tests use.
pub fn python(workspace: &Workspace) -> StepResult {
    environment(workspace)?;
    let references = packages(workspace, TEST_PACKAGES)?;
    let tests = packages(workspace, PACKAGE_TEST_PACKAGES)?;
    Ok(if references == tests { references } else { "installed".into() })
}

/// Installs what the peer programs use, and a C++ compiler for one of them.
pub fn peers(workspace: &Workspace) -> StepResult {
    python(workspace)?;
    if workspace.program("c++").arg("--version").ask().is_err() {
        system_packages(workspace, &["g++"])?;
    }
    packages(workspace, PEER_PACKAGES)
}

/// Installs the servers that stand for clouds: moto by pip, Azurite by npm.
pub fn cloud_servers(workspace: &Workspace) -> StepResult {
    environment(workspace)?;
    let moto = packages(workspace, CLOUD_PACKAGES)?;
    let (folder, stamp) = (workspace.target.join("azurite"), workspace.target.join("azurite/installed"));
    if std::fs::read_to_string(&stamp).is_ok_and(|there| there == AZURITE) {
        return Ok(moto);
    }
    if workspace.program("npm").arg("--version").ask().is_err() {
        system_packages(workspace, &["nodejs", "npm"])?;
    }
    std::fs::create_dir_all(&folder).about(&folder)?;
    let options =
        ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error", "--prefix"];
    workspace.program("npm").args(options).arg(&folder).arg(AZURITE).run()?;
    std::fs::write(&stamp, AZURITE).about(stamp)?;
    Ok("installed".into())
}

/// Installs PySpark, and a Java to run it where there is none.
pub fn spark(workspace: &Workspace) -> StepResult {
    python(workspace)?;
    if workspace.program("java").arg("-version").ask().is_err() && std::env::var_os("JAVA_HOME").is_none() {
        system_packages(workspace, &["openjdk-17-jre-headless"])?;
    }
    packages(workspace, SPARK_PACKAGES)
}

/// Installs what the study of Spark and MPI uses: both, and what draws its pictures.
pub fn paper(workspace: &Workspace) -> StepResult {
    spark(workspace)?;
    mpi(workspace)?;
    packages(workspace, PAPER_PACKAGES)
}

/// Azurite's program.
pub fn azurite(workspace: &Workspace) -> PathBuf {
    workspace.target.join("azurite/node_modules/.bin/azurite")
}

/// Installs cargo-fuzz, and a C++ compiler for the fuzzing library.
pub fn cargo_fuzz(workspace: &Workspace) -> StepResult {
    if workspace.program("c++").arg("--version").ask().is_err() {
        system_packages(workspace, &["g++"])?;
    }
    if let Ok(version) = workspace.cargo("fuzz --version").ask() {
        return Ok(format!("{} is there", version.trim()));
    }
    workspace.cargo("install cargo-fuzz --locked --root").arg(workspace.tools()).run()?;
    let version = workspace.cargo("fuzz --version").ask()?;
    Ok(format!("{} installed", version.trim()))
}

/// Installs mdBook, without the parts that serve and watch, which are most of it.
pub fn mdbook(workspace: &Workspace) -> StepResult {
    let there = workspace.program("mdbook").arg("--version").ask();
    if there.is_ok_and(|version| version.trim().trim_start_matches("mdbook v") == MDBOOK) {
        return Ok(format!("mdbook {MDBOOK} is there"));
    }
    let install =
        format!("install mdbook --locked --version {MDBOOK} --no-default-features --features search --root");
    workspace.cargo(&install).arg(workspace.tools()).run()?;
    Ok(format!("mdbook {MDBOOK} installed"))
}

/// Installs what test hosts need: sshd, and the tools for namespaces, network interfaces and packet filters.
pub fn ssh_server(workspace: &Workspace) -> StepResult {
    const TOOLS: &[(&str, &str)] = &[
        ("sshd", "openssh-server"),
        ("ssh", "openssh-client"),
        ("ip", "iproute2"),
        ("nft", "nftables"),
        ("ps", "procps"),
        ("unshare", "util-linux"),
    ];
    // Daemons and root's tools are not on everybody's path.
    let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let there = |tool: &str| folders.iter().any(|folder| Path::new(folder).join(tool).exists());
    let missing: Vec<&str> =
        TOOLS.iter().filter(|(tool, _)| !there(tool)).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok("already there".into());
    }
    system_packages(workspace, &missing)?;
    Ok(format!("{} installed", missing.join(", ")))
}

/// Installs an MPI library with its launcher, and the library that reads its headers.
pub fn mpi(workspace: &Workspace) -> StepResult {
    let has_launcher = workspace.program("mpirun").arg("--version").ask();
    let has_compiler = workspace.program("mpicc").arg("--version").ask();
    let has_clang = libclang();
    if let (Ok(version), Ok(_), true) = (&has_launcher, &has_compiler, has_clang) {
        return Ok(version.lines().next().unwrap_or_default().to_owned());
    }
    system_packages(workspace, &["libopenmpi-dev", "openmpi-bin", "libclang-dev"])?;
    let version = workspace.program("mpirun").arg("--version").ask()?;
    Ok(format!("{} installed", version.lines().next().unwrap_or_default()))
}

/// Installs a browser, for tests of pages.
pub fn browser(workspace: &Workspace) -> StepResult {
    const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
    let version = || NAMES.iter().find_map(|name| workspace.program(name).arg("--version").ask().ok());
    if let Some(version) = version() {
        return Ok(version.trim().to_owned());
    }
    system_packages(workspace, &["chromium"])?;
    let missing = || Failure::Missing { tool: "chromium".into(), remedy: "install a Chromium".into() };
    version().map(|version| format!("{} installed", version.trim())).ok_or_else(missing)
}

/// Whether there is the library that reads C headers.
fn libclang() -> bool {
    let in_folder = |folder: &str| {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files.into_iter().any(|file| file.file_name().to_string_lossy().starts_with("libclang"))
    };
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let llvm = folders.filter(|path| path.to_string_lossy().contains("llvm-")).map(|path| path.join("lib"));
    let places = ["/usr/lib".into(), format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH).into()];
    std::env::var_os("LIBCLANG_PATH").is_some()
        || places.into_iter().chain(llvm).any(|path: std::path::PathBuf| in_folder(&path.to_string_lossy()))
}

/// Makes the environment when it is not there or its interpreter is gone.
fn environment(workspace: &Workspace) -> Result<(), Failure> {
    let works = |python: &Path| workspace.program(python).args(["-m", "pip", "--version"]).ask().is_ok();
    if works(&workspace.venv().join("bin/python")) {
        return Ok(());
    }
    let make = || workspace.program("python3").args(["-m", "venv", "--clear"]).arg(workspace.venv()).run();
    if make().is_err() {
        // Debian has the module that makes environments in a package of its own.
        system_packages(workspace, &["python3", "python3-venv"])?;
        make()?;
    }
    Ok(())
}

/// Installs the packages of a list unless they already were, by this very list and interpreter.
fn packages(workspace: &Workspace, list: &str) -> StepResult {
    let python = workspace.venv_program("python")?;
    let wanted = std::fs::read_to_string(workspace.root.join(list)).about(list)?;
    let version = workspace.program(&python).arg("--version").ask()?;
    let stamp = workspace.venv().join(list.replace('/', "-"));
    let now = format!("{version}{wanted}");
    if std::fs::read_to_string(&stamp).is_ok_and(|before| before == now) {
        return Ok("already there".into());
    }
    // Wheels only: what must be compiled first is not what we want to wait for, or to be compared with.
    let options =
        ["-m", "pip", "install", "--disable-pip-version-check", "--only-binary", ":all:", "-q", "-r"];
    workspace.program(&python).args(options).arg(list).run()?;
    std::fs::write(&stamp, now).about(stamp)?;
    Ok("installed".into())
}

/// Installs system packages, without prompting.
fn system_packages(workspace: &Workspace, names: &[&str]) -> Result<(), Failure> {
    let missing = |tool: &str| Failure::Missing {
        tool: tool.into(),
        remedy: format!("install {} with your system's package manager", names.join(", ")),
    };
    workspace.program("apt-get").arg("--version").ask().map_err(|_| missing("apt-get"))?;
    let sudo = sudo(workspace).ok_or_else(|| missing("sudo that asks for no password"))?;
    // At this run level no package starts its daemon.
    let variables = ["DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1"];
    let apt = |words: &[&str]| {
        let words =
            sudo.iter().chain(&["env"]).chain(&variables).chain(&["apt-get", "-q", "-y"]).chain(words);
        let words: Vec<&str> = words.copied().collect();
        workspace.program(words[0]).args(&words[1..]).run()
    };
    apt(&["update"])?;
    apt(&[&["install", "--no-install-recommends"], names].concat())?;
    Ok(())
}

/// What to put before a command that only root may give: nothing for root, else a sudo that asks no password; none where
/// there is no such.
pub fn sudo(workspace: &Workspace) -> Option<&'static [&'static str]> {
    if workspace.program("id").arg("-u").ask().is_ok_and(|id| id.trim() == "0") {
        return Some(&[]);
    }
    workspace.program("sudo").args(["-n", "true"]).ask().is_ok().then_some(&["sudo", "-n"])
}
