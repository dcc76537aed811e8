//! How two neighbouring results become one.
//!
//! A function gives a partial result per chunk; partials meet along a fixed tree, left neighbour with right
//! neighbour, on the workers and on the master alike. What *become one* means is the result type's [`Reduce`]. Numbers
//! add up; sequences, tuples and structs do so element by element; anything else is yours to define, as long as it is
//! associative.
//!
//! Results that don't fit together (vectors of different lengths, an integer that overflows) are a [`MergeError`] that
//! says which field it was.

mod error;
mod joined;
mod slab;

pub use error::MergeError;
pub use joined::Joined;

use crate::codec::Serde;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

/// A result that can take in its right neighbour.
///
/// The merge must be associative, `(a · b) · c = a · (b · c)`; it need not be commutative, because neighbours always
/// come in the order of their chunks.
///
/// `#[derive(qjam::Sum)]` gives it to a struct field by field. Written by hand, it is one method:
///
/// ```
/// #[derive(qjam::Wire, Debug, PartialEq)]
/// struct Longest(String);
///
/// impl qjam::Reduce for Longest {
///     fn merge(&mut self, right: Self) {
///         if right.0.len() > self.0.len() {
///             *self = right;
///         }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "two `{Self}` cannot be combined into one",
    label = "`qjam::Reduce` is missing",
    note = "add `#[derive(qjam::Sum)]` to add up field by field, or implement `qjam::Reduce`"
)]
pub trait Reduce: Sized {
    /// Takes in the right neighbour.
    fn merge(&mut self, right: Self);

    /// Takes in the right neighbour, or says why it cannot. This is what the system calls.
    fn try_merge(&mut self, right: Self) -> Result<(), MergeError> {
        self.merge(right);
        Ok(())
    }
}

/// `merge` for a type whose `try_merge` does the work.
macro_rules! merge_or_panic {
    () => {
        #[inline]
        fn merge(&mut self, right: Self) {
            if let Err(error) = self.try_merge(right) {
                panic!("{error}");
            }
        }
    };
}

macro_rules! floats {
    ($($kind:ident)*) => {$(
        impl Reduce for $kind {
            #[inline]
            fn merge(&mut self, right: Self) {
                *self += right;
            }
        }
    )*};
}

floats!(f32 f64);

macro_rules! integers {
    ($($kind:ident)*) => {$(
        impl Reduce for $kind {
            merge_or_panic!();

            #[inline]
            fn try_merge(&mut self, right: Self) -> Result<(), MergeError> {
                match self.checked_add(right) {
                    Some(sum) => *self = sum,
                    None => return Err(MergeError::Overflow { path: String::new(), kind: stringify!($kind) }),
                }
                Ok(())
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

impl Reduce for () {
    fn merge(&mut self, (): Self) {}
}

impl<T> Reduce for PhantomData<T> {
    fn merge(&mut self, _: Self) {}
}

impl<T: Reduce> Reduce for Vec<T> {
    merge_or_panic!();

    #[inline]
    fn try_merge(&mut self, right: Self) -> Result<(), MergeError> {
        if self.len() != right.len() {
            return Err(MergeError::Lengths { path: String::new(), left: self.len(), right: right.len() });
        }
        // For floats nothing in here can fail and the loop becomes vector additions.
        for (i, (left, right)) in self.iter_mut().zip(right).enumerate() {
            left.try_merge(right).map_err(|error| error.at(i))?;
        }
        Ok(())
    }
}

impl<T: Reduce, const N: usize> Reduce for [T; N] {
    merge_or_panic!();

    #[inline]
    fn try_merge(&mut self, right: Self) -> Result<(), MergeError> {
        for (i, (left, right)) in self.iter_mut().zip(right).enumerate() {
            left.try_merge(right).map_err(|error| error.at(i))?;
        }
        Ok(())
    }
}

/// `None` is neutral: it stands for a chunk that had nothing to say.
impl<T: Reduce> Reduce for Option<T> {
    merge_or_panic!();

    fn try_merge(&mut self, right: Self) -> Result<(), MergeError> {
        match (self.as_mut(), right) {
            (Some(left), Some(right)) => left.try_merge(right),
            (None, right) => {
                *self = right;
                Ok(())
            }
            (Some(_), None) => Ok(()),
        }
    }
}

impl<T: Reduce> Reduce for Box<T> {
    merge_or_panic!();

    fn try_merge(&mut self, right: Self) -> Result<(), MergeError> {
        (**self).try_merge(*right)
    }
}

impl<T: Reduce> Reduce for Serde<T> {
    merge_or_panic!();

    fn try_merge(&mut self, right: Self) -> Result<(), MergeError> {
        self.0.try_merge(right.0)
    }
}

/// The union of both; values under the same key are merged.
impl<K: Ord + fmt::Debug, V: Reduce> Reduce for BTreeMap<K, V> {
    merge_or_panic!();

    fn try_merge(&mut self, right: Self) -> Result<(), MergeError> {
        for (key, value) in right {
            match self.get_mut(&key) {
                Some(left) => left.try_merge(value).map_err(|error| error.at(format_args!("{key:?}")))?,
                None => {
                    self.insert(key, value);
                }
            }
        }
        Ok(())
    }
}

/// The same. Of several keys whose values do not go together the least is named, so that the error does not depend on the
/// order in which the map is gone through either.
impl<K: Ord + Hash + fmt::Debug, V: Reduce, S: BuildHasher> Reduce for HashMap<K, V, S> {
    merge_or_panic!();

    fn try_merge(&mut self, right: Self) -> Result<(), MergeError> {
        let mut refused: Option<(K, MergeError)> = None;
        for (key, value) in right {
            match self.get_mut(&key) {
                Some(left) => {
                    if let Err(error) = left.try_merge(value)
                        && refused.as_ref().is_none_or(|(least, _)| key < *least)
                    {
                        refused = Some((key, error));
                    }
                }
                None => drop(self.insert(key, value)),
            }
        }
        refused.map_or(Ok(()), |(key, error)| Err(error.at(format_args!("{key:?}"))))
    }
}

macro_rules! tuple {
    ($($name:ident $field:tt),+) => {
        impl<$($name: Reduce),+> Reduce for ($($name,)+) {
            merge_or_panic!();

            #[inline]
            fn try_merge(&mut self, right: Self) -> Result<(), MergeError> {
                $(self.$field.try_merge(right.$field).map_err(|error| error.in_field(stringify!($field)))?;)+
                Ok(())
            }
        }
    };
}

tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

#[cfg(test)]
mod tests;
