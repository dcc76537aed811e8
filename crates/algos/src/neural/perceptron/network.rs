//! The shape of a network: sizes of its layers, what its units do, and where each number is in the flat vector of parameters.
//!
//! Layer by layer the vector has the weights (row-major, a row for each input and a column for each unit), then the intercepts.

use qjam::Rng;
use std::ops::Range;
use thiserror::Error;

/// What hidden units make of their sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// The sum itself.
    Identity,
    /// `1 / (1 + e⁻ˣ)`.
    Logistic,
    /// The hyperbolic tangent.
    Tanh,
    /// The sum, or 0 if that is larger.
    Relu,
}

/// What the last layer means, and the loss of a row that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Probabilities of more than two classes; the loss is minus the logarithm of the right one's.
    Softmax,
    /// The probability of the second of two classes, with the same loss.
    Logistic,
    /// Numbers; the loss is half of the squared error.
    Squares,
    /// Logarithms of numbers that are not negative; the loss is half of the Poisson deviance.
    Poisson,
}

impl Activation {
    /// All of them.
    pub const ALL: [Activation; 4] =
        [Activation::Identity, Activation::Logistic, Activation::Tanh, Activation::Relu];

    /// Its name in options and files.
    pub fn name(self) -> &'static str {
        match self {
            Activation::Identity => "identity",
            Activation::Logistic => "logistic",
            Activation::Tanh => "tanh",
            Activation::Relu => "relu",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Activation> {
        Activation::ALL.into_iter().find(|one| one.name() == name)
    }
}

impl Output {
    /// All of them.
    pub const ALL: [Output; 4] = [Output::Softmax, Output::Logistic, Output::Squares, Output::Poisson];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Output::Softmax => "softmax",
            Output::Logistic => "logistic",
            Output::Squares => "squares",
            Output::Poisson => "poisson",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Output> {
        Output::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Whether the targets are classes.
    pub fn classifies(self) -> bool {
        matches!(self, Output::Softmax | Output::Logistic)
    }
}

/// Sizes that make no network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "layers of {sizes:?} units make no network: each needs at least one, and all weights must fit into memory"
)]
pub struct ShapeError {
    sizes: Vec<usize>,
}

/// The shape of a network.
#[derive(Clone, Debug, PartialEq, Eq, qjam::Wire)]
pub struct Network {
    sizes: Vec<u64>,
    activation: u32,
    output: u32,
}

/// Where the numbers of a layer are in the vector of parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// What comes in.
    pub inputs: usize,
    /// Its units.
    pub units: usize,
    /// The weights, a row for each input.
    pub weights: Range<usize>,
    /// The intercepts.
    pub intercepts: Range<usize>,
}

impl Network {
    /// A network with these sizes, from the columns of the rows to the outputs.
    pub fn new(sizes: &[usize], activation: Activation, output: Output) -> Result<Network, ShapeError> {
        const NUMBERS_MAX: usize = 1 << 40;
        let wrong = || ShapeError { sizes: sizes.to_vec() };
        let mut numbers = 0_usize;
        for pair in sizes.windows(2) {
            let layer =
                pair[0].checked_add(1).and_then(|rows| rows.checked_mul(pair[1])).ok_or_else(wrong)?;
            numbers = numbers.checked_add(layer).filter(|all| *all <= NUMBERS_MAX).ok_or_else(wrong)?;
        }
        if sizes.len() < 2 || sizes.contains(&0) {
            return Err(wrong());
        }
        let sizes = sizes.iter().map(|size| *size as u64).collect();
        Ok(Network { sizes, activation: activation as u32, output: output as u32 })
    }

    /// Columns of the rows.
    pub fn inputs(&self) -> usize {
        self.sizes[0] as usize
    }

    /// Numbers that the last layer gives for a row.
    pub fn outputs(&self) -> usize {
        self.sizes[self.sizes.len() - 1] as usize
    }

    /// Units of the hidden layers.
    pub fn hidden(&self) -> Vec<usize> {
        self.sizes[1..self.sizes.len() - 1].iter().map(|size| *size as usize).collect()
    }

    /// What hidden units do.
    pub fn activation(&self) -> Activation {
        Activation::ALL[self.activation as usize]
    }

    /// What the last layer means.
    pub fn output(&self) -> Output {
        Output::ALL[self.output as usize]
    }

    /// All layers but the first, which is the rows themselves.
    pub fn layers(&self) -> Vec<Layer> {
        let mut at = 0;
        let layer = |pair: &[u64]| {
            let (inputs, units) = (pair[0] as usize, pair[1] as usize);
            let weights = at..at + inputs * units;
            at = weights.end + units;
            Layer { inputs, units, intercepts: weights.end..at, weights }
        };
        self.sizes.windows(2).map(layer).collect()
    }

    /// Length of the vector of parameters.
    pub fn len(&self) -> usize {
        self.sizes.windows(2).map(|pair| (pair[0] as usize + 1) * pair[1] as usize).sum()
    }

    /// Never: a network has at least one unit.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Parameters to begin from: all numbers of a layer uniform between bounds that keep the spread of sums alike from layer to
    /// layer (Glorot and Bengio).
    pub fn initial(&self, seed: u64) -> Vec<f64> {
        let factor = if self.activation() == Activation::Logistic { 2.0 } else { 6.0 };
        let mut theta = vec![0.0; self.len()];
        for (number, layer) in self.layers().into_iter().enumerate() {
            let bound = (factor / (layer.inputs + layer.units) as f64).sqrt();
            let mut random = Rng::keyed(seed, number as u64, u32::MAX);
            theta[layer.weights.start..layer.intercepts.end]
                .fill_with(|| (2.0 * random.uniform() - 1.0) * bound);
        }
        theta
    }

    /// Sum of the squares of all weights, which the penalty counts; intercepts are free.
    pub fn squared_weights(&self, theta: &[f64]) -> f64 {
        let squares = |layer: Layer| theta[layer.weights].iter().map(|w| w * w).sum::<f64>();
        self.layers().into_iter().map(squares).sum()
    }
}
