//! One round, described once, for whoever runs it.
//!
//! The master makes an [`Order`] when a round is submitted; seats, crews, recording and replay take it as it is. It has the
//! plain description ([`OrderHead`]), the function behind the name, the data set behind the identifier, and the
//! [`Parameters`]. Its bytes form has everything but the contents of chunks, which are named: whoever rebuilds an order
//! from bytes says how a chunk is fetched by name.

use super::params::Parameters;
use crate::chunk::{ChunkId, Header};
use crate::ctx::Cancelled;
use crate::dataset::CutData;
use crate::execution::caught;
use crate::execution::chunks::OpenChunks;
use crate::execution::round::{BlockRunner, Effort, Stopped};
use crate::function::{AnyBox, Function, merge_fault};
use crate::registry::{self, UnknownFunction};
use crate::source::DataError;
use crate::source::location::{ChunkEntry, ChunkLocation, FileStamp};
use crate::store::{AlignedBuf, Region};
use bytes::Bytes;
use qjam_core::ids::RoundId;
use qjam_core::job::{Fault, FaultKind};
use qjam_core::order::{HeldTask, OrderHead};
use qjam_core::reduce::{Cut, Node, Tree};
use qjam_core::wire::host::Line;
use qjam_core::wire::message::Restored;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// A round to be run.
pub struct Order {
    pub(crate) head: OrderHead,
    pub(crate) function: Function,
    pub(crate) data: Arc<CutData>,
    pub(crate) params: Parameters,
}

/// Roots of subtrees that are complete, each with its node of the tree over the blocks.
pub struct Parts {
    pub(crate) nodes: Vec<(Node, AnyBox)>,
    /// What running them took.
    effort: Effort,
}

impl Parts {
    pub(crate) fn with_effort(nodes: Vec<(Node, AnyBox)>, effort: Effort) -> Parts {
        Parts { nodes, effort }
    }

    /// Parts whose effort is told elsewhere.
    pub(crate) fn of(nodes: Vec<(Node, AnyBox)>) -> Parts {
        Parts { nodes, effort: Effort::default() }
    }
}

/// A chunk whose content can be read.
#[derive(Clone)]
pub struct LocatedChunk(Arc<ChunkEntry>);

/// A pack of the cache on disk, mapped into memory.
#[derive(Clone, Debug)]
pub struct MappedPack(Region);

impl MappedPack {
    /// Maps a pack, as long as the cache says that it may become.
    pub fn open(file: OwnedFd, bytes: u64) -> io::Result<MappedPack> {
        Region::open_pack(file, bytes as usize).map(MappedPack)
    }
}

/// What a worker did for a round.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct WorkDone {
    /// Microseconds in user code, of the slot that had most.
    pub compute_us: u64,
    /// Chunks that were open already.
    pub cache_hits: u32,
    /// Chunks that had to be opened.
    pub cache_misses: u32,
    /// States that were made again.
    pub restored: Vec<Restored>,
}

impl Parts {
    /// What making them took.
    pub fn work_done(&self) -> WorkDone {
        let Effort { compute_us, hits, misses, restored } = self.effort.clone();
        WorkDone { compute_us, cache_hits: hits, cache_misses: misses, restored }
    }
}

/// Bytes that are not an order, or one that this program cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrderError {
    /// They are cut short, or something else.
    #[error("these bytes are no order of a round: {0}")]
    Malformed(postcard::Error),
    /// They describe a round that cannot be.
    #[error("the order contradicts itself: {0}")]
    Impossible(&'static str),
    /// The function is not part of this program.
    #[error(transparent)]
    Unknown(#[from] UnknownFunction),
}

/// What is in front of the parameters in the bytes of an order.
#[derive(serde::Serialize, serde::Deserialize)]
struct Preamble {
    head: OrderHead,
    chunks: Vec<(ChunkId, Header)>,
}

impl Order {
    /// The round's number.
    pub fn round(&self) -> RoundId {
        self.head.round
    }

    /// How many blocks it has.
    pub fn blocks(&self) -> u32 {
        self.head.cut.blocks()
    }

    /// Indices of the chunks of these blocks.
    pub fn chunks_of(&self, blocks: Range<u32>) -> Range<u32> {
        match blocks.is_empty() {
            true => 0..0,
            false => {
                let cut = self.head.cut;
                cut.chunks_of(cut.node(blocks.start)).start..cut.chunks_of(cut.node(blocks.end - 1)).end
            }
        }
    }

    /// The names of all chunks, with what each is.
    pub fn chunk_names(&self) -> impl Iterator<Item = (ChunkId, &Header)> {
        self.data.chunks.iter().map(|entry| (entry.id, &entry.header))
    }

    /// The states that it begins with, if its function has one.
    pub fn held(&self) -> Option<HeldTask> {
        self.head.held
    }

    /// Whether its function leaves the states as they are.
    pub fn only_looks(&self) -> bool {
        self.function.only_looks()
    }

    /// Whether its function is one of another language, whose code comes with the parameters.
    pub fn is_foreign(&self) -> bool {
        crate::function::language::is_foreign(&self.head.function)
    }

    /// How chunks are grouped into blocks.
    pub fn cut(&self) -> Cut {
        self.head.cut
    }

    /// The content of a chunk.
    pub fn chunk(&self, index: u32) -> Result<Bytes, DataError> {
        self.data.chunks[index as usize].load()
    }

    /// Everything but the contents of chunks.
    pub fn to_bytes(&self) -> Vec<u8> {
        let chunks = self.data.chunks.iter().map(|entry| (entry.id, entry.header.clone())).collect();
        let preamble = Preamble { head: self.head.clone(), chunks };
        let mut bytes = postcard::to_stdvec(&preamble).expect("names and numbers can be encoded");
        bytes.extend_from_slice(&self.params.whole());
        bytes
    }

    /// Rebuilds an order. The contents of its chunks are those that [`put_chunk`](Order::put_chunk) brings.
    pub fn from_bytes(bytes: &[u8]) -> Result<Order, OrderError> {
        let (preamble, params) =
            postcard::take_from_bytes::<Preamble>(bytes).map_err(OrderError::Malformed)?;
        let Preamble { head, chunks } = preamble;
        if !head.is_possible() {
            return Err(OrderError::Impossible("its cut"));
        }
        if chunks.len() != head.cut.chunks as usize {
            return Err(OrderError::Impossible("it names another number of chunks than it has"));
        }
        let function = registry::lookup(&head.function)?;
        let data = Arc::new(CutData::named(head.dataset, chunks));
        let params = Parameters::of(Bytes::copy_from_slice(params));
        Ok(Order { head, function, data, params })
    }

    /// Brings the content of a chunk, which must be what its name says.
    pub fn put_chunk(&mut self, index: u32, bytes: &[u8]) -> Result<(), OrderError> {
        let data = Arc::get_mut(&mut self.data).ok_or(OrderError::Impossible("it is being run"))?;
        let Some(entry) = data.chunks.get_mut(index as usize) else {
            return Err(OrderError::Impossible("it has no chunk of that index"));
        };
        if bytes.len() as u64 != entry.header.bytes || ChunkId::of(&entry.header, bytes) != entry.id {
            return Err(OrderError::Impossible(
                "the bytes of a chunk are not those that its name stands for",
            ));
        }
        *entry = Arc::new(ChunkEntry::in_memory(entry.id, entry.header.clone(), bytes));
        Ok(())
    }

    /// A chunk whose content is in a file, from this byte on. It is compared with its name when it is read.
    pub fn chunk_in_file(&self, index: u32, path: &Path, offset: u64) -> io::Result<LocatedChunk> {
        let entry = &self.data.chunks[index as usize];
        let stamp = FileStamp::of(&std::fs::metadata(path)?);
        let place = ChunkLocation::File { path: path.into(), offset, stamp };
        Ok(LocatedChunk(Arc::new(ChunkEntry { id: entry.id, header: entry.header.clone(), place })))
    }

    /// A chunk whose content is in a pack of the cache, from this byte on. Whoever has the cache has compared it with its name.
    pub fn chunk_in_pack(&self, index: u32, pack: &MappedPack, offset: u64) -> LocatedChunk {
        let entry = &self.data.chunks[index as usize];
        let place = ChunkLocation::Shared { region: pack.0.clone(), offset };
        LocatedChunk(Arc::new(ChunkEntry { id: entry.id, header: entry.header.clone(), place }))
    }

    /// The same order, for somebody who has the contents of other chunks.
    #[must_use]
    pub fn fork(&self) -> Order {
        let Order { head, function, data, params } = self;
        let data = Arc::new(CutData::clone(data));
        Order { head: head.clone(), function: function.clone(), data, params: Parameters::of(params.whole()) }
    }

    /// Says where the content of a chunk is.
    pub fn set_chunk(&mut self, index: u32, chunk: &LocatedChunk) -> Result<(), OrderError> {
        let data = Arc::get_mut(&mut self.data).ok_or(OrderError::Impossible("it is being run"))?;
        match data.chunks.get_mut(index as usize) {
            Some(entry) if entry.id == chunk.0.id => {
                *entry = chunk.0.clone();
                Ok(())
            }
            _ => Err(OrderError::Impossible("it has no such chunk at that index")),
        }
    }

    /// Runs blocks on this thread, one after the other, and combines what is complete. `cancelled` is polled between
    /// chunks; when it returns true the round stops. States are not at hand here: a function with a state fails.
    pub fn run(
        &self,
        blocks: Range<u32>,
        cancelled: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    ) -> Result<Parts, Failure> {
        let runner = self.runner(1, cancelled).map_err(|fault| Failure::Fault { worker: None, fault })?;
        let open = OpenChunks::new(0);
        for block in blocks {
            let chunk_at = |index: u32| {
                let entry = self.data.chunks.get(index as usize);
                entry.filter(|entry| !entry.is_absent()).cloned()
            };
            runner.run(0, block, &open, &chunk_at)?;
        }
        let (nodes, effort) = runner.collect();
        Ok(Parts { nodes, effort })
    }

    /// What runs the blocks of this round on a worker with so many slots.
    pub(crate) fn runner(&self, slots: u32, cancelled: Option<Cancelled>) -> Result<BlockRunner, Fault> {
        let params = self.params.open(&self.function)?;
        Ok(BlockRunner::new(&self.head, self.function.clone(), params, slots, cancelled))
    }

    /// Parts of one worker in bytes, to be read by [`parts_from_bytes`](Order::parts_from_bytes).
    pub fn parts_to_bytes(&self, parts: &Parts) -> Result<Vec<u8>, Failure> {
        let mut nodes = Vec::new();
        for (node, value) in &parts.nodes {
            let mut payload = Bytes::new();
            caught(|| self.function.encode(value, &mut |encoded| payload = encoded.to_bytes()))?;
            nodes.push((*node, payload.to_vec()));
        }
        Ok(postcard::to_stdvec(&(&parts.effort, nodes)).expect("numbers and bytes can be encoded"))
    }

    /// Reads parts.
    pub fn parts_from_bytes(&self, bytes: &[u8]) -> Result<Parts, Failure> {
        let unreadable = |why: String| Fault::new(FaultKind::Result, why);
        let (effort, nodes): (Effort, Vec<(Node, Vec<u8>)>) =
            postcard::from_bytes(bytes).map_err(|e| unreadable(e.to_string()))?;
        let decode = |(node, payload): (Node, Vec<u8>)| -> Result<(Node, AnyBox), Failure> {
            let mut aligned = AlignedBuf::zeroed(payload.len());
            aligned.as_mut_slice().copy_from_slice(&payload);
            let aligned = aligned.into_bytes();
            let value = caught(|| self.function.decode(aligned))?.map_err(|e| unreadable(e.to_string()))?;
            Ok((node, value))
        };
        let nodes = nodes.into_iter().map(decode).collect::<Result<Vec<_>, Failure>>()?;
        Ok(Parts { nodes, effort })
    }

    /// Whether parts have each of these blocks once, and no others.
    pub fn is_made_of(&self, parts: &Parts, blocks: Range<u32>) -> bool {
        let mut found: Vec<Range<u32>> =
            parts.nodes.iter().map(|(node, _)| self.head.cut.blocks_of(*node)).collect();
        found.sort_by_key(|blocks| (blocks.start, blocks.end));
        let next = |at: u32, found: Range<u32>| (found.start == at && found.end > at).then_some(found.end);
        found.into_iter().try_fold(blocks.start, next) == Some(blocks.end)
    }

    /// The outcome of a round whose blocks were run by the crew's workers, in their order: the value, and what each worker did.
    pub fn outcome(&self, parts: Result<Vec<Parts>, Failure>) -> Outcome {
        match parts {
            Err(failure) => Outcome::of(Err(failure)),
            Ok(mut parts) => {
                let efforts =
                    parts.iter_mut().zip(0..).map(|(part, n)| (n, std::mem::take(&mut part.effort)));
                let efforts = efforts.collect();
                Outcome { efforts, ..Outcome::of(self.combine(parts)) }
            }
        }
    }

    /// Combines parts as far as they are neighbours, in the fixed order of the tree.
    pub fn merge(&self, parts: impl IntoIterator<Item = Parts>) -> Result<Parts, Failure> {
        let mut tree = Tree::new(self.head.cut);
        for (node, value) in parts.into_iter().flat_map(|parts| parts.nodes) {
            self.insert(&mut tree, node, value)?;
        }
        Ok(Parts::of(tree.take()))
    }

    fn insert(&self, tree: &mut Tree<AnyBox>, node: Node, value: AnyBox) -> Result<(), Fault> {
        tree.insert(node, value, |left, right| {
            caught(|| self.function.merge(left, right))?.map_err(|e| merge_fault(&e))
        })
    }

    /// Combines the parts of all blocks, in the fixed order of the tree.
    pub fn combine(&self, parts: impl IntoIterator<Item = Parts>) -> Result<Value, Failure> {
        let mut tree = Tree::new(self.head.cut);
        for (node, value) in parts.into_iter().flat_map(|parts| parts.nodes) {
            self.insert(&mut tree, node, value)?;
        }
        let missing = || Fault::new(FaultKind::Result, "not all blocks have a value".into());
        Ok(Value::Whole(tree.take_root().ok_or_else(missing)?))
    }
}

/// What came of a round.
pub struct Outcome {
    /// Its value, or why there is none.
    pub value: Result<Value, Failure>,
    /// What each worker did, by its position among the crew's workers.
    pub(crate) efforts: Vec<(u32, Effort)>,
    /// Lines that the function printed, by worker.
    pub(crate) lines: Vec<(u32, Line)>,
    pub(crate) traffic: Traffic,
    /// Time spent on the master reading and merging results.
    pub(crate) merging: std::time::Duration,
    /// If the caller's thread ran blocks: microseconds in them, and how many.
    pub(crate) caller: Option<(f64, u32)>,
}

impl Outcome {
    /// The same, with what the crew's worker of each position did, and bytes that travelled: to the workers, and from them.
    #[must_use]
    pub fn with_work(
        self,
        work: &[(u32, WorkDone)],
        bytes_out: u64,
        bytes_in: u64,
        chunks_sent: u64,
    ) -> Outcome {
        let effort = |work: &WorkDone| Effort {
            compute_us: work.compute_us,
            hits: work.cache_hits,
            misses: work.cache_misses,
            restored: work.restored.clone(),
        };
        let efforts = work.iter().map(|(worker, work)| (*worker, effort(work))).collect();
        Outcome { efforts, traffic: Traffic { bytes_out, bytes_in, chunks_sent }, ..self }
    }

    /// An outcome of which nothing but the value is known.
    pub fn of(value: Result<Value, Failure>) -> Outcome {
        let (efforts, lines) = (Vec::new(), Vec::new());
        Outcome {
            value,
            efforts,
            lines,
            traffic: Traffic::default(),
            merging: Default::default(),
            caller: None,
        }
    }
}

/// The value of a round, with its type taken off.
pub enum Value {
    /// All blocks are in it.
    Whole(AnyBox),
    /// Only the first blocks were run; workers should get the rest.
    #[doc(hidden)]
    Begun(Begun),
}

/// The first blocks of a round, run by the thread that asked for it.
pub struct Begun {
    pub(crate) parts: Parts,
    pub(crate) blocks: u32,
    /// How many slots should have the rest.
    pub(crate) slots: u32,
}

/// Why a round has no value.
#[derive(Debug)]
pub enum Failure {
    /// User code or user data is to blame.
    #[non_exhaustive]
    Fault {
        /// The worker, by its position among the crew's workers, where it is known.
        worker: Option<u32>,
        /// What went wrong.
        fault: Fault,
    },
    /// Nobody wants it any more.
    Cancelled,
    /// The engine itself cannot go on.
    Engine(String),
}

impl Failure {
    /// The same; if user code or user data is to blame, at this worker, by its position among the crew's workers.
    #[must_use]
    pub fn at(self, worker: u32) -> Failure {
        match self {
            Failure::Fault { fault, .. } => Failure::Fault { worker: Some(worker), fault },
            other => other,
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Failure::Fault { worker: None, fault }
    }
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Fault(fault) => (*fault).into(),
            Stopped::Cancelled => Failure::Cancelled,
        }
    }
}

/// Bytes and chunks that travelled for a round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) bytes_out: u64,
    pub(crate) bytes_in: u64,
    pub(crate) chunks_sent: u64,
}

#[cfg(test)]
#[expect(unsafe_code, reason = "registering a function puts a static into a section of its own")]
mod tests {
    use super::*;
    use crate::codec::Encoder;
    use crate::{DataSet, Dense, Job, Params};

    #[crate::map]
    fn scaled(scale: &f64, x: &Dense<f64>) -> f64 {
        x.as_slice().iter().map(|v| scale * v).sum()
    }

    fn order(chunks: usize, level: u8) -> Order {
        let data = DataSet::dense((0..12).map(f64::from).collect(), 1).unwrap().partitions(chunks).unwrap();
        let (data, function) = (data.erased().clone(), scaled.erase());
        let mut params = Encoder::new();
        2.0.encode_params(&mut params);
        let head = OrderHead {
            round: RoundId(7),
            function: function.name().into(),
            seed: 3,
            dataset: data.located,
            cut: qjam_core::reduce::Cut::new(chunks as u32, level),
            held: None,
            slots_max: None,
            records: None,
            lineage: None,
        };
        Order { head, function, data, params: Parameters::of(params.to_bytes()) }
    }

    /// What another process would do with the bytes.
    fn run_elsewhere(order: &Order, blocks: Range<u32>) -> Vec<u8> {
        let mut copy = Order::from_bytes(&order.to_bytes()).unwrap();
        for index in copy.chunks_of(blocks.clone()) {
            copy.put_chunk(index, &order.chunk(index).unwrap()).unwrap();
        }
        assert_eq!(copy.to_bytes(), order.to_bytes());
        let parts = copy.run(blocks, None).unwrap();
        copy.parts_to_bytes(&parts).unwrap()
    }

    #[test]
    fn an_order_in_bytes_gives_the_same_value_however_its_blocks_are_shared_out() {
        for level in [0, 1] {
            let order = order(5, level);
            let blocks = order.blocks();
            for middle in 0..=blocks {
                let halves = [run_elsewhere(&order, 0..middle), run_elsewhere(&order, middle..blocks)];
                let parts = halves.map(|bytes| order.parts_from_bytes(&bytes).unwrap());
                let Ok(Value::Whole(value)) = order.combine(parts) else { panic!("no value") };
                assert_eq!(*value.downcast::<f64>().unwrap(), 132.0);
            }
        }
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let order = order(4, 0);
        let mut copy = Order::from_bytes(&order.to_bytes()).unwrap();
        let Err(Failure::Fault { fault, .. }) = copy.run(0..1, None) else {
            panic!("it ran without its chunk")
        };
        assert!(fault.kind == FaultKind::Chunk && fault.message.contains("not here"), "{fault:?}");
        let other = order.chunk(1).unwrap();
        assert!(matches!(copy.put_chunk(0, &other), Err(OrderError::Impossible(_))));
        assert!(matches!(copy.put_chunk(9, &other), Err(OrderError::Impossible(_))));
        let half = order.run(0..2, None).unwrap();
        assert!(
            matches!(order.combine([half]), Err(Failure::Fault { .. })),
            "half of the blocks are no value"
        );
    }

    #[test]
    fn parts_of_other_blocks_than_those_that_were_asked_for_are_told_apart() {
        for level in [0, 1] {
            let order = order(5, level);
            let blocks = order.blocks();
            for (start, end) in
                (0..blocks).flat_map(|start| (start + 1..=blocks).map(move |end| (start, end)))
            {
                let parts = || order.run(start..end, None).unwrap();
                for (first, last) in
                    (0..blocks).flat_map(|first| (first..=blocks).map(move |last| (first, last)))
                {
                    assert_eq!(order.is_made_of(&parts(), first..last), (first, last) == (start, end));
                }
                let twice = Parts::of([parts().nodes, parts().nodes].into_iter().flatten().collect());
                assert!(!order.is_made_of(&twice, start..end), "they have blocks twice");
            }
            let below = Parts::of(vec![(Node { level: 31, index: 7 }, Box::new(1.0) as AnyBox)]);
            assert!(!order.is_made_of(&below, 0..blocks), "it is no node of the tree");
        }
    }

    #[test]
    fn a_crew_that_panics_gives_an_outcome() {
        use crate::engine::crew::{Assignment, Crew, CrewJob, CrewWorker};

        struct Breaks;

        impl Crew for Breaks {
            fn caps(&self) -> crate::engine::Caps {
                crate::engine::Caps::CREW
            }

            fn workers(&self) -> Vec<CrewWorker> {
                Vec::new()
            }

            fn run(&self, _: Assignment) -> Outcome {
                panic!("it broke")
            }
        }

        let (cancelled, open) = (Arc::new(|| false), Arc::new(OpenChunks::new(0)));
        let assignment = Assignment { order: order(1, 0), cancelled, open, recipe: None };
        let outcome = CrewJob { crew: Arc::new(Breaks), assignment }.run(None);
        let Err(Failure::Engine(why)) = outcome.value else { panic!("it has a value") };
        assert!(why.contains("it broke"), "{why}");
    }

    #[test]
    fn bytes_that_are_no_order_are_refused() {
        let good = order(4, 0).to_bytes();
        for cut in 0..good.len() - 8 {
            // What is behind the names is the parameters, which only the function can judge.
            let _ = Order::from_bytes(&good[..cut]).map(|order| order.run(0..1, None).map(|_| ()));
        }
        let mut rng = crate::Rng::keyed(11, 0, 0);
        for _ in 0..5_000 {
            let mut bytes = good.clone();
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u64() as u8;
            let _ = Order::from_bytes(&bytes).map(|order| order.run(0..1, None).map(|_| ()));
        }
        assert!(matches!(Order::from_bytes(b"nonsense"), Err(OrderError::Malformed(_))));
    }
}
