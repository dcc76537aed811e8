//! The ranks as rank 0 sees them: who they are, what each has been told, and how a round is done with them.

use super::gather::Gathering;
use super::introduce::show;
use super::join;
use super::launch::RanksError;
use super::link::{Link, SHORT_BYTES};
use super::pool::Borrowed;
use super::share;
use super::sum::{self, Decision, Summable};
use super::wire::{Command, Failure, Hello, Introduced, MasterId, RoundCommand, encoded, tag};
use super::words::{self, Doing};
use crate::ctx::Cancelled;
use crate::engine::crew::Assignment;
use crate::engine::order::{self as crew, Order, Outcome, Traffic, Value};
use crate::engine::params::Parameters;
use crate::execution::caught;
use crate::execution::recipes::StateRecipe;
use crate::execution::states::{RoundStates, States};
use bytes::Bytes;
use qjam_core::ids::{DataSetId, HoldId};
use qjam_core::job::{Fault, FaultKind};
use qjam_core::reduce::Cut;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Rank 0 looks so often whether another rank has failed while it runs blocks of its own.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Recipes are cut into pieces of so many bytes on their way.
const PIECE_BYTES: usize = 64 << 20;

/// Who a rank is.
#[derive(Clone, Debug)]
pub(crate) struct Rank {
    /// What messages call it: `mpi:2@big`.
    pub(crate) name: String,
    pub(crate) pid: u32,
    /// Whether it is on the machine of rank 0.
    pub(crate) is_here: bool,
    machine: String,
    memory_bytes: u64,
}

/// All ranks.
pub(crate) struct Fleet {
    link: Arc<Link>,
    ranks: Mutex<Vec<Rank>>,
    /// Held for as long as a round takes: ranks do one thing at a time.
    told: Mutex<RankKnowledge>,
    /// What is to be said when it is free.
    notes: Mutex<Vec<Note>>,
    next_master: AtomicU64,
    /// The rank whose results are waited for; 0 if none is.
    awaited: AtomicU32,
    is_over: AtomicBool,
}

/// What the ranks have been told.
#[derive(Default)]
struct RankKnowledge {
    turn: u64,
    /// Whether a round is under way. Whoever finds it so has taken over from one that panicked in the middle of it.
    is_inside: bool,
    /// Chunks that each rank has, by master and data set.
    chunks: HashMap<(MasterId, DataSetId), Vec<HashSet<u32>>>,
    /// Cuts, by their level, of which every rank has all that it needs.
    settled: HashSet<(MasterId, DataSetId, u8)>,
}

/// Something that the ranks are told when they next can be.
enum Note {
    Release(MasterId, HoldId),
    Forget(MasterId, DataSetId),
    End(MasterId),
}

/// A round that the ranks are to do together.
pub(super) struct RankRound<'a> {
    pub(super) master: MasterId,
    pub(super) assignment: Assignment,
    /// The states of rank 0's own partitions.
    pub(super) states: &'a Arc<States>,
    /// Whether the library may add results up.
    pub(super) any_order: bool,
}

impl Fleet {
    pub(super) fn new(link: Arc<Link>) -> Self {
        Fleet {
            link,
            ranks: Mutex::default(),
            told: Mutex::default(),
            notes: Mutex::default(),
            next_master: AtomicU64::new(0),
            awaited: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    pub(crate) fn size(&self) -> u32 {
        self.link.size()
    }

    /// Who they are, once they have been met.
    pub(crate) fn ranks(&self) -> Vec<Rank> {
        self.ranks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lock(&self) -> MutexGuard<'_, RankKnowledge> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn others(&self) -> std::ops::Range<u32> {
        1..self.link.size()
    }

    /// A master begins: meets the ranks, if nobody has, and tells them. `cache_bytes` says how much each may keep open, by
    /// the memory of its machine and the number of ranks there.
    pub(crate) fn begin(&self, cache_bytes: impl Fn(u64, usize) -> u64) -> Result<MasterId, RanksError> {
        let told = self.lock();
        if self.is_over.load(Relaxed) {
            return Err(RanksError::Over);
        }
        self.meet()?;
        self.pass_notes(told);
        let master = self.next_master.fetch_add(1, Relaxed);
        let ranks = self.ranks();
        for (n, rank) in ranks.iter().enumerate().skip(1) {
            let ranks_there = ranks.iter().filter(|other| other.machine == rank.machine).count();
            let begin =
                Command::Begin { master, cache_bytes_max: cache_bytes(rank.memory_bytes, ranks_there) };
            self.link.send(n as u32, tag::COMMAND, &encoded(&begin));
        }
        Ok(master)
    }

    /// Asks all who they are, once.
    fn meet(&self) -> Result<(), RanksError> {
        let mut ranks = self.ranks.lock().unwrap_or_else(PoisonError::into_inner);
        if !ranks.is_empty() {
            return Ok(());
        }
        for rank in self.others() {
            self.link.send(rank, tag::COMMAND, &encoded(&Command::Greet));
        }
        let ours = join::hello();
        let mut met = vec![ours.clone()];
        for rank in self.others() {
            let theirs: Hello = self.reply(rank);
            if theirs.build != ours.build {
                let (host, theirs, ours) = (theirs.host, theirs.build, ours.build);
                return Err(RanksError::OtherBuild { rank, host, theirs, ours });
            }
            met.push(theirs);
        }
        *ranks = met
            .into_iter()
            .enumerate()
            .map(|(n, hello)| Rank {
                name: format!("mpi:{n}@{}", hello.host),
                pid: hello.pid,
                is_here: hello.machine == ours.machine,
                machine: hello.machine,
                memory_bytes: hello.memory_bytes,
            })
            .collect();
        Ok(())
    }

    fn reply<T: for<'a> Deserialize<'a>>(&self, from: u32) -> T {
        let (_, message) = self.link.wait(Some(from), tag::REPLY, || {});
        match postcard::from_bytes(message.as_ref()) {
            Ok(reply) => reply,
            Err(e) => panic!("rank {from} sent a reply that cannot be read: {e}"),
        }
    }

    // ---- what may wait ----------------------------------------------------------------------------------------

    /// Nobody will ask for these states again.
    pub(crate) fn release(&self, master: MasterId, hold: HoldId) {
        self.note(Note::Release(master, hold));
    }

    /// Nobody will ask for this data again.
    pub(crate) fn forget(&self, master: MasterId, dataset: DataSetId) {
        self.note(Note::Forget(master, dataset));
    }

    /// A master is gone.
    pub(crate) fn end(&self, master: MasterId) {
        self.note(Note::End(master));
    }

    /// Tells the ranks now, or before they are told anything else.
    fn note(&self, note: Note) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
        match self.told.try_lock() {
            Ok(told) => self.pass_notes(told),
            Err(TryLockError::Poisoned(told)) => self.pass_notes(told.into_inner()),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    fn pass_notes(&self, mut told: MutexGuard<'_, RankKnowledge>) {
        self.tell_notes(&mut told);
    }

    fn tell_notes(&self, told: &mut RankKnowledge) {
        if self.is_over.load(Relaxed) || told.is_inside {
            return;
        }
        let notes = std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner));
        for note in notes {
            let command = match note {
                Note::Release(master, hold) => Command::Release { master, hold },
                Note::Forget(master, dataset) => {
                    told.chunks.remove(&(master, dataset));
                    told.settled.retain(|(m, d, _)| (*m, *d) != (master, dataset));
                    Command::Forget { master, dataset }
                }
                Note::End(master) => {
                    told.chunks.retain(|(m, _), _| *m != master);
                    told.settled.retain(|(m, _, _)| *m != master);
                    Command::End { master }
                }
            };
            let message = encoded(&command);
            self.others().for_each(|rank| self.link.send(rank, tag::COMMAND, &message));
        }
    }

    // ---- rounds -----------------------------------------------------------------------------------------------

    /// Memory for parameters of this length; `None` when there is none.
    pub(super) fn buffer(&self, bytes: usize) -> Option<Borrowed> {
        self.link.pool.take(bytes as u64)
    }

    /// The ranks that are waited for, now.
    pub(crate) fn awaited(&self) -> Vec<String> {
        let ranks = self.ranks();
        let through = match self.awaited.load(Relaxed) {
            0 => 0..1,
            from => share::through(from, self.size()),
        };
        through.filter_map(|n| ranks.get(n as usize)).map(|rank| rank.name.clone()).collect()
    }

    /// Does a round, from beginning to end.
    pub(super) fn run(&self, asked: RankRound<'_>) -> Outcome {
        let mut told = self.lock();
        self.tell_notes(&mut told);
        assert!(!told.is_inside, "a round was left in the middle, and nobody knows where the ranks are");
        told.is_inside = true;
        let mut out = Traffic::default();
        self.awaited.store(0, Relaxed);
        let done = if self.is_over.load(Relaxed) || (asked.assignment.cancelled)() {
            Err(crew::Failure::Cancelled)
        } else {
            self.prepare(&mut told, &asked, &mut out)
                .map_err(|(worker, fault)| crew::Failure::Fault { worker, fault })
        };
        let outcome = match done {
            Ok(recipe) => self.round(&mut told, asked, recipe, out),
            Err(failed) => Outcome { traffic: out, ..Outcome::of(Err(failed)) },
        };
        told.is_inside = false;
        self.tell_notes(&mut told);
        words::doing(Doing::Program);
        outcome
    }

    /// Sees to it that everybody has the chunks and knows how to make the states. Gives the recipe for rank 0's own.
    fn prepare(
        &self,
        told: &mut RankKnowledge,
        asked: &RankRound<'_>,
        out: &mut Traffic,
    ) -> Result<Option<StateRecipe>, (Option<u32>, Fault)> {
        let order = &asked.assignment.order;
        let (cut, size) = (order.head.cut, self.size());
        if share::is_shared(cut.blocks(), size) {
            let key = (asked.master, order.data.located, cut.level);
            if !told.settled.contains(&key) {
                words::doing(Doing::Data);
                for rank in self.others() {
                    self.introduce(told, asked, rank, out)
                        .map_err(|why| (Some(rank), Fault::new(FaultKind::Chunk, why)))?;
                }
                told.settled.insert(key);
            }
        }
        let (Some(held), Some(recipe)) = (order.head.held, &asked.assignment.recipe) else {
            return Ok(None);
        };
        let question = Command::Behind { master: asked.master, round: order.round(), held, cut };
        let question = encoded(&question);
        for rank in self.others() {
            self.link.send(rank, tag::COMMAND, &question);
            let behind: Vec<u32> = self.reply(rank);
            if behind.is_empty() {
                continue;
            }
            let (pieces, bytes) = recipe.only(&behind).to_pieces(PIECE_BYTES);
            self.link.send(rank, tag::REPLY, &bytes.to_le_bytes());
            pieces.iter().for_each(|piece| self.link.send_long(rank, piece));
            out.bytes_out += bytes;
        }
        let own = share::share(cut.blocks(), size, 0);
        Ok(Some(recipe.only(&asked.states.behind(held, own))))
    }

    /// Has a rank find the chunks of its blocks, and sends it those that it cannot find.
    fn introduce(
        &self,
        told: &mut RankKnowledge,
        asked: &RankRound<'_>,
        rank: u32,
        out: &mut Traffic,
    ) -> Result<(), String> {
        let order = &asked.assignment.order;
        let (cut, data) = (order.head.cut, &order.data);
        let size = self.size() as usize;
        let has =
            told.chunks.entry((asked.master, data.located)).or_insert_with(|| vec![HashSet::new(); size]);
        let has = &mut has[rank as usize];
        let blocks = share::share(cut.blocks(), self.size(), rank);
        let chunks = blocks.flat_map(|block| cut.chunks_of(cut.node(block)));
        let new: Vec<u32> = chunks.filter(|index| !has.contains(index)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let one = |index: &u32| {
            let entry = &data.chunks[*index as usize];
            Introduced { index: *index, id: entry.id, header: entry.header.clone(), place: show(entry) }
        };
        let command = Command::Introduce {
            master: asked.master,
            dataset: data.located,
            machine: join::machine().to_owned(),
            chunks: new.iter().map(one).collect(),
        };
        let message = encoded(&command);
        out.bytes_out += message.len() as u64;
        self.link.send(rank, tag::COMMAND, &message);
        let missing: Result<Vec<u32>, String> = self.reply(rank);
        let missing = missing?;
        let mut trouble = None;
        for index in &missing {
            let entry = &data.chunks[*index as usize];
            // What is announced must come: where a file has changed since, something comes in its place and is not taken.
            let bytes = entry.load().unwrap_or_else(|e| {
                trouble.get_or_insert_with(|| e.to_string());
                Bytes::from(vec![0; entry.header.bytes as usize])
            });
            self.link.send_long(rank, &bytes);
            out.bytes_out += bytes.len() as u64;
            out.chunks_sent += 1;
        }
        if !missing.is_empty() {
            let taken: Result<(), String> = self.reply(rank);
            trouble.map_or(taken, Err)?;
        }
        has.extend(new);
        Ok(())
    }

    fn round(
        &self,
        told: &mut RankKnowledge,
        asked: RankRound<'_>,
        recipe: Option<StateRecipe>,
        mut out: Traffic,
    ) -> Outcome {
        let RankRound { master, assignment, states, any_order } = asked;
        let Assignment { mut order, cancelled, open, .. } = assignment;
        let (cut, round) = (order.head.cut, order.round());
        let is_shared = share::is_shared(cut.blocks(), self.size());
        told.turn += 1;
        let turn = told.turn;
        words::round(round.0, order.function.name());
        let params = self.send_round(master, turn, any_order && is_shared, &mut order, &mut out);
        let watch = Watch::new(self.link.clone(), turn, cancelled);
        let mut gathering = Gathering::new(round, cut, any_order && is_shared);
        order.params = Parameters::of(params);
        let asks = watch.clone();
        match order.runner(1, Some(Arc::new(move || asks.is_over()))) {
            Err(fault) => gathering.fail(Failure::Fault(0, fault)),
            Ok(runner) => {
                let blocks = share::share(cut.blocks(), self.size(), 0);
                let held = order.head.held.map(|task| {
                    let held = RoundStates::new(task, states.clone());
                    held.give(blocks.len() as u32);
                    if let Some(recipe) = recipe {
                        held.take_in(&Arc::new(recipe));
                    }
                    held
                });
                let runner = runner.holding(held);
                let chunk_at = |index: u32| order.data.chunks.get(index as usize).cloned();
                gathering.run(0, &runner, blocks, &open, &chunk_at);
                let _ = caught(|| drop((runner, order)));
            }
        }
        if is_shared {
            if gathering.failure.is_some() {
                watch.call_off();
            }
            let mut look = |from| {
                self.awaited.store(from, Relaxed);
                if watch.is_over() {
                    watch.call_off();
                }
            };
            gathering.gather(&self.link, &mut look);
            if any_order {
                self.decide(&mut gathering, cut, look);
            }
        }
        outcome_of(gathering, out)
    }

    /// Tells the other ranks of a round and sends them its parameters, if they take part. Gives the parameters back.
    fn send_round(
        &self,
        master: MasterId,
        turn: u64,
        any_order: bool,
        order: &mut Order,
        out: &mut Traffic,
    ) -> Bytes {
        let Some(mut params) = order.params.buffer() else { return order.params.whole() };
        if !share::is_shared(order.blocks(), self.size()) {
            return params.into_bytes();
        }
        let params_bytes = params.as_slice().len();
        let is_short = params_bytes <= SHORT_BYTES;
        let command = RoundCommand {
            master,
            turn,
            order: order.head.clone(),
            params_bytes: params_bytes as u64,
            is_short,
            any_order,
        };
        let mut message = encoded(&Command::Round(command));
        if is_short {
            message.extend_from_slice(params.as_slice());
        }
        for rank in share::below(0, self.size()) {
            self.link.send(rank, tag::COMMAND, &message);
        }
        if !is_short {
            self.link.broadcast(params.as_mut_slice());
        }
        let copies = u64::from(self.size() - 1);
        out.bytes_out += copies * message.len() as u64;
        out.bytes_out += if is_short { 0 } else { copies * params_bytes as u64 };
        params.into_bytes()
    }

    /// Has the library add results up, if it can.
    fn decide(&self, gathering: &mut Gathering, cut: Cut, look: impl FnMut(u32)) {
        let decision = match (&gathering.failure, gathering.summable) {
            (Some(_), _) => Decision::Drop,
            (None, Summable::Length(length)) => Decision::Add(length),
            (None, _) => Decision::Gather,
        };
        sum::tell(&self.link, decision);
        match decision {
            Decision::Add(length) => {
                let start = Instant::now();
                let sum = gathering.add(&self.link, length);
                gathering.came_bytes += u64::from(self.size() - 1) * 8 * length;
                gathering.merging += start.elapsed();
                gathering.set_root(cut, Box::new(sum));
            }
            Decision::Gather => {
                gathering.stays = false;
                gathering.gather(&self.link, look);
            }
            Decision::Drop => {}
        }
    }

    // ---- the end ----------------------------------------------------------------------------------------------

    /// Sends everybody home, if they can be had within this time. Says whether they could.
    pub(super) fn leave(&self, within: Duration) -> bool {
        let end = Instant::now() + within;
        let told = loop {
            match self.told.try_lock() {
                Ok(told) => break told,
                Err(TryLockError::Poisoned(told)) => break told.into_inner(),
                Err(TryLockError::WouldBlock) if Instant::now() >= end => return false,
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        if told.is_inside {
            return false;
        }
        if self.is_over.swap(true, Relaxed) {
            return true;
        }
        let message = encoded(&Command::Leave);
        self.others().for_each(|rank| self.link.send(rank, tag::COMMAND, &message));
        drop(told);
        words::doing(Doing::Nothing);
        self.link.leave();
        true
    }

    pub(super) fn abort(&self, code: i32) -> ! {
        self.link.abort(code)
    }
}

/// What the master is told of a round.
fn outcome_of(mut gathering: Gathering, mut traffic: Traffic) -> Outcome {
    let efforts = std::mem::take(&mut gathering.efforts);
    let lines = std::mem::take(&mut gathering.lines);
    // Values that went from one rank to another have travelled, too.
    let between = efforts.iter().filter(|effort| effort.rank > 0).map(|effort| effort.sent_bytes).sum();
    traffic.bytes_in = gathering.came_bytes.max(between);
    let merging = gathering.merging;
    let value = gathering.into_value().map(Value::Whole).map_err(|failure| match failure {
        // As on other engines: parameters that cannot be read are nobody's fault in particular.
        Failure::Fault(_, fault) if fault.kind == FaultKind::Params => fault.into(),
        Failure::Fault(rank, fault) => crew::Failure::Fault { worker: Some(rank), fault },
        Failure::Cancelled => crew::Failure::Cancelled,
    });
    Outcome {
        efforts: efforts.into_iter().map(|effort| (effort.rank, effort.effort)).collect(),
        lines: lines.into_iter().map(|line| (line.rank, line.line)).collect(),
        traffic,
        merging,
        ..Outcome::of(value)
    }
}

/// Whether a round still is wanted, for rank 0 and those it tells.
#[derive(Clone)]
struct Watch(Arc<Watched>);

struct Watched {
    link: Arc<Link>,
    turn: u64,
    cancelled: Cancelled,
    /// Another rank has said that it has failed, or it was cancelled.
    is_over: AtomicBool,
    is_called_off: AtomicBool,
    looked: Mutex<Instant>,
}

impl Watch {
    fn new(link: Arc<Link>, turn: u64, cancelled: Cancelled) -> Self {
        Watch(Arc::new(Watched {
            link,
            turn,
            cancelled,
            is_over: AtomicBool::new(false),
            is_called_off: AtomicBool::new(false),
            looked: Mutex::new(Instant::now()),
        }))
    }

    fn is_over(&self) -> bool {
        let here = &self.0;
        if here.is_over.load(Relaxed) || (here.cancelled)() {
            here.is_over.store(true, Relaxed);
            return true;
        }
        {
            let mut looked = here.looked.lock().unwrap_or_else(PoisonError::into_inner);
            if looked.elapsed() < LOOK_EVERY {
                return false;
            }
            *looked = Instant::now();
        }
        while let Some((_, message)) = here.link.next_unless_busy(None, tag::FAILED) {
            // Those of earlier rounds may have been overtaken by results.
            if message.as_ref() == here.turn.to_le_bytes() {
                here.is_over.store(true, Relaxed);
            }
        }
        here.is_over.load(Relaxed)
    }

    /// Tells the others, once, that nobody wants it any more.
    fn call_off(&self) {
        let here = &self.0;
        if !here.is_called_off.swap(true, Relaxed) {
            let turn = here.turn.to_le_bytes();
            (1..here.link.size()).for_each(|rank| here.link.send(rank, tag::CANCEL, &turn));
        }
    }
}
