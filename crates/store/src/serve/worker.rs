//! The process that starts executors and outlives them.

use super::control::read_line;
use super::executor::{EXECUTOR, ExecutorRequest};
use crate::functions::deaths_key;
use crate::job::{self, Manifest, WORKERS};
use crate::run::block_on;
use crate::seal::Seal;
use crate::{Address, Bucket, StoreError};
use bytes::Bytes;
use qjam_core::bucket::settings::Backoff;
use qjam_core::bucket::{Delivery, Message, Storage};
use qjam_core::time::Span;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A worker says so often that it is there.
const BEAT_EVERY: Duration = Duration::from_secs(15);
/// While it has an executor, it asks so often whether to go on.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The first time between two looks for jobs.
const PAUSE_FIRST: Span = Span::from_ms(1);
/// A job that is not there is looked for again after this time.
const GONE_FOR: Duration = Duration::from_secs(1);
/// Lines of an executor that are told with its death.
const LAST_LINES: usize = 20;
/// A job is left to others when so many executors have ended without a task.
const DEATHS_MAX: u32 = 3;
/// A job that cannot be served is looked at again after this time.
const REFUSED_FOR: Duration = Duration::from_secs(30);

/// How a worker serves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServeOptions {
    /// The bucket.
    pub address: Address,
    /// The file of the key, if jobs are signed.
    pub key: Option<PathBuf>,
    /// How many blocks it runs at once.
    pub slots: u32,
    /// Most bytes of opened chunks.
    pub cache_bytes: u64,
    /// What others call it.
    pub name: String,
    /// Ends when there was no job for this long.
    pub idle_exit: Option<Duration>,
}

/// Serves a bucket until `goes_on` returns false, which is asked every now and then. `tell` gets what a person should know. An error
/// is one that was there from the beginning; what goes wrong later is told, and tried again.
pub fn serve(
    options: &ServeOptions,
    mut goes_on: impl FnMut() -> bool,
    mut tell: impl FnMut(&str),
) -> Result<(), StoreError> {
    let seal = options.key.as_deref().map_or_else(|| Ok(Seal::without_key()), Seal::with_key_file)?;
    // Its own queue is never used.
    let bucket = Bucket::open(&options.address, "none", seal.clone())?;
    bucket.attend(job::ACTIVE);
    let beat = Beat::new(&bucket, options);
    beat.beat()?;
    // Until when jobs are not looked at again.
    let mut refused: BTreeMap<String, Instant> = BTreeMap::new();
    let mut last: Option<String> = None;
    let mut said: Option<String> = None;
    let mut idle_since = Instant::now();
    let mut pause = Backoff::new(PAUSE_FIRST, bucket.settings().idle_max);
    while goes_on() {
        refused.retain(|_, until| Instant::now() < *until);
        let jobs = beat.beat().and_then(|()| block_on(job::active(&bucket)));
        let jobs = match jobs {
            Ok(jobs) => jobs,
            Err(e) => {
                let trouble = e.to_string();
                if said.as_ref() != Some(&trouble) {
                    tell(&format!("the bucket cannot be used, which is tried again: {trouble}"));
                    said = Some(trouble);
                }
                Vec::new()
            }
        };
        let jobs = jobs.into_iter().map(|active| active.job);
        let jobs: Vec<String> = jobs.filter(|job| !refused.contains_key(job)).collect();
        let Some(job) = next_job(&jobs, last.as_deref()) else {
            if options.idle_exit.is_some_and(|limit| idle_since.elapsed() >= limit) {
                break;
            }
            block_on(bucket.idle(pause.wait()));
            continue;
        };
        pause.reset();
        last = Some(job.clone());
        match serve_job(options, seal.clone(), &job, &mut goes_on, &beat, &mut tell) {
            Ok(()) => said = None,
            // It was removed a moment ago, or cannot be seen yet.
            Err(StoreError::NoJob { .. }) => drop(refused.insert(job, Instant::now() + GONE_FOR)),
            Err(why) => {
                tell(&format!("job {job} is left to others: {why}"));
                refused.insert(job, Instant::now() + REFUSED_FOR);
            }
        }
        idle_since = Instant::now();
    }
    beat.leave();
    Ok(())
}

/// The job after the last one, so that all have their turn.
fn next_job(jobs: &[String], last: Option<&str>) -> Option<String> {
    let after = last.and_then(|last| jobs.iter().position(|job| job == last)).map_or(0, |at| at + 1);
    jobs.get(after % jobs.len().max(1)).cloned()
}

/// Has an executor serve a job, and others after it if it dies.
fn serve_job(
    options: &ServeOptions,
    seal: Seal,
    job: &str,
    goes_on: &mut impl FnMut() -> bool,
    beat: &Beat<'_>,
    tell: &mut impl FnMut(&str),
) -> Result<(), StoreError> {
    let bucket = Bucket::open(&options.address, job, seal)?;
    let manifest = block_on(Manifest::read(&bucket, job))?;
    let program = crate::build::program_for(&bucket, &manifest)?;
    let mut deaths = 0;
    loop {
        let mut executor = Executor::start(options, job, &program)?;
        let status = loop {
            executor.wait(LOOK_EVERY);
            match executor.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => {}
                Err(source) => return Err(StoreError::System { what: "wait for an executor", source }),
            }
            // A bucket that cannot be written now is the executor's trouble, too, and it tells.
            let _ = beat.beat();
            if !goes_on() {
                executor.stop(&bucket);
                return Ok(());
            }
        };
        if status.success() {
            return Ok(());
        }
        let death = executor.death(status, &options.name);
        tell(&format!("job {job}: {death}"));
        // A task that ends executors is set aside by the protocol. An executor that does not get as far as a task is not.
        match executor.put_back(&bucket, &death)? {
            true => deaths = 0,
            false => deaths += 1,
        }
        if deaths >= DEATHS_MAX {
            let problem = format!("{DEATHS_MAX} executors have ended before they had a task");
            return Err(StoreError::Busy { job: job.to_owned(), problem });
        }
    }
}

/// A process that runs tasks.
struct Executor {
    child: Child,
    /// The message that it has.
    has: Arc<Mutex<Option<Delivery<String>>>>,
    lines: Arc<Mutex<VecDeque<String>>>,
    /// Closed when the executor has closed its socket, which it does by ending.
    ended: Receiver<()>,
    readers: Vec<std::thread::JoinHandle<()>>,
}

impl Executor {
    fn start(options: &ServeOptions, job: &str, program: &Path) -> Result<Executor, StoreError> {
        let failed = |source| StoreError::Folder { what: "start", path: program.to_owned(), source };
        let request = ExecutorRequest {
            url: options.address.to_string(),
            job: job.to_owned(),
            key: options.key.clone(),
            slots: options.slots,
            cache_bytes: options.cache_bytes,
            name: options.name.clone(),
            worker_pid: std::process::id(),
        };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let (read, write) = std::io::pipe().map_err(failed)?;
        let mut command = Command::new(program);
        command.env(EXECUTOR, super::to_text(&request)).stdin(Stdio::from(OwnedFd::from(theirs)));
        command.stdout(write.try_clone().map_err(failed)?).stderr(write);
        let child = command.spawn().map_err(failed)?;
        drop(command);
        let has: Arc<Mutex<Option<Delivery<String>>>> = Arc::default();
        let lines: Arc<Mutex<VecDeque<String>>> = Arc::default();
        let (has_there, lines_there, job) = (has.clone(), lines.clone(), job.to_owned());
        let (ends, ended) = channel();
        let readers = vec![
            std::thread::spawn(move || {
                for line in BufReader::new(ours).lines().map_while(Result::ok) {
                    *has_there.lock().unwrap_or_else(PoisonError::into_inner) = read_line(&line);
                }
                drop(ends);
            }),
            std::thread::spawn(move || {
                for line in BufReader::new(read).split(b'\n').map_while(Result::ok) {
                    let line = qjam::printable(&String::from_utf8_lossy(&line)).into_owned();
                    #[expect(clippy::print_stderr, reason = "what user code prints belongs on the screen")]
                    {
                        eprintln!("[{job}] {line}");
                    }
                    let mut lines = lines_there.lock().unwrap_or_else(PoisonError::into_inner);
                    if lines.len() >= LAST_LINES {
                        lines.pop_front();
                    }
                    lines.push_back(line);
                }
            }),
        ];
        Ok(Executor { child, has, lines, ended, readers })
    }

    /// Waits until it ends, and no longer than this.
    fn wait(&mut self, time: Duration) {
        if self.ended.recv_timeout(time) == Err(RecvTimeoutError::Disconnected) {
            // The process is about to end, or has; a moment is left to the system.
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends it, and puts back what it had, for others to take at once.
    fn stop(&mut self, bucket: &Bucket) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.readers.drain(..).for_each(|reader| drop(reader.join()));
        let has = self.has.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut delivery) = has {
            // Otherwise it comes back by itself.
            let _ = block_on(bucket.extend(&mut delivery, Span(0)));
        }
    }

    /// How it ended, in words.
    fn death(&mut self, status: ExitStatus, name: &str) -> String {
        // All that it said is read before it is told.
        self.readers.drain(..).for_each(|reader| drop(reader.join()));
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exited with code {code}"),
            (_, Some(signal)) => {
                format!("was ended by signal {signal} ({})", qjam_core::job::signal_name(signal))
            }
            _ => "ended".into(),
        };
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let lines =
            if lines.is_empty() { String::new() } else { format!("; its last lines: {}", lines.join(" | ")) };
        format!("the executor of worker {name} {how}{lines}")
    }

    /// Puts back the task that it had, with how it died. Returns whether it had one.
    fn put_back(&self, bucket: &Bucket, death: &str) -> Result<bool, StoreError> {
        let has = self.has.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut delivery) = has else { return Ok(false) };
        block_on(async {
            if let Ok(Message::Map { at, task }) = Message::parse(&delivery.text) {
                let key = format!("{}{:05}", deaths_key(&at, task), delivery.count);
                bucket.put(&key, Bytes::copy_from_slice(death.as_bytes())).await?;
            }
            bucket.extend(&mut delivery, Span(0)).await.map(|_| true)
        })
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says in the bucket that the worker is there.
struct Beat<'a> {
    bucket: &'a Bucket,
    key: String,
    last: std::cell::Cell<Option<Instant>>,
}

impl<'a> Beat<'a> {
    fn new(bucket: &'a Bucket, options: &ServeOptions) -> Self {
        let key = format!("{WORKERS}{}.{}", options.name, options.slots);
        Beat { bucket, key, last: std::cell::Cell::new(None) }
    }

    fn beat(&self) -> Result<(), StoreError> {
        if self.last.get().is_none_or(|last| last.elapsed() >= BEAT_EVERY) {
            block_on(self.bucket.put(&self.key, Bytes::new()))?;
            self.last.set(Some(Instant::now()));
        }
        Ok(())
    }

    fn leave(&self) {
        let _ = block_on(self.bucket.delete(&self.key));
    }
}
