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

/// The context of a call, and nothing else.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither the chunk's state nor the context: a state is taken as `&mut {Self}`, and the context is `&qjam::Ctx`",
    label = "write `&mut {Self}` if this is the state"
)]
pub trait Context {
    /// There is such a type only for the context. So a function that has something else in its place is registered with a type
    /// that is an error by itself, and the compiler says nothing more of it.
    type Right;
}

impl Context for crate::Ctx {
    type Right = ();
}

/// `merge` in terms of `try_merge`, for callers who have no way to deal with an error.
#[track_caller]
pub fn merged(result: Result<(), MergeError>) {
    if let Err(error) = result {
        panic!("{error}");
    }
}
