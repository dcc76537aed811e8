//! The project's chores, so that nobody has to remember them: set up, check, test, measure.
//!
//! `cargo xtask test` is what continuous integration runs; `cargo xtask test --full` adds what takes long. The chores
//! themselves are the two lists in [`steps`]; everything else in here is how they are run.

mod args;
mod bench;
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
mod rooms;
mod run;
mod setup;
mod shop;
mod step;
mod steps;
mod suite;

use args::{Request, Usage};
use shop::Shop;
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  test [--full] [--only STEP]   check everything; --full adds long sweeps, fuzzing, chaos and benchmarks
  bench [--only STEP]           only the benchmarks against the peer programs
  setup [--full]                only install what the steps need
  dist                          build the executable that needs nothing of the machine it runs on
  wheel                         build the Python package for others, to `wheels` in the target folder
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
        Request::Dist => return finish(Shop::here().and_then(|shop| dist::build(&shop))),
        Request::Wheel => return finish(Shop::here().and_then(|shop| package::wheel(&shop))),
        Request::Rooms => return finish(Shop::here().and_then(|shop| rooms::print(&shop))),
        Request::Hosts(order) => return finish(Shop::here().and_then(|shop| hosts::obey(&shop, &order))),
        Request::Step { name, outcome } => {
            return finish(Shop::here().and_then(|shop| lanes::one_step(&shop, &name, &outcome)));
        }
        Request::Run { lists, tiers, only } => (lists, tiers, only),
    };
    let chosen = step::choose(lists, tiers, only.as_deref());
    if chosen.is_empty() {
        eprintln!("{}", Usage::NoSuchStep(only.unwrap_or_default()));
        return ExitCode::from(2);
    }
    match Shop::here() {
        Ok(shop) if step::run_all(&shop, &chosen) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Says how it went.
fn finish(outcome: step::Outcome) -> ExitCode {
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
