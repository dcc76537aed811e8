//! Ranks: processes that a launcher such as `mpirun` has started together, and that do each round together.
//!
//! There is nothing to wait on but the message library itself, and a thread that does so would take a core from the
//! work. So ranks have no loop and no scheduler: rank 0 runs the program, the others [`serve`]. A round is a command
//! down a tree of ranks, the same blocks to the same ranks each time ([`share`]), and the roots of finished subtrees up a
//! tree of ranks ([`gather`]), merged along the tree of the data, so that the bits are those of all other engines. Who
//! dies ends the run: the launcher sees to that, and every rank says its last words.
//!
//! What the library is, is none of this crate's business: a [`Communicator`] comes from a [`Provider`] that another crate
//! puts into [`PROVIDERS`]; `qjam-mpi` is one.
//!
//! ```text
//!   rank 0:  RankGroup ──────── Fleet ── Link ── Communicator        the others: serve ── Link ── Communicator
//!             │ run                │ introduce: chunks                          │ MasterRecord: data, states
//!             └ its own blocks     │ command, parameters ────────────────────▶  ├ BlockRunner: blocks
//!                                  └ gather ◀── gather ◀────────────────────────┘
//! ```

mod comm;
mod crew;
mod fleet;
mod gather;
mod introduce;
mod join;
mod launch;
mod link;
mod pool;
mod prints;
mod serve;
mod share;
mod string;
mod sum;
mod wire;
mod words;

pub use comm::{Arrived, Communicator, PROVIDERS, Provider, Unusable};
pub(super) use crew::CAPS;
pub(crate) use crew::RankGroup;
pub(crate) use join::{join_if_launched, unused};
pub use launch::{Launch, RanksError};
pub use prints::say_last;
pub(super) use string::{WORDS, check_alone};
