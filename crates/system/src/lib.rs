//! What the operating system gives a process: memory, and child processes.
//!
//! [`memory`] reads how much memory this process may have and how much it has; [`data_limit`] sets a limit on the private
//! memory of this process; [`cores`] tells how many there are and how many this process may have; [`process`] is a child process that ends with its owner, and [`family`] all that descends from it,
//! which also ends when this process is killed.
//! Callers decide what to do with the answers.
//!
//! This crate knows nothing of rounds, chunks or workers, and depends on no other crate of the workspace.

pub mod cores;
pub mod data_limit;
pub mod family;
mod mark;
pub mod memory;
pub mod process;
mod watcher;
