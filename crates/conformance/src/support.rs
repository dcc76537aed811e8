//! What promises are checked with: the serial answer, a view of processes from outside, and events to wait for.

use crate::{Engine, HANG};
use qjam::function::{AnyBox, Mode};
use qjam::journal::What;
use qjam::{Ctx, DataSet, Encoder, Job, Master, Params, Wire};
use qjam_core::reduce::{Cut, Tree, blocks};
use qjam_core::scheduler::Config;
use qjam_core::time::Span;
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Waits until something has happened.
pub fn wait_until(what: &str, happened: impl FnMut() -> bool) {
    assert!(within(HANG, happened), "{what} has not happened in {HANG:?}");
}

/// Counts entries of a master's journal.
pub fn noted(m: &Master, is: impl Fn(&What) -> bool) -> usize {
    m.journal().iter().filter(|entry| is(&entry.what)).count()
}

/// How many workers a master has lost.
pub fn losses(m: &Master) -> usize {
    noted(m, |what| matches!(what, What::WorkerLost(..)))
}

/// Deadlines that nobody misses: a worker that is slow to leave a round, or to answer, is not killed for it, and the states of
/// one that was killed wait for its successor. For tests that assert just that.
#[must_use]
pub fn unhurried() -> Config {
    let hang = Span(HANG.as_micros() as u64);
    Config {
        let_go_within: hang,
        spare_within: hang,
        lost_after: hang,
        home_patience: hang,
        ..Config::default()
    }
}

/// A gate that functions on this machine wait at, each chunk by itself, until the test opens it. So a test knows that they
/// are inside without looking at a clock.
pub struct Gate(Folder);

impl Gate {
    /// A closed one.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it makes a folder")]
    pub fn new() -> Self {
        Gate(Folder::new())
    }

    /// What functions are told of it.
    #[must_use]
    pub fn path(&self) -> String {
        self.0.file("").to_string_lossy().into_owned()
    }

    /// How many chunks have come to it.
    #[must_use]
    pub fn reached(&self) -> usize {
        let names = std::fs::read_dir(self.0.file("")).unwrap().flatten().map(|entry| entry.file_name());
        names.filter(|name| name.to_string_lossy().starts_with("at-")).count()
    }

    /// Waits until so many chunks have come to it.
    pub fn wait_for(&self, chunks: usize) {
        wait_until("that functions begin", || self.reached() >= chunks);
    }

    /// Lets all pass.
    pub fn open(&self) {
        std::fs::write(self.0.file("open"), []).unwrap();
    }

    /// Closes it again.
    pub fn close(&self) {
        std::fs::remove_file(self.0.file("open")).unwrap();
    }

    /// What a function does with the path it was told. An empty path is no gate.
    pub fn pass(path: &str, chunk: u32) {
        if path.is_empty() {
            return;
        }
        let _ = std::fs::write(Path::new(path).join(format!("at-{chunk}")), []);
        // Without the folder nobody is left to open it.
        while Path::new(path).exists() && !Path::new(path).join("open").exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The bits of a value: two values are the same only if nothing tells them apart, not even the sign of a zero.
pub fn bits<T: Wire>(value: &T) -> Vec<u8> {
    let mut out = Encoder::new();
    value.encode(&mut out);
    out.to_bytes().to_vec()
}

/// How the serial answer is walked.
#[derive(Clone, Copy)]
pub struct Walk {
    /// The master's.
    pub seed: u64,
    /// The number of the round.
    pub round: u64,
    /// Longest chunk of the data set; only the blocks of a fold depend on it.
    pub chunk_bytes: u64,
}

/// What one thread gets that walks the chunks in order and merges along the tree.
pub fn serial<F, M>(f: F, params: &F::Params, data: &DataSet<F::Chunk>, walk: Walk) -> F::Output
where
    F: Job<M, State = ()>,
{
    let function = f.erase();
    let mut out = Encoder::new();
    params.encode_params(&mut out);
    let params_bytes = out.payload_bytes() as u64;
    let params = function.open_params(out.to_bytes()).expect("parameters");
    let level = match function.mode() {
        Mode::Map | Mode::Step => 0,
        Mode::Fold => blocks::fold_level(walk.chunk_bytes, params_bytes),
    };
    let cut = Cut::new(data.len() as u32, level);
    let records = data.erased().records.starts();
    let mut tree: Tree<AnyBox> = Tree::new(cut);
    for block in 0..cut.blocks() {
        let mut value: Option<AnyBox> = None;
        for index in cut.chunks_of(cut.node(block)) {
            let chunk = data.chunk(index as usize).expect("a chunk");
            let ctx = Ctx::for_test(walk.seed, walk.round, index).among(cut.chunks, records.range(index));
            match function.mode() {
                Mode::Map => value = Some(function.map(&*params, &chunk, &ctx)),
                Mode::Step => panic!("a function with a state"),
                Mode::Fold => {
                    let acc = value.get_or_insert_with(|| function.empty());
                    function.fold(&*params, &chunk, acc, &ctx);
                }
            }
        }
        let value = value.expect("a block has chunks");
        tree.insert(cut.node(block), value, |left, right| function.merge(left, right)).expect("a merge");
    }
    *tree.take_root().expect("all blocks are in").downcast().expect("the function's output")
}

/// Runs a map twice on every engine and compares with the serial answer.
pub(crate) fn check<F, M>(e: &Engine, what: &str, f: F, params: &F::Params, data: &DataSet<F::Chunk>)
where
    F: Job<M, State = ()>,
{
    check_fold(e, what, f, params, data, 0);
}

/// The same for a fold, whose blocks depend on the length of chunks.
pub(crate) fn check_fold<F, M>(
    e: &Engine,
    what: &str,
    f: F,
    params: &F::Params,
    data: &DataSet<F::Chunk>,
    chunk_bytes: u64,
) where
    F: Job<M, State = ()>,
{
    let seed = 17;
    let walk = |round| Walk { seed, round, chunk_bytes };
    let expected: Vec<Vec<u8>> = (0..2).map(|n| bits(&serial(f, params, data, walk(n)))).collect();
    for engine in e.shapes() {
        let m = e.connect(Master::builder().seed(seed), engine);
        for (round, expected) in expected.iter().enumerate() {
            let value = m.run(f, params, data).unwrap_or_else(|e| panic!("{what} on {engine}: {e}"));
            assert!(bits(&value) == *expected, "{what} on {engine}, round {round}: other bits");
        }
    }
}

/// Numbers of very different sizes, so that every order of adding them gives other bits.
pub fn rugged(count: usize) -> Vec<f64> {
    (0..count)
        .map(|n| ((n * 2_654_435_761) % 1_000_003) as f64 / 7.0 * 10f64.powi((n % 13) as i32 - 6))
        .collect()
}

/// Whether there is a process of this number; one that has ended and is not taken note of counts too.
pub fn exists(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// Whether a process runs; one that has ended does not, whether or not its parent has taken note of it.
pub fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

/// Sends a signal to a process that may be gone.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = kill_process(pid, signal);
    }
}

/// The processes of a master's workers that are running now.
pub fn pids(m: &Master) -> Vec<u32> {
    m.workers().into_iter().filter_map(|w| w.pid).collect()
}

/// Waits until something is so. Says whether it became so in time.
pub fn within(limit: Duration, mut so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if so() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A folder that goes when the test does.
pub struct Folder(PathBuf);

impl Folder {
    /// A new one.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it makes a folder")]
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("qjam-conformance-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a folder for files");
        Folder(path)
    }

    /// The path of a file in it.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
