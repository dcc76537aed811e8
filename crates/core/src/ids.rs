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

/// A part that was delivered to the master, numbered by the master as it came. The verdict on it names it by this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId(pub u64);

/// States that a master has workers keep for it, one for each chunk of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HoldId(pub u64);

/// Which state of a partition: as it was made, or as a round left it.
///
/// Named by the round and not counted, because a round that failed leaves states behind on some workers: the next round
/// begins where the failed one did, and must not find those.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version(u64);

/// A data set in one particular cut: the hash of its chunks' names in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DataSetId(pub [u8; 32]);

/// The number of a block within its round.
pub type Block = u32;

/// How often a block had been given out when it was given out this time; the first attempt is 1.
pub type Attempt = u32;

/// Rounds that no user asked for have this bit, so that they do not use up the numbers of those that users did.
const INTERNAL: u64 = 1 << 63;

impl RoundId {
    /// A round of the system's own.
    pub fn internal(n: u64) -> Self {
        RoundId(n | INTERNAL)
    }

    /// Whether no user asked for it.
    pub fn is_internal(self) -> bool {
        self.0 & INTERNAL != 0
    }
}

impl Version {
    /// As it was made from its chunk.
    pub const MADE: Version = Version(0);

    /// As this round left it.
    pub fn after(round: RoundId) -> Self {
        Version(round.0 + 1)
    }

    /// The round that left it so; `None` if it is as it was made.
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
