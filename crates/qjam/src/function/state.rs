//! State that stays with the data: what users say about it, and the same with its type taken off.
//!
//! A [`State`] is made from a chunk, changed by functions that take it as `&mut`, and copied, encoded and read by us.
//! Which states there are is known through the functions that use them: the registry has those, and each names its
//! state. So nothing has to be registered for a state itself.
//!
//! Two things are done with all states of a hold besides running the user's functions: looking how large they are, and
//! bringing them home. Both are one function of ours, [`Look`], that runs like the user's.

use super::{Function, Mode, Shape};
use crate::chunk::Chunk;
use crate::codec::{DecodeError, Decoder, Encoder, Wire};
use crate::ctx::Ctx;
use crate::reduce::{MergeError, Reduce};
use crate::store::AlignedBuf;
use bytes::Bytes;
use std::any::{Any, TypeId, type_name};
use std::marker::PhantomData;
use std::sync::Arc;

/// Memory that stays with a chunk of the data between rounds, on whichever worker has that chunk.
///
/// It is made once from its chunk, changed by functions that take it as `&mut`, and never travels but for checkpoints
/// and [`collect`](crate::Held::collect). It must depend on nothing but the chunk, the [`Ctx`] and what those functions
/// were given: then it can be made again with the same bits wherever it is lost.
///
/// ```
/// use qjam::{Ctx, DataSet, Dense, Master, State};
///
/// #[derive(Clone, qjam::Wire)]
/// struct Visits { rows: u64, rounds: u64 }
///
/// impl State for Visits {
///     type Chunk = Dense<f64>;
///     fn init(x: &Dense<f64>, _: &Ctx) -> Self {
///         Visits { rows: x.rows() as u64, rounds: 0 }
///     }
/// }
///
/// #[qjam::map]
/// fn visit(_: &(), _: &Dense<f64>, visits: &mut Visits) -> u64 {
///     visits.rounds += 1;
///     visits.rows * visits.rounds
/// }
///
/// let m = Master::connect("local:2")?;
/// let x = DataSet::dense(vec![1.0; 3_000], 3)?.partitions(4)?;
/// let mut held = m.hold::<Visits>(&x)?;
/// assert_eq!(held.run(visit, &())?, 1_000);
/// assert_eq!(held.run(visit, &())?, 2_000);
/// assert_eq!(held.collect()?[3].rounds, 2);
/// # Ok::<(), qjam::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a state that stays with a chunk",
    label = "`qjam::State` is missing",
    note = "`impl qjam::State for {Self}`, with `#[derive(Clone, qjam::Wire)]` on it",
    note = "the argument behind the chunk is its state, as `&mut S` or `&S`, or the context, as `&qjam::Ctx`"
)]
pub trait State: Wire + Clone {
    /// The kind of chunk it belongs to.
    type Chunk: Chunk;

    /// The state of a chunk before the first round. The context is that of no round: its number is the largest there is.
    fn init(chunk: &Self::Chunk, ctx: &Ctx) -> Self;

    /// Whether a worker runs all rounds of a partition on the slot that ran its first one.
    #[doc(hidden)]
    const STAYS_IN_SLOT: bool = false;

    /// Brings here what the state has elsewhere, so that it can be encoded.
    #[doc(hidden)]
    fn settle(&mut self, _chunk: &Self::Chunk, _ctx: &Ctx) {}
}

/// A state whose type only its functions know.
pub type AnyState = Box<dyn Any + Send>;

/// What can be done with states whose type is not known.
pub trait ErasedState: Send + Sync {
    /// The name of its type.
    fn name(&self) -> &'static str;

    /// Its type.
    fn type_id(&self) -> TypeId;

    /// Makes the state of a chunk.
    fn init(&self, chunk: &(dyn Any + Send + Sync), ctx: &Ctx) -> AnyState;

    /// A copy, in the memory of `old` as far as its type can use that.
    fn copy(&self, state: &AnyState, old: Option<AnyState>) -> AnyState;

    /// Reads a state.
    fn decode(&self, payload: Bytes) -> Result<AnyState, DecodeError>;

    /// Whether all rounds of a partition run on one slot of the worker.
    fn stays_in_slot(&self) -> bool;

    /// Brings here what the state has elsewhere, so that it can be encoded.
    fn settle(&self, state: &mut AnyState, chunk: &(dyn Any + Send + Sync), ctx: &Ctx);

    /// Length of its encoding.
    fn bytes(&self, state: &AnyState) -> usize;

    /// The function that looks at it.
    fn look(&self) -> Function;
}

/// The operations of one type.
pub(crate) struct Of<S>(PhantomData<fn() -> S>);

impl<S: State> Of<S> {
    pub(crate) const ERASED: &'static dyn ErasedState = &Of::<S>(PhantomData);

    /// The state itself.
    pub(crate) fn of(state: &mut AnyState) -> &mut S {
        (**state).downcast_mut().expect("a state of another type")
    }

    fn seen(state: &AnyState) -> &S {
        (**state).downcast_ref().expect("a state of another type")
    }
}

impl<S: State> ErasedState for Of<S> {
    fn name(&self) -> &'static str {
        type_name::<S>()
    }

    fn type_id(&self) -> TypeId {
        TypeId::of::<S>()
    }

    fn init(&self, chunk: &(dyn Any + Send + Sync), ctx: &Ctx) -> AnyState {
        Box::new(S::init(chunk.downcast_ref().expect("a chunk of another kind"), ctx))
    }

    fn copy(&self, state: &AnyState, old: Option<AnyState>) -> AnyState {
        match old {
            Some(mut old) => {
                // Fresh memory costs more than the copy into it.
                Self::of(&mut old).clone_from(Self::seen(state));
                old
            }
            None => Box::new(Self::seen(state).clone()),
        }
    }

    fn decode(&self, payload: Bytes) -> Result<AnyState, DecodeError> {
        decode::<S>(payload).map(|state| Box::new(state) as AnyState)
    }

    fn stays_in_slot(&self) -> bool {
        S::STAYS_IN_SLOT
    }

    fn settle(&self, state: &mut AnyState, chunk: &(dyn Any + Send + Sync), ctx: &Ctx) {
        Self::of(state).settle(chunk.downcast_ref().expect("a chunk of another kind"), ctx);
    }

    fn bytes(&self, state: &AnyState) -> usize {
        let mut out = Encoder::new();
        Self::seen(state).encode(&mut out);
        out.payload_bytes()
    }

    fn look(&self) -> Function {
        Arc::new(Look::<S>(PhantomData))
    }
}

/// Reads a state that was encoded on its own.
pub(crate) fn decode<S: State>(payload: Bytes) -> Result<S, DecodeError> {
    let mut input = Decoder::new(payload)?;
    let state = S::decode(&mut input)?;
    input.finish()?;
    Ok(state)
}

/// The function that looks at the states of a type.
pub(crate) fn look<S: State>() -> Function {
    Of::<S>::ERASED.look()
}

/// What is before the name of a state in the name of the function that looks at it.
pub(crate) const LOOK: &str = "the state ";

/// What a look at a state brings home.
pub(crate) struct Portrait {
    pub(crate) partition: u32,
    /// Length of the encoded state.
    pub(crate) bytes: u64,
    /// The encoded state, if it was asked for.
    pub(crate) state: Option<Bytes>,
}

/// Portraits of neighbours, in order.
pub(crate) struct Portraits(pub(crate) Vec<Portrait>);

/// Gives the portrait of a state; its parameters say whether with the state itself.
struct Look<S>(PhantomData<fn() -> S>);

impl<S: State> Shape for Look<S> {
    type Params = bool;
    type Chunk = S::Chunk;
    type Output = Portraits;
    const MODE: Mode = Mode::Step;

    fn name(&self) -> &'static str {
        look_name(Of::<S>::ERASED)
    }

    fn state(&self) -> Option<&'static dyn ErasedState> {
        Some(Of::<S>::ERASED)
    }

    fn step(&self, whole: &bool, chunk: &S::Chunk, state: &mut AnyState, ctx: &Ctx) -> Portraits {
        Of::<S>::of(state).settle(chunk, ctx);
        let mut out = Encoder::new();
        Of::<S>::seen(state).encode(&mut out);
        let bytes = out.payload_bytes() as u64;
        let state = whole.then(|| out.to_bytes());
        Portraits(vec![Portrait { partition: ctx.chunk(), bytes, state }])
    }

    fn only_looks(&self) -> bool {
        true
    }

    fn is_internal(&self) -> bool {
        true
    }
}

/// The name of the function that looks at a state. There are few states, and their names are made once.
pub(crate) fn look_name(state: &dyn ErasedState) -> &'static str {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, PoisonError};
    static NAMES: Mutex<BTreeMap<&'static str, &'static str>> = Mutex::new(BTreeMap::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.entry(state.name()).or_insert_with(|| format!("{LOOK}{}", state.name()).leak())
}

impl Wire for Portraits {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        out.put_length(self.0.len());
        for Portrait { partition, bytes, state } in &self.0 {
            out.put_varint((*partition).into());
            out.put_varint(*bytes);
            out.put_u8(state.is_some().into());
            if let Some(state) = state {
                out.put_numbers(&state[..]);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let all = Vec::<(u32, u64, Option<Vec<u8>>)>::decode(input)?;
        let aligned = |state: Vec<u8>| {
            let mut out = AlignedBuf::zeroed(state.len());
            out.as_mut_slice().copy_from_slice(&state);
            out.into_bytes()
        };
        let portrait = |(partition, bytes, state): (u32, u64, Option<Vec<u8>>)| Portrait {
            partition,
            bytes,
            state: state.map(aligned),
        };
        Ok(Portraits(all.into_iter().map(portrait).collect()))
    }
}

impl Reduce for Portraits {
    fn merge(&mut self, right: Self) {
        self.0.extend(right.0);
    }

    fn try_merge(&mut self, right: Self) -> Result<(), MergeError> {
        self.merge(right);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portraits_survive_the_trip() {
        let portrait = |partition, state: Option<Vec<u8>>| Portrait {
            partition,
            bytes: state.as_ref().map_or(7, |s| s.len() as u64),
            state: state.map(Bytes::from),
        };
        let all = Portraits(vec![
            portrait(3, None),
            portrait(u32::MAX, Some(vec![5; 1000])),
            portrait(0, Some(vec![])),
        ]);
        let mut out = Encoder::new();
        all.encode(&mut out);
        let mut input = Decoder::new(out.to_bytes()).unwrap();
        let back = Portraits::decode(&mut input).unwrap();
        input.finish().unwrap();
        let flat = |p: &Portraits| -> Vec<(u32, u64, Option<Bytes>)> {
            p.0.iter().map(|p| (p.partition, p.bytes, p.state.clone())).collect()
        };
        assert_eq!(flat(&back), flat(&all));
    }
}
