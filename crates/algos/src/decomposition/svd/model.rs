//! What fitting leaves: the components, their singular values, and how much rows vary along each.

use super::NAME;
use crate::answers::RowNumbers;
use crate::decomposition::point_up;
use crate::input::{InputError, Problem};
use crate::kernels::vectors::add_scaled;
use crate::linear::rows::RowChunk;
use crate::models::{Format, Parts, PartsError, Tensor};
use crate::moments::Scatter;
use crate::projection::{Projection, project};
use qjam::{DataSet, Master};

/// How files have this model.
pub const FORMAT: Format = Format { kind: NAME, version: 1, attributes: &[] };

/// The first components of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct SvdModel {
    columns: usize,
    /// One after the other.
    components: Vec<f64>,
    singular_values: Vec<f64>,
    variances: Vec<f64>,
    ratios: Vec<f64>,
}

impl SvdModel {
    /// Of components, the squares of their singular values, sums of the squared deviations of rows along them, and what is known of
    /// the columns. Those sums come from centred products: taken off squares, large means would leave no digits of them.
    pub(super) fn new(
        mut components: Vec<f64>,
        squares: &[f64],
        spread: &[f64],
        columns: &Scatter,
    ) -> SvdModel {
        let (d, rows) = (columns.mean.len(), columns.rows as f64);
        components.chunks_exact_mut(d).for_each(point_up);
        let singular_values: Vec<f64> = squares.iter().map(|square| square.max(0.0).sqrt()).collect();
        let variances: Vec<f64> = spread.iter().map(|sum| sum.max(0.0) / rows).collect();
        let each = if columns.products.len() == d { 1 } else { d + 1 };
        let total = columns.products.iter().step_by(each).sum::<f64>() / rows;
        let ratios = variances.iter().map(|variance| variance / total).collect();
        SvdModel { columns: d, components, singular_values, variances, ratios }
    }

    /// Columns of the rows.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// How many components there are.
    pub fn len(&self) -> usize {
        self.singular_values.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.singular_values.is_empty()
    }

    /// A component, of length 1.
    pub fn component(&self, index: usize) -> &[f64] {
        &self.components[index * self.columns..][..self.columns]
    }

    /// The largest singular values.
    pub fn singular_values(&self) -> &[f64] {
        &self.singular_values
    }

    /// Variances of the rows along the components, as shares of the variance in all directions.
    pub fn ratios(&self) -> &[f64] {
        &self.ratios
    }

    fn projection(&self) -> Projection {
        Projection::new(&self.components, vec![], vec![0.0; self.len()])
    }

    /// The coordinates of rows along the components.
    pub fn transform<C: RowChunk>(&self, master: &Master, data: &DataSet<C>) -> Result<Vec<f64>, InputError> {
        self.must_fit(&data.chunk(0).map_err(qjam::Error::from)?)?;
        sound(master.run(project::<C>, &self.projection(), data)?)
    }

    /// The same for one chunk, on this thread.
    pub fn transform_of<C: RowChunk>(&self, x: &C) -> Result<Vec<f64>, InputError> {
        self.must_fit(x)?;
        sound(self.projection().apply(x, |value| value))
    }

    /// The rows that have these coordinates.
    pub fn inverse(&self, coordinates: &[f64]) -> Vec<f64> {
        let mut rows = vec![0.0; coordinates.len() / self.len().max(1) * self.columns];
        let points = coordinates.chunks_exact(self.len().max(1));
        for (row, point) in rows.chunks_exact_mut(self.columns.max(1)).zip(points) {
            for (coordinate, component) in point.iter().zip(self.components.chunks_exact(self.columns)) {
                add_scaled(row, *coordinate, component);
            }
        }
        rows
    }

    fn must_fit<C: RowChunk>(&self, x: &C) -> Result<(), InputError> {
        match x.width() == self.columns {
            true => Ok(()),
            false => Err(Problem::Columns { found: x.width(), expected: self.columns }.of(NAME)),
        }
    }

    /// What it consists of.
    pub fn parts(&self) -> Parts {
        let k = [self.len()];
        let tensors = vec![
            Tensor::new("components", &[self.len(), self.columns], &self.components),
            Tensor::new("singular_values", &k, &self.singular_values),
            Tensor::new("explained_variance", &k, &self.variances),
            Tensor::new("explained_variance_ratio", &k, &self.ratios),
        ];
        Parts::new(FORMAT, tensors)
    }

    /// A model of these parts.
    pub fn of_parts(parts: &Parts) -> Result<SvdModel, PartsError> {
        let ([k, columns], components) = parts.tensor("components")?;
        let ([_], singular_values) = parts.tensor("singular_values")?;
        let ([_], variances) = parts.tensor("explained_variance")?;
        let ([_], ratios) = parts.tensor("explained_variance_ratio")?;
        match [singular_values.len(), variances.len(), ratios.len()] == [k; 3] && k > 0 && columns > 0 {
            true => Ok(SvdModel { columns, components, singular_values, variances, ratios }),
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
