//! The process that runs the tasks of one job.

use super::control::Noted;
use crate::detach;
use crate::functions::Functions;
use crate::job::{self, Manifest};
use crate::run::block_on;
use crate::seal::Seal;
use crate::{Address, Bucket, StoreError};
use linkme::distributed_slice;
use qjam::engine::Workplace;
use qjam::engine::provider::{CrewEntry, ENTRIES, set_language};
use qjam_core::bucket::Worker;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Makes an executable an executor: everything that it needs to know.
pub(super) const EXECUTOR: &str = "QJAM_STORE_EXECUTOR";
/// An executor without tasks looks so often whether its job still is worked on.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// It makes way for other jobs when it had no task for this long.
const IDLE_MAX: Duration = Duration::from_secs(2);

#[distributed_slice(ENTRIES)]
static ENTRY: CrewEntry = CrewEntry { variable: EXECUTOR, serve: serve_and_tell };

/// What an executor is started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ExecutorRequest {
    pub(super) url: String,
    pub(super) job: String,
    pub(super) key: Option<PathBuf>,
    pub(super) slots: u32,
    pub(super) cache_bytes: u64,
    pub(super) name: String,
    pub(super) worker_pid: u32,
}

#[expect(clippy::print_stderr, reason = "an executor has no other way to say why it ends")]
fn serve_and_tell(asked: &str) -> i32 {
    let Some(request) = super::from_text::<ExecutorRequest>(asked) else {
        eprintln!("qjam executor: started with something that this version does not understand");
        return 70;
    };
    match serve(&request) {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("qjam executor: {e}");
            70
        }
    }
}

fn serve(request: &ExecutorRequest) -> Result<(), StoreError> {
    let io = |what: &'static str| move |source: io::Error| StoreError::System { what, source };
    // Whatever ends the worker ends this process, also if it is stopped.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| io("ask to die with the worker")(e.into()))?;
    if getppid().is_none_or(|parent| parent.as_raw_nonzero().get() as u32 != request.worker_pid) {
        return Ok(());
    }
    // The socket is standard input, out of reach of user code from now on.
    let worker = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 10);
    let worker = File::from(worker.map_err(|e| io("take over the socket of the worker")(e.into()))?);
    let nothing = File::open("/dev/null").map_err(io("open /dev/null"))?;
    rustix::stdio::dup2_stdin(nothing).map_err(|e| io("close standard input")(e.into()))?;
    let (address, _) = Address::parse(&request.url)?;
    let seal = request.key.as_deref().map_or_else(|| Ok(Seal::without_key()), Seal::with_key_file)?;
    let bucket = Bucket::open(&address, &request.job, seal)?;
    let manifest = block_on(Manifest::read(&bucket, &request.job))?;
    if let Some(setup) = &manifest.language
        && bucket.has_key()
    {
        set_language(setup);
    }
    let place = Workplace::new(request.slots, request.cache_bytes).map_err(io("start threads"))?;
    let functions = Functions::new(&bucket, Arc::new(place), request.name.clone());
    let noted = Noted::new(&bucket, worker);
    let served = Worker::new(&noted, &functions, bucket.settings(), request.name.clone());
    let mut last_task = Instant::now();
    let mut looked = Instant::now();
    let mut tasks = 0;
    block_on(served.serve(|| {
        if functions.tasks() != tasks {
            tasks = functions.tasks();
            last_task = Instant::now();
        }
        if looked.elapsed() < LOOK_EVERY || last_task.elapsed() < LOOK_EVERY {
            return true;
        }
        looked = Instant::now();
        let active = block_on(job::active(&bucket)).unwrap_or_default();
        let Some(own) = active.iter().find(|active| active.job == request.job) else { return false };
        // Nobody else sees that such a job has ended.
        if own.is_detached && block_on(detach::finish(&bucket, &request.job)).unwrap_or(false) {
            return false;
        }
        active.len() == 1 || last_task.elapsed() < IDLE_MAX
    }));
    Ok(())
}
