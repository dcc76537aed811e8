//! The function that runs on a chunk: sums over its rows, from which the master forms cost and gradient.
//!
//! With `a2 = tanh(W1 x + b1)` and `a3 = tanh(W2 a2 + b2)` the error of the output layer is
//! `d3 = (a3 - x)(1 - a3²)`. The error of the hidden layer has a part that depends on the mean activation over *all*
//! rows, which no chunk knows; but that part is linear in `1 - a2²`, so the chunk returns the sums of
//! `(W2ᵀ d3)(1 - a2²) xᵀ` and of `(1 - a2²) xᵀ` apart. One round is enough, and the total is exact for every cut.
//!
//! The batches inside a chunk are the business of `layers`; the bits depend on the rows alone.

use super::layers::{Batch, Totals, Weights};
use super::params::Shape;
use crate::kernels::Level;
use crate::kernels::nearest::Real;
use qjam::Dense;
use std::cell::RefCell;

/// Unnormalised sums over rows. Matrices are row-major, hidden × visible.
#[derive(Clone, Debug, PartialEq, qjam::Wire, qjam::Sum)]
pub struct Sums {
    /// Number of rows.
    pub rows: u64,
    /// `‖x - a3‖²`.
    pub recon: f64,
    /// `a2`.
    pub activation: Vec<f64>,
    /// `(W2ᵀ d3)(1 - a2²) xᵀ`.
    pub g_w1: Vec<f64>,
    /// `a2 d3ᵀ`: the gradient of W2, transposed.
    pub g_w2: Vec<f64>,
    /// `(W2ᵀ d3)(1 - a2²)`.
    pub g_b1: Vec<f64>,
    /// `d3`.
    pub g_b2: Vec<f64>,
    /// `(1 - a2²) xᵀ`.
    pub m: Vec<f64>,
    /// `1 - a2²`.
    pub m_b: Vec<f64>,
}

impl Sums {
    /// Most bytes that they take on their way.
    pub(super) fn bytes_max(shape: &Shape) -> u64 {
        /// Beside the numbers: lengths, and where each vector begins.
        const FRAME: u64 = 192;
        let numbers = 3 * shape.weights() as u64 + 3 * shape.hidden() as u64 + shape.visible() as u64;
        numbers.saturating_mul(8).saturating_add(FRAME)
    }
}

/// Sums over the rows of a chunk, for a network that has as many visible units as the chunk has columns; the number of
/// hidden ones follows from the length of `theta`.
///
/// Panics, which fails the round with this message, if no network has that length.
#[qjam::map]
pub fn sums(theta: &[f64], x: &Dense<f64>) -> Sums {
    match Shape::of_theta(theta.len(), x.cols()) {
        Some(shape) => sums_of_slice(Level::best(), shape, theta, x.as_slice()),
        None => panic!("{} parameters are no autoencoder for rows of {} columns", theta.len(), x.cols()),
    }
}

/// The same for rows in 32 bits, which are widened batch by batch: bits are those of the rows in 64 bits.
#[qjam::map]
pub fn sums_of_narrow(theta: &[f64], x: &Dense<f32>) -> Sums {
    match Shape::of_theta(theta.len(), x.cols()) {
        Some(shape) => sums_of_slice(Level::best(), shape, theta, x.as_slice()),
        None => panic!("{} parameters are no autoencoder for rows of {} columns", theta.len(), x.cols()),
    }
}

/// Sums over row-major rows of `shape.visible()` values each, on a chosen level of vector instructions.
///
/// Panics if `theta` has another length than the shape's, or if the rows are not whole.
pub fn sums_of_slice<T: Real>(level: Level, shape: Shape, theta: &[f64], rows: &[T]) -> Sums {
    thread_local! {
        /// Chunks are small and come by the hundred: making scratch anew for each costs a tenth of the time.
        static SCRATCH: RefCell<Option<Scratch>> = const { RefCell::new(None) };
    }
    SCRATCH.with_borrow_mut(|scratch| match scratch {
        Some(scratch) if scratch.batch.shape() == shape => scratch.sums(level, theta, rows),
        other => other.insert(Scratch::new(shape)).sums(level, theta, rows),
    })
}

/// Everything a chunk needs besides its result.
struct Scratch {
    /// The parameters that `weights` were made from: chunks of one round have the same, and making them takes as long as
    /// a dozen rows.
    theta: Vec<f64>,
    weights: Weights,
    batch: Batch,
    totals: Totals,
}

impl Scratch {
    fn new(shape: Shape) -> Scratch {
        Scratch {
            theta: Vec::new(),
            weights: Weights::new(shape),
            batch: Batch::new(shape),
            totals: Totals::new(shape),
        }
    }

    fn sums<T: Real>(&mut self, level: Level, theta: &[f64], rows: &[T]) -> Sums {
        let Scratch { theta: last, weights, batch, totals } = self;
        let shape = batch.shape();
        let (visible, hidden) = (shape.visible(), shape.hidden());
        assert_eq!(rows.len() % visible, 0, "{} values are no whole number of rows of {visible}", rows.len());
        // All of them, without a branch for each: usually they are the same.
        let differences = last.iter().zip(theta).fold(0, |all, (a, b)| all | (a.to_bits() ^ b.to_bits()));
        if last.len() != theta.len() || differences != 0 {
            weights.set(theta);
            last.clear();
            last.extend_from_slice(theta);
        }
        totals.clear();
        for x in rows.chunks(Batch::rows_of(rows.len() / visible) * visible) {
            batch.forward(level, weights, x);
            batch.backward(level, weights, totals);
            batch.add_gradients(level, totals);
        }
        let [g_w1, g_w2, m] = totals.take_matrices();
        Sums {
            rows: (rows.len() / visible) as u64,
            recon: totals.recon[..visible].iter().sum(),
            activation: totals.activation[..hidden].to_vec(),
            g_w1,
            g_w2,
            g_b1: totals.g_b1[..hidden].to_vec(),
            g_b2: totals.g_b2[..visible].to_vec(),
            m,
            m_b: totals.m_b[..hidden].to_vec(),
        }
    }
}
