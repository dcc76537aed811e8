//! A slot's own interpreter: started at the first call, kept, and replaced when it has died.
//!
//! Slots are threads, so it belongs to the thread, and ends with it. A call that an interpreter dies of is tried in a new
//! one, three times in all; an exception is not tried again.

use super::answer::Answer;
use super::call::Call;
use super::child::{Child, Ended, NoAnswer};
use super::code::Code;
use super::content::{self, Content};
use super::letter::{CallKind, Letter, NO_STEP};
use super::pickled::Pickled;
use super::raised::Raised;
use super::start::InterpreterRequest;
use super::value::{Body, Value};
use qjam_core::job::{Activity, Cause, Death, signal_name};
use qjam_data::chunk::Raw;
use qjam_data::ctx::Ctx;
use rustix::process::{Resource, getrlimit};
use std::cell::{Cell, RefCell};
use std::os::unix::process::ExitStatusExt;
use std::sync::{Mutex, PoisonError};

/// How often a call is tried that interpreters die of.
const TRIES: u32 = 3;
/// Code that this process remembers for reductions.
const CODES_MAX: usize = 16;

/// What a thread has.
#[derive(Default)]
pub(super) struct Slot {
    child: Option<Child>,
    /// The last call: a reduction belongs to the same round, and is called off with it.
    ctx: Option<Ctx>,
    step: Option<u64>,
    wanted: Option<InterpreterRequest>,
}

thread_local! {
    static SLOT: RefCell<Slot> = RefCell::default();
    static LOSSES: RefCell<Vec<Death>> = const { RefCell::new(Vec::new()) };
    static LIMIT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Interpreters of this thread that have ended since this was last asked, and were replaced.
pub fn take_losses() -> Vec<Death> {
    LOSSES.take()
}

fn note_loss(ended: &Ended) {
    let status = ended.status.map(|status| (status.signal(), status.code()));
    let cause = match status {
        // It ends by itself if it was interrupted while it imported a module.
        Some((None, Some(0))) | None => return,
        Some((Some(signal), _)) => Cause::Signal(signal),
        Some((None, code)) => Cause::Exited(code.unwrap_or(-1)),
    };
    let last_lines = ended.last_lines.clone();
    let death = Death { activity: Activity::Mapping, last_lines, ..Death::of(cause) };
    LOSSES.with_borrow_mut(|losses| losses.push(death));
}

/// Limits the private memory of interpreters that this thread starts from now on.
pub fn limit_child(memory_bytes_max: Option<u64>) {
    LIMIT.set(memory_bytes_max);
}

/// Code by name, for values that have to be reduced; and which interpreter it wants.
static CODES: Mutex<Vec<(Code, InterpreterRequest)>> = Mutex::new(Vec::new());

/// Whether this thread has an interpreter.
pub(super) fn has_child() -> bool {
    SLOT.with_borrow(|slot| slot.child.is_some())
}

/// Runs a function on a chunk.
pub(super) fn run(call: &Call, chunk: &Raw, ctx: &Ctx) -> Result<Value, Raised> {
    let given = GivenChunk::new(chunk, ctx);
    with_slot(call, ctx, |slot, wanted| {
        let answer = slot.try_thrice(wanted, &|| ctx.cancelled(), "worked on this chunk", &|child| {
            let letter = given.letter(CallKind::Map, call, ctx.round(), child)?;
            child.ask(&letter, &|| ctx.cancelled())
        })?;
        Ok(Value { code: call.code.id(), body: answer.0 })
    })
}

/// Does something with this thread's slot for a call; the slot also gets the interpreter that the call needs.
pub(super) fn with_slot<R>(call: &Call, ctx: &Ctx, f: impl FnOnce(&mut Slot, &InterpreterRequest) -> R) -> R {
    let wanted = InterpreterRequest {
        version: call.version,
        remote_python: call.remote_python.clone(),
        library_threads: call.library_threads,
    };
    SLOT.with_borrow_mut(|slot| {
        slot.enter(call, &wanted, ctx);
        f(slot, &wanted)
    })
}

/// A chunk as interpreters are told of it.
pub(super) struct GivenChunk<'a> {
    chunk: &'a Raw,
    header: String,
    content: Option<Content>,
    seed: u64,
    index: u32,
}

impl<'a> GivenChunk<'a> {
    pub(super) fn new(chunk: &'a Raw, ctx: &Ctx) -> Self {
        let (header, content) = (header(chunk), content::of(chunk));
        GivenChunk { chunk, header, content, seed: ctx.seed(), index: ctx.chunk() }
    }

    /// A call on this chunk, with the code and the parameters that the interpreter lacks.
    pub(super) fn letter<'b>(
        &'b self,
        asked: CallKind,
        call: &'b Call,
        round: u64,
        child: &Child,
    ) -> Result<Letter<'b>, NoAnswer> {
        let mut letter = Letter {
            asked,
            code: call.code.id(),
            chunk: self.index,
            params: call.own.number(),
            seed: self.seed,
            round,
            step: call.step.unwrap_or(NO_STEP),
            parts: Vec::new(),
        };
        if !child.has_code(call.code.id()) {
            letter.loose(b'c', call.code.blob());
        }
        if !child.has_params(call.own.number()) {
            call.own.write(&call.params, &mut letter).map_err(NoAnswer::Broken)?;
        }
        letter.loose(b'h', self.header.as_bytes());
        if !self.chunk.bytes.is_empty() {
            letter.placed(b'k', &self.chunk.bytes);
        }
        if let Some(content) = &self.content {
            letter.loose(b'H', content);
        }
        Ok(letter)
    }
}

/// Two neighbours as one.
pub(super) fn merge(left: &Value, right: &Value) -> Result<Value, Raised> {
    let id = right.code;
    let known =
        CODES.lock().unwrap_or_else(PoisonError::into_inner).iter().find(|(c, _)| c.id() == id).cloned();
    let Some((code, wanted)) = known else {
        return Err(failed(
            "results of a Python function cannot be combined here: its code is not known".into(),
        ));
    };
    SLOT.with_borrow_mut(|slot| {
        let (ctx, step) = (slot.ctx.clone(), slot.step.unwrap_or(NO_STEP));
        let cancelled = || ctx.as_ref().is_some_and(Ctx::cancelled);
        let (body, _) = slot.try_thrice(&wanted, &cancelled, "combined two results", &|child| {
            let (seed, round, chunk) =
                ctx.as_ref().map_or((0, 0, 0), |ctx| (ctx.seed(), ctx.round(), ctx.chunk()));
            let mut letter = Letter {
                asked: CallKind::Merge,
                code: id,
                chunk,
                params: 0,
                seed,
                round,
                step,
                parts: Vec::new(),
            };
            if !child.has_code(id) {
                letter.loose(b'c', code.blob());
            }
            letter.value(&left.body);
            letter.value(&right.body);
            child.ask(&letter, &cancelled)
        })?;
        Ok(Value { code: id, body })
    })
}

impl Slot {
    fn enter(&mut self, call: &Call, wanted: &InterpreterRequest, ctx: &Ctx) {
        self.ctx = Some(ctx.clone());
        self.step = call.step;
        if self.wanted.as_ref() != Some(wanted)
            || !self.child.as_ref().is_some_and(|c| c.has_code(call.code.id()))
        {
            self.wanted = Some(wanted.clone());
            remember(&call.code, wanted);
        }
    }

    /// The interpreter, started if need be.
    fn child(
        &mut self,
        wanted: &InterpreterRequest,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<&mut Child, NoAnswer> {
        if self.child.as_ref().is_some_and(|child| child.wanted != *wanted) {
            self.child = None;
        }
        match &mut self.child {
            Some(child) => Ok(child),
            none => Ok(none.insert(Child::start(wanted.clone(), LIMIT.get(), cancelled)?)),
        }
    }

    pub(super) fn try_thrice(
        &mut self,
        wanted: &InterpreterRequest,
        cancelled: &dyn Fn() -> bool,
        doing: &str,
        ask: &dyn Fn(&mut Child) -> Result<Answer, NoAnswer>,
    ) -> Result<(Body, Option<Pickled>), Raised> {
        let mut tries = 0;
        loop {
            let answer = self.child(wanted, cancelled).and_then(ask);
            match answer {
                Ok(Answer::Value { body, state, .. }) => return Ok((body, state)),
                Ok(Answer::Raised(raised)) => {
                    let last_lines = self.child.as_mut().map(Child::take_last_lines).unwrap_or_default();
                    return Err(Raised { last_lines, ..raised });
                }
                Ok(Answer::Ready | Answer::NeedsRoom(_) | Answer::LacksState) => {
                    self.child = None;
                    return Err(failed("an interpreter answers what was not asked".into()));
                }
                // It died of something else, before.
                Err(NoAnswer::Gone) => {
                    if let Some(mut child) = self.child.take() {
                        note_loss(&child.end());
                    }
                }
                Err(NoAnswer::Cancelled) => {
                    if self.child.as_ref().is_some_and(|child| !child.lives()) {
                        self.child = None;
                    }
                    return Err(failed("cancelled".into()));
                }
                Err(NoAnswer::Broken(why)) => {
                    self.child = None;
                    return Err(failed(why));
                }
                Err(NoAnswer::Ended(ended)) => {
                    self.child = None;
                    note_loss(&ended);
                    tries += 1;
                    if tries == TRIES {
                        return Err(ended.into_raised(doing));
                    }
                }
            }
        }
    }
}

fn failed(message: String) -> Raised {
    Raised { message, ..Raised::default() }
}

fn remember(code: &Code, wanted: &InterpreterRequest) {
    let mut codes = CODES.lock().unwrap_or_else(PoisonError::into_inner);
    codes.retain(|(other, _)| other.id() != code.id());
    codes.push((code.clone(), wanted.clone()));
    if codes.len() > CODES_MAX {
        codes.remove(0);
    }
}

/// What the bytes of a chunk are, as the child reads it.
fn header(chunk: &Raw) -> String {
    let header = &chunk.header;
    let shape: Vec<String> = header.shape.iter().map(u64::to_string).collect();
    format!("{}\0{}\0{}", header.kind, header.dtype, shape.join(","))
}

impl Ended {
    fn into_raised(self, doing: &str) -> Raised {
        let Ended { status, peak_bytes, last_lines } = self;
        let signal = status.and_then(|status| status.signal());
        let how = match (signal, status.and_then(|status| status.code())) {
            (Some(signal), _) => format!("was killed by signal {signal} ({})", signal_name(signal)),
            (None, Some(code)) => format!("ended with exit code {code}"),
            (None, None) => "ended".to_owned(),
        };
        let mut message = format!("the interpreter {how} while it {doing}, three times");
        let mib = |bytes: u64| bytes >> 20;
        let limit = LIMIT.get().or(getrlimit(Resource::Data).current);
        if let Some(limit) = limit {
            message += &format!("; its memory limit is {} MiB", mib(limit));
        }
        if peak_bytes > 0 && (limit.is_some() || matches!(signal, Some(6 | 9))) {
            message += &format!("; it had {} MiB at most", mib(peak_bytes));
        }
        Raised { message, last_lines, died: true, ..Raised::default() }
    }
}
