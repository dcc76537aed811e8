//! What the macros refer to. Not for use by hand; it may change at any time.

pub use crate::registry::{Entry, FUNCTIONS, build, kind_of, name_of};
pub use linkme;

use crate::{Chunk, MergeError, Params, Reduce, State, Wire};

/// Compiles only for what can be a function's parameters.
pub fn is_params<T: Params + ?Sized>() {}

/// Compiles only for what can be a function's chunk.
pub fn is_chunk<T: Chunk>() {}

/// Compiles only for what a map can return.
pub fn is_output<T: Reduce + Wire>() {}

/// Compiles only for what a fold can accumulate.
pub fn is_accumulator<T: Reduce + Wire + Default>() {}

/// Compiles only for what a function may keep with such a chunk.
pub fn is_state<S: State<Chunk = C>, C: Chunk>() {}

/// `merge` in terms of `try_merge`, for callers who have no way to deal with an error.
#[track_caller]
pub fn merged(result: Result<(), MergeError>) {
    if let Err(error) = result {
        panic!("{error}");
    }
}
