//! What the master and a worker process say to each other. Whoever carries it reads none of it.

use qjam_core::ids::HoldId;
use qjam_core::job::Fault;
use serde::{Deserialize, Serialize};

/// What a worker process is told first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// For functions of another language.
    pub(crate) language: Option<Vec<u8>>,
}

/// What a task is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The round of the order that it belongs to.
    pub(crate) round: u64,
    /// The first block, and the one after the last.
    pub(crate) first: u32,
    pub(crate) end: u32,
    /// Nobody will ask for these states again.
    pub(crate) released: Vec<HoldId>,
}

/// What a task needs that its worker may lack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Supply<'a> {
    /// Contents of chunks, by index.
    #[serde(borrow)]
    pub(crate) chunks: Vec<(u32, &'a [u8])>,
    /// States as the round wants them, by partition.
    #[serde(borrow)]
    pub(crate) states: Vec<(u32, &'a [u8])>,
    /// How to make states that no worker has had.
    #[serde(borrow)]
    pub(crate) recipe: Option<&'a [u8]>,
}

/// What came of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply<'a> {
    /// It is done.
    Done {
        /// Its parts, in the form that only their order reads.
        #[serde(borrow)]
        parts: &'a [u8],
        /// The states that it has left.
        #[serde(borrow)]
        states: Vec<(u32, &'a [u8])>,
    },
    /// It needs these chunks and states.
    Lacks {
        /// By index.
        chunks: Vec<u32>,
        /// By partition.
        states: Vec<u32>,
    },
    /// User code or user data is to blame.
    Fault(Fault),
    /// The worker cannot do it.
    Broken(String),
}

pub(crate) fn encoded(message: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(message).expect("texts, numbers and bytes can be encoded")
}

/// Reads a message; `what` is what it should be.
pub(crate) fn decoded<'a, T: Deserialize<'a>>(bytes: &'a [u8], what: &str) -> Result<T, String> {
    postcard::from_bytes(bytes).map_err(|e| format!("{what} of a Spark task cannot be read: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_trip_and_damaged_ones_are_refused() {
        let supply =
            Supply { chunks: vec![(3, &[1, 2]), (4, &[])], states: vec![(9, &[7; 300])], recipe: Some(b"r") };
        let bytes = encoded(&supply);
        assert_eq!(decoded::<Supply<'_>>(&bytes, "the supply"), Ok(supply));
        for cut in 0..bytes.len() {
            assert!(decoded::<Supply<'_>>(&bytes[..cut], "the supply").is_err());
        }
        let reply = Reply::Done { parts: &[1; 50], states: vec![(1, &[2])] };
        let bytes = encoded(&reply);
        assert_eq!(decoded::<Reply<'_>>(&bytes, "the answer"), Ok(reply));
        let mut rng = qjam::Rng::keyed(5, 0, 0);
        for _ in 0..2000 {
            let mut damaged = bytes.clone();
            let at = rng.below(bytes.len() as u64) as usize;
            damaged[at] = rng.next_u64() as u8;
            // Whatever it says, saying it harms nobody.
            let _ = decoded::<Reply<'_>>(&damaged, "the answer");
        }
    }
}
