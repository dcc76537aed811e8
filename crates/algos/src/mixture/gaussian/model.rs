//! What fitting leaves: the components, and how rows are measured by them.

use super::NAME;
use super::error::MixtureError;
use super::gaussians::Gaussians;
use super::params::Covariance;
use super::round::{Components, LogLikelihood, joint, joint_of, log_likelihood};
use crate::answers::RowNumbers;
use crate::linear::rows::RowChunk;
use crate::models::{Format, Parts, PartsError, Tensor};
use crate::options::Value;
use qjam::{DataSet, Master};

/// What files call the covariances that components have.
const COVARIANCE: &str = "covariance_type";
/// How files have this model.
pub const FORMAT: Format = Format { kind: NAME, version: 1, attributes: &[COVARIANCE] };

/// A mixture of normal densities.
#[derive(Clone, Debug, PartialEq)]
pub struct MixtureModel {
    gaussians: Gaussians,
}

impl MixtureModel {
    pub(super) fn new(gaussians: Gaussians) -> MixtureModel {
        MixtureModel { gaussians }
    }

    /// Columns of the rows.
    pub fn columns(&self) -> usize {
        self.gaussians.columns
    }

    /// How many components there are.
    pub fn len(&self) -> usize {
        self.gaussians.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.gaussians.is_empty()
    }

    /// Weights of the components, which add up to 1.
    pub fn weights(&self) -> &[f64] {
        &self.gaussians.weights
    }

    /// The mean of a component.
    pub fn mean(&self, component: usize) -> &[f64] {
        &self.gaussians.means[component * self.columns()..][..self.columns()]
    }

    /// What covariances components have, and all of these.
    pub fn covariances(&self) -> (Covariance, &[f64]) {
        (self.gaussians.covariance, &self.gaussians.covariances)
    }

    /// The components themselves.
    pub fn gaussians(&self) -> &Gaussians {
        &self.gaussians
    }

    /// What a round is told. Where all have one covariance, rows are measured from the mean of all components.
    fn components(&self) -> Components {
        let d = self.columns();
        let mut origin = vec![0.0; d];
        for (mean, weight) in self.gaussians.means.chunks_exact(d).zip(self.weights()) {
            origin.iter_mut().zip(mean).for_each(|(sum, mean)| *sum += weight * mean);
        }
        Components::of(&self.gaussians, &origin)
    }

    /// For each row and component the logarithm of the density, times the weight of the component.
    pub fn joint<C: RowChunk>(&self, master: &Master, data: &DataSet<C>) -> Result<Vec<f64>, MixtureError> {
        self.must_fit(&data.chunk(0).map_err(qjam::Error::from)?)?;
        sound(master.run(joint::<C>, &self.components(), data)?)
    }

    /// The same for one chunk, on this thread.
    pub fn joint_of<C: RowChunk>(&self, x: &C) -> Result<Vec<f64>, MixtureError> {
        self.must_fit(x)?;
        sound(joint_of(&self.components(), x))
    }

    /// The sum of the logarithms of the densities of all rows.
    pub fn log_likelihood<C: RowChunk>(
        &self,
        master: &Master,
        data: &DataSet<C>,
    ) -> Result<f64, MixtureError> {
        self.must_fit(&data.chunk(0).map_err(qjam::Error::from)?)?;
        let LogLikelihood { sum, bad, .. } = master.run(log_likelihood::<C>, &self.components(), data)?;
        match bad {
            Some((row, column, value)) => Err(MixtureError::NotFinite { row, column, value }),
            None => Ok(sum),
        }
    }

    fn must_fit<C: RowChunk>(&self, x: &C) -> Result<(), MixtureError> {
        match x.width() == self.columns() {
            true => Ok(()),
            false => Err(MixtureError::Columns { found: x.width(), expected: self.columns() }),
        }
    }

    /// What it consists of.
    pub fn parts(&self) -> Parts {
        let Gaussians { covariance, columns, weights, means, covariances, factors } = &self.gaussians;
        let shape = covariance.shape(weights.len(), *columns);
        let tensors = vec![
            Tensor::new("weights", &[weights.len()], weights),
            Tensor::new("means", &[weights.len(), *columns], means),
            Tensor::new("covariances", &shape, covariances),
            Tensor::new("precisions_cholesky", &shape, factors),
        ];
        let attributes = vec![(COVARIANCE.into(), Value::Text(covariance.name().into()))];
        Parts { attributes, ..Parts::new(FORMAT, tensors) }
    }

    /// A model of these parts.
    pub fn of_parts(parts: &Parts) -> Result<MixtureModel, PartsError> {
        let covariance = parts.word(COVARIANCE).and_then(Covariance::named);
        let covariance =
            covariance.ok_or_else(|| PartsError::inconsistent("it does not say what covariances it has"))?;
        let ([k], weights) = parts.tensor("weights")?;
        let ([rows, columns], means) = parts.tensor("means")?;
        let numbers = |name: &str| -> Result<Vec<f64>, PartsError> {
            let tensor = parts.get(name).ok_or_else(|| PartsError::Missing { name: name.into() })?;
            if tensor.shape != covariance.shape(k, columns) {
                return Err(PartsError::Shape { name: name.into(), shape: tensor.shape.clone() });
            }
            let wrong = || PartsError::inconsistent(format!("{name} has numbers of an unknown type"));
            tensor.values.widened().ok_or_else(wrong)
        };
        let (covariances, factors) = (numbers("covariances")?, numbers("precisions_cholesky")?);
        match rows == k && k > 0 && columns > 0 {
            true => {
                Ok(MixtureModel::new(Gaussians { covariance, columns, weights, means, covariances, factors }))
            }
            false => Err(PartsError::inconsistent("its tensors do not belong to one model")),
        }
    }
}

fn sound(found: RowNumbers) -> Result<Vec<f64>, MixtureError> {
    match found.bad {
        Some((row, column, value)) => Err(MixtureError::NotFinite { row, column, value }),
        None => Ok(found.values),
    }
}
