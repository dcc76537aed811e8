//! What the commands about hosts have in common: naming them, asking all at once, showing what failed.

use crate::output;
use anyhow::bail;
use qjam::StartFailure;
use qjam::engine::{HostAddress, WorkerString};
use serde::Serialize;
use std::process::ExitCode;

/// The hosts that arguments name, each once.
pub(super) fn named(arguments: &[String]) -> anyhow::Result<Vec<HostAddress>> {
    let mut hosts = Vec::new();
    for seat in WorkerString::parse(&arguments.join(","))?.seats {
        let Some(address) = seat.host() else {
            let engine = seat.name.split(':').next().unwrap_or_default();
            bail!(
                "`{engine}` is this machine, which needs no ssh; name hosts, or write `ssh://{engine}` if one is called so"
            );
        };
        if !hosts.contains(address) {
            hosts.push(address.clone());
        }
    }
    Ok(hosts)
}

/// Asks all hosts at once; `each` sees the answers in the order of the hosts, as soon as may be.
pub(super) fn ask_all<A: Send>(
    hosts: &[HostAddress],
    ask: impl Fn(&HostAddress) -> A + Sync,
    mut each: impl FnMut(&HostAddress, A),
) {
    let ask = &ask;
    std::thread::scope(|scope| {
        let asked: Vec<_> = hosts.iter().map(|host| (host, scope.spawn(move || ask(host)))).collect();
        for (host, answer) in asked {
            output::moving(&format!("waiting for {host}"));
            match answer.join() {
                Ok(answer) => {
                    output::moved();
                    each(host, answer);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
}

/// The exit code of a command that looked at several hosts.
pub(super) fn code(all_good: bool) -> ExitCode {
    if all_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What failed on the way to a host, for programs.
#[derive(Serialize)]
pub(super) struct Failure {
    step: String,
    what: String,
    words: Vec<String>,
    remedy: String,
}

impl From<StartFailure> for Failure {
    fn from(failure: StartFailure) -> Self {
        let StartFailure { step, what, words, remedy } = failure;
        Failure { step: step.to_string(), what, words, remedy }
    }
}

impl Failure {
    /// For people.
    pub(super) fn show(&self) {
        output::line(format!("  {} {:<13} {}", output::bad(), self.step, self.what));
        for line in &self.words {
            output::line(format!("      | {line}"));
        }
        output::line(format!("      remedy: {}", self.remedy));
    }
}
