//! Where workers come from.
//!
//! # Worker strings
//!
//! | string | workers |
//! |---|---|
//! | `local` | threads of this process, one per core |
//! | `local:4` | four threads of this process |
//! | `proc` | child processes, one per core |
//! | `proc:4` | four child processes of one slot each |
//! | `proc:2*4` | two child processes of four slots each |
//! | `big` | a machine that `ssh big` reaches, one slot per core of it |
//! | `big*4` | four slots there |
//! | `ann@big:2222*4` | as user `ann`, by port 2222 |
//! | `[fd00::7]:22` | an IPv6 address stands in brackets |
//! | `ssh://proc` | a machine that is called like an engine |
//! | `@hosts.txt` | all that the file names: items on lines or between commas; `#` begins a comment |
//! | `proc:2,big*8` | both; commas join |
//! | `auto` | as many threads of this process as pay, or none: the thread that asks |
//! | `auto:proc:4,big` | as many of these as pay; `ssh://auto` is a machine of that name |
//! | `mpi` | the [ranks] that `mpirun` has started with this program, alone; `ssh://mpi` is a machine of that name |
//!
//! `QJAM_USER` is the user on hosts written without one; otherwise the configuration of `ssh` decides. A host named
//! twice gets two workers. Names of files are relative to the working folder.
//!
//! A [`WorkerString`] names seats. Threads fill them in [`local`], child processes in [`proc`], other machines in
//! [`ssh`]. [`ranks`] are no seats of the scheduler's: they do each round together.

mod address;
pub(crate) mod child;
pub(crate) mod local;
pub(crate) mod proc;
pub mod ranks;
pub(crate) mod ssh;
pub(crate) mod told;
mod worker_string;

pub use address::HostAddress;
pub use worker_string::{SEATS_MAX, SLOTS_MAX, Seat, SeatKind, WorkerString, WorkerStringError};
