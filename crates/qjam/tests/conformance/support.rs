//! What the promises are checked with: the serial answer, and a view of processes from outside.

use crate::ENGINES;
use qjam::function::{AnyBox, Mode};
use qjam::{Ctx, DataSet, Encoder, Job, Master, Params, Wire};
use qjam_core::reduce::{Cut, Tree, blocks};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The bits of a value: two values are the same only if nothing tells them apart, not even the sign of a zero.
pub(crate) fn bits<T: Wire>(value: &T) -> Vec<u8> {
    let mut out = Encoder::new();
    value.encode(&mut out);
    out.to_bytes().to_vec()
}

/// How the serial answer is walked.
#[derive(Clone, Copy)]
pub(crate) struct Walk {
    pub(crate) seed: u64,
    pub(crate) round: u64,
    /// Longest chunk of the data set; only the blocks of a fold depend on it.
    pub(crate) chunk_bytes: u64,
}

/// What one thread gets that walks the chunks in order and merges along the tree.
pub(crate) fn serial<F, M>(f: F, params: &F::Params, data: &DataSet<F::Chunk>, walk: Walk) -> F::Output
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
    let mut tree: Tree<AnyBox> = Tree::new(cut);
    for block in 0..cut.blocks() {
        let mut value: Option<AnyBox> = None;
        for index in cut.chunks_of(cut.node(block)) {
            let chunk = data.chunk(index as usize).expect("a chunk");
            let ctx = Ctx::for_test(walk.seed, walk.round, index);
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
pub(crate) fn check<F, M>(what: &str, f: F, params: &F::Params, data: &DataSet<F::Chunk>)
where
    F: Job<M, State = ()>,
{
    check_fold(what, f, params, data, 0);
}

/// The same for a fold, whose blocks depend on the length of chunks.
pub(crate) fn check_fold<F, M>(
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
    for engine in ENGINES.iter() {
        let m = Master::builder().seed(seed).connect(engine).expect(engine);
        for (round, expected) in expected.iter().enumerate() {
            let value = m.run(f, params, data).unwrap_or_else(|e| panic!("{what} on {engine}: {e}"));
            assert!(bits(&value) == *expected, "{what} on {engine}, round {round}: other bits");
        }
    }
}

/// Numbers of very different sizes, so that every order of adding them gives other bits.
pub(crate) fn rugged(count: usize) -> Vec<f64> {
    (0..count)
        .map(|n| ((n * 2_654_435_761) % 1_000_003) as f64 / 7.0 * 10f64.powi((n % 13) as i32 - 6))
        .collect()
}

/// Whether there is a process of this number; one that has ended and is not taken note of counts too.
pub(crate) fn exists(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// Whether a process runs; one that has ended does not, whether or not its parent has taken note of it.
pub(crate) fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

/// Sends a signal to a process that may be gone.
pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = kill_process(pid, signal);
    }
}

/// The processes of a master's workers that are running now.
pub(crate) fn pids(m: &Master) -> Vec<u32> {
    m.workers().into_iter().filter_map(|w| w.pid).collect()
}

/// Waits until something is so. Says whether it became so in time.
pub(crate) fn within(limit: Duration, mut so: impl FnMut() -> bool) -> bool {
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
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("qjam-conformance-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a folder for files");
        Folder(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
