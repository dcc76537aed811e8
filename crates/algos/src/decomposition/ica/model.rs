//! What fitting leaves: the mean of the rows, what unmixes them, and what mixes sources again.

use super::NAME;
use super::params::Whiten;
use crate::answers::RowNumbers;
use crate::input::{InputError, Problem};
use crate::kernels::vectors::add_scaled;
use crate::linear::rows::RowChunk;
use crate::models::{Format, Parts, PartsError, Tensor};
use crate::projection::{Projection, project};
use qjam::{DataSet, Master};

/// How files have this model.
pub const FORMAT: Format = Format { kind: NAME, version: 1, attributes: &[] };

/// Independent components of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct IcaModel {
    /// What is taken off rows; zeros if nothing is.
    mean: Vec<f64>,
    /// Sources as sums of columns, one after the other.
    components: Vec<f64>,
    /// Columns as sums of sources, one after the other.
    mixing: Vec<f64>,
    /// White coordinates as sums of columns, one after the other; none if rows were white.
    whitening: Vec<f64>,
}

impl IcaModel {
    /// Of orthonormal directions among white coordinates, which have directions among columns and lengths there.
    pub(super) fn new(
        mean: &[f64],
        w: &[f64],
        directions: &[f64],
        lengths: &[f64],
        (whiten, rows): (Whiten, f64),
    ) -> IcaModel {
        let d = mean.len();
        if whiten == Whiten::Never {
            let mixing = (0..d * d).map(|at| w[at % d * d + at / d]).collect();
            return IcaModel { mean: mean.to_vec(), components: w.to_vec(), mixing, whitening: vec![] };
        }
        let k = lengths.len();
        let root = if whiten == Whiten::UnitVariance { rows.sqrt() } else { 1.0 };
        let (mut components, mut mixing) = (vec![0.0; k * d], vec![0.0; d * k]);
        for (source, (row, component)) in w.chunks_exact(k).zip(components.chunks_exact_mut(d)).enumerate() {
            for ((share, length), direction) in row.iter().zip(lengths).zip(directions.chunks_exact(d)) {
                add_scaled(component, share * root / length, direction);
                for (column, along) in direction.iter().enumerate() {
                    mixing[column * k + source] += along * length * share / root;
                }
            }
        }
        let per = directions.chunks_exact(d).zip(lengths);
        let whitening = per.flat_map(|(row, length)| row.iter().map(move |value| value / length)).collect();
        IcaModel { mean: mean.to_vec(), components, mixing, whitening }
    }

    /// Columns of the rows.
    pub fn columns(&self) -> usize {
        self.mean.len()
    }

    /// How many components there are.
    pub fn len(&self) -> usize {
        self.components.len() / self.columns().max(1)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.components.is_empty()
    }

    fn projection(&self) -> Projection {
        Projection::new(&self.components, self.mean.clone(), vec![0.0; self.len()])
    }

    /// The sources of rows.
    pub fn transform<C: RowChunk>(&self, master: &Master, data: &DataSet<C>) -> Result<Vec<f64>, InputError> {
        self.must_fit(&data.chunk(0).map_err(qjam::Error::from)?)?;
        sound(master.run(project::<C>, &self.projection(), data)?)
    }

    /// The same for one chunk, on this thread.
    pub fn transform_of<C: RowChunk>(&self, x: &C) -> Result<Vec<f64>, InputError> {
        self.must_fit(x)?;
        sound(self.projection().apply(x, |value| value))
    }

    /// The rows that have these sources.
    pub fn inverse(&self, sources: &[f64]) -> Vec<f64> {
        let k = self.len().max(1);
        let mut rows = Vec::with_capacity(sources.len() / k * self.columns());
        for source in sources.chunks_exact(k) {
            for (mean, mix) in self.mean.iter().zip(self.mixing.chunks_exact(k)) {
                rows.push(mix.iter().zip(source).fold(*mean, |sum, (mix, source)| sum + mix * source));
            }
        }
        rows
    }

    fn must_fit<C: RowChunk>(&self, x: &C) -> Result<(), InputError> {
        match x.width() == self.columns() {
            true => Ok(()),
            false => Err(Problem::Columns { found: x.width(), expected: self.columns() }.of(NAME)),
        }
    }

    /// What it consists of.
    pub fn parts(&self) -> Parts {
        let (k, d) = (self.len(), self.columns());
        let tensors = vec![
            Tensor::new("components", &[k, d], &self.components),
            Tensor::new("mixing", &[d, k], &self.mixing),
            Tensor::new("mean", &[d], &self.mean),
            Tensor::new("whitening", &[self.whitening.len() / d.max(1), d], &self.whitening),
        ];
        Parts::new(FORMAT, tensors)
    }

    /// A model of these parts.
    pub fn of_parts(parts: &Parts) -> Result<IcaModel, PartsError> {
        let ([k, d], components) = parts.tensor("components")?;
        let ([rows, sources], mixing) = parts.tensor("mixing")?;
        let ([columns], mean) = parts.tensor("mean")?;
        let ([_, width], whitening) = parts.tensor("whitening")?;
        match (rows, sources, columns, width) == (d, k, d, d) && k > 0 && d > 0 {
            true => Ok(IcaModel { mean, components, mixing, whitening }),
            false => Err(PartsError::inconsistent("its tensors do not belong to one model")),
        }
    }
}

fn sound(found: RowNumbers) -> Result<Vec<f64>, InputError> {
    match found.bad {
        Some((row, column, value)) => Err(Problem::NotFinite { row, column, value }.of(NAME)),
        None => Ok(found.values),
    }
}
