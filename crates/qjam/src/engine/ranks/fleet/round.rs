//! A round with the ranks, from beginning to end: data and states are introduced, the order goes out, results come back along the tree.

use super::cancelling::RoundWatch;
use super::{Fleet, RankKnowledge};
use crate::engine::crew::Assignment;
use crate::engine::order::{self as crew, Order, Outcome, Traffic, Value};
use crate::engine::params::Parameters;
use crate::engine::ranks::gather::Gathering;
use crate::engine::ranks::introduce::show;
use crate::engine::ranks::link::SHORT_BYTES;
use crate::engine::ranks::sum::{self, Decision, Summable};
use crate::engine::ranks::wire::{Command, Failure, Introduced, MasterId, RoundCommand, encoded, tag};
use crate::engine::ranks::words::{self, Doing};
use crate::engine::ranks::{join, share};
use crate::execution::caught;
use crate::execution::recipes::StateRecipe;
use crate::execution::states::{RoundStates, States};
use bytes::Bytes;
use qjam_core::job::{Fault, FaultKind};
use qjam_core::reduce::Cut;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
/// Recipes are cut into pieces of so many bytes on their way.
const PIECE_BYTES: usize = 64 << 20;

/// A round that the ranks are to do together.
pub(in crate::engine::ranks) struct RankRound<'a> {
    pub(in crate::engine::ranks) master: MasterId,
    pub(in crate::engine::ranks) assignment: Assignment,
    /// The states of rank 0's own partitions.
    pub(in crate::engine::ranks) states: &'a Arc<States>,
    /// Whether the library may add results up.
    pub(in crate::engine::ranks) any_order: bool,
}

impl Fleet {
    /// Does a round, from beginning to end.
    pub(in crate::engine::ranks) fn run(&self, asked: RankRound<'_>) -> Outcome {
        let mut told = self.lock();
        self.tell_notes(&mut told);
        assert!(!told.is_inside, "a round was left in the middle, and nobody knows where the ranks are");
        told.is_inside = true;
        let mut out = Traffic::default();
        self.awaited.store(0, Relaxed);
        let done = if self.is_over.load(Relaxed) || (asked.assignment.cancelled)() {
            Err(crew::Failure::Cancelled)
        } else {
            self.prepare(&mut told, &asked, &mut out)
                .map_err(|(worker, fault)| crew::Failure::Fault { worker, fault })
        };
        let outcome = match done {
            Ok(recipe) => self.round(&mut told, asked, recipe, out),
            Err(failed) => Outcome { traffic: out, ..Outcome::of(Err(failed)) },
        };
        told.is_inside = false;
        self.tell_notes(&mut told);
        words::doing(Doing::Program);
        outcome
    }

    /// Sees to it that everybody has the chunks and the mail, and knows how to make the states. Gives the recipe for rank 0's own.
    fn prepare(
        &self,
        told: &mut RankKnowledge,
        asked: &RankRound<'_>,
        out: &mut Traffic,
    ) -> Result<Option<StateRecipe>, (Option<u32>, Fault)> {
        let order = &asked.assignment.order;
        let (cut, size) = (order.head.cut, self.size());
        if share::is_shared(cut.blocks(), size) {
            let key = (asked.master, order.data.located, cut.level);
            if !told.settled.contains(&key) {
                words::doing(Doing::Data);
                for rank in self.others() {
                    self.introduce(told, asked, rank, out)
                        .map_err(|why| (Some(rank), Fault::new(FaultKind::Chunk, why)))?;
                }
                told.settled.insert(key);
            }
        }
        let (Some(held), Some(recipe)) = (order.head.held, &asked.assignment.recipe) else {
            return Ok(None);
        };
        let question = Command::Behind { master: asked.master, round: order.round(), held, cut };
        let question = encoded(&question);
        for rank in self.others() {
            self.link.send(rank, tag::COMMAND, &question);
            let behind: Vec<u32> = self.reply(rank);
            if behind.is_empty() {
                continue;
            }
            let (pieces, bytes) = recipe.only(&behind).to_pieces(PIECE_BYTES);
            self.link.send(rank, tag::REPLY, &bytes.to_le_bytes());
            pieces.iter().for_each(|piece| self.link.send_long(rank, piece));
            out.bytes_out += bytes;
        }
        let own = share::share(cut.blocks(), size, 0);
        Ok(Some(recipe.only(&asked.states.lacking(held, own).all())))
    }

    /// Has a rank find the chunks of its blocks, and sends it those that it cannot find.
    fn introduce(
        &self,
        told: &mut RankKnowledge,
        asked: &RankRound<'_>,
        rank: u32,
        out: &mut Traffic,
    ) -> Result<(), String> {
        let order = &asked.assignment.order;
        let (cut, data) = (order.head.cut, &order.data);
        let size = self.size() as usize;
        let has =
            told.chunks.entry((asked.master, data.located)).or_insert_with(|| vec![HashSet::new(); size]);
        let has = &mut has[rank as usize];
        let blocks = share::share(cut.blocks(), self.size(), rank);
        let chunks = blocks.flat_map(|block| cut.chunks_of(cut.node(block)));
        let new: Vec<u32> = chunks.filter(|index| !has.contains(index)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let one = |index: &u32| {
            let entry = &data.chunks[*index as usize];
            Introduced { index: *index, id: entry.id, header: entry.header.clone(), place: show(entry) }
        };
        let command = Command::Introduce {
            master: asked.master,
            dataset: data.located,
            machine: join::machine().to_owned(),
            chunks: new.iter().map(one).collect(),
        };
        let message = encoded(&command);
        out.bytes_out += message.len() as u64;
        self.link.send(rank, tag::COMMAND, &message);
        let missing: Result<Vec<u32>, String> = self.reply(rank);
        let missing = missing?;
        let mut trouble = None;
        for index in &missing {
            let entry = &data.chunks[*index as usize];
            // What is announced must come: where a file has changed since, something comes in its place and is not taken.
            let bytes = entry.load().unwrap_or_else(|e| {
                trouble.get_or_insert_with(|| e.to_string());
                Bytes::from(vec![0; entry.header.bytes as usize])
            });
            self.link.send_long(rank, &bytes);
            out.bytes_out += bytes.len() as u64;
            out.chunks_sent += 1;
        }
        if !missing.is_empty() {
            let taken: Result<(), String> = self.reply(rank);
            trouble.map_or(taken, Err)?;
        }
        has.extend(new);
        Ok(())
    }

    fn round(
        &self,
        told: &mut RankKnowledge,
        asked: RankRound<'_>,
        recipe: Option<StateRecipe>,
        mut out: Traffic,
    ) -> Outcome {
        let RankRound { master, assignment, states, any_order } = asked;
        let Assignment { mut order, cancelled, open, .. } = assignment;
        let (cut, round) = (order.head.cut, order.round());
        let is_shared = share::is_shared(cut.blocks(), self.size());
        told.turn += 1;
        let turn = told.turn;
        words::round(round.0, order.function.name());
        let params = self.send_round(master, turn, any_order && is_shared, &mut order, &mut out);
        let watch = RoundWatch::new(self.link.clone(), turn, cancelled);
        let mut gathering = Gathering::new(round, cut, any_order && is_shared);
        order.params = Parameters::of(params);
        let asks = watch.clone();
        match order.runner(1, Some(Arc::new(move || asks.is_over()))) {
            Err(fault) => gathering.fail(Failure::Fault(0, fault)),
            Ok(runner) => {
                let blocks = share::share(cut.blocks(), self.size(), 0);
                let held = order.head.held.map(|task| {
                    let held = RoundStates::new(task, states.clone());
                    held.give(blocks.len() as u32);
                    if let Some(recipe) = recipe {
                        held.take_in(&Arc::new(recipe));
                    }
                    held
                });
                let runner = runner.holding(held);
                let chunk_at = |index: u32| order.data.chunks.get(index as usize).cloned();
                gathering.run(0, &runner, blocks, &open, &chunk_at);
                let _ = caught(|| drop((runner, order)));
            }
        }
        if is_shared {
            if gathering.failure.is_some() {
                watch.call_off();
            }
            let mut look = |from| {
                self.awaited.store(from, Relaxed);
                if watch.is_over() {
                    watch.call_off();
                }
            };
            gathering.gather(&self.link, &mut look);
            if any_order {
                self.decide(&mut gathering, cut, look);
            }
        }
        outcome_of(gathering, out)
    }

    /// Tells the other ranks of a round and sends them its parameters, if they take part. Gives the parameters back.
    fn send_round(
        &self,
        master: MasterId,
        turn: u64,
        any_order: bool,
        order: &mut Order,
        out: &mut Traffic,
    ) -> Bytes {
        let Some(mut params) = order.params.buffer() else { return order.params.whole() };
        if !share::is_shared(order.blocks(), self.size()) {
            return params.into_bytes();
        }
        let params_bytes = params.as_slice().len();
        let is_short = params_bytes <= SHORT_BYTES;
        let command = RoundCommand {
            master,
            turn,
            order: order.head.clone(),
            params_bytes: params_bytes as u64,
            is_short,
            any_order,
        };
        let mut message = encoded(&Command::Round(command));
        if is_short {
            message.extend_from_slice(params.as_slice());
        }
        for rank in share::below(0, self.size()) {
            self.link.send(rank, tag::COMMAND, &message);
        }
        if !is_short {
            self.link.broadcast(params.as_mut_slice());
        }
        let copies = u64::from(self.size() - 1);
        out.bytes_out += copies * message.len() as u64;
        out.bytes_out += if is_short { 0 } else { copies * params_bytes as u64 };
        params.into_bytes()
    }

    /// Has the library add results up, if it can.
    fn decide(&self, gathering: &mut Gathering, cut: Cut, look: impl FnMut(u32)) {
        let decision = match (&gathering.failure, gathering.summable) {
            (Some(_), _) => Decision::Drop,
            (None, Summable::Length(length)) => Decision::Add(length),
            (None, _) => Decision::Gather,
        };
        sum::tell(&self.link, decision);
        match decision {
            Decision::Add(length) => {
                let start = Instant::now();
                let sum = gathering.add(&self.link, length);
                gathering.came_bytes += u64::from(self.size() - 1) * 8 * length;
                gathering.merging += start.elapsed();
                gathering.set_root(cut, Box::new(sum));
            }
            Decision::Gather => {
                gathering.stays = false;
                gathering.gather(&self.link, look);
            }
            Decision::Drop => {}
        }
    }
}

/// What the master is told of a round.
fn outcome_of(mut gathering: Gathering, mut traffic: Traffic) -> Outcome {
    let efforts = std::mem::take(&mut gathering.efforts);
    let lines = std::mem::take(&mut gathering.lines);
    // Values that went from one rank to another have travelled, too.
    let between = efforts.iter().filter(|effort| effort.rank > 0).map(|effort| effort.sent_bytes).sum();
    traffic.bytes_in = gathering.came_bytes.max(between);
    let merging = gathering.merging;
    let value = gathering.into_value().map(Value::Whole).map_err(|failure| match failure {
        // As on other engines: parameters that cannot be read are nobody's fault in particular.
        Failure::Fault(_, fault) if fault.kind == FaultKind::Params => fault.into(),
        Failure::Fault(rank, fault) => crew::Failure::Fault { worker: Some(rank), fault },
        Failure::Cancelled => crew::Failure::Cancelled,
    });
    Outcome {
        efforts: efforts.into_iter().map(|effort| (effort.rank, effort.effort)).collect(),
        lines: lines.into_iter().map(|line| (line.rank, line.line)).collect(),
        traffic,
        merging,
        ..Outcome::of(value)
    }
}
