//! A bucket as the crew of a master: submits rounds, and waits for their values.

use crate::bucket::Bucket;
use crate::ending::{ResultBlob, RoundEnd};
use crate::error::{KEY_NEEDED, StoreError};
use crate::functions::{hold_key, missing_key, recipe_key};
use crate::job::{self, WORKER_GONE, WORKERS};
use crate::pieces::pieces;
use crate::run::block_on;
use crate::submit::{self, OwnJob};
use crate::upkeep::{FinishedRound, body_key, remove_own};
use crate::upload::{content, engine, upload};
use bytes::Bytes;
use linkme::distributed_slice;
use qjam::engine::provider::{CREWS, CrewError, CrewProvider, CrewSettings};
use qjam::engine::{Assignment, Caps, Crew, CrewWorker, Failure, Order as EngineOrder, Outcome, WorkDone};
use qjam_core::bucket::{
    Ending, Order, Plan, RoundAt, RoundHead, Sender, Settings, Storage, Watch, begin, keys,
};
use qjam_core::chunk::ChunkId;
use qjam_core::ids::{HoldId, Version};
use qjam_core::time::Span;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often it is looked who the workers are.
const WORKERS_EVERY: Duration = Duration::from_secs(2);
/// How often it is looked whether workers miss chunks.
const MISSING_EVERY: Duration = Duration::from_secs(1);
/// Tasks for each worker, so that fast ones get more of them.
const TASKS_PER_WORKER: u32 = 3;
/// A job in a bucket, submitted by this master.
pub struct StoreCrew {
    own: OwnJob,
    settings: Settings,
    known: Mutex<Known>,
    /// Workers that have delivered something, in the order of their first delivery.
    names: Mutex<Vec<String>>,
    /// Whether the last round has no value: then the job stays in the bucket, to be gone on with.
    is_failed: AtomicBool,
}

/// What is known of the bucket.
struct Known {
    /// Chunks, and pieces of several, that are there.
    chunks: HashSet<ChunkId>,
    /// How many workers there are and how many slots they have, and when that was asked.
    workers: (u32, u32),
    asked: Option<Instant>,
}

#[distributed_slice(CREWS)]
static PROVIDER: CrewProvider = CrewProvider {
    word: "store",
    example: "write for example `store:file:///mnt/share/qjam`, and start workers with `qjam store serve file:///mnt/share/qjam`",
    join,
};

fn join(rest: &str, settings: &CrewSettings<'_>) -> Result<Arc<dyn Crew>, CrewError> {
    Ok(Arc::new(StoreCrew::submit(rest, settings)?))
}

impl StoreCrew {
    /// Puts a new job into the bucket at an address.
    pub fn submit(url: &str, settings: &CrewSettings<'_>) -> Result<StoreCrew, StoreError> {
        let own = submit::submit(url, settings)?;
        let settings = own.bucket.settings();
        Ok(StoreCrew {
            own,
            settings,
            known: Mutex::new(Known { chunks: HashSet::new(), workers: (0, 0), asked: None }),
            names: Mutex::default(),
            is_failed: AtomicBool::new(false),
        })
    }

    fn bucket(&self) -> &Bucket {
        &self.own.bucket
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The position of a worker among the crew's. The first is the bucket itself.
    fn position_of(&self, worker: &str) -> u32 {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let at = names.iter().position(|name| name == worker).unwrap_or_else(|| {
            names.push(worker.to_owned());
            names.len() - 1
        });
        at as u32 + 1
    }

    /// How many workers there are, and slots.
    fn workers_now(&self) -> (u32, u32) {
        let known = self.known();
        if known.asked.is_some_and(|asked| asked.elapsed() < WORKERS_EVERY) {
            return known.workers;
        }
        drop(known);
        let listed = block_on(self.bucket().list(WORKERS)).unwrap_or_default();
        let alive = listed.iter().filter(|blob| blob.age <= WORKER_GONE);
        let slots = |name: &str| name.rsplit_once('.').and_then(|(_, slots)| slots.parse::<u32>().ok());
        let workers =
            alive.filter_map(|blob| slots(&blob.name)).fold((0, 0), |(n, sum), slots| (n + 1, sum + slots));
        let mut known = self.known();
        (known.workers, known.asked) = (workers, Some(Instant::now()));
        workers
    }

    /// Puts the chunks of a round into the bucket. Returns how many, and their bytes.
    async fn put_chunks(&self, at: &RoundAt, assignment: &Assignment) -> Result<(u64, u64), Failure> {
        let order = &assignment.order;
        let mut new = pieces(order.chunk_names(), self.bucket().piece_bytes_max());
        {
            let known = self.known();
            new.retain(|piece| !known.chunks.contains(&piece.id));
        }
        if new.is_empty() {
            return Ok((0, 0));
        }
        let arrived = |piece| {
            self.known().chunks.insert(piece);
        };
        upload(self.bucket(), at, order, new, &*assignment.cancelled, arrived).await
    }

    /// Puts chunks back that somebody has removed, and a worker misses.
    async fn put_back_missing(&self, at: &RoundAt, order: &EngineOrder) -> Result<(), Failure> {
        let prefix = missing_key(at);
        let missing = self.bucket().list(&prefix).await.map_err(engine)?;
        if missing.is_empty() {
            return Ok(());
        }
        let pieces = pieces(order.chunk_names(), self.bucket().piece_bytes_max());
        for blob in missing {
            let index = keys::number(&blob.name).filter(|index| *index < order.cut().chunks);
            let missed = pieces.iter().find(|piece| index.is_some_and(|n| piece.chunks.contains(&n)));
            if let Some(piece) = missed {
                let content = content(order, piece.chunks.clone())?;
                self.bucket().put_chunk(&piece.id, content).await.map_err(engine)?;
            }
            self.bucket().delete(&format!("{prefix}{}", blob.name)).await.map_err(engine)?;
        }
        Ok(())
    }

    /// The order of a round as it is in the bucket, if the round was begun before; an error if that was another round.
    async fn begun(&self, at: &RoundAt, body: &[u8]) -> Result<Option<Order<Bytes>>, Failure> {
        let there = self.bucket().get(&keys::order(at, 0)).await.map_err(engine)?.and_then(Order::read);
        match there {
            Some(there) if there.body() == body => Ok(Some(there)),
            Some(_) => Err(other_round(at)),
            None => Ok(None),
        }
    }

    /// The value of a round that was finished before.
    async fn finished(&self, at: &RoundAt, body: &[u8; 32]) -> Result<Option<Bytes>, Failure> {
        match self.bucket().get(&body_key(at)).await.map_err(engine)? {
            Some(there) if there != body[..] => Err(other_round(at)),
            Some(_) => self.bucket().get(&keys::value(at)).await.map_err(engine),
            None => Ok(None),
        }
    }

    async fn run_round(&self, assignment: &Assignment) -> Result<Outcome, Failure> {
        let order = &assignment.order;
        if order.is_foreign() && !self.bucket().has_key() {
            return Err(Failure::Engine(KEY_NEEDED.into()));
        }
        let at = RoundAt { job: self.own.job.clone(), round: order.round().0 };
        let body = order.to_bytes();
        let hash = *blake3::hash(&body).as_bytes();
        if let Some(value) = self.finished(&at, &hash).await? {
            return self.outcome(order, &value, 0, 0);
        }
        let (chunks, bytes_out) = self.put_chunks(&at, assignment).await?;
        let (workers, _) = self.workers_now();
        let submitted = match self.begun(&at, &body).await? {
            Some(there) => there,
            None => {
                let tasks_max = (workers.max(1) * TASKS_PER_WORKER).max(4);
                let plan = Plan::new(order.cut(), tasks_max, self.bucket().shape(body.len()));
                Order::new(RoundHead { plan, fused: false }, &body)
            }
        };
        if let Some(recipe) = assignment.recipe() {
            self.bucket().create(&recipe_key(&at), recipe).await.map_err(engine)?;
        }
        self.bucket().attend(&keys::end(&at));
        let sender = Sender { name: "submitter", patience: Span(0) };
        begin(self.bucket(), &at, &submitted, self.settings.watch_every, &sender).await.map_err(engine)?;
        match self.wait(&at, assignment, &submitted).await? {
            Ending::Value(value) => {
                let outcome = self.outcome(order, &value, bytes_out + body.len() as u64, chunks)?;
                let held = order.held().filter(|_| !order.only_looks());
                let states = held.map(|held| (held.hold, Version::after(order.round())));
                self.own.upkeep.clear(FinishedRound { at, body: hash, states });
                Ok(outcome)
            }
            Ending::Failed(why) => Err(RoundEnd::failure(&why, |worker| self.position_of(worker))),
            Ending::Cancelled => {
                let end = RoundEnd::Cancelled.to_bytes();
                self.bucket().create(&keys::failed(&at), end).await.map_err(engine)?;
                Err(Failure::Cancelled)
            }
        }
    }

    /// Waits for the end of a round.
    async fn wait(
        &self,
        at: &RoundAt,
        assignment: &Assignment,
        submitted: &Order<Bytes>,
    ) -> Result<Ending<Bytes>, Failure> {
        let mut looked = Instant::now();
        let mut failed = None;
        let stops = || {
            if looked.elapsed() >= MISSING_EVERY {
                looked = Instant::now();
                failed = block_on(self.put_back_missing(at, &assignment.order)).err();
            }
            failed.is_some() || (assignment.cancelled)()
        };
        let mut watch = Watch::new(at.clone(), self.settings);
        let ending = watch.wait(self.bucket(), submitted, stops).await.map_err(engine)?;
        failed.map_or(Ok(ending), Err)
    }

    fn outcome(
        &self,
        order: &EngineOrder,
        value: &Bytes,
        bytes_out: u64,
        chunks: u64,
    ) -> Result<Outcome, Failure> {
        let result = ResultBlob::read(value)?;
        let parts = order.parts_from_bytes(result.parts)?;
        let work: Vec<(u32, WorkDone)> =
            result.work.iter().map(|(worker, done)| (self.position_of(worker), done.clone())).collect();
        let outcome = Outcome::of(order.combine([parts]));
        Ok(outcome.with_work(&work, bytes_out, value.len() as u64, chunks))
    }
}

impl Crew for StoreCrew {
    fn caps(&self) -> Caps {
        let mut caps = Caps::CREW;
        (caps.keeps_state, caps.carries_mail, caps.can_replace, caps.can_cancel) = (true, true, true, true);
        caps
    }

    fn workers(&self) -> Vec<CrewWorker> {
        let (_, slots) = self.workers_now();
        let name = format!("store:{}", self.own.address);
        vec![CrewWorker { name, pid: None, same_machine: false, slots: slots.max(1) }]
    }

    fn awaited(&self) -> Vec<String> {
        let address = &self.own.address;
        match self.workers_now() {
            (0, _) => vec![format!("store:{address} (no worker is there: `qjam store serve {address}`)")],
            (workers, _) => vec![format!("store:{address} ({workers} workers)")],
        }
    }

    fn newcomers(&self, known: usize) -> Vec<CrewWorker> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let new = |name: &String| CrewWorker { name: name.clone(), pid: None, same_machine: false, slots: 0 };
        names.iter().skip(known.saturating_sub(1)).map(new).collect()
    }

    fn run(&self, assignment: Assignment) -> Outcome {
        let outcome = block_on(self.run_round(&assignment));
        self.is_failed.store(matches!(outcome, Err(Failure::Engine(_))), Relaxed);
        outcome.unwrap_or_else(|failure| Outcome::of(Err(failure)))
    }

    fn release(&self, hold: HoldId) {
        // What is left goes with the job.
        let _ = block_on(self.bucket().remove(&hold_key(&self.own.job, hold), |_| true));
    }
}

impl Drop for StoreCrew {
    fn drop(&mut self) {
        self.own.upkeep.end();
        if self.is_failed.load(Relaxed) {
            let _ = block_on(job::deactivate(&self.own.bucket, &self.own.job));
        } else {
            remove_own(&self.own.bucket, &self.own.job, self.own.name.as_deref());
        }
    }
}

fn other_round(at: &RoundAt) -> Failure {
    let RoundAt { job, round } = at;
    Failure::Engine(format!(
        "round {round} of job `{job}` was another one when it was first submitted: the program or its data has changed"
    ))
}
