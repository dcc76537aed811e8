//! A queue as files.
//!
//! A message is a file whose name says everything but what it says: its place in the queue, how often it was delivered and, while
//! somebody has it, until when and under which token. Taking it, keeping it and giving it up are each one renaming. Of two who
//! rename the same file one succeeds, and the other sees that it is gone.

use super::news::Audience;
use super::{Folder, failed};
use crate::StoreError;
use qjam_core::bucket::Delivery;
use qjam_core::time::{Span, Time};
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Messages of which the first that can be had is taken. More than one, so that many workers do not all try the same.
const TRIED_MAX: usize = 8;
/// Messages of which nobody tells, those left by others among them, are seen after this time at the latest.
const LOOKS_AT_ALL_EVERY: Duration = Duration::from_secs(1);

/// The name of a message that can be taken: place in the queue, and how often it was delivered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ReadyName {
    place: String,
    count: u32,
}

impl ReadyName {
    fn parse(name: &str) -> Option<Self> {
        let (place, count) = name.rsplit_once('.')?;
        Some(ReadyName { place: place.to_owned(), count: count.parse().ok()? })
    }

    fn to_name(&self) -> String {
        format!("{}.{}", self.place, self.count)
    }
}

/// The name of a message that nobody else can take before a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TakenName {
    until: Time,
    message: ReadyName,
    token: String,
}

impl TakenName {
    fn parse(name: &str) -> Option<Self> {
        let (until, rest) = name.split_once('.')?;
        let (message, token) = rest.rsplit_once('.')?;
        Some(TakenName {
            until: Time(until.parse().ok()?),
            message: ReadyName::parse(message)?,
            token: token.to_owned(),
        })
    }

    fn to_name(&self) -> String {
        format!("{:020}.{}.{}", self.until.0, self.message.to_name(), self.token)
    }
}

impl Folder {
    pub(super) fn enqueue(&self, text: &str, hidden: Span) -> Result<(), StoreError> {
        let now = self.clock.now();
        let message = ReadyName { place: format!("{:020}-{}", now.0, self.fresh_name()), count: 0 };
        let path = if hidden.0 == 0 {
            self.ready.join(message.to_name())
        } else {
            let token = self.fresh_name();
            self.taken.join(TakenName { until: now + hidden, message, token }.to_name())
        };
        let beside = self.beside.join(self.fresh_name());
        let placed = fs::write(&beside, text).and_then(|()| fs::rename(&beside, &path));
        placed.map_err(|e| {
            let _ = fs::remove_file(&beside);
            failed("write", &path)(e)
        })
    }

    pub(super) fn dequeue(&self, hidden: Span) -> Result<Option<Delivery<String>>, StoreError> {
        let now = self.clock.now();
        if let Some(message) = self.told_message() {
            let from = self.ready.join(message.to_name());
            return self.take(&from, message, now + hidden);
        }
        let ready = self.names(&self.ready, ReadyName::parse)?;
        for message in first(ready) {
            let from = self.ready.join(message.to_name());
            if let Some(delivery) = self.take(&from, message, now + hidden)? {
                return Ok(Some(delivery));
            }
        }
        // Those whose time is over have been left by somebody, or were hidden until now.
        let mut taken = self.names(&self.taken, TakenName::parse)?;
        taken.retain(|name| name.until <= now);
        for name in first(taken) {
            let from = self.taken.join(name.to_name());
            if let Some(delivery) = self.take(&from, name.message, now + hidden)? {
                return Ok(Some(delivery));
            }
        }
        Ok(None)
    }

    /// The message that this participant was told of, if that is the only one to try: there was no other when it last looked at
    /// all, which is not long ago.
    fn told_message(&self) -> Option<ReadyName> {
        let mut looks = self.looks();
        let told = looks.told.take().as_deref().and_then(ReadyName::parse);
        match looks.at_all {
            Some(at) if told.is_some() && at.elapsed() < LOOKS_AT_ALL_EVERY => told,
            // Whoever takes messages is told of them, from the first time on.
            other => {
                if other.is_none() {
                    self.news.add(&self.ready, Audience::One);
                }
                looks.at_all = Some(Instant::now());
                None
            }
        }
    }

    /// Takes a message; `None` if somebody else was faster.
    fn take(
        &self,
        from: &Path,
        message: ReadyName,
        until: Time,
    ) -> Result<Option<Delivery<String>>, StoreError> {
        let message = ReadyName { count: message.count.saturating_add(1), ..message };
        let name = TakenName { until, message, token: self.fresh_name() };
        let to = self.taken.join(name.to_name());
        match fs::rename(from, &to) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(failed("take", from))?,
        }
        let bytes = fs::read(&to).map_err(failed("read", &to))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Some(Delivery { text, count: name.message.count, receipt: name.to_name() }))
    }

    /// The receipt of a message is the name under which it is taken.
    pub(super) fn keep(&self, receipt: &mut String, hidden: Span) -> Result<bool, StoreError> {
        let Some(name) = TakenName::parse(receipt) else { return Ok(false) };
        let from = self.taken.join(&*receipt);
        let kept = TakenName { until: self.clock.now() + hidden, ..name };
        // What is given up at once goes to the front, where it is found first.
        let to = match hidden.0 {
            0 => self.ready.join(kept.message.to_name()),
            _ => self.taken.join(kept.to_name()),
        };
        match fs::rename(&from, &to) {
            Ok(()) => {
                *receipt = kept.to_name();
                Ok(true)
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(failed("keep", &from)(e)),
        }
    }

    pub(super) fn drop_message(&self, receipt: &str) -> Result<(), StoreError> {
        let path = self.taken.join(receipt);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed("remove", &path)(e)),
            _ => Ok(()),
        }
    }

    fn names<N>(&self, folder: &Path, parse: impl Fn(&str) -> Option<N>) -> Result<Vec<N>, StoreError> {
        let entries = match fs::read_dir(folder) {
            // The job was removed.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(failed("list", folder))?,
        };
        let name = |entry: io::Result<fs::DirEntry>| parse(entry.ok()?.file_name().to_str()?);
        Ok(entries.filter_map(name).collect())
    }
}

/// The first of these, in order.
fn first<N: Ord>(mut names: Vec<N>) -> impl Iterator<Item = N> {
    if names.len() > TRIED_MAX {
        names.select_nth_unstable(TRIED_MAX);
        names.truncate(TRIED_MAX);
    }
    names.sort_unstable();
    names.into_iter()
}
