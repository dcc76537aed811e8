//! Functions that do not come back.

use super::shop::{children, doubles, master, plain};
use qjam::DataSet;
use qjam::python::call;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

fn failure(text: &str) -> String {
    let m = master("local:2");
    let tasks = DataSet::nothing(2).unwrap().untyped();
    let failed = m.run(call, &plain(text), &tasks).unwrap_err();
    let fine = m.run(call, &plain("def mapfunc(p, c):\n    return 1.0\n"), &tasks).unwrap();
    assert_eq!(doubles(&fine), [2.0], "the master serves on");
    format!("{failed} {failed:?}")
}

#[test]
fn a_bad_memory_access_is_named() {
    let text = failure(
        "import ctypes\ndef mapfunc(p, c):\n    print('going', flush=True)\n    ctypes.string_at(0)\n",
    );
    assert!(text.contains("killed by signal 11 (SIGSEGV, a bad memory access)"), "{text}");
    assert!(text.contains("three times"), "{text}");
}

#[test]
fn an_exit_is_named() {
    let text = failure("import os\ndef mapfunc(p, c):\n    os._exit(3)\n");
    assert!(text.contains("the interpreter ended with exit code 3 while it worked on this chunk"), "{text}");
    let text = failure("import sys\ndef mapfunc(p, c):\n    sys.exit(3)\n");
    assert!(text.contains("SystemExit: 3"), "{text}");
}

#[test]
fn an_endless_loop_can_be_cancelled() {
    let m = master("local:2");
    let tasks = DataSet::nothing(2).unwrap().untyped();
    for text in [
        "def mapfunc(p, c):\n    while True:\n        pass\n",
        "import time\ndef mapfunc(p, c):\n    while True:\n        try:\n            time.sleep(60)\n        except BaseException:\n            pass\n",
    ] {
        let pending = m.submit(call, &plain(text), &tasks).unwrap();
        std::thread::sleep(Duration::from_millis(400));
        pending.cancel();
        let start = Instant::now();
        let fine = m.run(call, &plain("def mapfunc(p, c):\n    return 1.0\n"), &tasks).unwrap();
        assert_eq!(doubles(&fine), [2.0]);
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    }
}

#[test]
fn interpreters_that_are_killed_change_no_bits() {
    let x: Vec<f64> = (0..40_000).map(|n| (f64::from(n) * 0.11).cos()).collect();
    let x = DataSet::dense(x, 4).unwrap().partitions(40).unwrap().untyped();
    // Each leaves word who it is; tests beside this one have children of the same process.
    let temporary = Temporary(std::env::temp_dir().join(format!("qjam-killed-{}", std::process::id())));
    let folder = temporary.0.clone();
    std::fs::create_dir_all(&folder).unwrap();
    let f = plain(&format!(
        "import os, time\nopen({folder:?} + '/' + str(os.getpid()), 'w')\n\
         def mapfunc(p, x):\n    time.sleep(0.02)\n    return x.sum(axis=0)\n"
    ));
    let quiet = master("local:1").run(call, &f, &x).unwrap();
    let m = master("local:2");
    let pending = m.submit(call, &f, &x).unwrap();
    let (killed, is_over) = (folder.clone(), Arc::new(AtomicBool::new(false)));
    let over = is_over.clone();
    let killer = std::thread::spawn(move || {
        let mut kills = 0;
        // Not three: they could all hit the same chunk, which then would be to blame.
        while kills < 2 && !over.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(50));
            let files = std::fs::read_dir(&killed).unwrap().flatten();
            let pids = files.map(|file| file.file_name().into_string().unwrap());
            let Some(pid) = pids.into_iter().find(|pid| children().contains(&pid.parse().unwrap())) else {
                continue;
            };
            kills += u32::from(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
            std::fs::remove_file(killed.join(pid)).unwrap();
        }
        kills
    });
    let value = pending.wait().unwrap();
    is_over.store(true, SeqCst);
    assert!(killer.join().unwrap() > 0);
    assert_eq!(value, quiet);
}

/// A folder that goes away with the test, however that ends.
struct Temporary(std::path::PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn no_interpreter_outlives_its_master() {
    let m = master("local:2");
    let tasks = DataSet::nothing(2).unwrap().untyped();
    let pids = "import os\ndef mapfunc(p, c):\n    return [os.getpid()] * (1 + c.__len__()) + ['']\ndef reduce(a, b):\n    return a + b\n";
    let shown = super::shop::shown(&m.run(call, &plain(pids), &tasks).unwrap());
    let pids: Vec<i32> =
        shown.split(|c: char| !c.is_ascii_digit()).filter_map(|pid| pid.parse().ok()).collect();
    assert_eq!(pids.len(), 2, "{shown}");
    let pending =
        m.submit(call, &plain("def mapfunc(p, c):\n    while True:\n        pass\n"), &tasks).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    drop(pending);
    drop(m);
    let start = Instant::now();
    // Not even as an entry in the table of processes.
    while pids.iter().any(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists()) {
        assert!(start.elapsed() < Duration::from_secs(5), "{pids:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Where the process below leaves word of its interpreter.
const WORD: &str = "QJAM_TEST_WORD";

#[test]
fn an_interpreter_ends_with_a_process_that_is_killed() {
    let word = std::env::temp_dir().join(format!("qjam-word-{}", std::process::id()));
    let mut command = Command::new(std::env::current_exe().unwrap());
    let mut process = command
        .args(["--exact", "python::deaths::runs_until_it_is_killed", "--ignored"])
        .env(WORD, &word)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let wait = |what: &str, check: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !check() {
            assert!(start.elapsed() < Duration::from_secs(30), "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let pid = || std::fs::read_to_string(&word).ok().filter(|pid| pid.ends_with('\n'));
    wait("it does not begin", &|| pid().is_some());
    let interpreter = format!("/proc/{}", pid().unwrap().trim());
    assert!(std::path::Path::new(&interpreter).exists());
    process.kill().unwrap();
    process.wait().unwrap();
    wait("it lives on", &|| !std::path::Path::new(&interpreter).exists());
    std::fs::remove_file(&word).unwrap();
}

#[test]
#[ignore = "started by the test above"]
fn runs_until_it_is_killed() {
    let word = std::env::var(WORD).unwrap();
    let text = format!(
        "import os\ndef mapfunc(p, c):\n    open({word:?}, 'w').write(f'{{os.getpid()}}\\n')\n    while True:\n        pass\n"
    );
    let _ = master("local:1").run(call, &plain(&text), &DataSet::nothing(1).unwrap().untyped());
}

#[test]
fn a_fork_that_comes_back_gives_no_second_answer() {
    let m = master("local:1");
    let tasks = DataSet::nothing(3).unwrap().untyped();
    let text = "import os\ndef mapfunc(p, c):\n    return 1.0 if os.fork() else 100.0\n";
    assert_eq!(doubles(&m.run(call, &plain(text), &tasks).unwrap()), [3.0]);
    assert_eq!(doubles(&m.run(call, &plain("def mapfunc(p, c):\n    return 2.0\n"), &tasks).unwrap()), [6.0]);
}
