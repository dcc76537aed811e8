//! How good a model is on rows that have answers: scores of classifiers, regressions, clusterings and decompositions.
//!
//! Comes in: any [`Model`], rows, a target for each row. Goes out: an [`Evaluation`]. The rows are read in rounds and never kept, so
//! they may be larger than memory; targets are one number a row at the master. What a model can be asked decides what is measured:
//! one with classes is a classifier, one of a learner with other targets a regression; of the others those that predict are
//! clusterings, and those that give rows back are decompositions. A new learner needs nothing for this.
//!
//! ```
//! use qjam::{DataSet, Master, Rows};
//! use qjam_algos::bayes::gaussian::{Params, fit};
//! use qjam_algos::evaluate::{Options, evaluate};
//!
//! let (master, y) = (Master::connect("local:1")?, [0.0, 0.0, 1.0, 1.0]);
//! let rows = DataSet::dense(vec![0.0, 0.2, 5.0, 5.2], 1)?;
//! let model = fit(&master, &Params::default(), &rows, &y, None, None)?.model;
//! let found = evaluate(&master, &model, &Rows::from(&rows), &Options { targets: Some(&y), ..Options::default() })?;
//! assert_eq!(found.score("accuracy"), Some(1.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod cross;
pub mod folds;

mod curve;
mod silhouette;
mod sums;

pub use curve::Curve;

use crate::clustering::kmeans::parts;
use crate::input::Problem;
use crate::learner::{About, Answer, LearnerError, Model, Question};
use crate::moments::{Scatter, variances};
use crate::options::Target;
use crate::registry;
use crate::registry::sent::{self, AskedChunk};
use qjam::{DataSet, Master, Rng, Rows, with_rows};
use std::collections::BTreeSet;
use sums::{Request, Sums, sums};
use thiserror::Error;

/// What errors call it.
const NAME: &str = "evaluate";
/// Most classes whose confusions are counted.
pub const CLASSES_MAX: usize = 2_000;
/// Bytes that the curves of one round may take at the master.
const CURVE_BYTES_MAX: u64 = 256 << 20;
/// Bytes of a score and its counts.
const LEVEL_BYTES: u64 = 24;
/// Bytes that sampled rows may take at the master.
const SAMPLE_BYTES_MAX: u64 = 256 << 20;

/// What is measured on.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// A target for each row; models of learners without a target need none.
    pub targets: Option<&'a [f64]>,
    /// The fold of each row, and the fold whose rows count; all rows without it.
    pub held: Option<(&'a [u32], u32)>,
    /// How many rows silhouettes and pictures are made of at most.
    pub sample: u64,
    /// Chooses these rows.
    pub seed: u64,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options { targets: None, held: None, sample: 2_000, seed: 0 }
    }
}

/// Scores of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// Rows that were counted.
    pub rows: u64,
    /// Names for programs, and scores; `None` where there is none, for which a remark has the reason.
    pub scores: Vec<(&'static str, Option<f64>)>,
    /// What belongs to models of this kind.
    pub detail: Detail,
    /// What the user should know of these scores.
    pub remarks: Vec<String>,
}

impl Evaluation {
    /// The score of this name, if there is one.
    pub fn score(&self, name: &str) -> Option<f64> {
        self.scores.iter().find(|(known, _)| *known == name).and_then(|(_, score)| *score)
    }
}

/// What is known besides the scores.
#[derive(Clone, Debug, PartialEq)]
pub enum Detail {
    /// Of a classifier.
    Classes {
        /// Classes that rows are of or are predicted to be of, in order.
        classes: Vec<ClassScores>,
        /// Line by line: rows of one class that are predicted to be of another.
        confusion: Vec<u64>,
        /// ROC curves, if the model has scores.
        curves: Vec<Curve>,
    },
    /// Of a regression: true and predicted values of some rows.
    Values(Vec<(f64, f64)>),
    /// Of a clustering: the rows of each cluster.
    Clusters(Vec<u64>),
    /// Of a decomposition.
    Decomposition,
}

/// How well one class is told from the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassScores {
    /// What targets call it.
    pub class: f64,
    /// Share of the rows predicted to be of it that are.
    pub precision: f64,
    /// Share of its rows that are predicted to be of it.
    pub recall: f64,
    /// Their harmonic mean.
    pub f1: f64,
    /// Its rows.
    pub rows: u64,
}

/// Why there are no scores.
#[derive(Clone, Debug, PartialEq, Error)]
enum Unusable {
    #[error("a model of kind {kind} answers nothing that could be measured")]
    NothingToMeasure { kind: &'static str },
    #[error("its rows need targets to be compared with")]
    NoTargets,
    #[error("{targets} targets for {rows} rows; there must be one for each")]
    Targets { targets: usize, rows: u64 },
    #[error(
        "the target of row {row} (counted from 0) is {value}; the model tells classes apart, which are whole numbers"
    )]
    NoClass { row: usize, value: f64 },
    #[error("the target of row {row} (counted from 0) is {value}; targets must be finite")]
    NotFinite { row: usize, value: f64 },
    #[error(
        "there are {found} classes, and confusions are counted of {CLASSES_MAX} at most; are the targets classes?"
    )]
    Classes { found: usize },
    #[error(
        "the model gives {outputs} numbers for each row, and scores are of models that give one; fit a model for each of them"
    )]
    Outputs { outputs: usize },
    #[error("there are no rows to measure on")]
    NoRows,
    #[error("{0}")]
    Answer(String),
}

/// Measures a model on all rows, or on those of one fold.
pub fn evaluate(
    master: &Master,
    model: &dyn Model,
    rows: &Rows,
    options: &Options<'_>,
) -> Result<Evaluation, LearnerError> {
    let found = rows.cols().map_err(qjam::Error::from)?;
    if found != model.columns() {
        let problem = Problem::Columns { found, expected: model.columns() };
        return Err(problem.of(NAME).into());
    }
    let kind = model.kind();
    let target = registry::of_kind(kind).map_or(Target::None, |learner| learner.table().target);
    let known = model.classes();
    let about = Measured { master, model, rows, options };
    match (known.is_empty(), target) {
        (false, _) => about.classes(&known),
        (true, Target::Values | Target::Classes) => about.values(),
        (true, Target::None) if about.answers(Question::Predict) => about.clusters(),
        (true, Target::None) if about.answers(Question::Reconstruct) => about.decomposition(),
        _ => Err(LearnerError::unusable(Unusable::NothingToMeasure { kind })),
    }
}

struct Measured<'a> {
    master: &'a Master,
    model: &'a dyn Model,
    rows: &'a Rows,
    options: &'a Options<'a>,
}

impl Measured<'_> {
    /// Whether the model answers a question; a row of zeros finds out.
    fn answers(&self, question: Question) -> bool {
        let zeros = vec![0.0; self.model.columns()];
        !matches!(self.model.answer_here(question, &zeros), Err(LearnerError::NoAnswer { .. }))
    }

    fn targets(&self) -> Result<Vec<f64>, LearnerError> {
        let wrong = |e: Unusable| LearnerError::unusable(e);
        let (targets, rows) =
            (self.options.targets.ok_or_else(|| wrong(Unusable::NoTargets))?, self.rows.records());
        if targets.len() as u64 != rows {
            return Err(wrong(Unusable::Targets { targets: targets.len(), rows }));
        }
        match targets.iter().position(|target| !target.is_finite()) {
            Some(row) => Err(wrong(Unusable::NotFinite { row, value: targets[row] })),
            // Zeros of both signs are one class.
            None => Ok(targets.iter().map(|target| target + 0.0).collect()),
        }
    }

    fn request(&self) -> Request {
        let mut request = Request::new(self.model, self.rows.records(), parts(self.rows.records()));
        if let Some((folds, fold)) = self.options.held {
            (request.folds, request.fold) = (folds.to_vec(), fold);
        }
        request
    }

    fn round(&self, request: &mut Request) -> Result<Sums, LearnerError> {
        let sums = with_rows!(self.rows, data => round(self.master, request, data))?;
        if let Some((row, column, value)) = sums.bad {
            return Err(Problem::NotFinite { row, column, value }.of(NAME).into());
        }
        match sums.wrong {
            Some(wrong) => Err(LearnerError::unusable(Unusable::Answer(wrong))),
            None if sums.counted == 0 => Err(LearnerError::unusable(Unusable::NoRows)),
            None => Ok(sums),
        }
    }

    /// Rows by which a picture or a silhouette is made, in order.
    fn sample(&self, most: u64) -> Vec<u64> {
        let counts = |row: &u64| self.options.held.is_none_or(|(folds, fold)| folds[*row as usize] == fold);
        let rows = self.rows.records();
        let most = most.min(self.options.sample);
        if rows <= most {
            return (0..rows).filter(counts).collect();
        }
        let (mut random, mut chosen) = (Rng::keyed(self.options.seed, 0, 0), BTreeSet::new());
        while (chosen.len() as u64) < most {
            chosen.insert(random.below(rows));
        }
        chosen.into_iter().filter(counts).collect()
    }

    fn classes(&self, known: &[f64]) -> Result<Evaluation, LearnerError> {
        let targets = self.targets()?;
        if let Some(row) = targets.iter().position(|target| target.fract() != 0.0) {
            return Err(LearnerError::unusable(Unusable::NoClass { row, value: targets[row] }));
        }
        let mut all: Vec<f64> =
            known.iter().map(|class| class + 0.0).chain(targets.iter().copied()).collect();
        all.sort_unstable_by(f64::total_cmp);
        all.dedup();
        if all.len() > CLASSES_MAX {
            return Err(LearnerError::unusable(Unusable::Classes { found: all.len() }));
        }
        let mut remarks = Vec::new();
        let (has_probabilities, has_decisions) =
            (self.answers(Question::Probabilities), self.answers(Question::Decisions));
        let counted = |row: &usize| self.options.held.is_none_or(|(folds, fold)| folds[*row] == fold);
        let strangers =
            (0..targets.len()).filter(counted).filter(|row| !known.contains(&targets[*row])).count();
        // Two classes have one curve, that of the second.
        let wanted: Vec<u32> = match (known.len(), strangers, has_probabilities || has_decisions) {
            (0 | 1, ..) | (.., false) => vec![],
            (_, 1.., _) => vec![],
            (2, ..) => vec![1],
            (k, ..) => (0..k as u32).collect(),
        };
        let at_once = (CURVE_BYTES_MAX / (LEVEL_BYTES * self.rows.records()).max(1)).max(1) as usize;
        let mut batches = wanted.chunks(at_once);
        let mut request = Request {
            targets,
            classes: all.clone(),
            known: known.to_vec(),
            has_probabilities,
            curves: batches.next().unwrap_or_default().to_vec(),
            ..self.request()
        };
        let first = self.round(&mut request)?;
        let drawn = |request: &Request, sums: &Sums| -> Vec<Curve> {
            let of = |(class, levels): (&u32, &curve::Levels)| levels.curve(known[*class as usize]);
            request.curves.iter().zip(&sums.levels).map(of).collect()
        };
        let mut curves = drawn(&request, &first);
        for batch in batches {
            (request.curves, request.compares) = (batch.to_vec(), false);
            let more = self.round(&mut request)?;
            curves.extend(drawn(&request, &more));
        }
        let (classes, confusion) = scores_of_classes(&all, &first.confusion);
        let right: u64 = (0..classes.len()).map(|at| confusion[at * classes.len() + at]).sum();
        let mean = |number: fn(&ClassScores) -> f64| {
            Some(classes.iter().map(number).sum::<f64>() / classes.len() as f64)
        };
        let mut scores = vec![
            ("accuracy", Some(right as f64 / first.counted as f64)),
            ("precision_macro", mean(|class| class.precision)),
            ("recall_macro", mean(|class| class.recall)),
            ("f1_macro", mean(|class| class.f1)),
        ];
        if strangers > 0 {
            let rows = if strangers == 1 { "1 row is".into() } else { format!("{strangers} rows are") };
            remarks.push(format!(
                "{rows} of classes that the model does not know; so there is no log loss and no ROC AUC"
            ));
        }
        if has_probabilities {
            scores.push(("log_loss", (strangers == 0).then(|| first.log_loss / first.counted as f64)));
        }
        if !wanted.is_empty() || strangers > 0 {
            let areas: Vec<f64> =
                curves.iter().map(|curve| curve.area).filter(|area| area.is_finite()).collect();
            let absent: Vec<String> = curves
                .iter()
                .filter(|curve| curve.area.is_nan())
                .map(|curve| curve.class.to_string())
                .collect();
            if !absent.is_empty() {
                remarks.push(format!(
                    "ROC AUC leaves out what all rows are of, or none: class {}",
                    absent.join(", ")
                ));
            }
            let area = (!areas.is_empty()).then(|| areas.iter().sum::<f64>() / areas.len() as f64);
            scores.push(("roc_auc", area));
        }
        Ok(Evaluation {
            rows: first.counted,
            scores,
            detail: Detail::Classes { classes, confusion, curves },
            remarks,
        })
    }

    fn values(&self) -> Result<Evaluation, LearnerError> {
        let zeros = vec![0.0; self.model.columns()];
        let (_, outputs) = sent::numbers(self.model.answer_here(Question::Predict, &zeros)?);
        if outputs != 1 {
            return Err(LearnerError::unusable(Unusable::Outputs { outputs }));
        }
        let targets = self.targets()?;
        let sampled = self.sample(u64::MAX);
        let mut request = Request { targets, sampled, ..self.request() };
        let sums = self.round(&mut request)?;
        let counted = || {
            (0..request.rows)
                .filter(|row| request.folds.is_empty() || request.folds[*row as usize] == request.fold)
        };
        let n = sums.counted as f64;
        let mean = exact_sum(counted().map(|row| request.targets[row as usize])) / n;
        let spread = exact_sum(counted().map(|row| (request.targets[row as usize] - mean).powi(2)));
        // As scikit-learn has it where all targets are equal.
        let r2 = match (spread > 0.0, sums.squares > 0.0) {
            (true, _) => 1.0 - sums.squares / spread,
            (false, true) => 0.0,
            (false, false) => 1.0,
        };
        let pairs =
            request.sampled.iter().map(|row| request.targets[*row as usize]).zip(sums.sampled).collect();
        let mut remarks = vec![];
        if spread == 0.0 {
            remarks.push("all targets are equal, so R² says nothing".into());
        }
        let mean_squared = sums.squares / n;
        let scores = vec![
            ("r2", (sums.counted > 1).then_some(r2)),
            ("mean_squared_error", Some(mean_squared)),
            ("root_mean_squared_error", Some(mean_squared.sqrt())),
            ("mean_absolute_error", Some(sums.absolutes / n)),
        ];
        Ok(Evaluation { rows: sums.counted, scores, detail: Detail::Values(pairs), remarks })
    }

    fn clusters(&self) -> Result<Evaluation, LearnerError> {
        let columns = self.model.columns();
        let sampled = self.sample((SAMPLE_BYTES_MAX / (8 * columns as u64).max(1)).max(2));
        let mut request = Request { sampled, keeps_rows: true, ..self.request() };
        let sums = self.round(&mut request)?;
        let mut scores = Vec::new();
        match self.model.answer(Question::Score, &About::all(self.master, self.rows)) {
            Ok(Answer::Number(score)) => scores.push((self.model.score_name(), Some(score))),
            Ok(_) | Err(LearnerError::NoAnswer { .. }) => {}
            Err(e) => return Err(e),
        }
        let mut remarks = Vec::new();
        let silhouette =
            silhouette::silhouette(&self.model.compared(sums.sampled_rows), columns, &sums.sampled);
        match silhouette {
            None => {
                remarks.push("a silhouette needs at least two clusters, and more rows than clusters".into())
            }
            Some(_) if (request.sampled.len() as u64) < sums.counted => remarks.push(format!(
                "the silhouette is that of {} of {} rows, which the seed {} chose",
                request.sampled.len(),
                sums.counted,
                self.options.seed
            )),
            Some(_) => {}
        }
        scores.push(("silhouette", silhouette));
        Ok(Evaluation { rows: sums.counted, scores, detail: Detail::Clusters(sums.confusion), remarks })
    }

    fn decomposition(&self) -> Result<Evaluation, LearnerError> {
        let mut request = Request { reconstructs: true, ..self.request() };
        let sums = self.round(&mut request)?;
        let spread = with_rows!(self.rows, data => spread(self.master, data))?;
        let entries = (sums.counted * self.model.columns() as u64) as f64;
        let remarks = match spread > 0.0 {
            true => vec![],
            false => vec!["all rows are equal, so there is no share to explain".into()],
        };
        let scores = vec![
            ("explained_share", (spread > 0.0).then(|| 1.0 - sums.squares / spread)),
            ("mean_squared_error", Some(sums.squares / entries)),
        ];
        Ok(Evaluation { rows: sums.counted, scores, detail: Detail::Decomposition, remarks })
    }
}

fn round<C: AskedChunk>(
    master: &Master,
    request: &mut Request,
    data: &DataSet<C>,
) -> Result<Sums, LearnerError> {
    let data = data.partitions(request.chunks as usize).map_err(qjam::Error::from)?;
    request.chunks = data.len() as u64;
    Ok(master.run(sums::<C>, &*request, &data)?)
}

/// The sum of the squared deviations of all columns from their means.
fn spread<C: AskedChunk>(master: &Master, data: &DataSet<C>) -> Result<f64, LearnerError> {
    let data = data.partitions(parts(data.records())).map_err(qjam::Error::from)?;
    let scatter: Scatter = master.run(variances::<C>, &(), &data)?;
    Ok(scatter.products.iter().sum())
}

/// A sum that loses no digits to its length, by Neumaier's method.
fn exact_sum(numbers: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0_f64, 0.0);
    for number in numbers {
        let total: f64 = sum + number;
        lost += if sum.abs() >= number.abs() { (sum - total) + number } else { (number - total) + sum };
        sum = total;
    }
    sum + lost
}

/// Scores of the classes that occur or are predicted, and their confusions.
fn scores_of_classes(all: &[f64], confusion: &[u64]) -> (Vec<ClassScores>, Vec<u64>) {
    let k = all.len();
    let of = |at: usize| -> u64 { confusion[at * k..][..k].iter().sum() };
    let said = |at: usize| -> u64 { (0..k).map(|line| confusion[line * k + at]).sum() };
    let present: Vec<usize> = (0..k).filter(|at| of(*at) + said(*at) > 0).collect();
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let scores = |at: &usize| {
        let (right, rows, said) = (confusion[at * k + at], of(*at), said(*at));
        ClassScores {
            class: all[*at],
            precision: share(right, said),
            recall: share(right, rows),
            f1: share(2 * right, rows + said),
            rows,
        }
    };
    let left =
        present.iter().flat_map(|line| present.iter().map(move |at| confusion[line * k + at])).collect();
    (present.iter().map(scores).collect(), left)
}
