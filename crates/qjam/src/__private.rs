//! What the macros refer to. Not for use by hand; it may change at any time.

pub use crate::registry::records::{Entry as RecordEntry, RECORD_FUNCTIONS, built as built_record};
pub use crate::registry::{Entry, FUNCTIONS, erased, erased_with};
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

/// The context of a call, or a state that is only read.
pub trait Context {
    /// There is such a type only for these. So a function that has something else in its place is registered with a type
    /// that is an error by itself, and the compiler says nothing more of it.
    type Right;
}

impl Context for crate::Ctx {
    type Right = ();
}

/// A state that is only read stands in the same place.
impl<S: State> Context for S {
    // By way of something that only a state has: of what is none the compiler then says just that.
    type Right = <S::Chunk as Unit>::Unit;
}

/// `()`, as a type that every type has.
pub trait Unit {
    /// `()`.
    type Unit;
}

impl<T> Unit for T {
    type Unit = ();
}

/// `merge` in terms of `try_merge`, for callers who have no way to deal with an error.
#[track_caller]
pub fn merged(result: Result<(), MergeError>) {
    if let Err(error) = result {
        panic!("{error}");
    }
}
