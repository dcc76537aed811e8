//! Runs [`qjam`]'s rounds on the ranks of an MPI library.
//!
//! A program that is linked with this crate and started by `mpirun` can be connected to workers `mpi`: rank 0 runs it, and
//! the others serve, before its `main` begins. Two lines make the difference, one of them in `Cargo.toml`:
//! `qjam-mpi = { version = "0.1", features = ["mpi"] }`. Without the feature this crate is empty and needs no MPI library.
//!
//! ```no_run
//! use qjam::{DataSet, Dense, Master};
//! use qjam_mpi as _; // links the library
//!
//! #[qjam::map]
//! fn squares(scale: &f64, x: &Dense<f64>) -> f64 {
//!     x.as_slice().iter().map(|v| scale * v * v).sum()
//! }
//!
//! #[qjam::main] // ranks other than 0 go no further than this
//! fn main() -> qjam::Result<()> {
//!     let m = Master::connect("mpi")?;
//!     let x = DataSet::dense((0..1000).map(f64::from).collect(), 10)?;
//!     assert_eq!(m.run(squares, &2.0, &x)?, 665_667_000.0);
//!     Ok(())
//! }
//! ```
//!
//! It is built against the library whose compiler `mpicc` is on the path, or that `MPICC` names. A launcher of another
//! library starts processes that do not find each other; that is noticed and told.
//!
//! Here is what is foreign: calls into the library (`communicator.rs`), the signal by which a launcher ends the
//! ranks, and the end of the process (`ends.rs`). What is done with ranks is in [`qjam::engine::ranks`].

#[cfg(feature = "mpi")]
mod communicator;
#[cfg(feature = "mpi")]
mod ends;

/// What [`qjam`] finds when the program is linked with this crate.
#[cfg(feature = "mpi")]
#[linkme::distributed_slice(qjam::engine::ranks::PROVIDERS)]
static MPI: qjam::engine::ranks::Provider = qjam::engine::ranks::Provider {
    name: "MPI",
    library: communicator::library,
    join: communicator::World::join,
};

/// The code in the book is compiled like any other example.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../docs/book/running-under-mpi.md")]
    struct RunningUnderMpi;
}
