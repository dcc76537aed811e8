//! Runs many seeds and reports those that violate a property. A seed is a cluster under the scheduler and a job in a bucket.
//!
//! `sweep --seeds A..B [--only machines|bucket] [--workers-max N] [--verbose] [--until-failure]`
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a command; its output is its purpose"
)]

use qjam_sim::bucket::{self, Job};
use qjam_sim::{Plan, Tally, Trace, check};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;

const USAGE: &str =
    "usage: sweep --seeds A..B [--only machines|bucket] [--workers-max N] [--verbose] [--until-failure]

  --seeds A..B       play the seeds from A up to but not including B; a single number plays that one
  --only WHAT        play only the machines of scheduler and workers, or only the job in a bucket
  --workers-max N    most seats of a cluster (2000)
  --verbose          print the plan of every seed, and the whole trace of a failing one
  --until-failure    stop at the first seed that fails";

/// Lines of trace that are shown of a failing seed.
const TAIL_LINES: usize = 60;
/// Failing seeds that are shown in full.
const SHOWN_MAX: u64 = 5;

/// What a seed is played as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Machines,
    Bucket,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Machines => "machines",
            Part::Bucket => "bucket",
        }
    }
}

struct Args {
    seeds: Range<u64>,
    only: Option<Part>,
    workers_max: u32,
    verbose: bool,
    until_failure: bool,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut parsed =
        Args { seeds: 0..0, only: None, workers_max: 2000, verbose: false, until_failure: false };
    let mut has_seeds = false;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--seeds" => {
                let text = args.next().ok_or("--seeds wants A..B")?;
                let number =
                    |s: &str| s.parse::<u64>().map_err(|_| format!("`{s}` in `--seeds {text}` is no number"));
                parsed.seeds = match text.split_once("..") {
                    Some((from, to)) => number(from)?..number(to)?,
                    None => number(&text)?..number(&text)? + 1,
                };
                has_seeds = true;
            }
            "--only" => {
                let text = args.next().ok_or("--only wants machines or bucket")?;
                let part = [Part::Machines, Part::Bucket].into_iter().find(|part| part.name() == text);
                parsed.only = Some(part.ok_or(format!("`{text}` is neither machines nor bucket"))?);
            }
            "--workers-max" => {
                let text = args.next().ok_or("--workers-max wants a number")?;
                parsed.workers_max =
                    text.parse().map_err(|_| format!("`--workers-max {text}` is no number"))?;
            }
            "--verbose" => parsed.verbose = true,
            "--until-failure" => parsed.until_failure = true,
            other => return Err(format!("`{other}` is not known")),
        }
    }
    if has_seeds { Ok(parsed) } else { Err("which seeds?".into()) }
}

/// The message of the last panic.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// Runs a seed; a panic in a state machine's own checks counts as a failure.
fn play(part: Part, seed: u64, workers_max: u32, trace: &mut Trace, tally: &mut Tally) -> Result<(), String> {
    let played = catch_unwind(AssertUnwindSafe(|| match part {
        Part::Machines => check(seed, workers_max, trace).map(|ending| tally.add(&ending)),
        Part::Bucket => bucket::check(&Job::draw(seed)).map(drop),
    }));
    match played {
        Ok(Ok(())) => Ok(()),
        Ok(Err(violation)) => Err(violation.to_string()),
        Err(_) => {
            let said = LAST_PANIC.lock().map(|text| text.clone()).unwrap_or_default();
            Err(format!("panic at {said}"))
        }
    }
}

fn main() -> ExitCode {
    let args = match parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(why) => {
            eprintln!("{why}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(|l| format!("{}:{}", l.file(), l.line())).unwrap_or_default();
        let payload = info.payload();
        let message = payload.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
        if let Ok(mut last) = LAST_PANIC.lock() {
            *last = format!("{place}: {message}");
        }
    }));
    let parts = args.only.map_or(vec![Part::Machines, Part::Bucket], |only| vec![only]);
    let mut is_good = true;
    for part in parts {
        is_good &= sweep(part, &args);
        if args.until_failure && !is_good {
            break;
        }
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Plays all seeds. Returns whether all of them passed.
fn sweep(part: Part, args: &Args) -> bool {
    let mut tally = Tally::default();
    let (mut passed, mut failed) = (0u64, 0u64);
    let total = args.seeds.end.saturating_sub(args.seeds.start);
    for seed in args.seeds.clone() {
        if args.verbose {
            match part {
                Part::Machines => println!("{:#?}", Plan::draw(seed, args.workers_max)),
                Part::Bucket => println!("{:#?}", Job::draw(seed)),
            }
        }
        match play(part, seed, args.workers_max, &mut Trace::off(), &mut tally) {
            Ok(()) => passed += 1,
            Err(what) => {
                failed += 1;
                if failed <= SHOWN_MAX {
                    report(part, seed, &what, args);
                } else {
                    println!("seed {seed} failed: {}", what.chars().take(160).collect::<String>());
                }
                if args.until_failure {
                    break;
                }
            }
        }
        if (passed + failed).is_multiple_of(1000) && passed + failed < total {
            println!("{} of {total} seeds of {}, {failed} failed", passed + failed, part.name());
        }
    }
    if part == Part::Machines {
        println!("{tally}");
    }
    println!("{}: {passed} passed, {failed} failed", part.name());
    failed == 0
}

/// Runs a failing seed again, with its trace.
fn report(part: Part, seed: u64, what: &str, args: &Args) {
    let mut trace = Trace::last(if args.verbose { usize::MAX } else { TAIL_LINES });
    let again = play(part, seed, args.workers_max, &mut trace, &mut Tally::default());
    println!("seed {seed} failed: {what}");
    if part == Part::Machines {
        println!("--- the last that happened:");
        trace.lines().for_each(|line| println!("{line}"));
    }
    if again.as_ref().err().map(String::as_str) != Some(what) {
        println!("--- and when played again: {again:?}");
    }
    println!(
        "--- to see it again: cargo run --release -p qjam-sim --bin sweep -- --seeds {seed}..{} --only {} --workers-max {} --verbose\n",
        seed + 1,
        part.name(),
        args.workers_max
    );
}
