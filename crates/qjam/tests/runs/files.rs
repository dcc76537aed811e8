//! What is in a file, whoever ended the run, and what becomes of a run whose file cannot be written.

use crate::{Folder, numbers, wave};
use qjam::runs::{Run, State};
use qjam::{Dense, Master};
use qjam_conformance::program::{Program, command, say};
use qjam_conformance::support::wait_until;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::{Arc, Mutex};

#[qjam::map]
fn picky(limit: &f64, x: &Dense<f64>) -> f64 {
    assert!(x.row(0)[0] < *limit, "the first value is {}", x.row(0)[0]);
    1.0
}

#[test]
fn a_file_says_who_ran_what_on_what_and_is_the_users_own() {
    let (folder, x) = (Folder::new(), numbers());
    let m = Master::builder().seed(9).run_folder(folder.path()).connect("proc:2").unwrap();
    for _ in 0..3 {
        m.run(wave, &[0.5, 1.0][..], &x).unwrap();
    }
    drop(m);
    let run = folder.only();
    assert_eq!((&run.state, run.rounds, run.kept, run.failed, run.seed), (&State::Finished, 3, 3, 0, 9));
    assert_eq!((run.workers.as_str(), run.pid), ("proc:2", std::process::id()));
    assert_eq!(run.program, std::env::current_exe().unwrap());
    assert_eq!(run.arguments, std::env::args_os().skip(1).collect::<Vec<_>>());
    assert_eq!((run.functions.len(), run.functions[0].name.as_str()), (1, "runs::wave"));
    assert_eq!((run.data[0].chunks, run.data[0].bytes), (16, 12_800));
    assert!(run.total.total_us >= run.total.worker_us && run.total.bytes_out > 0, "{run:?}");
    assert!(run.notes.iter().any(|n| n.whom == "proc:1" && n.text == "was ready"), "{:?}", run.notes);
    assert!(!run.is_cut_short && !run.is_full && run.torn_bytes == 0);
    let rounds = Run::rounds(&run.path).unwrap();
    assert_eq!(rounds.iter().map(|r| r.round).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(rounds.iter().all(|r| r.result == rounds[0].result && r.result.is_some()));
    assert!(rounds.iter().all(|r| r.params == rounds[0].params && r.data == run.data[0].hash));
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&run.path), mode(folder.path())), (0o600, 0o700));
}

#[test]
fn failures_are_told_and_a_later_success_makes_up_for_them() {
    let (folder, x) = (Folder::new(), numbers());
    let builder = Master::builder().run_folder(folder.path());
    let m = builder.clone().connect("local:2").unwrap();
    m.run(picky, &1e9, &x).unwrap();
    m.run(picky, &500.0, &x).unwrap_err();
    drop(m);
    let run = folder.only();
    assert!(matches!(&run.state, State::Failed(error) if error.contains("the first value is")), "{run:?}");
    assert_eq!((run.rounds, run.failed, run.errors[0].whom.as_str()), (1, 1, "round 1"));
    let m = builder.clone().connect("local:2").unwrap();
    m.run(picky, &500.0, &x).unwrap_err();
    m.run(picky, &1e9, &x).unwrap();
    drop(m.submit(picky, &1e9, &x).unwrap());
    drop(m);
    assert_eq!(folder.runs().pop().unwrap().state, State::Finished);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _m = builder.clone().connect("local:1").unwrap();
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(panicked.is_err());
    assert!(matches!(folder.runs().pop().unwrap().state, State::Failed(why) if why.contains("panicked")));
}

#[test]
fn runs_at_once_have_a_file_each() {
    let (folder, x) = (Folder::new(), numbers());
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (folder, x) = (&folder, &x);
            scope.spawn(move || {
                let m = Master::builder().seed(n).run_folder(folder.path()).connect("local:1").unwrap();
                for _ in 0..20 {
                    m.run(wave, &[0.5][..], x).unwrap();
                }
            });
        }
    });
    let mut runs = folder.runs();
    runs.sort_by_key(|run| run.seed);
    assert_eq!(runs.iter().map(|run| run.seed).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    assert!(runs.iter().all(|run| run.rounds == 20 && run.state == State::Finished));
    let mut numbers: Vec<u32> = runs.iter().map(|run| run.nth).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 8);
}

#[test]
fn without_a_file_the_run_goes_on_and_says_so_once() {
    let (folder, x) = (Folder::new(), numbers());
    std::fs::create_dir_all(folder.path()).unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let words: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = words.clone();
    let builder = Master::builder().on_log(move |line| heard.lock().unwrap().push(line.text.clone()));
    let m = builder.run_folder(folder.path().join("file/below")).connect("local:1").unwrap();
    for _ in 0..3 {
        m.run(wave, &[0.5][..], &x).unwrap();
    }
    drop(m);
    let words = words.lock().unwrap();
    assert!(words.len() == 1 && words[0].starts_with("no run file in "), "{words:?}");
}

/// Runs where there is little room.
pub(crate) fn crowded(_: &str) {
    let theta: Vec<f64> = (0..1000).map(f64::from).collect();
    let words: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = words.clone();
    let builder = Master::builder().on_log(move |line| heard.lock().unwrap().push(line.text.clone()));
    let m = builder.connect("local:1").unwrap();
    let x = numbers();
    let values: Vec<_> = (0..40).map(|_| m.run(wave, &theta[..], &x).unwrap()).collect();
    assert!(values.iter().all(|v| *v == values[0]));
    // The loop says it when it is turned next.
    wait_until("a word about the file", || !words.lock().unwrap().is_empty());
    drop(m);
    for word in words.lock().unwrap().iter() {
        say(word);
    }
    let run = Run::read(&qjam::runs::list(&qjam::runs::folder().unwrap()).unwrap()[0]).unwrap();
    say(format!("{} {} {:?} {}", run.rounds > 5, run.is_cut_short, run.state, run.torn_bytes));
}

#[test]
fn a_full_disk_ends_the_file_and_not_the_run() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path()).unwrap();
    let root = rustix::process::geteuid().is_root();
    let inner = command("crowded", "");
    let mut outer = Command::new("unshare");
    outer
        .args(if root { &["-m"][..] } else { &["-r", "-m"] })
        .args(["sh", "-ec", "mount -t tmpfs -o size=128k tmpfs $D\nexec \"$@\"", "sh"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("D", folder.path())
        .env("QJAM_RUNS", folder.path())
        .stdout(std::process::Stdio::piped());
    let said = Program::run(outer).finish().0;
    assert!(root || !said.is_empty(), "NOT TESTED, since this user may not mount anything");
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[0].contains("the run goes on, but its file") && said[0].contains("No space left"),
        "{said:?}"
    );
    assert_eq!(said[1], "true true Finished 0", "{said:?}");
}
