//! Cross-validation: a learner is fitted once for each fold to the rows of all others, and measured on the fold's own.
//!
//! Learners that weight rows get all rows in every fit, and weights of 0 for those of the fold: the data is the same in all rounds and
//! is sent once. Others, and those to which a row of weight 0 is not quite none, get the rows gathered anew. Which rows are in a fold
//! follows from targets and seed alone ([`folds`]).

use super::folds;
use super::{Options, evaluate};
use crate::learner::{Fitted, Job, Learner, LearnerError, Progress, Report, Training, Weights};
use crate::models::hash;
use crate::options::Target;
use crate::registry::sent::AskedChunk;
use qjam::source::kept::{Keep, RowsWriter, SparseWriter};
use qjam::{Csr, DataError, DataSet, Dense, Rows, with_rows};
use thiserror::Error;

/// Numbers of gathered rows that stay in memory; more are written to a file, as readers do.
const MEMORY_BYTES_MAX: u64 = 64 << 20;

/// Scores of all folds.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossValidation {
    /// Each score by name, with its value in each fold.
    pub scores: Vec<(&'static str, Vec<Option<f64>>)>,
    /// Rows of each fold.
    pub rows: Vec<u64>,
    /// A hash of the models of all folds.
    pub hash: String,
    /// What the user should know.
    pub remarks: Vec<String>,
}

impl CrossValidation {
    /// Mean and standard deviation of a score over the folds that have it.
    pub fn mean_and_spread(values: &[Option<f64>]) -> Option<(f64, f64)> {
        let found: Vec<f64> = values.iter().flatten().copied().collect();
        let n = found.len() as f64;
        let mean = found.iter().sum::<f64>() / n;
        let spread = (found.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt();
        (!found.is_empty()).then_some((mean, spread))
    }
}

/// Why there are no folds.
#[derive(Clone, Debug, PartialEq, Error)]
enum NoFolds {
    #[error("{folds} folds need at least {folds} rows, and there are {rows}; give fewer folds")]
    Rows { folds: u32, rows: u64 },
    #[error("the target of row {row} (counted from 0) is {value}; targets must be finite")]
    NotFinite { row: usize, value: f64 },
    #[error("all classes have fewer than {folds} rows, the largest {largest}; give fewer folds")]
    Classes { folds: u32, largest: u64 },
    #[error(
        "class {class} has one row only, which would be missing where it is to be learnt; leave it out, or give more of it"
    )]
    OneRow { class: f64 },
}

/// Fits and measures once for each of `count` folds. The job's own training tells rows, targets and weights.
pub fn cross_validate(
    learner: &dyn Learner,
    job: &mut Job<'_>,
    count: u32,
    seed: u64,
) -> Result<CrossValidation, LearnerError> {
    let (targets, rows) = (job.targets()?, job.training.rows.records());
    let wrong = |e: NoFolds| LearnerError::unusable(e);
    if rows < u64::from(count) || targets.len() as u64 != rows {
        return Err(wrong(NoFolds::Rows { folds: count, rows: rows.min(targets.len() as u64) }));
    }
    if let Some(row) = targets.iter().position(|target| !target.is_finite()) {
        return Err(wrong(NoFolds::NotFinite { row, value: targets[row] }));
    }
    let mut remarks = Vec::new();
    let of_rows = match job.settings.table().target {
        Target::Classes => {
            remarks.extend(check_classes(targets, count).map_err(wrong)?);
            folds::stratified(targets, count, seed)
        }
        _ => folds::folds(rows, count, seed),
    };
    let mut found = CrossValidation { scores: vec![], rows: vec![], hash: String::new(), remarks };
    let mut hashes = Vec::new();
    for fold in 0..count {
        let Fitted { model, report, .. } = fit_without(learner, job, &of_rows, (fold, count, seed))?;
        let options = Options { targets: Some(targets), held: Some((&of_rows, fold)), sample: 0, seed };
        let scores = evaluate(job.master, &*model, job.training.rows, &options)?;
        hashes.extend(model.hash().bytes().map(f64::from));
        found.rows.push(scores.rows);
        found.remarks.extend(told(&report, &scores.remarks).map(|told| format!("fold {}: {told}", fold + 1)));
        for (name, score) in scores.scores {
            match found.scores.iter_mut().find(|(known, _)| *known == name) {
                Some((_, scores)) => scores.push(score),
                None => found.scores.push((name, [vec![None; fold as usize], vec![score]].concat())),
            }
        }
        found.scores.iter_mut().for_each(|(_, scores)| scores.resize(fold as usize + 1, None));
        let text = &format_args!("fold {} of {count}", fold + 1);
        let (step, steps_max) = (u64::from(fold) + 1, Some(u64::from(count)));
        (job.observer)(&Progress { step, steps_max, text, phase_done: None });
    }
    found.hash = hash(&hashes);
    Ok(found)
}

/// What the user should know of a fold. What is wrong with its model comes first.
fn told<'a>(report: &'a Report, of_scores: &'a [String]) -> impl Iterator<Item = &'a String> {
    report.failure.iter().chain(&report.advice).chain(&report.remarks).chain(of_scores)
}

/// Refuses classes that some fit would not see, and says which a fold will not have.
fn check_classes(targets: &[f64], count: u32) -> Result<Option<String>, NoFolds> {
    let mut sorted: Vec<f64> = targets.iter().map(|target| target + 0.0).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let classes: Vec<&[f64]> = sorted.chunk_by(|a, b| a == b).collect();
    let largest = classes.iter().map(|class| class.len() as u64).max().unwrap_or(0);
    if largest < u64::from(count) {
        return Err(NoFolds::Classes { folds: count, largest });
    }
    if let Some(class) = classes.iter().find(|class| class.len() == 1) {
        return Err(NoFolds::OneRow { class: class[0] });
    }
    let few = classes.iter().find(|class| class.len() < count as usize);
    Ok(few.map(|class| {
        format!("class {} has {} rows only, so it is missing in some folds", class[0], class.len())
    }))
}

fn fit_without(
    learner: &dyn Learner,
    job: &mut Job<'_>,
    of_rows: &[u32],
    (fold, count, seed): (u32, u32, u64),
) -> Result<Fitted, LearnerError> {
    let training = job.training;
    let is_left = |row: u64| of_rows[row as usize] != fold;
    if learner.table().weighted && learner.leaves_out_weightless() {
        let weight = |row: usize| match (is_left(row as u64), training.weights) {
            (false, _) => 0.0,
            (true, Weights::Each(weights)) => weights.get(row).copied().unwrap_or(1.0),
            (true, _) => 1.0,
        };
        let weights: Vec<f64> = (0..of_rows.len()).map(weight).collect();
        let training = Training { weights: Weights::Each(&weights), answers: false, ..training };
        return fit(learner, job, training);
    }
    let name = kept_name(&training.rows.id().0, of_rows, (fold, count, seed));
    let keep = Keep::Cached { name, memory_bytes_max: MEMORY_BYTES_MAX };
    let rows = with_rows!(training.rows, data => Gathered::gathered(data, &keep, &is_left))
        .map_err(qjam::Error::from)?;
    let left = |numbers: &[f64]| -> Vec<f64> {
        let is_left = |(row, number): (usize, &f64)| is_left(row as u64).then_some(*number);
        numbers.iter().enumerate().filter_map(is_left).collect()
    };
    let targets = left(training.targets.unwrap_or_default());
    let of_left;
    let weights = match training.weights {
        Weights::Each(weights) => {
            of_left = left(weights);
            Weights::Each(&of_left)
        }
        other => other,
    };
    fit(learner, job, Training { rows: &rows, targets: Some(&targets), weights, answers: false, ..training })
}

/// A file's name for the rows of all folds but one. Folds may follow from targets, so each row's is in it.
fn kept_name(id: &[u8], of_rows: &[u32], (fold, count, seed): (u32, u32, u64)) -> String {
    let id: String = id.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let rows = hash(&of_rows.iter().map(|of_row| f64::from(*of_row)).collect::<Vec<_>>());
    format!("fold-{fold}-{count}-{seed}-{id}-{rows}.qjam")
}

fn fit(learner: &dyn Learner, job: &mut Job<'_>, training: Training<'_>) -> Result<Fitted, LearnerError> {
    let observer = &mut |_: &Progress<'_>| {};
    learner.fit(&mut Job {
        master: job.master,
        settings: job.settings,
        training,
        memory_limit: job.memory_limit,
        observer,
    })
}

/// Chunks of which some rows can be gathered into another data set.
trait Gathered: AskedChunk + Sized {
    fn gathered(data: &DataSet<Self>, keep: &Keep, is_left: &dyn Fn(u64) -> bool) -> Result<Rows, DataError>;
}

macro_rules! gathered {
    ($($value:ty),*) => {$(
        impl Gathered for Dense<$value> {
            fn gathered(data: &DataSet<Self>, keep: &Keep, is_left: &dyn Fn(u64) -> bool) -> Result<Rows, DataError> {
                let mut rows = RowsWriter::<$value>::create(keep, data.chunk(0)?.cols())?;
                let mut number = 0;
                for index in 0..data.len() {
                    for row in data.chunk(index)?.rows_iter() {
                        if is_left(number) {
                            rows.push(row)?;
                        }
                        number += 1;
                    }
                }
                Ok(rows.finish(Vec::new())?.into())
            }
        }
        impl Gathered for Csr<$value> {
            fn gathered(data: &DataSet<Self>, keep: &Keep, is_left: &dyn Fn(u64) -> bool) -> Result<Rows, DataError> {
                let columns = data.chunk(0)?.cols();
                let mut rows = SparseWriter::<$value>::create(keep, false);
                let mut number = 0;
                for index in 0..data.len() {
                    let chunk = data.chunk(index)?;
                    let (mut starts, mut at, mut values) = (vec![0], vec![], vec![]);
                    for row in 0..chunk.rows() {
                        if is_left(number) {
                            let (found_at, found) = chunk.row(row);
                            at.extend_from_slice(found_at);
                            values.extend_from_slice(found);
                            starts.push(at.len() as u64);
                        }
                        number += 1;
                    }
                    let left = Csr::from_vecs(starts, at, values, columns, None);
                    rows.push(&left.expect("rows of a sparse matrix make one"))?;
                }
                Ok(rows.finish(columns as u64, Vec::new())?.into())
            }
        }
    )*};
}
gathered!(f32, f64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Settings, Spelling};

    #[test]
    fn classes_with_too_few_rows_are_refused_or_told() {
        let few = [0.0, 0.0, 0.0, 1.0, 1.0];
        assert_eq!(check_classes(&few, 4), Err(NoFolds::Classes { folds: 4, largest: 3 }));
        assert_eq!(check_classes(&few[..4], 2), Err(NoFolds::OneRow { class: 1.0 }));
        assert!(check_classes(&few, 3).unwrap().unwrap().contains("class 1 has 2 rows only"));
        assert_eq!(check_classes(&few, 2), Ok(None));
    }

    #[test]
    fn rows_that_are_kept_of_other_folds_have_another_name() {
        let name =
            |targets: &[f64], fold| kept_name(&[7; 32], &folds::stratified(targets, 2, 3), (fold, 2, 3));
        let (targets, others) = ([0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0]);
        assert_ne!(folds::stratified(&targets, 2, 3), folds::stratified(&others, 2, 3));
        assert_ne!(name(&targets, 0), name(&others, 0));
        assert_ne!(name(&targets, 0), name(&targets, 1));
        assert_eq!(name(&targets, 0), name(&targets, 0));
    }

    #[test]
    fn why_a_model_is_of_no_use_is_told_before_anything_else() {
        let report = Report {
            failure: Some("diverged".into()),
            advice: Some("shorter steps".into()),
            remarks: vec!["constant".into()],
            ..Report::default()
        };
        let of_scores = ["no curve".to_string()];
        let found: Vec<&String> = told(&report, &of_scores).collect();
        assert_eq!(found, ["diverged", "shorter steps", "constant", "no curve"]);
    }

    /// Folds of a learner with options, over rows of one column.
    fn validated(
        learner: &str,
        options: &[(&str, &str)],
        rows: Vec<f64>,
        targets: &[f64],
    ) -> Result<CrossValidation, LearnerError> {
        let learner = crate::registry::LEARNERS.iter().find(|known| known.table().name == learner).unwrap();
        let mut settings = Settings::new(learner.table(), Spelling::Command);
        options.iter().for_each(|(name, value)| settings.set_text(name, value).unwrap());
        let rows = Rows::from(DataSet::dense(rows, 1).unwrap());
        let master = &qjam::Master::builder().no_run_file().connect("local:1").unwrap();
        let training = Training { targets: Some(targets), ..Training::new(&rows) };
        let observer = &mut |_: &Progress<'_>| {};
        let mut job = Job { master, settings: &settings, training, memory_limit: None, observer };
        cross_validate(*learner, &mut job, 2, 0)
    }

    #[test]
    fn fits_that_diverge_are_told() {
        let rows: Vec<f64> = (0..40).map(f64::from).collect();
        let options = [("solver", "sgd"), ("learning-rate-init", "1e200"), ("hidden", "")];
        let found = validated("mlp-regressor", &options, rows.clone(), &rows).unwrap();
        for fold in ["fold 1: the loss is not finite", "fold 2: the loss is not finite"] {
            assert!(found.remarks.iter().any(|remark| remark.starts_with(fold)), "{:?}", found.remarks);
        }
    }

    #[test]
    fn targets_that_are_not_finite_are_named_by_row() {
        let said =
            validated("gaussian-nb", &[], vec![1.0; 6], &[0.0, 0.0, 1.0, f64::NAN, 1.0, 1.0]).unwrap_err();
        assert!(said.to_string().contains("the target of row 3 (counted from 0) is NaN"), "{said}");
    }

    #[test]
    fn rows_of_a_fold_have_no_say_in_what_the_others_are_smoothed_by() {
        let targets: Vec<f64> = (0..40).map(|row| f64::from(row % 2)).collect();
        let held = folds::stratified(&targets, 2, 0)[0] as usize;
        // One row is so far away that its probability is 0 or 1, and without it variances are much smaller than with it.
        let loss = |far: f64| {
            let mut rows: Vec<f64> =
                (0..40).map(|row| f64::from(row % 2) + f64::from(row / 2) * 0.1).collect();
            rows[0] = far;
            let options = [("var-smoothing", "1e-3")];
            let found = validated("gaussian-nb", &options, rows, &targets).unwrap();
            found.scores.iter().find(|(name, _)| *name == "log_loss").unwrap().1[held].unwrap()
        };
        assert_eq!(loss(1e4), loss(2e4));
    }

    #[test]
    fn means_and_spreads_are_of_the_folds_that_have_the_score() {
        assert_eq!(CrossValidation::mean_and_spread(&[Some(1.0), None, Some(3.0)]), Some((2.0, 1.0)));
        assert_eq!(CrossValidation::mean_and_spread(&[None]), None);
    }
}
