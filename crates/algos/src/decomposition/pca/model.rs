//! What fitting leaves: the mean of the rows, the components, and how much rows vary along each.

use super::NAME;
use crate::answers::RowNumbers;
use crate::decomposition::point_up;
use crate::input::{InputError, Problem};
use crate::linear::rows::RowChunk;
use crate::models::{Format, Parts, PartsError, Tensor};
use crate::moments::Scatter;
use crate::projection::{Projection, project};
use qjam::{DataSet, Master};

/// How files have this model.
pub const FORMAT: Format = Format { kind: NAME, version: 1, attributes: &[] };

/// How rows vary.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spectrum {
    /// Variances along the components that are kept.
    pub(super) values: Vec<f64>,
    /// Sum of the variances of all columns.
    pub(super) total: f64,
    /// Rows.
    pub(super) rows: u64,
    /// Most directions in which rows can vary.
    pub(super) rank_max: u64,
}

/// Components of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct PcaModel {
    mean: Vec<f64>,
    /// One after the other.
    components: Vec<f64>,
    variances: Vec<f64>,
    ratios: Vec<f64>,
    /// Mean variance in the directions that are not kept.
    noise: f64,
    rows: u64,
    whiten: bool,
    /// Sums of the products of deviations of all pairs of columns, of models that are made of batches.
    products: Option<Vec<f64>>,
}

impl PcaModel {
    pub(super) fn new(
        mean: Vec<f64>,
        mut components: Vec<f64>,
        spectrum: Spectrum,
        whiten: bool,
    ) -> PcaModel {
        for component in components.chunks_exact_mut(mean.len().max(1)) {
            point_up(component);
        }
        let variances: Vec<f64> = spectrum.values.iter().map(|value| value.max(0.0)).collect();
        let ratio = |variance: &f64| if spectrum.total > 0.0 { variance / spectrum.total } else { f64::NAN };
        let ratios = variances.iter().map(ratio).collect();
        let left = spectrum.rank_max as usize - variances.len();
        let rest = (spectrum.total - variances.iter().sum::<f64>()).max(0.0);
        let noise = if left > 0 { rest / left as f64 } else { 0.0 };
        let rows = spectrum.rows;
        PcaModel { mean, components, variances, ratios, noise, rows, whiten, products: None }
    }

    /// The same with what another batch is added to.
    pub(super) fn with_products(self, products: Vec<f64>) -> PcaModel {
        PcaModel { products: Some(products), ..self }
    }

    /// What the rows came to, if the model was made of batches.
    pub(super) fn scatter(&self) -> Option<Scatter> {
        let products = self.products.clone()?;
        Some(Scatter { rows: self.rows, mean: self.mean.clone(), products, bad: None })
    }

    /// Columns of the rows.
    pub fn columns(&self) -> usize {
        self.mean.len()
    }

    /// How many components are kept.
    pub fn len(&self) -> usize {
        self.variances.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.variances.is_empty()
    }

    /// A component, of length 1.
    pub fn component(&self, index: usize) -> &[f64] {
        &self.components[index * self.columns()..][..self.columns()]
    }

    /// Variances of the rows along the components.
    pub fn variances(&self) -> &[f64] {
        &self.variances
    }

    /// The same as shares of the variance in all directions.
    pub fn ratios(&self) -> &[f64] {
        &self.ratios
    }

    /// What coordinates are divided by: ones, or with whitening the standard deviations.
    fn scales(&self) -> Vec<f64> {
        let scale = |variance: &f64| if self.whiten { variance.sqrt().max(f64::EPSILON) } else { 1.0 };
        self.variances.iter().map(scale).collect()
    }

    fn projection(&self) -> Projection {
        let rows = self.components.chunks_exact(self.columns().max(1)).zip(self.scales());
        let vectors: Vec<f64> = rows.flat_map(|(row, scale)| row.iter().map(move |v| v / scale)).collect();
        Projection::new(&vectors, self.mean.clone(), vec![0.0; self.len()])
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
        let (scales, columns) = (self.scales(), self.columns());
        let mut rows = Vec::with_capacity(coordinates.len() / self.len().max(1) * columns);
        for point in coordinates.chunks_exact(self.len().max(1)) {
            let from = rows.len();
            rows.extend_from_slice(&self.mean);
            let parts = point.iter().zip(&scales).zip(self.components.chunks_exact(columns.max(1)));
            for ((coordinate, scale), component) in parts {
                let factor = coordinate * scale;
                rows[from..].iter_mut().zip(component).for_each(|(value, along)| *value += factor * along);
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
        let k = [self.len()];
        let mut tensors = vec![
            Tensor::new("components", &[self.len(), self.columns()], &self.components),
            Tensor::new("mean", &[self.columns()], &self.mean),
            Tensor::new("explained_variance", &k, &self.variances),
            Tensor::new("explained_variance_ratio", &k, &self.ratios),
            Tensor::new("noise_variance", &[1], &[self.noise]),
            Tensor::new("samples", &[1], &[self.rows as f64]),
            Tensor::new("whiten", &[1], &[f64::from(u8::from(self.whiten))]),
        ];
        if let Some(products) = &self.products {
            tensors.push(Tensor::new("products", &[self.columns(), self.columns()], products));
        }
        Parts::new(FORMAT, tensors)
    }

    /// A model of these parts.
    pub fn of_parts(parts: &Parts) -> Result<PcaModel, PartsError> {
        let ([k, columns], components) = parts.tensor("components")?;
        let ([_], mean) = parts.tensor("mean")?;
        let ([_], variances) = parts.tensor("explained_variance")?;
        let ([_], ratios) = parts.tensor("explained_variance_ratio")?;
        let single = |name: &str| match parts.tensor::<1>(name)?.1[..] {
            [value] => Ok(value),
            _ => Err(PartsError::inconsistent(format!("{name} is not one number"))),
        };
        let (noise, rows, whiten) =
            (single("noise_variance")?, single("samples")? as u64, single("whiten")? != 0.0);
        let products = match parts.get("products") {
            Some(_) => Some(parts.tensor::<2>("products")?.1),
            None => None,
        };
        let are_squares = products.as_ref().is_none_or(|products| products.len() == columns * columns);
        match [mean.len(), variances.len(), ratios.len()] == [columns, k, k] && are_squares {
            true => Ok(PcaModel { mean, components, variances, ratios, noise, rows, whiten, products }),
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
