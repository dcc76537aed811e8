//! Says where the Python modules are that child interpreters run: in the Python package of a checkout, or in a packed crate beside
//! this file, where `cargo xtask release` has put them.

use std::path::Path;

fn main() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let packed = here.join("package");
    let folder = if packed.is_dir() { packed } else { here.join("../../python/qjam") };
    println!("cargo::rustc-env=QJAM_PYTHON_PACKAGE={}", folder.display());
    // The modules themselves are watched by the compiler, which includes them.
    println!("cargo::rerun-if-changed=build.rs");
}
