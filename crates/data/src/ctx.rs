//! What a function may know about where it runs: only what is the same on every worker.

use crate::rng::Rng;
use std::fmt;
use std::sync::Arc;

/// Asks whether the round has been cancelled.
pub type Cancelled = Arc<dyn Fn() -> bool + Send + Sync>;

/// The last argument of a function that asks for it: seed, round and chunk, random numbers keyed by them, and whether
/// to stop.
///
/// ```
/// use qjam::{Ctx, Dense};
///
/// #[qjam::map]
/// fn noisy(scale: &f64, x: &Dense<f64>, ctx: &Ctx) -> f64 {
///     let mut rng = ctx.rng();
///     x.as_slice().iter().map(|v| v + scale * rng.normal()).sum()
/// }
///
/// let x = Dense::from_vec(vec![1.0, 2.0], 1).unwrap();
/// let ctx = Ctx::for_test(42, 0, 3);
/// assert_eq!(noisy(&0.5, &x, &ctx), noisy(&0.5, &x, &ctx));
/// ```
#[derive(Clone)]
pub struct Ctx {
    seed: u64,
    round: u64,
    chunk: u32,
    cancelled: Option<Cancelled>,
}

impl Ctx {
    #[doc(hidden)]
    pub fn new(seed: u64, round: u64, chunk: u32, cancelled: Option<Cancelled>) -> Self {
        Ctx { seed, round, chunk, cancelled }
    }

    /// One to call a function with in a test.
    pub fn for_test(seed: u64, round: u64, chunk: u32) -> Self {
        Ctx::new(seed, round, chunk, None)
    }

    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The number of the round.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// The index of the chunk in its data set; with [`partitions`](crate::DataSet::partitions) that of the partition.
    pub fn chunk(&self) -> u32 {
        self.chunk
    }

    /// Whether the round has been cancelled. A function that runs for long may ask now and then, and return anything
    /// once it has been: the result is not used.
    pub fn cancelled(&self) -> bool {
        self.cancelled.as_ref().is_some_and(|asked| asked())
    }

    /// Random numbers of this (seed, round, chunk), from their beginning at every call.
    pub fn rng(&self) -> Rng {
        Rng::keyed(self.seed, self.round, self.chunk)
    }
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ctx { seed, round, chunk, .. } = self;
        write!(f, "Ctx {{ seed: {seed}, round: {round}, chunk: {chunk}, cancelled: {} }}", self.cancelled())
    }
}
