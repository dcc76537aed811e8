//! Settings of the environment that decide how libraries compute.
//!
//! Interpreters on the master's machine inherit them. Those on hosts get them with the welcome, so that a kernel or a number of
//! threads that the user has chosen holds on all workers, and results have the same bits.

use std::process::Command;

/// How many threads libraries start.
pub(super) const THREADS: &[&str] = &[
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "POLARS_MAX_THREADS",
];

/// Which kernels libraries choose, and how these cut their work.
const KERNELS: &[&str] = &[
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "BLIS_ARCH_TYPE",
    "NPY_DISABLE_CPU_FEATURES",
    "NPY_ENABLE_CPU_FEATURES",
];

/// A variable and its value.
pub type Variable = (String, String);

/// The settings of this process that interpreters on other machines should have, too.
pub fn of_environment() -> Vec<Variable> {
    let value = |name: &&str| Some(((*name).to_owned(), std::env::var(name).ok()?));
    THREADS.iter().chain(KERNELS).filter_map(value).collect()
}

/// Gives settings to an interpreter. Other variables are left out, whoever sent them.
pub(super) fn set(command: &mut Command, variables: &[Variable]) {
    let known = |name: &str| THREADS.contains(&name) || KERNELS.contains(&name);
    for (name, value) in variables.iter().filter(|(name, _)| known(name)) {
        command.env(name, value);
    }
}
