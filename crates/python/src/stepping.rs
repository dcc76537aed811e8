//! Runs steps on states of chunks.

use super::answer::Answer;
use super::call::Call;
use super::child::{Child, NoAnswer};
use super::letter::CallKind;
use super::named;
use super::pickled::Pickled;
use super::raised::Raised;
use super::slot::{GivenChunk, with_slot};
use super::state::{ChunkState, PastStep, StateObject};
use super::value::{Body, Value};
use qjam_data::chunk::Raw;
use qjam_data::ctx::Ctx;
use std::cell::RefCell;

/// Runs a step on a chunk and its state; gives the value, and the state after it. The state before it can still be used.
pub(super) fn step(
    call: &Call,
    chunk: &Raw,
    before: &ChunkState,
    ctx: &Ctx,
) -> Result<(Value, ChunkState), Raised> {
    let given = GivenChunk::new(chunk, ctx);
    let object = RefCell::new(None);
    let wants_pickle = before.wants_pickle_after(call);
    let ask = |child: &mut Child| {
        let runner = Runner { given: &given, state: before, ctx };
        let (answer, after) = runner.run(child, CallKind::Step, call, ctx.round(), wants_pickle)?;
        let stays = matches!(answer, Answer::Value { stays: true, .. });
        object.replace(stays.then_some(after));
        Ok(answer)
    };
    let (body, pickled) = with_slot(call, ctx, |slot, wanted| {
        slot.try_thrice(wanted, &|| ctx.cancelled(), "worked on this chunk", &ask)
    })?;
    let after = before.after(call, ctx.round(), object.take(), pickled);
    Ok((Value { code: call.code.id(), body }, after))
}

/// Has the state pickled as it is now.
pub(super) fn settle(chunk: &Raw, state: &mut ChunkState, ctx: &Ctx) -> Result<(), Raised> {
    let Some(PastStep { call, round }) = state.recipe().1.last().cloned() else { return Ok(()) };
    let given = GivenChunk::new(chunk, ctx);
    let object = RefCell::new(None);
    let ask = |child: &mut Child| {
        let runner = Runner { given: &given, state, ctx };
        let (answer, after) = runner.run(child, CallKind::PickleState, &call, round, true)?;
        let stays = matches!(answer, Answer::Value { stays: true, .. });
        object.replace(stays.then_some(after));
        Ok(answer)
    };
    let (_, pickled) = with_slot(&call, ctx, |slot, wanted| {
        slot.try_thrice(wanted, &|| ctx.cancelled(), "pickled the state of this chunk", &ask)
    })?;
    let Some(pickled) = pickled else {
        let message = "an interpreter was asked for a state and did not give it".into();
        return Err(Raised { message, ..Raised::default() });
    };
    state.set_pickle(pickled, object.take());
    Ok(())
}

/// Has an interpreter work on a state.
struct Runner<'a> {
    given: &'a GivenChunk<'a>,
    state: &'a ChunkState,
    ctx: &'a Ctx,
}

impl Runner<'_> {
    /// Runs a call on the state. Gives the answer, and the object that the state then is.
    fn run(
        &self,
        child: &mut Child,
        asked: CallKind,
        call: &Call,
        round: u64,
        wants_pickle: bool,
    ) -> Result<(Answer, StateObject), NoAnswer> {
        let after = |object: &StateObject| match asked {
            CallKind::PickleState => object.clone(),
            _ => object.stepped(),
        };
        if let Some(object) = self.state.object_in(child.peer()) {
            let after = after(object);
            let answer =
                self.ask(child, asked, call, round, (object, &after, None), (wants_pickle, false))?;
            if answer != Answer::LacksState {
                return Ok((answer, after));
            }
        }
        // From its last pickle, by the steps since.
        let (pickled, since) = self.state.recipe();
        let mut start =
            pickled.map(|pickled| StatePickle::new(pickled, self.state.is_foreign())).transpose()?;
        let mut object = StateObject::new(child.peer());
        for past in since {
            let next = object.stepped();
            let ends = (&object, &next, start.as_ref());
            match self.ask(child, CallKind::Step, &past.call, past.round, ends, (false, true))? {
                // It is no longer there, so the next step begins with the pickle.
                Answer::Value { state: Some(state), stays: false, .. } => {
                    (start, object) = (Some(StatePickle::own(state)), StateObject::new(child.peer()));
                }
                Answer::Value { .. } => object = next,
                other => return Ok((other, next)),
            }
        }
        // This interpreter has just given it.
        if asked == CallKind::PickleState && !object.is_made() {
            let body = Body::Pickled(Pickled::default());
            let state = start.map(|start| start.pickled);
            return Ok((Answer::Value { body, state, stays: false }, object));
        }
        let after = after(&object);
        let (ends, flags) = ((&object, &after, start.as_ref()), (wants_pickle, !since.is_empty()));
        let answer = self.ask(child, asked, call, round, ends, flags)?;
        Ok((answer, after))
    }

    fn ask(
        &self,
        child: &mut Child,
        asked: CallKind,
        call: &Call,
        round: u64,
        (before, after, start): (&StateObject, &StateObject, Option<&StatePickle>),
        (wants_pickle, again): (bool, bool),
    ) -> Result<Answer, NoAnswer> {
        let reference = before.reference(after, wants_pickle, again);
        let mut letter = self.given.letter(asked, call, round, child)?;
        letter.loose(b'S', &reference);
        if let Some(StatePickle { pickled, tag }) = start.filter(|_| !before.is_made()) {
            letter.pickle(*tag, pickled);
        }
        child.ask(&letter, &|| self.ctx.cancelled())
    }
}

/// A pickle that a state is made from, as the interpreter gets it.
struct StatePickle {
    pickled: Pickled,
    tag: u8,
}

impl StatePickle {
    /// Of an interpreter of this worker.
    fn own(pickled: Pickled) -> Self {
        StatePickle { pickled, tag: b's' }
    }

    fn new(pickled: &Pickled, is_foreign: bool) -> Result<Self, NoAnswer> {
        if !is_foreign {
            return Ok(StatePickle::own(pickled.clone()));
        }
        let refused =
            |why| NoAnswer::Broken(format!("the state of this chunk is not used: it came as {why}"));
        let guarded = named::guarded(&pickled.stream).map_err(refused)?;
        let stream = guarded.stream.map_or_else(|| pickled.stream.clone(), Into::into);
        Ok(StatePickle { pickled: Pickled { stream, buffers: pickled.buffers.clone() }, tag: b'e' })
    }
}
