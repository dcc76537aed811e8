//! Removing all that is ours on hosts.

use super::hosts::{self, Failure};
use crate::args::Clean;
use crate::output;
use qjam::StartFailure;
use qjam::hosts::Cleaned;
use serde::Serialize;
use std::process::ExitCode;

#[derive(Serialize)]
struct Report {
    ok: bool,
    hosts: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    host: String,
    ok: bool,
    removed: Vec<Removed>,
    /// What could not be removed, each with the reason.
    left: Vec<String>,
    failure: Option<Failure>,
}

#[derive(Serialize)]
struct Removed {
    folder: String,
    bytes: u64,
}

pub(crate) fn run(args: &Clean) -> anyhow::Result<ExitCode> {
    let addresses = hosts::named(&args.hosts)?;
    let mut rows: Vec<Row> = Vec::new();
    hosts::ask_all(&addresses, qjam::hosts::clean, |address, result| {
        let row = Row::new(address.to_string(), result);
        if !args.json {
            row.show();
        }
        rows.push(row);
    });
    let report = Report { ok: rows.iter().all(|row| row.ok), hosts: rows };
    if args.json {
        output::json(&report)?;
    }
    Ok(hosts::code(report.ok))
}

impl Row {
    fn new(host: String, result: Result<Cleaned, StartFailure>) -> Self {
        match result {
            Ok(cleaned) => Row {
                host,
                ok: cleaned.left.is_empty(),
                removed: cleaned
                    .removed
                    .into_iter()
                    .map(|(folder, bytes)| Removed { folder, bytes })
                    .collect(),
                left: cleaned.left,
                failure: None,
            },
            Err(failure) => {
                Row { host, ok: false, removed: Vec::new(), left: Vec::new(), failure: Some(failure.into()) }
            }
        }
    }

    fn show(&self) {
        output::heading(&self.host);
        for Removed { folder, bytes } in &self.removed {
            output::line(format!("  {} removed {folder}, {}", output::good(), output::bytes(*bytes)));
        }
        for left in &self.left {
            output::line(format!("  {} could not be removed: {left}", output::bad()));
        }
        match &self.failure {
            Some(failure) => failure.show(),
            None if self.removed.is_empty() && self.left.is_empty() => {
                output::line(format!("  {} nothing of ours was there", output::good()));
            }
            None => {}
        }
    }
}
