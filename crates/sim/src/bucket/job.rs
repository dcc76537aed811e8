//! A job in a simulated bucket: rounds, the workers that do them, and what must come of it.

use super::checks;
use super::clock::{Clock, Tasks};
use super::faults::Faults;
use super::storage::{Latency, Link, Requests, Shared, SimStorage};
use crate::checkers::{Verdict, Violation};
use crate::oracle::{Mode, Value, serial};
use crate::random::{Rng, mix};
use qjam_core::bucket::{
    Ending, Failed, Message, Next, Order, Plan, RoundAt, RoundHead, Sender, Settings, Shape, Watch, Work,
    Worker, begin, keys,
};
use qjam_core::reduce::{Cut, Node, Tree};
use qjam_core::time::{Span, Time};
use std::cell::Cell;

/// A job that takes longer is stuck.
const END: Span = Span(4 * 3_600_000_000);
/// How long workers are watched after the job, when they have nothing to do.
const IDLE: Span = Span(200_000_000);
/// Questions to the queue until a worker asks as seldom as it ever does.
const QUESTIONS: u64 = 25;
/// Who begins rounds that nobody else begins.
const SUBMITTER: Sender<'_> = Sender { name: "submitter", patience: Span(0) };
/// The name of the job.
const JOB: &str = "job";

/// A job, its workers and what goes wrong.
#[derive(Clone, Debug)]
pub struct Job {
    /// Everything else follows from it.
    pub seed: u64,
    /// The chunks and blocks of every round.
    pub cut: Cut,
    /// Most tasks of a round.
    pub tasks_max: u32,
    /// How results are merged.
    pub shape: Shape,
    /// How many rounds.
    pub rounds: u64,
    /// Whether each round makes the next, without a submitter.
    pub fused: bool,
    /// How many workers.
    pub workers: u32,
    /// What a task takes.
    pub task_us: u64,
    /// What a step takes at most.
    pub step_us: u64,
    /// What requests take.
    pub latency: Latency,
    /// What goes wrong.
    pub faults: Faults,
    /// Times and limits.
    pub settings: Settings,
}

/// What came of a job.
#[derive(Clone, Debug, Default)]
pub struct JobEnding {
    /// When its last round ended.
    pub took_us: u64,
    /// How many tasks were run, backups and repetitions included.
    pub maps: u64,
    /// How many merges.
    pub merges: u64,
    /// Requests to the storage until then.
    pub requests: Requests,
    /// Workers that died.
    pub deaths: u64,
}

impl Job {
    /// The job of a seed.
    pub fn draw(seed: u64) -> Job {
        let mut rng = Rng::new(seed).fork(77);
        let chunks = rng.magnitude(1, 300) as u32;
        let shape = *rng.pick(&[Shape::SquareRoot, Shape::SquareRoot, Shape::Flat, Shape::FanIn { bits: 2 }]);
        let least_us = rng.magnitude(20, 20_000);
        let faults = Faults::draw(&mut rng.fork(1));
        let hidden = Span(rng.magnitude(3_000_000, 60_000_000));
        Job {
            seed,
            cut: Cut::new(chunks, rng.below(4) as u8),
            tasks_max: rng.magnitude(1, 64) as u32,
            shape,
            rounds: rng.between(1, 4),
            fused: rng.percent(50),
            workers: rng.magnitude(1, 24) as u32,
            task_us: rng.magnitude(100, 20_000_000),
            step_us: rng.magnitude(1, 8_000_000),
            latency: Latency {
                least_us,
                most_us: least_us * rng.between(1, 4),
                link_bytes_per_ms: 100_000,
                blob_bytes_per_ms: 0,
                bulk_bytes: 0,
                copies_max: 0,
            },
            settings: Settings {
                // Where messages are delivered twice and workers die for other reasons, many deliveries prove nothing.
                deliveries_max: match faults.death_every_us {
                    0 if faults.twice_percent == 0 => 4,
                    0 => 50,
                    _ => 1_000,
                },
                hidden,
                resend_after: Span(hidden.0 * 6).max(Settings::default().resend_after),
                extend_every: Span(hidden.0 / 6),
                ..Settings::default()
            },
            faults,
        }
    }

    /// Which value a round works on: of the first round that of the seed, of later ones what the step before made of its value.
    fn first_key(&self) -> u64 {
        mix(self.seed)
    }

    /// Whether the worker that has begun a step dies, and after which time: in the step, while it writes the order or sends messages,
    /// or when it has.
    fn stepper_death(&self, (n, takes): (usize, Span), rng: &mut Rng) -> Option<(usize, Span)> {
        let requests = u64::from(self.head().plan.tasks()) / 8 + 12;
        let dies = rng.percent(self.faults.stepper_death_percent);
        dies.then(|| (n, Span(rng.below(takes.0 + requests * self.latency.most_us + 1))))
    }

    fn head(&self) -> RoundHead {
        RoundHead { plan: Plan::new(self.cut, self.tasks_max, self.shape), fused: self.fused }
    }

    fn order(&self, key: u64) -> Order<Shared> {
        Order::new(self.head(), &key.to_le_bytes())
    }
}

/// A value in bytes.
fn encode(value: Value) -> Shared {
    [value.sum.to_bits().to_le_bytes(), value.shape.to_le_bytes()].concat().into()
}

fn decode(bytes: &[u8]) -> Value {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    Value { sum: f64::from_bits(number(0)), shape: number(8) }
}

/// What the next round works on.
fn next_key(key: u64, value: Value) -> u64 {
    mix(key ^ value.sum.to_bits() ^ value.shape)
}

/// The functions of the simulated rounds.
struct Functions<'a> {
    job: &'a Job,
    clock: &'a Clock,
    storage: &'a SimStorage,
    counts: &'a Counts,
    number: usize,
    task_us: u64,
}

/// What the functions did, all workers together.
#[derive(Default)]
struct Counts {
    maps: Cell<u64>,
    merges: Cell<u64>,
    /// The worker that has just run a poisonous task.
    poisoned: Cell<Option<usize>>,
    /// The worker that has just begun a step, and what that takes.
    stepping: Cell<Option<(usize, Span)>>,
    steps: Cell<u64>,
}

impl Functions<'_> {
    fn key(order: &Order<Shared>) -> u64 {
        u64::from_le_bytes(*order.body().first_chunk::<8>().expect("an order of the simulation"))
    }
}

impl Work<Shared> for Functions<'_> {
    async fn map(&self, _: &RoundAt, order: &Order<Shared>, task: u32) -> Result<Shared, Failed<Shared>> {
        if self.job.faults.poison == Some(task) {
            self.counts.poisoned.set(Some(self.number));
        }
        self.clock.sleep(Span(self.task_us)).await;
        self.counts.maps.set(self.counts.maps.get() + 1);
        let plan = &order.head.plan;
        let (cut, key) = (plan.cut(), Self::key(order));
        let mut tree = Tree::new(Cut::new(cut.chunks, 0));
        for chunk in cut.chunks_of(plan.node(0, task)) {
            let value = Value::of_chunk(key, chunk);
            let merged = tree.insert(Node { level: 0, index: chunk }, value, |left, right| {
                left.merge(right);
                Ok::<_, ()>(())
            });
            assert!(merged.is_ok());
        }
        let mut parts = tree.take();
        assert_eq!(parts.len(), 1, "a task is one subtree");
        Ok(encode(parts.remove(0).1))
    }

    async fn reduce(
        &self,
        _: &RoundAt,
        order: &Order<Shared>,
        parts: Vec<(Node, Shared)>,
    ) -> Result<Shared, Failed<Shared>> {
        self.counts.merges.set(self.counts.merges.get() + 1);
        let nodes: Vec<Node> = parts.iter().map(|(node, _)| *node).collect();
        self.storage.hold(checks::merges_have_every_result_once(&order.head.plan, &nodes));
        let mut tree = Tree::new(order.head.plan.cut());
        for (node, part) in parts {
            let merged = tree.insert(node, decode(part.as_ref()), |left, right| {
                left.merge(right);
                Ok::<_, ()>(())
            });
            assert!(merged.is_ok());
        }
        let mut parts = tree.take();
        if parts.len() != 1 {
            return Err(Failed::Round(b"the parts of a group are not one subtree".to_vec().into()));
        }
        Ok(encode(parts.remove(0).1))
    }

    async fn step(
        &self,
        at: &RoundAt,
        order: &Order<Shared>,
        value: &Shared,
    ) -> Result<Next<Shared>, Failed<Shared>> {
        self.counts.steps.set(self.counts.steps.get() + 1);
        let takes = Span(mix(self.job.seed ^ mix(self.counts.steps.get())) % (self.job.step_us + 1));
        self.counts.stepping.set(Some((self.number, takes)));
        self.clock.sleep(takes).await;
        let key = next_key(Self::key(order), decode(value.as_ref()));
        Ok(match at.round + 1 < self.job.rounds {
            true => Next::Round(self.job.order(key)),
            false => Next::Stop(key.to_le_bytes().to_vec().into()),
        })
    }

    async fn poison(&self, _: &RoundAt, task: u32, deliveries: u32) -> Shared {
        format!("task {task} was delivered {deliveries} times").into_bytes().into()
    }

    fn tell(&self, _: String) {}
}

/// Runs a job to its end and beyond, and checks what comes of it.
pub fn check(job: &Job) -> Result<JobEnding, Violation> {
    play(job, true)
}

/// Runs a job to its end and checks what comes of it; and if `beyond`, that workers rest afterwards.
pub(super) fn play(job: &Job, beyond: bool) -> Result<JobEnding, Violation> {
    let clock = Clock::default();
    let rng = Rng::new(job.seed).fork(78);
    let storage =
        SimStorage::new(&clock, job.faults.clone(), job.latency, job.settings.deliveries_max, rng.fork(1));
    let counts = Counts::default();
    let mut drawn = rng.fork(2);
    let functions: Vec<Functions<'_>> = (0..job.workers as usize)
        .map(|number| {
            let is_slow = drawn.percent(job.faults.slow_percent);
            let task_us = job.task_us * if is_slow { 10 } else { 1 };
            Functions { job, clock: &clock, storage: &storage, counts: &counts, number, task_us }
        })
        .collect();
    let done = Cell::new(None);
    let mut tasks = Tasks::new(&clock);
    let serve = |n: usize, life: u64| {
        let (storage, functions, settings) = (&storage, &functions[n], job.settings);
        async move {
            let name = format!("worker-{n}-{life}");
            Worker::new(&Link::new(storage), functions, settings, name).serve(|| true).await;
        }
    };
    let mut ids: Vec<u64> =
        (0..functions.len()).map(|n| tasks.start(Span(drawn.below(100_000)), serve(n, 0))).collect();
    let mut submitter = tasks.start(Span(0), submit(job, &storage, &done));
    (0..job.faults.foreign)
        .for_each(|n| storage.intrude(["hello", "qjam1 fly a 1", "qjam1 map x 1 1"][n as usize % 3]));
    let mut ending = JobEnding::default();
    let mut faults = rng.fork(3);
    let mut poisoned = 0;
    // When, who, and as which of its lives.
    let mut stepper_deaths: Vec<(Time, usize, u64)> = Vec::new();
    let mut next_death = pause(job.faults.death_every_us, &mut faults);
    let mut next_desertion = pause(job.faults.desertion_every_us, &mut faults);
    let mut next_removal = pause(job.task_us.max(100_000) * 20, &mut faults);
    while done.take().map(|answer| done.set(Some(answer))).is_none() {
        let now = if tasks.turn() { Span(clock.now().0) } else { Span(u64::MAX) };
        checks::jobs_end(now, END)?;
        storage.violation().map_or(Ok(()), Err)?;
        let is_calm = clock.now().0 >= job.faults.until_us;
        if let Some(n) = counts.poisoned.take() {
            poisoned += 1;
            // By each of its messages, and once by a backup.
            let messages =
                storage.sent(&Message::Map { at: first_round(), task: job.faults.poison.unwrap_or(0) });
            checks::poison_is_set_aside(poisoned, messages * u64::from(job.settings.deliveries_max) + 1)?;
            ending.deaths += u64::from(tasks.kill(ids[n]));
            ids[n] = tasks.start(Span(faults.magnitude(1_000, 1_000_000)), serve(n, ending.deaths));
        }
        if !is_calm && clock.now() >= next_death {
            let n = faults.below(ids.len() as u64) as usize;
            ending.deaths += u64::from(tasks.kill(ids[n]));
            ids[n] = tasks.start(Span(faults.magnitude(1_000, 10_000_000)), serve(n, ending.deaths));
            next_death = clock.now() + Span(pause(job.faults.death_every_us, &mut faults).0);
        }
        let death =
            counts.stepping.take().filter(|_| !is_calm).and_then(|step| job.stepper_death(step, &mut faults));
        stepper_deaths.extend(death.map(|(n, after)| (clock.now() + after, n, ids[n])));
        for (_, n, id) in stepper_deaths.extract_if(.., |(at, ..)| *at <= clock.now()) {
            if tasks.kill(id) {
                ending.deaths += 1;
                ids[n] = tasks.start(Span(faults.magnitude(1_000, 10_000_000)), serve(n, ending.deaths));
            }
        }
        if !is_calm && clock.now() >= next_desertion {
            tasks.kill(submitter);
            submitter = tasks.start(Span(faults.magnitude(1_000, 10_000_000)), submit(job, &storage, &done));
            next_desertion = clock.now() + Span(pause(job.faults.desertion_every_us, &mut faults).0);
        }
        if !is_calm && job.faults.removed_percent > 0 && clock.now() >= next_removal {
            storage.remove_some_result();
            next_removal = clock.now() + Span(pause(job.task_us.max(100_000) * 20, &mut faults).0);
        }
    }
    let answer = done.take().expect("the loop has ended");
    is_right(job, &answer)?;
    ending.took_us = clock.now().0;
    (ending.maps, ending.merges) = (counts.maps.get(), counts.merges.get());
    ending.requests = storage.requests();
    if job.faults.is_none() {
        is_lean(job, &ending)?;
    }
    if beyond && job.faults.poison.is_none() {
        rests(job, &storage, &clock, &mut tasks)?;
    }
    storage.violation().map_or(Ok(ending), Err)
}

/// Where nothing went wrong, nothing was done twice.
fn is_lean(job: &Job, ending: &JobEnding) -> Verdict {
    let plan = job.head().plan;
    let merges: u32 = (1..=plan.last()).map(|stage| plan.count(stage)).sum();
    checks::nothing_is_done_twice("tasks were run", ending.maps, job.rounds * u64::from(plan.tasks()))?;
    checks::nothing_is_done_twice("merges were made", ending.merges, job.rounds * u64::from(merges))
}

/// After the job its messages leave the queue, and workers ask seldom.
fn rests(job: &Job, storage: &SimStorage, clock: &Clock, tasks: &mut Tasks<'_>) -> Verdict {
    // Whoever still runs a task of a round that is over sees so within this time, and what it had comes back once more.
    let ended = clock.now().max(Time(job.faults.until_us));
    let awaited = Span(job.settings.seen_within.0 * (1 + job.faults.foreign));
    // A submitter that dies again and again before it has sent everything leaves very many messages, each of which is looked at.
    let each = job.settings.running_after.0 + 10 * job.latency.most_us;
    let looked_at = Span(each * storage.messages_of(JOB).len() as u64);
    let settled = ended + Span(3 * job.settings.hidden.0) + awaited + looked_at;
    let until = settled + IDLE;
    while clock.now() < settled && tasks.turn() {}
    checks::queues_drain(&storage.messages_of(JOB))?;
    if job.fused && job.faults.is_none() {
        checks::followed_rounds_are_cleared(&storage.left_of_rounds())?;
    }
    let count = || (storage.empty(), storage.received());
    let (empty, received) = count();
    while clock.now() < until && tasks.turn() {}
    // Every message of others that is left has somebody ask more often for a while.
    let (empty, received) = (count().0 - empty, count().1 - received);
    let each = IDLE.0 / job.settings.idle_max.0 + QUESTIONS;
    checks::idle_requests_are_bounded(empty, u64::from(job.workers) * each + QUESTIONS * received)
}

fn first_round() -> RoundAt {
    RoundAt { job: JOB.into(), round: 0 }
}

/// About this much time, or never.
fn pause(us: u64, rng: &mut Rng) -> Time {
    if us == 0 { Time(u64::MAX) } else { Time(rng.between(us / 2, us + us / 2)) }
}

/// The values of the rounds that were seen, and what the job came to if it was fused.
type Answer = Result<(Vec<Value>, Option<u64>), String>;

/// What a submitter does. One that comes back does the same again, and finds what there is.
async fn submit(job: &Job, storage: &SimStorage, done: &Cell<Option<Answer>>) {
    let at = first_round();
    let answer = if job.fused { follow(job, storage, at).await } else { drive(job, storage, at).await };
    done.set(Some(answer));
}

/// Begins each round with what the one before gave.
async fn drive(job: &Job, storage: &SimStorage, mut at: RoundAt) -> Answer {
    let mut values = Vec::new();
    let mut key = job.first_key();
    while at.round < job.rounds {
        let order = job.order(key);
        while begin(storage, &at, &order, job.settings.watch_every, &SUBMITTER).await.is_err() {}
        let mut watch = Watch::new(at.clone(), job.settings);
        let ending = loop {
            if let Ok(ending) = watch.wait(storage, &order, || false).await {
                break ending;
            }
        };
        match ending {
            Ending::Value(value) => {
                values.push(decode(value.as_ref()));
                key = next_key(key, decode(value.as_ref()));
            }
            Ending::Failed(why) => return Err(String::from_utf8_lossy(why.as_ref()).into_owned()),
            Ending::Cancelled => return Err("cancelled".into()),
        }
        at = at.next();
    }
    Ok((values, None))
}

/// Begins the first round, and waits for what comes of the job.
async fn follow(job: &Job, storage: &SimStorage, at: RoundAt) -> Answer {
    use qjam_core::bucket::Storage;
    let order = job.order(job.first_key());
    while begin(storage, &at, &order, job.settings.watch_every, &SUBMITTER).await.is_err() {}
    loop {
        if let Ok(Some(result)) = storage.get(&keys::job_result(&at.job)).await {
            let key = result.as_ref().first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
            return Ok((Vec::new(), key));
        }
        for round in 0..job.rounds {
            let at = RoundAt { round, ..at.clone() };
            if let Ok(Some(why)) = storage.get(&keys::failed(&at)).await {
                return Err(String::from_utf8_lossy(why.as_ref()).into_owned());
            }
        }
        storage.sleep(Span::from_ms(500)).await;
    }
}

/// Compares with what one process would compute. A job with a poisonous task fails, and says so.
fn is_right(job: &Job, answer: &Answer) -> Verdict {
    let is_poisoned = job.faults.poison.is_some_and(|task| task < job.head().plan.tasks());
    let (values, last) = match answer {
        Err(why) if is_poisoned && why.contains("was delivered") => return Ok(()),
        Err(why) => return Err(Violation::new("jobs_fail_for_a_reason", why.clone())),
        Ok(_) if is_poisoned => return Err(Violation::new("poison_is_set_aside", "the job has a value")),
        Ok(answer) => answer,
    };
    let mut key = job.first_key();
    for round in 0..job.rounds {
        let expected = serial(key, job.cut.chunks, job.cut.level, Mode::Map);
        if let Some(value) = values.get(round as usize) {
            checks::no_value_is_wrong(round, value, &expected)?;
        }
        key = next_key(key, expected);
    }
    let is_whole = last.is_none_or(|last| last == key) && (job.fused || values.len() as u64 == job.rounds);
    match is_whole {
        true => Ok(()),
        false => Err(Violation::new("no_value_is_wrong", "the job came to something else")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn three_hundred_seeds_of_a_bucket_keep_every_promise() {
        let failed: BTreeMap<u64, Violation> =
            (0..300).filter_map(|seed| Some((seed, check(&Job::draw(seed)).err()?))).collect();
        assert!(failed.is_empty(), "{failed:#?}");
    }
}
