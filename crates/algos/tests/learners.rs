//! What holds for every learner: one hash on all workers and for all ways to store rows that it takes, and models that come
//! back from their files.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

qjam::worker_hook!();

use qjam::{Dtype, Master};
use qjam_algos::learner::sample::{Sample, Stored, sample, small};
use qjam_algos::learner::{About, Answer, Learner, LearnerError, Question};
use qjam_algos::models::Notes;
use qjam_algos::registry::{self, LEARNERS};

fn master(workers: &str) -> Master {
    Master::builder().no_run_file().connect(workers).unwrap()
}

fn hash(sample: &Sample, master: &Master) -> String {
    sample.fit(master).unwrap_or_else(|e| panic!("{:?}: {e}", sample.learner)).model.hash()
}

fn each(mut check: impl FnMut(&'static dyn Learner, Stored)) {
    for learner in LEARNERS {
        for sparse in [false, true] {
            for dtype in [Dtype::F32, Dtype::F64] {
                if !sparse || learner.table().sparse {
                    check(*learner, Stored { sparse, dtype });
                }
            }
        }
    }
}

#[test]
fn one_hash_for_every_learner_on_all_workers() {
    let masters = ["local:1", "local:2", "local:5", "proc:2"].map(|workers| (workers, master(workers)));
    each(|learner, stored| {
        let sample = sample(learner, stored).unwrap();
        let expected = hash(&sample, &masters[0].1);
        for (workers, master) in &masters {
            assert_eq!(hash(&sample, master), expected, "{learner:?} {stored:?} on {workers}");
        }
    });
}

#[test]
fn every_model_comes_back_from_its_file_and_answers_the_same() {
    let master = master("local:2");
    let path = std::env::temp_dir().join(format!("qjam-learners-{}.model", std::process::id()));
    for learner in LEARNERS {
        let sample = small(*learner);
        let fitted = sample.fit(&master).unwrap();
        fitted.model.save(&path, &Notes::new(&sample.settings, vec![], &fitted.report.facts)).unwrap();
        let (model, contents) = registry::load(&path).unwrap();
        assert_eq!(contents.kind, learner.format().kind);
        assert_eq!((model.hash(), model.columns()), (fitted.model.hash(), 5), "{learner:?}");
        for question in learner.questions() {
            let about = About::all(&master, &sample.rows);
            let answer = model.answer(*question, &about).unwrap();
            assert_eq!(answer, fitted.model.answer(*question, &about).unwrap(), "{learner:?} {question:?}");
            if *question != Question::Score {
                let parts: Vec<Answer> = (0..sample.rows.chunks())
                    .map(|chunk| model.answer(*question, &About::chunk(&sample.rows, chunk)).unwrap())
                    .collect();
                assert_eq!(joined(parts), answer, "{learner:?} {question:?}");
            }
        }
        for question in Question::ALL.into_iter().filter(|other| !learner.questions().contains(other)) {
            let refused = model.answer(question, &About::all(&master, &sample.rows)).unwrap_err();
            assert!(matches!(refused, LearnerError::NoAnswer { .. }), "{learner:?} {question:?}: {refused}");
        }
    }
    std::fs::remove_file(&path).unwrap();
}

/// The answers about all chunks as one.
fn joined(parts: Vec<Answer>) -> Answer {
    let join = |left: Answer, right: Answer| match (left, right) {
        (Answer::Labels(a), Answer::Labels(b)) => Answer::Labels([a, b].concat()),
        (Answer::Values(a), Answer::Values(b)) => Answer::Values([a, b].concat()),
        (Answer::Singles(a, n), Answer::Singles(b, m)) if n == m => Answer::Singles([a, b].concat(), n),
        (Answer::Doubles(a, n), Answer::Doubles(b, m)) if n == m => Answer::Doubles([a, b].concat(), n),
        (left, right) => panic!("{left:?} and {right:?}"),
    };
    parts.into_iter().reduce(join).unwrap()
}

#[test]
fn learners_that_take_no_sparse_rows_say_so() {
    let master = master("local:1");
    for learner in LEARNERS.iter().filter(|learner| !learner.table().sparse) {
        let sample = sample(*learner, Stored { sparse: true, dtype: Dtype::F64 }).unwrap();
        let refused = sample.fit(&master).unwrap_err();
        assert!(refused.to_string().contains("takes dense rows, and these are sparse"), "{refused}");
    }
}

#[test]
fn a_model_that_was_updated_in_batches_has_one_hash_on_all_workers() {
    for learner in LEARNERS {
        let sample = small(*learner);
        let all = ["local:1", "local:5"].map(|workers| {
            let master = master(workers);
            let first = match sample.update(&master, None) {
                Err(LearnerError::NoBatches { .. }) => return None,
                first => first.unwrap().model.parts(),
            };
            Some(sample.update(&master, Some(&first)).unwrap().model.hash())
        });
        assert_eq!(all[0], all[1], "{learner:?}");
    }
}
