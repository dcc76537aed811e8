//! What holds for every learner: one hash on all workers and for all ways to store rows that it takes, and models that come
//! back from their files.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

qjam::worker_hook!();

use qjam::{DataSet, Dtype, Master, Rows};
use qjam_algos::evaluate::cross::cross_validate;
use qjam_algos::evaluate::{Detail, Options, evaluate, folds};
use qjam_algos::learner::sample::{Sample, Stored, sample, small};
use qjam_algos::learner::{About, Answer, Job, Learner, LearnerError, Progress, Question, Training};
use qjam_algos::models::{Notes, Parts, Tensor};
use qjam_algos::options::Target;
use qjam_algos::preprocessing::Kind;
use qjam_algos::registry::scaled::Scaled;
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

/// Whether a learner does nothing but scale.
fn is_scaler(learner: &dyn Learner) -> bool {
    learner.table().name.ends_with("-scaler")
}

#[test]
fn a_scaling_has_one_hash_on_all_workers_and_travels_with_the_model_of_every_learner() {
    let masters = ["local:1", "local:5", "proc:2"].map(master);
    let path = std::env::temp_dir().join(format!("qjam-scaled-{}.model", std::process::id()));
    for learner in LEARNERS.iter().filter(|learner| !is_scaler(**learner)) {
        let by = if learner.takes_negative() { Kind::Standard } else { Kind::MinMax };
        let scaled: &'static Scaled = Box::leak(Box::new(Scaled::new(*learner, by)));
        let sample = Sample { learner: scaled, ..small(*learner) };
        let fitted = sample.fit(&masters[0]).unwrap_or_else(|e| panic!("{learner:?}: {e}"));
        for master in &masters[1..] {
            assert_eq!(hash(&sample, master), fitted.model.hash(), "{learner:?}");
        }
        fitted.model.save(&path, &Notes::new(&sample.settings, vec![], &fitted.report.facts)).unwrap();
        let (model, contents) = registry::load(&path).unwrap();
        assert_eq!((&contents.kind[..], contents.kind_of_answers()), ("scaled", learner.format().kind));
        assert_eq!((model.hash(), model.columns()), (fitted.model.hash(), 5), "{learner:?}");
        // The same as to scale the rows first, and to ask about scaled rows.
        let scaler = registry::find(by.table().name).unwrap();
        let rows = Sample { rows: sample.rows.clone(), targets: None, ..small(scaler) };
        let mut settings = rows.settings.clone();
        if by == Kind::Standard {
            settings.set_text("center", "true").unwrap();
        }
        let scaling = Sample { settings, ..rows }.fit(&masters[0]).unwrap().model;
        let of = |rows: &Rows| match scaling.answer(Question::Transform, &About::all(&masters[0], rows)) {
            Ok(Answer::Doubles(values, columns)) => Rows::from(DataSet::dense(values, columns).unwrap()),
            other => panic!("{other:?}"),
        };
        let before = Sample { rows: of(&sample.rows), ..small(*learner) };
        let plain = before.fit(&masters[0]).unwrap().model;
        for question in learner.questions() {
            let answer = model.answer(*question, &About::all(&masters[1], &sample.rows)).unwrap();
            if *question != Question::Reconstruct {
                let about = About::all(&masters[1], &before.rows);
                assert_eq!(answer, plain.answer(*question, &about).unwrap(), "{learner:?} {question:?}");
            }
            if *question != Question::Score {
                let parts: Vec<Answer> = (0..sample.rows.chunks())
                    .map(|chunk| model.answer(*question, &About::chunk(&sample.rows, chunk)).unwrap())
                    .collect();
                assert_eq!(joined(parts), answer, "{learner:?} {question:?}");
            }
        }
        let options = Options { targets: sample.targets.as_deref(), sample: 50, ..Options::default() };
        let scores = |model: &dyn qjam_algos::learner::Model, rows: &Rows| {
            evaluate(&masters[1], model, rows, &options).unwrap_or_else(|e| panic!("{learner:?}: {e}")).scores
        };
        let (of_scaled, of_plain) = (scores(&*model, &sample.rows), scores(&*plain, &before.rows));
        assert_eq!(of_scaled.len(), of_plain.len(), "{learner:?}");
        if learner.table().target != Target::None || learner.questions().contains(&Question::Predict) {
            assert_eq!(of_scaled, of_plain, "{learner:?}");
        }
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_fold_has_no_say_in_the_scale_of_the_others() {
    let master = master("local:2");
    for name in ["logistic", "lda"] {
        let learner = registry::find(name).unwrap();
        let sample = small(learner);
        let Rows::DenseF64(data) = &sample.rows else { panic!("samples are dense") };
        let mut values = data.partitions(1).unwrap().chunk(0).unwrap().as_slice().to_vec();
        let targets = sample.targets.clone().unwrap();
        let of_rows = folds::stratified(&targets, 3, 1);
        let validate = |values: Vec<f64>| {
            let rows = Rows::from(DataSet::dense(values, 5).unwrap());
            let training = Training { targets: Some(&targets), ..Training::new(&rows) };
            let observer = &mut |_: &Progress<'_>| {};
            let mut job =
                Job { master: &master, settings: &sample.settings, training, memory_limit: None, observer };
            let scaled = Scaled::new(learner, Kind::Standard);
            cross_validate(&scaled, &mut job, 3, 1).unwrap()
        };
        let before = validate(values.clone());
        // One row moves far out: the fold without it has the same model and, of the other rows, the same predictions.
        values[0] = 1e6;
        let after = validate(values);
        let fold = of_rows[0] as usize;
        let accuracy = |found: &qjam_algos::evaluate::cross::CrossValidation| {
            found.scores.iter().find(|(name, _)| *name == "accuracy").unwrap().1[fold].unwrap()
        };
        let differ = (accuracy(&before) - accuracy(&after)).abs() * before.rows[fold] as f64;
        assert!(differ < 1.5, "{name}: {differ} rows of the fold are predicted otherwise");
    }
}

#[test]
fn what_cannot_be_scaled_is_refused_in_words() {
    let master = master("local:1");
    let said = |name: &str, by: Kind, change: &dyn Fn(&mut Sample), start: Option<&Parts>| {
        let learner = registry::find(name).unwrap();
        let scaled: &'static Scaled = Box::leak(Box::new(Scaled::new(learner, by)));
        let mut sample = Sample { learner: scaled, ..small(learner) };
        change(&mut sample);
        let training = Training { targets: sample.targets.as_deref(), start, ..Training::new(&sample.rows) };
        let observer = &mut |_: &Progress<'_>| {};
        let settings = &sample.settings;
        let mut job = Job { master: &master, settings, training, memory_limit: None, observer };
        scaled.fit(&mut job).unwrap_err().to_string()
    };
    let bad = |sample: &mut Sample| {
        let mut values = vec![1.0; 15];
        values[7] = f64::NAN;
        sample.rows = DataSet::dense(values, 5).unwrap().into();
    };
    let text = said("kmeans", Kind::Standard, &bad, None);
    assert!(text.contains("row 1, column 2 (counted from 0) is NaN"), "{text}");
    let centres = Parts::new(
        registry::find("kmeans").unwrap().format(),
        vec![Tensor::new("centres", &[1, 5], &[0.0; 5])],
    );
    let text = said("kmeans", Kind::Standard, &|_| {}, Some(&centres));
    assert!(text.contains("centres would be in the units of the data"), "{text}");
    let sparse = |sample: &mut Sample| {
        let stored = Stored { sparse: true, dtype: Dtype::F64 };
        sample.rows =
            qjam_algos::learner::sample::sample(registry::find("pca").unwrap(), stored).unwrap().rows;
    };
    let text = said("kmeans", Kind::MinMax, &sparse, None);
    assert!(text.contains("takes dense rows, and these are sparse"), "{text}");
    // What was centred cannot be asked about sparse rows, nor about rows of another width.
    let scaled: &'static Scaled =
        Box::leak(Box::new(Scaled::new(registry::find("pca").unwrap(), Kind::Standard)));
    let mut sample = Sample { learner: scaled, ..small(registry::find("pca").unwrap()) };
    let model = sample.fit(&master).unwrap().model;
    sparse(&mut sample);
    let asked = |rows: &Rows| model.answer(Question::Transform, &About::all(&master, rows)).unwrap_err();
    let text = asked(&sample.rows).to_string();
    assert!(text.contains("Cannot center sparse matrices"), "{text}");
    let narrow = asked(&DataSet::dense(vec![1.0; 4], 2).unwrap().into());
    assert!(matches!(narrow, LearnerError::Columns { found: 2, expected: 5, .. }), "{narrow}");
    // Sparse rows are divided only, and such a model takes both.
    let model = sample.fit(&master).unwrap();
    assert!(model.report.remarks.iter().any(|remark| remark.contains("not centred")), "{:?}", model.report);
    let dense = small(registry::find("pca").unwrap()).rows;
    let [a, b] = [&sample.rows, &dense]
        .map(|rows| model.model.answer(Question::Transform, &About::all(&master, rows)).unwrap());
    let (Answer::Doubles(a, _), Answer::Doubles(b, _)) = (a, b) else { panic!("coordinates are numbers") };
    assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-12));
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

#[test]
fn scores_of_every_learner_have_the_same_bits_on_all_workers() {
    let masters = ["local:1", "local:5", "proc:2"].map(master);
    each(|learner, stored| {
        // The command reads rows in the type that the learner wants.
        if learner.table().dtype.is_some_and(|dtype| dtype != stored.dtype) {
            return;
        }
        let sample = sample(learner, stored).unwrap();
        let model = sample.fit(&masters[0]).unwrap().model;
        let options = Options { targets: sample.targets.as_deref(), sample: 50, ..Options::default() };
        let [first, others @ ..] =
            masters.each_ref().map(|master| evaluate(master, &*model, &sample.rows, &options));
        let first = first.unwrap_or_else(|e| panic!("{learner:?} {stored:?}: {e}"));
        assert!(first.rows == 240 && !first.scores.is_empty(), "{learner:?}");
        assert!(first.scores.iter().all(|(_, score)| score.is_some()), "{learner:?} {first:?}");
        for other in others {
            assert_eq!(format!("{:?}", other.unwrap()), format!("{first:?}"), "{learner:?} {stored:?}");
        }
    });
}

#[test]
fn folds_of_every_learner_with_a_target_have_one_hash_and_are_fits_to_the_other_rows() {
    let masters = ["local:1", "local:5", "proc:2"].map(master);
    for learner in LEARNERS.iter().filter(|learner| learner.table().target != Target::None) {
        let sample = small(*learner);
        let validate = |master: &Master| {
            let training = Training { targets: sample.targets.as_deref(), ..Training::new(&sample.rows) };
            let observer = &mut |_: &Progress<'_>| {};
            let mut job = Job { master, settings: &sample.settings, training, memory_limit: None, observer };
            cross_validate(*learner, &mut job, 3, 1).unwrap_or_else(|e| panic!("{learner:?}: {e}"))
        };
        let first = validate(&masters[0]);
        assert!(
            first.rows == [80, 80, 80] && first.scores.iter().all(|(_, scores)| scores.len() == 3),
            "{first:?}"
        );
        for master in &masters[1..] {
            assert_eq!(format!("{:?}", validate(master)), format!("{first:?}"), "{learner:?}");
        }
        // The same with rows and targets of the other folds alone.
        let targets = sample.targets.clone().unwrap();
        let folds = match learner.table().target {
            Target::Classes => folds::stratified(&targets, 3, 1),
            _ => folds::folds(240, 3, 1),
        };
        let Rows::DenseF64(data) = &sample.rows else { panic!("samples are dense") };
        let all: Vec<f64> =
            (0..data.len()).flat_map(|index| data.chunk(index).unwrap().as_slice().to_vec()).collect();
        let is_left = |row: &usize| folds[*row] != 0;
        let left: Vec<f64> = (0..240).filter(is_left).flat_map(|row| all[row * 5..][..5].to_vec()).collect();
        let rows = Rows::from(DataSet::dense(left, 5).unwrap());
        let others = Sample {
            learner: *learner,
            settings: sample.settings.clone(),
            rows,
            targets: Some((0..240).filter(is_left).map(|row| targets[row]).collect()),
        };
        let model = others.fit(&masters[0]).unwrap().model;
        let options = Options { targets: Some(&targets), held: Some((&folds, 0)), ..Options::default() };
        let expected = evaluate(&masters[0], &*model, &sample.rows, &options).unwrap();
        for (name, scores) in &first.scores {
            let (found, expected) = (scores[0].unwrap(), expected.score(name).unwrap());
            assert!(
                (found - expected).abs() < 1e-3 * (1.0 + expected.abs()),
                "{learner:?} {name}: {found} {expected}"
            );
        }
    }
}

#[test]
fn models_of_the_same_numbers_in_another_shape_are_not_taken_for_each_other() {
    let master = master("local:1");
    let sizes = |columns: usize| {
        let parts = Parts::new(
            registry::find("kmeans").unwrap().format(),
            vec![Tensor::new("centres", &[6 / columns, columns], &[0.0, 0.0, 5.0, 5.0, 9.0, 9.0])],
        );
        let model = registry::find("kmeans").unwrap().assemble(&parts).unwrap();
        let rows = Rows::from(DataSet::dense(vec![0.0, 0.0, 5.0, 5.0, 9.0, 9.0], columns).unwrap());
        let Detail::Clusters(found) = evaluate(&master, &*model, &rows, &Options::default()).unwrap().detail
        else {
            panic!("centres make clusters")
        };
        found
    };
    assert_eq!((sizes(2), sizes(3)), (vec![1, 1, 1], vec![1, 1]));
}
