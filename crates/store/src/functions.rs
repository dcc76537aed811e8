//! The functions of a round, as a worker runs them.
//!
//! Comes in: an order, and the numbers of tasks. Chunks come from the bucket, states too. Goes out: results, and states that the
//! next round begins with. What fails in user code fails the round; what is missing here is left to other workers.

use crate::bucket::Bucket;
use crate::ending::{ResultBlob, RoundEnd, add_work};
use crate::error::KEY_NEEDED;
use crate::fused::{NoStep, OpenedRound};
use crate::offload::offload;
#[cfg(feature = "objects")]
use crate::pieces::Piece;
use bytes::Bytes;
use qjam::engine::{Failure, LocatedChunk, Order as EngineOrder, Parts, StateSource, Workplace};
use qjam_core::bucket::settings::Backoff;
use qjam_core::bucket::{Failed, Listed, Next, Order, RoundAt, Storage, Work, keys};
use qjam_core::chunk::ChunkId;
use qjam_core::ids::{HoldId, Version};
use qjam_core::job::{Fault, FaultKind};
use qjam_core::order::MailTask;
use qjam_core::reduce::Node;
use qjam_core::time::Span;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Rounds whose orders are kept open.
const ROUNDS_MAX: usize = 2;
/// What was written can be seen after this time at the latest; what cannot was removed.
const SEEN_WITHIN: Span = Span::from_ms(60_000);
/// What cannot be seen for this long is asked of the submitter.
const MISSED_AFTER: Span = Span::from_ms(500);
/// The first and the longest wait for something that cannot be seen.
const LOOK_AGAIN: (Span, Span) = (Span::from_ms(5), Span::from_ms(1_000));

/// What a test may have an executor die of.
#[cfg(debug_assertions)]
#[derive(Clone, Copy)]
enum Fatal {
    Task(u32),
    Step,
}

/// What a worker runs tasks with.
pub(crate) struct Functions<'a> {
    bucket: &'a Bucket,
    place: Arc<Workplace>,
    /// The worker's name.
    name: String,
    rounds: RefCell<BTreeMap<RoundAt, Arc<OpenedRound>>>,
    chunks: RefCell<HashMap<ChunkId, LocatedChunk>>,
    #[cfg(feature = "objects")]
    cache: std::cell::OnceCell<RefCell<crate::chunks::ChunkCache>>,
    /// The pieces of a round's data, and of which round.
    #[cfg(feature = "objects")]
    pieces: RefCell<Option<(u64, Vec<Piece>)>>,
    told: RefCell<BTreeSet<String>>,
    /// How many tasks it has begun.
    tasks: Cell<u64>,
}

impl<'a> Functions<'a> {
    pub(crate) fn new(bucket: &'a Bucket, place: Arc<Workplace>, name: String) -> Self {
        Functions {
            bucket,
            place,
            name,
            rounds: RefCell::default(),
            chunks: RefCell::default(),
            #[cfg(feature = "objects")]
            cache: std::cell::OnceCell::new(),
            #[cfg(feature = "objects")]
            pieces: RefCell::default(),
            told: RefCell::default(),
            tasks: Cell::new(0),
        }
    }

    /// How many tasks it has begun.
    pub(crate) fn tasks(&self) -> u64 {
        self.tasks.get()
    }

    /// The order of a round, read once.
    fn open(&self, at: &RoundAt, order: &Order<Bytes>) -> Result<Arc<OpenedRound>, Failed<Bytes>> {
        if let Some(opened) = self.rounds.borrow().get(at) {
            return Ok(opened.clone());
        }
        let opened = OpenedRound::read(order);
        // Another build may know the function.
        let opened = Arc::new(opened.map_err(|e| Failed::Here(format!("a round cannot be run here: {e}")))?);
        if opened.order().is_foreign() && !self.bucket.has_key() {
            return Err(self.failed(Fault::new(FaultKind::Params, KEY_NEEDED.into()).into()));
        }
        let mut rounds = self.rounds.borrow_mut();
        if rounds.len() >= ROUNDS_MAX {
            rounds.pop_first();
        }
        rounds.insert(at.clone(), opened.clone());
        Ok(opened)
    }

    /// The order with the chunks of some blocks at hand.
    async fn with_chunks(
        &self,
        at: &RoundAt,
        opened: &EngineOrder,
        blocks: Range<u32>,
    ) -> Result<Arc<EngineOrder>, Failed<Bytes>> {
        let mut order = opened.fork();
        let chunks = order.chunks_of(blocks);
        let names = order.chunk_names().skip(chunks.start as usize).take(chunks.len());
        let names: Vec<ChunkId> = names.map(|(id, _)| id).collect();
        for (index, id) in chunks.zip(names) {
            let known = self.chunks.borrow().get(&id).cloned();
            let located = match known {
                Some(located) => located,
                None => self.locate(at, &order, index, &id).await?,
            };
            order.set_chunk(index, &located).map_err(|e| Failed::Here(e.to_string()))?;
        }
        Ok(Arc::new(order))
    }

    async fn locate(
        &self,
        at: &RoundAt,
        order: &EngineOrder,
        index: u32,
        id: &ChunkId,
    ) -> Result<LocatedChunk, Failed<Bytes>> {
        let mut patience = Patience::new(self.bucket);
        loop {
            if let Some(located) = self.find_chunk(order, index, id).await? {
                self.chunks.borrow_mut().insert(*id, located.clone());
                return Ok(located);
            }
            if patience.is_missed() {
                let key = format!("{}{index:010}", missing_key(at));
                self.bucket.create(&key, Bytes::new()).await.map_err(here)?;
            }
            if !patience.wait().await {
                let why = format!("chunk {index} ({id}) is not in the bucket: somebody has removed it");
                return Err(
                    self.failed(Fault { chunk: Some(index), ..Fault::new(FaultKind::Chunk, why) }.into())
                );
            }
        }
    }

    /// A chunk, if it can be seen.
    async fn find_chunk(
        &self,
        order: &EngineOrder,
        index: u32,
        id: &ChunkId,
    ) -> Result<Option<LocatedChunk>, Failed<Bytes>> {
        match self.bucket.chunk_file(id) {
            Some(path) => Ok(order.chunk_in_file(index, &path, 0).ok()),
            #[cfg(feature = "objects")]
            None => self.fetch(order, index, id).await,
            #[cfg(not(feature = "objects"))]
            None => Ok(None),
        }
    }

    /// Kills this process if a test has asked for that, and nobody has died of this before.
    #[cfg(debug_assertions)]
    async fn die_once(&self, at: &RoundAt, of: Fatal) {
        let (is_asked, name) = match of {
            Fatal::Task(task) => (self.bucket.faults().kills(), format!("{task:010}")),
            Fatal::Step => (self.bucket.faults().kills_steppers(), "step".into()),
        };
        let key = format!("{}killed/{:010}-{name}", keys::job(&at.job), at.round);
        let dies = is_asked && self.bucket.create(&key, Bytes::new()).await.unwrap_or(false);
        let is_poison = matches!(of, Fatal::Task(task) if self.bucket.faults().is_poison(at.round, task));
        if dies || is_poison {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }

    /// Leaves a blob for this run of a task if a test counts them.
    #[cfg(debug_assertions)]
    async fn count_run(&self, at: &RoundAt, task: u32) {
        if self.bucket.faults().counts() {
            let name = format!("{:010}-{task:010}-{:016x}", at.round, crate::random::random());
            let _ = self.bucket.create(&format!("{}ran/{name}", keys::job(&at.job)), Bytes::new()).await;
        }
    }

    async fn run_task(&self, at: &RoundAt, order: &Order<Bytes>, task: u32) -> Result<Bytes, Failed<Bytes>> {
        let opened = self.open(at, order)?;
        let plan = &order.head.plan;
        let blocks = plan.cut().blocks_of(plan.node(0, task));
        let ready = self.with_chunks(at, opened.order(), blocks.clone()).await?;
        let states = self.states(at, &ready, blocks.clone()).await?;
        let (place, running) = (self.place.clone(), ready.clone());
        let ran = offload(move |is_gone| {
            place.run(&running, blocks, states, Arc::new(move || is_gone.load(Relaxed)))
        });
        let delivered = ran.await.map_err(|e| Failed::Here(format!("no thread: {e}")))?;
        let delivered = delivered.map_err(|failure| self.failed(failure))?;
        if let Some(held) = ready.held() {
            let version = Version::after(ready.round());
            for (partition, state) in delivered.states {
                let key = state_key(&at.job, held.hold, partition, version);
                self.bucket.put(&key, state).await.map_err(here)?;
            }
        }
        let parts = ready.parts_to_bytes(&delivered.parts).map_err(|failure| self.failed(failure))?;
        let work = vec![(self.name.clone(), delivered.parts.work_done())];
        Ok(ResultBlob { work, parts: &parts }.to_bytes())
    }

    /// A chunk from the cache of this machine, or else from the bucket.
    #[cfg(feature = "objects")]
    async fn fetch(
        &self,
        order: &EngineOrder,
        index: u32,
        id: &ChunkId,
    ) -> Result<Option<LocatedChunk>, Failed<Bytes>> {
        let cache = self.cache.get_or_init(|| RefCell::new(crate::chunks::ChunkCache::open()));
        if let Some(located) = cache.borrow_mut().find(order, index, id) {
            return Ok(Some(located));
        }
        let failed =
            |e: &dyn std::fmt::Display| Failed::Here(format!("chunk {index} cannot be fetched: {e}"));
        let Some(piece) = self.piece_with(order, index) else { return Ok(None) };
        let Some(content) = self.bucket.chunk(&piece.id).await.map_err(|e| failed(&e))? else {
            return Ok(None);
        };
        let kept = cache.borrow_mut().keep(order, &piece, &content).map_err(|e| failed(&e))?;
        if let Some(trouble) = cache.borrow_mut().trouble() {
            self.tell(trouble);
        }
        let chunks = &mut *self.chunks.borrow_mut();
        chunks.extend(kept.iter().map(|(id, located)| (*id, located.clone())));
        Ok(chunks.get(id).cloned())
    }

    /// The blob in which a chunk is.
    #[cfg(feature = "objects")]
    fn piece_with(&self, order: &EngineOrder, index: u32) -> Option<Piece> {
        let mut pieces = self.pieces.borrow_mut();
        if pieces.as_ref().is_none_or(|(round, _)| *round != order.round().0) {
            let found = crate::pieces::pieces(order.chunk_names(), self.bucket.piece_bytes_max());
            *pieces = Some((order.round().0, found));
        }
        let (_, pieces) = pieces.as_ref()?;
        pieces.get(pieces.partition_point(|piece| piece.chunks.end <= index)).cloned()
    }

    /// The states that this worker lacks, and the mail of its partitions, from the bucket.
    async fn states(
        &self,
        at: &RoundAt,
        order: &EngineOrder,
        blocks: Range<u32>,
    ) -> Result<StateSource, Failed<Bytes>> {
        let mut states = Vec::new();
        let Some(held) = order.held() else { return Ok(StateSource::default()) };
        let recipe = match held.mail {
            MailTask::Letters => Some(self.mail(at).await?),
            MailTask::Nothing | MailTask::NotCarried => None,
        };
        if recipe.as_deref().is_some_and(StateSource::makes_states) {
            return Ok(StateSource { states, recipe });
        }
        for partition in self.place.lacks(order, blocks) {
            let key = state_key(&at.job, held.hold, partition, held.base);
            let mut patience = Patience::new(self.bucket);
            let state = loop {
                if let Some(state) = self.bucket.get(&key).await.map_err(here)? {
                    break state;
                }
                // Rounds of an earlier run have left it, elsewhere.
                if let Some(recipe) = self.bucket.get(&recipe_key(at)).await.map_err(here)? {
                    return Ok(StateSource { states, recipe: Some(recipe) });
                }
                if !patience.wait().await {
                    let why = format!(
                        "the state of partition {partition} is not in the bucket: somebody has removed it"
                    );
                    return Err(self.failed(Fault::new(FaultKind::State, why).into()));
                }
            };
            states.push((partition, state));
        }
        Ok(StateSource { states, recipe })
    }

    /// The mail that the round finds, which the submitter has put into the bucket before its order.
    async fn mail(&self, at: &RoundAt) -> Result<Bytes, Failed<Bytes>> {
        let mut patience = Patience::new(self.bucket);
        loop {
            if let Some(recipe) = self.bucket.get(&recipe_key(at)).await.map_err(here)? {
                return Ok(recipe);
            }
            if !patience.wait().await {
                let why = "the mail of the round is not in the bucket: somebody has removed it".into();
                return Err(self.failed(Fault::new(FaultKind::Mail, why).into()));
            }
        }
    }

    fn failed(&self, failure: Failure) -> Failed<Bytes> {
        match failure {
            Failure::Fault { fault, .. } => {
                Failed::Round(RoundEnd::Fault { worker: self.name.clone(), fault }.to_bytes())
            }
            Failure::Cancelled => Failed::Here("the round is over".into()),
            Failure::Engine(why) => Failed::Here(why),
        }
    }
}

fn here(error: crate::StoreError) -> Failed<Bytes> {
    Failed::Here(error.to_string())
}

/// Waits for something that was written and cannot be seen.
struct Patience<'a> {
    bucket: &'a Bucket,
    backoff: Backoff,
    waited: Span,
    is_asked: bool,
}

impl<'a> Patience<'a> {
    fn new(bucket: &'a Bucket) -> Self {
        Patience {
            bucket,
            backoff: Backoff::new(LOOK_AGAIN.0, LOOK_AGAIN.1),
            waited: Span(0),
            is_asked: false,
        }
    }

    /// Whether it is time to ask for it; true once.
    fn is_missed(&mut self) -> bool {
        self.waited >= MISSED_AFTER && !std::mem::replace(&mut self.is_asked, true)
    }

    /// Lets some time pass. Returns false if it has been enough.
    async fn wait(&mut self) -> bool {
        let wait = self.backoff.wait();
        self.waited = Span(self.waited.0 + wait.0);
        self.bucket.sleep(wait).await;
        self.waited < SEEN_WITHIN
    }
}

/// Chunks that a worker misses have a blob here.
pub(crate) fn missing_key(at: &RoundAt) -> String {
    format!("{}missing/", keys::round(at))
}

/// How states are made that no worker has.
pub(crate) fn recipe_key(at: &RoundAt) -> String {
    format!("{}recipe", keys::round(at))
}

/// Where the state of a partition is, as a round left it.
pub(crate) fn state_key(job: &str, hold: HoldId, partition: u32, version: Version) -> String {
    format!("{}{partition:010}/{:020}", hold_key(job, hold), version_number(version))
}

/// The versions of states in order.
pub(crate) fn version_number(version: Version) -> u64 {
    version.round().map_or(0, |round| round.0 + 1)
}

/// All states of a hold.
pub(crate) fn hold_key(job: &str, hold: HoldId) -> String {
    format!("{}holds/{:010}/", keys::job(job), hold.0)
}

impl Work<Bytes> for Functions<'_> {
    async fn map(&self, at: &RoundAt, order: &Order<Bytes>, task: u32) -> Result<Bytes, Failed<Bytes>> {
        self.tasks.set(self.tasks.get() + 1);
        #[cfg(debug_assertions)]
        {
            self.count_run(at, task).await;
            self.die_once(at, Fatal::Task(task)).await;
        }
        let ran = self.run_task(at, order, task).await;
        if let Err(Failed::Here(why)) = &ran {
            let why = format!("worker {}: {why}", self.name);
            // It is told here in any case.
            let key = format!("{}{}-{}", deaths_key(at, task), self.name, self.tasks.get());
            let _ = self.bucket.put(&key, why.into()).await;
        }
        ran
    }

    async fn reduce(
        &self,
        at: &RoundAt,
        order: &Order<Bytes>,
        parts: Vec<(Node, Bytes)>,
    ) -> Result<Bytes, Failed<Bytes>> {
        let opened = self.open(at, order)?;
        let opened = opened.order();
        let mut work = Vec::new();
        let merged = || -> Result<Vec<u8>, Failure> {
            let mut read: Vec<Parts> = Vec::new();
            for (_, part) in &parts {
                let result = ResultBlob::read(part)?;
                add_work(&mut work, result.work);
                read.push(opened.parts_from_bytes(result.parts)?);
            }
            opened.parts_to_bytes(&opened.merge(read)?)
        };
        let merged = { merged }().map_err(|failure| self.failed(failure))?;
        Ok(ResultBlob { work, parts: &merged }.to_bytes())
    }

    async fn step(
        &self,
        at: &RoundAt,
        order: &Order<Bytes>,
        value: &Bytes,
    ) -> Result<Next<Bytes>, Failed<Bytes>> {
        let (opened, value) = (self.open(at, order)?, value.clone());
        #[cfg(debug_assertions)]
        self.die_once(at, Fatal::Step).await;
        let followed = offload(move |_| opened.follow(&value));
        match followed.await.map_err(|e| Failed::Here(format!("no thread: {e}")))? {
            Ok(next) => Ok(next),
            Err(NoStep::Failure(failure)) => Err(self.failed(failure)),
            Err(NoStep::Refused(why)) => Err(Failed::Round(why)),
        }
    }

    async fn followed(&self, at: &RoundAt, order: &Order<Bytes>) {
        let held = self.open(at, order).ok().and_then(|opened| opened.order().held());
        let Some(held) = held else { return };
        // States of earlier holds, and those that came before what this round began with.
        let needed = (held.hold.0, version_number(held.base));
        let prefix = format!("{}holds/", keys::job(&at.job));
        let is_older = |blob: &Listed| {
            let mut numbers = blob.name.split('/').map(str::parse::<u64>);
            let (hold, version) = (numbers.next(), numbers.nth(1));
            matches!((hold, version), (Some(Ok(hold)), Some(Ok(version))) if (hold, version) < needed)
        };
        // What cannot be removed now goes with the job.
        let _ = self.bucket.remove(&prefix, is_older).await;
    }

    async fn poison(&self, at: &RoundAt, task: u32, deliveries: u32) -> Bytes {
        let mut deaths = Vec::new();
        for blob in self.bucket.list(&deaths_key(at, task)).await.unwrap_or_default() {
            let key = format!("{}{}", deaths_key(at, task), blob.name);
            if let Ok(Some(text)) = self.bucket.get(&key).await {
                deaths.push(String::from_utf8_lossy(&text).into_owned());
            }
        }
        RoundEnd::Poison { task, deliveries, deaths }.to_bytes()
    }

    fn tell(&self, trouble: String) {
        if self.told.borrow_mut().insert(trouble.clone()) {
            #[expect(clippy::print_stderr, reason = "a worker has no other way to say what is wrong")]
            {
                eprintln!("qjam: {}", qjam::printable(&trouble));
            }
        }
    }
}

/// How workers ended that ran a task.
pub(crate) fn deaths_key(at: &RoundAt, task: u32) -> String {
    format!("{}deaths/{task:010}/", keys::round(at))
}
