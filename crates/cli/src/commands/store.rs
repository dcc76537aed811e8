//! `qjam store`: workers of a bucket, and what is in it.

use super::detached;
use crate::args::{BucketAddress, Gc, Key, Resume, Serve, Status, Store};
use crate::output;
use anyhow::{Context, bail};
use qjam_store::run::block_on;
use qjam_store::serve::{ServeOptions, serve_in_child};
use qjam_store::survey::{JobEntry, JobState, Survey, survey};
use qjam_store::{Address, Bucket, Manifest, Seal, StoreError, gc};
use serde::Serialize;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Runs the command.
pub(crate) fn run(store: &Store) -> anyhow::Result<ExitCode> {
    match store {
        Store::Serve(args) => return serve(args),
        Store::Status(args) => status(args)?,
        Store::Ls(args) => ls(args)?,
        Store::Resume(args) => return resume(args),
        Store::Attach(args) => detached::attach(args)?,
        Store::Gc(args) => collect(args)?,
        Store::Key(args) => key(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

impl BucketAddress {
    pub(super) fn address(&self) -> Result<Address, StoreError> {
        match Address::parse(&self.url)? {
            (address, None) => Ok(address),
            (_, Some(job)) => Err(StoreError::JobInAddress { job }),
        }
    }

    fn key(&self) -> Option<PathBuf> {
        self.key.clone().or_else(qjam_store::key_of_environment)
    }

    pub(super) fn seal(&self) -> Result<Seal, StoreError> {
        self.key().map_or_else(|| Ok(Seal::without_key()), |path| Seal::with_key_file(&path))
    }

    fn open(&self) -> Result<Bucket, StoreError> {
        Bucket::open(&self.address()?, "none", self.seal()?)
    }
}

fn serve(args: &Serve) -> anyhow::Result<ExitCode> {
    let cores = || std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let key = args.place.key();
    let options = ServeOptions {
        address: args.place.address()?,
        // The worker has another working folder than whoever names a file by a relative path may think.
        key: key.map(std::path::absolute).transpose().context("cannot find the key")?,
        slots: args.slots.unwrap_or_else(cores),
        cache_bytes: args.cache,
        name: args.name.clone().unwrap_or_else(own_name),
        idle_exit: args.idle_exit.map(Duration::from_secs),
    };
    // What is wrong with the bucket is told before the line that says that all is well.
    drop(args.place.open()?);
    let signed = if options.key.is_some() { ", for jobs signed with its key" } else { "" };
    let slots = output::count(u64::from(options.slots), "slot");
    output::line(format!("worker {} serves {} with {slots}{signed}", options.name, options.address));
    match serve_in_child(&options)? {
        signal @ 129.. => bail!("the worker was ended by signal {}; its task goes to others", signal - 128),
        code => Ok(ExitCode::from(code as u8)),
    }
}

/// The host and the number of the process.
fn own_name() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let host: String = host.chars().take(40).map(plain).collect();
    format!("{host}-{}", std::process::id())
}

fn key(args: &Key) -> anyhow::Result<()> {
    Seal::make_key_file(&args.file)?;
    output::line(format!("a new key is in {}; give it to submitter and workers", args.file.display()));
    Ok(())
}

#[derive(Serialize)]
struct Listed {
    workers: Vec<Worker>,
    jobs: Vec<Job>,
    chunks: u64,
    builds: u64,
}

#[derive(Serialize)]
struct Worker {
    name: String,
    slots: u32,
    silent_s: u64,
    gone: bool,
}

#[derive(Serialize)]
struct Job {
    job: String,
    name: Option<String>,
    by: Option<String>,
    state: &'static str,
    rounds: u64,
    round: Option<u64>,
    tasks_done: Option<u64>,
    tasks: Option<u64>,
    blobs: u64,
    age_s: u64,
}

impl From<Survey> for Listed {
    fn from(survey: Survey) -> Self {
        let worker = |worker: qjam_store::survey::WorkerEntry| Worker {
            name: worker.name,
            slots: worker.slots,
            silent_s: worker.silent.as_secs(),
            gone: worker.is_gone,
        };
        let job = |job: JobEntry| Job {
            job: job.job,
            name: job.name,
            by: job.by,
            state: job.state.word(),
            rounds: job.rounds,
            round: job.under_way.map(|(round, ..)| round),
            tasks_done: job.under_way.map(|(_, done, _)| done),
            tasks: job.under_way.map(|(_, _, tasks)| tasks),
            blobs: job.blobs,
            age_s: job.age.as_secs(),
        };
        let Survey { workers, jobs, chunks, builds, .. } = survey;
        Listed {
            workers: workers.into_iter().map(worker).collect(),
            jobs: jobs.into_iter().map(job).collect(),
            chunks,
            builds,
        }
    }
}

/// Text from the bucket, as it may be shown.
fn plain(text: &str) -> String {
    qjam::printable(text).into_owned()
}

fn status(args: &Status) -> anyhow::Result<()> {
    let found = block_on(survey(&args.place.open()?))?;
    if args.json {
        return output::json(&Listed::from(found));
    }
    let at_work: Vec<_> = found.workers.iter().filter(|worker| !worker.is_gone).collect();
    let slots = at_work.iter().map(|worker| u64::from(worker.slots)).sum();
    let workers = output::count(at_work.len() as u64, "worker");
    output::heading(&format!("{workers}, {}", output::count(slots, "slot")));
    for worker in &found.workers {
        let gone = if worker.is_gone { ", gone" } else { "" };
        let slots = output::count(u64::from(worker.slots), "slot");
        let silent = worker.silent.as_secs();
        output::line(format!("  {}  {slots}, heard of {silent} s ago{gone}", plain(&worker.name)));
    }
    let is_at_work = |job: &&JobEntry| matches!(job.state, JobState::Running | JobState::Detached);
    let (at_work, others): (Vec<_>, Vec<_>) = found.jobs.iter().partition(is_at_work);
    output::heading(&output::count(at_work.len() as u64, "job"));
    for job in at_work {
        output::line(format!("  {}  {}", name_of(job), progress(job)));
    }
    if !others.is_empty() {
        let others = output::count(others.len() as u64, "other job");
        output::line(format!("{others}: `qjam store ls` lists them"));
    }
    Ok(())
}

fn name_of(job: &JobEntry) -> String {
    match &job.name {
        Some(name) => format!("{} ({})", plain(&job.job), plain(name)),
        None => plain(&job.job),
    }
}

fn progress(job: &JobEntry) -> String {
    let by = job.by.as_deref().map_or("somebody".into(), plain);
    let rounds = output::count(job.rounds, "round");
    let under_way = match job.under_way {
        Some((round, done, tasks)) => format!(", round {round}: {done} of {tasks} tasks"),
        None => String::new(),
    };
    format!("{}, by {by}, {rounds} done{under_way}", job.state.word())
}

fn ls(args: &Status) -> anyhow::Result<()> {
    let found = block_on(survey(&args.place.open()?))?;
    if args.json {
        return output::json(&Listed::from(found));
    }
    let row = |job: &JobEntry| {
        [
            name_of(job),
            job.state.word().into(),
            job.rounds.to_string(),
            job.blobs.to_string(),
            output::time(job.age.as_micros() as u64),
            job.by.as_deref().map_or("?".into(), plain),
        ]
    };
    output::table(["job", "state", "rounds", "blobs", "last written", "by"], found.jobs.iter().map(row));
    let chunks = output::count(found.chunks, "chunk");
    output::line(format!("{chunks} of data, {} of programs", output::count(found.builds, "build")));
    Ok(())
}

fn collect(args: &Gc) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Removed {
        jobs: Vec<String>,
        chunks: u64,
        builds: u64,
        workers: u64,
        blobs: u64,
    }
    let (address, seal) = (args.place.address()?, args.place.seal()?);
    let removed = match &args.job {
        Some(job) => gc::collect_job(&address, &seal, job)?,
        None => gc::collect(&address, &seal, args.older_than)?,
    };
    let gc::Collected { jobs, chunks, builds, workers, blobs, .. } = removed;
    if args.json {
        return output::json(&Removed { jobs, chunks, builds, workers, blobs });
    }
    jobs.iter().for_each(|job| output::line(format!("removed job {}", plain(job))));
    let counts = [(chunks, "chunk"), (builds, "build"), (workers, "lost worker")];
    let counts: Vec<String> = counts.iter().map(|(n, thing)| output::count(*n, thing)).collect();
    output::line(format!(
        "removed {}: {}, {}",
        output::count(blobs, "blob"),
        output::count(jobs.len() as u64, "job"),
        counts.join(", ")
    ));
    Ok(())
}

fn resume(args: &Resume) -> anyhow::Result<ExitCode> {
    let bucket = args.place.open()?;
    let job = block_on(qjam_store::find(&bucket, &args.job))?;
    let manifest = block_on(Manifest::read(&bucket, &job))?;
    if block_on(qjam_store::is_detached(&bucket, &job))? {
        bail!(
            "job {job} needs nobody to go on with it; `qjam store attach` follows it and brings its model home"
        );
    }
    let Some((program, arguments)) = manifest.command.split_first() else {
        bail!("job {job} does not say how its program is started");
    };
    if arguments.iter().any(|argument| argument.to_string_lossy().contains(qjam::runs::MASK)) {
        bail!(
            "the command line of job {job} had a secret, which is not recorded; start the program yourself, with {}={job}",
            qjam_store::RESUME
        );
    }
    let words = manifest.command.iter().map(|word| plain(&word.to_string_lossy()));
    let shown = words.collect::<Vec<_>>().join(" ");
    if !bucket.has_key() && !args.trust {
        bail!(
            "job {job} is not signed, and whoever can write to the bucket could have chosen what is run: {shown}\nIf that is what \
             you want, --trust runs it"
        );
    }
    let found = block_on(survey(&bucket))?;
    let is_running = found.jobs.iter().any(|entry| entry.job == job && entry.state == JobState::Running);
    if is_running && !args.anyway {
        bail!(
            "the submitter of job {job}, {}, was heard of less than a minute ago; if it is gone, wait for a minute or use --anyway",
            plain(&manifest.by())
        );
    }
    output::note(&format!("going on with {job}: {shown}"));
    let mut command = Command::new(program);
    command.args(arguments).env(qjam_store::RESUME, &job);
    if let Some(key) = args.place.key() {
        command.env(qjam_store::KEY, std::path::absolute(key).context("cannot find the key")?);
    }
    if manifest.directory.is_dir() {
        command.current_dir(&manifest.directory);
    }
    drop(bucket);
    let why = command.exec();
    Err(why).with_context(|| format!("cannot start {}", plain(&program.to_string_lossy())))
}
