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
//! | `store:URL` | whoever serves the bucket at that address, if the program has a crate that [provides](provider) the word |
//!
//! `QJAM_USER` is the user on hosts written without one; otherwise the configuration of `ssh` decides. A host named
//! twice gets two workers. Names of files are relative to the working folder.
//!
//! # Two kinds of engines
//!
//! Under the scheduler: a `SeatEngine` is a place where a worker can be. [`local`] has threads of this
//! process, [`proc`] child processes, [`ssh`] other machines. Instead of the scheduler: a [`Crew`] takes whole rounds.
//! [`ranks`] are one, the [`caller`]'s own thread is another, and a program can bring its own
//! ([`Builder::crew`](crate::Builder)). Both get a round as an [`Order`]; what they can do is said by their [`Caps`]. No code
//! outside this module asks which engine a worker belongs to.
//!
//! Rounds that follow from each other without a master are [`fused`].
//!
//! [`kinds`] is the list of engines and their words in worker strings. [`poller`], [`queue`] and [`spawner`] are what seats
//! use of the master.

mod address;
pub(crate) mod caller;
pub(crate) mod caps;
pub(crate) mod crew;
pub mod fused;
mod kinds;
pub(crate) mod lent;
pub(crate) mod local;
pub(crate) mod order;
pub(crate) mod params;
pub(crate) mod poller;
pub(crate) mod proc;
pub mod provider;
pub(crate) mod queue;
pub mod ranks;
pub(crate) mod seat;
pub(crate) mod settings;
pub(crate) mod spawner;
pub(crate) mod ssh;
mod worker_string;
mod workplace;

pub use address::HostAddress;
pub use caps::Caps;
pub use crew::{Assignment, Crew, CrewWorker};
pub use kinds::is_reserved_word;
pub(crate) use kinds::{join_crew, unused};
pub use order::{Failure, LocatedChunk, MappedPack, Order, OrderError, Outcome, Parts, Value, WorkDone};
pub(crate) use ssh::StartFailure;
pub use worker_string::{SEATS_MAX, SLOTS_MAX, Seat, SeatKind, WorkerString, WorkerStringError};
pub use workplace::{Delivered, StateSource, Workplace};
