//! The steps, in the order they run. To add one, add a line.

use crate::step::Lane::{Package, Tests};
use crate::step::Tier::{Bench, Full, Quick};
use crate::step::{Step, StepResult};
use crate::{
    bench, clouds, demo, dist, fresh, fuzz, hosts, hygiene, mpi, package, promised, release, rooms, setup,
    site, spark, suite, workspace::Workspace,
};

/// Installs what the checks need; nothing is done where it is already there.
pub const SETUP: &[Step] = &[
    Step::new("rust-tools", Quick, setup::rust_tools),
    Step::new("cargo-fuzz", Full, setup::cargo_fuzz),
    Step::new("mdbook", Full, setup::mdbook),
    Step::new("peers", Bench, setup::peers),
    Step::new("python", Quick, setup::python).lane(Package),
    Step::new("ssh-server", Quick, setup::ssh_server).lane(Package),
    Step::new("mpi-library", Quick, setup::mpi).lane(Package),
    Step::new("cloud-servers", Quick, setup::cloud_servers).lane(Package),
    Step::new("spark-packages", Quick, setup::spark).lane(Package),
    Step::new("browser", Quick, setup::browser).lane(Package),
];

/// Checks, cheapest first; those that run alone come last.
pub const CHECKS: &[Step] = &[
    Step::new("hygiene", Quick, hygiene::check).lane(Tests),
    Step::new("rooms", Quick, rooms::check).lane(Tests),
    Step::new("promised", Quick, promised::check).lane(Tests),
    Step::new("book", Quick, site::markdown::check).lane(Tests),
    Step::new("release", Quick, release::check).lane(Tests),
    Step::new("format", Quick, |s| s.cargo("fmt --all --check").run()).lane(Tests),
    Step::new("clippy", Quick, |s| s.cargo("clippy --workspace --all-targets -- -D warnings").run())
        .lane(Tests),
    Step::new("docs", Quick, docs).lane(Tests),
    Step::new("reference", Quick, |s| s.program(s.venv_program("python")?).args(PEER_CHECK).run())
        .lane(Package),
    Step::new("python-lint", Quick, package::lint).lane(Package),
    Step::new("dist", Quick, dist::check).lane(Package).patient(),
    Step::new("tests", Quick, suite::run).lane(Tests).after(&["python"]),
    Step::new("demo", Quick, demo::run).lane(Package).patient(),
    Step::new("python-wheel", Quick, package::install).lane(Package).patient(),
    Step::new("fuzz-compiles", Quick, fuzz::check).lane(Package).patient(),
    // These wait more than they compute, and so come while others compile.
    Step::new("hosts", Quick, hosts::test).lane(Tests).after(&["ssh-server"]),
    Step::new("mpi", Quick, mpi::test).lane(Tests).after(&["mpi-library"]),
    Step::new("clouds", Quick, clouds::test).lane(Tests).after(&["cloud-servers"]),
    Step::new("simulation", Quick, |s| sweep(s, "", "0..1000")).lane(Tests),
    Step::new("python-tests", Quick, package::tests).lane(Package),
    Step::new("python-account", Quick, fresh::account).lane(Package),
    Step::new("python-tool", Quick, fresh::tool).lane(Package),
    Step::new("python-hosts", Quick, hosts::python_test).lane(Tests).after(&["python-wheel"]),
    Step::new("python-clouds", Quick, clouds::python_test).lane(Tests).after(&["python-wheel"]),
    Step::new("spark", Quick, spark::python_test).lane(Tests).after(&["python-wheel", "spark-packages"]),
    Step::new("long-simulation", Full, |s| sweep(s, "--release", "0..10000")).lane(Tests),
    Step::new("mutants", Full, |s| s.cargo("run --release -p qjam-sim --bin mutants").limit_min(60).run())
        .lane(Tests),
    Step::new("long-tests", Full, suite::long),
    Step::new("long-hosts", Full, hosts::long_test),
    Step::new("site", Full, site::check),
    Step::new("packages", Full, release::packages),
    Step::new("python-sources", Full, package::from_sources).lane(Package),
    Step::new("python-versions", Full, fresh::versions).lane(Package),
    Step::new("fuzz", Full, fuzz::run).lane(Package),
    Step::new("bench-rounds", Bench, bench::rounds),
    Step::new("bench-python", Bench, bench::python),
    Step::new("bench-python-package", Bench, package::measures),
    Step::new("bench-user-program", Bench, bench::user_program),
    Step::new("bench-autoencoder", Bench, bench::autoencoder),
    Step::new("bench-kmeans", Bench, bench::kmeans),
    Step::new("bench-cocoa", Bench, bench::cocoa),
    Step::new("bench-readers", Bench, bench::readers),
    Step::new("bench-hosts", Bench, bench::on_hosts),
    Step::new("bench-auto", Bench, bench::auto),
];

fn docs(workspace: &Workspace) -> StepResult {
    workspace.cargo("doc --workspace --no-deps").env("RUSTDOCFLAGS", "-D warnings").run()
}

/// The peer's gradient against central differences: it is what the tests compare with, so it is checked first.
const PEER_CHECK: &[&str] = &["bench/peer_autoencoder.py", "check"];

/// A thousand seeds are soon run by what the tests have compiled already; with ten thousand, compiling once more pays.
fn sweep(workspace: &Workspace, profile: &str, seeds: &'static str) -> StepResult {
    // In the whole workspace, as by the tests: then crates have the same features, and none is compiled again.
    workspace.cargo(&format!("build {profile} --workspace --bin sweep")).limit_min(20).run()?;
    let folder = if profile.is_empty() { workspace.target.join("debug") } else { workspace.release.clone() };
    let sweep = workspace.program(folder.join("sweep")).args(["--seeds", seeds]);
    sweep.limit_min(60).run().map(|_| format!("seeds {seeds}"))
}
