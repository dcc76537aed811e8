//! What a function may know about where it runs: only what is the same on every worker. A step also sends and finds mail
//! through it.

use crate::codec::Wire;
use crate::mail::{Letter, Post, Sealed};
use crate::reduce::Reduce;
use crate::rng::Rng;
use qjam_core::mail::Outbox;
use std::fmt;
use std::ops::Range;
use std::panic::Location;
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
    /// How many chunks there are.
    chunks: u32,
    /// Which records of the data set are in this one.
    records: Range<u64>,
    cancelled: Option<Cancelled>,
    /// The mail of a step.
    post: Option<Arc<Post>>,
}

/// Keeps the streams of a caller's steps apart from those of rounds.
const STEPS: u64 = 0x5354_4550_5354_4550;

impl Ctx {
    #[doc(hidden)]
    pub fn new(seed: u64, round: u64, chunk: u32, cancelled: Option<Cancelled>) -> Self {
        Ctx { seed, round, chunk, chunks: chunk.saturating_add(1), records: 0..0, cancelled, post: None }
    }

    /// The same for a chunk that is one of so many and has these records of the data set. Engines say so; a test does where
    /// its function asks.
    ///
    /// ```
    /// let ctx = qjam::Ctx::for_test(1, 0, 2).among(3, 200..250);
    /// assert_eq!((ctx.chunks(), ctx.records()), (3, 200..250));
    /// ```
    #[must_use]
    pub fn among(self, chunks: u32, records: Range<u64>) -> Self {
        Ctx { chunks, records, ..self }
    }

    /// The same for a step that has mail.
    #[doc(hidden)]
    #[must_use]
    pub fn with_post(&self, post: Arc<Post>) -> Self {
        Ctx { post: Some(post), ..self.clone() }
    }

    /// One to call a function with in a test. It may send letters to any partition, and finds none.
    pub fn for_test(seed: u64, round: u64, chunk: u32) -> Self {
        Ctx::new(seed, round, chunk, None).with_post(Post::new(chunk, u32::MAX, true, Vec::new()))
    }

    /// The same for a test of a step that finds letters: senders and values, in order.
    #[must_use]
    pub fn with_mail<T: Wire>(&self, letters: &[(u32, T)]) -> Self {
        self.with_post(self.post().with_letters(letters))
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

    /// How many chunks the data set has, in the cut that the function runs over.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Which records of the data set are in this chunk: the numbers of the first one and of the one after the last. So a
    /// program about graphs or an index knows the identifiers of its rows without a round that counts them. For a chunk of a
    /// [derived](crate::Derived) data set they are those of the chunk that it is made from.
    ///
    /// ```
    /// use qjam::{Ctx, DataSet, Joined, List, Master};
    ///
    /// #[qjam::map]
    /// fn positions(word: &str, words: &List<String>, ctx: &Ctx) -> Joined<u64> {
    ///     let numbered = ctx.records().zip(words);
    ///     numbered.filter(|(_, found)| *found == word).map(|(number, _)| number).collect()
    /// }
    ///
    /// let text = "to be or not to be".split(' ').map(String::from);
    /// let words = DataSet::list(text)?.chunk_records(2)?;
    /// assert_eq!(Master::connect("local:2")?.run(positions, "be", &words)?.0, [1, 5]);
    /// # Ok::<(), qjam::Error>(())
    /// ```
    pub fn records(&self) -> Range<u64> {
        self.records.clone()
    }

    /// Whether the round has been cancelled. A function that runs for long may ask now and then, and return anything
    /// once it has been: the result is not used.
    pub fn cancelled(&self) -> bool {
        self.cancelled.as_ref().is_some_and(|asked| asked())
    }

    /// Sends a value to a partition of the same hold, which finds it in the next round with [`mail`](Ctx::mail).
    ///
    /// For functions with a state, run by a `Held`. The letter counts if the round has a value, as what the
    /// function does to its state; otherwise nobody finds it. A partition may write to itself. One long letter to each
    /// partition is much faster than many short ones.
    ///
    /// A letter to a partition that does not exist fails the round with
    /// `Error::NoSuchPartition`, and any letter on workers that carry no mail with `Error::NoMail`.
    ///
    /// ```
    /// use qjam::{Ctx, DataSet, Dense, Master, State};
    ///
    /// #[derive(Clone, qjam::Wire)]
    /// struct Total(f64);
    ///
    /// impl State for Total {
    ///     type Chunk = Dense<f64>;
    ///     fn init(x: &Dense<f64>, _: &Ctx) -> Self {
    ///         Total(x.as_slice().iter().sum())
    ///     }
    /// }
    ///
    /// /// Every partition tells its right neighbour its total, and adds what it was told.
    /// #[qjam::map]
    /// fn pass_on(partitions: &u32, _: &Dense<f64>, total: &mut Total, ctx: &Ctx) -> f64 {
    ///     for letter in ctx.mail::<f64>() {
    ///         total.0 += letter.value;
    ///     }
    ///     ctx.send((ctx.chunk() + 1) % partitions, &total.0);
    ///     total.0
    /// }
    ///
    /// let m = Master::connect("local:2")?;
    /// let x = DataSet::dense(vec![1.0, 2.0, 3.0], 1)?.partitions(3)?;
    /// let mut held = m.hold::<Total>(&x)?;
    /// assert_eq!(held.run(pass_on, &3)?, 6.0);
    /// assert_eq!(held.run(pass_on, &3)?, 12.0);
    /// # Ok::<(), qjam::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// In a function that changes no state.
    #[track_caller]
    pub fn send<T: Wire>(&self, partition: u32, value: &T) {
        self.post().send(partition, value, Location::caller());
    }

    /// Sends a value that is merged with those of its type that this step has sent to the same partition this way: they go
    /// as one letter, in the place of the first.
    ///
    /// ```
    /// # use qjam::Ctx;
    /// let ctx = Ctx::for_test(0, 0, 0);
    /// for (partition, count) in [(1, 2_u64), (0, 5), (1, 3)] {
    ///     ctx.send_merged(partition, count);
    /// }
    /// assert_eq!(ctx.sent::<u64>(), [(1, 5), (0, 5)]);
    /// ```
    ///
    /// # Panics
    ///
    /// In a function that changes no state.
    #[track_caller]
    pub fn send_merged<T: Wire + Reduce>(&self, partition: u32, value: T) {
        self.post().send_merged(partition, value, Location::caller());
    }

    /// The letters that were sent to this partition in the last round of the hold that had a value, ordered by sender and,
    /// for each sender, as it sent them. They are there for this round only, however often it is tried.
    ///
    /// If a letter is of another type the round fails.
    ///
    /// # Panics
    ///
    /// In a function that changes no state.
    #[track_caller]
    pub fn mail<T: Wire>(&self) -> Vec<Letter<T>> {
        self.post().read(Location::caller())
    }

    /// What a function that is tested has sent: receivers and values, in order.
    ///
    /// # Panics
    ///
    /// If a letter is of another type.
    #[track_caller]
    pub fn sent<T: Wire>(&self) -> Vec<(u32, T)> {
        let sent = self.take_sent();
        let open = |letter: &Sealed| letter.open().unwrap_or_else(|why| panic!("a letter: {why}"));
        sent.iter().map(|envelope| (envelope.to, open(&envelope.letter))).collect()
    }

    /// What the step has sent.
    #[doc(hidden)]
    pub fn take_sent(&self) -> Outbox<Sealed> {
        self.post.as_ref().map(|post| post.take_sent()).unwrap_or_default()
    }

    #[track_caller]
    fn post(&self) -> &Post {
        self.post.as_deref().expect(
            "only functions that change a state have mail: `master.hold::<S>(&data)?`, and a function that takes `&mut S`",
        )
    }

    /// Random numbers of this (seed, round, chunk), from their beginning at every call.
    pub fn rng(&self) -> Rng {
        Rng::keyed(self.seed, self.round, self.chunk)
    }

    /// Random numbers of a step that the caller counts, and this chunk: the same ones however many rounds the master has run
    /// before. They have nothing in common with those of [`rng`](Self::rng).
    ///
    /// ```
    /// use qjam::Ctx;
    /// let (early, late) = (Ctx::for_test(7, 3, 0), Ctx::for_test(7, 90, 0));
    /// assert_eq!(early.rng_of_step(12).next_u64(), late.rng_of_step(12).next_u64());
    /// assert_ne!(early.rng_of_step(3).next_u64(), early.rng().next_u64());
    /// ```
    pub fn rng_of_step(&self, step: u64) -> Rng {
        Rng::keyed(self.seed ^ STEPS, step, self.chunk)
    }
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ctx { seed, round, chunk, chunks, records, .. } = self;
        write!(
            f,
            "Ctx {{ seed: {seed}, round: {round}, chunk: {chunk} of {chunks}, records: {records:?}, cancelled: {} }}",
            self.cancelled()
        )
    }
}
