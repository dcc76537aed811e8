//! What a worker does: takes messages, runs tasks, merges what is complete, and helps with what is late.

use super::clearing::clear;
use super::keys;
use super::message::{Message, MessageError};
use super::race::{First, for_each, race, with_ticks};
use super::round::{AT_ONCE, Order, RoundAt, Sender, begin, find};
use super::settings::{Backoff, Settings};
use super::storage::{Delivery, Storage};
use super::watch::look_after;
use crate::reduce::Node;
use crate::time::Span;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;

/// Orders that a worker keeps, so that it reads each once.
const ORDERS_MAX: usize = 2;

/// In rounds of so few tasks, every idle worker looks for late ones.
const LOOKERS_MIN: u64 = 32;
/// How often a worker tries again before it leaves a message to others.
const TRIES: u32 = 8;

/// The functions of a round.
#[expect(async_fn_in_trait, reason = "each participant runs on one thread, so its futures need not be Send")]
pub trait Work<B> {
    /// Runs a task.
    async fn map(&self, at: &RoundAt, order: &Order<B>, task: u32) -> Result<B, Failed<B>>;

    /// Merges results, given in the order of their chunks, into one.
    async fn reduce(&self, at: &RoundAt, order: &Order<B>, parts: Vec<(Node, B)>) -> Result<B, Failed<B>>;

    /// For a fused round: what follows from its value.
    async fn step(&self, at: &RoundAt, order: &Order<B>, value: &B) -> Result<Next<B>, Failed<B>>;

    /// A fused round has been followed by another, or by the end of the job: what only it needed can be removed.
    async fn followed(&self, _: &RoundAt, _: &Order<B>) {}

    /// A task has ended every worker that ran it: why, as a blob for whoever waits.
    async fn poison(&self, at: &RoundAt, task: u32, deliveries: u32) -> B;

    /// Something is wrong that only a person can mend. Told once for each text.
    fn tell(&self, trouble: String);
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed<B> {
    /// The round fails, for this reason.
    Round(B),
    /// This worker cannot do it now; somebody else may.
    Here(String),
}

/// What follows a round.
#[derive(Clone, Debug)]
pub enum Next<B> {
    /// Another one.
    Round(Order<B>),
    /// Nothing: this is what comes of the job.
    Stop(B),
}

/// What to do with a message.
enum Verdict {
    /// It has been dealt with.
    Done,
    /// Somebody should have it after this time.
    Later(Span),
}

/// How running a task went.
enum Ran<B> {
    Done(B),
    /// The round has ended meanwhile.
    Over,
    Failed(Failed<B>),
}

/// Why a worker ends what it is doing.
enum Trouble<E> {
    Storage(E),
    /// It is said here, and a message may be handed to somebody else.
    Here(String),
}

impl<E> From<E> for Trouble<E> {
    fn from(error: E) -> Self {
        Trouble::Storage(error)
    }
}

/// One worker.
pub struct Worker<'a, S: Storage, W> {
    storage: &'a S,
    work: &'a W,
    settings: Settings,
    name: String,
    orders: RefCell<BTreeMap<RoundAt, Order<S::Blob>>>,
    /// The round of the last task, for late ones of which to look.
    recent: RefCell<Option<RoundAt>>,
    /// How often it could have looked for late tasks.
    looks: Cell<u64>,
}

impl<'a, S: Storage, W: Work<S::Blob>> Worker<'a, S, W> {
    /// A worker with a name of its own.
    pub fn new(storage: &'a S, work: &'a W, settings: Settings, name: String) -> Self {
        let (orders, recent, looks) = (RefCell::default(), RefCell::default(), Cell::new(0));
        Worker { storage, work, settings, name, orders, recent, looks }
    }

    /// Does one message after the other until `goes_on` says that it is enough, which it is asked in between.
    pub async fn serve(&self, mut goes_on: impl FnMut() -> bool) {
        let mut backoff = Backoff::new(self.settings.idle_first, self.settings.idle_max);
        let mut idle = Span(0);
        while goes_on() {
            match self.storage.receive(self.settings.hidden).await {
                Ok(Some(delivery)) => {
                    backoff.reset();
                    idle = Span(0);
                    self.take(delivery).await;
                    continue;
                }
                Ok(None) => {}
                Err(e) => self.work.tell(format!("the queue cannot be read: {e}")),
            }
            if idle >= self.settings.help_every {
                idle = Span(0);
                if self.help().await {
                    backoff.reset();
                    continue;
                }
            }
            let wait = backoff.wait();
            idle = Span(idle.0 + wait.0);
            self.storage.idle(wait).await;
        }
    }

    /// Deals with a message, whatever it is.
    pub async fn take(&self, mut delivery: Delivery<S::Receipt>) {
        let verdict = match Message::parse(&delivery.text) {
            Ok(message) => {
                let count = delivery.count;
                self.keep(&mut delivery, self.insist(&message, count)).await
            }
            Err(e @ MessageError::Foreign) => {
                self.work.tell(format!("a message in the queue was removed: {e}"));
                Ok(Verdict::Done)
            }
            // A newer worker may know it.
            Err(e @ MessageError::Unknown) if delivery.count <= self.settings.deliveries_max => {
                self.work.tell(format!("a message in the queue was left to others: {e}"));
                Ok(Verdict::Later(self.settings.hidden))
            }
            Err(e @ MessageError::Unknown) => {
                self.work.tell(format!("a message in the queue was removed: {e}"));
                Ok(Verdict::Done)
            }
        };
        let settled = match verdict {
            Ok(Verdict::Done) => self.storage.acknowledge(delivery).await,
            Ok(Verdict::Later(hidden)) => self.storage.extend(&mut delivery, hidden).await.map(|_| ()),
            // It comes back by itself.
            Err(Trouble::Storage(e)) => Err(e),
            Err(Trouble::Here(why)) => {
                self.work.tell(why);
                self.storage.extend(&mut delivery, Span(0)).await.map(|_| ())
            }
        };
        if let Err(e) = settled {
            self.work.tell(format!("the storage does not answer: {e}"));
        }
    }

    /// Does something, and meanwhile keeps a message from others.
    async fn keep<T>(&self, delivery: &mut Delivery<S::Receipt>, work: impl Future<Output = T>) -> T {
        let extend = async || {
            // What cannot be said now is said the next time: the work goes on.
            let _ = self.storage.extend(delivery, self.settings.hidden).await;
        };
        with_ticks(self.storage, self.settings.extend_every, work, extend).await
    }

    /// Deals with a message of ours, and tries again if the storage fails: were the message put back, its deliveries would count as
    /// if it had ended workers.
    async fn insist(&self, message: &Message, count: u32) -> Result<Verdict, Trouble<S::Error>> {
        let mut backoff = Backoff::new(self.settings.idle_first, self.settings.watch_every);
        for tried in 0..TRIES {
            // What was tried before may have been done.
            match self.on_message(message, count, count > 1 || tried > 0).await {
                Err(Trouble::Storage(e)) => {
                    self.work.tell(format!("the storage does not answer: {e}"));
                    self.storage.sleep(backoff.wait()).await;
                }
                other => return other,
            }
        }
        self.on_message(message, count, true).await
    }

    async fn on_message(
        &self,
        message: &Message,
        count: u32,
        is_repeated: bool,
    ) -> Result<Verdict, Trouble<S::Error>> {
        let at = message.at();
        let share = if let Message::Map { task, .. } = message { *task } else { 0 };
        let Some(order) = self.awaited_order(at, share).await? else { return Ok(Verdict::Done) };
        // The first message for a task comes before the end.
        let may_be_over = is_repeated || !matches!(message, Message::Map { .. });
        if may_be_over && self.is_over(at).await? {
            // Whoever wrote the value may have ended before the next round began.
            let value = if order.head.fused { self.storage.get(&keys::value(at)).await? } else { None };
            let has_followed = match value {
                Some(value) => self.conclude(at, &order, &value).await?,
                None => true,
            };
            if has_followed && matches!(message, Message::Watch { .. }) {
                self.clear(at, &order).await?;
            }
            let later = Verdict::Later(Span(self.settings.hidden.0 / 2));
            return Ok(if has_followed { Verdict::Done } else { later });
        }
        match *message {
            Message::Map { task, .. } if task < order.head.plan.tasks() => {
                self.recent.replace(Some(at.clone()));
                self.on_map(at, &order, task, count, is_repeated).await
            }
            Message::Reduce { stage, index, .. } if is_result(&order, stage, index) => {
                self.merge_from(at, &order, stage, index, true).await?;
                Ok(Verdict::Done)
            }
            Message::Watch { .. } => self.on_watch(at, &order).await,
            Message::Map { .. } | Message::Reduce { .. } => {
                self.work.tell(format!("a message was removed that does not fit its round: {message}"));
                Ok(Verdict::Done)
            }
        }
    }

    async fn on_map(
        &self,
        at: &RoundAt,
        order: &Order<S::Blob>,
        task: u32,
        count: u32,
        is_repeated: bool,
    ) -> Result<Verdict, Trouble<S::Error>> {
        let key = keys::result(at, &order.head.plan, 0, task);
        let done = if is_repeated { self.storage.get(&key).await? } else { None };
        if done.is_none() && count > self.settings.deliveries_max {
            let why = self.work.poison(at, task, count - 1).await;
            self.storage.create(&keys::failed(at), why).await?;
            return Ok(Verdict::Done);
        }
        let result = match done {
            // Whoever did it may have ended before it was merged.
            Some(result) => result,
            None => match self.run(at, order, task).await? {
                Ran::Done(result) => self.deliver(at, order, task, result).await?,
                Ran::Over => return Ok(Verdict::Done),
                Ran::Failed(failed) => {
                    self.fail(at, failed).await?;
                    return Ok(Verdict::Done);
                }
            },
        };
        self.climb(at, order, (0, task), result, is_repeated).await?;
        Ok(Verdict::Done)
    }

    /// Runs a task. If it takes long, that is said in a blob; if the round ends meanwhile, it is dropped.
    async fn run(
        &self,
        at: &RoundAt,
        order: &Order<S::Blob>,
        task: u32,
    ) -> Result<Ran<S::Blob>, Trouble<S::Error>> {
        let mut running = pin!(self.work.map(at, order, task));
        let mut is_told = false;
        loop {
            let until = if is_told { self.settings.extend_every } else { self.settings.running_after };
            match race(running.as_mut(), self.storage.sleep(until)).await {
                First::One(Ok(result)) => return Ok(Ran::Done(result)),
                First::One(Err(failed)) => return Ok(Ran::Failed(failed)),
                First::Other(()) => {}
            }
            if !is_told {
                is_told = true;
                let _ = self.storage.create(&keys::running_task(at, task), self.claim()).await;
            }
            if self.is_over(at).await.unwrap_or(false) {
                return Ok(Ran::Over);
            }
        }
    }

    async fn deliver(
        &self,
        at: &RoundAt,
        order: &Order<S::Blob>,
        task: u32,
        result: S::Blob,
    ) -> Result<S::Blob, Trouble<S::Error>> {
        let key = keys::result(at, &order.head.plan, 0, task);
        self.storage.put(&key, result.clone()).await?;
        Ok(result)
    }

    /// Merges upwards from a result that is in the bucket, as far as results are complete. `insists` if whoever claimed a merge
    /// before may be gone.
    async fn climb(
        &self,
        at: &RoundAt,
        order: &Order<S::Blob>,
        (mut stage, mut index): (u8, u32),
        mut result: S::Blob,
        insists: bool,
    ) -> Result<(), Trouble<S::Error>> {
        let plan = &order.head.plan;
        while stage < plan.last() {
            let up = plan.group_of(stage, index);
            let Some(merged) =
                self.merge(at, order, (stage + 1, up), Some((index, &result)), insists).await?
            else {
                return Ok(());
            };
            (stage, index, result) = (stage + 1, up, merged);
        }
        self.conclude(at, order, &result).await?;
        Ok(())
    }

    /// Merges a group that somebody has found complete, and climbs.
    async fn merge_from(
        &self,
        at: &RoundAt,
        order: &Order<S::Blob>,
        stage: u8,
        index: u32,
        insists: bool,
    ) -> Result<(), Trouble<S::Error>> {
        match self.merge(at, order, (stage, index), None, insists).await? {
            Some(merged) => self.climb(at, order, (stage, index), merged, insists).await,
            None => Ok(()),
        }
    }

    /// Merges a group if its results are there; `None` if they are not, or if somebody else does it.
    async fn merge(
        &self,
        at: &RoundAt,
        order: &Order<S::Blob>,
        (stage, index): (u8, u32),
        own: Option<(u32, &S::Blob)>,
        insists: bool,
    ) -> Result<Option<S::Blob>, Trouble<S::Error>> {
        let plan = &order.head.plan;
        let members = plan.members(stage, index);
        let is_own = |member: u32| own.is_some_and(|(own, _)| own == member);
        if members.len() > 1 {
            let listed = self.storage.list(&keys::group(at, stage - 1, index)).await?;
            let there: BTreeSet<u32> = listed.iter().filter_map(|blob| keys::number(&blob.name)).collect();
            if !members.clone().all(|member| is_own(member) || there.contains(&member)) {
                return Ok(None);
            }
        }
        let is_first = self.storage.create(&keys::merging(at, stage, index), self.claim()).await?;
        if !is_first && !insists {
            return Ok(None);
        }
        let part = async |member: u32| match own {
            Some((own, result)) if own == member => Ok(Some((plan.node(stage - 1, member), result.clone()))),
            _ => {
                let part = self.storage.get(&keys::result(at, plan, stage - 1, member)).await?;
                Ok::<_, S::Error>(part.map(|part| (plan.node(stage - 1, member), part)))
            }
        };
        let merging = async {
            let parts = for_each(members, AT_ONCE, part).await?;
            // Listed and not there: it is seen late, or was removed. The watch sees to it.
            let Some(parts) = parts.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
            Ok::<_, S::Error>(Some(self.work.reduce(at, order, parts).await))
        };
        // The claim is as old as its last writing: whoever looks after the round sees that somebody is at it.
        let renew = async || {
            if is_first {
                let _ = self.storage.put(&keys::merging(at, stage, index), self.claim()).await;
            }
        };
        let merged = with_ticks(self.storage, self.settings.extend_every, merging, renew).await?;
        match merged {
            None => Ok(None),
            Some(Ok(merged)) => {
                self.storage.put(&keys::result(at, plan, stage, index), merged.clone()).await?;
                Ok(Some(merged))
            }
            Some(Err(failed)) => {
                self.fail(at, failed).await?;
                Ok(None)
            }
        }
    }

    /// What a claim of this worker says.
    fn claim(&self) -> S::Blob {
        self.name.clone().into_bytes().into()
    }

    /// The value is there. If the round is fused, what follows it begins. Returns false if somebody else may be at that.
    async fn conclude(
        &self,
        at: &RoundAt,
        order: &Order<S::Blob>,
        value: &S::Blob,
    ) -> Result<bool, Trouble<S::Error>> {
        if !order.head.fused {
            return Ok(true);
        }
        let Settings { watch_every, hidden, .. } = self.settings;
        match self.work.step(at, order, value).await {
            Ok(Next::Round(next)) => {
                let sender = Sender { name: &self.name, patience: hidden };
                Ok(begin(self.storage, &at.next(), &next, watch_every, &sender).await?)
            }
            Ok(Next::Stop(result)) => {
                self.storage.create(&keys::job_result(&at.job), result).await?;
                Ok(true)
            }
            Err(failed) => {
                self.fail(at, failed).await?;
                Ok(true)
            }
        }
    }

    /// Clears a round away. The message that looks after it does that, and not whoever begins the next one: others wait for that
    /// worker.
    async fn clear(&self, at: &RoundAt, order: &Order<S::Blob>) -> Result<(), Trouble<S::Error>> {
        if clear(self.storage, at).await? {
            self.work.followed(at, order).await;
        }
        Ok(())
    }

    /// The round has no value, or this worker cannot go on.
    async fn fail(&self, at: &RoundAt, failed: Failed<S::Blob>) -> Result<(), Trouble<S::Error>> {
        match failed {
            Failed::Round(why) => {
                self.storage.create(&keys::failed(at), why).await?;
                Ok(())
            }
            Failed::Here(why) => Err(Trouble::Here(why)),
        }
    }

    async fn on_watch(&self, at: &RoundAt, order: &Order<S::Blob>) -> Result<Verdict, Trouble<S::Error>> {
        look_after(self.storage, at, order, &self.settings).await?;
        Ok(Verdict::Later(self.settings.watch_every))
    }

    /// Looks for a late task, and runs it. Returns whether there was one.
    async fn help(&self) -> bool {
        let Some(at) = self.recent.borrow().clone() else { return false };
        match self.help_with(&at).await {
            Ok(has_helped) => has_helped,
            Err(Trouble::Storage(e)) => {
                self.work.tell(format!("the storage does not answer: {e}"));
                false
            }
            Err(Trouble::Here(why)) => {
                self.work.tell(why);
                false
            }
        }
    }

    /// Whether this worker looks for late tasks now. Of many that are idle about √P do at a time: each look is a listing of all tasks.
    fn has_its_turn(&self, tasks: u32) -> bool {
        self.looks.set(self.looks.get().wrapping_add(1));
        let seed = self.name.bytes().fold(self.looks.get(), |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(29)
        });
        let lookers = LOOKERS_MIN.max(2 * u64::from(tasks.isqrt()));
        (seed >> 7) % u64::from(tasks.max(1)) < lookers
    }

    async fn help_with(&self, at: &RoundAt) -> Result<bool, Trouble<S::Error>> {
        let Some(order) = self.orders.borrow().get(at).cloned() else { return Ok(false) };
        if !self.has_its_turn(order.head.plan.tasks()) {
            return Ok(false);
        }
        if self.is_over(at).await? {
            self.recent.replace(None);
            return Ok(false);
        }
        let task = match late_task(self.storage, at, &order, &self.settings).await? {
            Late::Task(task) => task,
            Late::None => return Ok(false),
            Late::AllDone => {
                self.recent.replace(None);
                return Ok(false);
            }
        };
        if !self.storage.create(&keys::backup(at, task), self.claim()).await? {
            return Ok(false);
        }
        match self.run(at, &order, task).await? {
            Ran::Done(result) => {
                let result = self.deliver(at, &order, task, result).await?;
                self.climb(at, &order, (0, task), result, false).await?;
            }
            Ran::Over => {}
            Ran::Failed(failed) => self.fail(at, failed).await?,
        }
        Ok(true)
    }

    async fn is_over(&self, at: &RoundAt) -> Result<bool, S::Error> {
        Ok(!self.storage.list(&keys::end(at)).await?.is_empty())
    }

    /// The order of a round, as soon as it can be seen; `None` if the job was removed. Whoever waits keeps the message: were it put
    /// back, its deliveries would count as if it had ended workers.
    async fn awaited_order(&self, at: &RoundAt, task: u32) -> Result<Option<Order<S::Blob>>, S::Error> {
        let mut backoff = Backoff::new(self.settings.idle_first, self.settings.watch_every);
        let mut waited = Span(0);
        loop {
            let order = self.order(at, task).await?;
            // Orders of rounds that are over may have been cleared away.
            if order.is_some() || waited >= self.settings.seen_within || self.is_over(at).await? {
                return Ok(order);
            }
            let wait = backoff.wait();
            waited = Span(waited.0 + wait.0);
            self.storage.sleep(wait).await;
        }
    }

    async fn order(&self, at: &RoundAt, task: u32) -> Result<Option<Order<S::Blob>>, S::Error> {
        if let Some(order) = self.orders.borrow().get(at) {
            return Ok(Some(order.clone()));
        }
        self.forget_orders_before(at);
        let Some(order) = find(self.storage, at, task).await? else { return Ok(None) };
        self.orders.borrow_mut().insert(at.clone(), order.clone());
        Ok(Some(order))
    }

    /// Makes room for another order, before it is read: parameters are large. A fused round is over when there is one after it.
    fn forget_orders_before(&self, at: &RoundAt) {
        let mut orders = self.orders.borrow_mut();
        orders.retain(|known, order| !(order.head.fused && known.job == at.job && known.round < at.round));
        while orders.len() >= ORDERS_MAX {
            orders.pop_first();
        }
    }
}

fn is_result<B>(order: &Order<B>, stage: u8, index: u32) -> bool {
    let plan = &order.head.plan;
    (1..=plan.last()).contains(&stage) && index < plan.count(stage)
}

/// What a look for late tasks finds.
enum Late {
    Task(u32),
    None,
    /// Nothing is left to be late in this round.
    AllDone,
}

/// The task that has run for longest, if it is late.
async fn late_task<S: Storage>(
    storage: &S,
    at: &RoundAt,
    order: &Order<S::Blob>,
    settings: &Settings,
) -> Result<Late, S::Error> {
    let running = storage.list(&keys::running(at)).await?;
    if running.is_empty() {
        return Ok(Late::None);
    }
    let done = storage.list(&keys::stage(at, 0)).await?;
    let done: BTreeMap<u32, Span> =
        done.iter().filter_map(|blob| Some((keys::number(&blob.name)?, blob.age))).collect();
    // What a task took: from when it said that it takes long until its result was there. Those that never said so took less.
    let told: BTreeMap<u32, Span> =
        running.iter().filter_map(|blob| Some((keys::number(&blob.name)?, blob.age))).collect();
    let mut took: Vec<u64> = done
        .iter()
        .map(|(task, age)| {
            told.get(task).map_or(0, |began| began.0.saturating_sub(age.0)) + settings.running_after.0
        })
        .collect();
    took.sort_unstable();
    let tasks = order.head.plan.tasks() as usize;
    if took.len() >= tasks {
        return Ok(Late::AllDone);
    }
    // Until half of the tasks are done, nobody knows what is late.
    if 2 * took.len() < tasks {
        return Ok(Late::None);
    }
    let usual_us = took.get(took.len() / 2).copied().unwrap_or(0);
    let late = told.iter().filter(|(task, _)| !done.contains_key(task));
    let late = late.map(|(task, age)| (age.0 + settings.running_after.0, *task));
    let mut late: Vec<(u64, u32)> =
        late.filter(|(ran_us, _)| ran_us * 100 > usual_us * settings.late_percent).collect();
    if !late.is_empty() {
        // One backup is enough for a task, and the next one is for another.
        let backed_up = storage.list(&keys::backups(at)).await?;
        let backed_up: BTreeSet<u32> = backed_up.iter().filter_map(|blob| keys::number(&blob.name)).collect();
        late.retain(|(_, task)| !backed_up.contains(task));
    }
    Ok(late.into_iter().max().map_or(Late::None, |(_, task)| Late::Task(task)))
}
