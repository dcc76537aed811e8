//! Looking after a round: waiting for its end, and mending what got lost on the way.
//!
//! Nothing is lost as long as storage keeps its word and everybody sees what was written. A watch is for the rest: groups that are
//! complete and that nobody saw complete, orders and results that somebody removed, messages that never came.

use super::keys;
use super::message::Message;
use super::race::for_each;
use super::round::{AT_ONCE, Order, RoundAt, put_order};
use super::settings::{Backoff, Settings};
use super::storage::Storage;
use crate::time::Span;
use std::collections::BTreeSet;

/// How a round ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending<B> {
    /// It has a value.
    Value(B),
    /// It has none, for this reason.
    Failed(B),
    /// Nobody wants it any more.
    Cancelled,
}

/// A watch over one round.
pub struct Watch {
    at: RoundAt,
    settings: Settings,
    /// How many results there were, and for how long there have been no more.
    results: usize,
    without_progress: Span,
}

impl Watch {
    /// Over this round.
    pub fn new(at: RoundAt, settings: Settings) -> Self {
        Watch { at, settings, results: 0, without_progress: Span(0) }
    }

    /// Waits for the end of the round, and looks after it meanwhile. `cancelled` is asked in between.
    pub async fn wait<S: Storage>(
        &mut self,
        storage: &S,
        order: &Order<S::Blob>,
        mut cancelled: impl FnMut() -> bool,
    ) -> Result<Ending<S::Blob>, S::Error> {
        let mut backoff = Backoff::new(self.settings.wait_first, self.settings.wait_max);
        let mut since_look = Span(0);
        loop {
            if let Some(ending) = ending(storage, &self.at).await? {
                return Ok(ending);
            }
            if cancelled() {
                return Ok(Ending::Cancelled);
            }
            let wait = backoff.wait();
            storage.idle(wait).await;
            since_look = Span(since_look.0 + wait.0);
            if since_look >= self.settings.watch_every {
                self.without_progress = Span(self.without_progress.0 + since_look.0);
                since_look = Span(0);
                self.look(storage, order).await?;
            }
        }
    }

    /// Looks at all results. If there are no more than the last time, sends messages for what should have happened and has not.
    async fn look<S: Storage>(&mut self, storage: &S, order: &Order<S::Blob>) -> Result<(), S::Error> {
        let there = results(storage, &self.at, order).await?;
        let results = there.iter().map(BTreeSet::len).sum();
        if results > self.results {
            self.without_progress = Span(0);
        } else {
            let is_stuck = self.without_progress >= self.settings.resend_after;
            if is_stuck {
                self.without_progress = Span(0);
            }
            put_back_order(storage, &self.at, order).await?;
            mend(storage, &self.at, order, &there, is_stuck, &self.settings).await?;
        }
        self.results = results;
        Ok(())
    }
}

/// Looks after a round that has no submitter: sends messages for what should have happened and has not. Tasks are sent again if no
/// blob of the round is younger than `resend_after`.
pub(super) async fn look_after<S: Storage>(
    storage: &S,
    at: &RoundAt,
    order: &Order<S::Blob>,
    settings: &Settings,
) -> Result<(), S::Error> {
    let there = results(storage, at, order).await?;
    let of_round = storage.list(&keys::round(at)).await?;
    let is_stuck = of_round.iter().all(|blob| blob.age >= settings.resend_after);
    mend(storage, at, order, &there, is_stuck, settings).await
}

/// The results that are there, for each stage but the last.
async fn results<S: Storage>(
    storage: &S,
    at: &RoundAt,
    order: &Order<S::Blob>,
) -> Result<Vec<BTreeSet<u32>>, S::Error> {
    let mut there = Vec::new();
    for stage in 0..order.head.plan.last() {
        let listed = storage.list(&keys::stage(at, stage)).await?;
        there.push(listed.iter().filter_map(|blob| keys::number(&blob.name)).collect());
    }
    Ok(there)
}

/// Puts an order back that somebody removed or damaged. Workers that hold its tasks wait for it.
async fn put_back_order<S: Storage>(
    storage: &S,
    at: &RoundAt,
    order: &Order<S::Blob>,
) -> Result<(), S::Error> {
    let copies = storage.copies(order.head.plan.copies());
    if storage.list(&keys::orders(at)).await?.len() < copies as usize {
        put_order(storage, at, order).await?;
    }
    Ok(())
}

async fn mend<S: Storage>(
    storage: &S,
    at: &RoundAt,
    order: &Order<S::Blob>,
    there: &[BTreeSet<u32>],
    is_stuck: bool,
    settings: &Settings,
) -> Result<(), S::Error> {
    let plan = &order.head.plan;
    let is_missing = |stage: u8, index: u32| {
        let is_done = there.get(usize::from(stage)).is_some_and(|done| done.contains(&index));
        !is_done && plan.members(stage, index).all(|member| there[usize::from(stage) - 1].contains(&member))
    };
    let of_stage = |stage| (0..plan.count(stage)).map(move |index| (stage, index));
    let missing: Vec<(u8, u32)> =
        (1..=plan.last()).flat_map(of_stage).filter(|&(stage, index)| is_missing(stage, index)).collect();
    if !missing.is_empty() {
        let begun = storage.list(&keys::merges(at)).await?;
        // Whoever began a merge may still be at it; after a while, it is gone.
        let is_begun = |merge: &(u8, u32)| {
            begun.iter().any(|blob| keys::merge_of(&blob.name) == Some(*merge) && blob.age < settings.hidden)
        };
        for (stage, index) in missing.into_iter().filter(|merge| !is_begun(merge)) {
            let message = Message::Reduce { at: at.clone(), stage, index };
            storage.send(&message.to_string(), Span(0)).await?;
        }
    }
    if is_stuck {
        put_order(storage, at, order).await?;
        let is_missing = |task: &u32| there.first().is_none_or(|done| !done.contains(task));
        let send =
            async |task| storage.send(&Message::Map { at: at.clone(), task }.to_string(), Span(0)).await;
        for_each((0..plan.tasks()).filter(is_missing), AT_ONCE, send).await?;
        storage.put(&keys::sent(at), Vec::new().into()).await?;
    }
    Ok(())
}

/// How the round ended, if it has.
async fn ending<S: Storage>(storage: &S, at: &RoundAt) -> Result<Option<Ending<S::Blob>>, S::Error> {
    for blob in storage.list(&keys::end(at)).await? {
        let found = match blob.name.as_str() {
            "value" => storage.get(&keys::value(at)).await?.map(Ending::Value),
            "failed" => storage.get(&keys::failed(at)).await?.map(Ending::Failed),
            _ => None,
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}
