//! Functions of ours over chunks of records: how many there are, and the first of them.
//!
//! Like a look at states they run as the user's functions do. A worker finds them by the name of their kind of chunk, which
//! the registered functions over records name.

use super::{Function, Shape};
use crate::ctx::Ctx;
use crate::function::Mode;
use qjam_data::Joined;
use qjam_data::derived::Recorded;
use qjam_data::derived::record::{ErasedKind, KindOf};
use std::any::type_name;
use std::marker::PhantomData;
use std::sync::Arc;

/// What is before the name of a kind of chunk in the names of these functions.
pub(crate) const COUNT: &str = "the number of records of ";
pub(crate) const OWN: &str = "the records of ";

/// What can be done with a kind of chunk of records.
pub(crate) trait Gathers: Send + Sync {
    /// Opens chunks and goes through their records.
    fn records(&self) -> &'static dyn ErasedKind;

    /// Counts records.
    fn count(&self) -> Function;

    /// Brings the first records of each chunk home; its parameters say how many.
    fn own(&self) -> Function;
}

/// The functions of one kind of chunk.
pub(crate) struct Gather<C>(PhantomData<fn() -> C>);

impl<C: Recorded> Gather<C> {
    pub(crate) const ERASED: &'static dyn Gathers = &Gather::<C>(PhantomData);
}

impl<C: Recorded> Gathers for Gather<C> {
    fn records(&self) -> &'static dyn ErasedKind {
        KindOf::<C>::ERASED
    }

    fn count(&self) -> Function {
        Arc::new(Count::<C>(PhantomData))
    }

    fn own(&self) -> Function {
        Arc::new(Own::<C>(PhantomData))
    }
}

struct Count<C>(PhantomData<fn() -> C>);

impl<C: Recorded> Shape for Count<C> {
    type Params = ();
    type Chunk = C;
    type Output = u64;
    const MODE: Mode = Mode::Map;

    fn name(&self) -> &'static str {
        named(COUNT, type_name::<C>())
    }

    fn map(&self, (): &(), chunk: &C, _: &Ctx) -> u64 {
        chunk.count() as u64
    }

    fn takes_context(&self) -> bool {
        false
    }
}

struct Own<C>(PhantomData<fn() -> C>);

impl<C: Recorded> Shape for Own<C> {
    type Params = u64;
    type Chunk = C;
    type Output = Joined<C::Sent>;
    const MODE: Mode = Mode::Map;

    fn name(&self) -> &'static str {
        named(OWN, type_name::<C>())
    }

    fn map(&self, most: &u64, chunk: &C, _: &Ctx) -> Joined<C::Sent> {
        Joined(chunk.own(usize::try_from(*most).unwrap_or(usize::MAX)))
    }

    fn takes_context(&self) -> bool {
        false
    }
}

/// The name of a function. There are few kinds of chunks, and names are made once.
fn named(what: &'static str, kind: &'static str) -> &'static str {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, PoisonError};
    static NAMES: Mutex<BTreeMap<(&'static str, &'static str), &'static str>> = Mutex::new(BTreeMap::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.entry((what, kind)).or_insert_with(|| format!("{what}{kind}").leak())
}
