//! From records to chunks: what a data set is read from and how it is cut.
//!
//! A *source* knows where records lie: rows in a matrix, lines in a text, values in a list. Asked with a rule
//! (`cut`) it says which records make up which chunk; every chunk is then named by hashing its bytes where they lie,
//! in shared memory, in the user's own or in the user's file (`location`). Chunks never depend on how many workers there are, so neither
//! does any result.
//!
//! Files are read piece by piece with positioned reads. They are never mapped, because a file that shrinks under a
//! mapping kills the process, and never loaded whole, so they may be larger than memory.

pub mod array;
pub(crate) mod cut;
mod error;
pub mod kept;
pub(crate) mod lines;
pub(crate) mod list;
pub mod location;
pub(crate) mod matrix;
pub mod memory;
pub(crate) mod nothing;
pub mod npy;
pub(crate) mod numbers;
pub(crate) mod raw;
mod records;
pub mod slices;
pub(crate) mod zipped;

pub use error::DataError;
pub use records::Records;

use cut::Rule;
use location::ChunkEntry;

/// Where a data set's records are. One source can be cut in several ways.
pub(crate) trait Source: Send + Sync {
    /// Number of records: rows, lines or values.
    fn records(&self) -> u64;

    /// Bytes of all chunks together; the same for every cut.
    fn bytes(&self) -> u64;

    /// Cuts the records into chunks and names these.
    fn cut(&self, rule: Rule) -> Result<Vec<ChunkEntry>, DataError>;
}
