//! States that count, for everything that is easier to see with whole numbers.

use qjam::{Ctx, DataSet, Dense, Master, State, Wire};
use std::time::Duration;

/// What a chunk has seen.
#[derive(Clone, Debug, PartialEq, Wire)]
pub(crate) struct Tally {
    pub(crate) chunk: u32,
    pub(crate) sum: u64,
    /// Room, so that it is as long as a test wants it.
    pub(crate) ballast: Vec<u8>,
}

impl State for Tally {
    type Chunk = Dense<f64>;

    fn init(x: &Dense<f64>, ctx: &Ctx) -> Self {
        Tally { chunk: ctx.chunk(), sum: 0, ballast: vec![7; x.as_slice()[0] as usize] }
    }
}

/// What a round does besides counting.
#[derive(Clone, Copy, PartialEq, Wire)]
pub(crate) enum Mischief {
    None,
    /// The chunk whose function panics.
    Panic(u32),
    /// The chunk whose function ends the process.
    Exit(u32),
    /// Every function takes so many milliseconds.
    Sleep(u64),
    /// The same, unless it is cancelled before.
    Doze(u64),
}

#[derive(Wire)]
pub(crate) struct Add {
    pub(crate) n: u64,
    pub(crate) mischief: Mischief,
}

/// Keeps sums small.
const MODULUS: u64 = 1_000_003;

/// Adds to every state; gives the sum of all.
#[qjam::map]
pub(crate) fn add(add: &Add, _: &Dense<f64>, tally: &mut Tally, ctx: &Ctx) -> u64 {
    tally.sum = after_one(tally.sum, add.n);
    match add.mischief {
        Mischief::Panic(chunk) if chunk == ctx.chunk() => panic!("chunk {chunk} panics"),
        Mischief::Exit(chunk) if chunk == ctx.chunk() => std::process::exit(3),
        Mischief::Sleep(ms) => std::thread::sleep(Duration::from_millis(ms)),
        Mischief::Doze(ms) => {
            for _ in 0..ms {
                if ctx.cancelled() {
                    tally.sum = u64::MAX; // nobody may ever see this
                    return 0;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        _ => {}
    }
    tally.sum
}

pub(crate) fn plain(n: u64) -> Add {
    Add { n, mischief: Mischief::None }
}

pub(crate) fn with(n: u64, mischief: Mischief) -> Add {
    Add { n, mischief }
}

/// So many chunks, each with a state of about so many bytes.
pub(crate) fn data(chunks: usize, bytes: usize) -> DataSet<Dense<f64>> {
    DataSet::dense(vec![bytes as f64; chunks * 4], 1).unwrap().partitions(chunks).unwrap()
}

pub(crate) fn connect(workers: &str) -> Master {
    Master::builder().on_log(|_| {}).connect(workers).unwrap()
}

/// The sum of a state after one more round.
pub(crate) fn after_one(sum: u64, n: u64) -> u64 {
    (sum * 3 + n) % MODULUS
}

/// The sum of each state after these rounds.
pub(crate) fn after(rounds: &[u64]) -> u64 {
    rounds.iter().fold(0, |sum, n| after_one(sum, *n))
}
