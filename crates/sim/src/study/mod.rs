//! What the machines would do in clusters that nobody at hand has: tables for the book.
//!
//! Each file asks one question and answers it with tables. Where it says *simulated*, the real scheduler and the real
//! workers' machines were driven through virtual time; where it says *computed*, a formula was, and its text is beside
//! the table. Everything follows from fixed seeds. The command `tables` prints them and draws them; what it measures
//! with a clock (the cost of an event on this machine) it hands in as [`Costs`].

pub mod bandwidth;
pub mod heartbeats;
pub mod limits;
pub mod picture;
pub mod recovery;
pub mod stragglers;
pub mod table;

use crate::engine::{Ending, run};
use crate::plan::{Plan, RoundPlan, SeatPlan, Submit};
use crate::trace::Trace;
use qjam_core::time::{Span, Time};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Clusters of so many workers.
pub const SIZES: [u32; 7] = [10, 30, 100, 300, 1_000, 3_000, 10_000];

/// What was measured with a clock, in microseconds of the master's time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// To read a sign of life from a socket, unpack it and tell the scheduler.
    pub beat_us: f64,
    /// To pack a task, write it to a socket, read the result, unpack it and have it judged; without the payload.
    pub exchange_us: f64,
}

/// Hosts with one slot each, in one building: half a millisecond away, a gigabit a second, two seconds to start.
fn hosts(workers: u32) -> Plan {
    let seat = SeatPlan {
        remote: true,
        start: Span::from_ms(2_000),
        latency: Span(500),
        per_mib: Span(8_389),
        merge: Span(0),
        collect: Span(0),
        ..SeatPlan::default()
    };
    Plan {
        seats: vec![seat; workers as usize],
        deliver_after: Span::from_ms(2_000),
        is_watched: false,
        ..Plan::calm(1)
    }
}

/// A round of so many blocks, asked for when everybody is up; or after the one before it.
fn round(number: u32, blocks: u32, block: Span) -> RoundPlan {
    let submit = match number {
        0 => Submit::At(Time(4_000_000)),
        _ => Submit::AfterPrevious(Span(1_000)),
    };
    RoundPlan { submit, ..RoundPlan::new(blocks, 0, block) }
}

/// Plays a plan in which nothing can go so wrong that a round has no value.
fn play(plan: &Plan) -> Ending {
    run(plan, &mut Trace::off()).unwrap_or_else(|violation| panic!("a study failed: {violation}"))
}

/// What each round took, in seconds.
fn seconds(ending: &Ending) -> Vec<f64> {
    ending.rounds.iter().map(|(asked, answered)| answered.since(*asked).0 as f64 / 1e6).collect()
}

/// The mean.
fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len().max(1) as f64
}

/// Does this for each, on two threads; the results come in order.
pub(crate) fn for_each<A: Sync, T: Send>(of: &[A], job: impl Fn(&A) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(of.len());
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                // The last are the largest, and begun first.
                while let Ok(before) =
                    next.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
                {
                    let result = job(&of[before - 1]);
                    done.lock().unwrap_or_else(|e| e.into_inner()).push((before, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|e| e.into_inner());
    done.sort_by_key(|(n, _)| *n);
    done.into_iter().map(|(_, result)| result).collect()
}
