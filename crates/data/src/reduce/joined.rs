//! A result that keeps what its neighbours say, one after the other.

use super::{MergeError, Reduce};
use crate::codec::{DecodeError, Decoder, Encoder, Wire};
use std::ops::{Deref, DerefMut};

/// A sequence that is combined by putting the right neighbour's behind its own: the whole is in the order of the chunks.
///
/// A `Vec` is combined element by element and must have the same length for every chunk; this need not. The results of all
/// chunks come home in one value, so it is for what fits into the memory of the master.
///
/// ```
/// use qjam::{DataSet, Dense, Joined, Master};
///
/// #[qjam::map]
/// fn above(limit: &f64, x: &Dense<f64>) -> Joined<f64> {
///     x.as_slice().iter().copied().filter(|v| v > limit).collect()
/// }
///
/// let x = DataSet::dense((0..100_000).map(|n| f64::from(n % 50_001)).collect(), 1)?;
/// let found = Master::connect("local:2")?.run(above, &49_997.0, &x)?;
/// assert_eq!(found.0, [49_998.0, 49_999.0, 50_000.0, 49_998.0]);
/// # Ok::<(), qjam::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Joined<T>(pub Vec<T>);

impl<T> Reduce for Joined<T> {
    fn merge(&mut self, right: Self) {
        if self.0.is_empty() {
            *self = right;
        } else {
            self.0.extend(right.0);
        }
    }

    fn try_merge(&mut self, right: Self) -> Result<(), MergeError> {
        self.merge(right);
        Ok(())
    }
}

impl<T: Wire> Wire for Joined<T> {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        self.0.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Vec::decode(input).map(Joined)
    }
}

impl<T> Default for Joined<T> {
    fn default() -> Self {
        Joined(Vec::new())
    }
}

impl<T> FromIterator<T> for Joined<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Joined(items.into_iter().collect())
    }
}

impl<T> IntoIterator for Joined<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<T> Deref for Joined<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T> DerefMut for Joined<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}
