//! What the protocol needs of storage: blobs by name, a queue, and time.
//!
//! Every promise that it relies on is here, and nothing else is assumed:
//!
//! - a blob is written whole or not at all, and `create` succeeds for one caller;
//! - a blob that was written can be read, by its name or in a listing, but perhaps only a while later;
//! - a message is delivered at least once, and again if it was not acknowledged before its time ran out.

use crate::time::Span;
use std::fmt::Display;

/// Blobs, a queue, and time.
#[expect(async_fn_in_trait, reason = "each participant runs on one thread, so its futures need not be Send")]
pub trait Storage {
    /// The content of a blob.
    type Blob: AsRef<[u8]> + From<Vec<u8>> + Clone;
    /// What proves that a message was delivered to us.
    type Receipt;
    /// Why storage cannot be used.
    type Error: Display;

    /// The content of a blob; `None` if there is none, or none to be seen yet.
    async fn get(&self, key: &str) -> Result<Option<Self::Blob>, Self::Error>;

    /// Writes a blob, whether or not there is one.
    async fn put(&self, key: &str, blob: Self::Blob) -> Result<(), Self::Error>;

    /// Writes a blob unless there is one. Returns whether it was written.
    async fn create(&self, key: &str, blob: Self::Blob) -> Result<bool, Self::Error>;

    /// The blobs whose names begin like this, in the order of their names.
    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, Self::Error>;

    /// Removes a blob, if there is one.
    async fn delete(&self, key: &str) -> Result<(), Self::Error>;

    /// Puts a message into the queue. It can be received after this time.
    async fn send(&self, message: &str, hidden: Span) -> Result<(), Self::Error>;

    /// Takes a message, if there is one. Nobody else gets it for this time.
    async fn receive(&self, hidden: Span) -> Result<Option<Delivery<Self::Receipt>>, Self::Error>;

    /// Nobody else gets the message for so much longer, from now on. Returns false if somebody else may have it already.
    async fn extend(&self, delivery: &mut Delivery<Self::Receipt>, hidden: Span)
    -> Result<bool, Self::Error>;

    /// The message has been dealt with. Without effect if somebody else has it already.
    async fn acknowledge(&self, delivery: Delivery<Self::Receipt>) -> Result<(), Self::Error>;

    /// How many copies of a blob to write that very many read at once, of so many that would do for any storage.
    fn copies(&self, enough: u32) -> u32 {
        enough
    }

    /// Lets time pass.
    async fn sleep(&self, span: Span);

    /// Lets time pass, but no more than until there may be something new.
    async fn idle(&self, span: Span) {
        self.sleep(span).await;
    }
}

/// A blob in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name, without the prefix.
    pub name: String,
    /// How long ago it was written, by the clock of the storage.
    pub age: Span,
}

/// A message that was received.
#[derive(Clone, Debug)]
pub struct Delivery<R> {
    /// What it says.
    pub text: String,
    /// How often it has been delivered, this time included.
    pub count: u32,
    /// Proves that it was delivered to us.
    pub receipt: R,
}
