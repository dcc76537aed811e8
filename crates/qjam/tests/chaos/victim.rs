//! The program that is attacked: rounds over fresh data, with every phase long enough to be hit.

use qjam::journal::What;
use qjam::{DataSet, DecodeError, Decoder, Dense, Encoder, Error, Master, MergeError, Reduce, Rng, Wire};
use qjam_conformance::program::Programs;
use qjam_core::reduce::{Cut, Tree};
use std::time::Duration;

/// What a run is started as.
pub(crate) const RUN: &str = "chaos";
/// What it says to whoever watches, among what the test harness prints.
pub(crate) const SAYS: &str = "@ ";

/// Rounds of a run.
const ROUNDS: u64 = 6;
const CHUNKS: usize = 16;
/// Doubles of a result: more than a megabyte, through shared memory.
const WIDTH: usize = 150_000;
/// Doubles of the parameters: too many for a frame.
const PARAMS: usize = 6_000;

/// How long the phases of a round are.
#[derive(Clone, Copy, Debug, Wire)]
pub(crate) struct Pace {
    pub(crate) receive_ms: u64,
    pub(crate) map_ms: u64,
    pub(crate) send_ms: u64,
    pub(crate) idle_ms: u64,
}

impl Pace {
    /// A different one in each run.
    pub(crate) fn of(rng: &mut Rng) -> Self {
        Pace {
            receive_ms: 5 + rng.below(40),
            map_ms: 1 + rng.below(12),
            send_ms: 5 + rng.below(40),
            idle_ms: rng.below(60),
        }
    }

    /// About how long a round takes with so many workers.
    pub(crate) fn round_ms(&self, workers: u64) -> u64 {
        self.receive_ms + self.map_ms * CHUNKS as u64 / workers + 2 * self.send_ms
    }
}

/// Parameters that take long to read.
struct Given {
    values: Vec<f64>,
    pace: Pace,
}

impl Wire for Given {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        self.values.encode(out);
        self.pace.encode(out);
    }
    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let given = Given { values: Wire::decode(input)?, pace: Wire::decode(input)? };
        pause(given.pace.receive_ms);
        Ok(given)
    }
}

/// A result that takes long to send.
struct Taken {
    values: Vec<f64>,
    send_ms: u64,
}

impl Wire for Taken {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        pause(self.send_ms);
        self.values.encode(out);
        self.send_ms.encode(out);
    }
    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(Taken { values: Wire::decode(input)?, send_ms: Wire::decode(input)? })
    }
}

impl Reduce for Taken {
    fn merge(&mut self, right: Self) {
        self.values.merge(right.values);
    }
}

fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

#[qjam::map]
fn work(given: &Given, x: &Dense<f64>) -> Taken {
    pause(given.pace.map_ms);
    let (x, p) = (x.as_slice(), &given.values);
    let mut values = vec![x.iter().zip(p).map(|(x, p)| x * p).sum::<f64>(); WIDTH];
    for (n, v) in values.iter_mut().step_by(50).enumerate() {
        *v = x[n % x.len()] * p[n % p.len()];
    }
    Taken { values, send_ms: given.pace.send_ms }
}

fn fresh(round: u64) -> DataSet<Dense<f64>> {
    let values = (0..20_000_u64).map(|n| ((n * 7_919 + round * 31) % 100_003) as f64 / 7.0).collect();
    DataSet::dense(values, 10).and_then(|x| x.partitions(CHUNKS)).unwrap()
}

fn given(round: u64, pace: Pace) -> Given {
    Given { values: (0..PARAMS).map(|n| 1.0 / (n as f64 + round as f64 + 0.3)).collect(), pace }
}

/// The bits that a round must have: one number stands for all of them.
fn digest(values: &[f64]) -> u64 {
    values.iter().fold(0, |sum, v| sum.rotate_left(5) ^ v.to_bits())
}

fn serial(round: u64) -> u64 {
    let (x, given) = (fresh(round), given(round, Pace { receive_ms: 0, map_ms: 0, send_ms: 0, idle_ms: 0 }));
    let cut = Cut::new(CHUNKS as u32, 0);
    let mut tree = Tree::new(cut);
    for chunk in 0..CHUNKS {
        let value = work(&given, &x.chunk(chunk).unwrap());
        let merged: Result<(), MergeError> =
            tree.insert(cut.node(chunk as u32), value, |left: &mut Taken, right| left.try_merge(right));
        merged.unwrap();
    }
    digest(&tree.take_root().unwrap().values)
}

/// The workers and the pace of a run, which its attacker knows too.
pub(crate) fn setting(seed: u64, run: u64) -> (&'static str, u64, Pace) {
    let mut rng = Rng::keyed(seed, run, 0);
    let workers = ["proc:1", "proc:2", "proc:3", "proc:4", "proc:2*2"];
    let n = rng.below(workers.len() as u64);
    (workers[n as usize], (n + 1).min(4), Pace::of(&mut rng))
}

fn say(text: impl std::fmt::Display) {
    println!("{SAYS}{text}");
}

/// The run itself, when this executable is started as one: by the seed and its number.
pub(crate) const PROGRAMS: Programs = &[(RUN, main)];

fn main(wanted: &str) {
    let (seed, run) = wanted.split_once(' ').unwrap();
    let (workers, _, pace) = setting(seed.parse().unwrap(), run.parse().unwrap());
    let expected: Vec<u64> = (0..ROUNDS).map(serial).collect();
    say("starting");
    let connected =
        Master::builder().deliver_after(Duration::from_millis(40)).on_log(|_| {}).connect(workers);
    let m = match connected {
        Ok(m) => m,
        Err(e) => return say(format!("error {}", kind(&e))),
    };
    for (round, expected) in (0..ROUNDS).zip(expected) {
        say("round");
        match m.run(work, &given(round, pace), &fresh(round)) {
            Ok(value) if digest(&value.values) == expected => say("right"),
            Ok(_) => say("wrong"),
            Err(e) => {
                say(format!("error {}", kind(&e)));
                break;
            }
        }
        pause(pace.idle_ms);
    }
    for entry in m.journal() {
        if let What::WorkerLost(_, death) = entry.what {
            say(format!("death {:?} {:?}", death.activity, death.cause));
        }
    }
    drop(m);
    say("end");
}

/// Which error it is.
fn kind(error: &Error) -> String {
    match error {
        Error::Poison { .. } => "Poison".into(),
        Error::NoWorkers { .. } => "NoWorkers".into(),
        Error::Start { .. } => "Start".into(),
        other => other.to_string().replace('\n', " "),
    }
}
