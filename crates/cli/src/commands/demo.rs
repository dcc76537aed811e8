//! The main job in half a minute: train on worker processes, kill one, and get the same bits.

use super::training::{self, Trained};
use crate::args::Demo;
use crate::output;
use anyhow::{Context, bail, ensure};
use qjam::job::Death;
use qjam::journal::What;
use qjam::{DataSet, Master};
use qjam_algos::images::{self, features};
use qjam_algos::neural::autoencoder::{Params, Shape};
use std::fs::OpenOptions;
use std::io::BufWriter;
use std::time::Instant;

const SIDE: usize = 8;
const HIDDEN: usize = 36;

pub(crate) fn run(args: &Demo) -> anyhow::Result<()> {
    ensure!(args.patches > 0, "--patches 0 leaves nothing to learn from; give at least 1");
    ensure!(args.evaluations > 1, "--evaluations must be at least 2 to learn anything");
    // Opened first: a place that cannot be written to is told before the work is done.
    let picture =
        OpenOptions::new().write(true).create(true).truncate(false).open(&args.out).with_context(|| {
            format!("{} cannot be written; name another file with --out", args.out.display())
        })?;
    output::heading("A sparse autoencoder learns what images are made of.");
    let start = Instant::now();
    let data = DataSet::dense(images::patches(args.patches, SIDE, 1), SIDE * SIDE)?;
    output::line(format!(
        "  {} patches of {SIDE}x{SIDE} pixels, cut from images of overlapping discs drawn here ({:.1} s); {} chunks, {}",
        args.patches,
        start.elapsed().as_secs_f64(),
        data.len(),
        output::bytes(data.bytes()),
    ));
    let params = Params::for_pictures(Shape::new(SIDE * SIDE, HIDDEN)?);

    let m = Master::connect(&args.workers)?;
    let names: Vec<String> = m
        .workers()
        .iter()
        .map(|w| w.pid.map_or(w.name.clone(), |pid| format!("{} (process {pid})", w.name)))
        .collect();
    output::line(format!("  workers: {}", names.join(", ")));
    let trained = train_and_kill(&m, &params, &data, args.evaluations)?;
    report(&trained);
    for (name, death) in deaths(&m) {
        output::line(format!("  lost on the way: {name}, {}", death.cause));
    }
    drop(m);

    output::heading("The same on one thread of this process:");
    let serial = Master::connect("local:1")?;
    let again = training::train(&serial, &params, &data, args.evaluations, progress)?;
    output::moved();
    report(&again);
    if trained.hash() != again.hash() {
        bail!("the bits differ: {} and {}", trained.hash(), again.hash());
    }
    output::heading(&format!("The bits are equal: {}", trained.hash()));

    picture.set_len(0)?;
    let weights = trained.model.features();
    features::png(weights, HIDDEN, BufWriter::new(picture))
        .with_context(|| format!("{} cannot be written", args.out.display()))?;
    if output::has_colour() {
        output::line(features::ansi(weights, HIDDEN)?);
    }
    output::line(format!(
        "What each of the {HIDDEN} hidden units looks for is in {}: edges, mostly.",
        args.out.display()
    ));
    Ok(())
}

/// Trains, and kills one worker process a third of the way.
fn train_and_kill(
    m: &Master,
    params: &Params,
    data: &DataSet<qjam::Dense<f64>>,
    evaluations: u32,
) -> anyhow::Result<Trained> {
    let victim = m.workers().into_iter().rev().find_map(|w| Some((w.name, w.pid?)));
    let at = evaluations / 3;
    let killed = std::cell::Cell::new(false);
    let trained = training::train(m, params, data, evaluations, |n, cost| {
        progress(n, cost);
        if n >= at
            && !killed.replace(true)
            && let Some((name, pid)) = &victim
        {
            kill_soon(*pid);
            output::moved();
            output::line(format!(
                "  evaluation {n}: SIGKILL to {name} (process {pid}) in the middle of the next one"
            ));
        }
    })?;
    output::moved();
    Ok(trained)
}

/// Kills a process a moment from now, when the next round has begun.
fn kill_soon(pid: u32) {
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(5));
        if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    });
}

fn progress(n: u32, cost: f64) {
    output::moving(&format!("  evaluation {n}, cost {cost:.6}"));
}

fn report(trained: &Trained) {
    output::line(format!(
        "  cost {:.6} after {} evaluations in {:.2} s; {} blocks were run again",
        trained.cost,
        trained.spent.evaluations_us.len(),
        trained.seconds,
        trained.spent.retries,
    ));
    let n = trained.spent.evaluations_us.len().max(1) as u64;
    output::line(format!(
        "  time of an evaluation: T_worker {}, T_master {}, T_overhead {}",
        output::time(trained.spent.worker_us / n),
        output::time(trained.spent.master_us / n),
        output::time(trained.spent.overhead_us / n),
    ));
}

fn deaths(m: &Master) -> Vec<(String, Death)> {
    let lost = m.journal().into_iter().filter_map(|entry| match entry.what {
        What::WorkerLost(worker, death) => Some((worker, death)),
        _ => None,
    });
    lost.map(|(worker, death)| (m.name_of(worker), death)).collect()
}
