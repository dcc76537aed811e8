//! No wait over two seconds without a word.

use crate::{Folder, numbers, wave};
use qjam::{Dense, Master, Waiting};
use qjam_conformance::HANG;
use qjam_conformance::program::{Program, command, say};
use qjam_conformance::support::wait_until;
use qjam_core::scheduler::Config;
use qjam_core::time::Span;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[qjam::map]
fn slow(_: &(), x: &Dense<f64>) -> f64 {
    std::thread::sleep(Duration::from_millis(10));
    x.row(0)[0]
}

#[test]
fn a_stopped_worker_is_named_after_two_seconds() {
    let folder = Folder::new();
    let waits: Arc<Mutex<Vec<(Instant, Waiting)>>> = Arc::default();
    let heard = waits.clone();
    // Nobody takes over from the one that is stopped, however long it is before the wait is told.
    let hang = Span(HANG.as_micros() as u64);
    let deadlines = Config { suspect_after: hang, lost_after: hang, ..Config::default() };
    let builder = Master::builder().run_folder(folder.path()).deadlines(deadlines);
    let builder = builder.on_wait(move |w| heard.lock().unwrap().push((Instant::now(), w.clone())));
    let m = builder.connect("proc:2").unwrap();
    let x = numbers();
    let began = Instant::now();
    m.run(slow, &(), &x).unwrap();
    let is_short = began.elapsed() < Duration::from_secs(2);
    assert!(!is_short || waits.lock().unwrap().is_empty(), "short waits are nobody's business");
    waits.lock().unwrap().clear();
    let victim = m.workers().into_iter().find(|w| w.name == "proc:1").unwrap();
    let pid = Pid::from_raw(victim.pid.unwrap() as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let began = Instant::now();
    let mut pending = m.submit(slow, &(), &x).unwrap();
    // On a busy machine the other may not have done its share when the wait is told for the first time.
    let of_one = || waits.lock().unwrap().iter().find(|(_, wait)| wait.workers.len() == 1).cloned();
    wait_until("a word about the wait", || {
        assert!(pending.wait_at_most(Duration::from_millis(20)).unwrap().is_none(), "one is stopped");
        of_one().is_some()
    });
    kill_process(pid, Signal::CONT).unwrap();
    pending.wait().unwrap();
    let (at, wait) = of_one().unwrap();
    let after = at.duration_since(began);
    assert!(after >= Duration::from_secs(2), "{after:?}");
    assert_eq!(wait.round, Some(1));
    assert_eq!((wait.workers[0].worker.as_str(), wait.workers[0].blocks), ("proc:1", 8));
    assert!(wait.to_string().starts_with("waiting for proc:1 (8 blocks) since "), "{wait}");
    drop(m);
    let run = folder.only();
    assert!(run.waits.iter().any(|told| told.text == wait.to_string()), "{:?}", run.waits);
}

/// Calls a host that does not answer.
pub(crate) fn calling(_: &str) {
    let m = Master::builder().no_run_file().min_workers(1).connect("local:1,big").unwrap();
    m.run(wave, &[1.0][..], &numbers()).unwrap();
    say("done");
}

#[test]
fn hosts_that_are_slow_to_come_up_are_named_on_standard_error() {
    let mut command = command("calling", "");
    // An `ssh` that takes its time and then fails.
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path()).unwrap();
    let script = folder.path().join("ssh");
    std::fs::write(&script, "while ! [ -e \"$0.end\" ]; do sleep 0.05; done\nexit 255\n").unwrap();
    command.env("QJAM_SSH", format!("sh {}", script.display())).stderr(Stdio::piped());
    let mut program = Program::run(command);
    let stderr = BufReader::new(program.child.stderr.take().unwrap());
    let is_it = |line: &String| {
        line.starts_with("[qjam] waiting for big since ") && line.ends_with(" s: it is being connected to")
    };
    // The call ends when this has been said, and not before.
    assert!(stderr.lines().map_while(Result::ok).any(|line| is_it(&line)), "nothing was said");
    std::fs::write(script.with_file_name("ssh.end"), []).unwrap();
    assert_eq!(program.finish().0, ["done"]);
}

/// Drops a master while a host is being connected to, and stays.
pub(crate) fn dropping(folder: &str) {
    let file = |name: &str| Path::new(folder).join(name);
    let m = Master::builder().no_run_file().min_workers(1).connect("local:1,big").unwrap();
    wait_until("a call of ssh", || file("ssh.begun").exists());
    drop(m);
    std::fs::write(file("dropped"), []).unwrap();
    wait_until("the end of the test", || file("end").exists());
}

#[test]
fn a_master_that_is_dropped_while_a_host_is_awaited_leaves_no_ssh() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path()).unwrap();
    // An `ssh` that does not end by itself: whoever waits for it waits for ever.
    let script = folder.path().join("ssh");
    std::fs::write(&script, ": >\"$0.begun\"\nexec sleep 1000000\n").unwrap();
    let mut command = command("dropping", &folder.path().to_string_lossy());
    command.env("QJAM_SSH", format!("sh {}", script.display())).stderr(Stdio::null());
    let mut program = Program::run(command);
    wait_until("the end of the drop", || folder.path().join("dropped").exists());
    program.leaves_nothing("a dropped master");
    std::fs::write(folder.path().join("end"), []).unwrap();
    assert!(program.finish().1.success());
}
