//! Names of things: small fixed-width numbers that state and wire share.
//!
//! A *seat* is a place the user asked for (`proc:4` has four); a *worker* is one incarnation of whoever sits there.
//! When a process dies and is started again the seat stays and the incarnation grows, so that nothing said by or
//! about the dead one can be taken for the living.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A place for a worker, as the user asked for it. Numbered from 0 in the order of the worker string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SeatId(pub u32);

/// One incarnation of the worker on a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerId {
    /// Where it sits.
    pub seat: SeatId,
    /// How many started on this seat before it.
    pub incarnation: u32,
}

/// A round, numbered by the master in the order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RoundId(pub u64);

/// A data set in one particular cut: the hash of its chunks' names in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DataSetId(pub [u8; 32]);

/// The number of a block within its round.
pub type Block = u32;

/// How often a block had been given out when it was given out this time; the first attempt is 1.
pub type Attempt = u32;

impl fmt::Display for SeatId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seat {}", self.0)
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}.{}", self.seat.0, self.incarnation)
    }
}

impl fmt::Display for RoundId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "round {}", self.0)
    }
}

impl fmt::Debug for DataSetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataSetId({})", crate::chunk::short_hex(&self.0))
    }
}
