//! What the engine needs of a message library.

use linkme::distributed_slice;

/// A message that has come and not been received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Who sent it.
    pub from: u32,
    /// What kind of message it is.
    pub tag: i32,
    /// Its length.
    pub bytes: usize,
}

/// All ranks of a run, as one of them sees them.
///
/// It is called by one thread at a time, though not always by the same. Messages between two ranks with one tag arrive in
/// order. No message is longer than `i32::MAX` bytes. What cannot be delivered ends the process: there is no going on
/// without a rank.
pub trait Communicator: Send + Sync {
    /// The number of this process.
    fn rank(&self) -> u32;

    /// How many there are.
    fn size(&self) -> u32;

    /// The library and its version, for people.
    fn library(&self) -> String;

    /// Sends to one rank; may wait until that receives.
    fn send(&self, to: u32, tag: i32, message: &[u8]);

    /// The next message with this tag, from one rank or from any, if one is there.
    fn probe(&self, from: Option<u32>, tag: i32) -> Option<Arrived>;

    /// Receives a message that [`probe`](Communicator::probe) has found, or that is sure to come and not to be longer than
    /// `into`; says how long it is.
    fn receive(&self, from: u32, tag: i32, into: &mut [u8]) -> usize;

    /// Brings what rank 0 has in `bytes` to all ranks, which call it with the same length.
    fn broadcast(&self, bytes: &mut [u8]);

    /// Adds up what all ranks have in `values`, element by element and in whatever order; all get the sums. They call it
    /// with the same length.
    fn sum(&self, values: &mut [f64]);

    /// Has `f` called when this process ends by `exit` or at the end of `main`.
    fn at_exit(&self, f: extern "C" fn());

    /// Leaves the others in order: all of them do, and nothing can be sent after it.
    fn leave(&self);

    /// Ends all ranks at once.
    fn abort(&self, code: i32) -> !;
}

/// Where a communicator comes from.
#[derive(Clone, Copy, Debug)]
pub struct Provider {
    /// What messages call it: `MPI`.
    pub name: &'static str,
    /// The library and its version, for people; asked before any communicator is there.
    pub library: fn() -> String,
    /// Joins the others that were started with this process. Called once, before `main`, if there is a launcher.
    pub join: fn() -> Result<Box<dyn Communicator>, Unusable>,
}

/// Why there is no communicator, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable(pub String);

/// All providers that the program was linked with.
#[distributed_slice]
pub static PROVIDERS: [Provider];
