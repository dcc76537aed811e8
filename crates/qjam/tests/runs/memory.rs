//! What a run that goes on takes from the one before, and when it stops doing so.

use crate::{Folder, numbers, wave};
use qjam::journal::What;
use qjam::runs::{self, Run, RunError};
use qjam::{Builder, Ctx, Dense, Error, Master};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A master whose words are kept.
fn listening(folder: &Folder) -> (Builder, Arc<Mutex<Vec<String>>>) {
    let words: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = words.clone();
    let builder = Master::builder().run_folder(folder.path());
    let builder =
        builder.on_log(move |line| heard.lock().unwrap().push(format!("{}: {}", line.worker, line.text)));
    (builder, words)
}

fn recalled(m: &Master) -> usize {
    m.journal().iter().filter(|e| matches!(e.what, What::RoundRecalled { .. })).count()
}

#[qjam::map]
fn noise(scale: &f64, x: &Dense<f64>, ctx: &Ctx) -> f64 {
    let mut rng = ctx.rng();
    x.as_slice().iter().map(|v| v * scale * rng.uniform()).sum()
}

#[test]
fn rounds_that_are_the_same_are_not_computed_and_later_ones_have_their_own_numbers() {
    let (folder, x) = (Folder::new(), numbers());
    let (builder, _) = listening(&folder);
    let m = builder.clone().seed(3).connect("local:2").unwrap();
    let first: Vec<u64> = (0..6).map(|n| m.run(noise, &f64::from(n), &x).unwrap().to_bits()).collect();
    drop(m);
    let id = folder.only().id;
    // By the end of its name, on other workers.
    let m = builder.seed(3).resume(&id[id.len() - 6..]).connect("proc:1").unwrap();
    let again: Vec<u64> = (0..6).map(|n| m.run(noise, &f64::from(n), &x).unwrap().to_bits()).collect();
    assert_eq!(again, first);
    assert_eq!((recalled(&m), m.last_round().unwrap().round), (6, 5));
    let seventh = m.run(noise, &6.0, &x).unwrap().to_bits();
    assert_eq!(recalled(&m), 6);
    drop(m);
    let m = Master::builder().no_run_file().seed(3).connect("local:1").unwrap();
    let all: Vec<u64> = (0..7).map(|n| m.run(noise, &f64::from(n), &x).unwrap().to_bits()).collect();
    assert_eq!((&all[..6], all[6]), (&first[..], seventh));
    drop(m);
    let second = folder.runs().pop().unwrap();
    assert_eq!((second.resumed, second.rounds, second.recalled, second.kept), (Some(id), 7, 6, 7));
}

#[test]
fn at_the_first_round_that_is_another_one_memory_ends_and_that_is_told_once() {
    let (folder, x) = (Folder::new(), numbers());
    let (builder, words) = listening(&folder);
    let m = builder.clone().connect("local:1").unwrap();
    for n in 0..5 {
        m.run(wave, &[f64::from(n)][..], &x).unwrap();
    }
    drop(m);
    let first = folder.only().id;
    let m = builder.clone().resume(&first).connect("local:1").unwrap();
    for n in [0.0, 1.0, 7.0, 3.0, 4.0] {
        let value = m.run(wave, &[n][..], &x).unwrap();
        let serial = Master::builder().no_run_file().connect("local:1").unwrap();
        assert_eq!(value, serial.run(wave, &[n][..], &x).unwrap());
    }
    assert_eq!(recalled(&m), 2);
    drop(m);
    let words = std::mem::take(&mut *words.lock().unwrap());
    assert_eq!(words.len(), 1, "{words:?}");
    for part in ["qjam: round 2 is not that of run", &first, "parameters were others", "are computed"] {
        assert!(words[0].contains(part), "{part} is missing from {words:?}");
    }
}

#[test]
fn other_data_other_functions_and_other_seeds_are_told_apart() {
    let (folder, x) = (Folder::new(), numbers());
    let (builder, words) = listening(&folder);
    let m = builder.clone().connect("local:1").unwrap();
    m.run(wave, &[1.0][..], &x).unwrap();
    drop(m);
    let first = folder.only().id;
    let resumed = |seed| builder.clone().seed(seed).resume(&first).connect("local:1").unwrap();
    let m = resumed(0);
    m.run(wave, &[1.0][..], &x.partitions(2).unwrap()).unwrap();
    let n = resumed(0);
    n.run(noise, &1.0, &x).unwrap();
    let o = resumed(1);
    o.run(wave, &[1.0][..], &x).unwrap();
    assert_eq!((recalled(&m), recalled(&n), recalled(&o)), (0, 0, 0));
    let words = words.lock().unwrap();
    for (word, part) in words.iter().zip(["other data", "noise", "had seed 0 and not 1"]) {
        assert!(word.contains(part), "{part} is missing from {word}");
    }
    assert_eq!(words.len(), 3);
}

#[test]
fn rounds_in_flight_at_once_are_remembered_each_by_its_number() {
    let (folder, x) = (Folder::new(), numbers());
    let (builder, _) = listening(&folder);
    let go = |m: &Master| -> Vec<Vec<f64>> {
        let pending: Vec<_> = (0..8).map(|n| m.submit(wave, &[f64::from(n)][..], &x).unwrap()).collect();
        pending.into_iter().rev().map(|p| p.wait().unwrap()).collect()
    };
    let m = builder.clone().connect("local:2").unwrap();
    let values = go(&m);
    drop(m);
    let m = builder.resume(folder.only().id).connect("local:2").unwrap();
    assert_eq!(go(&m), values);
    assert_eq!(recalled(&m), 8);
}

#[test]
fn long_values_beyond_their_share_of_the_time_are_computed_again() {
    let (folder, x) = (Folder::new(), numbers());
    let (builder, _) = listening(&folder);
    let theta = vec![0.25; 40_000];
    let go =
        |m: &Master| m.run(wave, &theta[..], &x.partitions(1).unwrap().chunk_records(1600).unwrap()).unwrap();
    for (share, kept) in [(f64::INFINITY, 4), (0.0, 0)] {
        let m = builder.clone().record_cost(share).connect("local:1").unwrap();
        let values: Vec<Vec<f64>> = (0..4).map(|_| go(&m)).collect();
        drop(m);
        let run = folder.runs().pop().unwrap();
        // Besides the share there is a credit of a twentieth of a second, which a slow machine may use up or not.
        assert!(run.kept >= kept, "{run:?}");
        let m = builder.clone().resume(&run.id).connect("local:1").unwrap();
        assert_eq!((0..4).map(|_| go(&m)).collect::<Vec<_>>(), values);
        assert_eq!(recalled(&m) as u64, run.kept);
    }
}

#[test]
fn what_cannot_be_gone_on_from_is_an_error_that_says_why() {
    let folder = Folder::new();
    let resume = |name: &str| {
        let error = Master::builder().run_folder(folder.path()).resume(name).connect("local:1").unwrap_err();
        let Error::Resume { source, .. } = error else { panic!("{error}") };
        *source
    };
    assert!(matches!(resume("a1b2c3"), RunError::NotFound { .. }));
    let m = Master::builder().run_folder(folder.path()).connect("local:1").unwrap();
    let running = folder.only();
    assert_eq!(running.state, runs::State::Running);
    assert!(matches!(resume(&running.id), RunError::Running { pid } if pid == std::process::id()));
    drop(m);
    let mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).unwrap();
        mode(&folder.path().join(name), 0o600);
    };
    write("x.run", b"something else");
    let path = |name: &str| folder.path().join(name).display().to_string();
    assert!(matches!(resume(&path("x.run")), RunError::NotARun));
    assert!(matches!(resume(&path("gone.run")), RunError::Io(_)));
    let mut bytes = std::fs::read(&running.path).unwrap();
    bytes[8] = 99;
    write("y.run", &bytes);
    assert!(matches!(resume(&path("y.run")), RunError::Version { version: 99 }));
    // Whoever can write it decides which values are believed.
    mode(&running.path, 0o620);
    assert!(matches!(resume(&running.id), RunError::NotTrusted(runs::Distrust::Writable { .. })));
}

#[test]
fn a_run_of_others_or_among_others_is_not_gone_on_from() {
    let (folder, x) = (Folder::new(), numbers());
    let (builder, _) = listening(&folder);
    let m = builder.clone().connect("local:1").unwrap();
    m.run(wave, &[1.0][..], &x).unwrap();
    drop(m);
    let run = folder.only();
    let resume = |name: &str| builder.clone().resume(name).connect("local:1");
    let refused = |what: &str| match resume(&run.id) {
        Err(Error::Resume { source, .. }) => match *source {
            RunError::NotTrusted(why) => why,
            other => panic!("{what}: {other}"),
        },
        other => panic!("{what}: {}", other.is_ok()),
    };
    let goes_on = |what: &str| {
        let m = resume(&run.id).unwrap_or_else(|e| panic!("{what}: {e}"));
        m.run(wave, &[1.0][..], &x).unwrap();
        assert_eq!(recalled(&m), 1, "{what}");
    };
    let mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for shared in [0o777, 0o770, 0o722] {
        mode(folder.path(), shared);
        let why = refused("a folder that others can write to");
        assert_eq!(why, runs::Distrust::Writable { path: folder.path().into() });
    }
    mode(folder.path(), 0o1777);
    goes_on("a sticky folder, in which nobody replaces a file of another");
    mode(folder.path(), 0o755);
    goes_on("a folder that others can read");
    assert!(rustix::process::geteuid().is_root(), "NOT TESTED for lack of root: files of other users");
    let chown = |path: &Path, owner: u32| std::os::unix::fs::chown(path, Some(owner), None).unwrap();
    chown(folder.path(), 1234);
    let why = refused("a folder of another user");
    assert_eq!(why, runs::Distrust::Owner { path: folder.path().into() });
    chown(folder.path(), 0);
    chown(&run.path, 1234);
    let path = run.path.display().to_string();
    let Err(Error::Resume { source, .. }) = resume(&path) else { panic!("it went on") };
    let expected = runs::Distrust::Owner { path: run.path.clone() };
    assert!(matches!(*source, RunError::NotTrusted(why) if why == expected));
}

#[test]
fn a_run_of_another_build_is_refused_unless_that_is_wanted() {
    let (folder, x) = (Folder::new(), numbers());
    let (builder, _) = listening(&folder);
    let m = builder.clone().connect("local:1").unwrap();
    let value = m.run(wave, &[1.0][..], &x).unwrap();
    // The executable's hash is taken beside the run, and is written when it is there.
    let has_hash = || folder.only().executable.is_some();
    while !has_hash() {
        m.run(wave, &[1.0][..], &x).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    drop(m);
    // Another build: the file with another hash.
    let run = folder.only();
    let hash = blake3::Hash::from_hex(run.executable.unwrap()).unwrap();
    let mut bytes = std::fs::read(&run.path).unwrap();
    let at = bytes.windows(32).position(|w| w == hash.as_bytes()).unwrap();
    bytes[at] ^= 1;
    // The hash is all there is to its record, after one byte that says so.
    let crc = crc32fast::hash(&bytes[at - 1..at + 32]);
    bytes[at - 5..at - 1].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(&run.path, bytes).unwrap();
    let error = builder.clone().resume(&run.id).connect("local:1").unwrap_err();
    assert!(error.to_string().contains("another build"), "{error}");
    let m = builder.resume(&run.id).resume_anyway().connect("local:1").unwrap();
    assert_eq!((m.run(wave, &[1.0][..], &x).unwrap(), recalled(&m)), (value, 1));
    let _: Vec<qjam::runs::Round> = Run::rounds(&run.path).unwrap();
}
