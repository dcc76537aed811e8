//! The promises that all engines are held to, on ranks: started by `mpirun`, for `cargo xtask test --only mpi`.
//!
//! What happens when a rank dies is in `ends.rs`.

#![allow(clippy::unwrap_used, reason = "all of this is test: what is not there should end it")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what user code prints is a promise")]

use qjam_conformance::{Engine, run};
use qjam_mpi as _;
use std::process::ExitCode;

qjam_conformance::hook!();

mod learner;
mod surface;

fn main() -> ExitCode {
    let ranks = Engine::new("ranks", &["mpi"], |_| "mpi".to_owned());
    // The values of a single rank do not travel.
    let (ranks, of_several) =
        if surface::ranks() == 1 { (ranks.hands_over(), &[][..]) } else { (ranks, surface::OF_SEVERAL) };
    run(&[ranks], &[surface::OWN, learner::OWN, of_several].concat())
}
