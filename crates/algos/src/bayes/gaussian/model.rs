//! What fitting leaves: of each class its share, and the mean and variance of each column.

use super::NAME;
use crate::answers::{RowNumbers, likeliest};
use crate::input::{InputError, Problem};
use crate::kernels::nearest::Real;
use crate::kernels::{Level, elementwise};
use crate::models::{Format, Parts, PartsError, Tensor};
use qjam::{DataSet, Dense, Master};
use std::f64::consts::PI;

/// How files have this model.
pub const FORMAT: Format = Format { kind: NAME, version: 1, attributes: &[] };

/// Classes and their normal distributions.
#[derive(Clone, Debug, PartialEq)]
pub struct GaussianModel {
    classes: Vec<f64>,
    counts: Vec<f64>,
    priors: Vec<f64>,
    epsilon: f64,
    columns: usize,
    /// Class by class.
    means: Vec<f64>,
    variances: Vec<f64>,
}

impl GaussianModel {
    /// A model of these classes, which are in order, that has seen no rows.
    pub fn none(classes: Vec<f64>, columns: usize) -> GaussianModel {
        let k = classes.len();
        GaussianModel {
            classes,
            counts: vec![0.0; k],
            priors: vec![0.0; k],
            epsilon: 0.0,
            columns,
            means: vec![0.0; k * columns],
            variances: vec![0.0; k * columns],
        }
    }

    pub(super) fn with(
        self,
        counts: Vec<f64>,
        priors: Vec<f64>,
        epsilon: f64,
        means: Vec<f64>,
        variances: Vec<f64>,
    ) -> GaussianModel {
        GaussianModel { counts, priors, epsilon, means, variances, ..self }
    }

    /// What targets call the classes, in order.
    pub fn classes(&self) -> &[f64] {
        &self.classes
    }

    /// Weight of the rows of each class.
    pub fn counts(&self) -> &[f64] {
        &self.counts
    }

    /// Probability of each class before a row is seen.
    pub fn priors(&self) -> &[f64] {
        &self.priors
    }

    /// What was added to all variances.
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// Columns of the rows.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Means of the columns of a class.
    pub fn mean(&self, class: usize) -> &[f64] {
        &self.means[class * self.columns..][..self.columns]
    }

    /// Variances of the columns of a class, smoothed.
    pub fn variance(&self, class: usize) -> &[f64] {
        &self.variances[class * self.columns..][..self.columns]
    }

    /// The class of each of some row-major rows, as targets call it.
    pub fn predict(&self, rows: &[f64]) -> Vec<f64> {
        likeliest(&self.densities().joint(rows.chunks_exact(self.columns.max(1))), &self.classes)
    }

    /// The logarithm of the joint probability of each row of a data set and each class.
    pub fn joint_log_probabilities<T: Real>(
        &self,
        master: &Master,
        data: &DataSet<Dense<T>>,
    ) -> Result<Vec<f64>, InputError> {
        self.must_fit(&data.chunk(0).map_err(qjam::Error::from)?)?;
        sound(master.run(joint::<T>, &self.densities(), data)?)
    }

    /// The same for one chunk, on this thread.
    pub fn joint_log_probabilities_of<T: Real>(&self, x: &Dense<T>) -> Result<Vec<f64>, InputError> {
        self.must_fit(x)?;
        sound(joint(&self.densities(), x))
    }

    fn must_fit<T: Real>(&self, x: &Dense<T>) -> Result<(), InputError> {
        match x.cols() == self.columns {
            true => Ok(()),
            false => Err(Problem::Columns { found: x.cols(), expected: self.columns }.of(NAME)),
        }
    }

    /// What it consists of.
    pub fn parts(&self) -> Parts {
        let (k, shape) = (self.classes.len(), [self.classes.len(), self.columns]);
        let tensors = vec![
            Tensor::new("theta", &shape, &self.means),
            Tensor::new("var", &shape, &self.variances),
            Tensor::new("class_count", &[k], &self.counts),
            Tensor::new("class_prior", &[k], &self.priors),
            Tensor::new("epsilon", &[1], &[self.epsilon]),
            Tensor::new("classes", &[k], &self.classes),
        ];
        Parts::new(FORMAT, tensors)
    }

    /// A model of these parts.
    pub fn of_parts(parts: &Parts) -> Result<GaussianModel, PartsError> {
        let ([k, columns], means) = parts.tensor("theta")?;
        let (shape, variances) = parts.tensor::<2>("var")?;
        let ([_], classes) = parts.tensor("classes")?;
        let ([_], counts) = parts.tensor("class_count")?;
        let ([_], priors) = parts.tensor("class_prior")?;
        let ([_], epsilon) = parts.tensor("epsilon")?;
        let fit = shape == [k, columns] && [classes.len(), counts.len(), priors.len()] == [k; 3];
        let in_order = classes.windows(2).all(|pair| pair[0] < pair[1]);
        match epsilon[..] {
            [epsilon] if fit && in_order && k > 0 => {
                Ok(GaussianModel { classes, counts, priors, epsilon, columns, means, variances })
            }
            _ => Err(PartsError::inconsistent("its tensors do not belong to one model")),
        }
    }

    fn densities(&self) -> Densities {
        let mut logs: Vec<f64> = self.variances.iter().map(|variance| 2.0 * PI * variance).collect();
        elementwise::log(Level::best(), &mut logs);
        let mut constants = self.priors.clone();
        elementwise::log(Level::best(), &mut constants);
        for (class, constant) in constants.iter_mut().enumerate() {
            *constant -= 0.5 * logs[class * self.columns..][..self.columns].iter().sum::<f64>();
        }
        Densities { constants, means: self.means.clone(), variances: self.variances.clone() }
    }
}

fn sound(found: RowNumbers) -> Result<Vec<f64>, InputError> {
    match found.bad {
        Some((row, column, value)) => Err(Problem::NotFinite { row, column, value }.of(NAME)),
        None => Ok(found.values),
    }
}

/// What chunks need to know of a model.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Densities {
    /// Of each class: the logarithm of its prior, less that of what its density is scaled by.
    constants: Vec<f64>,
    means: Vec<f64>,
    variances: Vec<f64>,
}

impl Densities {
    /// The logarithm of the joint probability of each row and each class.
    fn joint<'a, T: Real>(&self, rows: impl Iterator<Item = &'a [T]>) -> Vec<f64> {
        let mut values = vec![];
        for row in rows {
            let columns = row.len();
            for (class, constant) in self.constants.iter().enumerate() {
                let means = &self.means[class * columns..][..columns];
                let variances = &self.variances[class * columns..][..columns];
                values.push(constant - 0.5 * scaled_distance(row, means, variances));
            }
        }
        values
    }
}

/// `Σ (x − mean)² / variance`, in a few sums beside each other whose order does not depend on the processor.
fn scaled_distance<T: Real>(row: &[T], means: &[f64], variances: &[f64]) -> f64 {
    const LANES: usize = 4;
    let mut sums = [0.0; LANES];
    for (j, ((value, mean), variance)) in row.iter().zip(means).zip(variances).enumerate() {
        let difference = value.to_f64() - mean;
        sums[j % LANES] += difference * difference / variance;
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

/// The joint probabilities of the rows of a chunk.
#[qjam::map]
pub fn joint<T: Real>(with: &Densities, x: &Dense<T>) -> RowNumbers {
    let bad = x.as_slice().iter().position(|value| !value.to_f64().is_finite());
    let place = |at: usize| ((at / x.cols()) as u64, (at % x.cols()) as u64, x.as_slice()[at].to_f64());
    RowNumbers { values: with.joint(x.rows_iter()), rows: x.rows() as u64, bad: bad.map(place) }
}
qjam::register!(joint::<f32>, joint::<f64>);
