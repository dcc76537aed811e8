//! Functions over single records, with their types taken off.
//!
//! | shape | used by |
//! |---|---|
//! | `fn(&P, &T) -> U` | [`map`](super::Derived::map); [`filter`](super::Derived::filter) where `U` is `bool` |
//! | `fn(&P, u64, &T) -> U` | [`map_numbered`](super::Derived::map_numbered) |
//! | `fn(&P, &T, &mut Vec<U>)` | [`flat_map`](super::Derived::flat_map), [`rows`](super::Derived::rows) |

use super::record::{AnyChunk, ErasedKind, Item, KindOf, Record};
use crate::chunk::Element;
use crate::codec::{DecodeError, Decoder, Params};
use bytes::Bytes;
use std::any::{Any, TypeId, type_name_of_val};
use std::borrow::Borrow;
use std::marker::PhantomData;
use std::sync::Arc;

/// One result for each record.
pub struct OneForEach;

/// One result for each record and its number.
pub struct OneForEachNumbered;

/// Any number of results for each record.
pub struct ManyForEach;

/// An ordinary function over a record.
///
/// The marker `M` only tells the shapes apart and is always inferred. Implemented for every function of one of these shapes;
/// `#[qjam::record]` on it lets workers find it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be run over records",
    label = "not a function of one of the shapes below, or one of its types lacks a trait",
    note = "`fn(&P, &T) -> U` for `map`, with `-> bool` for `filter`",
    note = "`fn(&P, u64, &T) -> U` for `map_numbered`",
    note = "`fn(&P, &T, &mut Vec<U>)` for `flat_map`, and for `rows` where `U` is a number",
    note = "P: `qjam::Wire` or a slice of numbers or `str`; T: the record, `str` for lines, `[f64]` for rows; U: `Clone` and serde's traits"
)]
pub trait RecordFunction<M>: Copy + Send + Sync + 'static {
    /// What it takes first: the same for all records.
    type Params: Params + ?Sized + 'static;
    /// The record.
    type Record: Record + ?Sized;
    /// What it gives.
    type Output: Record;
    /// How it gives it.
    type Shape;

    /// Takes its types off.
    fn erase(self) -> Arc<dyn ErasedRecordFunction>;
}

/// What can be done with a function whose types are not known. Values of type `Any` come from its own methods.
pub trait ErasedRecordFunction: Send + Sync {
    /// Its path in the program.
    fn name(&self) -> &'static str;

    /// Its type, which tells it from another of the same name.
    fn function_type(&self) -> TypeId;

    /// The kind of chunk whose records it takes.
    fn input(&self) -> &'static dyn ErasedKind;

    /// The kind of chunk that can have what it gives.
    fn output(&self) -> &'static dyn ErasedKind;

    /// Reads parameters.
    fn open_params(&self, payload: Bytes) -> Result<AnyChunk, DecodeError>;

    /// Calls it; gives each result to `next`.
    fn call(
        &self,
        params: &(dyn Any + Send + Sync),
        number: u64,
        item: &Item<'_>,
        next: &mut dyn FnMut(&mut Item<'_>),
    );

    /// Calls it; gives all results to `next` as one row, if they are numbers and there are any.
    fn row(
        &self,
        params: &(dyn Any + Send + Sync),
        item: &Item<'_>,
        next: &mut dyn FnMut(&mut Item<'_>, usize),
    );
}

type Each<P, T, U> = fn(&P, &T) -> U;
type Numbered<P, T, U> = fn(&P, u64, &T) -> U;
type Many<P, T, U> = fn(&P, &T, &mut Vec<U>);

/// A function together with its shape.
struct Plain<F, S> {
    call: F,
    shape: PhantomData<fn() -> S>,
}

macro_rules! record_function {
    ($marker:ident, $shape:ident; $($call:tt)*) => {
        impl<F, P, T, U> RecordFunction<$marker<P, T, U>> for F
        where
            F: $($call)* + Copy + Send + Sync + 'static,
            P: Params + ?Sized + 'static,
            T: Record + ?Sized,
            U: Record,
        {
            type Params = P;
            type Record = T;
            type Output = U;
            type Shape = $shape;

            fn erase(self) -> Arc<dyn ErasedRecordFunction> {
                Arc::new(Plain::<F, $marker<P, T, U>> { call: self, shape: PhantomData })
            }
        }

        impl<F, P, T, U> ErasedRecordFunction for Plain<F, $marker<P, T, U>>
        where
            F: $($call)* + Copy + Send + Sync + 'static,
            P: Params + ?Sized + 'static,
            T: Record + ?Sized,
            U: Record,
        {
            fn name(&self) -> &'static str {
                type_name_of_val(&self.call)
            }

            fn function_type(&self) -> TypeId {
                TypeId::of::<F>()
            }

            fn input(&self) -> &'static dyn ErasedKind {
                KindOf::<T::Chunk>::ERASED
            }

            fn output(&self) -> &'static dyn ErasedKind {
                KindOf::<U::Chunk>::ERASED
            }

            fn open_params(&self, payload: Bytes) -> Result<AnyChunk, DecodeError> {
                let mut input = Decoder::new(payload)?;
                let params = P::decode_params(&mut input)?;
                input.finish()?;
                Ok(Arc::new(params))
            }

            record_calls!($marker);
        }
    };
}

macro_rules! record_calls {
    (Each) => {
        fn call(
            &self,
            params: &(dyn Any + Send + Sync),
            _: u64,
            item: &Item<'_>,
            next: &mut dyn FnMut(&mut Item<'_>),
        ) {
            let mut made = Some((self.call)(params_of::<P>(params), record_of(item)));
            next(&mut Item::Owned(&mut made));
        }

        record_calls!(no row);
    };
    (Numbered) => {
        fn call(
            &self,
            params: &(dyn Any + Send + Sync),
            number: u64,
            item: &Item<'_>,
            next: &mut dyn FnMut(&mut Item<'_>),
        ) {
            let mut made = Some((self.call)(params_of::<P>(params), number, record_of(item)));
            next(&mut Item::Owned(&mut made));
        }

        record_calls!(no row);
    };
    (Many) => {
        fn call(
            &self,
            params: &(dyn Any + Send + Sync),
            _: u64,
            item: &Item<'_>,
            next: &mut dyn FnMut(&mut Item<'_>),
        ) {
            let mut made = Vec::new();
            (self.call)(params_of::<P>(params), record_of(item), &mut made);
            for one in made {
                next(&mut Item::Owned(&mut Some(one)));
            }
        }

        fn row(
            &self,
            params: &(dyn Any + Send + Sync),
            item: &Item<'_>,
            next: &mut dyn FnMut(&mut Item<'_>, usize),
        ) {
            let mut made: Vec<U> = Vec::new();
            (self.call)(params_of::<P>(params), record_of(item), &mut made);
            let made: &dyn Any = &made;
            let found = row_of::<f64>(made, next)
                || row_of::<f32>(made, next)
                || row_of::<i64>(made, next)
                || row_of::<i32>(made, next)
                || row_of::<u8>(made, next);
            assert!(found, "{} does not give numbers of which a row could be made", self.name());
        }
    };
    (no row) => {
        fn row(
            &self,
            _: &(dyn Any + Send + Sync),
            _: &Item<'_>,
            _: &mut dyn FnMut(&mut Item<'_>, usize),
        ) {
            panic!("{} does not put what it gives into a row", self.name());
        }
    };
}

record_function!(Each, OneForEach; Fn(&P, &T) -> U);
record_function!(Numbered, OneForEachNumbered; Fn(&P, u64, &T) -> U);
record_function!(Many, ManyForEach; Fn(&P, &T, &mut Vec<U>));

fn params_of<P: Params + ?Sized + 'static>(params: &(dyn Any + Send + Sync)) -> &P {
    let params: Option<&P::Owned> = params.downcast_ref();
    params.expect("parameters of another function").borrow()
}

fn record_of<'a, T: Record + ?Sized>(item: &'a Item<'_>) -> &'a T {
    T::of(item).expect("a record of another type: the functions of the derived data set do not fit together")
}

/// Whether these are numbers of this type; if there are some, they are the row.
fn row_of<T: Element>(made: &dyn Any, next: &mut dyn FnMut(&mut Item<'_>, usize)) -> bool {
    let Some(row) = made.downcast_ref::<Vec<T>>() else { return false };
    if !row.is_empty() {
        next(&mut Item::row(row), row.len());
    }
    true
}
