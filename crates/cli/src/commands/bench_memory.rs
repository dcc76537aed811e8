//! What training takes of memory, with data in a file and limited workers.

use super::bench_autoencoder::SIDE;
use super::progress::Progress;
use super::training;
use crate::args::Autoencoder;
use crate::output;
use anyhow::Context;
use qjam::memory::{Limit, Usage};
use qjam::{DataSet, Dense, Master};
use qjam_algos::images;
use qjam_algos::neural::autoencoder::Params;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

#[derive(Serialize)]
struct Row {
    patches: u64,
    workers: String,
    data_bytes: u64,
    memory_limit: Option<u64>,
    evaluation_ms: f64,
    total_s: f64,
    cost: f64,
    hash: String,
    retries: u64,
    /// Most that each process of this machine was seen to have after an evaluation, and the kernel's own word for its peak.
    memory: BTreeMap<String, MemoryUse>,
    /// The limit that holds for all of them, and how near they came, if it is a control group's.
    machine_limit: u64,
    group_peak: Option<u64>,
}

#[derive(Clone, Copy, Default, Serialize)]
struct MemoryUse {
    private: u64,
    shared: u64,
    file: u64,
    peak: u64,
}

impl MemoryUse {
    fn add(&mut self, usage: Usage) {
        self.private = self.private.max(usage.private_bytes);
        self.shared = self.shared.max(usage.shared_bytes);
        self.file = self.file.max(usage.file_bytes);
        self.peak = self.peak.max(usage.peak_bytes);
    }
}

pub(crate) fn run(args: &Autoencoder, params: &Params) -> anyhow::Result<()> {
    let progress = Progress::default();
    let mut builder = progress.builder();
    if let Some(bytes) = args.memory_limit {
        builder = builder.memory_limit(bytes);
    }
    let _dashboard;
    let m = builder.connect(&args.workers)?;
    _dashboard = super::dashboard::of(&m, args.dashboard)?;
    let data = match &args.file {
        Some(path) => {
            if !path.exists() {
                write(path, args.patches).with_context(|| format!("cannot make {}", path.display()))?;
            }
            DataSet::<Dense<f64>>::npy(path)?
        }
        None => DataSet::dense(images::patches(args.patches as usize, SIDE, 1), SIDE * SIDE)?,
    };
    let mut memory = BTreeMap::new();
    progress.begin(args.evaluations);
    let trained = training::train(&m, params, &data, args.evaluations, |n, cost| {
        look(&m, &mut memory);
        progress.step(&m, n, cost);
    })?;
    output::moved();
    let limit = Limit::here();
    let row = Row {
        patches: data.records(),
        workers: args.workers.clone(),
        data_bytes: data.bytes(),
        memory_limit: args.memory_limit,
        evaluation_ms: trained.median_us() as f64 / 1e3,
        total_s: trained.seconds,
        cost: trained.cost,
        hash: trained.hash(),
        retries: trained.spent.retries,
        memory,
        machine_limit: limit.bytes,
        group_peak: limit.peak_bytes(),
    };
    if args.json {
        output::json(&row)?;
    } else {
        tell(&row, &limit);
    }
    Ok(())
}

/// Adds what the processes of this machine have now.
fn look(m: &Master, memory: &mut BTreeMap<String, MemoryUse>) {
    let others = m.workers().into_iter().filter_map(|w| Some((w.name, Usage::of(w.pid?))));
    for (name, usage) in others.chain([("master".to_owned(), Usage::here())]) {
        // One that has just died has nothing to look at.
        if let Ok(usage) = usage {
            memory.entry(name).or_default().add(usage);
        }
    }
}

fn tell(row: &Row, limit: &Limit) {
    output::heading(&format!("sparse autoencoder, {} patches, {}", row.patches, row.workers));
    let allowed =
        row.memory_limit.map_or("no limit".into(), |bytes| format!("{} each", output::bytes(bytes)));
    output::line(format!("  data        {}, for workers with {allowed}", output::bytes(row.data_bytes)));
    output::line(format!("  evaluation  {:.2} ms   total {:.2} s", row.evaluation_ms, row.total_s));
    output::line(format!("  cost        {}", row.cost));
    output::line(format!("  hash        {}", row.hash));
    let peak = row
        .group_peak
        .map_or(String::new(), |bytes| format!(", of which {} were taken", output::bytes(bytes)));
    output::line(format!("  memory      {limit}{peak}"));
    output::line("");
    let rows = row.memory.iter().map(|(name, seen)| {
        let [private, shared, file, peak] =
            [seen.private, seen.shared, seen.file, seen.peak].map(output::bytes);
        [name.clone(), private, shared, file, peak]
    });
    output::table(["process", "private", "shared", "of files", "peak"], rows);
}

/// Writes patches as `numpy.save` does. A file is there when it is whole.
fn write(path: &Path, patches: u64) -> anyhow::Result<()> {
    let cols = SIDE * SIDE;
    let mut header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({patches}, {cols}), }}");
    let padded = (10 + header.len() + 1).next_multiple_of(64) - 11;
    header.push_str(&" ".repeat(padded - header.len()));
    header.push('\n');
    let unfinished = path.with_extension(format!("npy.{}", std::process::id()));
    let mut file = BufWriter::new(File::create(&unfinished)?);
    file.write_all(b"\x93NUMPY\x01\x00")?;
    file.write_all(&u16::try_from(header.len())?.to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    images::each_patch(usize::try_from(patches)?, SIDE, 1, |row| {
        row.iter().try_for_each(|v| file.write_all(&v.to_le_bytes()))
    })?;
    file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    std::fs::rename(&unfinished, path)?;
    Ok(())
}
