//! Adding up numbers that are seen in place.

use super::{MergeError, Reduce};
use crate::codec::{Number, Slab};
use crate::store::Spare;

/// Adds up number by number, into whichever of the two has memory of its own.
impl<T: Number + Reduce> Reduce for Slab<T> {
    fn merge(&mut self, right: Self) {
        if let Err(error) = self.try_merge(right) {
            panic!("{error}");
        }
    }

    fn try_merge(&mut self, mut right: Self) -> Result<(), MergeError> {
        if self.len() != right.len() {
            return Err(MergeError::Lengths { path: String::new(), left: self.len(), right: right.len() });
        }
        if let Some(left) = self.own_mut() {
            for (i, (left, right)) in left.iter_mut().zip(&*right).enumerate() {
                left.try_merge(*right).map_err(|error| error.at(i))?;
            }
            return Ok(());
        }
        let left = &**self;
        if let Some(right) = right.own_mut() {
            for (i, (left, right)) in left.iter().zip(right).enumerate() {
                *right = sum(*left, *right).map_err(|error| error.at(i))?;
            }
        } else {
            let mut spare = Spare::of(size_of_val(left));
            let out = bytemuck::cast_slice_mut(spare.as_mut_slice());
            for (i, ((left, right), out)) in left.iter().zip(&*right).zip(out).enumerate() {
                *out = sum(*left, *right).map_err(|error| error.at(i))?;
            }
            right = Slab::in_spare(spare, left.len());
        }
        *self = right;
        Ok(())
    }
}

#[inline]
fn sum<T: Reduce>(mut left: T, right: T) -> Result<T, MergeError> {
    left.try_merge(right)?;
    Ok(left)
}
