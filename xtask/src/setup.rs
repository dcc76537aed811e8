//! Installs what the steps need, and only what is missing.
//!
//! Python packages go into an environment under the target folder, cargo's tools beside it. Only where the system
//! itself lacks something is it asked for a package.

use crate::failure::{AboutFile, Failure};
use crate::shop::Shop;
use crate::step::Outcome;
use std::path::Path;

/// What the tests' references need.
const TEST_PACKAGES: &str = "bench/requirements-test.txt";
/// What the tests of the Python package need.
pub const PACKAGE_TEST_PACKAGES: &str = "python/tests/requirements.txt";
/// What the peer programs need on top.
const PEER_PACKAGES: &str = "bench/requirements-peers.txt";

/// Makes sure of rustfmt and clippy.
pub fn rust_tools(shop: &Shop) -> Outcome {
    for (words, component) in [("fmt --version", "rustfmt"), ("clippy --version", "clippy")] {
        if shop.cargo(words).ask().is_err() {
            shop.program("rustup").args(["component", "add", component]).run()?;
        }
    }
    let version = shop.cargo("--version").ask()?;
    Ok(version.trim().to_string())
}

/// Makes sure of the Python environment and the packages that tests use.
pub fn python(shop: &Shop) -> Outcome {
    environment(shop)?;
    let references = packages(shop, TEST_PACKAGES)?;
    let tests = packages(shop, PACKAGE_TEST_PACKAGES)?;
    Ok(if references == tests { references } else { "installed".into() })
}

/// Makes sure of what the peer programs use, and of the compiler for the one that is in C++.
pub fn peers(shop: &Shop) -> Outcome {
    python(shop)?;
    if shop.program("c++").arg("--version").ask().is_err() {
        system_packages(shop, &["g++"])?;
    }
    packages(shop, PEER_PACKAGES)
}

/// Makes sure of cargo-fuzz, and of the C++ compiler that builds the fuzzing library.
pub fn cargo_fuzz(shop: &Shop) -> Outcome {
    if shop.program("c++").arg("--version").ask().is_err() {
        system_packages(shop, &["g++"])?;
    }
    if let Ok(version) = shop.cargo("fuzz --version").ask() {
        return Ok(format!("{} is there", version.trim()));
    }
    shop.cargo("install cargo-fuzz --locked --root").arg(shop.tools()).run()?;
    let version = shop.cargo("fuzz --version").ask()?;
    Ok(format!("{} installed", version.trim()))
}

/// Makes sure of what test hosts are made of: sshd, and the tools for namespaces, cables and packet filters.
pub fn ssh_server(shop: &Shop) -> Outcome {
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
    system_packages(shop, &missing)?;
    Ok(format!("{} installed", missing.join(", ")))
}

/// Makes sure of an MPI library with its launcher, and of what reads its headers.
pub fn mpi(shop: &Shop) -> Outcome {
    let has_launcher = shop.program("mpirun").arg("--version").ask();
    let has_compiler = shop.program("mpicc").arg("--version").ask();
    let has_clang = libclang();
    if let (Ok(version), Ok(_), true) = (&has_launcher, &has_compiler, has_clang) {
        return Ok(version.lines().next().unwrap_or_default().to_owned());
    }
    system_packages(shop, &["libopenmpi-dev", "openmpi-bin", "libclang-dev"])?;
    let version = shop.program("mpirun").arg("--version").ask()?;
    Ok(format!("{} installed", version.lines().next().unwrap_or_default()))
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
fn environment(shop: &Shop) -> Result<(), Failure> {
    let works = |python: &Path| shop.program(python).args(["-m", "pip", "--version"]).ask().is_ok();
    if works(&shop.venv().join("bin/python")) {
        return Ok(());
    }
    let make = || shop.program("python3").args(["-m", "venv", "--clear"]).arg(shop.venv()).run();
    if make().is_err() {
        // Debian has the module that makes environments in a package of its own.
        system_packages(shop, &["python3", "python3-venv"])?;
        make()?;
    }
    Ok(())
}

/// Installs the packages of a list unless they already were, by this very list and interpreter.
fn packages(shop: &Shop, list: &str) -> Outcome {
    let python = shop.venv_program("python")?;
    let wanted = std::fs::read_to_string(shop.root.join(list)).about(list)?;
    let version = shop.program(&python).arg("--version").ask()?;
    let stamp = shop.venv().join(list.replace('/', "-"));
    let now = format!("{version}{wanted}");
    if std::fs::read_to_string(&stamp).is_ok_and(|before| before == now) {
        return Ok("already there".into());
    }
    // Wheels only: what must be compiled first is not what we want to wait for, or to be compared with.
    let options =
        ["-m", "pip", "install", "--disable-pip-version-check", "--only-binary", ":all:", "-q", "-r"];
    shop.program(&python).args(options).arg(list).run()?;
    std::fs::write(&stamp, now).about(stamp)?;
    Ok("installed".into())
}

/// Asks the system for packages, without asking anybody anything.
fn system_packages(shop: &Shop, names: &[&str]) -> Result<(), Failure> {
    let missing = |tool: &str| Failure::Missing {
        tool: tool.into(),
        remedy: format!("install {} with your system's package manager", names.join(", ")),
    };
    shop.program("apt-get").arg("--version").ask().map_err(|_| missing("apt-get"))?;
    let sudo = sudo(shop).ok_or_else(|| missing("sudo that asks for no password"))?;
    // At this run level no package starts its daemon.
    let variables = ["DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1"];
    let apt = |words: &[&str]| {
        let words =
            sudo.iter().chain(&["env"]).chain(&variables).chain(&["apt-get", "-q", "-y"]).chain(words);
        let words: Vec<&str> = words.copied().collect();
        shop.program(words[0]).args(&words[1..]).run()
    };
    apt(&["update"])?;
    apt(&[&["install", "--no-install-recommends"], names].concat())?;
    Ok(())
}

/// What to put before a command that only root may give: nothing for root, else a sudo that asks no password; none where
/// there is no such.
pub fn sudo(shop: &Shop) -> Option<&'static [&'static str]> {
    if shop.program("id").arg("-u").ask().is_ok_and(|id| id.trim() == "0") {
        return Some(&[]);
    }
    shop.program("sudo").args(["-n", "true"]).ask().is_ok().then_some(&["sudo", "-n"])
}
