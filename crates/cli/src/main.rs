//! The command `qjam`.
//!
//! It parses ([`args`]), runs one of the [`commands`] on the public interface of the library, and prints ([`output`]).
//! The same executable is its own worker.

mod args;
mod commands;
mod output;

use clap::Parser;
#[cfg(feature = "mpi")]
use qjam_mpi as _;
use std::process::ExitCode;

#[qjam::main]
fn main() -> ExitCode {
    output::until_unwritable(command)
}

fn command() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(e) => {
            let printed = e.print();
            return match (e.use_stderr(), printed) {
                (true, _) => ExitCode::from(2),
                (false, Ok(())) => ExitCode::SUCCESS,
                (false, Err(e)) => output::unwritable(e),
            };
        }
    };
    match commands::run(args.command) {
        Ok(code) => code,
        Err(e) => {
            output::error(&e);
            ExitCode::FAILURE
        }
    }
}
