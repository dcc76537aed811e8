//! The shell scripts that run on a host before anything of ours is there.
//!
//! They are sent as the command of the ssh connection, and must do with whatever the host has: the login shell may be
//! any, since all it is asked to do is to start `/bin/sh`; that may be any that knows POSIX. So a script is one line in
//! single quotes, without the characters to which some login shell gives a meaning even there. What it says comes on
//! standard output, marked by a nonce, since start-up files may print there, too.

use super::Shipped;

const PLACES: &str = include_str!("places.sh");
const PLACE: &str = include_str!("place.sh");
const CLEAN: &str = include_str!("clean.sh");

/// A host gives up a copy when nothing of it has come for this long.
const STALL_S: u32 = 60;

/// What marks the lines of a script.
pub(super) fn marker(nonce: &str) -> String {
    format!("qjam-{nonce} ")
}

/// The command that finds a place and becomes the worker.
///
/// It says `hello SYSTEM MACHINE`; `no PLACE: WHY` for each place that will not do; `want PLACE` when it is to be sent
/// the executable; `start PLACE` when it becomes the worker; `nowhere` when no place would do.
pub(super) fn place(nonce: &str, shipped: &Shipped, copy_anyway: bool) -> String {
    place_within(nonce, shipped, copy_anyway, STALL_S)
}

/// The same with another time after which a copy is given up of which nothing comes any more.
pub(super) fn place_within(nonce: &str, shipped: &Shipped, copy_anyway: bool, stall_s: u32) -> String {
    let Shipped { hash, sha256, length, machine, .. } = shipped;
    let fresh = if copy_anyway { "fresh" } else { "" };
    command(PLACE, &format!("{nonce} {hash} {sha256} {length} Linux {machine} {stall_s} {fresh}"))
}

/// The command that removes what is ours.
///
/// It says `hello`; `gone KIB PLACE` and `left PLACE: WHY` for each place; `done`.
pub(super) fn clean(nonce: &str) -> String {
    command(CLEAN, nonce)
}

fn command(script: &str, arguments: &str) -> String {
    let lines = PLACES.lines().chain(script.lines()).map(str::trim);
    let line = lines.filter(|l| !l.is_empty() && !l.starts_with('#')).collect::<Vec<_>>().join(" ");
    format!("exec /bin/sh -c '{line}' qjam {arguments}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_hold_nothing_that_a_login_shell_could_misread() {
        for script in [PLACE, CLEAN] {
            let command = command(script, "abc");
            let inside =
                command.strip_prefix("exec /bin/sh -c '").unwrap().strip_suffix("' qjam abc").unwrap();
            assert!(!inside.contains(['\'', '\n', '!', '\\']), "{inside}");
            assert!(inside.is_ascii());
        }
    }

    #[test]
    fn scripts_are_understood_by_every_shell_that_is_here() {
        for shell in ["sh", "bash", "dash", "mksh", "busybox"] {
            for script in [PLACE, CLEAN] {
                let command = command(script, "");
                let inside = command.split('\'').nth(1).unwrap();
                let mut run = std::process::Command::new(shell);
                if shell == "busybox" {
                    run.arg("sh");
                }
                match run.args(["-n", "-c", inside]).status() {
                    Ok(status) => assert!(status.success(), "{shell}"),
                    Err(_) => assert_ne!(shell, "sh", "there is always a sh"),
                }
            }
        }
    }
}
