//! The experiment of the paper on k-means over blob storage: mappers whose work takes a fixed time, and prototypes of a fixed size.
//!
//! What it measures is the protocol and the storage, so the mappers sleep instead of computing and any number of them fits on one
//! machine. Each is a thread with a bucket of its own and shares nothing with the others but what is in the bucket. The rounds are
//! fused: whoever merges last writes the next prototypes, and nobody waits for a submitter. Everything is read, written and merged
//! as in a real job, and the last prototypes show whether every result counted once.

use crate::buffers::Buffers;
use crate::run::{block_on, sleep};
use crate::{Address, Bucket, Seal, StoreError};
use bytes::Bytes;
use qjam_core::bucket::settings::Backoff;
use qjam_core::bucket::{
    Delivery, Failed, Listed, Next, Order, Plan, RoundAt, RoundHead, Sender, Settings, Shape, Storage, Work,
    Worker, begin, keys,
};
use qjam_core::reduce::{Cut, Node};
use qjam_core::time::Span;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Bytes of a number.
const NUMBER: usize = 8;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The bucket.
    pub address: Address,
    /// The name of the job.
    pub job: String,
    /// How many mappers.
    pub mappers: u32,
    /// What the work of a mapper takes.
    pub work: Duration,
    /// How many rounds.
    pub iterations: u64,
    /// Bytes of the prototypes.
    pub bytes: usize,
    /// So many mappers are slow.
    pub slow: u32,
    /// They take this many times as long.
    pub slowness: u32,
    /// Whether idle mappers run late tasks a second time.
    pub backups: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// From the first message to the last prototypes.
    pub wall: Duration,
    /// Tasks that were run.
    pub tasks: u64,
    /// Requests to blobs.
    pub blob_requests: u64,
    /// Requests to the queue.
    pub queue_requests: u64,
}

/// What the mappers did, all together.
#[derive(Default)]
struct Counts {
    tasks: AtomicU64,
    blobs: AtomicU64,
    queue: AtomicU64,
    has_ended: AtomicBool,
}

impl Experiment {
    /// Runs it, and removes what it wrote.
    pub fn run(&self, seal: &Seal) -> Result<Measured, StoreError> {
        let counts = Counts::default();
        let bucket = Bucket::open(&self.address, &self.job, seal.clone())?;
        let settings = self.settings();
        // A mapper of its own process would keep the memory of prototypes, its result and the results that it merges.
        Buffers::of_process().keep_up_to(3 * self.mappers as usize * self.bytes);
        let measured = std::thread::scope(|scope| {
            let started: Result<Vec<_>, StoreError> = (0..self.mappers)
                .map(|number| {
                    let bucket = Bucket::open(&self.address, &self.job, seal.clone())?;
                    let counts = &counts;
                    Ok(scope.spawn(move || self.map(number, &bucket, settings, counts)))
                })
                .collect();
            let measured =
                started.and_then(|_| block_on(self.follow(&Counted { bucket: &bucket, counts: &counts })));
            counts.has_ended.store(true, Relaxed);
            measured
        });
        block_on(self.clean(&bucket))?;
        let wall = measured?;
        let [tasks, blob_requests, queue_requests] =
            [&counts.tasks, &counts.blobs, &counts.queue].map(|count| count.load(Relaxed));
        Ok(Measured { wall, tasks, blob_requests, queue_requests })
    }

    fn settings(&self) -> Settings {
        let settings = Settings::default();
        let help_every = if self.backups { settings.help_every } else { Span(u64::MAX / 2) };
        Settings { help_every, ..settings }
    }

    /// One mapper.
    fn map(&self, number: u32, bucket: &Bucket, settings: Settings, counts: &Counts) {
        let slowness = if number < self.slow { self.slowness } else { 1 };
        let buffers = Buffers::of_process();
        let functions = Sleeping { experiment: self, work: self.work * slowness, counts, buffers };
        let storage = Counted { bucket, counts };
        let worker = Worker::new(&storage, &functions, settings, format!("mapper-{number}"));
        block_on(worker.serve(|| !counts.has_ended.load(Relaxed)));
    }

    /// Begins the first round, and waits for what comes of the last.
    async fn follow(&self, storage: &Counted<'_>) -> Result<Duration, StoreError> {
        let plan = Plan::new(Cut::new(self.mappers, 0), self.mappers, Shape::SquareRoot);
        let first = vec![0; self.bytes.div_ceil(NUMBER) * NUMBER];
        let order: Order<Bytes> = Order::new(RoundHead { plan, fused: true }, &first);
        let mut at = RoundAt { job: self.job.clone(), round: 0 };
        let bucket = storage.bucket;
        bucket.attend(&keys::job_result(&self.job));
        let began = Instant::now();
        let sender = Sender { name: "submitter", patience: Span(0) };
        begin(storage, &at, &order, Settings::default().watch_every, &sender).await?;
        let mut backoff = Backoff::new(Settings::default().wait_first, Settings::default().wait_max);
        loop {
            if let Some(last) = bucket.get(&keys::job_result(&self.job)).await? {
                let wall = began.elapsed();
                let problem = || "the last prototypes are wrong, which must not happen".to_owned();
                return if self.is_right(&last) {
                    Ok(wall)
                } else {
                    Err(StoreError::Experiment { problem: problem() })
                };
            }
            if let Some(why) = bucket.get(&keys::failed(&at)).await? {
                let problem = format!("round {} failed: {}", at.round, String::from_utf8_lossy(&why));
                return Err(StoreError::Experiment { problem });
            }
            if bucket.get(&keys::sent(&at.next())).await?.is_some() {
                at = at.next();
                backoff.reset();
            }
            bucket.idle(backoff.wait()).await;
        }
    }

    /// Every iteration adds one to every prototype, if every result counts once.
    fn is_right(&self, last: &[u8]) -> bool {
        last.len() == self.bytes.div_ceil(NUMBER) * NUMBER
            && last.chunks_exact(NUMBER).all(|number| read(number) == self.iterations as f64)
    }

    async fn clean(&self, bucket: &Bucket) -> Result<(), StoreError> {
        bucket.remove(&keys::job(&self.job), |_| true).await?;
        bucket.remove_queue().await
    }
}

fn read(number: &[u8]) -> f64 {
    number.first_chunk().map_or(f64::NAN, |bytes| f64::from_le_bytes(*bytes))
}

/// The functions of a mapper that sleeps. A result is a count of mappers, and sums of prototypes.
struct Sleeping<'a> {
    experiment: &'a Experiment,
    work: Duration,
    counts: &'a Counts,
    buffers: Buffers,
}

impl Work<Bytes> for Sleeping<'_> {
    async fn map(&self, _: &RoundAt, order: &Order<Bytes>, _: u32) -> Result<Bytes, Failed<Bytes>> {
        self.counts.tasks.fetch_add(1, Relaxed);
        sleep(self.work).await;
        let mut result = self.buffers.take(NUMBER + order.body().len());
        result.extend_from_slice(&1_f64.to_le_bytes());
        result.extend_from_slice(order.body());
        Ok(self.buffers.lend(result))
    }

    async fn reduce(
        &self,
        _: &RoundAt,
        _: &Order<Bytes>,
        parts: Vec<(Node, Bytes)>,
    ) -> Result<Bytes, Failed<Bytes>> {
        let mut parts = parts.into_iter().map(|(_, part)| part);
        let first = parts.next().unwrap_or_default();
        let mut sum = self.buffers.take(first.len());
        sum.extend_from_slice(&first);
        for part in parts {
            for (sum, number) in sum.chunks_exact_mut(NUMBER).zip(part.chunks_exact(NUMBER)) {
                sum.copy_from_slice(&(read(sum) + read(number)).to_le_bytes());
            }
        }
        Ok(self.buffers.lend(sum))
    }

    async fn step(
        &self,
        at: &RoundAt,
        order: &Order<Bytes>,
        value: &Bytes,
    ) -> Result<Next<Bytes>, Failed<Bytes>> {
        let count = read(value);
        let mut next = value[NUMBER.min(value.len())..].to_vec();
        for number in next.chunks_exact_mut(NUMBER) {
            number.copy_from_slice(&(read(number) / count + 1.0).to_le_bytes());
        }
        if at.round + 1 < self.experiment.iterations {
            return Ok(Next::Round(Order::new(order.head.clone(), &next)));
        }
        Ok(Next::Stop(next.into()))
    }

    async fn poison(&self, _: &RoundAt, task: u32, deliveries: u32) -> Bytes {
        format!("task {task} was delivered {deliveries} times").into()
    }

    #[expect(clippy::print_stderr, reason = "a mapper has no other way to say what is wrong")]
    fn tell(&self, trouble: String) {
        eprintln!("qjam: {}", qjam::printable(&trouble));
    }
}

/// A bucket whose requests are counted.
struct Counted<'a> {
    bucket: &'a Bucket,
    counts: &'a Counts,
}

impl Counted<'_> {
    fn blob(&self) -> &Bucket {
        self.counts.blobs.fetch_add(1, Relaxed);
        self.bucket
    }

    fn queue(&self) -> &Bucket {
        self.counts.queue.fetch_add(1, Relaxed);
        self.bucket
    }
}

impl Storage for Counted<'_> {
    type Blob = Bytes;
    type Receipt = String;
    type Error = StoreError;

    async fn get(&self, key: &str) -> Result<Option<Bytes>, StoreError> {
        self.blob().get(key).await
    }

    async fn put(&self, key: &str, blob: Bytes) -> Result<(), StoreError> {
        self.blob().put(key, blob).await
    }

    async fn create(&self, key: &str, blob: Bytes) -> Result<bool, StoreError> {
        self.blob().create(key, blob).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        self.blob().list(prefix).await
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.blob().delete(key).await
    }

    async fn send(&self, message: &str, hidden: Span) -> Result<(), StoreError> {
        self.queue().send(message, hidden).await
    }

    async fn receive(&self, hidden: Span) -> Result<Option<Delivery<String>>, StoreError> {
        self.queue().receive(hidden).await
    }

    async fn extend(&self, delivery: &mut Delivery<String>, hidden: Span) -> Result<bool, StoreError> {
        self.queue().extend(delivery, hidden).await
    }

    async fn acknowledge(&self, delivery: Delivery<String>) -> Result<(), StoreError> {
        self.queue().acknowledge(delivery).await
    }

    fn copies(&self, enough: u32) -> u32 {
        self.bucket.copies(enough)
    }

    async fn sleep(&self, span: Span) {
        self.bucket.sleep(span).await;
    }

    async fn idle(&self, span: Span) {
        self.bucket.idle(span).await;
    }
}
