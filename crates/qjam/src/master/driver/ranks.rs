//! Rounds that ranks do together, beside the scheduler.
//!
//! Rank 0 takes part, so somebody here must run blocks: the caller's own thread if it waits for the round, as for rounds
//! that run [inline](crate::master::inline); otherwise the *helm*, a thread of the master's that does one round after the
//! other and leaves word for the loop. The loop keeps what it keeps of any round: run file, journal, report, states.

use super::{Driver, HeldRound, News, NewsBox};
use crate::codec::Encoder;
use crate::ctx::Cancelled;
use crate::engine::proc::Line;
use crate::engine::ranks::{self, Asked, Failed, Fleet, Outcome, RanksError};
use crate::engine::{Seat, SeatKind};
use crate::error::{Error, Result};
use crate::function::AnyBox;
use crate::master::WorkerInfo;
use crate::master::options::Options;
use crate::master::round::{Errands, Running, Wanted};
use crate::runs::Hash;
use crate::worker::caught;
use crate::worker::states::States;
use bytes::Bytes;
use qjam_core::ids::{DataSetId, HoldId, RoundId, SeatId, Version, WorkerId};
use qjam_core::job::RoundFailure;
use qjam_core::journal::{RoundReport, What};
use qjam_core::reduce::Tree;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};

/// A master's hold on the ranks.
pub(crate) struct Helm {
    fleet: &'static Fleet,
    /// What the ranks know this master by.
    master: u64,
    /// The states of rank 0's own partitions.
    states: Arc<States>,
    /// As which round all ranks have left the states of a hold.
    left: HashMap<HoldId, Version>,
    /// A round that whoever submits it is to run.
    asked: Option<AskedHere>,
    /// The thread that runs the others, once there is one.
    jobs: OnceLock<Sender<(RoundId, Box<AskedHere>)>>,
    news: Arc<NewsBox>,
}

/// A round for the ranks, and for the thread that runs it here.
pub(crate) struct AskedHere {
    fleet: &'static Fleet,
    asked: Asked,
}

impl AskedHere {
    /// Runs it to its end. The caller may ask to stop, by what it says itself when it is asked.
    pub(crate) fn run(mut self, called_off: Option<Cancelled>) -> Outcome {
        if let Some(called_off) = called_off {
            let flag = self.asked.cancelled.clone();
            self.asked.cancelled = Arc::new(move || flag() || called_off());
        }
        self.fleet.run(self.asked)
    }
}

impl Helm {
    /// Meets the ranks, and puts a seat for each in the place of the one that stood for all.
    pub(crate) fn take(options: &Options, news: Arc<NewsBox>, seats: &mut Vec<Seat>) -> Result<Helm> {
        let fleet = ranks::fleet()?;
        if options.memory_bytes_max.is_some() {
            let instead =
                "set the limit where the ranks are started (`ulimit -v`, or your cluster's `--mem`)";
            return Err(RanksError::Unsupported { what: "there is no memory limit", instead }.into());
        }
        let master = fleet.begin(|memory_bytes, ranks| options.cache_bytes(None, memory_bytes, ranks))?;
        let seat =
            |rank: ranks::Rank| Seat { kind: SeatKind::Rank, slots: 1, slots_given: true, name: rank.name };
        *seats = fleet.ranks().into_iter().map(seat).collect();
        Ok(Helm {
            fleet,
            master,
            states: Arc::default(),
            left: HashMap::new(),
            asked: None,
            jobs: OnceLock::new(),
            news,
        })
    }

    /// The ranks that are waited for.
    pub(super) fn awaited(&self) -> Vec<String> {
        self.fleet.awaited()
    }

    pub(super) fn workers(&self) -> Vec<WorkerInfo> {
        let info = |rank: ranks::Rank| WorkerInfo {
            name: rank.name,
            pid: rank.is_here.then_some(rank.pid),
            remote_pid: (!rank.is_here).then_some(rank.pid),
            slots: 1,
        };
        self.fleet.ranks().into_iter().map(info).collect()
    }

    /// Nobody will ask for this data again.
    pub(super) fn forget(&self, dataset: DataSetId) {
        self.fleet.forget(self.master, dataset);
    }

    /// Nobody will ask for these states again.
    pub(super) fn release(&mut self, hold: HoldId) {
        self.left.remove(&hold);
        self.states.release(hold);
        self.fleet.release(self.master, hold);
    }

    /// Leaves a round to the thread that runs those nobody waits for.
    fn hand_over(&self, round: RoundId, asked: AskedHere) -> std::io::Result<()> {
        if self.jobs.get().is_none() {
            let (jobs, taken) = channel::<(RoundId, Box<AskedHere>)>();
            let news = self.news.clone();
            std::thread::Builder::new().name("qjam-helm".into()).spawn(move || {
                for (round, asked) in taken {
                    let outcome = Box::new(asked.run(None));
                    news.put(News::RanksDone { round, outcome });
                }
            })?;
            let _ = self.jobs.set(jobs);
        }
        // It ends only when nobody can hand it anything.
        if let Some(jobs) = self.jobs.get() {
            let _ = jobs.send((round, Box::new(asked)));
        }
        Ok(())
    }
}

impl Drop for Helm {
    fn drop(&mut self) {
        self.fleet.end(self.master);
    }
}

impl Driver {
    pub(crate) fn has_ranks(&self) -> bool {
        self.ranks.is_some()
    }

    /// Begins a round, which its caller runs if it waits for it.
    pub(super) fn submit_to_ranks(
        &mut self,
        id: RoundId,
        wanted: Wanted,
        held: Option<HeldRound>,
        params: &Encoder<'_>,
        params_hash: Option<Hash>,
        waits: bool,
    ) {
        let Wanted { function, data, answer, submitted, .. } = wanted;
        let Some(helm) = &self.ranks else { return };
        let (fleet, master, states) = (helm.fleet, helm.master, helm.states.clone());
        let task = held.as_ref().map(|held| held.task);
        // Where nothing was lost, they have what the last round left.
        let may_lack =
            task.is_some_and(|t| t.base != Version::MADE && helm.left.get(&t.hold) != Some(&t.base));
        self.remember(&data);
        let cut = self.cut(function.mode(), &data, params.payload_bytes() as u64, fleet.size());
        let flag = Arc::new(AtomicBool::new(false));
        let sent = fleet.params(params);
        let report = RoundReport {
            round: id.0,
            master_us: submitted.elapsed().as_micros() as u64,
            ..Default::default()
        };
        let running = Running {
            function: function.clone(),
            data: data.clone(),
            cut,
            params: Bytes::new(),
            params_bytes: params.payload_bytes(),
            lent: None,
            placed: None,
            opened: None,
            tree: Tree::new(cut),
            views: Arc::default(),
            answer,
            submitted,
            report,
            compute_us: HashMap::new(),
            is_answered: false,
            ends_by: self.options.round_timeout.and_then(|limit| submitted.checked_add(limit)),
            params_hash,
            told: None,
            chosen: None,
            held,
            called_off: Some(flag.clone()),
            errands: Errands::None,
            first_done: None,
            is_crowded: false,
        };
        self.rounds.insert(id, running);
        self.note(What::RoundStarted { round: id, chunks: cut.chunks, blocks: cut.blocks() });
        let Some(params_sent) = sent else {
            let bytes = params.payload_bytes();
            let why = format!("no memory for {bytes} bytes of parameters");
            let source = std::io::Error::new(std::io::ErrorKind::OutOfMemory, why);
            return self.close_on_ranks(id, Err(Error::System { step: "sending parameters", source }));
        };
        let recipe = match may_lack {
            true => self.recipe(id, &(0..cut.chunks).collect::<Vec<u32>>()).ok().flatten(),
            false => None,
        };
        let asked = Asked {
            master,
            round: id,
            cut,
            function,
            params: params_sent,
            data,
            seed: self.options.seed,
            open: self.open.clone(),
            states,
            held: task,
            recipe,
            cancelled: Arc::new(move || flag.load(Relaxed)),
            any_order: self.options.any_order,
        };
        let asked = AskedHere { fleet, asked };
        // Who waits can be called off by what it is asked itself, but not by a clock.
        let handed = match &mut self.ranks {
            Some(helm) if waits && self.options.round_timeout.is_none() => {
                helm.asked = Some(asked);
                Ok(())
            }
            Some(helm) => helm.hand_over(id, asked),
            None => Ok(()),
        };
        if let Err(source) = handed {
            return self.close_on_ranks(id, Err(Error::System { step: "starting a thread", source }));
        }
        self.record_params(id, params);
    }

    /// The round that its caller is to run, if the last one is such a one.
    pub(crate) fn take_asked(&mut self) -> Option<AskedHere> {
        self.ranks.as_mut().and_then(|helm| helm.asked.take())
    }

    /// The ranks have done a round.
    pub(crate) fn end_on_ranks(&mut self, round: RoundId, outcome: Outcome) {
        let Outcome { value, efforts, lines, bytes_out, bytes_in, chunks_sent, merging } = outcome;
        for line in lines {
            self.log(rank(line.rank), Line { text: line.text, is_error: line.is_error });
        }
        let Some(running) = self.rounds.get_mut(&round) else { return };
        let report = &mut running.report;
        report.master_us += merging.as_micros() as u64;
        report.bytes_out += bytes_out;
        report.chunks_sent += chunks_sent;
        // Values that went from one rank to another have travelled, too.
        let between: u64 =
            efforts.iter().filter(|effort| effort.rank > 0).map(|effort| effort.sent_bytes).sum();
        report.bytes_in += bytes_in.max(between);
        for effort in efforts {
            let Some(running) = self.rounds.get_mut(&round) else { return };
            running.report.cache_hits += u64::from(effort.hits);
            running.report.cache_misses += u64::from(effort.misses);
            *running.compute_us.entry(SeatId(effort.rank)).or_default() += effort.compute_us;
            self.count_restored(rank(effort.rank), round, &effort.restored);
        }
        let Some(running) = self.rounds.get(&round) else { return };
        if running.is_answered {
            // It was called off, or took too long, before it came to its end.
            let _ = caught(|| drop(value));
            self.rounds.remove(&round);
            return self.note(What::RoundOver { round, finished: false });
        }
        let task = running.held.as_ref().map(|held| held.task).filter(|_| !running.function.only_looks());
        let value = match value {
            Ok(value) => {
                if let (Some(task), Some(helm)) = (task, &mut self.ranks) {
                    helm.left.insert(task.hold, Version::after(round));
                }
                Ok(value)
            }
            Err(Failed::Cancelled) => Err(Error::Cancelled),
            Err(Failed::Fault(from, fault)) => Err(crate::error::from_failure(
                RoundFailure::Fault { worker: from.map(rank), fault },
                running.function.name(),
                |worker| self.name_of(worker),
                |chunk| running.data.chunks.get(chunk as usize).map(|c| c.id),
                |block| running.cut.chunks_of(running.cut.node(block)),
            )),
        };
        self.close_on_ranks(round, value);
    }

    fn close_on_ranks(&mut self, round: RoundId, value: Result<AnyBox>) {
        let finished = value.is_ok();
        self.answer(round, value);
        self.rounds.remove(&round);
        self.note(What::RoundOver { round, finished });
    }

    /// Answers whoever waits, and asks the ranks to stop.
    pub(super) fn cancel_on_ranks(&mut self, round: RoundId) {
        let Some(running) = self.rounds.get(&round) else { return };
        if let Some(flag) = &running.called_off {
            flag.store(true, Relaxed);
        }
        if !running.is_answered {
            self.answer(round, Err(Error::Cancelled));
        }
    }

    /// The master is at its end.
    pub(super) fn call_all_off(&mut self) {
        for flag in self.rounds.values().filter_map(|running| running.called_off.as_ref()) {
            flag.store(true, Relaxed);
        }
    }

    pub(super) fn is_busy_on_ranks(&self) -> bool {
        self.ranks.is_some() && self.rounds.values().any(|running| !running.is_answered)
    }
}

/// The worker that a rank is.
fn rank(rank: u32) -> WorkerId {
    WorkerId { seat: SeatId(rank), incarnation: 0 }
}
