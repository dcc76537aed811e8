//! Whatever is killed, stopped or cut off while rounds run: the right bits; and nothing left.
//!
//! Three deaths in one block end a round with an error, and rightly so. A schedule therefore ends at most [`DEATHS_MAX`] workers, and
//! every error is a failure of the test.

use crate::hosts::{Host, Kind, Process, claim, within};
use crate::work::{compute, data, expected};
use qjam::journal::What;
use qjam::{Master, Rng};
use qjam_conformance::HANG;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A schedule that is not over by then hangs. A cable may be pulled for twenty seconds, and hosts return with pauses.
const LIMIT: Duration = HANG.saturating_mul(2);
/// Whoever is silent for longer than it was told may be ended for it, on either side of a link.
const LATE: Duration = Duration::from_secs(5);
const ROUNDS: u64 = 10;
/// One less than a block may cost before it is blamed.
const DEATHS_MAX: usize = 2;

/// What is done to a host.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Deed {
    Kill(Kind),
    /// Stopped for so many milliseconds.
    Stop(Kind, u64),
    /// The cable is pulled for so many milliseconds.
    Cut(u64),
}

/// One blow: so many milliseconds after the one before it was dealt.
#[derive(Clone, Copy, Debug)]
struct Blow {
    after_ms: u64,
    host: usize,
    deed: Deed,
}

/// At most one cable is pulled, and that for long only if it may take long. Once as many have been ended as may be, the rest is
/// stopped for a while.
fn draw(rng: &mut Rng, long: bool) -> Vec<Blow> {
    let (mut was_cut, mut deaths) = (false, 0);
    let blows = 2 + rng.below(4);
    let blow = |_| {
        let kind = [Kind::Executor, Kind::Executor, Kind::Supervisor, Kind::Session][rng.below(4) as usize];
        let stop_ms = 1 + rng.below(if long { 6_000 } else { 1_500 });
        let cut_ms = 1_000 + rng.below(if long { 19_000 } else { 1_500 });
        let deed = match rng.below(10) {
            5..8 => Deed::Stop(kind, stop_ms),
            _ if deaths == DEATHS_MAX => Deed::Stop(kind, stop_ms),
            8.. if !was_cut => Deed::Cut(cut_ms),
            _ => Deed::Kill(kind),
        };
        was_cut |= matches!(deed, Deed::Cut(_));
        deaths += usize::from(!matches!(deed, Deed::Stop(..)));
        Blow { after_ms: rng.below(500), host: rng.below(2) as usize, deed }
    };
    (0..blows).map(blow).collect()
}

/// Says whether it took much longer than it was to take, as it does on a machine that is busy enough. Then it may have ended
/// workers that are not counted.
fn strike(host: &Host, deed: Deed) -> bool {
    let begun = Instant::now();
    let wanted_ms = match deed {
        Deed::Kill(kind) => {
            host.signal(kind, "KILL");
            return false;
        }
        Deed::Stop(kind, ms) => {
            host.signal(kind, "STOP");
            std::thread::sleep(Duration::from_millis(ms));
            host.signal(kind, "CONT");
            ms
        }
        Deed::Cut(ms) => {
            host.cut();
            std::thread::sleep(Duration::from_millis(ms));
            host.restore();
            ms
        }
    };
    begun.elapsed() > Duration::from_millis(wanted_ms) + LATE
}

/// One run under attack; says what is wrong with it. One with more deaths than were drawn, because a strike was late, says
/// nothing and is run again.
fn run(schedule: u64, long: bool, hosts: [&Host; 2]) -> Result<(), String> {
    let mut ran = attack(schedule, long, hosts);
    for _ in 0..5 {
        match ran {
            (Err(_), true) => ran = attack(schedule, long, hosts),
            _ => break,
        }
    }
    ran.0
}

/// Also says whether a strike was late.
fn attack(schedule: u64, long: bool, hosts: [&Host; 2]) -> (Result<(), String>, bool) {
    let was_late = AtomicBool::new(false);
    let ran = attacked(schedule, long, hosts, &was_late);
    (ran, was_late.load(Relaxed))
}

fn attacked(schedule: u64, long: bool, hosts: [&Host; 2], was_late: &AtomicBool) -> Result<(), String> {
    let mut rng = Rng::keyed(7, schedule, u32::from(long));
    let blows = draw(&mut rng, long);
    let x = data(100 + schedule % 3);
    let expected = expected(&x, ROUNDS);
    let workers = match rng.below(3) {
        0 => format!("{}*2,{}*2", hosts[0].name, hosts[1].name),
        1 => format!("{}*1,{}*1", hosts[0].name, hosts[1].name),
        _ => format!("{}*2,{}*1,proc:1", hosts[0].name, hosts[1].name),
    };
    let context = |what: String| format!("schedule {schedule} on {workers}: {what}\n  {blows:?}");
    let m = Master::builder().on_log(|_| {}).deliver_after(Duration::from_millis(50)).connect(&workers);
    let m = m.map_err(|e| context(e.to_string()))?;
    let began = Instant::now();
    let over = AtomicBool::new(false);
    let (end, took) = std::thread::scope(|scope| {
        scope.spawn(|| {
            for blow in &blows {
                std::thread::sleep(Duration::from_millis(blow.after_ms));
                if over.load(Relaxed) {
                    return;
                }
                was_late.fetch_or(strike(hosts[blow.host], blow.deed), Relaxed);
            }
        });
        let run = scope.spawn(|| {
            let outcome = compute(&m, &x, ROUNDS, 10);
            over.store(true, Relaxed);
            (outcome, began.elapsed())
        });
        if !within(LIMIT, || run.is_finished()) {
            panic!(
                "{}",
                context(format!("it hangs; {:#?}", m.journal().iter().rev().take(20).collect::<Vec<_>>()))
            );
        }
        run.join().unwrap()
    });
    let end = end.map_err(|e| context(e.to_string()))?;
    // The master is as good as before.
    let again = compute(&m, &x, ROUNDS, 0).map_err(|e| context(format!("and again: {e}")))?;
    let lost = m.journal().iter().filter(|e| matches!(e.what, What::WorkerLost(..))).count();
    drop(m);
    if [end, again] != [expected; 2] {
        return Err(context("wrong bits".into()));
    }
    for host in hosts {
        let gone = within(HANG, || !host.processes().iter().any(Process::is_ours));
        if !gone {
            return Err(context(format!("left on {}: {:?}", host.name, host.processes())));
        }
    }
    println!("schedule {schedule}: right after {took:.1?}, {lost} lost; {workers} {blows:?}");
    Ok(())
}

fn many(schedules: std::ops::Range<u64>, long: bool, hosts: [&Host; 2]) {
    for schedule in schedules {
        run(schedule, long, hosts).unwrap_or_else(|why| panic!("{why}"));
    }
}

#[test]
fn four_schedules_of_kills_and_cuts_give_the_right_bits() {
    let [a, b] = claim(["a", "b"]);
    many(0..4, false, [&a, &b]);
}

#[test]
#[ignore = "twenty schedules take minutes"]
fn twenty_schedules_of_kills_and_cuts_give_the_right_bits() {
    let [a, b] = claim(["a", "b"]);
    many(0..20, true, [&a, &b]);
}
