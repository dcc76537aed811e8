//! How a supervisor keeps its executor: start, translate, bury.

use super::shelf::{ShelfReply, ShelfRequest, ShelvedChunk};
use super::{ROUNDS_MAX, Ready, Supervisor, wrong};
use crate::VERSION;
use crate::chunk::ChunkId;
use crate::executor_process::{ExecutorProcess, Throttle};
use crate::process;
use crate::transport::{Attachment, Bulk, FDS_MAX, Read};
use bytes::Bytes;
use qjam_core::ids::{DataSetId, RoundId, WorkerId};
use qjam_core::job::{Cause, Death};
use qjam_core::wire::host::Line;
use qjam_core::wire::message::{ByteLocation, Payload, Ref, ResultMessage, State};
use qjam_core::wire::{FromHost, ToMaster, ToWorker};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An executor must be through its handshake within this time.
const START_WITHIN: Duration = Duration::from_secs(10);
/// One that is told to drop a round and does not within this time is ended.
const LET_GO_WITHIN: Duration = Duration::from_millis(500);

/// The executor and what it has been told.
pub(super) struct ExecutorRecord {
    pub(super) executor: ExecutorProcess,
    /// Whether standard output and standard error have ended.
    pub(super) ended: [bool; 2],
    started: Instant,
    throttle: Throttle,
    /// Chunks it waits for: for which data sets, and the round of each that was first to want them.
    awaited: HashMap<ChunkId, BTreeMap<DataSetId, RoundId>>,
    /// Packs it has been introduced to, with the chunks that it uses of each.
    packs: HashMap<u64, (Arc<OwnedFd>, Vec<ChunkId>)>,
    /// What it has said since a pack was found to be changed, until its chunks have been compared again.
    doubted: Option<Vec<(ToMaster, Bytes)>>,
    /// Rounds it was told to drop, and by when. That is judged here, where no long way home makes it look slow.
    letting_go: HashMap<RoundId, Instant>,
}

impl ExecutorRecord {
    /// When something of it should be looked at besides what it says.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let start = (!self.executor.joined).then_some(self.started + START_WITHIN);
        start.into_iter().chain(self.letting_go.values().copied()).min()
    }
}

impl Supervisor {
    pub(super) fn start(&mut self, worker: WorkerId, slots: u32) {
        self.kept = None; // whoever is there ends
        // What the one before has asked for may be of data sets that are gone. What is on its way is not sent twice.
        self.requested.clear();
        let memory_bytes_max = self.settings.as_ref().and_then(|s| s.memory_bytes_max);
        let started = process::spawn(None, slots, memory_bytes_max.is_some())
            .and_then(|spawned| ExecutorProcess::new(worker, slots, spawned, memory_bytes_max));
        match started {
            Ok(executor) => {
                self.kept = Some(ExecutorRecord {
                    executor,
                    ended: [false; 2],
                    started: Instant::now(),
                    throttle: Throttle::default(),
                    awaited: HashMap::new(),
                    packs: HashMap::new(),
                    doubted: None,
                    letting_go: HashMap::new(),
                });
            }
            Err(e) => {
                let death = Death::of(Cause::Start(e.to_string()));
                self.say(&FromHost::Died { worker, death });
            }
        }
    }

    pub(super) fn kill(&mut self, worker: WorkerId) {
        if self.kept.as_ref().is_some_and(|kept| kept.executor.worker == worker) {
            self.kept = None;
        }
    }

    fn bury(&mut self, cause: Option<Cause>) {
        let Some(kept) = self.kept.take() else { return };
        let (worker, dropped) = (kept.executor.worker, kept.throttle.dropped);
        let mut lines = Vec::new();
        let death = kept.executor.end(cause, |line| lines.push(line));
        let lines = lines.into_iter().map(|l| Line { text: l.text, is_error: l.is_error }).collect();
        self.say(&FromHost::Lines { worker, lines, dropped });
        self.say(&FromHost::Died { worker, death });
    }

    /// Hears what the executor says and prints, and sees whether it is still there.
    pub(super) fn tend_executor(&mut self, ready: Ready) -> io::Result<()> {
        if self.kept.is_none() {
            return Ok(());
        }
        if ready.pipes {
            self.pass_lines(false);
        }
        if ready.socket {
            let Some(kept) = &mut self.kept else { return Ok(()) };
            let there = kept.executor.flush().is_ok();
            let read = kept.executor.read();
            while let Some(kept) = &mut self.kept {
                match kept.executor.inbox.next(ToMaster::from_frame) {
                    Ok(None) => break,
                    Ok(Some(incoming)) => {
                        if let Err(why) = self.hear(incoming.message, &incoming.tail) {
                            self.bury(Some(Cause::Protocol(why)));
                        }
                    }
                    Err(e) => self.bury(Some(Cause::Protocol(e.to_string()))),
                }
            }
            if !there || matches!(read, Ok(Read::Ended) | Err(_)) {
                self.bury(None);
            }
        }
        if self.kept.as_ref().and_then(ExecutorRecord::next_deadline).is_some_and(|at| at <= Instant::now()) {
            let joined = self.kept.as_ref().is_some_and(|kept| kept.executor.joined);
            let why = format!("no word from it within {START_WITHIN:?}");
            self.bury(Some(if joined { Cause::Unresponsive } else { Cause::Start(why) }));
        }
        Ok(())
    }

    /// Passes on what user code printed; with `all` also what has no end of line yet.
    fn pass_lines(&mut self, all: bool) {
        let now_us = self.started.elapsed().as_micros() as u64;
        let max = self.settings.as_ref().map_or(u32::MAX, |s| s.lines_per_second_max);
        let Some(kept) = &mut self.kept else { return };
        let mut lines = Vec::new();
        let ended = kept.executor.read_lines(|line| lines.push(line));
        kept.ended = [kept.ended[0] || ended[0], kept.ended[1] || ended[1]];
        if all {
            lines.extend(kept.executor.take_unfinished());
        }
        lines.retain(|_| kept.throttle.passes(now_us, max));
        let dropped = if all { std::mem::take(&mut kept.throttle.dropped) } else { 0 };
        if lines.is_empty() && dropped == 0 {
            return;
        }
        let lines = lines.into_iter().map(|l| Line { text: l.text, is_error: l.is_error }).collect();
        let worker = kept.executor.worker;
        self.say(&FromHost::Lines { worker, lines, dropped });
    }

    // ---- to the executor --------------------------------------------------------------------------------------

    pub(super) fn pass_down(&mut self, worker: WorkerId, message: ToWorker, tail: &Bytes) -> io::Result<()> {
        let Some(kept) = &mut self.kept else { return Ok(()) };
        if kept.executor.worker != worker {
            return Ok(()); // for one that is no more
        }
        let mut attached = Vec::new();
        let message = match message {
            ToWorker::Task(mut task) => {
                kept.executor.begin(task.order.round);
                if let Payload::Streamed { .. } = task.params {
                    let placed = self.params.get(&task.order.round);
                    let placed =
                        placed.ok_or_else(|| wrong(format!("{} without parameters", task.order.round)))?;
                    let new = placed.introduce(&mut kept.executor.introduced);
                    if new {
                        attached.push(Attachment::File(placed.fd.clone()));
                    }
                    task.params = placed.payload(new);
                }
                task.released = kept.executor.released.take();
                self.rounds.insert(task.order.round, task.order.dataset);
                if self.rounds.len() > ROUNDS_MAX {
                    // The oldest of its kind: internal ones have numbers of their own.
                    let first =
                        if task.order.round.is_internal() { RoundId::internal(0) } else { RoundId(0) };
                    let oldest = self.rounds.range(first..).next().map(|(round, _)| *round);
                    oldest.map(|round| self.rounds.remove(&round));
                }
                ToWorker::Task(task)
            }
            ToWorker::Cancel(round) => {
                kept.executor.mark_cancelled(round);
                kept.letting_go.insert(round, Instant::now() + LET_GO_WITHIN);
                ToWorker::Cancel(round)
            }
            ToWorker::Forget { dataset, .. } => {
                // The master does not send what was asked for any more: who needs it again asks again.
                kept.awaited.retain(|_, sets| {
                    sets.remove(&dataset);
                    !sets.is_empty()
                });
                self.requested.retain(|id| kept.awaited.contains_key(id));
                let gone = self.packs.remove(&dataset).unwrap_or_default();
                let regions: Vec<u64> =
                    gone.into_iter().filter(|pack| !self.packs.values().any(|p| p.contains(pack))).collect();
                for pack in &regions {
                    kept.packs.remove(pack);
                }
                self.shelf.order(ShelfRequest::LetGo(regions.clone()));
                ToWorker::Forget { dataset, regions }
            }
            ToWorker::Spare(round) => {
                // Its value came from somebody else; this one was late and may take its time.
                kept.executor.mark_cancelled(round);
                ToWorker::Spare(round)
            }
            other @ (ToWorker::Ping
            | ToWorker::Bye
            | ToWorker::Recall { .. }
            | ToWorker::Apart { .. }
            | ToWorker::Recipe { .. }
            | ToWorker::Release(_)
            | ToWorker::FindRuntime) => other,
            other => return Err(wrong(format!("{other:?} for an executor of another host"))),
        };
        let sent = kept.executor.send(&message, tail, attached);
        if sent.is_err() {
            self.bury(None);
        }
        Ok(())
    }

    /// What the disk has for the executor.
    pub(super) fn take_replies(&mut self) -> io::Result<()> {
        for reply in self.shelf.replies() {
            match reply {
                ShelfReply::Here(found) => self.hand_over(found),
                ShelfReply::Missing(missing) => self.ask_for(missing),
                ShelfReply::Refused(chunk, why) => {
                    self.requested.remove(&chunk);
                    self.say(&FromHost::Refused { chunk, why });
                }
                ShelfReply::Trouble(text) => self.say(&FromHost::Trouble(text)),
                ShelfReply::Cached(facts) => self.say(&FromHost::Cached(facts)),
                ShelfReply::Rechecked(worker, bad) => self.take_verdict(worker, &bad),
            }
        }
        Ok(())
    }

    /// Tells the executor where chunks are that it waits for.
    fn hand_over(&mut self, found: Vec<ShelvedChunk>) {
        let Some(kept) = &mut self.kept else { return };
        let mut refs = Vec::new();
        let mut attached = Vec::new();
        let mut sent = Ok(());
        for ShelvedChunk { id, header, pack, pack_bytes, file, offset } in found {
            self.requested.remove(&id);
            let Some(sets) = kept.awaited.remove(&id) else {
                continue; // for an executor, or a data set, that is no more
            };
            for dataset in sets.into_keys() {
                self.packs.entry(dataset).or_default().insert(pack);
            }
            let with_fd = !kept.packs.contains_key(&pack);
            if with_fd {
                attached.push(Attachment::File(file.clone()));
            }
            kept.packs.entry(pack).or_insert((file, Vec::new())).1.push(id);
            refs.push(Ref { id, header, place: ByteLocation::Pack { pack, pack_bytes, with_fd, offset } });
            if attached.len() == FDS_MAX {
                let message = ToWorker::Refs(std::mem::take(&mut refs));
                sent = sent.and(kept.executor.send(&message, &[], std::mem::take(&mut attached)));
            }
        }
        if !refs.is_empty() {
            sent = sent.and(kept.executor.send(&ToWorker::Refs(refs), &[], attached));
        }
        if sent.is_err() {
            self.bury(None);
        }
    }

    /// Asks the master for chunks that are not on this host, unless they are on their way.
    fn ask_for(&mut self, missing: Vec<ChunkId>) {
        let Some(kept) = &self.kept else { return };
        let worker = kept.executor.worker;
        let mut by_round: BTreeMap<RoundId, Vec<ChunkId>> = BTreeMap::new();
        for id in missing {
            let Some(round) = kept.awaited.get(&id).and_then(|sets| sets.values().next_back()) else {
                continue;
            };
            if self.requested.insert(id) {
                by_round.entry(*round).or_default().push(id);
            }
        }
        for (round, missing) in by_round {
            let message = ToMaster::State(State::Blocked { round, missing });
            self.say(&FromHost::Worker { worker, message });
        }
    }

    /// Chunks have been compared with their names again. What the executor said meanwhile counts if all are good; otherwise it
    /// ends, with everything that it has computed from them and not delivered.
    fn take_verdict(&mut self, worker: WorkerId, bad: &[ChunkId]) {
        let Some(kept) = self.kept.as_mut().filter(|kept| kept.executor.worker == worker) else {
            return; // for one that is no more
        };
        let doubted = kept.doubted.take().unwrap_or_default();
        let uses = |id: &ChunkId| kept.packs.values().any(|(_, ids)| ids.contains(id));
        if let Some(id) = bad.iter().find(|id| uses(id)) {
            let why = format!("chunk {id} was changed on the disk of the host while it was in use");
            self.say(&FromHost::Trouble(format!("{why}; what was computed from it is computed again")));
            return self.bury(Some(Cause::Protocol(why)));
        }
        for (message, tail) in doubted {
            if let Err(why) = self.pass_on(message, &tail) {
                return self.bury(Some(Cause::Protocol(why)));
            }
        }
    }

    /// Holds back what the executor says while it is in doubt whether its chunks are what they were.
    fn is_doubted(&mut self, message: &ToMaster, tail: &Bytes) -> bool {
        let Some(kept) = &mut self.kept else { return false };
        let passes = matches!(
            message,
            ToMaster::Hello { .. }
                | ToMaster::Pong
                | ToMaster::State(State::Running | State::Blocked { .. })
                | ToMaster::Runtime(_)
        );
        if passes {
            return false;
        }
        let counts = matches!(message, ToMaster::Result(_) | ToMaster::Error { .. });
        if kept.doubted.is_none() && counts {
            let shelf = &self.shelf;
            if kept.packs.iter().all(|(pack, (file, _))| shelf.holds(*pack, file)) {
                return false;
            }
            let handed = kept.packs.iter().map(|(pack, (_, ids))| (*pack, ids.clone())).collect();
            shelf.recheck((kept.executor.worker, handed));
            kept.doubted = Some(Vec::new());
        }
        match &mut kept.doubted {
            Some(doubted) => {
                doubted.push((message.clone(), tail.clone()));
                true
            }
            None => false,
        }
    }

    // ---- from the executor ------------------------------------------------------------------------------------

    fn hear(&mut self, message: ToMaster, tail: &Bytes) -> Result<(), String> {
        match self.is_doubted(&message, tail) {
            true => Ok(()),
            false => self.pass_on(message, tail),
        }
    }

    fn pass_on(&mut self, message: ToMaster, tail: &Bytes) -> Result<(), String> {
        let Some(kept) = &mut self.kept else { return Ok(()) };
        let worker = kept.executor.worker;
        match message {
            ToMaster::Hello { slots, pid, version } => {
                let settings = self.settings.as_ref().ok_or("started before the master's welcome")?;
                if std::mem::replace(&mut kept.executor.joined, true) || version != VERSION {
                    return Err(format!("a hello of version {version}; this is version {VERSION}"));
                }
                let page = kept.executor.page.as_fd().try_clone_to_owned().map_err(|e| e.to_string())?;
                let welcome = ToWorker::Welcome {
                    worker,
                    memory_bytes_max: settings.memory_bytes_max,
                    cache_bytes_max: settings.cache_bytes_max,
                    deliver_after_us: settings.deliver_after_us,
                    runtime: settings.runtime.clone(),
                };
                // Should this fail, the end of its socket says so next.
                let _ = kept.executor.send(&welcome, &[], vec![Attachment::File(Arc::new(page))]);
                self.say(&FromHost::Joined { worker, slots, pid });
            }
            ToMaster::State(State::Blocked { round, missing }) => {
                let dataset = self.rounds.get(&round);
                let dataset = *dataset.ok_or_else(|| format!("chunks for {round}, which nobody gave it"))?;
                for id in &missing {
                    kept.awaited.entry(*id).or_default().entry(dataset).or_insert(round);
                }
                self.shelf.order(ShelfRequest::Find(missing));
            }
            message @ (ToMaster::State(State::Running) | ToMaster::Pong) => {
                self.lanes.urgent(&FromHost::Worker { worker, message });
            }
            ToMaster::Result(outcome) => self.pass_result(outcome, tail)?,
            message @ (ToMaster::Returned { .. }
            | ToMaster::State(State::Behind { .. } | State::InterpreterLost { .. })
            | ToMaster::Runtime(_)) => self.say(&FromHost::Worker { worker, message }),
            message @ (ToMaster::Error { .. } | ToMaster::Cancelled(_)) => {
                if let ToMaster::Cancelled(round) = message {
                    kept.letting_go.remove(&round);
                }
                self.pass_lines(true);
                self.say(&FromHost::Worker { worker, message });
            }
        }
        Ok(())
    }

    /// Passes finished work on: what the executor left in shared memory goes first, in segments.
    fn pass_result(&mut self, mut outcome: ResultMessage, tail: &Bytes) -> Result<(), String> {
        self.pass_lines(true);
        let Some(kept) = &mut self.kept else { return Ok(()) };
        let worker = kept.executor.worker;
        for part in &mut outcome.parts {
            let Payload::Arena { arena, bytes, .. } = part.payload else { continue };
            let inbox = &mut kept.executor.inbox;
            let view = kept.executor.arenas.read(&part.payload, tail, || inbox.take_fd())?;
            part.payload = Payload::Streamed { bytes };
            self.next_ticket += 1;
            self.tickets.insert(self.next_ticket, (worker, arena));
            let bulk = Bulk { source: Box::new(view), round: None, ticket: self.next_ticket };
            self.lanes.stream(&FromHost::OpenPart { bytes }, bulk);
        }
        self.say_with(&FromHost::Worker { worker, message: ToMaster::Result(outcome) }, tail.clone());
        Ok(())
    }

    /// A result has gone out: its arena may be written again.
    pub(super) fn release(&mut self, ticket: u64) {
        let Some((worker, arena)) = self.tickets.remove(&ticket) else { return };
        if let Some(kept) = &mut self.kept
            && kept.executor.worker == worker
        {
            let sent = kept.executor.send(&ToWorker::Released(vec![arena]), &[], Vec::new());
            if sent.is_err() {
                self.bury(None);
            }
        }
    }
}
