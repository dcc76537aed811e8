//! This executable as a program of its own: a master that can be killed, or that runs a second time.

use qjam_conformance::program::as_program;
pub(crate) use qjam_conformance::program::{Program, Programs, say};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Starts one, as a shell would.
pub(crate) fn start(name: &str, argument: &str) -> Program {
    // Whoever started the tests may have them ignore Ctrl-C.
    let mut command = Command::new("env");
    command.arg("--default-signal=INT").arg(std::env::current_exe().unwrap());
    as_program(&mut command, name, argument);
    // A group of its own, as a shell gives a command.
    command.stderr(Stdio::null()).process_group(0);
    Program::run(command)
}
