//! Batches of rows on their way through the network and back.
//!
//! Products are those of [`kernels::multiply`](crate::kernels::multiply), what a layer does to its sums is one pass over the batch. All
//! sums run over the rows in order, so the bits depend on rows and parameters and not on the width of a register. Numbers are
//! those of the rows, of 32 or 64 bits; gradients are handed over as 64-bit numbers after a few hundred rows.

use super::network::{Activation, Layer, Network};
use super::numbers::Kernel;
use super::source::{Picked, Source};
use crate::kernels::Level;
use crate::kernels::aligned::Aligned;
use crate::kernels::multiply::{Left, Size, add_product};

/// Rows that go through the network together.
pub(super) const ROWS: usize = 192;
/// Rows after which gradients are handed over: sums of more numbers of 32 bits would lose digits.
const FLUSH_ROWS: usize = 768;
/// Units are rounded up to whole registers of 32-bit numbers, for every level of instructions the same.
const REGISTER: usize = 16;

/// One layer with its weights as the products want them, and what a batch leaves in it.
#[derive(Debug)]
pub(super) struct Weighted<T> {
    place: Layer,
    /// Units, rounded up; those added have weight 0.
    pub(super) width: usize,
    /// inputs × width.
    weights: Aligned<T>,
    bias: Aligned<T>,
    /// units × width of the layer before; empty in the first.
    transposed: Aligned<T>,
    /// Sums at first, then what the units make of them.
    pub(super) values: Aligned<T>,
    /// The derivative of the loss by the sums.
    pub(super) errors: Aligned<T>,
    gradient: Aligned<T>,
    gradient_bias: Aligned<T>,
}

/// A network that is ready to be run, and memory for a batch.
#[derive(Debug)]
pub struct Running<T> {
    network: Network,
    /// What the weights were made from: the chunks of a round have the same, and so have the batches of a prediction.
    theta: Vec<f64>,
    pub(super) layers: Vec<Weighted<T>>,
    gathered: Aligned<T>,
    /// One number for each output of a batch, or for each row.
    pub(super) doubles: [Vec<f64>; 2],
    since_flush: usize,
}

impl<T: Kernel> Running<T> {
    /// A network of this shape.
    pub(super) fn new(network: &Network) -> Running<T> {
        let places = network.layers();
        let outputs = ROWS * network.outputs();
        let mut before = 0;
        let layer = |place: Layer| {
            let width = place.units.next_multiple_of(REGISTER);
            let (inputs, units) = (place.inputs, place.units);
            let weighted = Weighted {
                width,
                weights: Aligned::zeros(inputs * width),
                bias: Aligned::zeros(width),
                transposed: Aligned::zeros(units * before),
                values: Aligned::zeros(ROWS * width),
                errors: Aligned::zeros(ROWS * width),
                gradient: Aligned::zeros(inputs * width),
                gradient_bias: Aligned::zeros(width),
                place,
            };
            before = width;
            weighted
        };
        Running {
            layers: places.into_iter().map(layer).collect(),
            network: network.clone(),
            theta: vec![],
            gathered: Aligned::default(),
            doubles: [vec![0.0; outputs], vec![0.0; outputs]],
            since_flush: 0,
        }
    }

    /// The shape.
    pub(super) fn network(&self) -> &Network {
        &self.network
    }

    /// Takes parameters, unless they are those it has.
    pub(super) fn set(&mut self, theta: &[f64]) {
        assert_eq!(theta.len(), self.network.len(), "parameters of {:?}", self.network);
        let same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits();
        if self.theta.len() == theta.len() && self.theta.iter().zip(theta).all(same) {
            return;
        }
        self.theta.clear();
        self.theta.extend_from_slice(theta);
        let mut before = 0;
        for layer in &mut self.layers {
            let units = layer.place.units;
            let from = &theta[layer.place.weights.clone()];
            for (to, from) in layer.weights.chunks_exact_mut(layer.width).zip(from.chunks_exact(units)) {
                to.iter_mut().zip(from).for_each(|(to, from)| *to = T::from_f64(*from));
            }
            let from = &theta[layer.place.intercepts.clone()];
            layer.bias.iter_mut().zip(from).for_each(|(to, from)| *to = T::from_f64(*from));
            if before > 0 {
                for (input, row) in layer.weights.chunks_exact(layer.width).enumerate() {
                    for (unit, weight) in row[..units].iter().enumerate() {
                        layer.transposed[unit * before + input] = *weight;
                    }
                }
            }
            before = layer.width;
        }
    }

    /// Takes rows through the network. The last layer has its sums, the others what their units make of these.
    pub(super) fn forward<C: Source<Number = T>>(&mut self, level: Level, x: &C, picked: Picked<'_>) {
        let rows = picked.len();
        if picked.is_scattered() && C::IN_FULL && self.gathered.is_empty() {
            self.gathered = Aligned::zeros(ROWS * self.network.inputs());
        }
        let activation = self.network.activation();
        let last = self.layers.len() - 1;
        for number in 0..=last {
            let (done, todo) = self.layers.split_at_mut(number);
            let Weighted { place, width, weights, bias, values, .. } = &mut todo[0];
            let values = &mut values[..rows * *width];
            values.chunks_exact_mut(*width).for_each(|row| row.copy_from_slice(bias));
            match done.last() {
                None => {
                    let taken = x.taken(picked, &mut self.gathered);
                    x.add_times(level, picked, taken, (weights, *width), values);
                }
                Some(before) => {
                    let size = Size { rows, inner: place.inputs, cols: *width };
                    let left = Left::Rows { values: &before.values[..], stride: before.width };
                    add_product(level, size, left, (weights, *width), (values, *width));
                }
            }
            if number < last {
                T::activate(level, activation, values);
            }
        }
    }

    /// Goes back from the errors of the last layer and sums the gradient of all parameters, which [`Running::flush`] hands over.
    pub(super) fn backward<C: Source<Number = T>>(
        &mut self,
        level: Level,
        x: &C,
        picked: Picked<'_>,
        sums: &mut [f64],
    ) {
        let rows = picked.len();
        let activation = self.network.activation();
        for number in (0..self.layers.len()).rev() {
            let (done, todo) = self.layers.split_at_mut(number);
            let Weighted { place, width, transposed, errors, gradient, gradient_bias, .. } = &mut todo[0];
            let errors = &errors[..rows * *width];
            T::add_rows(level, errors, gradient_bias);
            let Some(before) = done.last_mut() else {
                let taken = x.taken_again(picked, &self.gathered);
                x.add_outer(level, picked, taken, (errors, *width), gradient);
                continue;
            };
            let size = Size { rows: place.inputs, inner: rows, cols: *width };
            let left = Left::Columns { values: &before.values[..], stride: before.width };
            add_product(level, size, left, (errors, *width), (gradient, *width));
            let size = Size { rows, inner: place.units, cols: before.width };
            let left = Left::Rows { values: errors, stride: *width };
            let back = &mut before.errors[..rows * before.width];
            back.fill(T::default());
            add_product(level, size, left, (transposed, before.width), (back, before.width));
            T::slope(level, activation, &before.values[..rows * before.width], back);
        }
        self.since_flush += rows;
        if self.since_flush + ROWS > FLUSH_ROWS {
            self.flush(sums);
        }
    }

    /// Adds the gradient since the last time to sums of 64 bits, in the order of the parameters.
    pub(super) fn flush(&mut self, sums: &mut [f64]) {
        for Weighted { place, width, gradient, gradient_bias, .. } in &mut self.layers {
            let to = sums[place.weights.clone()].chunks_exact_mut(place.units);
            for (to, from) in to.zip(gradient.chunks_exact(*width)) {
                to.iter_mut().zip(from).for_each(|(to, from)| *to += from.to_f64());
            }
            let to = &mut sums[place.intercepts.clone()];
            to.iter_mut().zip(gradient_bias.iter()).for_each(|(to, from)| *to += from.to_f64());
            gradient.fill(T::default());
            gradient_bias.fill(T::default());
        }
        self.since_flush = 0;
    }

    /// The sums of the last layer for so many rows, without what rounds them up.
    pub(super) fn sums(&self, rows: usize) -> impl Iterator<Item = &[T]> {
        let layer = &self.layers[self.layers.len() - 1];
        let units = layer.place.units;
        layer.values.chunks_exact(layer.width).take(rows).map(move |row| &row[..units])
    }
}

/// What [`Kernel::activate`] and [`Kernel::slope`] do with one kind of unit is decided once for a batch.
pub(super) fn is_bent(activation: Activation) -> bool {
    activation != Activation::Identity
}
