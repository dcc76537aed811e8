//! The caches of data on hosts, or on this machine.

use super::hosts::{self, Failure};
use crate::args::{Cache, Cap};
use crate::output;
use qjam::hosts::{CacheOrder, CacheState};
use qjam::source::kept;
use serde::Serialize;
use std::process::ExitCode;

#[derive(Serialize)]
struct Report {
    ok: bool,
    caches: Vec<Row>,
}

/// Keys that do not apply are there all the same, with `null`.
#[derive(Serialize)]
struct Row {
    /// `null` for this machine.
    host: Option<String>,
    ok: bool,
    folder: Option<String>,
    chunks: Option<u64>,
    bytes: Option<u64>,
    cap_bytes: Option<u64>,
    free_bytes: Option<u64>,
    removed_bytes: Option<u64>,
    verified: Option<u64>,
    damaged: Option<u64>,
    /// Files that readers made of text and foreign formats; of this machine only.
    converted: Option<Converted>,
    trouble: Option<String>,
    failure: Option<Failure>,
}

/// What readers keep, beside the chunks.
#[derive(Serialize)]
struct Converted {
    folder: String,
    files: u64,
    bytes: u64,
    cap_bytes: u64,
    removed_bytes: Option<u64>,
}

impl Converted {
    fn new(order: CacheOrder) -> Option<Self> {
        let removed_bytes = (order == CacheOrder::Clear).then(kept::clear);
        let shelf = kept::survey()?;
        let folder = shelf.folder.display().to_string();
        Some(Converted {
            folder,
            files: shelf.files,
            bytes: shelf.bytes,
            cap_bytes: shelf.cap_bytes,
            removed_bytes,
        })
    }

    fn show(&self) {
        output::line(format!("    converted files in {}", self.folder));
        if let Some(removed_bytes) = self.removed_bytes {
            output::line(format!("  {} removed {}", output::good(), output::bytes(removed_bytes)));
        }
        output::line(format!(
            "    holds   {}, {}",
            output::count(self.files, "file"),
            output::bytes(self.bytes)
        ));
        output::line(format!("    cap     {}", output::bytes(self.cap_bytes)));
    }
}

pub(crate) fn run(args: &Cache) -> anyhow::Result<ExitCode> {
    let order = match args.cap {
        Some(Cap::Default) => CacheOrder::Cap(None),
        Some(Cap::Bytes(bytes)) => CacheOrder::Cap(Some(bytes)),
        None if args.clear => CacheOrder::Clear,
        None if args.verify => CacheOrder::Verify,
        None => CacheOrder::Survey,
    };
    let mut caches = Vec::new();
    let mut keep = |row: Row| {
        if !args.json {
            row.show();
        }
        caches.push(row);
    };
    if args.hosts.is_empty() {
        let row = Row::new(None, order, Ok(qjam::hosts::cache_here(order)));
        keep(Row { converted: Converted::new(order), ..row });
    } else {
        let addresses = hosts::named(&args.hosts)?;
        hosts::ask_all(
            &addresses,
            |address| qjam::hosts::cache(address, order),
            |address, result| keep(Row::new(Some(address.to_string()), order, result.map_err(Failure::from))),
        );
    }
    let report = Report { ok: caches.iter().all(|row| row.ok), caches };
    if args.json {
        output::json(&report)?;
    }
    Ok(hosts::code(report.ok))
}

impl Row {
    fn new(host: Option<String>, order: CacheOrder, result: Result<CacheState, Failure>) -> Self {
        let (state, failure) = match result {
            Ok(state) => (Some(state), None),
            Err(failure) => (None, Some(failure)),
        };
        let trouble = state.as_ref().and_then(|state| state.trouble.clone());
        let state = state.filter(|_| trouble.is_none());
        let asked = |wanted: CacheOrder, value: Option<u64>| value.filter(|_| order == wanted);
        let damaged = asked(CacheOrder::Verify, state.as_ref().map(|s| s.damaged));
        Row {
            host,
            ok: state.is_some() && damaged.unwrap_or(0) == 0,
            folder: state.as_ref().map(|s| s.folder.clone()),
            chunks: state.as_ref().map(|s| s.chunks),
            bytes: state.as_ref().map(|s| s.bytes),
            cap_bytes: state.as_ref().map(|s| s.cap_bytes),
            free_bytes: state.as_ref().map(|s| s.free_bytes),
            removed_bytes: asked(CacheOrder::Clear, state.as_ref().map(|s| s.removed_bytes)),
            verified: asked(CacheOrder::Verify, state.as_ref().map(|s| s.verified)),
            damaged,
            converted: None,
            trouble,
            failure,
        }
    }

    fn show(&self) {
        output::heading(self.host.as_deref().unwrap_or("this machine"));
        if let Some(failure) = &self.failure {
            failure.show();
        }
        if let Some(trouble) = &self.trouble {
            output::line(format!("  {} {trouble}", output::bad()));
        }
        if let Some(removed_bytes) = self.removed_bytes {
            output::line(format!("  {} removed {}", output::good(), output::bytes(removed_bytes)));
        }
        match (self.verified, self.damaged) {
            (Some(verified), Some(0)) => {
                output::line(format!("  {} compared {verified} with their names: all good", output::good()));
            }
            (Some(verified), Some(damaged)) => output::line(format!(
                "  {} {damaged} of {verified} chunks damaged: not used any more, and sent again by the next run; is that disk in order?",
                output::bad()
            )),
            _ => {}
        }
        if let (Some(folder), Some(chunks), Some(bytes), Some(cap_bytes), Some(free_bytes)) =
            (&self.folder, self.chunks, self.bytes, self.cap_bytes, self.free_bytes)
        {
            output::line(format!("    folder  {folder}"));
            output::line(format!("    holds   {}, {}", output::count(chunks, "chunk"), output::bytes(bytes)));
            output::line(format!(
                "    cap     {}, {} free on that disk",
                output::bytes(cap_bytes),
                output::bytes(free_bytes)
            ));
        }
        if let Some(converted) = &self.converted {
            converted.show();
        }
    }
}
