//! A run that goes on from another has the states that led to where it is.

use crate::counting::{Mischief, Tally, add, after, data, plain, with};
use qjam::journal::What;
use qjam::{LogLine, Master, runs};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        Folder(std::env::temp_dir().join(format!("qjam-state-{name}-{}", std::process::id())))
    }

    fn last(&self) -> PathBuf {
        runs::list(&self.0).unwrap().pop().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn master(workers: &str, folder: &Folder, resume: Option<&Path>) -> Master {
    master_saying(workers, folder, resume, |_| {})
}

fn master_saying(
    workers: &str,
    folder: &Folder,
    resume: Option<&Path>,
    say: impl Fn(&LogLine) + Send + Sync + 'static,
) -> Master {
    let mut builder = Master::builder().on_log(say).run_folder(&folder.0);
    if let Some(path) = resume {
        builder = builder.resume(path.to_string_lossy());
    }
    builder.connect(workers).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_run_that_goes_on_has_the_states_of_the_one_before() {
    let folder = Folder::new("on");
    let x = data(5, 100);
    for (workers, again) in [("proc:2", "local:2"), ("local:1", "proc:3")] {
        let m = master(workers, &folder, None);
        let mut held = m.hold::<Tally>(&x).unwrap();
        for n in 0..6 {
            held.run(add, &plain(n)).unwrap();
        }
        drop((held, m));
        let m = master(again, &folder, Some(&folder.last()));
        let mut held = m.hold::<Tally>(&x).unwrap();
        for n in 0..9 {
            let rounds: Vec<u64> = (0..=n).collect();
            assert_eq!(held.run(add, &plain(n)).unwrap(), 5 * after(&rounds), "{workers}, {again}: {n}");
        }
        assert!(held.collect().unwrap().iter().all(|t| t.sum == after(&[0, 1, 2, 3, 4, 5, 6, 7, 8])));
        drop((held, m));
        let run = runs::Run::read(&folder.last()).unwrap();
        assert_eq!((run.recalled, run.rounds), (6, 9));
    }
}

#[test]
fn a_value_is_not_taken_from_a_run_whose_states_were_others() {
    let folder = Folder::new("other");
    let x = data(2, 100);
    let m = master("local:1", &folder, None);
    let mut held = m.hold::<Tally>(&x).unwrap();
    held.run(add, &plain(1)).unwrap();
    held.run(add, &with(2, Mischief::Panic(1))).unwrap_err();
    held.run(add, &plain(3)).unwrap();
    drop((held, m));
    // The round that failed there succeeds here, so that the third begins with other states.
    let m = master("local:1", &folder, Some(&folder.last()));
    let mut held = m.hold::<Tally>(&x).unwrap();
    assert_eq!(held.run(add, &plain(1)).unwrap(), 2);
    assert_eq!(held.run(add, &plain(2)).unwrap(), 2 * after(&[1, 2]));
    assert_eq!(held.run(add, &plain(3)).unwrap(), 2 * after(&[1, 2, 3]));
}

#[test]
fn a_checkpoint_of_the_run_before_saves_its_rounds() {
    let folder = Folder::new("checkpoint");
    let x = data(4, 100);
    let m = master("proc:2", &folder, None);
    let mut held = m.hold::<Tally>(&x).unwrap();
    for n in 0..30 {
        held.run(add, &plain(n)).unwrap();
        if n == 24 {
            held.checkpoint().unwrap();
        }
    }
    drop((held, m));
    let again = || {
        let m = master("proc:2", &folder, Some(&folder.last()));
        let mut held = m.hold::<Tally>(&x).unwrap();
        for n in 0..31 {
            held.run(add, &plain(n)).unwrap();
        }
        let rounds: Vec<u64> = (0..31).collect();
        assert!(held.collect().unwrap().iter().all(|t| t.sum == after(&rounds)));
        let journal = m.journal();
        let steps = journal.iter().filter_map(|entry| match entry.what {
            What::Restored { steps, .. } => Some(steps),
            _ => None,
        });
        steps.collect::<Vec<u32>>()
    };
    assert_eq!(again(), [5; 4], "the rounds after the checkpoint, for each partition");
    // The one that went on left a checkpoint, too: `collect` brought the states home.
    assert_eq!(again(), [0; 4], "all rounds were known, and so were the states after the last");
    for entry in std::fs::read_dir(&folder.0).unwrap().flatten() {
        if entry.path().extension().is_some_and(|suffix| suffix == "state") {
            std::fs::write(entry.path(), b"qjamhold and nothing of use").unwrap();
        }
    }
    assert_eq!(again(), [31; 4], "what cannot be used is made again from the beginning");
}

#[test]
fn a_state_that_others_can_have_written_is_made_again() {
    let folder = Folder::new("planted");
    let x = data(4, 100);
    let m = master("proc:2", &folder, None);
    let mut held = m.hold::<Tally>(&x).unwrap();
    for n in 0..10 {
        held.run(add, &plain(n)).unwrap();
    }
    held.checkpoint().unwrap();
    drop((held, m));
    let first = folder.last();
    let again = || {
        let words: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = words.clone();
        let say = move |line: &LogLine| heard.lock().unwrap().push(line.text.clone());
        let m = master_saying("proc:2", &folder, Some(&first), say);
        let mut held = m.hold::<Tally>(&x).unwrap();
        for n in 0..11 {
            held.run(add, &plain(n)).unwrap();
        }
        let steps = m.journal().into_iter().filter_map(|entry| match entry.what {
            What::Restored { steps, .. } => Some(steps),
            _ => None,
        });
        let steps = steps.collect::<Vec<u32>>();
        drop((held, m));
        let words = words.lock().unwrap().join("\n");
        (steps, words)
    };
    let (steps, words) = again();
    assert!(steps == [0; 4] && words.is_empty(), "{steps:?} {words}");
    let state = std::fs::read_dir(&folder.0).unwrap().flatten().map(|entry| entry.path()).find(|path| {
        let stem = first.file_stem().unwrap().to_str().unwrap();
        path.to_str().unwrap().contains(stem) && path.extension().is_some_and(|suffix| suffix == "state")
    });
    let state = state.unwrap();
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o666)).unwrap();
    let (steps, words) = again();
    assert_eq!(steps, [10; 4], "{words}");
    assert!(
        words.contains("states are computed again") && words.contains("written by other users"),
        "{words}"
    );
    assert!(rustix::process::geteuid().is_root(), "NOT TESTED for lack of root: a state of another user");
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::chown(&state, Some(1234), None).unwrap();
    let (steps, words) = again();
    assert_eq!(steps, [10; 4], "{words}");
    assert!(words.contains("belongs to another user"), "{words}");
}
