//! Whether hosts would serve, and what to do where they would not.

use super::hosts::{self, Failure};
use crate::args::Check;
use crate::output;
use qjam::hosts::{Checkup, Executable};
use qjam::{StartFailure, Step};
use serde::Serialize;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Serialize)]
struct Report {
    ok: bool,
    executable: Sent,
    hosts: Vec<Host>,
}

#[derive(Serialize)]
struct Sent {
    path: String,
    version: &'static str,
    bytes: u64,
    blake3: String,
    machine: String,
    is_dynamic: bool,
    warnings: Vec<String>,
}

/// Keys that do not apply are there all the same, with `null`.
#[derive(Serialize)]
struct Host {
    host: String,
    ok: bool,
    steps: Vec<Passed>,
    failure: Option<Failure>,
    found: Option<HostReport>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Passed {
    step: String,
    us: u64,
}

#[derive(Serialize)]
struct HostReport {
    copied: bool,
    folder: String,
    version: String,
    hostname: String,
    system: String,
    cores: u32,
    memory_bytes: u64,
    memory_free_bytes: u64,
    cache_folder: String,
    cache_chunks: u64,
    cache_bytes: u64,
    cache_cap_bytes: u64,
    disk_free_bytes: u64,
    round_trip_us: f64,
    bytes_per_second: Option<f64>,
}

pub(crate) fn run(args: &Check) -> anyhow::Result<ExitCode> {
    let addresses = hosts::named(&args.hosts)?;
    let executable: Sent = qjam::hosts::executable()?.into();
    if !args.json {
        executable.show();
    }
    let mut checked: Vec<Host> = Vec::new();
    hosts::ask_all(
        &addresses,
        |address| {
            let mut steps = Vec::new();
            let result = qjam::hosts::check(address, &mut |step, took| steps.push((step, took)));
            (steps, result)
        },
        |address, (steps, result)| {
            let host = Host::new(address.to_string(), steps, result);
            if !args.json {
                host.show();
            }
            checked.push(host);
        },
    );
    let good = checked.iter().filter(|host| host.ok).count();
    let report = Report { ok: good == checked.len(), executable, hosts: checked };
    if args.json {
        output::json(&report)?;
    } else if report.hosts.len() > 1 {
        let bad: Vec<&str> = report.hosts.iter().filter(|h| !h.ok).map(|h| h.host.as_str()).collect();
        let but = if bad.is_empty() { String::new() } else { format!("; not {}", bad.join(", ")) };
        output::line(format!("{good} of {} hosts would serve{but}", report.hosts.len()));
    }
    Ok(hosts::code(report.ok))
}

impl From<Executable> for Sent {
    fn from(executable: Executable) -> Self {
        Sent {
            path: executable.path.display().to_string(),
            version: env!("CARGO_PKG_VERSION"),
            bytes: executable.bytes,
            blake3: executable.hash,
            machine: executable.machine,
            is_dynamic: executable.is_dynamic,
            warnings: executable.warnings,
        }
    }
}

impl Sent {
    fn show(&self) {
        output::heading("what is sent");
        output::line(format!(
            "    {}, version {}, {}, for Linux {}, {}",
            self.path,
            self.version,
            output::bytes(self.bytes),
            self.machine,
            if self.is_dynamic { "dynamic" } else { "static" }
        ));
        show_warnings(&self.warnings);
        output::line("");
    }
}

impl Host {
    fn new(host: String, mut steps: Vec<(Step, Duration)>, result: Result<Checkup, StartFailure>) -> Self {
        let (failure, found, warnings) = match result {
            Ok(checkup) => {
                steps.clone_from(&checkup.steps);
                (None, Some(HostReport::from(&checkup)), checkup.warnings)
            }
            Err(failure) => {
                // A later attempt begins anew: what counts are the steps before the one that failed.
                let last = steps.iter().rposition(|(step, _)| *step == Step::Connect).unwrap_or(0);
                steps.drain(..last);
                steps.retain(|(step, _)| *step < failure.step);
                (Some(Failure::from(failure)), None, Vec::new())
            }
        };
        let steps = steps
            .into_iter()
            .map(|(step, took)| Passed { step: step.to_string(), us: took.as_micros() as u64 })
            .collect();
        Host { host, ok: found.is_some(), steps, failure, found, warnings }
    }

    fn show(&self) {
        output::heading(&self.host);
        for passed in &self.steps {
            output::line(format!("  {} {:<13} {:>9}", output::good(), passed.step, output::time(passed.us)));
        }
        if let Some(failure) = &self.failure {
            failure.show();
        }
        if let Some(found) = &self.found {
            found.show();
        }
        show_warnings(&self.warnings);
        output::line("");
    }
}

impl From<&Checkup> for HostReport {
    fn from(checkup: &Checkup) -> Self {
        HostReport {
            copied: checkup.copied,
            folder: checkup.folder.clone(),
            version: checkup.version.clone(),
            hostname: checkup.hostname.clone(),
            system: checkup.system.clone(),
            cores: checkup.cores,
            memory_bytes: checkup.memory_bytes,
            memory_free_bytes: checkup.memory_free_bytes,
            cache_folder: checkup.cache.folder.clone(),
            cache_chunks: checkup.cache.chunks,
            cache_bytes: checkup.cache.bytes,
            cache_cap_bytes: checkup.cache.cap_bytes,
            disk_free_bytes: checkup.cache.free_bytes,
            round_trip_us: checkup.round_trip.as_nanos() as f64 / 1e3,
            bytes_per_second: checkup.bytes_per_second,
        }
    }
}

impl HostReport {
    fn show(&self) {
        let copied = if self.copied { "copied now" } else { "was there already" };
        let row = |label: &str, text: String| output::line(format!("    {label:<13} {text}"));
        row("host", format!("{}, {}", self.hostname, self.system));
        row("cores", self.cores.to_string());
        row(
            "memory",
            format!("{}, {} free", output::bytes(self.memory_bytes), output::bytes(self.memory_free_bytes)),
        );
        row("worker", format!("version {}, {copied}, in {}", self.version, self.folder));
        row(
            "cache",
            format!(
                "{} of {} ({} free on that disk), {}, in {}",
                output::bytes(self.cache_bytes),
                output::bytes(self.cache_cap_bytes),
                output::bytes(self.disk_free_bytes),
                output::count(self.cache_chunks, "chunk"),
                self.cache_folder
            ),
        );
        let rate = self
            .bytes_per_second
            .map_or("too slow".into(), |rate| format!("{}/s", output::bytes(rate as u64)));
        row("link", format!("round trip {}, {rate}", output::time(self.round_trip_us as u64)));
    }
}

fn show_warnings(warnings: &[String]) {
    for warning in warnings {
        output::line(format!("  {} {warning}", output::warning()));
    }
}
