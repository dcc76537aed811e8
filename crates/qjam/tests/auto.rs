//! `auto`: as many workers as pay, the caller's thread among the choices; and the same answers whatever was chosen.

#![allow(clippy::unwrap_used, reason = "all of this is test: what is not there should end it")]

use qjam::journal::What;
use qjam::{Ctx, DataSet, Dense, Error, Master, Nothing};
use qjam_conformance::HANG;
use qjam_conformance::support::{Gate, within};
use std::sync::{Arc, Mutex};
use std::time::Duration;

qjam::worker_hook!();

#[qjam::map]
fn squares(scale: &f64, x: &Dense<f64>) -> f64 {
    x.as_slice().iter().map(|v| scale * v * v).sum()
}

/// Who ran each chunk, in the order of the chunks.
#[derive(qjam::Wire)]
struct Names(Vec<String>);

impl qjam::Reduce for Names {
    fn merge(&mut self, right: Self) {
        self.0.extend(right.0);
    }
}

#[qjam::map]
fn whoever(sleep_ms: &u64, _: &Nothing) -> Names {
    std::thread::sleep(Duration::from_millis(*sleep_ms));
    Names(vec![me()])
}

/// The same, once the gate is open.
#[qjam::map]
fn whoever_passes(gate: &str, _: &Nothing, ctx: &Ctx) -> Names {
    Gate::pass(gate, ctx.chunk());
    Names(vec![me()])
}

/// The same, but one of them throws there.
#[qjam::map]
fn passes_or_not(params: &(String, u32), _: &Nothing, ctx: &Ctx) -> Names {
    let (gate, culprit) = params;
    Gate::pass(gate, ctx.chunk());
    assert!(ctx.chunk() != *culprit, "not me");
    Names(vec![me()])
}

fn me() -> String {
    format!("{} {:?}", std::process::id(), std::thread::current().id())
}

#[qjam::map]
fn dies_of_seven(_: &(), _: &Nothing, ctx: &Ctx) -> u64 {
    assert!(ctx.chunk() != 7, "seven");
    1
}

fn rugged(count: usize) -> DataSet<Dense<f64>> {
    let values =
        (0..count).map(|n| ((n * 2_654_435_761) % 1_000_003) as f64 / 7.0 * 10f64.powi((n % 13) as i32 - 6));
    DataSet::dense(values.collect(), 1).unwrap().chunk_records(97).unwrap()
}

fn choices(m: &Master) -> Vec<u32> {
    let entries = m.journal().into_iter();
    entries
        .filter_map(|e| if let What::WorkersChosen { slots, .. } = e.what { Some(slots) } else { None })
        .collect()
}

#[test]
fn short_rounds_run_on_the_callers_thread_and_are_reported_like_others() {
    for workers in ["auto", "auto:local:3", "auto:proc:2"] {
        let m = Master::connect(workers).unwrap();
        let tasks = DataSet::nothing(5).unwrap();
        for round in 0..60 {
            let ran = m.run(whoever, &0, &tasks).unwrap().0;
            // Before anything is known of a round, the caller's thread begins it. Where a machine has other things to do, the
            // rest may be handed over; how often short rounds stay is measured below.
            assert!(round > 0 || ran[0] == me(), "{workers}: {ran:?}");
            assert_eq!(ran.len(), 5);
            let report = m.last_round().unwrap();
            assert_eq!(report.round, round);
            assert_eq!(report.total_us, report.worker_us + report.master_us + report.overhead_us);
        }
        assert_eq!(choices(&m)[0], 0, "{workers}");
        let journal = m.journal();
        let count = |is: fn(&What) -> bool| journal.iter().filter(|e| is(&e.what)).count();
        assert_eq!(count(|w| matches!(w, What::RoundStarted { .. })), 60);
        assert_eq!(count(|w| matches!(w, What::RoundOver { finished: true, .. })), 60);
        assert_eq!(count(|w| matches!(w, What::Report(_))), 60);
        let text = m.explain()[0].to_string();
        assert!(text.contains("whoever") && text.contains("60 rounds"), "{text}");
    }
    assert!(Master::connect("local:1").unwrap().explain().is_empty());
}

#[test]
#[ignore = "what is chosen depends on how fast the machine is: a measurement"]
fn short_rounds_stay_on_the_callers_thread() {
    for workers in ["auto", "auto:local:3", "auto:proc:2"] {
        let m = Master::connect(workers).unwrap();
        let tasks = DataSet::nothing(5).unwrap();
        let own = (0..60).filter(|_| m.run(whoever, &0, &tasks).unwrap().0 == vec![me(); 5]).count();
        assert!(own > 40, "{workers}: {own} on the caller's thread, {:?}", choices(&m));
        let text = m.explain()[0].to_string();
        assert!(text.contains("→ inline"), "{text}");
    }
}

#[test]
fn every_choice_gives_the_same_bits() {
    let data = rugged(20_000);
    let expected = Master::connect("local:3").unwrap().run(squares, &0.7, &data).unwrap().to_bits();
    for slots in [0, 1, 2, 3, 4] {
        for workers in ["auto:proc:4", "auto:local:4", "auto:proc:1,local:2,proc:1"] {
            let m = Master::builder().fixed_slots(slots).connect(workers).unwrap();
            for _ in 0..3 {
                assert_eq!(m.run(squares, &0.7, &data).unwrap().to_bits(), expected, "{slots} of {workers}");
            }
        }
    }
    let m = Master::connect("auto:proc:2").unwrap();
    for _ in 0..200 {
        assert_eq!(m.run(squares, &0.7, &data).unwrap().to_bits(), expected);
    }
}

#[test]
fn a_round_that_takes_long_is_handed_over_while_it_runs() {
    must_have_two_cores();
    let m = Master::connect("auto:local:2").unwrap();
    let tasks = DataSet::nothing(40).unwrap();
    let ran = m.run(whoever, &3, &tasks).unwrap().0;
    let own = ran.iter().take_while(|name| **name == me()).count();
    // It sleeps 120 ms in all, however fast the machine is.
    assert!((1..40).contains(&own), "{own} of {ran:?}");
    assert!(ran[own..].iter().all(|name| *name != me()), "{ran:?}");
    let chosen = choices(&m);
    assert!(chosen.len() == 2 && chosen[0] == 0 && chosen[1] > 0, "{chosen:?}");
    assert_eq!(m.last_round().unwrap().retries, 0);
}

#[test]
fn a_panic_is_the_same_error_as_on_a_worker_and_the_master_goes_on() {
    let tasks = DataSet::nothing(12).unwrap();
    let fault = |workers: &str| {
        let m = Master::builder().fixed_slots(0).connect(workers).unwrap();
        let error = m.run(dies_of_seven, &(), &tasks).unwrap_err();
        assert_eq!(m.run(whoever, &0, &tasks).unwrap().0.len(), 12);
        let over =
            m.journal().iter().filter(|e| matches!(e.what, What::RoundOver { finished: false, .. })).count();
        assert_eq!(over, 1);
        error.fault().unwrap_or_else(|| panic!("{error}")).clone()
    };
    let (inline, thread) = (fault("auto:local:1"), fault("local:1"));
    assert_eq!(inline.worker.as_deref(), Some("inline"));
    assert_eq!((inline.chunk_id, &inline.function), (thread.chunk_id, &thread.function));
    assert_eq!((inline.fault.chunk, &inline.fault.message), (Some(7), &thread.fault.message));
    assert_eq!((inline.fault.kind, &inline.fault.location), (thread.fault.kind, &thread.fault.location));
}

#[test]
fn limits_that_the_callers_thread_cannot_keep_leave_the_work_to_workers() {
    let tasks = DataSet::nothing(1).unwrap();
    let limit = Duration::from_millis(200);
    let m = Master::builder().round_timeout(limit).connect("auto:proc:1").unwrap();
    let gate = Gate::new();
    let error = m.run(whoever_passes, gate.path().as_str(), &tasks).map(|names| names.0).unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    let m = Master::builder().memory_limit(1 << 30).connect("auto:proc:1").unwrap();
    for _ in 0..20 {
        assert_ne!(m.run(whoever, &0, &tasks).unwrap().0[0], me());
    }
}

/// On a single core nobody else would be faster, and nothing is handed over.
fn must_have_two_cores() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    assert!(cores > 1, "NOT TESTED for lack of a second core: rounds that are handed over");
}

/// Opens a gate when two chunks have come to it. If they do not, what was waited for is seen afterwards, and nobody hangs.
fn open_for_two(gate: &Gate) {
    within(HANG, || gate.reached() >= 2);
    gate.open();
}

/// The caller's thread begins a round and cannot go on in its first block before somebody else is in another one.
#[test]
fn a_block_that_takes_long_does_not_keep_the_others_from_workers() {
    must_have_two_cores();
    for workers in ["auto:local:2", "auto:proc:2"] {
        let m = Master::connect(workers).unwrap();
        let (gate, tasks) = (Gate::new(), DataSet::nothing(8).unwrap());
        let ran = std::thread::scope(|scope| {
            scope.spawn(|| open_for_two(&gate));
            m.run(whoever_passes, gate.path().as_str(), &tasks).unwrap().0
        });
        assert_eq!(ran.iter().filter(|name| **name == me()).count(), 1, "{ran:?}");
        assert_eq!((ran[0] == me(), ran.len()), (true, 8), "{ran:?}");
        let over = |e: &qjam::journal::Entry| matches!(e.what, What::RoundOver { finished: true, .. });
        assert_eq!(m.journal().iter().filter(|e| over(e)).count(), 1);
        assert_eq!(m.run(whoever, &0, &tasks).unwrap().0.len(), 8);
    }
}

/// The same where hundreds of rounds were over at once, so that this one should be, too; and again, now that such rounds are known.
#[test]
fn a_round_that_takes_far_longer_than_all_before_is_shared_with_workers() {
    must_have_two_cores();
    for workers in ["auto:local:2", "auto:proc:2"] {
        let m = Master::connect(workers).unwrap();
        let tasks = DataSet::nothing(8).unwrap();
        let open = Gate::new();
        open.open();
        for turn in 0..4 {
            for _ in 0..50 {
                m.run(whoever_passes, open.path().as_str(), &tasks).unwrap();
            }
            let gate = Gate::new();
            let ran = std::thread::scope(|scope| {
                scope.spawn(|| open_for_two(&gate));
                m.run(whoever_passes, gate.path().as_str(), &tasks).unwrap().0
            });
            let own = ran.iter().filter(|name| **name == me()).count();
            assert!(own <= 1 && ran.len() == 8, "{workers}, turn {turn}: {ran:?}\n{}", m.explain()[0]);
        }
    }
}

/// What somebody throws while the caller's thread is in another block is the error of the round, whoever of them it is.
#[test]
fn errors_of_a_round_in_two_places_are_told_once() {
    must_have_two_cores();
    for culprit in [0, 5] {
        let m = Master::connect("auto:local:2").unwrap();
        let (gate, tasks) = (Gate::new(), DataSet::nothing(8).unwrap());
        let error = std::thread::scope(|scope| {
            scope.spawn(|| open_for_two(&gate));
            m.run(passes_or_not, &(gate.path(), culprit), &tasks).map(|names| names.0).unwrap_err()
        });
        let fault = error.fault().unwrap_or_else(|| panic!("{error}"));
        assert_eq!(
            (fault.fault.chunk, fault.worker.as_deref() == Some("inline")),
            (Some(culprit), culprit == 0)
        );
        assert_eq!(m.run(whoever, &0, &tasks).unwrap().0.len(), 8);
    }
}

#[test]
fn a_submitted_round_does_not_keep_its_caller() {
    let m = Master::connect("auto:local:1").unwrap();
    let tasks = DataSet::nothing(1).unwrap();
    let gate = Gate::new();
    let mut pending = m.submit(whoever_passes, gate.path().as_str(), &tasks).unwrap();
    assert!(pending.wait_at_most(Duration::from_millis(1)).unwrap().is_none());
    gate.open();
    assert_ne!(pending.wait().unwrap().0[0], me());
}

#[test]
fn a_long_wait_for_oneself_is_told_too() {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let gate = Arc::new(Gate::new());
    let (kept, opens) = (told.clone(), gate.clone());
    let m = Master::builder()
        .on_wait(move |waiting| {
            kept.lock().unwrap().push(waiting.to_string());
            opens.open();
        })
        .connect("auto:local:1")
        .unwrap();
    // It comes back only because the wait was told.
    m.run(whoever_passes, gate.path().as_str(), &DataSet::nothing(1).unwrap()).unwrap();
    let told = told.lock().unwrap();
    assert!(told[0].starts_with("waiting for inline (1 block) since "), "{told:?}");
}

#[test]
fn a_part_of_the_workers_is_always_the_same_and_the_next_steps_in_for_the_dead() {
    let m = Master::builder().fixed_slots(1).connect("auto:proc:3").unwrap();
    let tasks = DataSet::nothing(6).unwrap();
    let first = m.workers()[0].pid.unwrap();
    let process = |name: &String| name.split(' ').next().unwrap().parse::<u32>().unwrap();
    for _ in 0..3 {
        assert!(m.run(whoever, &0, &tasks).unwrap().0.iter().all(|name| process(name) == first));
    }
    let gate = Gate::new();
    let pending = m.submit(whoever_passes, gate.path().as_str(), &tasks).unwrap();
    gate.wait_for(1);
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(first as i32).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    gate.open();
    let ran = pending.wait().unwrap().0;
    assert_eq!(ran.len(), 6);
    // What was done before may have been delivered; nothing was: it was held up in the first.
    assert!(ran.iter().all(|name| process(name) != first), "{ran:?}");
}

#[test]
fn workers_are_added_without_auto() {
    let m = Master::connect("auto:local:1").unwrap();
    let error = m.add_workers("auto:proc:1").unwrap_err().to_string();
    assert!(error.contains("when a master is connected"), "{error}");
    m.add_workers("proc:1").unwrap();
    m.run(whoever, &0, &DataSet::nothing(1).unwrap()).unwrap();
    let slots: Vec<u32> = m.explain()[0].predicted.iter().map(|p| p.slots).collect();
    assert_eq!(slots, [0, 1, 2]);
}

#[test]
fn what_was_opened_inline_goes_with_its_data_set() {
    let mapped = || {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let rest = maps.lines().filter_map(|line| line.strip_prefix("Rss:"));
        rest.filter_map(|kib| kib.trim().trim_end_matches(" kB").parse::<u64>().ok()).sum::<u64>() >> 10
    };
    let m = Master::builder().fixed_slots(0).connect("auto:local:1").unwrap();
    let before = mapped();
    for n in 0..20 {
        let data = DataSet::dense(vec![f64::from(n); 2 << 20], 16).unwrap();
        m.run(squares, &1.0, &data).unwrap();
    }
    assert!(mapped() < before + 100, "{} MiB after 20 data sets of 16 MiB, {before} before", mapped());
}
