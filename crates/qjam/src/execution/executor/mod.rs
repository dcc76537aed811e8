//! The executor: a process that serves its master over a socket until that is closed.
//!
//! With one slot the main thread does everything: read a task, run its blocks one after the other, send. Between
//! two blocks it looks whether anything came. With more slots the main thread reads and sends, and threads run.
//!
//! A second, small thread sends a sign of life every second while a block runs, since the main thread cannot. When a
//! block runs for long it also listens in its place: blocks that wait behind it can be given back, and finished work
//! goes out. It sleeps while nothing is run, and is no party to short rounds.
//!
//! The process dies with its master whatever happens: the kernel sends it SIGKILL when the master's thread that started
//! it ends, and the socket's end is its own end.
//!
//! ```text
//!   start ─▶ the loop, here ── messages ─▶ receiving ─▶ Worker (pure) ── actions ─▶ running ─▶ delivering
//!                 watch: signs of life, and the loop while its thread is inside a block
//! ```

mod delivering;
mod receiving;
mod running;
mod start;
mod watch;

pub(super) use start::serve;

use super::chunks::OpenChunks;
use super::data::{Entries, WorkerData};
use super::own_limit::OwnLimit;
use super::recipes::Arriving;
use super::round::{BlockRunner, Effort, Stopped};
use super::slots::Slots;
use super::states::States;
use crate::arenas::{OwnArenas, PeerArenas};
use crate::function::AnyBox;
use crate::store::Page;
use crate::transport::{Attachment, Inbox, Read, send_all};
use qjam_core::ids::{Block, RoundId};
use qjam_core::job::Activity;
use qjam_core::reduce::Node;
use qjam_core::time::Time;
use qjam_core::wire::{ToMaster, ToWorker};
use qjam_core::worker::{Action, Event, Worker};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::RecvFlags;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::Instant;
use thiserror::Error;

/// Why an executor gives up. The master sees the text among its last lines.
#[derive(Debug, Error)]
pub(in crate::execution) enum ExecutorError {
    #[error("started with `{0}`, which this version does not understand")]
    Asked(String),
    #[error("{step}: {source}")]
    Io { step: &'static str, source: io::Error },
    #[error("the master broke the protocol: {0}")]
    Protocol(String),
}

fn io_at(step: &'static str) -> impl Fn(io::Error) -> ExecutorError {
    move |source| ExecutorError::Io { step, source }
}

/// What slots share with the main thread.
struct Common {
    socket: OwnedFd,
    /// Held while a frame is sent, so that the heartbeat does not fall into a result.
    sending: Mutex<()>,
    page: Page,
    open: OpenChunks,
    /// Blocks being run.
    busy: AtomicU32,
    /// Blocks begun so far: what has not changed between two looks is the same block.
    begun: AtomicU64,
    /// Whether the thread that watches sleeps until a block is begun; and which it is.
    dozes: AtomicBool,
    watch: OnceLock<Thread>,
    /// Blocks that threads have finished, and the eventfd that says so.
    done: Mutex<Vec<Done>>,
    bell: OwnedFd,
}

struct Done {
    round: RoundId,
    block: Block,
    result: Result<(), Stopped>,
}

impl Common {
    /// Writes down what the main thread is about to do, unless threads are in user code: a process that ends then most likely
    /// ends by that.
    fn now(&self, activity: Activity) {
        if self.busy.load(Relaxed) == 0 {
            self.page.set_activity(activity);
        }
    }

    fn send(&self, message: &ToMaster, tail: &[u8], attached: &[Attachment]) -> Result<(), ExecutorError> {
        let _turn = lock(&self.sending);
        send_all(self.socket.as_fd(), message, tail, attached).map_err(io_at("sending to the master"))?;
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Executor {
    common: Arc<Common>,
    slots: u32,
    /// Threads, when there is more than one slot.
    threads: Option<Slots>,
    inbox: Inbox,
    machine: Worker,
    started: Instant,
    todo: VecDeque<Action>,
    rounds: HashMap<RoundId, (Arc<BlockRunner>, Entries)>,
    data: WorkerData,
    states: Arc<States>,
    /// Recipes of which not all is here; by round and question.
    arriving: HashMap<(RoundId, u32), Arriving>,
    questions: u32,
    theirs: PeerArenas,
    ours: OwnArenas,
    memory: OwnLimit,
    /// Which of our arenas the master has been introduced to.
    introduced: HashSet<u64>,
    /// Collected, to be sent.
    collected: HashMap<RoundId, (Vec<(Node, AnyBox)>, Effort)>,
    /// Whether the main thread is in user code.
    is_inside: bool,
    stopping: bool,
}

impl Executor {
    fn serve(shared: &Mutex<Executor>) -> Result<(), ExecutorError> {
        let mut here = lock(shared);
        loop {
            while let Some(incoming) =
                here.inbox.next(ToWorker::from_frame).map_err(|e| ExecutorError::Protocol(e.to_string()))?
            {
                here.common.now(Activity::Receiving);
                here.on_message(incoming.message, &incoming.tail)?;
                while let Some((round, block)) = here.work()? {
                    // Not held while user code runs, so that somebody else can listen.
                    let job = here.enter(round, block);
                    drop(here);
                    let result = job(0);
                    here = lock(shared);
                    here.leave(Done { round, block, result })?;
                }
            }
            if here.stopping {
                return Ok(());
            }
            let is_idle = here.common.busy.load(Relaxed) == 0;
            here.common.page.set_activity(if is_idle { Activity::Idle } else { Activity::Mapping });
            if !here.wait_for_more()? {
                return Ok(());
            }
        }
    }

    /// Reads and answers while the main thread is inside a block.
    fn listen(&mut self) -> Result<(), ExecutorError> {
        if self.read(RecvFlags::DONTWAIT)? == Read::Ended {
            std::process::exit(0);
        }
        self.take_messages()?;
        // Finished work may have waited for long enough.
        self.tell(Event::Ticked);
        let run = self.work()?;
        assert!(run.is_none(), "the only slot is taken");
        self.common.page.set_activity(Activity::Mapping);
        Ok(())
    }

    fn take_messages(&mut self) -> Result<(), ExecutorError> {
        // First what was asked for together with the running block: the next message may bring a round that is to be dropped.
        let run = self.work()?;
        assert!(run.is_none(), "the only slot is taken");
        while let Some(incoming) =
            self.inbox.next(ToWorker::from_frame).map_err(|e| ExecutorError::Protocol(e.to_string()))?
        {
            self.on_message(incoming.message, &incoming.tail)?;
            // One message at a time: what one of them has dropped, the next may bring again.
            let run = self.work()?;
            assert!(run.is_none(), "the only slot is taken");
        }
        Ok(())
    }

    /// Looks for a message without sleeping, for as long as the master wants. Says whether one came, or the end of the connection.
    /// An executor with several slots also waits for the ends of blocks, and sleeps.
    fn stays_awake(&mut self) -> Result<Read, ExecutorError> {
        let awake = self.common.page.awake();
        if awake.is_zero() || self.threads.is_some() {
            return Ok(Read::Nothing);
        }
        let begun = Instant::now();
        loop {
            let read = self.read(RecvFlags::DONTWAIT)?;
            if read != Read::Nothing || begun.elapsed() >= awake {
                return Ok(read);
            }
            std::hint::spin_loop();
        }
    }

    /// Blocks until a message or the end of a block comes. Says whether the master is still there.
    fn wait_for_more(&mut self) -> Result<bool, ExecutorError> {
        match self.stays_awake()? {
            Read::Some => return Ok(true),
            Read::Ended => return Ok(false),
            Read::Nothing => {}
        }
        if self.threads.is_some() {
            let mut fds = [
                PollFd::new(&self.common.socket, PollFlags::IN),
                PollFd::new(&self.common.bell, PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(io_at("waiting for work")(e.into())),
            }
            let rung = !fds[1].revents().is_empty();
            let heard = !fds[0].revents().is_empty();
            if rung {
                self.take_done()?;
            }
            if !heard {
                return Ok(true);
            }
        }
        self.read(RecvFlags::empty()).map(|read| read != Read::Ended)
    }

    fn read(&mut self, flags: RecvFlags) -> Result<Read, ExecutorError> {
        self.inbox.read(self.common.socket.as_fd(), flags).map_err(io_at("reading from the master"))
    }

    fn now(&self) -> Time {
        Time(self.started.elapsed().as_micros() as u64)
    }

    fn tell(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.machine.handle(self.now(), event, &mut actions);
        self.todo.extend(actions);
    }
}
