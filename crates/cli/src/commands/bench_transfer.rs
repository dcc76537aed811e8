//! What it costs to bring data to workers, the first time and the next.

use crate::args::Transfer;
use crate::output;
use anyhow::{Context, ensure};
use qjam::{DataSet, Dense, Master};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

#[derive(Serialize)]
struct Row {
    workers: String,
    bytes: u64,
    chunks: usize,
    first_s: f64,
    first_mib_s: f64,
    first_chunks_sent: u64,
    second_s: f64,
    second_bytes_out: u64,
    second_chunks_sent: u64,
    /// Plain ssh into nothing, and into a file there.
    ssh_mib_s: Option<f64>,
    ssh_kept_mib_s: Option<f64>,
    of_ssh: Option<f64>,
    of_ssh_kept: Option<f64>,
}

#[qjam::map]
fn sum(_: &(), x: &Dense<u8>) -> u64 {
    // A byte of every page, so that the data must be there but is not what takes the time.
    x.as_slice().iter().step_by(4096).map(|b| u64::from(*b)).sum()
}

#[qjam::map]
fn sum_of_params(v: &[f64], _: &qjam::Nothing) -> f64 {
    v.iter().step_by(512).sum()
}

pub(crate) fn run(args: &Transfer) -> anyhow::Result<()> {
    if args.vector {
        return run_vector(args);
    }
    let file = Scratch::new(args.mib * MIB)?;
    let whole = DataSet::<Dense<u8>>::raw(&file.0, 4096)?;
    let data = if args.one_chunk { whole.partitions(1)? } else { whole };
    let beside = |there| args.beside.as_deref().map(|host| plain_ssh(host, &file.0, there)).transpose();
    let ssh = beside("cat >/dev/null")?;
    // What is kept needs memory, and a virtual machine may take its time to give out fresh memory. So the peer that
    // keeps it comes last, and leaves behind what we can use.
    let kept = beside("f=.qjam-transfer-$$; cat >$f; rm -f $f")?;
    let _dashboard;
    let m = Master::connect(&args.workers)?;
    _dashboard = super::dashboard::of(&m, args.dashboard)?;
    let mut runs = Vec::new();
    for _ in 0..2 {
        let start = Instant::now();
        let found = m.run(sum, &(), &data)?;
        let took = start.elapsed();
        let report = m.last_round().context("a round that succeeded has a report")?;
        runs.push((found, took, report));
    }
    ensure!(runs[0].0 == runs[1].0, "the two sums differ, which must not happen");
    let bytes = args.mib * MIB;
    let rate = |took: Duration| (bytes / MIB) as f64 / took.as_secs_f64();
    if args.explain {
        output::explain(&m);
    }
    let row = Row {
        workers: args.workers.clone(),
        bytes,
        chunks: data.len(),
        first_s: runs[0].1.as_secs_f64(),
        first_mib_s: rate(runs[0].1),
        first_chunks_sent: runs[0].2.chunks_sent,
        second_s: runs[1].1.as_secs_f64(),
        second_bytes_out: runs[1].2.bytes_out,
        second_chunks_sent: runs[1].2.chunks_sent,
        ssh_mib_s: ssh.map(rate),
        ssh_kept_mib_s: kept.map(rate),
        of_ssh: ssh.map(|ssh| ssh.as_secs_f64() / runs[0].1.as_secs_f64()),
        of_ssh_kept: kept.map(|kept| kept.as_secs_f64() / runs[0].1.as_secs_f64()),
    };
    if args.json {
        output::json(&row)?;
        return Ok(());
    }
    output::heading(&format!("{} in {} chunks to {}", output::bytes(bytes), row.chunks, args.workers));
    output::line(format!(
        "  first time   {:.2} s, {:.0} MiB/s, {} chunks sent",
        row.first_s, row.first_mib_s, row.first_chunks_sent
    ));
    output::line(format!("  second time  {:.2} s, {} chunks sent", row.second_s, row.second_chunks_sent));
    for (what, rate, ratio) in
        [("plain ssh   ", row.ssh_mib_s, row.of_ssh), ("to a file   ", row.ssh_kept_mib_s, row.of_ssh_kept)]
    {
        if let (Some(rate), Some(ratio)) = (rate, ratio) {
            output::line(format!("  {what} {rate:.0} MiB/s: the first time is {:.0} % of it", ratio * 100.0));
        }
    }
    Ok(())
}

/// Parameters instead of data: a vector that every worker gets.
fn run_vector(args: &Transfer) -> anyhow::Result<()> {
    let _dashboard;
    let m = Master::connect(&args.workers)?;
    _dashboard = super::dashboard::of(&m, args.dashboard)?;
    let v: Vec<f64> = (0..args.mib * MIB / 8).map(|n| (n % 1021) as f64).collect();
    let expected: f64 = v.iter().step_by(512).sum();
    let start = Instant::now();
    let got = m.run(sum_of_params, &v[..], &DataSet::nothing(1)?)?;
    let took = start.elapsed().as_secs_f64();
    ensure!(got == expected, "the sum is wrong, which must not happen");
    output::line(format!(
        "a vector of {} to {}: {took:.2} s, {:.0} MiB/s",
        output::bytes(args.mib * MIB),
        args.workers,
        args.mib as f64 / took
    ));
    Ok(())
}

/// How long plain ssh takes for the same bytes.
fn plain_ssh(host: &str, file: &Path, there: &str) -> anyhow::Result<Duration> {
    let command = qjam::hosts::ssh_command();
    let mut words = command.split_whitespace();
    let ssh = words.next().unwrap_or("ssh");
    let mut command = Command::new(ssh);
    command.args(words).args(["-o", "BatchMode=yes", "--", host, there]);
    let start = Instant::now();
    let status = command.stdin(Stdio::from(std::fs::File::open(file)?)).status().context("starting ssh")?;
    ensure!(status.success(), "plain ssh to {host} failed");
    Ok(start.elapsed())
}

/// A file of bytes that do not repeat, removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(bytes: u64) -> anyhow::Result<Self> {
        let name =
            format!("qjam-transfer-{}-{:x}.raw", std::process::id(), Instant::now().elapsed().as_nanos());
        let path = std::env::temp_dir().join(name);
        let scratch = Scratch(path);
        let mut file = std::fs::File::create_new(&scratch.0)
            .with_context(|| format!("making {}", scratch.0.display()))?;
        // New every time, so that no host has them yet.
        let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos();
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes());
        let mut numbers = hasher.finalize_xof();
        let mut block = vec![0; MIB as usize];
        for _ in 0..bytes / MIB {
            numbers.fill(&mut block);
            file.write_all(&block).with_context(|| format!("writing {}", scratch.0.display()))?;
        }
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
