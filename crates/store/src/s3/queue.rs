//! A queue that is kept in a bucket by conditional writes.
//!
//! A message is an object. Whoever takes it writes it again, on the condition that it still is the version that was listed; of two
//! who try, one succeeds. So is a message kept for longer, and given up.
//!
//! A listing says all that has to be known before: when an object was written, and its length. The length says for how long nobody
//! else may take it, in tenths of a second. So looking for a message is one request, however many there are, and time is that of
//! the storage alone:
//!
//! ```text
//!   queues/JOB/PLACE    can be taken once it is older than (length - HEAD_BYTES) / 10 seconds
//!                       head: version of the format, deliveries, token, text; then spaces
//!                       empty: it has been dealt with, and is about to be removed
//! ```

use crate::StoreError;
use crate::objects::{Objects, Queue};
use crate::random::random;
use bytes::Bytes;
use qjam::Rng;
use qjam_core::bucket::Delivery;
use qjam_core::time::{Span, Time};
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a message takes that can be had at once.
const HEAD_BYTES: u64 = 1024;
/// Longest text. With the rest of the head it fits into `HEAD_BYTES`.
const TEXT_BYTES_MAX: usize = 800;
/// A unit of length stands for this time.
const UNIT: Span = Span(100_000);
/// The longest time for which a message can be hidden.
const HIDDEN_MAX: Span = Span(3600 * 1_000_000);
/// The format of messages.
const MARK: &str = "qjq1";
/// How many of the messages in a listing are remembered, to be tried before the next listing.
const REMEMBERED_MAX: usize = 32;
/// A message that has less time left than this may be somebody else's already: the storage tells the time in seconds.
const MARGIN: Span = Span(5_000_000);
/// What has been dealt with is removed by whoever sees it after this time.
const LEFT_AFTER: Span = Span(60_000_000);

/// The queue of a job.
pub(crate) struct BucketQueue {
    /// What the names of its objects begin with.
    folder: String,
    /// Tells this participant's writes from all others.
    token: String,
    written: AtomicU64,
    /// Messages that could be taken when they were listed: names and versions.
    listed: Mutex<Vec<(String, String)>>,
}

impl BucketQueue {
    pub(super) fn new(job: &str) -> BucketQueue {
        let token = format!("{:016x}", random());
        BucketQueue {
            folder: format!("queues/{job}/"),
            token,
            written: AtomicU64::new(0),
            listed: Mutex::default(),
        }
    }

    /// A token that no other version of any message has.
    fn fresh_token(&self) -> String {
        format!("{}-{:08x}", self.token, self.written.fetch_add(1, Relaxed))
    }

    fn key(&self, place: &str) -> String {
        format!("{}{place}", self.folder)
    }

    /// A message that was delivered so often, to be hidden for this time.
    fn body(&self, count: u32, text: &str, hidden: Span) -> Bytes {
        // Messages of ours are far shorter; what is longer is somebody else's, and nobody here reads it to its end.
        let mut end = text.len().min(TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut body = format!("{MARK} {count} {} ", self.fresh_token());
        let _ = writeln!(body, "{}", &text[..end]);
        let units = Span(hidden.0.min(HIDDEN_MAX.0)).0.div_ceil(UNIT.0);
        body.extend(std::iter::repeat_n(' ', (HEAD_BYTES + units) as usize - body.len()));
        body.into()
    }
}

/// How often a message was delivered, and what it says.
fn read(body: &[u8]) -> (u32, String) {
    let text = String::from_utf8_lossy(body);
    let ours = || {
        let mut words = text.split_once('\n')?.0.splitn(4, ' ');
        let (mark, count, _token) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
        (mark == MARK).then_some((count, words.next()?.to_owned()))
    };
    ours().unwrap_or_else(|| (0, text.clone().into_owned()))
}

/// For how long an object of this length is hidden. `None`: it has been dealt with.
fn hidden_for(bytes: u64) -> Option<Span> {
    (bytes > 0).then(|| Span(bytes.saturating_sub(HEAD_BYTES).saturating_mul(UNIT.0)))
}

/// What proves that a message is ours: its place, the version that we wrote, and until when nobody else may take it.
struct Receipt<'a> {
    place: &'a str,
    tag: &'a str,
    until: Time,
}

impl<'a> Receipt<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let (place, until, tag) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
        Some(Receipt { place, tag, until: Time(until) })
    }

    fn to_text(&self) -> String {
        format!("{} {} {}", self.place, self.until.0, self.tag)
    }
}

impl BucketQueue {
    fn remembered(&self) -> std::sync::MutexGuard<'_, Vec<(String, String)>> {
        self.listed.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Some of the messages that can be taken now, in no order: if all began with the first, all but one would be late.
    async fn messages(&self, objects: &Objects) -> Result<Vec<(String, String)>, StoreError> {
        let (clock, mut found) = (objects.clock(), Vec::new());
        for (place, meta) in objects.metas(&self.folder).await? {
            let age = clock.age(&meta.last_modified);
            match hidden_for(meta.size) {
                Some(hidden) if age >= hidden => found.push((place, meta.e_tag.unwrap_or_default())),
                Some(_) => {}
                None if age >= LEFT_AFTER => objects.delete(&self.key(&place)).await?,
                None => {}
            }
        }
        let mut rng = Rng::keyed(random(), 0, 0);
        for chosen in 0..found.len().min(REMEMBERED_MAX) {
            let other = chosen + rng.below((found.len() - chosen) as u64) as usize;
            found.swap(chosen, other);
        }
        found.truncate(REMEMBERED_MAX);
        Ok(found)
    }

    /// Takes a message; `None` if somebody else was faster.
    async fn take(
        &self,
        objects: &Objects,
        place: &str,
        tag: &str,
        hidden: Span,
    ) -> Result<Option<Delivery<String>>, StoreError> {
        let key = self.key(place);
        let Some((body, now_tag)) = objects.get(&key).await? else { return Ok(None) };
        if now_tag != tag || body.is_empty() {
            return Ok(None);
        }
        let (count, text) = read(&body);
        let mut delivery = Delivery { text, count: count.saturating_add(1), receipt: String::new() };
        let until = objects.clock().now();
        delivery.receipt = Receipt { place, tag, until }.to_text();
        Ok(self.extend(objects, &mut delivery, hidden).await?.then_some(delivery))
    }
}

impl Queue for BucketQueue {
    async fn send(&self, objects: &Objects, message: &str, hidden: Span) -> Result<(), StoreError> {
        let place = format!("{:020}-{}", objects.clock().now().0, self.fresh_token());
        let body = self.body(0, message, hidden);
        objects.put(&self.key(&place), body).await
    }

    async fn receive(&self, objects: &Objects, hidden: Span) -> Result<Option<Delivery<String>>, StoreError> {
        let mut is_new = false;
        loop {
            let next = self.remembered().pop();
            match next {
                Some((place, tag)) => {
                    if let Some(delivery) = self.take(objects, &place, &tag, hidden).await? {
                        return Ok(Some(delivery));
                    }
                }
                None if is_new => return Ok(None),
                None => {
                    is_new = true;
                    let messages = self.messages(objects).await?;
                    *self.remembered() = messages;
                }
            }
        }
    }

    async fn extend(
        &self,
        objects: &Objects,
        delivery: &mut Delivery<String>,
        hidden: Span,
    ) -> Result<bool, StoreError> {
        let Some(Receipt { place, tag, .. }) = Receipt::parse(&delivery.receipt) else { return Ok(false) };
        let body = self.body(delivery.count, &delivery.text, hidden);
        let until = objects.clock().now() + hidden;
        let Some(tag) = objects.replace(&self.key(place), body, tag).await? else { return Ok(false) };
        delivery.receipt = Receipt { place, tag: &tag, until }.to_text();
        Ok(true)
    }

    async fn acknowledge(&self, objects: &Objects, delivery: Delivery<String>) -> Result<(), StoreError> {
        let Some(Receipt { place, tag, until }) = Receipt::parse(&delivery.receipt) else { return Ok(()) };
        let key = self.key(place);
        // Objects are removed whatever their version is. So what may be somebody else's is first written again, as empty.
        let is_surely_ours = objects.clock().now() + MARGIN < until;
        if is_surely_ours || objects.replace(&key, Bytes::new(), tag).await?.is_some() {
            objects.delete(&key).await?;
        }
        Ok(())
    }

    async fn remove(&self, objects: &Objects) -> Result<(), StoreError> {
        for (place, _) in objects.metas(&self.folder).await? {
            objects.delete(&self.key(&place)).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_by_its_length_for_how_long_it_is_hidden() {
        let queue = BucketQueue::new("job");
        for (hidden, listed) in [(0, 0), (1, 100_000), (30_000_000, 30_000_000), (u64::MAX, HIDDEN_MAX.0)] {
            let body = queue.body(3, "qjam1 map a 1 2", Span(hidden));
            assert_eq!(hidden_for(body.len() as u64), Some(Span(listed)));
            assert_eq!(read(&body), (3, "qjam1 map a 1 2".to_owned()));
            assert_ne!(body, queue.body(3, "qjam1 map a 1 2", Span(hidden)), "two versions are one");
        }
        assert_eq!(hidden_for(0), None);
        assert_eq!(hidden_for(5), Some(Span(0)), "somebody else's can be had, and is removed");
    }

    #[test]
    fn whatever_else_is_in_the_queue_is_delivered_as_it_is() {
        let queue = BucketQueue::new("job");
        for foreign in ["", "hello", "qjq1 x y z\n", "qjq2 1 t text\n", "qjq1 1\n"] {
            assert_eq!(read(foreign.as_bytes()), (0, foreign.to_owned()));
        }
        let long = "ä".repeat(2000);
        assert_eq!(queue.body(1, &long, Span(0)).len() as u64, HEAD_BYTES);
        assert_eq!(read(&[255, 254]).0, 0);
    }

    #[test]
    fn receipts_survive_the_trip() {
        let receipt = Receipt { place: "0001-ab", tag: "\"e tag\"", until: Time(7) };
        let text = receipt.to_text();
        let back = Receipt::parse(&text).unwrap();
        assert_eq!((back.place, back.tag, back.until), ("0001-ab", "\"e tag\"", Time(7)));
        assert!(Receipt::parse("").is_none() && Receipt::parse("a b c").is_none());
    }
}
