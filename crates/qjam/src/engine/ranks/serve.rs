//! What the ranks other than 0 do: one command after the other, until rank 0 sends them home.

use super::gather::Gathering;
use super::introduce::{WorkerData, room_for};
use super::join;
use super::link::Link;
use super::prints::Prints;
use super::share;
use super::sum::{self, Decision};
use super::wire::{Command, Failure, Introduced, MasterId, RoundCommand, encoded, tag};
use super::words::{self, Doing};
use crate::ctx::Cancelled;
use crate::execution::caught;
use crate::execution::chunks::OpenChunks;
use crate::execution::recipes::StateRecipe;
use crate::execution::round::BlockRunner;
use crate::execution::states::{RoundStates, States};
use crate::function::AnyShared;
use crate::registry;
use bytes::Bytes;
use qjam_core::ids::{DataSetId, RoundId};
use qjam_core::job::{Fault, FaultKind};
use qjam_core::order::HeldTask;
use qjam_core::reduce::Cut;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A function that asks whether it was cancelled has the library asked so often.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What this rank has for one of the masters of the program.
struct MasterRecord {
    open: OpenChunks,
    states: Arc<States>,
    data: HashMap<DataSetId, WorkerData>,
    /// How to make states that a round needs and this rank has not got.
    recipe: Option<(RoundId, Arc<StateRecipe>)>,
}

/// A rank at work.
struct Server {
    link: Arc<Link>,
    masters: HashMap<MasterId, MasterRecord>,
    prints: Option<Prints>,
}

/// Serves until rank 0 says that it is over.
pub(super) fn serve(link: Arc<Link>) {
    let prints = Prints::take_over().ok();
    let mut server = Server { link, masters: HashMap::new(), prints };
    loop {
        words::doing(Doing::Serving);
        let (from, message) = server.link.wait(None, tag::COMMAND, || {});
        let Ok((command, tail)) = postcard::take_from_bytes::<Command>(message.as_ref()) else {
            panic!("rank {from} sent a command that cannot be read");
        };
        if let Command::Round(_) = command {
            for rank in share::below(server.link.rank(), server.link.size()) {
                server.link.send(rank, tag::COMMAND, message.as_ref());
            }
        }
        if !server.obey(command, tail) {
            return;
        }
    }
}

impl Server {
    /// Says whether to go on.
    fn obey(&mut self, command: Command, tail: &[u8]) -> bool {
        match command {
            Command::Greet => self.link.send(0, tag::REPLY, &encoded(&join::hello())),
            Command::Begin { master, cache_bytes_max } => {
                let here = MasterRecord {
                    open: OpenChunks::new(cache_bytes_max),
                    states: Arc::default(),
                    data: HashMap::new(),
                    recipe: None,
                };
                self.masters.insert(master, here);
            }
            Command::Introduce { master, dataset, machine, chunks } => {
                self.take_data(master, dataset, &machine, chunks);
            }
            Command::Behind { master, round, held, cut } => self.catch_up(master, round, held, cut),
            Command::Round(command) => self.round(&command, tail),
            Command::Decided(_) => panic!("a decision about nothing"),
            Command::Release { master, hold } => {
                if let Some(here) = self.masters.get(&master) {
                    here.states.release(hold);
                }
            }
            Command::Forget { master, dataset } => {
                if let Some(here) = self.masters.get_mut(&master)
                    && let Some(gone) = here.data.remove(&dataset)
                {
                    let others = here.data.values().flat_map(|data| data.entries.values());
                    let used: std::collections::HashSet<_> = others.map(|entry| entry.id).collect();
                    let gone: std::collections::HashSet<_> =
                        gone.entries.values().map(|entry| entry.id).filter(|id| !used.contains(id)).collect();
                    here.open.forget(|id| gone.contains(id));
                }
            }
            Command::End { master } => {
                let gone = self.masters.remove(&master);
                // Dropping states is the user's code.
                let _ = caught(|| drop(gone));
            }
            Command::Leave => return false,
        }
        true
    }

    fn take_data(&mut self, master: MasterId, dataset: DataSetId, machine: &str, chunks: Vec<Introduced>) {
        words::doing(Doing::Data);
        let Some(here) = self.masters.get_mut(&master) else { panic!("data of a master that never began") };
        let data = here.data.entry(dataset).or_default();
        let missing = data.find(chunks, machine == join::machine());
        let room = room_for(&missing);
        let answer: Result<Vec<u32>, &String> = match &room {
            Ok(_) => Ok(missing.iter().map(|m| m.index).collect()),
            Err(why) => Err(why),
        };
        self.link.send(0, tag::REPLY, &encoded(&answer));
        let Ok(room) = room else { return };
        if missing.is_empty() {
            return;
        }
        let taken = data.receive(missing, room, |into| self.link.receive_long(0, into));
        self.link.send(0, tag::REPLY, &encoded(&taken));
    }

    /// Says for which partitions states or mail are lacking, and takes in how to make them.
    fn catch_up(&mut self, master: MasterId, round: RoundId, held: HeldTask, cut: Cut) {
        let Some(here) = self.masters.get_mut(&master) else { panic!("states of a master that never began") };
        let blocks = share::share(cut.blocks(), self.link.size(), self.link.rank());
        let behind = here.states.lacking(held, blocks).all();
        self.link.send(0, tag::REPLY, &encoded(&behind));
        if behind.is_empty() {
            return;
        }
        let (_, length) = self.link.wait(Some(0), tag::REPLY, || {});
        let bytes = u64::from_le_bytes(length.as_ref().try_into().unwrap_or_default());
        let mut buf =
            self.link.pool.take(bytes).unwrap_or_else(|| panic!("no memory for a recipe of {bytes} bytes"));
        self.link.receive_long(0, buf.as_mut_slice());
        match StateRecipe::from_bytes(&buf.into_bytes()) {
            Ok(recipe) => here.recipe = Some((round, Arc::new(recipe))),
            Err(why) => panic!("a recipe that cannot be read: {why}"),
        }
    }

    fn round(&mut self, command: &RoundCommand, tail: &[u8]) {
        let link = self.link.clone();
        let (rank, cut, round) = (link.rank(), command.order.cut, command.order.round);
        words::round(round.0, &command.order.function);
        words::doing(Doing::Data);
        let bytes = command.params_bytes;
        let Some(mut params) = link.pool.take(bytes) else {
            panic!("no memory for {bytes} bytes of parameters");
        };
        match command.is_short {
            true => params.as_mut_slice().copy_from_slice(&tail[..bytes as usize]),
            false => link.broadcast(params.as_mut_slice()),
        }
        let Some(here) = self.masters.get_mut(&command.master) else {
            panic!("a round of a master that never began");
        };
        let mut gathering = Gathering::new(round, cut, command.any_order);
        let blocks = share::share(cut.blocks(), link.size(), rank);
        if !blocks.is_empty() {
            let recipe = here.recipe.take().filter(|(of, _)| *of == round).map(|(_, recipe)| recipe);
            match open(&command.order.function, params.into_bytes()) {
                Err(fault) => gathering.fail(Failure::Fault(rank, fault)),
                Ok((function, params)) => {
                    let asked = cancellation(&link, command.turn);
                    let run = BlockRunner::new(&command.order, function, params, 1, Some(asked));
                    let run = run
                        .holding(command.order.held.map(|held| held_here(held, here, &recipe, blocks.len())));
                    let data = here.data.get(&command.order.dataset);
                    let chunk_at = |index: u32| data.and_then(|data| data.entries.get(&index)).cloned();
                    gathering.run(rank, &run, blocks, &here.open, &chunk_at);
                    let _ = caught(|| drop(run));
                }
            }
            if let Some(Failure::Fault(..)) = gathering.failure {
                link.send(0, tag::FAILED, &command.turn.to_le_bytes());
            }
        } else if let Ok(function) = registry::lookup(&command.order.function) {
            // It has nothing of its own, and may still merge what others have.
            gathering.function = Some(function);
        }
        gathering.gather(&link, |_| {});
        if let Some(prints) = &self.prints {
            gathering.lines.extend(prints.take(rank));
        }
        let Some(to) = share::target(rank) else { return };
        gathering.send(&link, to);
        if !command.any_order {
            return;
        }
        match sum::hear(&link) {
            Decision::Add(length) => drop(gathering.add(&link, length)),
            Decision::Gather => {
                gathering.stays = false;
                gathering.gather(&link, |_| {});
                gathering.send(&link, to);
            }
            Decision::Drop => {}
        }
        let _ = caught(|| drop(gathering));
    }
}

fn held_here(
    held: HeldTask,
    here: &MasterRecord,
    recipe: &Option<Arc<StateRecipe>>,
    partitions: usize,
) -> RoundStates {
    let held = RoundStates::new(held, here.states.clone());
    held.give(partitions as u32);
    if let Some(recipe) = recipe {
        held.take_in(recipe);
    }
    held
}

/// The function and its parameters.
fn open(name: &str, params: Bytes) -> Result<(crate::function::Function, AnyShared), Fault> {
    let function =
        registry::lookup(name).map_err(|e| Fault::new(FaultKind::UnknownFunction, e.to_string()))?;
    let params =
        caught(|| function.open_params(params))?.map_err(|e| Fault::new(FaultKind::Params, e.to_string()))?;
    Ok((function, params))
}

/// Asks whether rank 0 has called a round off.
fn cancellation(link: &Arc<Link>, turn: u64) -> Cancelled {
    let link = link.clone();
    let seen = AtomicBool::new(false);
    let looked = Mutex::new(Instant::now());
    Arc::new(move || {
        if seen.load(Relaxed) {
            return true;
        }
        {
            let mut looked = looked.lock().unwrap_or_else(PoisonError::into_inner);
            if looked.elapsed() < LOOK_EVERY {
                return false;
            }
            *looked = Instant::now();
        }
        while let Some((_, message)) = link.next_unless_busy(Some(0), tag::CANCEL) {
            // Earlier ones may have come too late to be heard.
            if message.as_ref() == turn.to_le_bytes() {
                seen.store(true, Relaxed);
            }
        }
        seen.load(Relaxed)
    })
}
