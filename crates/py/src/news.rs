//! What the masters' loops have to tell: lines that user code printed, and waits that take long.
//!
//! The loop must not wait for the interpreter, so it only puts things down here. Python takes them when it is safe: while
//! it waits for a round, and after each round.

use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// More than this is not kept for somebody who never looks.
const KEPT_MAX: usize = 20_000;

struct Notice {
    kind: &'static str,
    worker: String,
    text: String,
    /// The level that it was logged with.
    level: Option<u16>,
}

#[derive(Default)]
struct Notices {
    told: VecDeque<Notice>,
    dropped: usize,
}

static KEPT: Mutex<Notices> = Mutex::new(Notices { told: VecDeque::new(), dropped: 0 });
static ANY: AtomicBool = AtomicBool::new(false);

/// A line that user code printed or logged on a worker.
pub(crate) fn line(worker: &str, text: &str, level: Option<u16>) {
    put(Notice { kind: "line", worker: worker.into(), text: text.into(), level });
}

/// A wait that takes long.
pub(crate) fn wait(text: String) {
    put(Notice { kind: "wait", worker: String::new(), text, level: None });
}

fn put(told: Notice) {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.told.push_back(told);
    if kept.told.len() > KEPT_MAX {
        kept.told.pop_front();
        kept.dropped += 1;
    }
    ANY.store(true, Relaxed);
}

/// Whether there is anything.
#[pyfunction]
pub(crate) fn has_news() -> bool {
    ANY.load(Relaxed)
}

/// All of it, as (`line` or `wait`, worker, text, level), oldest first.
#[pyfunction]
pub(crate) fn take_news() -> Vec<(&'static str, String, String, Option<u16>)> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    ANY.store(false, Relaxed);
    let Notices { told, dropped } = std::mem::take(&mut *kept);
    drop(kept);
    let lost = (dropped > 0)
        .then(|| ("wait", String::new(), format!("{dropped} lines of workers were not kept"), None));
    lost.into_iter().chain(told.into_iter().map(|t| (t.kind, t.worker, t.text, t.level))).collect()
}
