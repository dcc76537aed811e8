//! From records to chunks: what a data set is read from and how it is cut.
//!
//! A *source* knows where records lie: rows in a matrix, lines in a text, values in a list. It says which records make up
//! which chunk, and every chunk is named by hashing its bytes where they lie. Chunks never depend on how many workers
//! there are, so neither does any result.
//!
//! Files are read piece by piece with positioned reads. They are never mapped, because a file that shrinks under a
//! mapping kills the process, and never loaded whole, so they may be larger than memory.

pub use qjam_data::source::{DataError, Records, kept, npy};

pub(crate) use qjam_data::source::location;
