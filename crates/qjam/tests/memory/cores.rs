//! How many workers there are without a number: as many as this program may keep busy, not as the machine has cores.

use crate::group::Group;
use qjam::Master;
use std::process::Command;

const PROGRAM: &str = "QJAM_TEST_CORES";

/// A program of its own. Does nothing among the tests.
#[test]
fn program() {
    if std::env::var_os(PROGRAM).is_none() {
        return;
    }
    let slots = |engine: &str| {
        let m = Master::connect(engine).unwrap();
        m.workers().iter().map(|w| w.slots).sum::<u32>()
    };
    println!("@ {} {}", slots("local"), slots("proc"));
}

fn check(mut command: Command, expected: u32) {
    let output = command
        .args(["--exact", "cores::program", "--nocapture"])
        .env(PROGRAM, "1")
        .env("QJAM_RUNS", "off")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(&format!("@ {expected} {expected}\n")), "{said}");
}

#[test]
fn affinity_is_respected() {
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(std::env::current_exe().unwrap());
    check(command, 1);
}

#[test]
fn a_quota_of_a_control_group_is_respected() {
    // Where there is only one core, one is what there is in any case.
    match one_core() {
        Ok(group) => check(group.command(&std::env::current_exe().unwrap()), 1),
        Err(why) => eprintln!("NOT TESTED, since there is no control group to be had here: {why}"),
    }
}

fn one_core() -> Result<Group, String> {
    let group = Group::new("cpu")?;
    if group.is_unified {
        group.set("cpu.max", "100000 100000")?;
    } else {
        group.set("cpu.cfs_period_us", "100000")?;
        group.set("cpu.cfs_quota_us", "100000")?;
    }
    Ok(group)
}
