//! What the machine gives: cores, memory, shared memory, processes.

use super::{Finding, State};
use crate::output;
use qjam::cores::Cores;
use qjam::memory::{Limit, most_bytes};
use qjam::{DataSet, Dense, Master};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::io::Write;

/// With less, a few processes with an interpreter each do not fit.
const MEMORY_MIN: u64 = 1 << 30;
/// Each worker takes a few, a host about ten.
const FILES_MIN: u64 = 1024;

/// How many cores a run takes if nobody says.
pub(super) fn cores() -> Finding {
    const NAME: &str = "cores";
    let Cores { machine, bound, quota, usable, .. } = Cores::here();
    let mut found = format!("`local` and `proc` take {}", output::count(u64::from(usable), "core"));
    match machine {
        Some(machine) if machine != usable => found.push_str(&format!(" of {machine}")),
        _ => {}
    }
    if let Some(quota) = &quota {
        found.push_str(&format!("; a quota gives the time of {:.2}", quota.cores));
    }
    if machine.is_some_and(|machine| bound < machine) {
        found.push_str(&format!("; this process is bound to {bound}"));
    }
    let finding = Finding::works(NAME, found)
        .fact("usable", usable)
        .fact("bound", bound)
        .fact("machine", machine)
        .fact("quota", quota.as_ref().map(|quota| quota.cores))
        .fact("quota_group", quota.as_ref().map(|quota| quota.group.display().to_string()));
    match quota {
        Some(quota) if quota.cores < f64::from(usable) => finding.but(format!(
            "the quota of {} gives less than {usable} workers could use: `proc:1` may be as fast; ask for more where the group is \
             made (docker --cpus, systemd CPUQuota, the batch system)",
            quota.group.display()
        )),
        _ => finding,
    }
}

/// How much memory all of a run may have together.
pub(super) fn memory() -> Finding {
    const NAME: &str = "memory";
    let (limit, most) = (Limit::here(), most_bytes());
    let mut found = limit.to_string();
    let own = most < limit.bytes;
    if own {
        found.push_str(&format!("; `ulimit` gives a process {}", output::bytes(most)));
    }
    let group = limit.group.as_ref().map(|group| group.display().to_string());
    let finding = Finding::works(NAME, found)
        .fact("limit_bytes", limit.bytes)
        .fact("process_limit_bytes", most)
        .fact("limit_group", group.clone());
    if most >= MEMORY_MIN {
        return finding;
    }
    let where_from = match (own, group) {
        (true, _) => "`ulimit -v` and `ulimit -d`".to_owned(),
        (false, Some(group)) => format!("the control group {group}"),
        (false, None) => "this machine".to_owned(),
    };
    finding.but(format!(
        "few workers fit, and interpreters hardly: use `proc:1` with --memory-limit {}M, whose data streams from files, or raise \
         the limit of {where_from}",
        (most >> 21).max(1)
    ))
}

/// Whether processes can share what one of them has written.
pub(super) fn shared_memory() -> Finding {
    const NAME: &str = "shared memory";
    const BYTES: usize = 1 << 20;
    let share = || -> std::io::Result<()> {
        let file = memfd_create("qjam-doctor", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, BYTES as u64)?;
        std::fs::File::from(file).write_all(&[1; BYTES])
    };
    match share() {
        Ok(()) => Finding::works(NAME, "processes map data instead of copying it"),
        Err(e) => {
            Finding::new(NAME, State::Broken, format!("memory that processes share cannot be had: {e}"))
                .remedy("a sandbox may forbid `memfd_create`; only `local` workers run without it")
        }
    }
}

/// A round on a worker process.
pub(super) fn processes() -> Finding {
    const NAME: &str = "processes";
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let round = || -> qjam::Result<f64> {
        let m = Master::builder().no_run_file().connect("proc:1")?;
        m.run(doctor_sum, &(), &DataSet::dense(vec![1.0, 2.0, 3.0], 1)?)
    };
    let finding = match round() {
        Ok(6.0) => Finding::works(NAME, "a worker process was started, has computed, and has ended"),
        Ok(sum) => {
            Finding::new(NAME, State::Broken, format!("a worker process says that 1 + 2 + 3 is {sum}"))
                .remedy("test the memory of this machine")
        }
        Err(e) => Finding::new(NAME, State::Broken, format!("a worker process does not work: {e}"))
            .remedy("`--workers local` computes in threads of one process"),
    };
    let finding = finding.fact("open_files_max", files);
    match files {
        Some(files) if files < FILES_MIN && finding.state == State::Works => finding.but(format!(
            "a process may have {files} open files, enough for a few workers; `ulimit -n {FILES_MIN}` allows more"
        )),
        _ => finding,
    }
}

#[qjam::map]
fn doctor_sum(_: &(), x: &Dense<f64>) -> f64 {
    x.as_slice().iter().sum()
}
