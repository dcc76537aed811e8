//! What a step gets and returns, and steps by name.

use crate::codec::{DecodeError, Decoder, Encoder, Params, Wire};
use crate::function::{AnyBox, AnyShared, Function, Job};
use crate::registry::{self, UnknownFunction};
use crate::store::AlignedBuf;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::any::{type_name, type_name_of_val};
use std::sync::Arc;
use thiserror::Error;

/// Why a loop cannot go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StepError {
    /// The step took the parameters or the value of its round for something else.
    #[error("the step expects {expected}, and its round has something else")]
    Type {
        /// The type that the step names.
        expected: &'static str,
    },
    /// The function of a call has chunks of another type than the data.
    #[error("{function} takes other chunks than the data has")]
    Chunks {
        /// The function.
        function: String,
    },
    /// What the loop keeps between its rounds cannot be read.
    #[error("what the loop keeps between its rounds cannot be read: {0}")]
    Kept(#[from] DecodeError),
    /// A function that the step calls is not registered.
    #[error(transparent)]
    Function(#[from] UnknownFunction),
    /// No step of this name is registered, or several are.
    #[error("{found} steps are called {name}; name each in qjam::register_steps!(…) once")]
    Name {
        /// Its path in the program.
        name: String,
        /// How many there are.
        found: usize,
    },
    /// The loop says so, in its own words.
    #[error("{0}")]
    Refused(String),
}

impl StepError {
    /// The loop ends with this error.
    pub fn refused(error: impl std::error::Error) -> StepError {
        StepError::Refused(error.to_string())
    }
}

/// A function with its parameters: what the next round runs over the data.
pub struct Call {
    pub(super) function: Function,
    pub(super) params: Bytes,
    pub(super) states: CallStates,
    /// How long the accumulator of a fold is, if it says so.
    pub(super) accumulator_bytes: Option<u64>,
}

/// Which states the function of a call gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallStates {
    /// None.
    None,
    /// New ones.
    New,
    /// Those that the last call with states has left.
    Last,
}

impl Call {
    /// A function without states.
    pub fn new<F, M>(f: F, params: &F::Params) -> Result<Call, StepError>
    where
        F: Job<M, State = ()>,
    {
        Call::of(f, params, CallStates::None)
    }

    /// A function with states, which are made anew.
    pub fn with_new_states<F, M>(f: F, params: &F::Params) -> Result<Call, StepError>
    where
        F: Job<M>,
    {
        Call::of(f, params, CallStates::New)
    }

    /// A function with states: those that the last such call of the loop has left.
    pub fn with_states<F, M>(f: F, params: &F::Params) -> Result<Call, StepError>
    where
        F: Job<M>,
    {
        Call::of(f, params, CallStates::Last)
    }

    fn of<F: Job<M>, M>(f: F, params: &F::Params, states: CallStates) -> Result<Call, StepError> {
        let function = f.erase();
        let accumulator_bytes = registry::weigh(function.name())?;
        let mut encoder = Encoder::new();
        params.encode_params(&mut encoder);
        Ok(Call { function, params: encoder.to_bytes(), states, accumulator_bytes })
    }
}

/// How far a loop is, for people who follow it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepProgress {
    /// Steps so far, as the loop counts them.
    pub step: u64,
    /// A line such as `iteration 3: centres moved 1.2e-3`.
    pub text: String,
}

/// What a step returns. `T` is what the loop keeps between its rounds.
pub enum Next<T> {
    /// Another round.
    Round {
        /// What the step after it gets.
        kept: T,
        /// What it runs.
        call: Call,
        /// How far the loop is.
        progress: Option<StepProgress>,
    },
    /// The loop is over, and this comes of it.
    Stop(T),
}

impl<T> Next<T> {
    /// Another round, with nothing to tell.
    pub fn round(kept: T, call: Call) -> Next<T> {
        Next::Round { kept, call, progress: None }
    }

    pub(super) fn map<U>(self, f: impl FnOnce(T) -> U) -> Next<U> {
        match self {
            Next::Round { kept, call, progress } => Next::Round { kept: f(kept), call, progress },
            Next::Stop(kept) => Next::Stop(f(kept)),
        }
    }
}

/// A round that has its value.
pub struct EndedRound {
    pub(super) params: AnyShared,
    pub(super) value: AnyBox,
}

impl EndedRound {
    /// Its parameters and its value, if they are of these types. Parameters that are slices are [`Slab`](crate::Slab)s here.
    pub fn open<P, R>(self) -> Result<(Arc<P>, R), StepError>
    where
        P: Send + Sync + 'static,
        R: 'static,
    {
        let wrong = |expected| move |_| StepError::Type { expected };
        let params =
            self.params.downcast::<P>().map_err(|_| StepError::Type { expected: type_name::<P>() })?;
        let value = self.value.downcast::<R>().map_err(wrong(type_name::<R>()))?;
        Ok((params, *value))
    }
}

/// A step with its types taken off: what the loop keeps is bytes.
pub struct ErasedStep {
    pub(super) name: &'static str,
    pub(super) take: Box<TakeStep>,
}

type TakeStep = dyn Fn(&[u8], EndedRound) -> Result<Next<Bytes>, StepError> + Send + Sync;

/// Takes the types off a step. Used by [`register_steps!`](crate::register_steps).
pub fn erased<F, T>(step: F) -> ErasedStep
where
    F: Fn(T, EndedRound) -> Result<Next<T>, StepError> + Copy + Send + Sync + 'static,
    T: Wire,
{
    let take =
        move |bytes: &[u8], ended: EndedRound| Ok(step(kept(bytes)?, ended)?.map(|kept| encoded(&kept)));
    ErasedStep { name: type_name_of_val(&step), take: Box::new(take) }
}

pub(super) fn encoded<T: Wire>(kept: &T) -> Bytes {
    let mut encoder = Encoder::new();
    kept.encode(&mut encoder);
    encoder.to_bytes()
}

/// Reads what a loop keeps between its rounds, or what came of it.
pub fn kept<T: Wire>(bytes: impl AsRef<[u8]>) -> Result<T, DecodeError> {
    let bytes = bytes.as_ref();
    let mut aligned = AlignedBuf::zeroed(bytes.len());
    aligned.as_mut_slice().copy_from_slice(bytes);
    let mut input = Decoder::new(aligned.into_bytes())?;
    let kept = T::decode(&mut input)?;
    input.finish()?;
    Ok(kept)
}

/// A registered step.
#[derive(Clone, Copy)]
pub struct StepEntry(fn() -> ErasedStep);

impl StepEntry {
    /// Used by the macro.
    pub const fn new(build: fn() -> ErasedStep) -> StepEntry {
        StepEntry(build)
    }
}

/// All registered steps, in the order of the linker.
#[linkme::distributed_slice]
pub static STEPS: [StepEntry];

/// Finds a step by its path in the program.
pub(super) fn lookup(name: &str) -> Result<ErasedStep, StepError> {
    let mut found: Vec<ErasedStep> =
        STEPS.iter().map(|entry| (entry.0)()).filter(|step| step.name == name).collect();
    match (found.pop(), found.len()) {
        (Some(only), 0) => Ok(only),
        (last, others) => {
            let found = others + usize::from(last.is_some());
            Err(StepError::Name { name: name.to_owned(), found })
        }
    }
}

/// Registers steps, so that workers find them by name: see [`fused`](crate::fused). Each instance of a generic one is named.
#[macro_export]
macro_rules! register_steps {
    ($($step:expr),+ $(,)?) => {$(
        const _: () = {
            #[$crate::__private::linkme::distributed_slice($crate::fused::STEPS)]
            #[linkme(crate = $crate::__private::linkme)]
            static ENTRY: $crate::fused::StepEntry = $crate::fused::StepEntry::new(|| $crate::fused::erased($step));
        };
    )+};
}
