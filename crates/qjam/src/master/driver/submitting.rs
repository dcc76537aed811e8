//! From a request to a round: prepare → admit → place → hand over.
//!
//! *Prepare* numbers the round, notes it, and answers it at once where that is possible: from the run that this one goes on
//! from, or with a refusal. *Admit* decides who runs it and refuses what cannot fit into memory. *Place* puts the parameters
//! where those who run it need them. *Hand over* gives it to the scheduler, or to a crew.

use super::choosing::Chosen;
use super::holding::HeldRound;
use super::merging::HalfBuilt;
use super::rounds::{Account, Caller, DeferredWork, Round, RoundRequest};
use super::{Driver, system};
use crate::codec::Encoder;
use crate::dataset::CutData;
use crate::engine::Crew;
use crate::engine::caller::CallerThread;
use crate::engine::crew::CrewJob;
use crate::engine::lent::Lent;
use crate::engine::order::{Failure, Order};
use crate::engine::params::{Parameters, Placement};
use crate::error::Error;
use crate::function::Mode;
use crate::runs::Hash;
use qjam_core::ids::RoundId;
use qjam_core::journal::{RoundReport, What};
use qjam_core::order::OrderHead;
use qjam_core::reduce::{Cut, blocks};
use qjam_core::scheduler::Event;
use std::sync::Arc;

/// A round in the making.
struct Draft {
    /// Its order: the cut is decided when it is admitted, and the parameters come last.
    order: Order,
    caller: Caller,
    held: Option<HeldRound>,
    params_hash: Option<Hash>,
    /// Who runs it, if not the scheduler's workers.
    crew: Option<Arc<dyn Crew>>,
    chosen: Option<Box<Chosen>>,
    /// How long the accumulator of a fold is, if it says so.
    accumulator_bytes: Option<u64>,
}

impl Draft {
    fn into_round(self) -> Round {
        let Draft { order, caller, held, params_hash, chosen, .. } = self;
        let report = RoundReport {
            round: order.round().0,
            master_us: caller.submitted.elapsed().as_micros() as u64,
            ..Default::default()
        };
        Round {
            result: HalfBuilt::new(order.head.cut),
            order,
            caller,
            views: Arc::default(),
            account: Account { report, ..Account::default() },
            is_answered: false,
            params_hash,
            chosen,
            held,
            crew: None,
            deferred: DeferredWork::None,
            crowded: None,
        }
    }
}

impl Driver {
    /// Begins a round. If its caller is to run it, gives the job. A caller that lends the parameters waits for the round.
    pub(crate) fn submit(
        &mut self,
        request: RoundRequest,
        params: &Encoder<'_>,
        lent: Option<Lent>,
    ) -> (RoundId, Option<CrewJob>) {
        let waits = lent.is_some();
        let mut draft = match self.prepare(request, params) {
            Ok(draft) => draft,
            Err(answered) => return (answered, None),
        };
        let admitted = self.admit(&mut draft, params, waits);
        let placed = admitted.and_then(|()| self.place(&draft, params, lent));
        match placed {
            Ok(parameters) => self.hand_over(draft, parameters, params, waits),
            Err(error) => (self.refuse(draft, error), None),
        }
    }

    /// Numbers and notes a round; `Err` if it has its answer already.
    fn prepare(&mut self, request: RoundRequest, params: &Encoder<'_>) -> Result<Draft, RoundId> {
        let RoundRequest { function, data, answer, submitted, held, accumulator_bytes } = request;
        if let Some(error) = held.and_then(|hold| self.holds.refusal(hold, &function)) {
            answer.give(Err(error));
            self.rounds.answered += 1;
            return Err(self.rounds.next_internal());
        }
        let id = if function.is_internal() { self.rounds.next_internal() } else { self.rounds.next_id() };
        // Parameters that will be in shared memory are logged from there, when the tasks are out.
        let kept = (!self.defers(params)).then_some(params);
        let carries_mail = self.crews.exclusive().is_none_or(|crew| crew.caps().carries_mail);
        let mut held = held.and_then(|hold| self.holds.begin(hold, id, &function, kept, carries_mail));
        let head = OrderHead {
            round: id,
            function: function.name().into(),
            seed: self.options.seed,
            dataset: data.located,
            cut: Cut::new(data.chunks.len() as u32, 0),
            held: held.as_ref().map(|held| held.task),
            slots_max: None,
            // A step's state is made with a context, whether the step takes one or not, and a derived chunk may need its place.
            records: (held.is_some() || data.lineage.is_some() || function.takes_context())
                .then(|| data.records.clone()),
            lineage: data.lineage.as_deref().cloned().map(Box::new),
        };
        let order = Order { head, function, data, params: Parameters::none(params) };
        // A limit beyond the end of time is none.
        let deadline = self.options.round_timeout.and_then(|limit| submitted.checked_add(limit));
        let caller = Caller { answer, submitted, deadline, told: None };
        self.recording.begin(&order);
        match self.recall(&order, &caller, &mut held, params) {
            Ok(()) => Err(id),
            Err(params_hash) => {
                Ok(Draft { order, caller, held, params_hash, crew: None, chosen: None, accumulator_bytes })
            }
        }
    }

    /// Decides who runs a round, cuts it, and refuses what cannot fit into memory.
    fn admit(&mut self, draft: &mut Draft, params: &Encoder<'_>, waits: bool) -> Result<(), Error> {
        let params_bytes = params.payload_bytes() as u64;
        let (mode, data) = (draft.order.function.mode(), draft.order.data.clone());
        // What takes part in bits must not depend on workers: this and the data alone decide the blocks of a fold.
        let accumulator_bytes = draft.accumulator_bytes.unwrap_or(params_bytes);
        self.remember(&data);
        if let Some(crew) = self.crews.exclusive() {
            if draft.held.is_some() && !crew.caps().keeps_state {
                return Err(Error::NoState { workers: crew.awaited().join(", ") });
            }
            let slots = crew.workers().iter().map(|worker| worker.slots).sum();
            draft.order.head.cut = self.cut(mode, &data, accumulator_bytes, slots);
            draft.crew = Some(crew);
            return Ok(());
        }
        if draft.held.is_none() {
            draft.chosen = self.choose(&draft.order, params, waits);
        }
        let chosen = draft.chosen.as_ref();
        let slots = chosen.filter(|chosen| !chosen.is_inline()).map(|chosen| chosen.slots());
        let slots = slots.unwrap_or_else(|| self.decider.scheduler.slots().max(1));
        draft.order.head.slots_max = chosen.map(|chosen| chosen.slots());
        draft.order.head.cut = self.cut(mode, &data, accumulator_bytes, slots);
        if let Some(chosen) = chosen.filter(|chosen| chosen.is_inline()) {
            let (plan, claims) = (chosen.plan().clone(), chosen.claims().clone());
            draft.crew = Some(Arc::new(CallerThread { plan, claims }));
        }
        self.admit_memory(&data, draft.order.head.cut, params_bytes)
    }

    /// Puts the parameters where those who run the round need them.
    fn place(
        &mut self,
        draft: &Draft,
        params: &Encoder<'_>,
        lent: Option<Lent>,
    ) -> Result<Parameters, Error> {
        let placement = match &draft.crew {
            None => Placement::for_workers(params, self.seats.wanted().map(|(_, record)| record.caps)),
            Some(crew) => match crew.buffer(params.payload_bytes()) {
                Ok(Some(buffer)) => return Ok(Parameters::in_buffer(params, buffer.0)),
                Ok(None) => Placement::for_caller(params),
                Err(Failure::Engine(why)) => {
                    let source = std::io::Error::new(std::io::ErrorKind::OutOfMemory, why);
                    return Err(system("sending parameters")(source));
                }
                Err(Failure::Cancelled | Failure::Fault { .. }) => return Err(Error::Cancelled),
            },
        };
        let placed = Parameters::place(params, lent, placement, &mut self.data.arenas);
        placed.map_err(system("shared memory for parameters"))
    }

    /// Gives a round to those who run it.
    fn hand_over(
        &mut self,
        draft: Draft,
        parameters: Parameters,
        params: &Encoder<'_>,
        waits: bool,
    ) -> (RoundId, Option<CrewJob>) {
        let (id, crew) = (draft.order.round(), draft.crew.clone());
        let is_deferred = parameters.placed().is_some() && self.defers(params);
        let mut round = draft.into_round();
        round.order.params = parameters;
        if is_deferred {
            round.deferred = DeferredWork::All;
            round.crowded = self.is_crowded().then(Default::default);
        } else if let Some(held) = &mut round.held {
            held.keep_params(|| params.to_bytes());
        }
        let name = params.label().unwrap_or_else(|| round.order.function.name());
        round.account.weighing = self.weigher.begin(name, &round.order);
        let is_crowded = round.crowded.is_some();
        let spec = round.order.head.spec(0);
        self.rounds.insert(round);
        let job = match crew {
            Some(crew) => self.give_to_crew(id, crew, waits),
            None => {
                self.begin_in_rhythm(id);
                self.tell(Event::RoundSubmitted { round: id, spec });
                None
            }
        };
        match is_deferred {
            true if is_crowded => {}
            true => self.do_all_deferred(id),
            false => self.record_params(id, params),
        }
        (id, job)
    }

    /// Answers a round that cannot begin.
    fn refuse(&mut self, draft: Draft, error: Error) -> RoundId {
        let id = draft.order.round();
        self.rounds.insert(draft.into_round());
        self.answer(id, Err(error));
        self.rounds.remove(id);
        id
    }

    fn cut(&self, mode: Mode, data: &CutData, accumulator_bytes: u64, slots: u32) -> Cut {
        let chunks = data.chunks.len() as u32;
        let level = match mode {
            Mode::Step => 0,
            Mode::Map => blocks::map_level(chunks, slots.saturating_mul(self.options.blocks_per_slot)),
            Mode::Fold => {
                let chunk_bytes = data.chunks.iter().map(|c| c.header.bytes).max().unwrap_or(0);
                blocks::fold_level(chunk_bytes, accumulator_bytes)
            }
        };
        Cut::new(chunks, level)
    }

    /// Notes that a round begins that the scheduler does not know of.
    pub(super) fn note_started(&mut self, round: RoundId) {
        let Some(cut) = self.rounds.get(round).map(|round| round.order.head.cut) else { return };
        self.note(What::RoundStarted { round, chunks: cut.chunks, blocks: cut.blocks() });
    }
}
