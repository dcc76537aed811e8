//! A master in a program that could not be a worker itself, as an interpreter that has loaded the library: its workers
//! are the command `qjam`, and its run file says how the program is started again.

use qjam::runs::{self, Run, RunError};
use qjam::{Builder, DataSet, Dense, Error, Master};
use qjam_algos::neural::autoencoder::{Shape, initial, sums};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

const COMMAND: &str = env!("CARGO_BIN_EXE_qjam");

/// A folder that is gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("qjam-elsewhere-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).expect("a folder");
        Folder(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn data() -> DataSet<Dense<f64>> {
    DataSet::dense((0..400).map(|n| f64::from(n) / 400.0).collect(), 2).expect("a data set")
}

fn recon(m: &Master) -> qjam::Result<f64> {
    let theta = initial(&Shape::new(2, 1).expect("a network"), 1);
    Ok(m.run(sums, &theta, &data())?.recon)
}

/// This test's executable has no `worker_hook!`.
fn builder() -> Builder {
    Master::builder().no_run_file()
}

#[test]
fn workers_may_be_another_executable() {
    let here = recon(&builder().connect("local:1").expect("threads")).expect("a value");
    let m = builder().local_executable(COMMAND).connect("proc:2").expect("processes");
    assert_eq!(recon(&m).expect("a value").to_bits(), here.to_bits());
    m.add_workers("proc:1").expect("another one");
    assert_eq!(recon(&m).expect("a value").to_bits(), here.to_bits());
}

#[test]
fn without_one_the_program_itself_would_have_to_serve() {
    assert!(matches!(builder().connect("proc:1"), Err(Error::NotHooked)));
    assert!(matches!(builder().connect("nobody.invalid"), Err(Error::NotHooked)));
    let m = builder().worker_executable(COMMAND).connect("local:1").expect("threads");
    assert!(matches!(m.add_workers("proc:1"), Err(Error::NotHooked)), "that one is for hosts");
}

#[test]
fn an_executable_that_is_not_there_is_named() {
    let failed = builder().local_executable("/nowhere/qjam").connect("proc:1");
    let said = failed.expect_err("nothing can be started").to_string();
    assert!(said.contains("/nowhere/qjam"), "{said}");
}

#[test]
fn the_run_file_says_what_an_interpreter_runs() {
    let folder = Folder::new("runs");
    let library = folder.file("library.so", "build one");
    let runs_folder = folder.0.join("runs");
    let arguments: Vec<OsString> = ["script.py", "7"].map(OsString::from).to_vec();
    let master = |library: &Path| {
        let master = Master::builder().run_folder(&runs_folder).record_cost(f64::INFINITY);
        master.program("/bin/true", arguments.clone(), library)
    };
    let m = master(&library).connect("local:1").expect("threads");
    let first = recon(&m).expect("a value");
    // The hash is taken aside, and written when it is there.
    let file = || Run::read(runs::list(&runs_folder).ok()?.first()?).ok();
    while file().is_none_or(|run| run.executable.is_none()) {
        recon(&m).expect("a value");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    drop(m);
    let path = runs::list(&runs_folder).expect("a folder").remove(0);
    let run = Run::read(&path).expect("a run");
    assert_eq!((run.program.as_path(), &run.arguments), (Path::new("/bin/true"), &arguments));
    assert_eq!(run.build.as_deref(), Some(library.as_path()));
    assert_eq!(run.executable, Some(blake3::hash(b"build one").to_hex().to_string()));

    let m = master(&library).resume(&run.id).connect("local:1").expect("the same build goes on");
    assert_eq!(recon(&m).expect("a value").to_bits(), first.to_bits());
    drop(m);
    let newest = runs::list(&runs_folder).expect("a folder").pop().expect("a second run");
    assert_eq!(Run::read(&newest).expect("a run").recalled, 1, "its value was taken from the first run");

    let other = folder.file("other.so", "build two");
    match master(&other).resume(&run.id).connect("local:1") {
        Err(Error::Resume { source, .. }) => assert!(matches!(*source, RunError::OtherBuild)),
        other => panic!("{other:?} instead of a refusal"),
    }

    // The command looks at the same file, and then starts what the run file says.
    let replay = || Command::new(COMMAND).args(["replay", &run.id]).env("QJAM_RUNS", &runs_folder).output();
    let said = String::from_utf8_lossy(&replay().expect("the command starts").stderr).into_owned();
    assert!(said.contains("the program made no such run this time"), "{said}");
    folder.file("library.so", "build two");
    let said = String::from_utf8_lossy(&replay().expect("the command starts").stderr).into_owned();
    assert!(said.contains("library.so is not the library that made run"), "{said}");
}
