//! A cluster as the crew of a master: has tasks run, gives them what they lack, and combines their parts.
//!
//! A task is told numbers first. A worker that lacks chunks or states answers that, and the task is run again with them, wherever
//! that is. So nothing depends on where Spark places a task, and data travels once to each executor that is given its blocks. Of the
//! answers to a task one counts: the first that is done.

use crate::cluster::{Answer, Cluster, Job, JobError, Task, TaskEnd};
use crate::held::{HeldStates, Partitions};
use crate::messages::{Reply, Request, Setup, Supply, decoded, encoded};
use crate::shares::shares;
use bytes::Bytes;
use qjam::engine::{Assignment, Caps, Crew, CrewWorker, Failure, Order, Outcome, Parts, WorkDone};
use qjam_core::chunk::ChunkId;
use qjam_core::ids::{HoldId, Version};
use qjam_core::job::{Fault, FaultKind};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A task whose worker process has died so often is not tried again.
const DEATHS_MAX: u32 = 3;
/// A job that was lost so often is not tried again.
const LOSSES_MAX: u32 = 3;
/// A task that lacks something so often is told what it needs by nobody.
const ANSWERS_MAX: u32 = 20;
/// About so many bytes of data are sent with one job, so that not all of a data set is in memory once more.
const SUPPLY_BYTES: u64 = 256 << 20;
/// After a round in which most tasks ran where their states were not, so many are given them at once; then it is tried without.
const MOVED_ROUNDS: u32 = 16;
/// So many holds that are gone are told with every task, since nobody knows who still has their states.
const RELEASED_MAX: usize = 64;

/// Rounds on a cluster.
pub struct SparkCrew {
    name: String,
    cluster: Arc<dyn Cluster>,
    slots: AtomicU32,
    known: Mutex<Known>,
}

/// What is known of the workers.
#[derive(Default)]
struct Known {
    /// Chunks that some worker was given.
    chunks: HashSet<ChunkId>,
    /// Workers that have answered, in the order of their first answer.
    names: Vec<String>,
    held: HeldStates,
    /// Holds that workers may forget, the last ones.
    released: Vec<HoldId>,
    /// Where the tasks of the last round ran, by number.
    places: Vec<String>,
    /// In so many of the next rounds all tasks are given their states, since most of the last ones ran where those were not.
    moves_states: u32,
}

/// A task that has not been done.
struct OpenTask {
    number: u32,
    blocks: Range<u32>,
    /// What its worker lacks.
    chunks: Vec<u32>,
    states: Vec<u32>,
    deaths: u32,
    answers: u32,
}

/// States that a task is given, by partition, and where it ran before.
type Sent = (Vec<(u32, Bytes)>, Option<String>);

/// What has come of a round so far.
#[derive(Default)]
struct Progress {
    parts: Vec<Parts>,
    states: Partitions,
    work: Vec<(u32, WorkDone)>,
    places: BTreeMap<u32, String>,
    /// Tasks whose states were elsewhere.
    strangers: usize,
    bytes_out: u64,
    bytes_in: u64,
    chunks_sent: u64,
}

impl SparkCrew {
    /// Rounds on this cluster; `language` is what workers need for functions of another language.
    pub fn new(
        name: &str,
        cluster: Arc<dyn Cluster>,
        language: Option<Vec<u8>>,
    ) -> Result<SparkCrew, String> {
        cluster.set_up(&encoded(&Setup { language }))?;
        let slots = AtomicU32::new(cluster.slots()?.max(1));
        Ok(SparkCrew { name: name.to_owned(), cluster, slots, known: Mutex::default() })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The position of a worker among the crew's. The first is the cluster itself.
    fn position_of(&self, worker: &str) -> u32 {
        let mut known = self.known();
        let at = known.names.iter().position(|name| name == worker).unwrap_or_else(|| {
            known.names.push(worker.to_owned());
            known.names.len() - 1
        });
        at as u32 + 1
    }

    /// The tasks of a round, with what no worker can have yet.
    fn tasks(&self, order: &Order, slots: u32) -> Vec<OpenTask> {
        let known = self.known();
        let is_new: Vec<bool> = order.chunk_names().map(|(id, _)| !known.chunks.contains(&id)).collect();
        let held = order.held().filter(|held| known.moves_states > 0 && held.base != Version::MADE);
        let task = |(number, blocks): (u32, Range<u32>)| {
            let chunks = order.chunks_of(blocks.clone());
            OpenTask {
                number,
                chunks: chunks.filter(|index| is_new[*index as usize]).collect(),
                states: held.map_or(Vec::new(), |_| blocks.clone().collect()),
                blocks,
                deaths: 0,
                answers: 0,
            }
        };
        (0..).zip(shares(order.blocks(), slots)).map(task).collect()
    }

    fn run_round(&self, assignment: &Assignment) -> Result<Outcome, Failure> {
        let order = &assignment.order;
        let slots = self.cluster.slots().map_err(Failure::Engine)?.max(1);
        self.slots.store(slots, Relaxed);
        let body = order.to_bytes();
        let names: Vec<(ChunkId, u64)> = order.chunk_names().map(|(id, header)| (id, header.bytes)).collect();
        let mut open = self.tasks(order, slots);
        let mut progress = Progress { bytes_out: body.len() as u64, ..Progress::default() };
        let mut losses = 0;
        while !open.is_empty() {
            if (assignment.cancelled)() {
                return Err(Failure::Cancelled);
            }
            let now = self.take(assignment, &names, &mut open, &mut progress)?;
            let (tasks, asked): (Vec<Task>, Vec<OpenTask>) = now.into_iter().unzip();
            let job = Job { round: order.round().0, order: &body, tasks };
            match self.cluster.run(&job, &*assignment.cancelled) {
                Ok(answers) => self.hear(order, &names, answers, asked, &mut open, &mut progress)?,
                Err(JobError::Cancelled) => return Err(Failure::Cancelled),
                Err(JobError::Failed(why)) => return Err(Failure::Engine(why)),
                Err(JobError::Lost(why)) => {
                    losses += 1;
                    if losses == LOSSES_MAX {
                        return Err(Failure::Engine(format!(
                            "the job was lost {losses} times; the last time: {why}"
                        )));
                    }
                    open.extend(asked);
                }
            }
        }
        self.finish(order, progress)
    }

    /// What is known for each task: the states that it lacks, and where it ran. And the holds that workers may forget.
    fn known_of(&self, order: &Order, tasks: &[OpenTask]) -> (Vec<Sent>, Vec<HoldId>) {
        let known = self.known();
        let state = |partition: &u32| Some((*partition, known.held.get(order.held()?, *partition)?.clone()));
        let place =
            |number: u32| known.places.get(number as usize).filter(|place| !place.is_empty()).cloned();
        let of = |task: &OpenTask| (task.states.iter().filter_map(state).collect(), place(task.number));
        (tasks.iter().map(of).collect(), known.released.clone())
    }

    /// Takes tasks for the next job, each with what it needs, as many as may travel together.
    fn take(
        &self,
        assignment: &Assignment,
        names: &[(ChunkId, u64)],
        open: &mut Vec<OpenTask>,
        progress: &mut Progress,
    ) -> Result<Vec<(Task, OpenTask)>, Failure> {
        let order = &assignment.order;
        let (mut taken, mut later, mut bytes) = (Vec::new(), Vec::new(), 0);
        open.sort_by_key(|task| task.number);
        let (known, released) = self.known_of(order, open);
        for (task, (states, place)) in open.drain(..).zip(known) {
            let of_chunks: u64 = task.chunks.iter().map(|index| names[*index as usize].1).sum();
            let recipe = assignment.recipe_for(task.blocks.clone());
            let of_recipe = recipe.as_ref().map_or(0, |recipe| recipe.len() as u64);
            let own = of_chunks + of_recipe + states.iter().map(|(_, state)| state.len() as u64).sum::<u64>();
            if !fits(bytes, own) {
                later.push(task);
                continue;
            }
            bytes += own;
            let mut chunks = Vec::new();
            for index in &task.chunks {
                let content = order.chunk(*index).map_err(|e| {
                    Failure::from(Fault {
                        chunk: Some(*index),
                        ..Fault::new(FaultKind::Chunk, e.to_string())
                    })
                })?;
                chunks.push((*index, content));
            }
            let supply = Supply {
                chunks: chunks.iter().map(|(index, content)| (*index, &content[..])).collect(),
                states: states.iter().map(|(partition, state)| (*partition, &state[..])).collect(),
                recipe: recipe.as_deref(),
            };
            progress.chunks_sent += supply.chunks.len() as u64;
            let supply = if supply == Supply::default() { Vec::new() } else { encoded(&supply) };
            progress.bytes_out += supply.len() as u64;
            let request = Request {
                round: order.round().0,
                first: task.blocks.start,
                end: task.blocks.end,
                released: released.clone(),
            };
            taken.push((Task { number: task.number, request: encoded(&request), supply, place }, task));
        }
        *open = later;
        Ok(taken)
    }

    /// Takes in the answers of a job. Tasks that must be run again are open again.
    fn hear(
        &self,
        order: &Order,
        names: &[(ChunkId, u64)],
        answers: Vec<Answer>,
        asked: Vec<OpenTask>,
        open: &mut Vec<OpenTask>,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let mut waiting: BTreeMap<u32, OpenTask> =
            asked.into_iter().map(|task| (task.number, task)).collect();
        for answer in answers {
            // The first answer to a task counts, and no other.
            let Some(mut task) = waiting.remove(&answer.number) else { continue };
            let worker = self.position_of(&answer.worker);
            task.answers += 1;
            match answer.end {
                TaskEnd::Unusable(why) => {
                    return Err(Failure::Engine(format!("worker {}: {why}", answer.worker)));
                }
                TaskEnd::Died(how) => {
                    task.deaths += 1;
                    if task.deaths == DEATHS_MAX {
                        return Err(poison(order, &task, &answer.worker, &how));
                    }
                    open.push(task);
                }
                TaskEnd::Answered(bytes) => {
                    progress.bytes_in += bytes.len() as u64;
                    match decoded::<Reply<'_>>(&bytes, "the answer").map_err(Failure::Engine)? {
                        Reply::Fault(fault) => return Err(Failure::from(fault).at(worker)),
                        Reply::Broken(why) => {
                            return Err(Failure::Engine(format!("worker {}: {why}", answer.worker)));
                        }
                        Reply::Lacks { chunks, states } => {
                            if task.answers > ANSWERS_MAX {
                                let why = "its workers lack again and again what they were given";
                                return Err(Failure::Engine(format!("task {}: {why}", task.number)));
                            }
                            progress.strangers += usize::from(!states.is_empty());
                            // What it was given before may have gone elsewhere.
                            add(&mut task.chunks, chunks, order.chunks_of(task.blocks.clone()));
                            add(&mut task.states, states, task.blocks.clone());
                            open.push(task);
                        }
                        Reply::Done { parts, states } => {
                            let parts = order.parts_from_bytes(parts)?;
                            let is_own = |(partition, _): &(u32, &[u8])| task.blocks.contains(partition);
                            if !order.is_made_of(&parts, task.blocks.clone()) || !states.iter().all(is_own) {
                                return Err(Failure::Engine(format!(
                                    "worker {}: its answer to task {} is not one of that task's blocks",
                                    answer.worker, task.number
                                )));
                            }
                            progress.work.push((worker, parts.work_done()));
                            progress.parts.push(parts);
                            let own =
                                |(partition, state): (u32, &[u8])| (partition, Bytes::copy_from_slice(state));
                            progress.states.extend(states.into_iter().map(own));
                            progress.places.insert(task.number, answer.place);
                            let given = task.chunks.iter().map(|index| names[*index as usize].0);
                            self.known().chunks.extend(given);
                        }
                    }
                }
            }
        }
        match waiting.keys().next() {
            Some(number) => Err(Failure::Engine(format!("task {number} has no answer"))),
            None => Ok(()),
        }
    }

    /// All tasks are done: the value, and the states that the next round begins with.
    fn finish(&self, order: &Order, progress: Progress) -> Result<Outcome, Failure> {
        let Progress { parts, states, work, places, strangers, bytes_out, bytes_in, chunks_sent } = progress;
        let tasks = places.len();
        let value = order.combine(parts);
        if value.is_ok() {
            let mut known = self.known();
            known.places = places.into_values().collect();
            if strangers * 2 > tasks {
                known.moves_states = MOVED_ROUNDS;
            } else if order.held().is_some() {
                known.moves_states = known.moves_states.saturating_sub(1);
            }
            if let Some(held) = order.held().filter(|_| !order.only_looks()) {
                known.held.keep(held, Version::after(order.round()), states);
            }
        }
        Ok(Outcome::of(value).with_work(&work, bytes_out, bytes_in, chunks_sent))
    }
}

/// Whether a task that needs so many bytes travels with others that need so many. One that needs nothing always does.
fn fits(others: u64, own: u64) -> bool {
    own == 0 || others == 0 || others + own <= SUPPLY_BYTES
}

/// Adds what a worker lacks, as far as the task has it.
fn add(all: &mut Vec<u32>, more: Vec<u32>, own: Range<u32>) {
    all.extend(more.into_iter().filter(|index| own.contains(index)));
    all.sort_unstable();
    all.dedup();
}

fn poison(order: &Order, task: &OpenTask, worker: &str, how: &str) -> Failure {
    let chunks = order.chunks_of(task.blocks.clone());
    Failure::Engine(format!(
        "the worker process ended {DEATHS_MAX} times on chunks {} to {}; the last time, worker {worker} {how}; what it said is in \
         the log of its executor",
        chunks.start,
        chunks.end - 1
    ))
}

impl Crew for SparkCrew {
    fn caps(&self) -> Caps {
        let mut caps = Caps::CREW;
        (caps.keeps_state, caps.carries_mail, caps.can_replace, caps.can_cancel) = (true, true, true, true);
        caps
    }

    fn workers(&self) -> Vec<CrewWorker> {
        let name = format!("spark:{}", self.name);
        vec![CrewWorker { name, pid: None, same_machine: false, slots: self.slots.load(Relaxed) }]
    }

    fn newcomers(&self, known: usize) -> Vec<CrewWorker> {
        let new = |name: &String| CrewWorker { name: name.clone(), pid: None, same_machine: false, slots: 0 };
        self.known().names.iter().skip(known.saturating_sub(1)).map(new).collect()
    }

    fn run(&self, assignment: Assignment) -> Outcome {
        self.run_round(&assignment).unwrap_or_else(|failure| Outcome::of(Err(failure)))
    }

    fn release(&self, hold: HoldId) {
        let mut known = self.known();
        known.held.release(hold);
        if known.released.len() == RELEASED_MAX {
            known.released.remove(0);
        }
        known.released.push(hold);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_nothing_is_never_put_off_and_what_is_large_travels_alone() {
        assert!(fits(SUPPLY_BYTES * 2, 0) && fits(0, SUPPLY_BYTES * 2) && fits(1, SUPPLY_BYTES - 1));
        assert!(!fits(SUPPLY_BYTES, 1) && !fits(1, SUPPLY_BYTES));
    }
}
