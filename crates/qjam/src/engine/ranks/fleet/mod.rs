//! The ranks as rank 0 sees them: who they are, and what each has been told. How a round is done with them is in [`round`].

mod cancelling;
mod round;

pub(super) use round::RankRound;

use super::launch::RanksError;
use super::link::Link;
use super::pool::Borrowed;
use super::wire::{Command, Hello, MasterId, encoded, tag};
use super::words::{self, Doing};
use super::{join, share};
use qjam_core::ids::{DataSetId, HoldId};
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};
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
