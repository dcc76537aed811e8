//! Storage that keeps the promises of [`Storage`], and no others.

use super::checks;
use super::clock::Clock;
use super::faults::Faults;
use crate::checkers::{Verdict, Violation};
use crate::random::Rng;
use qjam_core::bucket::{Delivery, Listed, Message, Storage, keys};
use qjam_core::time::{Span, Time};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A task that was delivered too often is delivered again if whoever says so dies before it has.
const DELIVERIES_SPARE: u32 = 20;

/// How long requests take.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// The shortest request.
    pub least_us: u64,
    /// The longest, without the bytes.
    pub most_us: u64,
    /// Bytes in a millisecond that a participant sends or receives; 0 for no limit.
    pub link_bytes_per_ms: u64,
    /// Bytes in a millisecond of one blob, however many read it; 0 for no limit.
    pub blob_bytes_per_ms: u64,
    /// Bytes that orders, results and values count for besides their own.
    pub bulk_bytes: u64,
    /// Most copies of an order; 0 for as many as the plan says.
    pub copies_max: u32,
}

/// Requests of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Blobs that were read.
    pub gets: u64,
    /// Blobs that were written, whether or not only if new.
    pub puts: u64,
    /// Blobs that were removed.
    pub deletes: u64,
    /// Listings.
    pub lists: u64,
    /// Messages that were sent.
    pub sends: u64,
    /// Questions to the queue.
    pub receives: u64,
    /// Messages that were kept or acknowledged.
    pub settles: u64,
}

impl Requests {
    /// All of them, but for removals.
    pub fn all(&self) -> u64 {
        self.gets + self.puts + self.lists + self.sends + self.receives + self.settles
    }
}

struct Blob {
    content: Rc<[u8]>,
    written: Time,
    visible: Time,
    /// When whoever reads it now is done, for blobs with a limit.
    busy_until: Time,
}

struct Queued {
    text: String,
    visible: Time,
    count: u32,
    /// Changes whenever somebody receives it.
    receipt: u64,
}

#[derive(Default)]
struct Shelves {
    blobs: BTreeMap<String, Blob>,
    /// The results of tasks that were ever written, by round: some are removed by a fault.
    done: BTreeMap<(String, u32), String>,
    /// Rounds that have ended.
    over: BTreeSet<String>,
    queue: BTreeMap<u64, Queued>,
    /// How often each message was sent.
    sent: BTreeMap<String, u64>,
    /// The messages by when they can be received.
    due: BTreeSet<(Time, u64)>,
    next: u64,
}

/// One bucket.
pub struct SimStorage {
    clock: Clock,
    faults: Faults,
    latency: Latency,
    shelves: RefCell<Shelves>,
    rng: RefCell<Rng>,
    /// What must not be, and was.
    violation: RefCell<Option<Violation>>,
    requests: Cell<Requests>,
    /// Questions to the queue that found nothing.
    empty: Cell<u64>,
    /// And those that found something.
    received: Cell<u64>,
    /// Most deliveries of a task.
    deliveries_max: u32,
}

impl SimStorage {
    /// An empty one.
    pub fn new(clock: &Clock, faults: Faults, latency: Latency, deliveries_max: u32, rng: Rng) -> Self {
        SimStorage {
            clock: clock.clone(),
            faults,
            latency,
            shelves: RefCell::default(),
            rng: RefCell::new(rng),
            violation: RefCell::default(),
            requests: Cell::default(),
            empty: Cell::new(0),
            received: Cell::new(0),
            deliveries_max,
        }
    }

    /// What must not be, and was.
    pub fn violation(&self) -> Option<Violation> {
        self.violation.borrow().clone()
    }

    /// Notes what must not be.
    pub(super) fn hold(&self, verdict: Verdict) {
        if let Err(violation) = verdict {
            self.violation.borrow_mut().get_or_insert(violation);
        }
    }

    /// How many requests there were.
    pub fn requests(&self) -> Requests {
        self.requests.get()
    }

    /// How often the queue was asked and had nothing.
    pub(super) fn empty(&self) -> u64 {
        self.empty.get()
    }

    /// How many messages were delivered.
    pub(super) fn received(&self) -> u64 {
        self.received.get()
    }

    /// How often a message was sent.
    pub(super) fn sent(&self, message: &Message) -> u64 {
        self.shelves.borrow().sent.get(&message.to_string()).copied().unwrap_or(0)
    }

    /// The messages about a job that are in the queue.
    pub(super) fn messages_of(&self, job: &str) -> Vec<String> {
        let shelves = self.shelves.borrow();
        let texts = shelves.queue.values().map(|queued| queued.text.clone());
        texts.filter(|text| Message::parse(text).is_ok_and(|message| message.at().job == job)).collect()
    }

    /// The blobs of rounds that are over, but for those that say so.
    pub(super) fn left_of_rounds(&self) -> Vec<String> {
        let shelves = self.shelves.borrow();
        let stays = |name: &str| name.starts_with("end/") || name.starts_with("sen");
        let is_left = |key: &&String| {
            let parts = key.split_once("/rounds/").and_then(|(_, rest)| rest.split_once('/'));
            parts.is_some_and(|(_, name)| name == "end/value" || !stays(name))
        };
        shelves.blobs.keys().filter(is_left).cloned().collect()
    }

    /// Puts any text into the queue.
    pub fn intrude(&self, text: &str) {
        self.shelves.borrow_mut().enqueue(text, self.clock.now());
    }

    /// Removes a result that is there, if there is one.
    pub fn remove_some_result(&self) {
        let mut shelves = self.shelves.borrow_mut();
        let results: Vec<String> =
            shelves.blobs.keys().filter(|key| key.contains("/results/")).cloned().collect();
        if !results.is_empty() {
            let key = self.rng.borrow_mut().pick(&results).clone();
            shelves.blobs.remove(&key);
        }
    }

    fn is_calm(&self) -> bool {
        self.clock.now().0 >= self.faults.until_us
    }

    fn percent(&self, percent: u64) -> bool {
        !self.is_calm() && percent > 0 && self.rng.borrow_mut().percent(percent)
    }

    /// The way there: half of the time that a request takes, after which it may be refused.
    async fn request(&self, count: impl FnOnce(&mut Requests) -> &mut u64) -> Result<(), String> {
        let mut requests = self.requests.get();
        *count(&mut requests) += 1;
        self.requests.set(requests);
        self.clock.sleep(self.half()).await;
        if self.percent(self.faults.refused_percent) { Err("try again".into()) } else { Ok(()) }
    }

    /// The bytes that a blob counts for.
    fn weight(&self, key: &str, content: &[u8]) -> u64 {
        let is_bulk = ["/order/", "/results/", "/end/value"].iter().any(|part| key.contains(part));
        content.len() as u64 + if is_bulk { self.latency.bulk_bytes } else { 0 }
    }

    fn half(&self) -> Span {
        let Latency { least_us, most_us, .. } = self.latency;
        Span(self.rng.borrow_mut().between(least_us, most_us) / 2 + 1)
    }

    /// The way back. Whoever dies here does not know that it was done.
    async fn answer(&self) {
        self.clock.sleep(self.half()).await;
    }

    fn write(&self, key: &str, content: &Rc<[u8]>) {
        let late = self.percent(self.faults.late_percent);
        let now = self.clock.now();
        let delay = if late { self.rng.borrow_mut().below(self.faults.late_max_us + 1) } else { 0 };
        let mut shelves = self.shelves.borrow_mut();
        if let Some((round, _)) = key.split_once("/order/") {
            let copies = format!("{round}/order/");
            let other = shelves.blobs.range(copies.clone()..).next();
            if let Some((_, other)) = other.filter(|(other, _)| other.starts_with(&copies)) {
                self.hold(checks::copies_are_equal(key, &other.content, content));
            }
        }
        if let Some((round, rest)) = key.split_once("results/00/")
            && let Some(task) = keys::number(rest)
        {
            shelves.done.insert((round.to_owned(), task), key.to_owned());
        }
        if let Some((round, _)) = key.split_once("end/") {
            shelves.over.insert(round.to_owned());
        }
        let old = shelves.blobs.get(key);
        if let Some(old) = old {
            self.hold(checks::name_has_one_content(key, &old.content, content));
        }
        // What was seen once stays so.
        let visible = old.map_or(now + Span(delay), |old| old.visible.min(now + Span(delay)));
        let blob = Blob { content: content.clone(), written: now, visible, busy_until: Time(0) };
        shelves.blobs.insert(key.to_owned(), blob);
    }

    /// How long it takes until a blob with a limit has been read.
    fn queue_at(&self, key: &str, weight: u64) -> Span {
        let limit = self.latency.blob_bytes_per_ms;
        let mut shelves = self.shelves.borrow_mut();
        let now = self.clock.now();
        match shelves.blobs.get_mut(key).filter(|_| limit > 0) {
            Some(blob) => {
                let done = blob.busy_until.max(now) + Span(weight * 1_000 / limit);
                blob.busy_until = done;
                done.since(now)
            }
            None => Span(0),
        }
    }
}

impl SimStorage {
    /// A message was acknowledged.
    fn check_done(&self, shelves: &Shelves, text: &str) {
        let Ok(Message::Map { at, task }) = Message::parse(text) else { return };
        if !shelves.is_of_a_round(text) {
            return;
        }
        let has_result = shelves.done.contains_key(&(keys::round(&at), task));
        let is_over = shelves.over.contains(&keys::round(&at));
        self.hold(checks::no_result_is_lost(text, has_result, is_over));
    }

    /// Somebody claims to run a late task.
    fn check_backup(&self, shelves: &Shelves, key: &str) {
        let Some((round, task)) = key.split_once("backup/") else { return };
        let Some(task) = keys::number(task) else { return };
        let now = self.clock.now();
        let result = shelves.done.get(&(round.to_owned(), task));
        let seen = result.and_then(|name| shelves.blobs.get(name)).map(|blob| blob.visible);
        let seen_for = seen.filter(|visible| *visible <= now).map(|visible| now.since(visible));
        let limit = Span(3 * self.latency.most_us + 10);
        self.hold(checks::backups_are_of_unfinished_tasks(key, seen_for, limit));
    }
}

impl Shelves {
    fn enqueue(&mut self, text: &str, visible: Time) {
        self.next += 1;
        let queued = Queued { text: text.to_owned(), visible, count: 0, receipt: 0 };
        self.due.insert((visible, self.next));
        self.queue.insert(self.next, queued);
    }

    /// Changes when a message can be received.
    fn set_visible(&mut self, id: u64, visible: Time) {
        if let Some(queued) = self.queue.get_mut(&id) {
            self.due.remove(&(queued.visible, id));
            queued.visible = visible;
            self.due.insert((visible, id));
        }
    }

    /// Whether the message is still with whoever has this receipt.
    fn is_with(&self, Receipt(id, receipt): &Receipt) -> bool {
        self.queue.get(id).is_some_and(|queued| queued.receipt == *receipt)
    }

    /// Whether a message is for a task of a round that there is.
    fn is_of_a_round(&self, text: &str) -> bool {
        let Ok(Message::Map { at, .. }) = Message::parse(text) else { return false };
        let orders = format!("{}order/", keys::round(&at));
        self.blobs.range(orders.clone()..).next().is_some_and(|(key, _)| key.starts_with(&orders))
    }
}

/// A message, and the receipt of its delivery.
pub struct Receipt(u64, u64);

/// Bytes that are shared, so that copies cost nothing.
#[derive(Clone, Debug)]
pub struct Shared(pub Rc<[u8]>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Shared {
    fn from(bytes: Vec<u8>) -> Self {
        Shared(bytes.into())
    }
}

impl Storage for SimStorage {
    type Blob = Shared;
    type Receipt = Receipt;
    type Error = String;

    async fn get(&self, key: &str) -> Result<Option<Shared>, String> {
        self.request(|r| &mut r.gets).await?;
        let now = self.clock.now();
        let seen = |shelves: &Shelves| {
            shelves.blobs.get(key).filter(|blob| blob.visible <= now).map(|blob| blob.content.clone())
        };
        let found = seen(&self.shelves.borrow());
        let weight = found.as_ref().map_or(0, |content| self.weight(key, content));
        let wait = self.queue_at(key, weight);
        if wait.0 > 0 {
            self.clock.sleep(wait).await;
        }
        self.answer().await;
        Ok(found.map(Shared))
    }

    async fn put(&self, key: &str, blob: Shared) -> Result<(), String> {
        self.request(|r| &mut r.puts).await?;
        self.write(key, &blob.0);
        self.answer().await;
        Ok(())
    }

    async fn create(&self, key: &str, blob: Shared) -> Result<bool, String> {
        self.request(|r| &mut r.puts).await?;
        self.check_backup(&self.shelves.borrow(), key);
        let is_new = !self.shelves.borrow().blobs.contains_key(key);
        if is_new {
            self.write(key, &blob.0);
        }
        self.answer().await;
        Ok(is_new)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, String> {
        self.request(|r| &mut r.lists).await?;
        let now = self.clock.now();
        let listed = {
            let shelves = self.shelves.borrow();
            let from =
                shelves.blobs.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
            let seen = from.filter(|(_, blob)| blob.visible <= now);
            seen.map(|(key, blob)| Listed {
                name: key[prefix.len()..].to_owned(),
                age: now.since(blob.written),
            })
            .collect()
        };
        self.answer().await;
        Ok(listed)
    }

    async fn delete(&self, key: &str) -> Result<(), String> {
        self.request(|r| &mut r.deletes).await?;
        self.shelves.borrow_mut().blobs.remove(key);
        self.answer().await;
        Ok(())
    }

    async fn send(&self, message: &str, hidden: Span) -> Result<(), String> {
        self.request(|r| &mut r.sends).await?;
        {
            let mut shelves = self.shelves.borrow_mut();
            let times = shelves.sent.entry(message.to_owned()).or_default();
            *times += 1;
            if self.faults.messages_are_sent_once() {
                self.hold(checks::messages_are_sent_once(message, *times));
            }
            shelves.enqueue(message, self.clock.now() + hidden);
        }
        self.answer().await;
        Ok(())
    }

    async fn receive(&self, hidden: Span) -> Result<Option<Delivery<Receipt>>, String> {
        self.request(|r| &mut r.receives).await?;
        let is_twice = self.percent(self.faults.twice_percent);
        let now = self.clock.now();
        let delivery = {
            let mut shelves = self.shelves.borrow_mut();
            shelves.next += 1;
            let receipt = shelves.next;
            let first = shelves.due.first().copied().filter(|(visible, _)| *visible <= now);
            first.and_then(|(_, id)| {
                if !is_twice {
                    shelves.set_visible(id, now + hidden);
                }
                let queued = shelves.queue.get_mut(&id)?;
                queued.count += 1;
                queued.receipt = receipt;
                Some(Delivery {
                    text: queued.text.clone(),
                    count: queued.count,
                    receipt: Receipt(id, receipt),
                })
            })
        };
        self.received.set(self.received.get() + u64::from(delivery.is_some()));
        match &delivery {
            Some(delivery) if self.shelves.borrow().is_of_a_round(&delivery.text) => {
                let limit = self.deliveries_max + DELIVERIES_SPARE;
                self.hold(checks::deliveries_are_bounded(&delivery.text, delivery.count, limit));
            }
            Some(_) => {}
            None => self.empty.set(self.empty.get() + 1),
        }
        self.answer().await;
        Ok(delivery)
    }

    async fn extend(&self, delivery: &mut Delivery<Receipt>, hidden: Span) -> Result<bool, String> {
        self.request(|r| &mut r.settles).await?;
        let until = self.clock.now() + hidden;
        let is_ours = {
            let mut shelves = self.shelves.borrow_mut();
            let is_ours = shelves.is_with(&delivery.receipt);
            if is_ours {
                shelves.set_visible(delivery.receipt.0, until);
            }
            is_ours
        };
        self.answer().await;
        Ok(is_ours)
    }

    async fn acknowledge(&self, delivery: Delivery<Receipt>) -> Result<(), String> {
        self.request(|r| &mut r.settles).await?;
        {
            let mut shelves = self.shelves.borrow_mut();
            if shelves.is_with(&delivery.receipt)
                && let Some(queued) = shelves.queue.remove(&delivery.receipt.0)
            {
                shelves.due.remove(&(queued.visible, delivery.receipt.0));
            }
            self.check_done(&shelves, &delivery.text);
        }
        self.answer().await;
        Ok(())
    }

    fn copies(&self, enough: u32) -> u32 {
        match self.latency.copies_max {
            0 => enough,
            most => enough.min(most),
        }
    }

    async fn sleep(&self, span: Span) {
        self.clock.sleep(span).await;
    }
}

/// The bucket as one participant reaches it: over a link of its own, which one blob after the other passes.
pub(super) struct Link<'a> {
    storage: &'a SimStorage,
    busy_until: Cell<Time>,
}

impl<'a> Link<'a> {
    /// A link that nothing passes yet.
    pub(super) fn new(storage: &'a SimStorage) -> Self {
        Link { storage, busy_until: Cell::new(Time(0)) }
    }

    async fn pass(&self, key: &str, content: &[u8]) {
        let bytes = self.storage.weight(key, content);
        if let Some(takes_us) = (bytes * 1_000).checked_div(self.storage.latency.link_bytes_per_ms) {
            let now = self.storage.clock.now();
            self.busy_until.set(self.busy_until.get().max(now) + Span(takes_us));
            self.storage.clock.sleep(self.busy_until.get().since(now)).await;
        }
    }
}

impl Storage for Link<'_> {
    type Blob = Shared;
    type Receipt = Receipt;
    type Error = String;

    async fn get(&self, key: &str) -> Result<Option<Shared>, String> {
        let found = self.storage.get(key).await?;
        if let Some(found) = &found {
            self.pass(key, &found.0).await;
        }
        Ok(found)
    }

    async fn put(&self, key: &str, blob: Shared) -> Result<(), String> {
        self.pass(key, &blob.0).await;
        self.storage.put(key, blob).await
    }

    async fn create(&self, key: &str, blob: Shared) -> Result<bool, String> {
        self.pass(key, &blob.0).await;
        self.storage.create(key, blob).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, String> {
        self.storage.list(prefix).await
    }

    async fn delete(&self, key: &str) -> Result<(), String> {
        self.storage.delete(key).await
    }

    async fn send(&self, message: &str, hidden: Span) -> Result<(), String> {
        self.storage.send(message, hidden).await
    }

    async fn receive(&self, hidden: Span) -> Result<Option<Delivery<Receipt>>, String> {
        self.storage.receive(hidden).await
    }

    async fn extend(&self, delivery: &mut Delivery<Receipt>, hidden: Span) -> Result<bool, String> {
        self.storage.extend(delivery, hidden).await
    }

    async fn acknowledge(&self, delivery: Delivery<Receipt>) -> Result<(), String> {
        self.storage.acknowledge(delivery).await
    }

    fn copies(&self, enough: u32) -> u32 {
        self.storage.copies(enough)
    }

    async fn sleep(&self, span: Span) {
        self.storage.sleep(span).await;
    }
}
