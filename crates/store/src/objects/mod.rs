//! Blobs in the object storage of a cloud, and what its kinds have in common.
//!
//! A blob is an object of the same name, behind the prefix that the address gives. `create` is a write on the condition that there
//! is no object; so what the protocol relies on is done by the storage. Requests that fail for a moment are repeated with growing
//! pauses, by the library; what is wrong for longer is told in words ([`trouble`]).

mod clock;
mod io;
mod trouble;

pub(crate) use clock::{Connector, StorageClock};
pub(crate) use trouble::{Refusal, Target, Words};

use crate::StoreError;
use bytes::Bytes;
use futures_util::TryStreamExt;
use io::Io;
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientConfigKey, Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    RetryConfig, UpdateVersion,
};
use qjam_core::bucket::{Delivery, Listed, Settings, Storage};
use qjam_core::time::Span;
use std::sync::Arc;
use std::time::Duration;

/// Settings of the HTTP client, each with the end of the variable that overrides it. Blobs may be large and links slow; and servers
/// close connections that have been idle for as little as 5 s, just when somebody uses them.
pub(crate) const CLIENT: [(ClientConfigKey, &str, &str); 2] = [
    (ClientConfigKey::Timeout, "TIMEOUT", "10 minutes"),
    (ClientConfigKey::PoolIdleTimeout, "POOL_IDLE_TIMEOUT", "4 seconds"),
];
/// A write under a condition that was interrupted is repeated so often.
const REWRITES: u32 = 4;

/// Times for storage that answers in some tens of milliseconds, and charges for being asked.
pub(crate) fn settings() -> Settings {
    Settings {
        idle_first: Span::from_ms(20),
        idle_max: Span::from_ms(2_000),
        help_every: Span::from_ms(4_000),
        wait_first: Span::from_ms(20),
        wait_max: Span::from_ms(500),
        watch_every: Span::from_ms(5_000),
        ..Settings::default()
    }
}

/// A bucket in a cloud, with the queue of one job.
pub(crate) struct Cloud<Q> {
    pub(crate) objects: Objects,
    pub(crate) queue: Q,
}

/// A queue of a cloud. It may keep its messages among the objects.
pub(crate) trait Queue {
    async fn send(&self, objects: &Objects, message: &str, hidden: Span) -> Result<(), StoreError>;
    async fn receive(&self, objects: &Objects, hidden: Span) -> Result<Option<Delivery<String>>, StoreError>;
    async fn extend(
        &self,
        objects: &Objects,
        delivery: &mut Delivery<String>,
        hidden: Span,
    ) -> Result<bool, StoreError>;
    async fn acknowledge(&self, objects: &Objects, delivery: Delivery<String>) -> Result<(), StoreError>;
    /// Removes the queue and all that is in it.
    async fn remove(&self, objects: &Objects) -> Result<(), StoreError>;
}

impl<Q: Queue> Storage for Cloud<Q> {
    type Blob = Bytes;
    type Receipt = String;
    type Error = StoreError;

    async fn get(&self, key: &str) -> Result<Option<Bytes>, StoreError> {
        Ok(self.objects.get(key).await?.map(|(blob, _)| blob))
    }

    async fn put(&self, key: &str, blob: Bytes) -> Result<(), StoreError> {
        self.objects.put(key, blob).await
    }

    async fn create(&self, key: &str, blob: Bytes) -> Result<bool, StoreError> {
        self.objects.create(key, blob).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        self.objects.list(prefix).await
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.objects.delete(key).await
    }

    async fn send(&self, message: &str, hidden: Span) -> Result<(), StoreError> {
        self.queue.send(&self.objects, message, hidden).await
    }

    async fn receive(&self, hidden: Span) -> Result<Option<Delivery<String>>, StoreError> {
        self.queue.receive(&self.objects, hidden).await
    }

    async fn extend(&self, delivery: &mut Delivery<String>, hidden: Span) -> Result<bool, StoreError> {
        self.queue.extend(&self.objects, delivery, hidden).await
    }

    async fn acknowledge(&self, delivery: Delivery<String>) -> Result<(), StoreError> {
        self.queue.acknowledge(&self.objects, delivery).await
    }

    async fn sleep(&self, span: Span) {
        crate::run::sleep(Duration::from_micros(span.0)).await;
    }
}

/// Objects of a bucket.
pub(crate) struct Objects {
    io: Io,
    store: Arc<dyn ObjectStore>,
    /// What all names begin with: nothing, or something that ends with a slash.
    prefix: String,
    clock: Arc<StorageClock>,
    target: Target,
}

/// A version of an object.
pub(crate) type Tag = String;

impl Objects {
    /// Opens a bucket, and sees that it is there and can be read. `build` gives the store for a number of retries.
    pub(crate) fn open(
        target: Target,
        prefix: &str,
        clock: Arc<StorageClock>,
        build: impl Fn(RetryConfig) -> object_store::Result<Arc<dyn ObjectStore>>,
    ) -> Result<Objects, StoreError> {
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let io = Io::start()?;
        // Whoever mistypes an address does not want to wait.
        let built = build(retries(2)).and_then(|first| Ok((first, build(retries(9))?)));
        let (first, store) = built.map_err(|e| target.explain("use the settings", &Refusal::of(&e), 0))?;
        let objects = Objects { io, store: first, prefix, clock, target };
        crate::run::block_on(objects.metas("active/"))?;
        Ok(Objects { store, ..objects })
    }

    pub(crate) fn clock(&self) -> &Arc<StorageClock> {
        &self.clock
    }

    /// Runs requests of our own beside those for objects.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        self.io.run(work).await
    }

    fn failed(&self, what: &str, error: &Error) -> StoreError {
        self.target.explain(what, &Refusal::of(error), self.clock.own_lag_s())
    }

    fn path(&self, key: &str) -> Path {
        Path::from(format!("{}{key}", self.prefix))
    }

    /// The content of a blob and its version.
    pub(crate) async fn get(&self, key: &str) -> Result<Option<(Bytes, Tag)>, StoreError> {
        let (store, path) = (self.store.clone(), self.path(key));
        let read = async move {
            let found = store.get(&path).await?;
            let tag = found.meta.e_tag.clone().unwrap_or_default();
            Ok((found.bytes().await?, tag))
        };
        match self.run(read).await {
            Ok(found) => Ok(Some(found)),
            Err(e @ Error::NotFound { .. }) if Refusal::of(&e).is_no_bucket() => Err(self.failed("read", &e)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(self.failed(&format!("read {key}"), &e)),
        }
    }

    /// Whether there is a blob.
    pub(crate) async fn has(&self, key: &str) -> Result<bool, StoreError> {
        let (store, path) = (self.store.clone(), self.path(key));
        match self.run(async move { store.head(&path).await }).await {
            Ok(_) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(e) => Err(self.failed(&format!("look for {key}"), &e)),
        }
    }

    /// Writes a blob, whether or not there is one.
    pub(crate) async fn put(&self, key: &str, blob: Bytes) -> Result<(), StoreError> {
        self.write(key, blob, PutMode::Overwrite).await.map(|_| ())
    }

    /// Writes a blob unless there is one. Returns whether it was written.
    pub(crate) async fn create(&self, key: &str, blob: Bytes) -> Result<bool, StoreError> {
        Ok(self.write(key, blob, PutMode::Create).await?.is_some())
    }

    /// Writes a blob if it still has this version. Returns the new one; `None` if it has another, or is not there.
    pub(crate) async fn replace(&self, key: &str, blob: Bytes, tag: &str) -> Result<Option<Tag>, StoreError> {
        let version = UpdateVersion { e_tag: Some(tag.to_owned()), version: None };
        self.write(key, blob, PutMode::Update(version)).await
    }

    /// Writes a blob. Returns its version; `None` if the condition of the mode does not hold.
    async fn write(&self, key: &str, blob: Bytes, mode: PutMode) -> Result<Option<Tag>, StoreError> {
        let mut interrupted = 0;
        loop {
            let (store, path, content) = (self.store.clone(), self.path(key), blob.clone().into());
            let options = PutOptions::from(mode.clone());
            match self.run(async move { store.put_opts(&path, content, options).await }).await {
                Ok(written) => return Ok(Some(written.e_tag.unwrap_or_default())),
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) if interrupted > 0 => {
                    // It may have been written the time before.
                    return Ok(self.get(key).await?.filter(|(there, _)| *there == blob).map(|(_, tag)| tag));
                }
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => return Ok(None),
                Err(e @ Error::NotFound { .. }) if !Refusal::of(&e).is_no_bucket() => return Ok(None),
                // The library does not repeat what it may have done.
                Err(e) if interrupted < REWRITES && Refusal::of(&e).is_interrupted() => {
                    interrupted += 1;
                    crate::run::sleep(Duration::from_millis(100 << interrupted)).await;
                }
                Err(e) => return Err(self.failed(&format!("write {key}"), &e)),
            }
        }
    }

    /// The blobs whose names begin like this, in the order of their names.
    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        let metas = self.metas(prefix).await?;
        let listed =
            |(name, meta): (String, ObjectMeta)| Listed { name, age: self.clock.age(&meta.last_modified) };
        Ok(metas.into_iter().map(listed).collect())
    }

    /// The same, with all that the storage says of them. Names are without the prefix.
    pub(crate) async fn metas(&self, prefix: &str) -> Result<Vec<(String, ObjectMeta)>, StoreError> {
        // The library lists folders; what is asked for may be the beginning of a name in one.
        let (folder, beginning) = prefix.rsplit_once('/').unwrap_or(("", prefix));
        let (store, path) = (self.store.clone(), self.path(folder));
        let all =
            self.run(async move { store.list(Some(&path)).try_collect::<Vec<ObjectMeta>>().await }).await;
        let all = all.map_err(|e| self.failed("list the blobs", &e))?;
        let inside = self.path(folder).as_ref().len() + 1;
        let skipped = if inside == 1 { 0 } else { inside };
        let mut metas: Vec<(String, ObjectMeta)> = all
            .into_iter()
            .filter_map(|meta| {
                let name = meta.location.as_ref().get(skipped..)?.strip_prefix(beginning)?;
                Some((name.to_owned(), meta))
            })
            .collect();
        metas.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(metas)
    }

    /// Removes a blob, if there is one.
    pub(crate) async fn delete(&self, key: &str) -> Result<(), StoreError> {
        let (store, path) = (self.store.clone(), self.path(key));
        match self.run(async move { store.delete(&path).await }).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(e) => Err(self.failed(&format!("remove {key}"), &e)),
        }
    }
}

/// Repeats what fails for a moment so often, with pauses from a tenth of a second on that grow up to 10 s.
fn retries(count: usize) -> RetryConfig {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_secs(10),
        base: 2.0,
    };
    RetryConfig { backoff, max_retries: count, retry_timeout: Duration::from_secs(180) }
}
