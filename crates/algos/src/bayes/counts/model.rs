//! What fitting leaves: counts, and the weights of a linear rule that follow from them.
//!
//! All three learners decide by `X Wᵀ + b` ([`Projection`]), of rows that [`Kind::Bernoulli`] has made binary.

use super::params::{Kind, Params};
use super::tally::counted;
use crate::answers::RowNumbers;
use crate::input::{InputError, Problem};
use crate::kernels::{Level, elementwise};
use crate::linear::rows::RowChunk;
use crate::models::{Format, Parts, PartsError, Tensor};
use crate::projection::Projection;
use qjam::{Csr, Ctx, DataSet, Dense, Master};

/// Classes with their counts.
#[derive(Clone, Debug, PartialEq)]
pub struct CountsModel {
    pub(super) kind: Kind,
    pub(super) columns: usize,
    pub(super) classes: Vec<f64>,
    /// Weight of the rows of each class.
    pub(super) class_count: Vec<f64>,
    /// Sums of the columns, class by class.
    pub(super) feature_count: Vec<f64>,
    pub(super) class_log_prior: Vec<f64>,
    /// Logarithms of the probabilities of the columns, class by class; the weights of [`Kind::Complement`].
    pub(super) feature_log_prob: Vec<f64>,
    /// The threshold of [`Kind::Bernoulli`].
    pub(super) binarize: Option<f64>,
}

/// How files have models of a kind.
pub fn format(kind: Kind) -> Format {
    Format { kind: kind.name(), version: 1, attributes: &[] }
}

impl CountsModel {
    /// A model of these classes, which are in order, that has seen no rows.
    pub fn none(kind: Kind, classes: Vec<f64>, columns: usize) -> CountsModel {
        let k = classes.len();
        CountsModel {
            kind,
            columns,
            classes,
            class_count: vec![0.0; k],
            feature_count: vec![0.0; k * columns],
            class_log_prior: vec![0.0; k],
            feature_log_prob: vec![0.0; k * columns],
            binarize: None,
        }
    }

    /// What targets call the classes, in order.
    pub fn classes(&self) -> &[f64] {
        &self.classes
    }

    /// Weight of the rows of each class.
    pub fn class_count(&self) -> &[f64] {
        &self.class_count
    }

    /// Sums of the columns, class by class.
    pub fn feature_count(&self) -> &[f64] {
        &self.feature_count
    }

    /// Logarithms of the probabilities of the columns, class by class; the weights of [`Kind::Complement`].
    pub fn feature_log_prob(&self) -> &[f64] {
        &self.feature_log_prob
    }

    /// Columns of the rows.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Finds priors and weights from the counts. `alpha` is one number, or one for each column.
    pub(super) fn weigh(&mut self, params: &Params, alpha: &[f64], prior: Option<&[f64]>) {
        self.binarize = params.binarize();
        let k = self.classes.len();
        let log = |values: &mut [f64]| elementwise::log(Level::best(), values);
        self.class_log_prior = match prior {
            Some(prior) => prior.to_vec(),
            None if params.fit_prior() => self.class_count.clone(),
            None => vec![1.0; k],
        };
        log(&mut self.class_log_prior);
        if prior.is_none() {
            let mut total = [if params.fit_prior() { self.class_count.iter().sum() } else { k as f64 }];
            log(&mut total);
            self.class_log_prior.iter_mut().for_each(|prior| *prior -= total[0]);
        }
        let alpha_of = |column: usize| alpha[if alpha.len() == 1 { 0 } else { column }];
        let counts = self.smoothed_counts(alpha_of);
        self.feature_log_prob = match self.kind {
            Kind::Multinomial => log_shares(counts, self.columns),
            Kind::Complement => complement_weights(counts, self.columns, params.norm()),
            Kind::Bernoulli => self.bernoulli_logs(counts, alpha_of),
        };
    }

    /// Counts with smoothing, of each class or, for [`Kind::Complement`], of all others.
    fn smoothed_counts(&self, alpha_of: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut all = vec![0.0; self.columns];
        for counts in self.feature_count.chunks_exact(self.columns.max(1)) {
            all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
        }
        let smoothed = |(at, count): (usize, &f64)| {
            let column = at % self.columns;
            match self.kind {
                Kind::Complement => all[column] + alpha_of(column) - count,
                _ => count + alpha_of(column),
            }
        };
        self.feature_count.iter().enumerate().map(smoothed).collect()
    }

    fn bernoulli_logs(&self, mut counts: Vec<f64>, alpha_of: impl Fn(usize) -> f64) -> Vec<f64> {
        let of = |at: usize| self.class_count[at / self.columns] + 2.0 * alpha_of(at % self.columns);
        let mut totals: Vec<f64> = (0..counts.len()).map(of).collect();
        elementwise::log(Level::best(), &mut counts);
        elementwise::log(Level::best(), &mut totals);
        counts.iter_mut().zip(totals).for_each(|(count, total)| *count -= total);
        counts
    }

    /// The linear rule, as chunks get it.
    fn rule(&self) -> Rule {
        let k = self.classes.len();
        let mut weights = self.feature_log_prob.clone();
        let mut constants = match self.kind == Kind::Complement && k > 1 {
            true => vec![0.0; k],
            false => self.class_log_prior.clone(),
        };
        if self.kind == Kind::Bernoulli {
            // A column that is not there adds log(1 − p).
            let mut absent = weights.clone();
            elementwise::exp(Level::best(), &mut absent);
            absent.iter_mut().for_each(|p| *p = 1.0 - *p);
            elementwise::log(Level::best(), &mut absent);
            weights.iter_mut().zip(&absent).for_each(|(weight, absent)| *weight -= absent);
            for (constant, absent) in constants.iter_mut().zip(absent.chunks_exact(self.columns.max(1))) {
                *constant += absent.iter().sum::<f64>();
            }
        }
        Rule { scores: Projection::new(&weights, vec![], constants), binarize: self.binarize }
    }

    /// The logarithm of the joint probability of each row of a data set and each class, up to a constant of the row.
    pub fn joint<C: RowChunk>(&self, master: &Master, data: &DataSet<C>) -> Result<Vec<f64>, InputError> {
        self.must_fit(&data.chunk(0).map_err(qjam::Error::from)?)?;
        self.sound(master.run(joint::<C>, &self.rule(), data)?)
    }

    /// The same for one chunk, on this thread.
    pub fn joint_of<C: RowChunk>(&self, x: &C) -> Result<Vec<f64>, InputError> {
        self.must_fit(x)?;
        self.sound(self.rule().apply(x))
    }

    fn sound(&self, found: RowNumbers) -> Result<Vec<f64>, InputError> {
        match found.bad {
            Some((row, column, value)) => Err(Problem::NotFinite { row, column, value }.of(self.kind.name())),
            None => Ok(found.values),
        }
    }

    fn must_fit<C: RowChunk>(&self, x: &C) -> Result<(), InputError> {
        if x.width() != self.columns {
            return Err(Problem::Columns { found: x.width(), expected: self.columns }.of(self.kind.name()));
        }
        must_keep_zeros::<C>(self.kind, self.binarize)
    }

    /// What it consists of.
    pub fn parts(&self) -> Parts {
        let (k, shape) = (self.classes.len(), [self.classes.len(), self.columns]);
        let binarize: Vec<f64> = self.binarize.into_iter().collect();
        let tensors = vec![
            Tensor::new("feature_count", &shape, &self.feature_count),
            Tensor::new("feature_log_prob", &shape, &self.feature_log_prob),
            Tensor::new("class_count", &[k], &self.class_count),
            Tensor::new("class_log_prior", &[k], &self.class_log_prior),
            Tensor::new("classes", &[k], &self.classes),
            Tensor::new("binarize", &[binarize.len()], &binarize),
        ];
        Parts::new(format(self.kind), tensors)
    }

    /// A model of a kind of these parts.
    pub fn of_parts(kind: Kind, parts: &Parts) -> Result<CountsModel, PartsError> {
        let ([k, columns], feature_count) = parts.tensor("feature_count")?;
        let (shape, feature_log_prob) = parts.tensor::<2>("feature_log_prob")?;
        let ([_], class_count) = parts.tensor("class_count")?;
        let ([_], class_log_prior) = parts.tensor("class_log_prior")?;
        let ([_], classes) = parts.tensor("classes")?;
        let ([_], binarize) = parts.tensor("binarize")?;
        let fit =
            shape == [k, columns] && [classes.len(), class_count.len(), class_log_prior.len()] == [k; 3];
        let in_order = classes.windows(2).all(|pair| pair[0] < pair[1]);
        if !(fit && in_order && k > 0 && binarize.len() <= usize::from(kind == Kind::Bernoulli)) {
            return Err(PartsError::inconsistent("its tensors do not belong to one model"));
        }
        let binarize = binarize.first().copied();
        Ok(CountsModel {
            kind,
            columns,
            classes,
            class_count,
            feature_count,
            class_log_prior,
            feature_log_prob,
            binarize,
        })
    }
}

/// Refuses a threshold that would make ones of the zeros that sparse rows leave out.
pub(super) fn must_keep_zeros<C: RowChunk>(kind: Kind, binarize: Option<f64>) -> Result<(), InputError> {
    match binarize {
        Some(threshold) if !C::IN_FULL && threshold < 0.0 => {
            Err(Problem::Threshold { threshold }.of(kind.name()))
        }
        _ => Ok(()),
    }
}

/// The logarithms of the shares of each count of a class.
fn log_shares(mut counts: Vec<f64>, columns: usize) -> Vec<f64> {
    let mut totals: Vec<f64> = counts.chunks_exact(columns.max(1)).map(|row| row.iter().sum()).collect();
    elementwise::log(Level::best(), &mut counts);
    elementwise::log(Level::best(), &mut totals);
    for (row, total) in counts.chunks_exact_mut(columns.max(1)).zip(totals) {
        row.iter_mut().for_each(|count| *count -= total);
    }
    counts
}

/// The weights of complements: minus the logarithms of the shares, or these scaled to add up to 1.
fn complement_weights(mut counts: Vec<f64>, columns: usize, norm: bool) -> Vec<f64> {
    for row in counts.chunks_exact_mut(columns.max(1)) {
        let total: f64 = row.iter().sum();
        row.iter_mut().for_each(|count| *count /= total);
    }
    elementwise::log(Level::best(), &mut counts);
    for row in counts.chunks_exact_mut(columns.max(1)) {
        let scale = if norm { 1.0 / row.iter().sum::<f64>() } else { -1.0 };
        row.iter_mut().for_each(|log| *log *= scale);
    }
    counts
}

/// A linear rule, and what numbers it is for.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Rule {
    scores: Projection,
    binarize: Option<f64>,
}

impl Rule {
    fn apply<C: RowChunk>(&self, x: &C) -> RowNumbers {
        self.scores.apply(x, |value| counted(value, self.binarize))
    }
}

/// The joint probabilities of the rows of a chunk.
#[qjam::map]
pub fn joint<C: RowChunk>(rule: &Rule, x: &C, _: &Ctx) -> RowNumbers {
    rule.apply(x)
}
qjam::register!(joint::<Dense<f32>>, joint::<Dense<f64>>, joint::<Csr<f32>>, joint::<Csr<f64>>);
