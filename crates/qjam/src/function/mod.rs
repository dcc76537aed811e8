//! Functions with their types taken off.
//!
//! A user writes an ordinary function; [`Job`] recognises its shape, and [`Job::erase`] turns it into a [`Function`]:
//! an object with a name that takes parameters, chunks and partial results as bytes or as `Any`. Everything between
//! the master and a worker deals in these, so that no engine has type parameters.
//!
//! | shape | how |
//! |---|---|
//! | `fn(&P, &C) -> R` | map: one result per chunk |
//! | `fn(&P, &C, &Ctx) -> R` | the same with a [`Ctx`] |
//! | `fn(&P, &C, &mut A)` | fold: chunks of a block one after the other into one accumulator |
//! | `fn(&P, &C, &mut A, &Ctx)` | the same with a [`Ctx`] |
//! | `fn(&P, &C, &mut S) -> R` | step: one result per chunk, whose [`State`] it changes |
//! | `fn(&P, &C, &mut S, &Ctx) -> R` | the same with a [`Ctx`] |
//! | `fn(&P, &C, &S) -> R` | step that only reads: one result per chunk, whose state stays as it is |
//! | `fn(&P, &C, &S, &Ctx) -> R` | the same with a [`Ctx`] |
//!
//! A function's name is its path in the program. Master and workers are the same executable, so the path means the
//! same on both sides; the [`registry`](crate::registry) finds the function again by it.

pub(crate) mod gather;
pub(crate) mod language;
mod posted;
pub mod state;

use crate::chunk::{Chunk, ChunkError, Header};
use crate::codec::{DecodeError, Decoder, Encoder, Params, Wire};
use crate::ctx::Ctx;
use crate::reduce::{MergeError, Reduce};
use bytes::Bytes;
use posted::Posted;
use qjam_core::job::{Fault, FaultKind};
use qjam_core::mail::Outbox;
use qjam_data::mail::Sealed;
use serde::{Deserialize, Serialize};
use state::{AnyState, ErasedState, Of, State};
use std::any::{Any, TypeId, type_name_of_val};
use std::borrow::Borrow;
use std::marker::PhantomData;
use std::sync::Arc;

/// This file, which is where user code is called from, as backtraces name it.
pub(crate) const FILE: &str = file!();

/// A partial result whose type only its function knows.
pub type AnyBox = Box<dyn Any + Send>;

/// Parameters or an opened chunk, whose type only their function knows.
pub type AnyShared = Arc<dyn Any + Send + Sync>;

/// A function with its types taken off.
pub type Function = Arc<dyn Erased>;

/// Whether a function gives a result per chunk or adds chunks into an accumulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Mode {
    /// One result per chunk.
    Map,
    /// One accumulator per block.
    Fold,
    /// One result per chunk, from the chunk's state.
    Step,
}

/// What an engine can do with a function.
///
/// Values of type `Any` must come from the same function's own methods; anything else is a mistake of the caller and
/// panics.
pub trait Erased: Send + Sync {
    /// The function's path in the program.
    fn name(&self) -> &'static str;

    /// Map or fold.
    fn mode(&self) -> Mode;

    /// The type that chunks are opened as.
    fn chunk_type(&self) -> TypeId;

    /// Reads parameters.
    fn open_params(&self, payload: Bytes) -> Result<AnyShared, DecodeError>;

    /// Opens a chunk.
    fn open_chunk(&self, header: &Header, bytes: Bytes) -> Result<AnyShared, ChunkError>;

    /// A fold's accumulator before its first chunk. Panics for a map, which has none.
    fn empty(&self) -> AnyBox;

    /// A map's result for one chunk. Panics for a fold.
    fn map(&self, params: &(dyn Any + Send + Sync), chunk: &(dyn Any + Send + Sync), ctx: &Ctx) -> AnyBox;

    /// Adds one chunk into a fold's accumulator. Panics for a map.
    fn fold(
        &self,
        params: &(dyn Any + Send + Sync),
        chunk: &(dyn Any + Send + Sync),
        acc: &mut AnyBox,
        ctx: &Ctx,
    );

    /// What it does with states: nothing, unless it is a step.
    fn state(&self) -> Option<&'static dyn ErasedState>;

    /// A step's result for one chunk. Panics for a function without a state.
    fn step(
        &self,
        params: &(dyn Any + Send + Sync),
        chunk: &(dyn Any + Send + Sync),
        state: &mut AnyState,
        ctx: &Ctx,
    ) -> AnyBox;

    /// Whether a step leaves the state as it was.
    fn only_looks(&self) -> bool {
        false
    }

    /// Whether it is a function of ours, whose rounds are not counted among the user's.
    fn is_internal(&self) -> bool {
        false
    }

    /// Whether it is given a [`Ctx`].
    fn takes_context(&self) -> bool;

    /// Merges the right neighbour into the left one.
    fn merge(&self, left: &mut AnyBox, right: AnyBox) -> Result<(), MergeError>;

    /// Encodes a partial result, lending its buffers to `f`.
    fn encode(&self, partial: &AnyBox, f: &mut dyn FnMut(&Encoder<'_>));

    /// Reads a partial result.
    fn decode(&self, payload: Bytes) -> Result<AnyBox, DecodeError>;

    /// Length of a partial result's payload.
    fn partial_bytes(&self, partial: &AnyBox) -> usize;

    /// Parts the value of a round from the letters that its blocks have sent. All other methods take partial results with
    /// their letters.
    fn unpost(&self, whole: AnyBox) -> (AnyBox, Outbox<Sealed>);
}

/// No state: what functions have that [`Master::run`](crate::Master::run) and its like take.
#[diagnostic::on_unimplemented(
    message = "this function changes the state `{Self}` of a chunk, and a round over a data set has no states: hold them with `let mut held = master.hold::<{Self}>(&data)?`, then `held.run(f, &params)`",
    label = "has the state `{Self}`"
)]
pub trait Stateless {}

impl Stateless for () {}

/// An ordinary function used as a job.
///
/// The marker `M` only tells the shapes apart and is always inferred. Implemented for every function of one of
/// these shapes; you call it through the master, not yourself.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be run over chunks",
    label = "not a function of one of the shapes below, or one of its types lacks a trait",
    note = "map:  `fn(&P, &C) -> R` or `fn(&P, &C, &Ctx) -> R`",
    note = "fold: `fn(&P, &C, &mut A)` or `fn(&P, &C, &mut A, &Ctx)`",
    note = "step: `fn(&P, &C, &mut S) -> R` or `fn(&P, &C, &mut S, &Ctx) -> R`, with S: `qjam::State`; with `&S` if it only reads the state",
    note = "P: `qjam::Wire` or a slice of numbers or `str`; C: a chunk such as `qjam::Dense<f64>`; R and A: `qjam::Wire` and `qjam::Reduce`, and A: `Default`",
    note = "`#[qjam::map]` or `#[qjam::fold]` on the function shows which of its types it is"
)]
pub trait Job<M>: Copy + Send + Sync + 'static {
    /// What it takes first: the same for all chunks.
    type Params: Params + ?Sized + 'static;
    /// What it takes second.
    type Chunk: Chunk;
    /// What it gives, or accumulates.
    type Output: Reduce + Wire;
    /// The state of a chunk that it changes; `()` if it has none. A function with a state is run by a
    /// [`Held`](crate::Held), one without by a [`Master`](crate::Master).
    type State: 'static;

    /// Takes its types off.
    fn erase(self) -> Function;
}

/// Tells a step from a fold, whose function may have the same type.
pub struct Stateful;

/// Tells a step that only reads its state from a map with a context.
pub struct Reading;

/// The shapes, as types.
type Map<P, C, R> = fn(&P, &C) -> R;
type MapCtx<P, C, R> = fn(&P, &C, &Ctx) -> R;
type Fold<P, C, A> = fn(&P, &C, &mut A);
type FoldCtx<P, C, A> = fn(&P, &C, &mut A, &Ctx);
type Step<P, C, S, R> = (Stateful, fn(&P, &C, &mut S) -> R);
type StepCtx<P, C, S, R> = (Stateful, fn(&P, &C, &mut S, &Ctx) -> R);
type Read<P, C, S, R> = (Reading, fn(&P, &C, &S) -> R);
type ReadCtx<P, C, S, R> = (Reading, fn(&P, &C, &S, &Ctx) -> R);

macro_rules! job {
    ($shape:ident, $mode:ident, $out:ident: $($bound:path),*; $($call:tt)*) => {
        impl<F, P, C, $out> Job<$shape<P, C, $out>> for F
        where
            F: $($call)* + Copy + Send + Sync + 'static,
            P: Params + ?Sized + 'static,
            C: Chunk,
            $out: Reduce + Wire $(+ $bound)*,
        {
            type Params = P;
            type Chunk = C;
            type Output = $out;
            type State = ();

            fn erase(self) -> Function {
                Arc::new(Plain::<F, $shape<P, C, $out>> { call: self, shape: PhantomData })
            }
        }

        impl<F, P, C, $out> Shape for Plain<F, $shape<P, C, $out>>
        where
            F: $($call)* + Copy + Send + Sync + 'static,
            P: Params + ?Sized + 'static,
            C: Chunk,
            $out: Reduce + Wire $(+ $bound)*,
        {
            type Params = P;
            type Chunk = C;
            type Output = $out;
            const MODE: Mode = Mode::$mode;

            fn name(&self) -> &'static str {
                type_name_of_val(&self.call)
            }

            shape_calls!($shape);
        }
    };
}

macro_rules! step_job {
    ($shape:ident; $($call:tt)*) => {
        impl<F, P, C, S, R> Job<$shape<P, C, S, R>> for F
        where
            F: $($call)* + Copy + Send + Sync + 'static,
            P: Params + ?Sized + 'static,
            C: Chunk,
            S: State<Chunk = C>,
            R: Reduce + Wire,
        {
            type Params = P;
            type Chunk = C;
            type Output = R;
            type State = S;

            fn erase(self) -> Function {
                Arc::new(Plain::<F, $shape<P, C, S, R>> { call: self, shape: PhantomData })
            }
        }

        impl<F, P, C, S, R> Shape for Plain<F, $shape<P, C, S, R>>
        where
            F: $($call)* + Copy + Send + Sync + 'static,
            P: Params + ?Sized + 'static,
            C: Chunk,
            S: State<Chunk = C>,
            R: Reduce + Wire,
        {
            type Params = P;
            type Chunk = C;
            type Output = R;
            const MODE: Mode = Mode::Step;

            fn name(&self) -> &'static str {
                type_name_of_val(&self.call)
            }

            fn state(&self) -> Option<&'static dyn ErasedState> {
                Some(Of::<S>::ERASED)
            }

            shape_calls!($shape);
        }
    };
}

/// What differs between the shapes: how the function is called.
macro_rules! shape_calls {
    (Map) => {
        fn map(&self, params: &P, chunk: &C, _: &Ctx) -> R {
            (self.call)(params, chunk)
        }
        fn takes_context(&self) -> bool {
            false
        }
    };
    (MapCtx) => {
        fn map(&self, params: &P, chunk: &C, ctx: &Ctx) -> R {
            (self.call)(params, chunk, ctx)
        }
    };
    (Fold) => {
        fn empty(&self) -> A {
            A::default()
        }
        fn fold(&self, params: &P, chunk: &C, acc: &mut A, _: &Ctx) {
            (self.call)(params, chunk, acc);
        }
        fn takes_context(&self) -> bool {
            false
        }
    };
    (FoldCtx) => {
        fn empty(&self) -> A {
            A::default()
        }
        fn fold(&self, params: &P, chunk: &C, acc: &mut A, ctx: &Ctx) {
            (self.call)(params, chunk, acc, ctx);
        }
    };
    (Step) => {
        fn step(&self, params: &P, chunk: &C, state: &mut AnyState, _: &Ctx) -> R {
            (self.call)(params, chunk, Of::<S>::of(state))
        }
    };
    (Read) => {
        fn step(&self, params: &P, chunk: &C, state: &mut AnyState, _: &Ctx) -> R {
            (self.call)(params, chunk, Of::<S>::of(state))
        }
        fn only_looks(&self) -> bool {
            true
        }
    };
    (ReadCtx) => {
        fn step(&self, params: &P, chunk: &C, state: &mut AnyState, ctx: &Ctx) -> R {
            (self.call)(params, chunk, Of::<S>::of(state), ctx)
        }
        fn only_looks(&self) -> bool {
            true
        }
    };
    (StepCtx) => {
        fn step(&self, params: &P, chunk: &C, state: &mut AnyState, ctx: &Ctx) -> R {
            (self.call)(params, chunk, Of::<S>::of(state), ctx)
        }
    };
}

/// A function together with its shape.
struct Plain<F, S> {
    call: F,
    shape: PhantomData<fn() -> S>,
}

/// A function whose types are still known; [`Erased`] is built on this once for all shapes.
pub(crate) trait Shape: Send + Sync {
    type Params: Params + ?Sized + 'static;
    type Chunk: Chunk;
    type Output: Reduce + Wire;
    const MODE: Mode;

    fn name(&self) -> &'static str;

    fn empty(&self) -> Self::Output {
        panic!("{} is a map and has no accumulator", self.name())
    }

    fn map(&self, _: &Self::Params, _: &Self::Chunk, _: &Ctx) -> Self::Output {
        panic!("{} is a fold and gives no result per chunk", self.name())
    }

    fn fold(&self, _: &Self::Params, _: &Self::Chunk, _: &mut Self::Output, _: &Ctx) {
        panic!("{} is a map and does not accumulate", self.name())
    }

    fn state(&self) -> Option<&'static dyn ErasedState> {
        None
    }

    fn step(&self, _: &Self::Params, _: &Self::Chunk, _: &mut AnyState, _: &Ctx) -> Self::Output {
        panic!("{} has no state", self.name())
    }

    fn only_looks(&self) -> bool {
        false
    }

    fn is_internal(&self) -> bool {
        false
    }

    fn takes_context(&self) -> bool {
        true
    }
}

job!(Map, Map, R:; Fn(&P, &C) -> R);
job!(MapCtx, Map, R:; Fn(&P, &C, &Ctx) -> R);
job!(Fold, Fold, A: Default; Fn(&P, &C, &mut A));
job!(FoldCtx, Fold, A: Default; Fn(&P, &C, &mut A, &Ctx));
step_job!(Step; Fn(&P, &C, &mut S) -> R);
step_job!(StepCtx; Fn(&P, &C, &mut S, &Ctx) -> R);
step_job!(Read; Fn(&P, &C, &S) -> R);
step_job!(ReadCtx; Fn(&P, &C, &S, &Ctx) -> R);

/// Takes `Any` back to what it was made as.
fn shared<'a, T: 'static>(value: &'a (dyn Any + Send + Sync), what: &str) -> &'a T {
    value.downcast_ref().unwrap_or_else(|| panic!("{what} of another function"))
}

fn partial<T: 'static>(value: &AnyBox) -> &T {
    (**value).downcast_ref().expect("a partial result of another function")
}

fn partial_mut<T: 'static>(value: &mut AnyBox) -> &mut T {
    (**value).downcast_mut().expect("a partial result of another function")
}

/// What is done with the results of a shape, whether or not letters belong to them.
macro_rules! with_result_type {
    ($shape:ident, |$carried:ident| $body:expr) => {
        if has_mail($shape) {
            type $carried<S> = Posted<<S as Shape>::Output>;
            $body
        } else {
            type $carried<S> = <S as Shape>::Output;
            $body
        }
    };
}

/// Whether its results come with letters: it is a step that changes states.
fn has_mail<S: Shape>(shape: &S) -> bool {
    S::MODE == Mode::Step && !Shape::only_looks(shape)
}

impl<S: Shape> Erased for S {
    fn name(&self) -> &'static str {
        Shape::name(self)
    }

    fn mode(&self) -> Mode {
        S::MODE
    }

    fn chunk_type(&self) -> TypeId {
        TypeId::of::<S::Chunk>()
    }

    fn open_params(&self, payload: Bytes) -> Result<AnyShared, DecodeError> {
        let mut input = Decoder::new(payload)?;
        let params = S::Params::decode_params(&mut input)?;
        input.finish()?;
        Ok(Arc::new(params))
    }

    fn open_chunk(&self, header: &Header, bytes: Bytes) -> Result<AnyShared, ChunkError> {
        Ok(Arc::new(S::Chunk::open(header, bytes)?))
    }

    fn empty(&self) -> AnyBox {
        Box::new(Shape::empty(self))
    }

    fn map(&self, params: &(dyn Any + Send + Sync), chunk: &(dyn Any + Send + Sync), ctx: &Ctx) -> AnyBox {
        let params: &<S::Params as Params>::Owned = shared(params, "parameters");
        Box::new(Shape::map(self, params.borrow(), shared(chunk, "a chunk"), ctx))
    }

    fn fold(
        &self,
        params: &(dyn Any + Send + Sync),
        chunk: &(dyn Any + Send + Sync),
        acc: &mut AnyBox,
        ctx: &Ctx,
    ) {
        let params: &<S::Params as Params>::Owned = shared(params, "parameters");
        Shape::fold(self, params.borrow(), shared(chunk, "a chunk"), partial_mut(acc), ctx);
    }

    fn state(&self) -> Option<&'static dyn ErasedState> {
        Shape::state(self)
    }

    fn step(
        &self,
        params: &(dyn Any + Send + Sync),
        chunk: &(dyn Any + Send + Sync),
        state: &mut AnyState,
        ctx: &Ctx,
    ) -> AnyBox {
        let params: &<S::Params as Params>::Owned = shared(params, "parameters");
        let value = Shape::step(self, params.borrow(), shared(chunk, "a chunk"), state, ctx);
        match has_mail(self) {
            true => Box::new(Posted { value, outbox: ctx.take_sent() }),
            false => Box::new(value),
        }
    }

    fn only_looks(&self) -> bool {
        Shape::only_looks(self)
    }

    fn is_internal(&self) -> bool {
        Shape::is_internal(self)
    }

    fn takes_context(&self) -> bool {
        Shape::takes_context(self)
    }

    fn merge(&self, left: &mut AnyBox, right: AnyBox) -> Result<(), MergeError> {
        with_result_type!(self, |Carried| {
            let right = right.downcast::<Carried<S>>().expect("a partial result of another function");
            partial_mut::<Carried<S>>(left).try_merge(*right)
        })
    }

    fn encode(&self, value: &AnyBox, f: &mut dyn FnMut(&Encoder<'_>)) {
        let mut out = Encoder::new();
        with_result_type!(self, |Carried| partial::<Carried<S>>(value).encode(&mut out));
        f(&out);
    }

    fn decode(&self, payload: Bytes) -> Result<AnyBox, DecodeError> {
        let mut input = Decoder::new(payload)?;
        let value: AnyBox = with_result_type!(self, |Carried| Box::new(<Carried<S>>::decode(&mut input)?));
        input.finish()?;
        Ok(value)
    }

    fn partial_bytes(&self, value: &AnyBox) -> usize {
        let mut out = Encoder::new();
        with_result_type!(self, |Carried| partial::<Carried<S>>(value).encode(&mut out));
        out.payload_bytes()
    }

    fn unpost(&self, whole: AnyBox) -> (AnyBox, Outbox<Sealed>) {
        if !has_mail(self) {
            return (whole, Outbox::default());
        }
        let posted = whole.downcast::<Posted<S::Output>>().expect("a partial result of another function");
        let Posted { value, outbox } = *posted;
        (Box::new(value), outbox)
    }
}

/// The fault of a round whose results could not be combined, where no single chunk is to blame.
pub(crate) fn merge_fault(error: &MergeError) -> Fault {
    Fault {
        kind: FaultKind::Merge,
        chunk: None,
        message: error.to_string(),
        location: None,
        backtrace: None,
        carried: Vec::new(),
    }
}
