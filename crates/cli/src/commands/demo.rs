//! The main job in half a minute: train on worker processes, kill one, and get the same bits.

use super::progress::Progress;
use super::training::{self, Trained};
use crate::args::Demo;
use crate::output::{self, events};
use anyhow::{Context, bail};
use qjam::job::Death;
use qjam::journal::What;
use qjam::{DataSet, Dense, Master};
use qjam_algos::images::{self, features};
use qjam_algos::neural::autoencoder::{Params, Shape};
use serde_json::json;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SIDE: usize = 8;
const HIDDEN: usize = 36;
/// So many evaluations show edges; fewer may not.
const ENOUGH: u32 = 100;

pub(crate) fn run(args: &Demo) -> anyhow::Result<()> {
    // What can be wrong with the call is told before the work is done.
    let told = Teller { json: args.json };
    let progress = if args.json { Progress::still() } else { Progress::default() };
    let _dashboard;
    let m = progress.builder().connect(&args.workers)?;
    _dashboard = super::dashboard::of(&m, args.dashboard)?;
    let picture = Picture::reserve(&args.out)?;
    told.heading("A sparse autoencoder learns what images are made of.");
    let start = Instant::now();
    let data = DataSet::dense(images::patches(args.patches as usize, SIDE, 1), SIDE * SIDE)?;
    told.line(format!(
        "  {} patches of {SIDE}x{SIDE} pixels, cut from images of overlapping discs drawn here ({:.1} s); {} chunks, {}",
        args.patches,
        start.elapsed().as_secs_f64(),
        data.len(),
        output::bytes(data.bytes()),
    ));
    let params = Params::for_pictures(Shape::new(SIDE * SIDE, HIDDEN)?);
    let names: Vec<String> = m
        .workers()
        .iter()
        .map(|w| w.pid.map_or(w.name.clone(), |pid| format!("{} (process {pid})", w.name)))
        .collect();
    told.line(format!("  workers: {}", names.join(", ")));
    told.event(events::began(&m, json!({ "patches": args.patches, "chunks": data.len() })))?;
    let trained = train_and_kill(&m, &params, &data, args.evaluations, &progress, told)?;
    report(&trained, "trained", told)?;
    for (name, death) in deaths(&m) {
        told.line(format!("  lost on the way: {name}, {}", death.cause));
        told.event(json!({ "event": "lost", "worker": name, "cause": death.cause.to_string() }))?;
    }
    if args.explain {
        output::explain(&m);
    }
    drop(m);

    told.heading("The same on one thread of this process:");
    let serial = progress.builder().connect("local:1")?;
    progress.begin(args.evaluations);
    let again = training::train(&serial, &params, &data, args.evaluations, |n, cost| {
        progress.step(&serial, n, cost);
    })?;
    output::moved();
    report(&again, "trained alone", told)?;
    if trained.hash() != again.hash() {
        bail!("the bits differ: {} and {}", trained.hash(), again.hash());
    }
    told.heading(&format!("The bits are equal: {}", trained.hash()));

    let weights = trained.model.features();
    let mut png = Vec::new();
    features::png(weights, HIDDEN, &mut png)?;
    picture.fill(&png)?;
    told.event(json!({ "event": "equal", "hash": trained.hash(), "picture": args.out.to_string_lossy() }))?;
    if output::has_colour() && !args.json {
        output::line(features::ansi(weights, HIDDEN)?);
    }
    let what = if args.evaluations < ENOUGH { "" } else { ": edges, mostly" };
    told.line(format!(
        "What each of the {HIDDEN} hidden units looks for is in {}{what}.",
        args.out.display()
    ));
    Ok(())
}

/// Tells people in sentences, or programs in one JSON object per event.
#[derive(Clone, Copy)]
struct Teller {
    json: bool,
}

impl Teller {
    fn heading(self, text: &str) {
        if !self.json {
            output::heading(text);
        }
    }

    fn line(self, text: impl AsRef<str>) {
        if !self.json {
            output::line(text);
        }
    }

    fn event(self, event: serde_json::Value) -> anyhow::Result<()> {
        if self.json { output::json(&event) } else { Ok(()) }
    }
}

/// A file that can be written, and that is gone again if nothing is.
struct Picture {
    path: PathBuf,
    is_ours_to_remove: bool,
}

impl Picture {
    fn reserve(path: &Path) -> anyhow::Result<Self> {
        let is_new = !path.exists();
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .with_context(|| format!("{} cannot be written; name another file with --out", path.display()))?;
        Ok(Picture { path: path.into(), is_ours_to_remove: is_new })
    }

    fn fill(mut self, bytes: &[u8]) -> anyhow::Result<()> {
        std::fs::write(&self.path, bytes)
            .with_context(|| format!("{} cannot be written", self.path.display()))?;
        self.is_ours_to_remove = false;
        Ok(())
    }
}

impl Drop for Picture {
    fn drop(&mut self) {
        if self.is_ours_to_remove {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Trains, and kills one worker process a third of the way.
fn train_and_kill(
    m: &Master,
    params: &Params,
    data: &DataSet<Dense<f64>>,
    evaluations: u32,
    progress: &Progress,
    told: Teller,
) -> anyhow::Result<Trained> {
    let victim = m.workers().into_iter().rev().find_map(|w| Some((w.name, w.pid?)));
    if victim.is_none() {
        told.line("  there is no worker process to kill: try --workers proc:2");
    }
    let at = evaluations / 3;
    let start = Instant::now();
    let mut last = start;
    let (mut lost, mut failed) = (0, Ok(()));
    progress.begin(evaluations);
    let trained = training::train(m, params, data, evaluations, |n, cost| {
        progress.step(m, n, cost);
        lost += m.last_round().map_or(0, |report| report.lost);
        let event = || {
            let (seconds, workers) = (start.elapsed().as_secs_f64(), m.workers().len());
            json!({ "event": "evaluation", "n": n, "cost": cost, "seconds": seconds, "workers": workers, "lost": lost })
        };
        if told.json && failed.is_ok() {
            failed = told.event(event());
        }
        let took = last.elapsed();
        last = Instant::now();
        if n == at
            && let Some((name, pid)) = &victim
        {
            kill_after(took / 3, *pid);
            output::moved();
            told.line(format!(
                "  evaluation {n}: SIGKILL to {name} (process {pid}) in the middle of the next one"
            ));
            if failed.is_ok() {
                failed = told.event(json!({ "event": "kill", "n": n, "worker": name, "pid": pid }));
            }
        }
    })?;
    output::moved();
    failed?;
    Ok(trained)
}

/// Kills a process a moment from now, when the next round has begun.
fn kill_after(pause: Duration, pid: u32) {
    std::thread::spawn(move || {
        std::thread::sleep(pause);
        if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    });
}

fn report(trained: &Trained, event: &str, told: Teller) -> anyhow::Result<()> {
    let spent = &trained.spent;
    told.line(format!(
        "  cost {:.6} after {} evaluations in {:.2} s; {} blocks were run again",
        trained.cost,
        spent.evaluations_us.len(),
        trained.seconds,
        spent.retries,
    ));
    let n = spent.evaluations_us.len().max(1) as u64;
    told.line(format!(
        "  time of an evaluation: T_worker {}, T_master {}, T_overhead {}",
        output::time(spent.worker_us / n),
        output::time(spent.master_us / n),
        output::time(spent.overhead_us / n),
    ));
    told.event(json!({
        "event": event,
        "cost": trained.cost,
        "evaluations": spent.evaluations_us.len(),
        "seconds": trained.seconds,
        "worker_us": spent.worker_us / n,
        "master_us": spent.master_us / n,
        "overhead_us": spent.overhead_us / n,
        "retries": spent.retries,
        "hash": trained.hash(),
    }))
}

fn deaths(m: &Master) -> Vec<(String, Death)> {
    let lost = m.journal().into_iter().filter_map(|entry| match entry.what {
        What::WorkerLost(worker, death) => Some((worker, death)),
        _ => None,
    });
    lost.map(|(worker, death)| (m.name_of(worker), death)).collect()
}
