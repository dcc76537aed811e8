//! No wait over two seconds without a word.

use crate::program::{Program, command, say};
use crate::{Folder, numbers, wave};
use qjam::{Dense, Master, Waiting};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
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
    let builder = Master::builder().run_folder(folder.path());
    let builder = builder.on_wait(move |w| heard.lock().unwrap().push((Instant::now(), w.clone())));
    let m = builder.connect("proc:2").unwrap();
    let x = numbers();
    m.run(slow, &(), &x).unwrap();
    assert!(waits.lock().unwrap().is_empty(), "short waits are nobody's business");
    let victim = m.workers().into_iter().find(|w| w.name == "proc:1").unwrap();
    let pid = Pid::from_raw(victim.pid.unwrap() as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let began = Instant::now();
    let mut pending = m.submit(slow, &(), &x).unwrap();
    assert!(pending.wait_at_most(Duration::from_millis(3500)).unwrap().is_none());
    kill_process(pid, Signal::CONT).unwrap();
    pending.wait().unwrap();
    let waits = waits.lock().unwrap();
    assert_eq!(waits.len(), 1, "{waits:?}");
    let (at, wait) = &waits[0];
    let after = at.duration_since(began);
    assert!(after >= Duration::from_secs(2) && after < Duration::from_millis(2600), "{after:?}");
    assert_eq!((wait.round, wait.workers.len()), (Some(1), 1));
    assert_eq!((wait.workers[0].worker.as_str(), wait.workers[0].blocks), ("proc:1", 8));
    assert!(wait.to_string().starts_with("waiting for proc:1 (8 blocks) since 2 s: "), "{wait}");
    drop(m);
    let run = folder.only();
    assert_eq!((run.waits.len(), run.waits[0].text.as_str()), (1, wait.to_string().as_str()));
}

/// Calls a host that does not answer.
pub(crate) fn calling() {
    let m = Master::builder().no_run_file().min_workers(1).connect("local:1,big").unwrap();
    m.run(wave, &[1.0][..], &numbers()).unwrap();
    say("done");
}

#[test]
fn hosts_that_are_slow_to_come_up_are_named_on_standard_error() {
    let mut command = command("calling");
    // An `ssh` that takes its time and then fails.
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path()).unwrap();
    let script = folder.path().join("ssh");
    std::fs::write(&script, "sleep 3\nexit 255\n").unwrap();
    command.env("QJAM_SSH", format!("sh {}", script.display())).stderr(Stdio::piped());
    let mut program = Program::start(command);
    let mut stderr = program.child.stderr.take().unwrap();
    assert_eq!(program.rest(), ["done"]);
    let mut text = String::new();
    stderr.read_to_string(&mut text).unwrap();
    let line = "[qjam] waiting for big since 2 s: it is being connected to";
    assert_eq!(text.lines().filter(|l| *l == line).count(), 1, "{text}");
}
