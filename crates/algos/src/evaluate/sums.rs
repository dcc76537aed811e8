//! What a round of an evaluation is told, and what it sums up.
//!
//! Comes in: a model, a target for each row, which rows count. Goes out: [`Sums`], of which every number is either a count or a sum
//! in the order of the rows, merged along the fixed tree.

use super::Unusable;
use super::curve::Levels;
use crate::answers::{BadNumber, further, not_finite};
use crate::input::first_of_chunk;
use crate::kernels::{Level, elementwise};
use crate::learner::{Answer, LearnerError, Model, Question};
use crate::registry::sent::{AskedChunk, SentModel, numbers};
use qjam::{Csr, Ctx, Dense, Reduce};

/// What a round is told.
#[derive(Clone, Debug, qjam::Wire)]
pub(crate) struct Request {
    pub(crate) model: SentModel,
    /// A target for each row; empty where there are none.
    pub(crate) targets: Vec<f64>,
    /// The fold of each row; empty if all rows count.
    pub(crate) folds: Vec<u32>,
    /// The fold whose rows count.
    pub(crate) fold: u32,
    /// Chunks of the data set, which are as equal as can be.
    pub(crate) chunks: u64,
    /// Rows of the data set.
    pub(crate) rows: u64,
    /// Classes in order, with those that the data alone has; empty for other models.
    pub(crate) classes: Vec<f64>,
    /// Classes of the model, in the order of its answers.
    pub(crate) known: Vec<f64>,
    /// Whether predictions are compared; if not, only curves are wanted.
    pub(crate) compares: bool,
    /// Whether the model has probabilities.
    pub(crate) has_probabilities: bool,
    /// Classes whose curves are wanted, as indices into `known`.
    pub(crate) curves: Vec<u32>,
    /// Rows whose predictions are wanted one by one, in order.
    pub(crate) sampled: Vec<u64>,
    /// Whether the sampled rows themselves are wanted.
    pub(crate) keeps_rows: bool,
    /// Whether rows are compared with what the model makes of them.
    pub(crate) reconstructs: bool,
}

impl Request {
    /// One that asks nothing.
    pub(crate) fn new(model: &dyn Model, rows: u64, chunks: usize) -> Request {
        Request {
            model: SentModel::of(model),
            targets: vec![],
            folds: vec![],
            fold: 0,
            chunks: chunks as u64,
            rows,
            classes: vec![],
            known: vec![],
            compares: true,
            has_probabilities: false,
            curves: vec![],
            sampled: vec![],
            keeps_rows: false,
            reconstructs: false,
        }
    }

    /// The first row of a chunk.
    fn start(&self, chunk: u32) -> u64 {
        first_of_chunk(self.rows, self.chunks, u64::from(chunk))
    }

    fn counts(&self, row: u64) -> bool {
        self.folds.is_empty() || self.folds[row as usize] == self.fold
    }
}

/// What a round gives.
#[derive(Clone, Debug, PartialEq, qjam::Wire)]
pub(crate) struct Sums {
    /// Rows seen, whether they count or not.
    pub(crate) rows: u64,
    /// Rows that count.
    pub(crate) counted: u64,
    /// Line by line: rows of a class that are predicted to be of another. For clusterings one line, the rows of each cluster.
    pub(crate) confusion: Vec<u64>,
    /// Sum of the negative logarithms of the probabilities of the classes that rows are of.
    pub(crate) log_loss: f64,
    /// Sums of squared and absolute differences.
    pub(crate) squares: f64,
    pub(crate) absolutes: f64,
    /// For each wanted curve.
    pub(crate) levels: Vec<Levels>,
    /// Predictions of the sampled rows, and the rows.
    pub(crate) sampled: Vec<f64>,
    pub(crate) sampled_rows: Vec<f64>,
    /// The first number that is not finite.
    pub(crate) bad: BadNumber,
    /// Why a chunk has no answers.
    pub(crate) wrong: Option<String>,
}

impl Reduce for Sums {
    fn merge(&mut self, right: Self) {
        self.bad = self.bad.or(further(right.bad, self.rows));
        self.wrong = self.wrong.take().or(right.wrong);
        self.rows += right.rows;
        self.counted += right.counted;
        if self.confusion.len() < right.confusion.len() {
            self.confusion.resize(right.confusion.len(), 0);
        }
        self.confusion.iter_mut().zip(right.confusion).for_each(|(left, right)| *left += right);
        self.log_loss += right.log_loss;
        self.squares += right.squares;
        self.absolutes += right.absolutes;
        self.levels.iter_mut().zip(right.levels).for_each(|(left, right)| left.merge(right));
        self.sampled.extend(right.sampled);
        self.sampled_rows.extend(right.sampled_rows);
    }
}

/// What there is to sum up of the rows of a chunk.
#[qjam::map]
pub(crate) fn sums<C: AskedChunk>(request: &Request, x: &C, ctx: &Ctx) -> Sums {
    let mut sums = Sums {
        rows: x.count() as u64,
        counted: 0,
        confusion: vec![0; request.classes.len() * request.classes.len()],
        log_loss: 0.0,
        squares: 0.0,
        absolutes: 0.0,
        levels: vec![Levels::default(); request.curves.len()],
        sampled: vec![],
        sampled_rows: vec![],
        bad: not_finite(x),
        wrong: None,
    };
    if sums.bad.is_none()
        && let Err(e) = sums.add(request, x, request.start(ctx.chunk()))
    {
        sums.wrong = Some(e.to_string());
    }
    sums
}
qjam::register!(sums::<Dense<f32>>, sums::<Dense<f64>>, sums::<Csr<f32>>, sums::<Csr<f64>>);

impl Sums {
    fn add<C: AskedChunk>(&mut self, request: &Request, x: &C, first: u64) -> Result<(), LearnerError> {
        let model = &*request.model.model()?;
        self.counted = (first..first + self.rows).filter(|row| request.counts(*row)).count() as u64;
        if request.reconstructs {
            self.add_differences(x, &x.answers(model, Question::Reconstruct)?);
            return Ok(());
        }
        if request.compares {
            let (predictions, width) = numbers(x.answers(model, Question::Predict)?);
            if width != 1 || predictions.len() as u64 != self.rows {
                return Err(LearnerError::unusable(Unusable::Outputs { outputs: width }));
            }
            match (request.classes.is_empty(), request.targets.is_empty()) {
                (false, _) => self.add_classes(request, first, &predictions),
                (true, false) => self.add_values(request, first, &predictions),
                (true, true) => self.add_clusters(&predictions),
            }
            self.add_sampled(request, x, first, &predictions);
        }
        if request.has_probabilities || !request.curves.is_empty() {
            let question =
                if request.has_probabilities { Question::Probabilities } else { Question::Decisions };
            let (scores, width) = numbers(x.answers(model, question)?);
            self.add_scores(request, first, &scores, width);
        }
        Ok(())
    }

    fn add_classes(&mut self, request: &Request, first: u64, predictions: &[f64]) {
        let index = |class: f64| request.classes.binary_search_by(|known| known.total_cmp(&class));
        for (row, predicted) in (first..).zip(predictions) {
            if request.counts(row)
                && let (Ok(is), Ok(said)) = (index(request.targets[row as usize]), index(*predicted + 0.0))
            {
                self.confusion[is * request.classes.len() + said] += 1;
            }
        }
    }

    fn add_values(&mut self, request: &Request, first: u64, predictions: &[f64]) {
        for (row, predicted) in (first..).zip(predictions).filter(|(row, _)| request.counts(*row)) {
            let difference = request.targets[row as usize] - predicted;
            self.squares += difference * difference;
            self.absolutes += difference.abs();
        }
    }

    fn add_clusters(&mut self, labels: &[f64]) {
        for label in labels {
            let label = *label as usize;
            if label >= self.confusion.len() {
                self.confusion.resize(label + 1, 0);
            }
            self.confusion[label] += 1;
        }
    }

    fn add_sampled<C: AskedChunk>(&mut self, request: &Request, x: &C, first: u64, predictions: &[f64]) {
        let from = request.sampled.partition_point(|row| *row < first);
        for row in request.sampled[from..].iter().take_while(|row| **row < first + self.rows) {
            let at = (row - first) as usize;
            self.sampled.push(predictions[at]);
            if request.keeps_rows {
                let start = self.sampled_rows.len();
                self.sampled_rows.resize(start + x.width(), 0.0);
                x.write(at, &mut self.sampled_rows[start..]);
            }
        }
    }

    fn add_scores(&mut self, request: &Request, first: u64, scores: &[f64], width: usize) {
        let known = |row: u64| {
            let target = request.targets[row as usize];
            request.known.iter().position(|class| *class == target)
        };
        let rows = || (first..).zip(scores.chunks_exact(width)).filter(|(row, _)| request.counts(*row));
        if request.compares && request.has_probabilities {
            // As scikit-learn clips them.
            let clipped = |(row, probabilities): (u64, &[f64])| {
                let of_class = known(row).map_or(1.0, |class| probabilities[class]);
                of_class.clamp(f64::EPSILON, 1.0 - f64::EPSILON)
            };
            let mut logarithms: Vec<f64> = rows().map(clipped).collect();
            elementwise::log(Level::best(), &mut logarithms);
            logarithms.iter().for_each(|logarithm| self.log_loss -= logarithm);
        }
        for (levels, class) in self.levels.iter_mut().zip(&request.curves) {
            let class = *class as usize;
            // Two classes have one decision value, which is for the second.
            let score = |scores: &[f64]| if width == 1 { scores[0] } else { scores[class] };
            *levels =
                Levels::of(rows().map(|(row, scores)| (score(scores), known(row) == Some(class))).collect());
        }
    }

    fn add_differences<C: AskedChunk>(&mut self, x: &C, made: &Answer) {
        let mut full = vec![0.0; x.width()];
        let mut add = |row: usize, made: &mut dyn Iterator<Item = f64>| {
            full.fill(0.0);
            x.write(row, &mut full);
            self.squares += full.iter().zip(made).map(|(is, made)| (is - made) * (is - made)).sum::<f64>();
        };
        let width = x.width().max(1);
        match made {
            Answer::Singles(values, _) => {
                values
                    .chunks_exact(width)
                    .enumerate()
                    .for_each(|(row, made)| add(row, &mut made.iter().map(|v| f64::from(*v))));
            }
            Answer::Doubles(values, _) => {
                values
                    .chunks_exact(width)
                    .enumerate()
                    .for_each(|(row, made)| add(row, &mut made.iter().copied()));
            }
            _ => {}
        }
    }
}
