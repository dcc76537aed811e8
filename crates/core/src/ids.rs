//! Identifiers: small fixed-width numbers, used in state and on the wire.
//!
//! A *seat* is a position for a worker that the user asked for (`proc:4` has four); a *worker* is one incarnation on a seat. When a
//! process dies and is started again, the seat stays and the incarnation number grows, so that messages from or about the dead
//! worker are never attributed to the new one.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A position for a worker, as the user asked for it. Numbered from 0 in the order of the worker string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SeatId(pub u32);

/// One incarnation of the worker on a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerId {
    /// The seat.
    pub seat: SeatId,
    /// Number of workers started on this seat before it.
    pub incarnation: u32,
}

/// A round, numbered by the master in the order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RoundId(pub u64);

/// A part delivered to the master, numbered by the master on arrival. The verdict refers to it by this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId(pub u64);

/// A hold: states that workers keep for a master, one for each chunk of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HoldId(pub u64);

/// The version of a partition's state: the initial one, or the one left by a round.
///
/// Named by the round instead of counted, because a failed round leaves states on some workers: the next round begins with the same
/// version as the failed one, and must not use those.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version(u64);

/// A data set in one cut: the hash of the names of its chunks, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DataSetId(pub [u8; 32]);

/// The number of a block within its round.
pub type Block = u32;

/// The number of times a block has been assigned, including this one; the first attempt is 1.
pub type Attempt = u32;

/// This bit marks internal rounds, so that they do not use the numbers of user rounds.
const INTERNAL: u64 = 1 << 63;

impl RoundId {
    /// An internal round, such as a checkpoint.
    pub fn internal(n: u64) -> Self {
        RoundId(n | INTERNAL)
    }

    /// Whether it is internal.
    pub fn is_internal(self) -> bool {
        self.0 & INTERNAL != 0
    }
}

impl Version {
    /// The initial state, created from the chunk.
    pub const MADE: Version = Version(0);

    /// The state left by this round.
    pub fn after(round: RoundId) -> Self {
        Version(round.0 + 1)
    }

    /// The round that left this state; `None` for the initial one.
    pub fn round(self) -> Option<RoundId> {
        self.0.checked_sub(1).map(RoundId)
    }
}

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
        match self.is_internal() {
            true => write!(f, "internal round {}", self.0 & !INTERNAL),
            false => write!(f, "round {}", self.0),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.round() {
            Some(round) => write!(f, "after {round}"),
            None => f.write_str("as it was made"),
        }
    }
}
