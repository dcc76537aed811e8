//! The project's maintenance commands: set up, check, test, measure.
//!
//! `cargo xtask test` is what continuous integration runs; `cargo xtask test --full` adds slow checks. The steps are the two lists in
//! [`steps`]; the other modules run them. Depends on no crate of the workspace.

mod args;
mod bench;
mod clouds;
mod demo;
mod dist;
mod elf;
mod failure;
mod fresh;
mod fuzz;
mod hosts;
mod hygiene;
mod lanes;
mod leftovers;
mod mpi;
mod package;
mod paper;
mod promised;
mod release;
mod rooms;
mod run;
mod setup;
mod site;
mod spark;
mod step;
mod steps;
mod suite;
mod table;
mod workspace;

use args::{Request, Usage};
use std::process::ExitCode;
use workspace::Workspace;

const HELP: &str = "\
cargo xtask COMMAND

  test [--full] [--only STEP]   check everything; --full adds long sweeps, fuzzing, chaos and benchmarks
  bench [--only STEP]           only the benchmarks against the peer programs
  setup [--full]                only install what the steps need
  dist                          build the executable that needs nothing of the machine it runs on
  wheel                         build the Python package for others, to `wheels` in the target folder
  site                          build the documentation to `site` in the target folder, for any web server
  release --dry-run             everything of a release short of publishing it; --only PART: check, crates, wheel, dist
  paper [OPTIONS]               the study of what Spark costs beside MPI, to `paper` in the target folder; --quick takes ten minutes
  spark-jar                     build the jar for users of Spark in Scala and its library, to `spark` in the target folder
  rooms                         print which crates and modules use which, and check that they may
  hosts up | down | status      make or remove test hosts with an sshd each, or see which answer
  hosts shell NAME              log in to one
  list                          name the steps and when they run
  help                          this text

Two rows of steps run side by side, so what a step prints is shown when it ends; a step asked for by --only runs here and now.
Every step runs even when one before it failed; the exit code says whether all passed. A step whose tool is missing
and cannot be installed counts as failed. Tools and the Python environment go under the target folder; system packages
are installed (by apt-get, through sudo unless root) only when something needed is missing.";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let request = match args::parse(&words) {
        Ok(request) => request,
        Err(usage) => {
            eprintln!("{usage}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let (lists, tiers, only) = match request {
        Request::Help => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Request::List => {
            print!("{}", step::listing(&[steps::SETUP, steps::CHECKS]));
            return ExitCode::SUCCESS;
        }
        Request::Dist => return finish(Workspace::here().and_then(|workspace| dist::build(&workspace))),
        Request::Wheel => return finish(Workspace::here().and_then(|workspace| package::wheel(&workspace))),
        Request::Site => return finish(Workspace::here().and_then(|workspace| site::build(&workspace))),
        Request::Release(part) => {
            return finish(
                Workspace::here().and_then(|workspace| release::rehearse(&workspace, part.as_deref())),
            );
        }
        Request::Paper(options) => {
            return finish(Workspace::here().and_then(|workspace| paper::study(&workspace, &options)));
        }
        Request::SparkJar => return finish(Workspace::here().and_then(|workspace| paper::jar(&workspace))),
        Request::Rooms => return finish(Workspace::here().and_then(|workspace| rooms::print(&workspace))),
        Request::Hosts(order) => {
            return finish(Workspace::here().and_then(|workspace| hosts::obey(&workspace, &order)));
        }
        Request::Step { name, outcome } => {
            return finish(
                Workspace::here().and_then(|workspace| lanes::one_step(&workspace, &name, &outcome)),
            );
        }
        Request::Run { lists, tiers, only } => (lists, tiers, only),
    };
    let chosen = step::choose(lists, tiers, only.as_deref());
    if chosen.is_empty() {
        eprintln!("{}", Usage::NoSuchStep(only.unwrap_or_default()));
        return ExitCode::from(2);
    }
    match Workspace::here() {
        Ok(workspace) if table::run_all(&workspace, &chosen) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Reports a result and returns the exit code.
fn finish(outcome: step::StepResult) -> ExitCode {
    match outcome {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
