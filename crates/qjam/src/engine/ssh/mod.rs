//! The `ssh` engine: machines that the user's own `ssh` reaches, with nothing of ours installed there.
//!
//! ```text
//! connect ─▶ authenticate ─▶ place ─▶ copy (if it is not there) ─▶ start ─▶ handshake
//!   └─────── ssh ───────┘     └────── shell script ──────┘          └─ execution/entry.rs
//! ```
//!
//! [`start`](start()) goes that way up to the moment when the worker says it is ready, and hands over a connection over
//! which frames flow: a [`link`]. [`dialogue`] is the running `ssh` and what is said over it, [`script`] what the host's
//! shell is told, [`shipped`] the executable that travels, [`words`] what the texts of `ssh` mean. Every step has a time
//! within which it must be done; every failure says which step it was, why, in whose words, and what to do.

mod arriving;
mod complaints;
mod conversation;
mod dialogue;
mod inward;
pub(crate) mod link;
mod options;
mod outgoing;
mod script;
mod seat;
mod sent;
mod shipped;
mod start;
mod string;
mod words;

#[cfg(test)]
mod tests;

pub(crate) use dialogue::{command, use_command};
pub(crate) use seat::HostSeat;
pub(crate) use shipped::{Shipped, names_a_worker};
pub(crate) use start::{Cleaned, Connected, Patience, clean, start};
pub(super) use string::parse;

use std::fmt;
use thiserror::Error;

/// The steps to a worker on a host, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The name is looked up, and somebody answers there who speaks ssh.
    Connect,
    /// Host and user prove who they are.
    Authenticate,
    /// The user's shell runs, and finds a folder for us.
    Place,
    /// The executable goes there.
    Copy,
    /// It runs, and says that it does.
    Start,
    /// It tells what it has, and is told what it is for.
    Handshake,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Connect => "connect",
            Step::Authenticate => "authenticate",
            Step::Place => "place",
            Step::Copy => "copy",
            Step::Start => "start",
            Step::Handshake => "handshake",
        })
    }
}

/// Why a host could not be made a worker. Which host it is, says whoever shows this.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{step}: {what}{}\n  remedy: {remedy}", Quoted(.words))]
pub struct StartFailure {
    /// How far it got.
    pub step: Step,
    /// The cause, in our words.
    pub what: String,
    /// What `ssh` and the host said last, bounded and without control characters.
    pub words: Vec<String>,
    /// What to do about it.
    pub remedy: String,
}

struct Quoted<'a>(&'a [String]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| write!(f, "\n  | {line}"))
    }
}
