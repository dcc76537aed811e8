//! How two neighbouring results become one.
//!
//! A function gives a partial result per chunk; partials meet along a fixed tree, left neighbour with right
//! neighbour, on the workers and on the master alike. What *become one* means is the result type's [`Reduce`]. Numbers
//! add up; sequences, tuples and structs do so element by element; anything else is yours to define, as long as it is
//! associative.
//!
//! Results that don't fit together (vectors of different lengths, an integer that overflows) are a [`MergeError`] that
//! says which field it was.

use crate::codec::Serde;
use std::collections::BTreeMap;
use std::fmt;
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

/// Why two results do not go together.
///
/// The path says where in the result: `grad`, `layers[3].weights`, or nothing when the result itself is meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// Two sequences have different lengths.
    #[error(
        "{} of two partial results have {left} and {right} elements; a function must give the same length for every chunk",
        Subject(path)
    )]
    Lengths {
        /// Where in the result.
        path: String,
        /// Elements on the left.
        left: usize,
        /// Elements on the right.
        right: usize,
    },
    /// The sum of two integers does not fit their type.
    #[error("{} overflow {kind} when added; use a wider integer or a float", Subject(path))]
    Overflow {
        /// Where in the result.
        path: String,
        /// The integer type.
        kind: &'static str,
    },
    /// The result's own `try_merge` refused.
    #[error("{} of two partial results cannot be merged: {reason}", Subject(path))]
    Refused {
        /// Where in the result.
        path: String,
        /// What its author says.
        reason: String,
    },
}

/// Puts a path into a sentence.
struct Subject<'a>(&'a str);

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("the values") } else { write!(f, "the values of `{}`", self.0) }
    }
}

impl MergeError {
    /// For a hand-written [`try_merge`](Reduce::try_merge) that has a reason not to.
    pub fn refused(reason: impl Into<String>) -> Self {
        MergeError::Refused { path: String::new(), reason: reason.into() }
    }

    /// The same error, seen from the struct that has the value as its field.
    #[must_use]
    pub fn in_field(self, name: &str) -> Self {
        self.under(|rest| match rest {
            "" => name.to_owned(),
            rest if rest.starts_with('[') => format!("{name}{rest}"),
            rest => format!("{name}.{rest}"),
        })
    }

    /// The same error, seen from the sequence or map that has the value at an index or key.
    #[must_use]
    pub fn at(self, index: impl fmt::Display) -> Self {
        self.under(|rest| match rest {
            rest if rest.is_empty() || rest.starts_with('[') => format!("[{index}]{rest}"),
            rest => format!("[{index}].{rest}"),
        })
    }

    /// Where in the result.
    pub fn path(&self) -> &str {
        match self {
            MergeError::Lengths { path, .. }
            | MergeError::Overflow { path, .. }
            | MergeError::Refused { path, .. } => path,
        }
    }

    fn under(mut self, outer: impl FnOnce(&str) -> String) -> Self {
        match &mut self {
            MergeError::Lengths { path, .. }
            | MergeError::Overflow { path, .. }
            | MergeError::Refused { path, .. } => *path = outer(path),
        }
        self
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
mod tests {
    use super::*;
    use crate::Rng;

    fn merged<T: Reduce>(mut left: T, right: T) -> Result<T, MergeError> {
        left.try_merge(right).map(|()| left)
    }

    #[test]
    fn numbers_add_and_sequences_add_element_by_element() {
        assert_eq!(merged(1.5, 2.0), Ok(3.5));
        assert_eq!(merged(-3_i32, 5), Ok(2));
        assert_eq!(merged(vec![1, 2], vec![10, 20]), Ok(vec![11, 22]));
        assert_eq!(merged([1.0, 2.0], [0.5, 0.5]), Ok([1.5, 2.5]));
        assert_eq!(merged(((), 1_u8, vec![[1_u64; 2]]), ((), 2, vec![[5, 6]])), Ok(((), 3, vec![[6, 7]])));
        assert_eq!(merged(Box::new(1), Box::new(2)), Ok(Box::new(3)));
        assert_eq!(merged(Serde(1), Serde(2)), Ok(Serde(3)));
    }

    #[test]
    fn none_is_neutral() {
        assert_eq!(merged(None, Some(3)), Ok(Some(3)));
        assert_eq!(merged(Some(3), None), Ok(Some(3)));
        assert_eq!(merged(Some(3), Some(4)), Ok(Some(7)));
        assert_eq!(merged(None::<u8>, None), Ok(None));
    }

    #[test]
    fn maps_are_united() {
        let map = |pairs: &[(&'static str, u32)]| pairs.iter().copied().collect::<BTreeMap<_, _>>();
        let both = merged(map(&[("a", 1), ("b", 2)]), map(&[("b", 3), ("c", 4)]));
        assert_eq!(both, Ok(map(&[("a", 1), ("b", 5), ("c", 4)])));
    }

    #[test]
    fn unequal_lengths_are_an_error_with_a_path() {
        fn lengths<T>(path: &str, left: usize, right: usize) -> Result<T, MergeError> {
            Err(MergeError::Lengths { path: path.into(), left, right })
        }
        assert_eq!(merged(vec![1], vec![1, 2]), lengths("", 1, 2));
        assert_eq!(merged((0, vec![1.0]), (0, vec![])), lengths("1", 1, 0));
        assert_eq!(merged(vec![vec![1], vec![]], vec![vec![1], vec![2]]), lengths("[1]", 0, 1));
        assert_eq!(merged((vec![(vec![1], 2)], 0), (vec![(vec![], 2)], 0)), lengths("0[0].0", 1, 0));
        let nested = |n| BTreeMap::from([("word", [Some(vec![0; n])])]);
        assert_eq!(merged(nested(1), nested(2)).unwrap_err().path(), "[\"word\"][0]");
    }

    #[test]
    fn integer_overflow_is_an_error_and_not_a_wrong_sum() {
        fn overflow<T>(path: &str, kind: &'static str) -> Result<T, MergeError> {
            Err(MergeError::Overflow { path: path.into(), kind })
        }
        assert_eq!(merged(200_u8, 100), overflow("", "u8"));
        assert_eq!(merged(i64::MIN, -1), overflow("", "i64"));
        assert_eq!(merged(vec![0, u64::MAX], vec![1, 1]), overflow("[1]", "u64"));
    }

    #[test]
    fn errors_read_as_sentences() {
        let error = merged((vec![0_u8], 1), (vec![], 1)).unwrap_err().in_field("layers");
        assert_eq!(
            error.to_string(),
            "the values of `layers.0` of two partial results have 1 and 0 elements; a function must give the same \
             length for every chunk"
        );
        assert_eq!(
            merged(255_u8, 1).unwrap_err().to_string(),
            "the values overflow u8 when added; use a wider integer or a float"
        );
        let refused = MergeError::refused("other units").in_field("x").at(3);
        assert_eq!(
            refused.to_string(),
            "the values of `[3].x` of two partial results cannot be merged: other units"
        );
    }

    #[test]
    #[should_panic(expected = "1 and 2 elements")]
    fn merge_panics_where_there_is_no_way_to_return_an_error() {
        vec![1].merge(vec![1, 2]);
    }

    #[test]
    fn merging_is_associative_for_exact_values() {
        for seed in 0..50 {
            let rng = &mut Rng::keyed(seed, 0, 0);
            let mut draw = || {
                let some = (rng.below(2) == 1).then(|| rng.below(1000) as i32);
                let map =
                    (0..rng.below(6)).map(|_| (rng.below(8), rng.below(100))).collect::<BTreeMap<_, _>>();
                ((0..5).map(|_| rng.below(100)).collect::<Vec<_>>(), some, map)
            };
            let (a, b, c) = (draw(), draw(), draw());
            let left = merged(merged(a.clone(), b.clone()).unwrap(), c.clone()).unwrap();
            let right = merged(a, merged(b, c).unwrap()).unwrap();
            assert_eq!(left, right);
        }
    }
}
