//! What user code prints arrives, under its worker's name and in order, bounded, and cannot touch the wire.

use crate::Engine;
use crate::support::{runs, wait_until};
use qjam::{Ctx, DataSet, LogLine, Master, Nothing};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type LogLines = Arc<Mutex<Vec<LogLine>>>;

/// A master whose lines are kept.
fn listening(e: &Engine, engine: &str) -> (Master, LogLines) {
    let kept: LogLines = Arc::default();
    let keep = kept.clone();
    // On a busy machine blocks would go to whoever is awake, and lines with them.
    let m = Master::builder().balance(false).on_log(move |line| keep.lock().unwrap().push(line.clone()));
    (e.connect(m, engine), kept)
}

#[qjam::map]
fn ten_lines(_: &(), _: &Nothing, ctx: &Ctx) -> u64 {
    for n in 0..10 {
        if n % 2 == 0 {
            println!("{n} of {} in round {}", ctx.chunk(), ctx.round());
        } else {
            // Without the newline at first: a line is a line only when it ends.
            print!("{n} of");
            println!(" {} in round {}", ctx.chunk(), ctx.round());
        }
    }
    eprintln!("to standard error");
    1
}

pub(crate) fn every_line_arrives_under_its_workers_name_and_in_order(e: &Engine) {
    let (m, kept) = listening(e, &e.of(4));
    let names: Vec<String> = m.workers().into_iter().map(|w| w.name).collect();
    for round in 0..3 {
        m.run_each(ten_lines, &()).unwrap();
        // They are all there when the value is.
        let lines = std::mem::take(&mut *kept.lock().unwrap());
        let printed: Vec<&LogLine> = lines.iter().filter(|l| !l.is_error).collect();
        assert_eq!(printed.len(), 40, "round {round}: {lines:?}");
        assert_eq!(lines.iter().filter(|l| l.is_error && l.text == "to standard error").count(), 4);
        let mut by_worker: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for line in printed {
            by_worker.entry(&line.worker).or_default().push(&line.text);
        }
        assert_eq!(by_worker.keys().copied().collect::<Vec<_>>(), names);
        for (chunk, (worker, lines)) in by_worker.into_iter().enumerate() {
            let expected: Vec<String> = (0..10).map(|n| format!("{n} of {chunk} in round {round}")).collect();
            assert_eq!(lines, expected, "{worker}");
        }
    }
}

pub(crate) fn a_million_lines_are_bounded_counted_and_harmless(e: &Engine) {
    #[qjam::map]
    fn flood(lines: &u64, _: &Nothing) -> u64 {
        let mut out = std::io::stdout().lock();
        for n in 0..*lines {
            writeln!(out, "line {n}").unwrap();
        }
        *lines
    }
    let (m, kept) = listening(e, &e.of(2));
    let million = 1_000_000;
    assert_eq!(m.run(flood, &(million / 2), &DataSet::nothing(2).unwrap()).unwrap(), million);
    let lines = std::mem::take(&mut *kept.lock().unwrap());
    let (mut shown, mut dropped) = (0, 0);
    for line in &lines {
        match line.text.strip_suffix(" more lines were dropped)") {
            Some(count) => dropped += count.trim_start_matches('(').parse::<u64>().unwrap(),
            None => shown += 1,
        }
    }
    assert_eq!(shown + dropped, million, "every line is shown or counted");
    assert!(dropped > 0, "all {shown} are shown");
    assert_eq!(m.run_each(ten_lines, &()).unwrap(), 2);
}

pub(crate) fn raw_bytes_on_standard_output_do_no_harm(e: &Engine) {
    #[qjam::map]
    fn rude(_: &(), _: &Nothing) -> (u64, u64) {
        let frame = [b"qj\x01\x02\xff\xff\xff\xff".as_slice(), &[0xff; 20_000], b"no newline"].concat();
        for out in [rustix::stdio::stdout(), rustix::stdio::stderr()] {
            let mut left = &frame[..];
            while !left.is_empty() {
                left = &left[rustix::io::write(out, left).unwrap()..];
            }
        }
        let mut read = Vec::new();
        let bytes = std::io::stdin().read_to_end(&mut read).unwrap();
        let mut one = [0];
        let raw = rustix::io::read(rustix::stdio::stdin(), &mut one).unwrap();
        ((bytes + raw) as u64, 1)
    }
    for engine in e.few() {
        let (m, kept) = listening(e, engine);
        for _ in 0..3 {
            let (read, ran) = m.run(rude, &(), &DataSet::nothing(8).unwrap()).unwrap();
            assert_eq!((read, ran), (0, 8), "{engine}: standard input is empty");
        }
        assert!(kept.lock().unwrap().iter().all(|line| line.text.len() < 100_000), "lines are bounded");
    }
}

pub(crate) fn a_listener_that_panics_or_is_slow_costs_no_round(e: &Engine) {
    let m = e.connect(Master::builder().on_log(|line| panic!("cannot bear {}", line.text)), &e.of(2));
    for _ in 0..3 {
        assert_eq!(m.run_each(ten_lines, &()).map_err(|e| e.to_string()), Ok(2));
    }
    let slow = Master::builder().on_log(|_| std::thread::sleep(Duration::from_millis(2)));
    let m = e.connect(slow, &e.of(2));
    assert_eq!(m.run_each(ten_lines, &()).unwrap(), 2);
}

/// Starts a program that outlives its parent, and gives its number.
#[qjam::map]
#[expect(clippy::zombie_processes, reason = "that it is left to itself is the point")]
fn leave_a_child(how: &u64, _: &Nothing) -> Vec<u64> {
    let child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    if *how == 1 {
        println!("child {}", child.id());
        std::process::exit(0);
    }
    vec![u64::from(child.id())]
}

pub(crate) fn what_user_code_started_ends_with_the_master(e: &Engine) {
    let m = e.master(1);
    let children = m.run_each(leave_a_child, &0).unwrap();
    assert!(children.iter().all(|pid| runs(*pid as u32)));
    drop(m);
    for pid in children {
        wait_until("the end of what user code started", || !runs(pid as u32));
    }
}

pub(crate) fn what_user_code_started_ends_with_its_process(e: &Engine) {
    let (m, kept) = listening(e, &e.of(1));
    assert!(m.run_each(leave_a_child, &1).is_err());
    let lines = kept.lock().unwrap().clone();
    let children: Vec<u32> =
        lines.iter().filter_map(|l| l.text.strip_prefix("child ")?.parse().ok()).collect();
    assert_eq!(children.len(), 3, "{lines:?}");
    for pid in children {
        wait_until("the end of what user code started", || !runs(pid));
    }
}
