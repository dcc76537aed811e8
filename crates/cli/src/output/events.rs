//! What a command tells programs while it works: with `--events`, one JSON object in each line of standard error.
//!
//! Comes in: what a command does, from its own code, and the remarks and the error that [`output`](super) would print.
//! Goes out: objects that have at least a name, `event`. Standard output has what it has without them. Until [`begin`], nothing is told.

use super::{error_line, one_line, waiting};
use qjam::{Builder, Master};
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process tells events. There is one standard error.
static ARE_TOLD: AtomicBool = AtomicBool::new(false);

/// From here on events are told, if that is wanted.
pub(crate) fn begin(are_wanted: bool) {
    ARE_TOLD.store(are_wanted, Ordering::Relaxed);
}

/// Whether events are told, and so nothing else on standard error.
pub(crate) fn are_told() -> bool {
    ARE_TOLD.load(Ordering::Relaxed)
}

/// Tells an event, which is made only then.
pub(crate) fn tell(event: impl FnOnce() -> Value) {
    if are_told()
        && let Ok(line) = one_line(&event())
    {
        error_line(&line);
    }
}

/// A master in the making that tells waits and what its workers print as the other events.
pub(crate) fn of(builder: Builder) -> Builder {
    match are_told() {
        true => builder
            .on_wait(|waiting| tell(|| json!({ "event": "waiting", "text": waiting.to_string() })))
            .on_log(|line| tell(|| json!({ "event": "line", "worker": line.worker, "text": line.text }))),
        false => builder.on_wait(|reason| waiting(&reason.to_string())),
    }
}

/// The first event: the run and its workers, and what else there is to say of them.
pub(crate) fn began(master: &Master, more: Value) -> Value {
    let workers: Vec<Value> =
        master.workers().into_iter().map(|w| json!({ "name": w.name, "pid": w.pid })).collect();
    let run = master.run_file().and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()));
    let mut event = Map::new();
    event.insert("event".into(), "began".into());
    event.insert("run".into(), run.into());
    event.insert("workers".into(), workers.into());
    if let Value::Object(more) = more {
        event.extend(more);
    }
    event.into()
}
