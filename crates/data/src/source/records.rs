//! Data sets of the user's own.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;

/// Records that come from wherever you like: say how many slices there are, and give each.
///
/// How slices are put together into chunks is up to the data set, as with any other.
///
/// ```
/// use qjam::{DataSet, Records};
///
/// struct Squares(u64);
/// impl Records for Squares {
///     type Record = u64;
///     fn chunks(&self) -> usize {
///         self.0 as usize
///     }
///     fn slice(&self, i: usize) -> std::io::Result<u64> {
///         Ok(i as u64 * i as u64)
///     }
/// }
///
/// let data = DataSet::custom(Squares(10)).unwrap().partitions(2).unwrap();
/// assert_eq!(data.chunk(1).unwrap()[..], [25, 36, 49, 64, 81]);
/// ```
pub trait Records {
    /// What a slice is.
    type Record: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Number of slices.
    fn chunks(&self) -> usize;

    /// One of them.
    fn slice(&self, i: usize) -> io::Result<Self::Record>;
}
