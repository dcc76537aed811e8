//! A round on the caller's own thread.
//!
//! Where a round takes microseconds, waking anybody costs more than the work. Then whoever asks for it runs it: block after
//! block along the same tree, by the code that workers use, so that bits and errors are theirs. After each block the plan
//! is asked whether the rest is better handed over to workers.

use crate::ctx::Cancelled;
use crate::dataset::CutData;
use crate::function::{AnyBox, Function};
use crate::worker::caught;
use crate::worker::chunks::OpenChunks;
use crate::worker::round::{Effort, RoundHere, Stopped};
use bytes::Bytes;
use qjam_core::ids::RoundId;
use qjam_core::job::{Fault, FaultKind};
use qjam_core::reduce::{Cut, Node};
use qjam_core::tuner::Plan;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What messages call the caller's thread.
pub(crate) const NAME: &str = "inline";

/// A round that waits for its caller to run it.
pub(crate) struct Inline {
    pub(crate) round: RoundId,
    pub(crate) cut: Cut,
    pub(crate) function: Function,
    pub(crate) params: Bytes,
    pub(crate) data: Arc<CutData>,
    pub(crate) seed: u64,
    pub(crate) open: Arc<OpenChunks>,
    pub(crate) plan: Plan,
}

/// What came of it.
pub(crate) struct InlineDone {
    pub(crate) round: RoundId,
    /// The subtrees that are whole: the root, or what the first blocks make up.
    pub(crate) parts: Result<Vec<(Node, AnyBox)>, Fault>,
    /// How many blocks were run.
    pub(crate) blocks: u32,
    pub(crate) effort: Effort,
    /// Time in the blocks.
    pub(crate) took: Duration,
    /// How many slots should have the rest.
    pub(crate) hands_over: Option<u32>,
}

impl Inline {
    /// Runs it, or as much of it as the plan lets. The caller may ask to stop, by what it says itself when it is asked.
    pub(crate) fn run(self, called_off: Option<Cancelled>) -> InlineDone {
        let Inline { round, cut, function, params, data, seed, open, plan } = self;
        let mut done = InlineDone {
            round,
            parts: Ok(Vec::new()),
            blocks: 0,
            effort: Effort::default(),
            took: Duration::ZERO,
            hands_over: None,
        };
        let start = Instant::now();
        let fault = |kind: FaultKind, e: String| Fault {
            kind,
            chunk: None,
            message: e,
            location: None,
            backtrace: None,
            carried: Vec::new(),
        };
        let opened = caught(|| function.open_params(params))
            .and_then(|read| read.map_err(|e| fault(FaultKind::Params, e.to_string())));
        let params = match opened {
            Ok(params) => params,
            Err(fault) => return InlineDone { parts: Err(fault), ..done },
        };
        let here = RoundHere::new(round, cut, function, params, seed, 1, called_off);
        let blocks = cut.blocks();
        while done.blocks < blocks && done.hands_over.is_none() {
            let run = here.run(0, done.blocks, &open, &|index| data.chunks.get(index as usize).cloned());
            match run {
                Ok(()) => {}
                Err(Stopped::Fault(fault)) => return InlineDone { parts: Err(fault), ..done },
                Err(Stopped::Cancelled) => {
                    // Whoever called it off does not look at this.
                    return InlineDone { parts: Err(fault(FaultKind::Raised, "called off".into())), ..done };
                }
            }
            done.blocks += 1;
            done.took = start.elapsed();
            done.hands_over = plan.hands_over(done.took.as_secs_f64() * 1e6, done.blocks, blocks);
        }
        let (parts, effort) = here.collect();
        (done.parts, done.effort) = (Ok(parts), effort);
        done
    }
}
