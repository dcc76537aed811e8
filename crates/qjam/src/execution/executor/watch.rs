//! The thread that gives signs of life while blocks run, and listens while the main thread is inside a long one.

use super::{Common, Executor, ExecutorError};
use crate::execution::give_up;
use qjam_core::wire::ToMaster;
use qjam_core::wire::message::State;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often it is looked whether a block runs for long.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The same while blocks come and go: waking up costs, and short blocks need nobody to listen.
const LOOK_SELDOM: Duration = Duration::from_millis(50);
/// How often a sign of life is given.
const BEAT_EVERY: Duration = Duration::from_secs(1);

/// Starts the thread that says every second that this process lives while a block runs, and listens while the only
/// thread that could is inside a long one.
pub(super) fn start_watch(common: Arc<Common>, executor: Option<Arc<Mutex<Executor>>>) -> io::Result<()> {
    let here = common.clone();
    let watch = std::thread::Builder::new().name("qjam-watch".into()).spawn(move || {
        if let Err(e) = watch(&common, executor.as_deref()) {
            std::process::exit(give_up("executor", &e));
        }
    })?;
    let _ = here.watch.set(watch.thread().clone());
    Ok(())
}

fn watch(common: &Common, executor: Option<&Mutex<Executor>>) -> Result<(), ExecutorError> {
    let (mut seen, mut said) = (0, Instant::now());
    loop {
        let begun = common.begun.load(SeqCst);
        if common.busy.load(SeqCst) == 0 && begun == seen {
            common.dozes.store(true, SeqCst);
            // Whoever begins a block counts it first and then looks whether this thread sleeps.
            if common.begun.load(SeqCst) == seen {
                std::thread::park();
            }
            common.dozes.store(false, SeqCst);
            said = Instant::now();
            continue;
        }
        let is_long = begun == seen;
        seen = begun;
        let heard = match executor.filter(|_| is_long) {
            Some(_) => {
                let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY.as_nanos() as i64 };
                let mut fds = [PollFd::new(&common.socket, PollFlags::IN)];
                poll(&mut fds, Some(&timeout)).unwrap_or(0) > 0
            }
            None => {
                std::thread::sleep(LOOK_SELDOM);
                false
            }
        };
        let beats = said.elapsed() >= BEAT_EVERY;
        // If somebody is at it, the main thread is awake and reads itself.
        if let Some(executor) = executor.filter(|_| heard || beats && is_long)
            && let Ok(mut here) = executor.try_lock()
            && here.is_inside
        {
            here.listen()?;
        } else if heard {
            std::thread::sleep(LOOK_EVERY);
        }
        if beats && common.busy.load(Relaxed) > 0 {
            said = Instant::now();
            common.send(&ToMaster::State(State::Running), &[], &[])?;
        }
    }
}
