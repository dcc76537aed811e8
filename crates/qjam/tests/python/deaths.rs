//! Functions that do not come back.

use super::shop::{children, doubles, master, plain};
use qjam::DataSet;
use qjam::python::call;
use qjam_conformance::program::{Programs, command};
use qjam_conformance::support::{Folder, wait_until};
use std::process::Command;

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
        "    while True:\n        pass\n",
        "    import time\n    while True:\n        try:\n            time.sleep(60)\n        except BaseException:\n            pass\n",
    ] {
        let word = Folder::new();
        let pending = m.submit(call, &plain(&(entered(&word) + text)), &tasks).unwrap();
        wait_until("that it begins", || word.file("entered").exists());
        pending.cancel();
        let fine = m.run(call, &plain("def mapfunc(p, c):\n    return 1.0\n"), &tasks).unwrap();
        assert_eq!(doubles(&fine), [2.0]);
    }
}

#[test]
fn interpreters_that_are_killed_change_no_bits() {
    let x: Vec<f64> = (0..40_000).map(|n| (f64::from(n) * 0.11).cos()).collect();
    let x = DataSet::dense(x, 4).unwrap().partitions(40).unwrap().untyped();
    // Each leaves word who it is; tests beside this one have children of the same process.
    let (temporary, gate) = (Folder::new(), Folder::new());
    let (folder, go) = (temporary.file(""), gate.file("go"));
    // Nobody gets on before the kills.
    let f = plain(&format!(
        "import os, time\nopen({folder:?} + '/' + str(os.getpid()), 'w')\n\
         def mapfunc(p, x):\n    while not os.path.exists({go:?}):\n        time.sleep(0.002)\n    \
         return x.sum(axis=0)\n"
    ));
    std::fs::write(&go, []).unwrap();
    let quiet = master("local:1").run(call, &f, &x).unwrap();
    std::fs::remove_file(&go).unwrap();
    // The interpreters of that master are ending: none of them is a victim.
    for file in std::fs::read_dir(&folder).unwrap().flatten() {
        std::fs::remove_file(file.path()).unwrap();
    }
    let m = master("local:2");
    let pending = m.submit(call, &f, &x).unwrap();
    // Not three: they could all hit the same chunk, which then would be to blame.
    for _ in 0..2 {
        let victim = || {
            let files = std::fs::read_dir(&folder).unwrap().flatten();
            let mut pids = files.map(|file| file.file_name().into_string().unwrap());
            pids.find(|pid| children().contains(&pid.parse().unwrap()))
        };
        wait_until("that there is an interpreter", || victim().is_some());
        let pid = victim().unwrap();
        assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
        std::fs::remove_file(folder.join(pid)).unwrap();
    }
    std::fs::write(&go, []).unwrap();
    assert_eq!(pending.wait().unwrap(), quiet);
}

/// The beginning of a function that leaves word that it was entered.
fn entered(word: &Folder) -> String {
    format!("def mapfunc(p, c):\n    open({:?}, 'w').close()\n", word.file("entered"))
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
    let word = Folder::new();
    let endless = entered(&word) + "    while True:\n        pass\n";
    let pending = m.submit(call, &plain(&endless), &tasks).unwrap();
    wait_until("that it begins", || word.file("entered").exists());
    drop(pending);
    drop(m);
    // Not even as an entry in the table of processes.
    let is_there = |pid: &i32| std::path::Path::new(&format!("/proc/{pid}")).exists();
    wait_until("the end of all interpreters", || !pids.iter().any(is_there));
}

#[test]
fn an_interpreter_ends_with_a_process_that_is_killed() {
    let folder = Folder::new();
    let word = folder.file("word");
    let mut process = command("runs until it is killed", &word.to_string_lossy()).spawn().unwrap();
    let pid = || std::fs::read_to_string(&word).ok().filter(|pid| pid.ends_with('\n'));
    wait_until("that it begins", || pid().is_some());
    let interpreter = format!("/proc/{}", pid().unwrap().trim());
    assert!(std::path::Path::new(&interpreter).exists());
    process.kill().unwrap();
    process.wait().unwrap();
    wait_until("the end of its interpreter", || !std::path::Path::new(&interpreter).exists());
}

/// What the test above starts.
pub(crate) const PROGRAMS: Programs = &[("runs until it is killed", |word| {
    let text = format!(
        "import os\ndef mapfunc(p, c):\n    open({word:?}, 'w').write(f'{{os.getpid()}}\\n')\n    while True:\n        pass\n"
    );
    let _ = master("local:1").run(call, &plain(&text), &DataSet::nothing(1).unwrap().untyped());
})];

#[test]
fn a_fork_that_comes_back_gives_no_second_answer() {
    let m = master("local:1");
    let tasks = DataSet::nothing(3).unwrap().untyped();
    let text = "import os\ndef mapfunc(p, c):\n    return 1.0 if os.fork() else 100.0\n";
    assert_eq!(doubles(&m.run(call, &plain(text), &tasks).unwrap()), [3.0]);
    assert_eq!(doubles(&m.run(call, &plain("def mapfunc(p, c):\n    return 2.0\n"), &tasks).unwrap()), [6.0]);
}
