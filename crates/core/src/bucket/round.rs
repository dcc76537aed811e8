//! A round in the bucket: its order, and how it begins.

use super::keys;
use super::message::Message;
use super::plan::Plan;
use super::race::{for_each, with_ticks};
use super::storage::Storage;
use crate::time::Span;
use serde::{Deserialize, Serialize};

/// Which round, of which job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoundAt {
    /// The job, by its name.
    pub job: String,
    /// The round's number.
    pub round: u64,
}

impl RoundAt {
    /// The round after this one.
    pub fn next(&self) -> RoundAt {
        RoundAt { job: self.job.clone(), round: self.round + 1 }
    }
}

/// What the protocol knows of a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundHead {
    /// Tasks and groups.
    pub plan: Plan,
    /// Whether a step makes the next round of the value, so that no submitter waits for it.
    pub fused: bool,
}

/// An order as it is in the bucket: the head, and a body that only [`Work`](super::Work) reads.
#[derive(Clone, Debug)]
pub struct Order<B> {
    /// What the protocol knows.
    pub head: RoundHead,
    blob: B,
    body_at: usize,
}

impl<B: AsRef<[u8]> + From<Vec<u8>> + Clone> Order<B> {
    /// Puts an order together.
    pub fn new(head: RoundHead, body: &[u8]) -> Self {
        let front = postcard::to_stdvec(&head).expect("numbers can be encoded");
        let blob = [&(front.len() as u32).to_le_bytes(), front.as_slice(), body].concat();
        Order { head, body_at: 4 + front.len(), blob: blob.into() }
    }

    /// Reads an order; `None` if it is none.
    pub fn read(blob: B) -> Option<Self> {
        let bytes = blob.as_ref();
        let front = u32::from_le_bytes(*bytes.first_chunk::<4>()?) as usize;
        let body_at = front.checked_add(4)?;
        let head: RoundHead = postcard::from_bytes(bytes.get(4..body_at)?).ok()?;
        head.plan.is_possible().then_some(Order { head, blob, body_at })
    }

    /// What only the functions of the round read.
    pub fn body(&self) -> &[u8] {
        &self.blob.as_ref()[self.body_at..]
    }

    /// All of it.
    pub fn blob(&self) -> &B {
        &self.blob
    }
}

/// Who puts a round into the bucket.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'a> {
    /// No other participant has this name.
    pub name: &'a str,
    /// How long somebody else may be at it; nothing for a submitter, who waits for nobody.
    pub patience: Span,
}

/// Requests that one participant has under way at once.
pub(super) const AT_ONCE: usize = 16;

/// Puts a round into the bucket: the order, and then a message for every task. Doing it again changes nothing, but sends messages
/// again unless all of them have been sent. Of several who do it at once one sends, unless it has been at it for longer than the
/// others' patience. Returns whether all messages have been sent. Rounds without a submitter are looked after by a message, for the
/// first time after `watch`.
pub async fn begin<S: Storage>(
    storage: &S,
    at: &RoundAt,
    order: &Order<S::Blob>,
    watch: Span,
    sender: &Sender<'_>,
) -> Result<bool, S::Error> {
    if storage.get(&keys::sent(at)).await?.is_some() {
        return Ok(true);
    }
    let plan = &order.head.plan;
    let name = sender.name.as_bytes();
    let mut is_own = storage.create(&keys::sending(at), name.to_vec().into()).await?;
    if !is_own && sender.patience.0 > 0 {
        is_own = storage.get(&keys::sending(at)).await?.is_some_and(|claim| claim.as_ref() == name);
        let claim = storage.list(&keys::sending(at)).await?;
        if !is_own && claim.first().is_none_or(|claim| claim.age < sender.patience) {
            return Ok(false);
        }
    }
    let sending = async {
        put_order(storage, at, order).await?;
        if order.head.fused {
            storage.send(&Message::Watch { at: at.clone() }.to_string(), watch).await?;
        }
        let send =
            async |task| storage.send(&Message::Map { at: at.clone(), task }.to_string(), Span(0)).await;
        for_each(0..plan.tasks(), AT_ONCE, send).await?;
        storage.put(&keys::sent(at), Vec::new().into()).await
    };
    if sender.patience.0 == 0 {
        sending.await?;
        return Ok(true);
    }
    // The claim is as old as its last writing: others see that somebody is at it.
    let renew = async || {
        if is_own {
            let _ = storage.put(&keys::sending(at), name.to_vec().into()).await;
        }
    };
    with_ticks(storage, Span(sender.patience.0 / 6), sending, renew).await?;
    Ok(true)
}

/// Writes all copies of an order that are not there.
pub(super) async fn put_order<S: Storage>(
    storage: &S,
    at: &RoundAt,
    order: &Order<S::Blob>,
) -> Result<(), S::Error> {
    let copy = async |copy| storage.create(&keys::order(at, copy), order.blob().clone()).await;
    for_each(0..storage.copies(order.head.plan.copies()), AT_ONCE, copy).await.map(drop)
}

/// The order of a round, by any of its copies; the one that a task should read comes first.
pub(super) async fn find<S: Storage>(
    storage: &S,
    at: &RoundAt,
    task: u32,
) -> Result<Option<Order<S::Blob>>, S::Error> {
    // How many copies there are is in the order. The first is always there.
    let Some(first) = storage.list(&keys::orders(at)).await?.len().checked_sub(1) else {
        return Ok(None);
    };
    let copies = first as u32 + 1;
    for copy in (0..copies).map(|n| (task + n) % copies) {
        if let Some(order) = storage.get(&keys::order(at, copy)).await?.and_then(Order::read) {
            return Ok(Some(order));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::Shape;
    use crate::reduce::Cut;

    #[test]
    fn an_order_survives_the_trip_and_garbage_is_seen() {
        let plan = Plan::new(Cut::new(100, 1), 30, Shape::SquareRoot);
        let order: Order<Vec<u8>> = Order::new(RoundHead { plan, fused: true }, b"the rest");
        let back = Order::read(order.blob().clone()).unwrap();
        assert_eq!((&back.head, back.body()), (&order.head, &b"the rest"[..]));
        for length in 0..order.body_at {
            assert!(Order::read(order.blob()[..length].to_vec()).is_none(), "{length} bytes");
        }
        assert!(Order::read(vec![255_u8; 40]).is_none());
    }
}
