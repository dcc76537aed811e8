//! Whether this machine can be worked on, and what would have to be installed for what else.
//!
//! Every check gives one [`Finding`]: what was found, and if something is not as it might be, what to do. Nothing is installed or
//! changed; files that a check makes to see whether it can are removed. Programs are started, each with a limit, since one that is
//! installed need not work.

mod ask;
mod folders;
mod machine;
mod programs;

use crate::args::Doctor;
use crate::output;
use serde::Serialize;
use std::process::ExitCode;

/// How it is with one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// As it should be.
    Works,
    /// It works, and could be better.
    Warning,
    /// Something that only some uses need is not there.
    Missing,
    /// Something that every use needs does not work.
    Broken,
}

/// What one check has found.
#[derive(Debug, Serialize)]
struct Finding {
    name: &'static str,
    state: State,
    found: String,
    /// What to do, if anything.
    remedy: Option<String>,
    /// Numbers and paths, for programs.
    facts: serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize)]
struct Report {
    ok: bool,
    checks: Vec<Finding>,
}

impl Finding {
    fn new(name: &'static str, state: State, found: impl Into<String>) -> Finding {
        Finding { name, state, found: found.into(), remedy: None, facts: serde_json::Map::new() }
    }

    fn works(name: &'static str, found: impl Into<String>) -> Finding {
        Finding::new(name, State::Works, found)
    }

    fn missing(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding::new(name, State::Missing, found).remedy(remedy)
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Finding {
        self.remedy = Some(remedy.into());
        self
    }

    /// The same, as something that could be better.
    fn but(mut self, remedy: impl Into<String>) -> Finding {
        self.state = State::Warning;
        self.remedy(remedy)
    }

    fn fact(mut self, name: &str, value: impl Into<serde_json::Value>) -> Finding {
        self.facts.insert(name.into(), value.into());
        self
    }

    fn show(&self) {
        let mark = match self.state {
            State::Works => output::good(),
            State::Warning => output::warning(),
            State::Missing => "-",
            State::Broken => output::bad(),
        };
        output::line(format!("  {mark} {:<14} {}", self.name, self.found));
        if let Some(remedy) = &self.remedy {
            output::line(format!("    {:<14} {remedy}", ""));
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Doctor) -> anyhow::Result<ExitCode> {
    const CHECKS: &[fn() -> Finding] = &[
        programs::this,
        machine::cores,
        machine::memory,
        machine::shared_memory,
        machine::processes,
        folders::runs,
        folders::cache,
        folders::configuration,
        programs::ssh,
        programs::python,
        programs::numpy,
        programs::mpi,
        programs::java,
        programs::spark,
        programs::gpu,
    ];
    let mut checks: Vec<Finding> = Vec::new();
    for check in CHECKS {
        let finding = check();
        if !args.json {
            finding.show();
        }
        checks.push(finding);
    }
    let count = |state: State| checks.iter().filter(|finding| finding.state == state).count() as u64;
    let (broken, missing, warnings) = (count(State::Broken), count(State::Missing), count(State::Warning));
    let report = Report { ok: broken == 0, checks };
    if args.json {
        output::json(&report)?;
    } else {
        let verdict = match broken {
            0 => "worker processes run on this machine".to_owned(),
            _ => format!("{} does not work that every run needs", output::count(broken, "thing")),
        };
        let missing = output::count(missing, "optional part");
        output::line(format!("{verdict}; {missing} not there, {}", output::count(warnings, "warning")));
    }
    Ok(if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
