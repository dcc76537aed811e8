//! The command `qjam`.
//!
//! It parses ([`args`]) with the defaults of configuration files ([`settings`]), runs one of the [`commands`] on the public interface of the library, and prints ([`output`]).
//! The same executable is its own worker.

mod args;
mod commands;
mod output;
mod settings;

use clap::{CommandFactory, FromArgMatches};
#[cfg(feature = "mpi")]
use qjam_mpi as _;
// The worker processes of Spark's executors are this executable.
use qjam_spark as _;
use std::process::ExitCode;

#[qjam::main]
fn main() -> ExitCode {
    output::until_unwritable(command)
}

fn command() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let settings = match settings::Settings::for_words(&words) {
        Ok(settings) => settings,
        Err(e) => return failed(&e),
    };
    let parsed = settings.in_command(args::Args::command()).try_get_matches_from(words).and_then(|matches| {
        let args = args::Args::from_arg_matches(&matches)?;
        Ok((matches, args))
    });
    let (matches, mut args) = match parsed {
        Ok(parsed) => parsed,
        Err(e) => {
            let printed = e.print();
            return match (e.use_stderr(), printed) {
                (true, _) => ExitCode::from(2),
                (false, Ok(())) => ExitCode::SUCCESS,
                (false, Err(e)) => output::unwritable(e),
            };
        }
    };
    if let Err(e) = settings.in_args(&matches, &mut args) {
        return failed(&e);
    }
    match commands::run(args.command) {
        Ok(code) => code,
        Err(e) => failed(&e),
    }
}

fn failed(e: &anyhow::Error) -> ExitCode {
    output::error(e);
    ExitCode::FAILURE
}
