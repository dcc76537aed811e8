//! Rounds through a bucket: a master submits, worker processes serve.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is test")]

use place::TestBucket;
use qjam::fused::{Call, EndedRound, FusedRound, Next, StepError};
use qjam::{Ctx, DataSet, Dense, Master, State};
use qjam_store::serve::{ServeOptions, serve};
use qjam_store::{Attached, Seal, Standing, detach};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

mod place;

qjam::worker_hook!();

#[qjam::map]
fn moments(power: &f64, x: &Dense<f64>) -> Vec<f64> {
    let mut sums = vec![0.0; 3];
    for row in x.rows_iter() {
        sums.iter_mut().zip(row).for_each(|(sum, v)| *sum += v.abs().powf(*power));
    }
    sums
}

#[derive(Clone, qjam::Wire)]
struct Count {
    rounds: u64,
}

impl State for Count {
    type Chunk = Dense<f64>;
    fn init(_: &Dense<f64>, _: &Ctx) -> Self {
        Count { rounds: 0 }
    }
}

#[qjam::map]
fn count(by: &u64, x: &Dense<f64>, state: &mut Count) -> f64 {
    state.rounds += by;
    state.rounds as f64 * x.as_slice().iter().sum::<f64>()
}

struct Workers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    fn start(place: &TestBucket, count: u32, slots: u32) -> Workers {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..count)
            .map(|n| {
                let options = ServeOptions {
                    address: place.address(),
                    key: None,
                    slots,
                    cache_bytes: 1 << 28,
                    name: format!("worker-{n}"),
                    idle_exit: None,
                };
                let stop = stop.clone();
                std::thread::spawn(move || {
                    serve(&options, || !stop.load(Relaxed), |_| {}).expect("a bucket");
                })
            })
            .collect();
        Workers { stop, threads }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn data() -> DataSet<Dense<f64>> {
    let values = (0..30_000).map(|n| (f64::from(n) * 0.37).sin() * 1e3).collect();
    DataSet::dense(values, 3).and_then(|data| data.partitions(37)).expect("data")
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn rounds_through_a_bucket_have_the_bits_of_threads() {
    let data = data();
    let local = Master::builder().no_run_file().connect("local:2").unwrap();
    let wanted: Vec<_> = (1..6).map(|n| local.run(moments, &f64::from(n), &data).unwrap()).collect();
    for (workers, slots) in [(1, 1), (2, 1), (3, 2)] {
        let place = TestBucket::new(&format!("bits-{workers}"));
        let _workers = Workers::start(&place, workers, slots);
        let m = Master::builder().no_run_file().connect(&format!("store:{}", place.url())).unwrap();
        for (n, wanted) in (1..6).zip(&wanted) {
            let found = m.run(moments, &f64::from(n), &data).unwrap();
            assert_eq!(bits(&found), bits(wanted), "{workers} workers");
        }
    }
}

#[test]
fn states_stay_with_their_partitions() {
    let data = data();
    let local = Master::builder().no_run_file().connect("local:2").unwrap();
    let place = TestBucket::new("states");
    let _workers = Workers::start(&place, 2, 1);
    let m = Master::builder().no_run_file().connect(&format!("store:{}", place.url())).unwrap();
    let (mut here, mut there) = (local.hold::<Count>(&data).unwrap(), m.hold::<Count>(&data).unwrap());
    for by in [1, 5, 2] {
        assert_eq!(here.run(count, &by).unwrap().to_bits(), there.run(count, &by).unwrap().to_bits());
    }
    let states: Vec<u64> = there.collect().unwrap().iter().map(|state| state.rounds).collect();
    assert_eq!(states, vec![8; 37]);
}

/// What the loop keeps: the value of every round so far.
#[derive(Clone, qjam::Wire)]
struct Values(Vec<Vec<f64>>);

/// Rounds with and without states in turn. Each begins with what the one before came to.
fn turns(mut kept: Values, ended: EndedRound) -> Result<Next<Values>, StepError> {
    match kept.0.len() % 2 {
        0 => {
            kept.0.push(ended.open::<f64, Vec<f64>>()?.1);
            if kept.0.len() == 9 {
                return Ok(Next::Stop(kept));
            }
            let by = kept.0.len() as u64;
            let call = match by {
                1 => Call::with_new_states(count, &by)?,
                _ => Call::with_states(count, &by)?,
            };
            Ok(Next::round(kept, call))
        }
        _ => {
            kept.0.push(vec![ended.open::<u64, f64>()?.1]);
            let power = 1.0 + kept.0.len() as f64 / 10.0;
            Ok(Next::round(kept, Call::new(moments, &power)?))
        }
    }
}
qjam::register_steps!(turns);

#[test]
fn a_loop_without_a_submitter_has_the_bits_of_threads() {
    let data = data();
    let threads = Master::builder().no_run_file().connect("local:2").unwrap();
    let mut held = threads.hold::<Count>(&data).unwrap();
    let wanted: Vec<Vec<f64>> = (0..9_u64)
        .map(|n| match n % 2 {
            0 => threads.run(moments, &(1.0 + n as f64 / 10.0), &data).unwrap(),
            _ => vec![held.run(count, &n).unwrap()],
        })
        .collect();
    let place = TestBucket::new("fused");
    let first = FusedRound::first(turns, &Values(vec![]), Call::new(moments, &1.0).unwrap(), &data).unwrap();
    let url = format!("{}?job=turns", place.address());
    let job = detach(&url, &first, b"about").unwrap();
    let _workers = Workers::start(&place, 3, 1);
    let mut attached = Attached::to(&job.address, Seal::without_key(), "turns").unwrap();
    assert_eq!(attached.about(), b"about");
    let kept = loop {
        match attached.standing().unwrap() {
            Standing::Finished(kept) => break kept,
            Standing::Failed(why) => panic!("{why}"),
            Standing::Running(_) => attached.wait(),
        }
    };
    let values = qjam::fused::kept::<Values>(kept).unwrap().0;
    assert_eq!(
        values.iter().map(|v| bits(v)).collect::<Vec<_>>(),
        wanted.iter().map(|v| bits(v)).collect::<Vec<_>>()
    );
}
