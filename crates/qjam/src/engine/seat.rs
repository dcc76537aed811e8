//! Engines under the scheduler: a seat is a place where a worker can be.
//!
//! The scheduler decides who runs what; a [`SeatEngine`] carries that out for one seat: it starts a worker, gives it blocks,
//! passes notices on, and ends it. What the worker has to say comes out of [`SeatEngine::next`], one [`Said`] at a time, and
//! the master's loop asks for it after every call. A seat outlives its workers: each incarnation has a [`WorkerId`] of its
//! own, and what comes from an earlier one is dropped here or ignored by the scheduler.

use super::caps::Caps;
use super::order::{Order, Traffic};
use super::poller::Poller;
use super::queue::{EventQueue, SeatEvent};
use super::settings::WorkerSettings;
use super::spawner::Spawner;
use super::ssh::StartFailure;
use crate::arenas::OwnArenas;
use crate::chunk::ChunkId;
use crate::dataset::CutData;
use crate::execution::chunks::OpenChunks;
use crate::execution::recipes::StateRecipe;
use crate::execution::round::Effort;
use crate::function::AnyBox;
use bytes::Bytes;
use qjam_core::ids::{Block, DataSetId, HoldId, RoundId, WorkerId};
use qjam_core::job::{Cause, Death, Fault};
use qjam_core::lease::{BlockRange, Returned};
use qjam_core::reduce::Node;
use qjam_core::time::Time;
use qjam_core::wire::host::Line;
use rustix::event::epoll::EventFlags;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One seat of an engine.
pub(crate) trait SeatEngine: Send {
    /// What a worker here can do.
    fn caps(&self) -> Caps;

    /// What tells the machine of this seat from others; `None` for the master's own.
    fn machine(&self) -> Option<String> {
        None
    }

    /// Starts a worker. Answered by [`Said::Joined`] or [`Said::Lost`].
    fn start(&mut self, worker: WorkerId, cx: &mut SeatContext<'_>);

    /// Gives blocks to a worker.
    fn assign(&mut self, worker: WorkerId, share: Share<'_>, cx: &mut SeatContext<'_>);

    /// Tells a worker something.
    fn notify(&mut self, worker: WorkerId, notice: Notice, cx: &mut SeatContext<'_>);

    /// Tells whoever is here that something is no longer needed.
    fn announce(&mut self, gone: Gone, cx: &mut SeatContext<'_>);

    /// Gives a worker these chunks of a data set, which it asked for.
    fn send_chunks(
        &mut self,
        worker: WorkerId,
        data: &Arc<CutData>,
        indices: &[u32],
        cx: &mut SeatContext<'_>,
    );

    /// Another thread has done something for this seat.
    fn on_event(&mut self, worker: WorkerId, event: SeatEvent, cx: &mut SeatContext<'_>);

    /// One of this seat's descriptors is ready: the one that was registered under this number.
    fn on_ready(&mut self, worker: WorkerId, descriptor: u64, flags: EventFlags, cx: &mut SeatContext<'_>);

    /// One of this seat's output pipes has something.
    fn read_output(&mut self, _worker: WorkerId, _descriptor: u64, _cx: &mut SeatContext<'_>) {}

    /// A round is over: what was printed without an end of line is a line.
    fn end_lines(&mut self) {}

    /// Lines that were read and not said yet.
    fn take_lines(&mut self) -> Vec<(WorkerId, Line)> {
        Vec::new()
    }

    /// The next thing that a worker, or the seat itself, has to say.
    fn next(&mut self, cx: &mut SeatContext<'_>) -> Option<(WorkerId, Said)>;

    /// Ends a worker and says how it ended. `cause` is the master's, if it was its decision.
    fn end(&mut self, worker: WorkerId, cause: Option<Cause>, cx: &mut SeatContext<'_>) -> Death;

    /// Ends a worker that broke the protocol. Answered by [`Said::Lost`].
    fn expel(&mut self, worker: WorkerId, why: String, cx: &mut SeatContext<'_>);

    /// The seat is removed: whoever is here ends.
    fn close(&mut self, cx: &mut SeatContext<'_>);

    /// Whether [`tick`](SeatEngine::tick) should be called every half second.
    fn wants_ticks(&self) -> bool {
        false
    }

    /// Some time has passed.
    fn tick(&mut self, _cx: &mut SeatContext<'_>) {}

    /// The process that is here: its number on this machine, and its number on another.
    fn pids(&self) -> (Option<u32>, Option<u32>) {
        (None, None)
    }

    /// The worker that is here, if it can be told something.
    fn occupant(&self) -> Option<WorkerId>;
}

/// What a seat may use of the master.
pub(crate) struct SeatContext<'a> {
    /// When the loop began: the zero of its clock.
    pub(crate) started: Instant,
    pub(crate) poller: &'a Poller,
    pub(crate) queue: &'a Arc<EventQueue>,
    pub(crate) spawner: &'a Spawner,
    pub(crate) settings: &'a WorkerSettings,
    /// Chunks that are open in this process.
    pub(crate) open: &'a Arc<OpenChunks>,
    pub(crate) neighbours: Neighbours,
    /// In `on_event`: whether the scheduler waits for the worker in question to come up.
    pub(crate) is_starting: bool,
    /// What travelled during this call.
    pub(crate) traffic: Traffic,
}

impl SeatContext<'_> {
    /// The time by the loop's clock. It is read only when a seat asks: most calls do not.
    pub(crate) fn now(&self) -> Time {
        Time(self.started.elapsed().as_micros() as u64)
    }
}

/// Who else is on the same machine as a seat.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Neighbours {
    /// Workers on the seat's machine, itself included.
    pub(crate) workers: usize,
    /// Their slots, if the machine is the master's own.
    pub(crate) slots: u32,
    /// Memory of the master's machine.
    pub(crate) memory_bytes: u64,
}

/// A worker's share of a round.
pub(crate) struct Share<'a> {
    pub(crate) order: &'a mut Order,
    /// Its blocks.
    pub(crate) ranges: Vec<BlockRange>,
    /// Shared memory for parameters.
    pub(crate) arenas: &'a mut OwnArenas,
    /// Shared with every result that still lies in a worker's memory.
    pub(crate) views: &'a Arc<()>,
    /// How many threads take part, if not all.
    pub(crate) threads_max: Option<u32>,
    /// How long the worker should look for the next round before it sleeps, once it is done.
    pub(crate) awake: Duration,
}

/// Something that a worker is told.
pub(crate) enum Notice {
    /// Say something.
    Ping,
    /// A round is over. A patient notice lets blocks that are being run finish.
    Cancel { round: RoundId, dataset: DataSetId, is_patient: bool },
    /// Give back so many blocks that were not started.
    Recall { round: RoundId, blocks: u32 },
    /// Another worker has this block, too: deliver it by itself.
    Apart { round: RoundId, block: Block },
    /// How to make states that it lacks.
    Recipe { round: RoundId, question: u32, recipe: Arc<StateRecipe> },
    /// Results in shared memory that the master has read: that memory may be written again.
    ReuseArenas,
    /// Look for an interpreter that can run the master's Python functions.
    FindInterpreter,
}

/// Something that no worker will be asked about again.
#[derive(Clone, Copy)]
pub(crate) enum Gone {
    Round(RoundId),
    DataSet(DataSetId),
    Hold(HoldId),
}

/// Something that a worker said, or that its seat found out.
pub(crate) enum Said {
    /// It is through the handshake.
    Joined { slots: u32 },
    /// It is no more.
    Lost(Death),
    /// Its host could not be reached. [`Said::Lost`] follows.
    Unreachable(Box<StartFailure>),
    /// A sign of life.
    Spoke,
    /// It lacks chunks. If `lasting` it will not ask again, even if the round is over by now.
    Missing { round: RoundId, chunks: Vec<ChunkId>, lasting: bool },
    /// It lacks states, or only the mail of its partitions.
    Behind { round: RoundId, question: u32, partitions: Vec<u32>, only_mail: bool },
    /// An interpreter of it ended, and was replaced.
    InterpreterLost { round: RoundId, death: Death },
    /// What it did for the parts that follow, and how many bytes these took on their way.
    Effort { round: RoundId, blocks: u32, effort: Effort, bytes: u64 },
    /// The root of a subtree.
    Part { round: RoundId, node: Node, ranges: Vec<BlockRange>, value: PartValue },
    /// All parts of one delivery have been said; results lie in shared memory.
    Delivered { round: RoundId },
    /// User code or user data is to blame; `is_ours` if the master itself found it.
    Faulted { round: RoundId, fault: Box<Fault>, is_ours: bool },
    /// It gives blocks back.
    Returned { round: RoundId, returned: Returned },
    /// It has dropped a round.
    LetGo { round: RoundId },
    /// User code printed a line.
    Line(Line),
    /// So many lines were not passed on.
    LinesDropped(u64),
    /// What was found of Python there.
    Interpreter(Result<Vec<u8>, String>),
    /// The master cannot read a chunk of its own.
    Unreadable { dataset: DataSetId, index: u32, why: String },
    /// A host cannot keep a chunk.
    Refused { chunk: ChunkId, why: String },
    /// Something of its own that the user should know.
    Trouble(String),
}

/// The value of a part.
pub(crate) enum PartValue {
    /// As a value.
    Ready(AnyBox),
    /// Encoded.
    Encoded(Bytes),
}
