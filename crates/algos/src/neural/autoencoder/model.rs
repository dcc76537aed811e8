//! A trained network: what it sees in rows, and how it reproduces them.

use super::layers::{Batch, Weights};
use super::params::Shape;
use crate::kernels::Level;
use crate::models::{self, FileError, Format, Notes, Parts, PartsError, Tensor};
use std::path::Path;
use thiserror::Error;

/// How files have this model.
pub const FORMAT: Format = Format { kind: "autoencoder", version: 1, attributes: &[] };

/// What is wrong with something handed to a network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ModelError {
    /// A parameter vector of another shape.
    #[error(
        "autoencoder: {len} parameters for {visible} visible and {hidden} hidden units; the vector has {expected}"
    )]
    Theta {
        /// Length given.
        len: usize,
        /// Length needed.
        expected: usize,
        /// Visible units.
        visible: usize,
        /// Hidden units.
        hidden: usize,
    },
    /// Rows of another width.
    #[error(
        "autoencoder: {values} values are no whole number of rows of {visible}; give row-major rows of that width"
    )]
    Rows {
        /// Number of values given.
        values: usize,
        /// Values per row.
        visible: usize,
    },
}

/// A network with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Autoencoder {
    shape: Shape,
    theta: Vec<f64>,
}

impl Autoencoder {
    /// A network of this shape with these parameters: W1, W2 (row-major), b1, b2.
    pub fn new(shape: Shape, theta: Vec<f64>) -> Result<Autoencoder, ModelError> {
        check_theta(shape, &theta)?;
        Ok(Autoencoder { shape, theta })
    }

    /// Its shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Its parameters.
    pub fn theta(&self) -> &[f64] {
        &self.theta
    }

    /// The input weights of the hidden units, hidden × visible: what [`features`](crate::images::features) draws.
    pub fn features(&self) -> &[f64] {
        self.shape.parts(&self.theta)[0]
    }

    /// The hidden units' activations in (-1, 1) for row-major rows, one row of activations each.
    pub fn activations(&self, rows: &[f64]) -> Result<Vec<f64>, ModelError> {
        let mut values = Vec::new();
        self.forward(rows, |batch, _| values.extend(batch.hidden_rows().flatten()))?;
        Ok(values)
    }

    /// What the network makes of row-major rows.
    pub fn reconstruct(&self, rows: &[f64]) -> Result<Vec<f64>, ModelError> {
        let mut values = Vec::with_capacity(rows.len());
        self.forward(rows, |batch, weights| {
            batch.reconstruct(Level::best(), weights);
            values.extend(batch.output_rows().flatten());
        })?;
        Ok(values)
    }

    /// Writes the network to a file, whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), FileError> {
        self.save_with(path, &Notes::default())
    }

    /// Writes the network to a file with notes on how it came about.
    pub fn save_with(&self, path: impl AsRef<Path>, notes: &Notes) -> Result<(), FileError> {
        models::save(path.as_ref(), &self.parts(), notes)
    }

    /// Reads a network that [`Autoencoder::save`] wrote.
    pub fn load(path: impl AsRef<Path>) -> Result<Autoencoder, FileError> {
        let (parts, _) = models::load(path.as_ref(), FORMAT)?;
        let damaged = |e: PartsError| FileError::Damaged { path: path.as_ref().into(), what: e.to_string() };
        Autoencoder::of_parts(&parts).map_err(damaged)
    }

    /// What it consists of.
    pub fn parts(&self) -> Parts {
        let (visible, hidden) = (self.shape.visible(), self.shape.hidden());
        let [w1, w2, b1, b2] = self.shape.parts(&self.theta);
        let tensors = vec![
            Tensor::new("w1", &[hidden, visible], w1),
            Tensor::new("w2", &[visible, hidden], w2),
            Tensor::new("b1", &[hidden], b1),
            Tensor::new("b2", &[visible], b2),
        ];
        Parts::new(FORMAT, tensors)
    }

    /// A network of these parts.
    pub fn of_parts(parts: &Parts) -> Result<Autoencoder, PartsError> {
        let ([hidden, visible], mut theta) = parts.tensor("w1")?;
        let (shape2, w2) = parts.tensor::<2>("w2")?;
        let ([of_hidden], b1) = parts.tensor("b1")?;
        let ([of_visible], b2) = parts.tensor("b2")?;
        if shape2 != [visible, hidden] || of_hidden != hidden || of_visible != visible {
            return Err(PartsError::inconsistent("its tensors do not belong to one network"));
        }
        theta.extend([w2, b1, b2].concat());
        let shape = Shape::new(visible, hidden).map_err(PartsError::inconsistent)?;
        Autoencoder::new(shape, theta).map_err(PartsError::inconsistent)
    }

    fn forward(&self, rows: &[f64], mut seen: impl FnMut(&mut Batch, &Weights)) -> Result<(), ModelError> {
        let visible = self.shape.visible();
        if !rows.len().is_multiple_of(visible) {
            return Err(ModelError::Rows { values: rows.len(), visible });
        }
        let (mut weights, mut batch) = (Weights::new(self.shape), Batch::new(self.shape));
        weights.set(&self.theta);
        for x in rows.chunks(Batch::rows_of(rows.len() / visible) * visible) {
            batch.forward(Level::best(), &weights, x);
            seen(&mut batch, &weights);
        }
        Ok(())
    }
}

pub(super) fn check_theta(shape: Shape, theta: &[f64]) -> Result<(), ModelError> {
    if theta.len() == shape.theta_len() {
        return Ok(());
    }
    Err(ModelError::Theta {
        len: theta.len(),
        expected: shape.theta_len(),
        visible: shape.visible(),
        hidden: shape.hidden(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neural::autoencoder::{initial, sums_of_slice};

    #[test]
    fn reconstruction_misses_by_what_the_sums_say() {
        let shape = Shape::new(5, 3).unwrap();
        let model = Autoencoder::new(shape, initial(&shape, 1)).unwrap();
        let rows: Vec<f64> = (0..5 * 150).map(|i| f64::from(i % 11) * 0.1 - 0.5).collect();
        let sums = sums_of_slice(Level::best(), shape, model.theta(), &rows);
        let output = model.reconstruct(&rows).unwrap();
        let miss: f64 = rows.iter().zip(&output).map(|(x, a)| (x - a) * (x - a)).sum();
        assert!((miss - sums.recon).abs() < 1e-12 * miss);
        let activations = model.activations(&rows).unwrap();
        assert_eq!(activations.len(), 3 * 150);
        let first: f64 = activations.iter().step_by(3).sum();
        assert!((first - sums.activation[0]).abs() < 1e-12 * first.abs());
    }

    #[test]
    fn a_network_comes_back_from_its_file() {
        let shape = Shape::new(5, 3).unwrap();
        let model = Autoencoder::new(shape, initial(&shape, 1)).unwrap();
        let file = crate::models::tests::Temporary::new("autoencoder");
        model.save(&file.0).unwrap();
        assert_eq!(Autoencoder::load(&file.0).unwrap(), model);
        let other = crate::clustering::kmeans::Model::<f64>::load(&file.0).unwrap_err();
        assert!(
            other.to_string().contains("of kind autoencoder, and one of kind kmeans is needed"),
            "{other}"
        );
    }

    #[test]
    fn wrong_sizes_are_refused_with_the_right_ones() {
        let shape = Shape::new(5, 3).unwrap();
        assert!(matches!(Autoencoder::new(shape, vec![0.0; 7]), Err(ModelError::Theta { expected: 38, .. })));
        let model = Autoencoder::new(shape, initial(&shape, 1)).unwrap();
        assert_eq!(model.reconstruct(&[0.0; 7]), Err(ModelError::Rows { values: 7, visible: 5 }));
        assert_eq!(model.activations(&[]), Ok(vec![]));
    }
}
