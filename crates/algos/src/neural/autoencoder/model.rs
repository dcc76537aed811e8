//! A trained network: what it sees in rows, and how it reproduces them.

use super::layers::{Batch, Weights};
use super::params::Shape;
use crate::kernels::Level;
use crate::kernels::tanh::tanh_in_place;
use thiserror::Error;

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
        self.forward(rows, |batch, rows| values.extend(batch.hidden_rows(rows).flatten()))?;
        Ok(values)
    }

    /// What the network makes of row-major rows.
    pub fn reconstruct(&self, rows: &[f64]) -> Result<Vec<f64>, ModelError> {
        let mut values = Vec::with_capacity(rows.len());
        self.forward(rows, |batch, rows| values.extend_from_slice(batch.output_rows(rows)))?;
        tanh_in_place(Level::best(), &mut values);
        Ok(values)
    }

    fn forward(&self, rows: &[f64], mut seen: impl FnMut(&Batch, usize)) -> Result<(), ModelError> {
        let visible = self.shape.visible();
        if !rows.len().is_multiple_of(visible) {
            return Err(ModelError::Rows { values: rows.len(), visible });
        }
        let (mut weights, mut batch) = (Weights::new(self.shape), Batch::new(self.shape));
        weights.set(&self.theta);
        for x in rows.chunks(Batch::ROWS * visible) {
            batch.forward(Level::best(), &weights, x);
            seen(&batch, x.len() / visible);
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
    fn wrong_sizes_are_refused_with_the_right_ones() {
        let shape = Shape::new(5, 3).unwrap();
        assert!(matches!(Autoencoder::new(shape, vec![0.0; 7]), Err(ModelError::Theta { expected: 38, .. })));
        let model = Autoencoder::new(shape, initial(&shape, 1)).unwrap();
        assert_eq!(model.reconstruct(&[0.0; 7]), Err(ModelError::Rows { values: 7, visible: 5 }));
        assert_eq!(model.activations(&[]), Ok(vec![]));
    }
}
