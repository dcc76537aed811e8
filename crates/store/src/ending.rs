//! Results and failures of rounds as they are in the bucket.

use bytes::Bytes;
use qjam::engine::{Failure, WorkDone};
use qjam_core::job::{Fault, FaultKind};
use serde::{Deserialize, Serialize};

/// A result: who worked on it, and the parts in the form that only their order reads.
#[derive(Serialize, Deserialize)]
pub(crate) struct ResultBlob<'a> {
    pub(crate) work: Vec<(String, WorkDone)>,
    #[serde(borrow)]
    pub(crate) parts: &'a [u8],
}

impl<'a> ResultBlob<'a> {
    pub(crate) fn to_bytes(&self) -> Bytes {
        postcard::to_stdvec(self).expect("bytes and numbers can be encoded").into()
    }

    pub(crate) fn read(bytes: &'a [u8]) -> Result<ResultBlob<'a>, Fault> {
        let unreadable =
            |e: postcard::Error| Fault::new(FaultKind::Result, format!("a result is no result: {e}"));
        postcard::from_bytes(bytes).map_err(unreadable)
    }
}

/// Adds up what the same workers did.
pub(crate) fn add_work(all: &mut Vec<(String, WorkDone)>, more: Vec<(String, WorkDone)>) {
    for (worker, done) in more {
        match all.iter_mut().find(|(name, _)| *name == worker) {
            Some((_, sum)) => {
                sum.compute_us += done.compute_us;
                sum.cache_hits += done.cache_hits;
                sum.cache_misses += done.cache_misses;
                sum.restored.extend(done.restored);
            }
            None => all.push((worker, done)),
        }
    }
}

/// Why a round has no value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum RoundEnd {
    /// User code or user data is to blame.
    Fault { worker: String, fault: Fault },
    /// A task failed on every worker that tried it.
    Poison { task: u32, deliveries: u32, deaths: Vec<String> },
    /// Nobody wanted it any more.
    Cancelled,
    /// The step of a fused round refuses to go on.
    Refused { why: String },
}

impl RoundEnd {
    pub(crate) fn to_bytes(&self) -> Bytes {
        postcard::to_stdvec(self).expect("texts and numbers can be encoded").into()
    }

    /// Why the round has no value, in words, for whoever has no master.
    pub(crate) fn text(bytes: &[u8]) -> String {
        let mut of_worker = None;
        let failure = RoundEnd::failure(bytes, |worker| {
            of_worker = Some(worker.to_owned());
            0
        });
        let Failure::Fault { fault, .. } = failure else {
            return match failure {
                Failure::Engine(why) => why,
                _ => "somebody has cancelled it".into(),
            };
        };
        let mut text = fault.message;
        if let Some(location) = fault.location {
            text += &format!("\n  at {location}");
        }
        let of_chunk = fault.chunk.map_or(String::new(), |chunk| format!(", chunk {chunk}"));
        match of_worker {
            Some(worker) => format!("worker {worker}{of_chunk}: {text}"),
            None => text,
        }
    }

    /// What the master is told.
    pub(crate) fn failure(bytes: &[u8], position_of: impl FnOnce(&str) -> u32) -> Failure {
        match postcard::from_bytes(bytes) {
            Ok(RoundEnd::Fault { worker, fault }) => Failure::from(fault).at(position_of(&worker)),
            Ok(RoundEnd::Poison { task, deliveries, deaths }) => {
                let mut why = format!(
                    "task {task} was tried {deliveries} times, and failed or ended its worker every time"
                );
                deaths.iter().for_each(|death| why += &format!("\n  {death}"));
                Failure::Engine(why)
            }
            Ok(RoundEnd::Cancelled) => Failure::Cancelled,
            Ok(RoundEnd::Refused { why }) => Failure::Engine(why),
            Err(e) => Failure::Engine(format!("the round failed, and its reason cannot be read: {e}")),
        }
    }
}
