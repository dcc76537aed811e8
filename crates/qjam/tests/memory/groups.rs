//! Limits that somebody else has set: the control group of the whole program.

use crate::group::Group;
use crate::{MIB, Numbers, sum};
use qjam::job::Cause;
use qjam::memory::Limit;
use qjam::{DataSet, Dense, Error, Master, Nothing};
use qjam_conformance::program::{Programs, as_program, say};
use std::path::Path;

#[qjam::map]
fn hog(bytes: &u64, _: &Nothing) -> u64 {
    std::hint::black_box(vec![1_u8; *bytes as usize]).iter().map(|b| u64::from(*b)).sum()
}

pub(crate) const PROGRAMS: Programs = &[
    ("hog", |_| {
        let m = Master::builder().on_log(|_| {}).connect("proc:1").unwrap();
        let error = m.run(hog, &(256 * MIB), &DataSet::nothing(1).unwrap()).unwrap_err();
        let Error::Poison { deaths, .. } = &error else { panic!("{error}") };
        for (_, death) in deaths {
            let Cause::KilledForMemory { limit_bytes, peak_bytes } = death.cause else { panic!("{error}") };
            assert_eq!(limit_bytes, 64 * MIB);
            assert!(peak_bytes > 48 * MIB && peak_bytes <= limit_bytes, "{peak_bytes}");
        }
        say(&error);
        assert_eq!(m.run(hog, &1000, &DataSet::nothing(2).unwrap()).unwrap(), 2000);
    }),
    ("refused", |path| {
        let limit = Limit::here();
        assert_eq!(limit.bytes, 64 * MIB, "{limit}");
        let data = DataSet::<Dense<f64>>::raw(Path::new(path), 8).unwrap();
        let m = Master::connect("local:1").unwrap();
        let error = m.run(sum, &(), &data.partitions(1).unwrap()).unwrap_err();
        assert!(matches!(error, Error::DoesNotFit(_)), "{error}");
        say(&error);
        assert!(m.run(sum, &(), &data).is_ok());
    }),
];

/// Runs a program in a group of 64 MiB; gives what it said.
fn run(name: &str, file: &Path) -> String {
    let group = Group::with_memory(64 * MIB);
    let group =
        group.unwrap_or_else(|why| panic!("NOT TESTED, since there is no control group to be had: {why}"));
    let mut command = group.command(&std::env::current_exe().unwrap());
    as_program(&mut command, name, &file.to_string_lossy());
    let output = command.env("QJAM_RUNS", "off").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
    println!("{said}at the peak and killed: {:?}", group.peak_and_kills());
    said
}

#[test]
fn a_worker_killed_by_the_programs_own_limit_is_told_with_limit_and_peak() {
    let said = run("hog", Path::new(""));
    for part in ["memory ran out", "67108864", "remedy", "memory_limit"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_round_that_cannot_fit_under_the_programs_limit_is_refused() {
    let swap_bytes = rustix::system::sysinfo().totalswap;
    assert!(swap_bytes == 0, "NOT TESTED, since there is swap here, and with that it may fit: `swapoff -a`");
    let numbers = Numbers::new(80 * MIB);
    let said = run("refused", &numbers.0);
    for part in ["everything on this machine", "64.0 MiB", "80.0 MiB", "control group", "chunk_records("] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
