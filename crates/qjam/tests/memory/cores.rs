//! How many workers there are without a number: as many as this program may keep busy, not as the machine has cores.

use crate::group::Group;
use qjam::Master;
use qjam_conformance::program::{Programs, as_program, say};
use std::process::Command;

pub(crate) const PROGRAMS: Programs = &[("cores", |_| {
    let slots = |engine: &str| {
        let m = Master::connect(engine).unwrap();
        m.workers().iter().map(|w| w.slots).sum::<u32>()
    };
    say(format!("{} {}", slots("local"), slots("proc")));
})];

fn check(mut command: Command, expected: u32) {
    as_program(&mut command, "cores", "");
    let output = command.env("QJAM_RUNS", "off").output().unwrap();
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
    let group = one_core();
    let group =
        group.unwrap_or_else(|why| panic!("NOT TESTED, since there is no control group to be had: {why}"));
    check(group.command(&std::env::current_exe().unwrap()), 1);
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
